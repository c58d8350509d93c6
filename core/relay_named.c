/*
 * relay_named.c - see relay_named.h.
 *
 * A message is looked at as soon as its names are there (a Parse: all of it,
 * since its text is its name on servers); until then it is collected, and
 * nothing of it is with a server.  Parameters of a Bind stream behind.
 *
 * What is decided here holds for the moment when the server will read the
 * message: all that was sent before has been done by then, or it is skipped
 * together with this one.  Where that is not so, because a Sync lies between,
 * the message waits for the replies (name_waits, prepared_waits, journal_waits).
 *
 * Errors are the server's own, so that its transaction fails when the client is
 * told so: a name that is taken is parsed twice, one that is not known goes on
 * as it is.
 *
 * A statement without a name passes.  It is known whose the server has; one
 * that its client parsed in an earlier batch and did not use is parsed again
 * where it is missing.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/relay_named.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/named_parts.h"
#include "core/pool.h"
#include "core/server.h"
#include "core/worker.h"
#include "proto/message.h"

/* A longer Query is not searched for what it forgets. */
enum { QUERY_LOOK_MAX = 4096 };

/* --- Parse ------------------------------------------------------------------ */

static enum verdict parse_here(struct client *client, struct span key, struct statement *statement)
{
	struct server *server = client->server;
	uint32_t position = track_position(&server->track);
	if (!names_set(statements_of(client), &client->extended->names, &server->journal, key,
	               statement, position))
		return named_no_memory(client);
	track_ask(&server->track, 'P', TRACK_LOCAL);
	named_answer(server);
	return VERDICT_DROP;
}

/* The name is taken: the server finds its own taken, and says so. */
static bool parse_again(struct client *client, struct span name, struct statement *statement,
                        bool have)
{
	struct server *server = client->server;
	if (!have && !named_prepare(client, statement))
		return false;
	server->clashes = true;
	server->clash_position = track_position(&server->track);
	text_set_span(server->clash, sizeof server->clash, name);
	return true;
}

static bool parse_there(struct client *client, struct span key, struct statement *statement,
                        bool have)
{
	struct statements *all = statements_of(client);
	struct server *server = client->server;
	if (have ? !named_close(client, statement) : !named_make_room(client, statement))
		return false;
	uint32_t position = track_position(&server->track);
	if (!cache_set(all, &server->cache, &server->journal, statement, true, position) ||
	    !names_set(all, &client->extended->names, &server->journal, key, statement, position)) {
		named_no_memory(client);
		return false;
	}
	cache_find(&server->cache, statement)->fresh = schema_changes(server);
	return true;
}

static enum verdict parse_of(struct client *client, struct run *run, const struct said *said,
                             const struct name *name, struct statement *statement)
{
	struct server *server = client->server;
	struct counters *counters = &client->pool->counters;
	struct span key = statement_key(said->head.name);
	const struct prepared *prepared = cache_find(&server->cache, statement);
	bool have = prepared != NULL && prepared->present;
	bool fresh = have && prepared->fresh == schema_changes(server);
	bool taken = name != NULL && name->statement != NULL;
	if (name_waits(server, name) || prepared_waits(server, prepared) ||
	    (!have && !may_prepare(server, statement)) || (taken && server->clashes))
		return VERDICT_HOLD;
	counters->client_parse_count++;
	relay_count(client);
	if (!taken && fresh && track_may_answer(&server->track))
		return parse_here(client, key, statement);
	relay_up_flush(client, run);
	if (taken ? !parse_again(client, said->head.name, statement, have)
	          : !parse_there(client, key, statement, have))
		return VERDICT_DROP;
	counters->server_parse_count++;
	track_ask(&server->track, 'P', TRACK_MAPPED);
	said_renamed(client, run, said, statement->name, STATEMENT_SERVER_NAME_SIZE);
	return VERDICT_FORWARD;
}

static enum verdict parse_named(struct client *client, struct run *run, const struct said *said)
{
	struct statements *all = statements_of(client);
	struct extended *extended = extended_of(client);
	if (extended == NULL)
		return named_no_memory(client);
	struct span body = span_of(said->bytes.data + said->head.size,
	                           said->bytes.size - said->head.size);
	struct name *name = names_find(&extended->names, statement_key(said->head.name));
	if ((name == NULL && extended->names.table.used >= NAMES_MAX) ||
	    extended->names.bytes + body.size > NAMES_BYTES_MAX) {
		client_fail(client, "54000", "too many prepared statements");
		return VERDICT_DROP;
	}
	struct statement *statement = statement_acquire(all, body);
	if (statement == NULL)
		return named_no_memory(client);
	enum verdict verdict = parse_of(client, run, said, name, statement);
	statement_release(all, statement);
	return verdict;
}

/* --- Bind, Describe, Close --------------------------------------------------- */

/* The server has it, or is told to prepare it first.  HOLD, DROP: not now; closed. */
static enum verdict use(struct client *client, struct run *run, struct statement *statement)
{
	struct server *server = client->server;
	struct prepared *prepared = cache_find(&server->cache, statement);
	bool have = prepared != NULL && prepared->present;
	if (prepared_waits(server, prepared) || (!have && !may_prepare(server, statement)))
		return VERDICT_HOLD;
	relay_up_flush(client, run);
	if (have)
		cache_touch(&server->cache, prepared);
	else if (!named_prepare(client, statement))
		return VERDICT_DROP;
	return VERDICT_FORWARD;
}

enum verdict use_renamed(struct client *client, struct run *run, const struct said *said,
                         struct statement *statement)
{
	enum verdict verdict = use(client, run, statement);
	if (verdict != VERDICT_FORWARD)
		return verdict;
	if (said->type == 'B')
		client->pool->counters.bind_count++;
	relay_count(client);
	track_ask(&client->server->track, said->type, TRACK_MAPPED);
	said_renamed(client, run, said, statement->name, STATEMENT_SERVER_NAME_SIZE);
	return VERDICT_FORWARD;
}

static bool is_ours(struct span name)
{
	return name.size == STATEMENT_SERVER_NAME_SIZE &&
	       memcmp(name.data, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX)) == 0;
}

/* Not a name of this client: the server says so.  It might be a name of ours. */
static enum verdict use_unknown(struct client *client, struct run *run, const struct said *said)
{
	if (!is_ours(said->head.name))
		return said_raw(client, run, said);
	relay_up_flush(client, run);
	relay_count(client);
	track_ask(&client->server->track, said->type, TRACK_PLAIN);
	static const char none[STATEMENT_SERVER_NAME_SIZE + 1] = STATEMENT_PREFIX;
	said_renamed(client, run, said, none, (uint32_t)strlen(none));
	return VERDICT_FORWARD;
}

void bind_effect(struct client *client, const struct said *said, uint8_t effect)
{
	struct extended *extended = client->extended;
	if (extended == NULL)
		return;
	if (effect != SQL_NONE) {
		extended->portal_effect = effect;
		text_set_span(extended->portal, sizeof extended->portal, said->head.portal);
	} else if (extended->portal_effect != SQL_NONE &&
	           span_is(said->head.portal, extended->portal)) {
		extended->portal_effect = SQL_NONE;
	}
}

static uint8_t effect_of(struct statement *statement)
{
	char target[STATEMENT_NAME_MAX + 1];
	if (statement->effect == 0) {
		struct span text = body_text(span_of(statement->body, statement->size));
		enum sql_effect effect = sql_may_forget(text) ? sql_effect(text, target) : SQL_NONE;
		statement->effect = (uint8_t)(effect + 1);
	}
	enum sql_effect effect = (enum sql_effect)(statement->effect - 1);
	bool all = effect == SQL_DEALLOCATE_ALL || effect == SQL_DISCARD_ALL;
	return (uint8_t)(all ? effect : SQL_NONE);
}

static enum verdict use_named(struct client *client, struct run *run, const struct said *said)
{
	struct name *name = name_find(client, said->head.name);
	if (name_waits(client->server, name))
		return VERDICT_HOLD;
	if (name == NULL || name->statement == NULL)
		return use_unknown(client, run, said);
	enum verdict verdict = use_renamed(client, run, said, name->statement);
	if (verdict == VERDICT_FORWARD && said->type == 'B')
		bind_effect(client, said, effect_of(name->statement));
	return verdict;
}

/* The server need not know; of a name that is not the client's it may (PREPARE). */
static enum verdict close_named(struct client *client, struct run *run, const struct said *said)
{
	struct server *server = client->server;
	struct name *name = name_find(client, said->head.name);
	if (name_waits(server, name))
		return VERDICT_HOLD;
	if ((name == NULL || name->statement == NULL) && !is_ours(said->head.name))
		return said_raw(client, run, said);
	if (name != NULL &&
	    !names_set(statements_of(client), &client->extended->names, &server->journal,
	               statement_key(said->head.name), NULL, track_position(&server->track)))
		return named_no_memory(client);
	track_ask(&server->track, 'C', TRACK_LOCAL);
	named_answer(server);
	return VERDICT_DROP;
}

/* --- a message and its pieces ------------------------------------------------ */

/* Terms of named_piece(); a server is attached and has room. */
static enum verdict decide(struct client *client, struct run *run, const struct said *said,
                           enum head_status status)
{
	struct server *server = client->server;
	bool unnamed = said->head.name.size == 0;
	if (server->unclear && position_before(server->unclear_position, server->track.base))
		server->unclear = false;
	if (server->track.skipping || status == HEAD_BROKEN)
		return said_raw(client, run, said); /* discarded, or refused, by the server */
	if (server->unclear && !track_waits_for_data(&server->track))
		return VERDICT_HOLD;
	switch (said->type) {
	case 'Q': return named_query(client, run, said);
	case 'E': return named_execute(client, run, said);
	case 'P':
		return unnamed ? parse_unnamed(client, run, said) : parse_named(client, run, said);
	case 'C':
		if (said->head.kind == 'S' && !unnamed)
			return close_named(client, run, said);
		if (said->head.kind == 'S') {
			named_unnamed_is(server, 0);
			forget_unnamed(client);
			run->unnamed.size = 0;
		}
		return said_raw(client, run, said);
	case 'D':
		if (said->head.kind == 'P')
			return said_raw(client, run, said);
		break;
	default: CHECK(said->type == 'B');
	}
	return unnamed ? use_unnamed(client, run, said) : use_named(client, run, said);
}

/* Whether what is there of it is enough to decide. */
static bool is_enough(const struct said *said, enum head_status status)
{
	bool whole = said->bytes.size == said->length;
	if (whole || said->type == 'Q')
		return whole;
	if (status != HEAD_OK || said->type != 'P')
		return status != HEAD_MORE;
	return said->head.name.size == 0 && said->length > UNNAMED_KEEP_MAX;
}

static enum head_status said_read(struct said *said)
{
	said->head = (struct head){0};
	if (said->type == 'Q')
		return HEAD_OK;
	return head_read(&said->head, said->bytes, said->length);
}

static void broken(struct client *client, uint8_t type)
{
	char text[32];
	text_format(text, sizeof text, "broken %s packet", message_name(SIDE_CLIENT, type));
	client_fail(client, NULL, text);
}

/* Adds it to what was collected, and looks at all of that. */
static bool collect(struct client *client, struct said *said, const struct piece *piece)
{
	uint32_t max = said->type == 'P' ? NAMES_BYTES_MAX : HELD_MESSAGE_MAX;
	if (!part_append(&client->part, piece->bytes, max)) {
		broken(client, said->type);
		return false;
	}
	said->bytes = span_of(client->part.bytes, client->part.size);
	said->in_place = false;
	return true;
}

enum verdict named_piece(struct client *client, struct run *run, const struct piece *piece,
                         uint32_t from, uint32_t to)
{
	struct said said = {
		.bytes = piece->bytes,
		.at = from,
		.type = piece->type,
		.in_place = piece->first && !piece->held,
	};
	CHECK(!said.in_place || to - from == piece->bytes.size);
	client->gathering = true;
	if (!said.in_place && !collect(client, &said, piece))
		return VERDICT_DROP;
	said.length = said.bytes.size + client->scan.body_left;
	enum head_status status = said_read(&said);
	if (status == HEAD_MORE && said.bytes.size > HELD_MESSAGE_MAX) { /* a name without end */
		broken(client, said.type);
		return VERDICT_DROP;
	}
	if (!is_enough(&said, status)) {
		if (said.in_place)
			collect(client, &said, piece);
		return VERDICT_REPLACE;
	}
	client->gathering = false;
	enum verdict verdict = relay_server(client);
	if (verdict == VERDICT_FORWARD)
		verdict = decide(client, run, &said, status);
	if (client->state == CLIENT_CLOSING)
		return VERDICT_DROP;
	if (verdict != VERDICT_HOLD)
		part_clear(&client->part);
	return verdict;
}

enum verdict named_whole(struct client *client, struct run *run, struct span message, uint32_t at)
{
	struct said said = {
		.bytes = message,
		.length = message.size,
		.at = at,
		.type = message.data[0],
		.in_place = true,
	};
	enum head_status status = said_read(&said);
	return decide(client, run, &said, status);
}

/* The server drops the statement without name at each Query. */
static bool query_concerns(struct client *client, const struct piece *piece)
{
	bool whole = piece->first && piece->last && !piece->held;
	bool look = !named_are_none(client) && piece->length <= QUERY_LOOK_MAX &&
	            piece->length > SCAN_HEADER_SIZE;
	if (look && whole) {
		struct span text = span_of(piece->bytes.data + SCAN_HEADER_SIZE,
		                           piece->bytes.size - SCAN_HEADER_SIZE - 1);
		look = sql_may_forget(text);
	}
	if (!look)
		forget_unnamed(client);
	return look;
}

/* Nothing that was said earlier has an effect on what it says now without name. */
static bool has_no_past(const struct client *client)
{
	const struct server *server = client->server;
	const struct extended *extended = client->extended;
	return !server->unclear && !server->track.skipping &&
	       (extended == NULL ||
	        (extended->unnamed == NULL && !extended->unnamed_named &&
	         extended->unnamed_effect == SQL_NONE && extended->portal_effect == SQL_NONE));
}

/* What decide() does with what drivers send most: all without a name. */
bool named_passes(struct client *client, struct run *run, struct span message)
{
	struct server *server = client->server;
	struct span body = span_of(message.data + SCAN_HEADER_SIZE,
	                           message.size - SCAN_HEADER_SIZE);
	switch (message.data[0]) {
	case 'Q':
		run->unnamed.size = 0;
		if ((server->unnamed | client->unnamed) != 0 && !server->track.skipping)
			named_unnamed_is(server, 0);
		return true;
	case 'B':
		if (body.size < 2 || body.data[0] != '\0' || body.data[1] != '\0' ||
		    !has_no_past(client) || !bind_passes(client))
			return false;
		run->unnamed.size = 0;
		return true;
	case 'P':
		return body.size > 1 && body.data[0] == '\0' && has_no_past(client) &&
		       parse_passes(client, run, span_of(body.data + 1, body.size - 1));
	case 'D': return body.size > 0 && body.data[0] == 'P' && !server->unclear;
	default: return false;
	}
}

bool named_concerns(struct client *client, const struct piece *piece)
{
	switch (piece->type) {
	case 'P':
	case 'B':
	case 'D':
	case 'C': return true;
	case 'E': return !named_ignores(client, 'E');
	case 'Q': return query_concerns(client, piece);
	default: return false;
	}
}
