/*
 * named_unnamed.c - statements without name, and SQL that forgets names.
 *
 * A Parse without name passes; what the server then has is the client's
 * (client->unnamed).  It is kept here only if its batch ends, or its buffer
 * goes, before a Bind has used it, since hardly anybody binds it again later.
 *
 * DEALLOCATE of a name that is the client's only here is done by the server to
 * a statement that was made for it, so that tag, errors and transaction status
 * are the server's.  DEALLOCATE ALL and DISCARD ALL are done as they are: what
 * others had on that server is prepared again when they need it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/named_parts.h"
#include "core/pool.h"
#include "core/server.h"
#include "core/worker.h"
#include "proto/write.h"

/* --- without name ------------------------------------------------------------ */

void unnamed_drop(struct client *client)
{
	struct extended *extended = client->extended;
	if (extended == NULL)
		return;
	statement_release(statements_of(client), extended->unnamed);
	extended->unnamed = NULL;
	extended->unnamed_named = false;
}

void forget_unnamed(struct client *client)
{
	unnamed_drop(client);
	if (client->extended != NULL)
		client->extended->unnamed_effect = SQL_NONE;
}

static bool keep_unnamed(struct client *client, struct span body)
{
	struct extended *extended = extended_of(client);
	if (extended == NULL)
		return false;
	struct statement *statement = statement_acquire(statements_of(client), body);
	if (statement == NULL)
		return false;
	unnamed_drop(client);
	extended->unnamed = statement;
	extended->unnamed_pending = true;
	return true;
}

void named_leave(struct client *client, struct run *run)
{
	if (run->unnamed.size > 0 && run->unnamed.size <= UNNAMED_KEEP_MAX &&
	    keep_unnamed(client, run->unnamed))
		client->extended->unnamed_position = run->unnamed_position;
	run->unnamed.size = 0;
}

/* What the server then has is no other's, nor an earlier one. */
static void parse_numbered(struct client *client, enum sql_effect effect)
{
	named_unnamed_is(client->server, ++client->worker->unnamed_count);
	if (client->extended != NULL)
		client->extended->unnamed_effect = (uint8_t)effect;
}

/* The text deallocates a name of the client's: the server does it to another. */
static enum verdict parse_sacrifice(struct client *client, struct run *run)
{
	static const char body[] = "DEALLOCATE " SACRIFICED "\0\0"; /* no types */
	struct server *server = client->server;
	relay_up_flush(client, run);
	relay_count(client);
	named_sacrifice(client);
	parse_numbered(client, SQL_DEALLOCATE);
	track_ask(&server->track, 'P', TRACK_PLAIN);
	named_send_parse(server, "", span_of(body, sizeof body));
	return VERDICT_DROP;
}

/* As nearly all.  What begins otherwise may forget names, also those that its client
 * does not have yet. */
static bool is_of_no_interest(const struct client *client, struct span body)
{
	uint8_t first = body.size > 0 ? body.data[0] | 0x20 : 0;
	return client->extended == NULL && first > 'd' && first <= 'z';
}

/* What the text does to names, when a portal of it is executed.  A name that is to
 * go is in target[]. */
static enum sql_effect parse_effect(struct client *client, struct span body,
                                    char target[STATEMENT_NAME_MAX + 1])
{
	struct span text = body_text(body);
	struct extended *extended = client->extended;
	if (is_of_no_interest(client, body))
		return SQL_NONE;
	enum sql_effect effect = sql_may_forget(text) ? sql_effect(text, target) : SQL_NONE;
	if (effect != SQL_NONE && extended == NULL)
		extended = extended_of(client);
	if (effect == SQL_UNCLEAR || extended == NULL)
		return SQL_NONE; /* one statement only in a Parse: it will be refused */
	return effect;
}

/* prepare_unnamed: what the server has under a name need not be parsed. */
static bool parse_unnamed_here(struct client *client, struct span body)
{
	struct server *server = client->server;
	struct statement *statement = statement_acquire(statements_of(client), body);
	if (statement == NULL)
		return false;
	const struct prepared *prepared = cache_find(&server->cache, statement);
	bool here = prepared != NULL && prepared->present && !prepared_waits(server, prepared) &&
	            prepared->fresh == schema_changes(server) && track_may_answer(&server->track) &&
	            keep_unnamed(client, body);
	statement_release(statements_of(client), statement);
	if (!here)
		return false;
	named_unnamed_here(client);
	client->extended->unnamed_named = true;
	client->extended->unnamed_effect = SQL_NONE;
	client->extended->unnamed_position = track_position(&server->track);
	relay_count(client);
	track_ask(&server->track, 'P', TRACK_LOCAL);
	named_answer(server);
	return true;
}

enum verdict parse_unnamed(struct client *client, struct run *run, const struct said *said)
{
	struct server *server = client->server;
	struct span body = span_of(said->bytes.data + said->head.size,
	                           said->bytes.size - said->head.size);
	bool whole = said->bytes.size == said->length;
	char target[STATEMENT_NAME_MAX + 1];
	enum sql_effect effect = whole ? parse_effect(client, body, target) : SQL_NONE;
	if (effect == SQL_DEALLOCATE) {
		const struct name *name = name_find(client, span_text(target));
		if (name_waits(server, name))
			return VERDICT_HOLD;
		if (name == NULL || name->statement == NULL)
			effect = SQL_NONE; /* the server will say so */
		else
			text_set(client->extended->target, sizeof target, target);
	}
	run->unnamed.size = 0;
	if (effect == SQL_NONE && whole && client->worker->config->settings.prepare_unnamed &&
	    parse_unnamed_here(client, body))
		return VERDICT_DROP;
	unnamed_drop(client);
	if (effect == SQL_DEALLOCATE)
		return parse_sacrifice(client, run);
	parse_numbered(client, effect);
	if (whole) {
		run->unnamed = body;
		run->unnamed_position = track_position(&server->track);
		if (!said->in_place)
			named_leave(client, run);
	}
	return said_raw(client, run, said);
}

bool parse_passes(struct client *client, struct run *run, struct span body)
{
	if (client->worker->config->settings.prepare_unnamed ||
	    (!is_of_no_interest(client, body) && sql_may_forget(body_text(body))))
		return false;
	parse_numbered(client, SQL_NONE);
	run->unnamed = body;
	run->unnamed_position = track_position(&client->server->track);
	return true;
}

static bool is_of_earlier_batch(const struct track *track, uint32_t position)
{
	return !position_before(position, track->base) && position_before(position, track->batch);
}

/* What it is hangs on replies to an earlier batch. */
static bool unnamed_waits(const struct client *client)
{
	const struct server *server = client->server;
	const struct track *track = &server->track;
	const struct extended *extended = client->extended;
	uint32_t count = server->unnamed_change_count;
	if (track_waits_for_data(track))
		return false;
	if (extended != NULL && extended->unnamed_named)
		return extended->unnamed_pending &&
		       is_of_earlier_batch(track, extended->unnamed_position);
	return count > 0 && is_of_earlier_batch(track, server->unnamed_changes[count - 1].position);
}

static bool has_unnamed(const struct client *client)
{
	return client->unnamed != 0 && client->server->unnamed == client->unnamed;
}

/* The server's is another's, or of another time. */
static void have_unnamed(struct client *client, struct run *run)
{
	const struct extended *extended = client->extended;
	if (has_unnamed(client))
		return;
	relay_up_flush(client, run);
	if (extended != NULL && extended->unnamed != NULL)
		named_parse_unnamed(client, extended->unnamed);
	else
		named_close_unnamed(client);
}

bool bind_passes(const struct client *client)
{
	return has_unnamed(client) && !unnamed_waits(client);
}

enum verdict use_unnamed(struct client *client, struct run *run, const struct said *said)
{
	struct extended *extended = client->extended;
	enum verdict verdict;
	if (unnamed_waits(client))
		return VERDICT_HOLD;
	if (extended != NULL && extended->unnamed_named) {
		verdict = use_renamed(client, run, said, extended->unnamed);
	} else {
		have_unnamed(client, run);
		verdict = said_raw(client, run, said);
	}
	if (verdict == VERDICT_FORWARD && said->type == 'B') {
		run->unnamed.size = 0;
		bind_effect(client, said, extended != NULL ? extended->unnamed_effect : SQL_NONE);
	}
	return verdict;
}

/* --- SQL that forgets -------------------------------------------------------- */

static bool forget_all(struct client *client)
{
	struct statements *all = statements_of(client);
	struct server *server = client->server;
	uint32_t position = track_position(&server->track);
	bool done = cache_clear(all, &server->cache, &server->journal, position) &&
	            (client->extended == NULL ||
	             names_clear(all, &client->extended->names, &server->journal, position));
	server->forgets = true;
	server->forget_position = position;
	if (!done)
		named_no_memory(client);
	return done;
}

static bool forget_one(struct client *client, const char *target)
{
	struct server *server = client->server;
	if (names_set(statements_of(client), &client->extended->names, &server->journal,
	              span_text(target), NULL, track_position(&server->track)))
		return true;
	named_no_memory(client);
	return false;
}

static enum verdict query_deallocate(struct client *client, struct run *run,
                                     const struct said *said, const char *target)
{
	struct server *server = client->server;
	const struct name *name = name_find(client, span_text(target));
	if (name_waits(server, name))
		return VERDICT_HOLD;
	if (name == NULL || name->statement == NULL)
		return said_raw(client, run, said);
	relay_up_flush(client, run);
	named_sacrifice(client);
	if (!forget_one(client, target))
		return VERDICT_DROP;
	relay_count(client);
	uint8_t packet[64];
	struct writer out = writer_over(packet, sizeof packet);
	write_query(&out, "DEALLOCATE " SACRIFICED);
	track_ask(&server->track, 'Q', TRACK_PLAIN);
	conn_send_copy(&server->conn, packet, out.size);
	return VERDICT_DROP;
}

/* Whether a Query has done it is known by its answer only: it is a batch. */
enum verdict named_query(struct client *client, struct run *run, const struct said *said)
{
	struct server *server = client->server;
	struct span text = span_of(said->bytes.data + SCAN_HEADER_SIZE,
	                           said->bytes.size - SCAN_HEADER_SIZE - 1);
	char target[STATEMENT_NAME_MAX + 1];
	enum verdict verdict = VERDICT_FORWARD;
	named_unnamed_is(server, 0);
	forget_unnamed(client);
	switch (sql_effect(text, target)) {
	case SQL_NONE: return said_raw(client, run, said);
	case SQL_DEALLOCATE: verdict = query_deallocate(client, run, said, target); break;
	case SQL_DEALLOCATE_ALL:
	case SQL_DISCARD_ALL:
		if (journal_waits(server))
			return VERDICT_HOLD;
		if (!forget_all(client))
			return VERDICT_DROP;
		verdict = said_raw(client, run, said);
		break;
	case SQL_UNCLEAR:
		if (journal_waits(server))
			return VERDICT_HOLD;
		server->unclear = true;
		server->unclear_position = track_position(&server->track);
		verdict = said_raw(client, run, said);
		break;
	}
	if (client->state != CLIENT_CLOSING && verdict != VERDICT_HOLD)
		server->track.batch = track_position(&server->track);
	return verdict;
}

enum verdict named_execute(struct client *client, struct run *run, const struct said *said)
{
	struct extended *extended = client->extended;
	struct server *server = client->server;
	if (!span_is(said->head.portal, extended->portal))
		return said_raw(client, run, said);
	bool one = extended->portal_effect == SQL_DEALLOCATE;
	bool must_wait = one ? name_waits(server, name_find(client, span_text(extended->target)))
	                     : journal_waits(server);
	if (must_wait)
		return VERDICT_HOLD;
	if (one ? !forget_one(client, extended->target) : !forget_all(client))
		return VERDICT_DROP;
	extended->portal_effect = SQL_NONE;
	return said_raw(client, run, said);
}
