/*
 * named_reply.c - what came of it; see relay_named.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/named_parts.h"
#include "core/pool.h"
#include "core/server.h"
#include "core/worker.h"
#include "proto/read.h"
#include "proto/write.h"

bool named_reads(const struct server *server, const struct piece *piece)
{
	enum track_mode mode = track_head_mode(&server->track);
	return piece->type == 'C' ||
	       (piece->type == 'E' && (mode == TRACK_MAPPED || mode == TRACK_QUIET) &&
	        piece->length <= NAMED_ERROR_MAX);
}

static struct names *names_of(const struct server *server)
{
	struct client *client = server->client;
	return client != NULL && client->extended != NULL ? &client->extended->names : NULL;
}

static void schema_changed(struct server *server)
{
	atomic_fetch_add_explicit(&server->pool->record->database->schema_changes, 1,
	                          memory_order_relaxed);
}

static bool begins_with(struct span text, const char *with)
{
	size_t size = strlen(with);
	return text.size >= size && memcmp(text.data, with, size) == 0;
}

/* Statements have gone that we did not see going (several in one Query, a text
 * that was not searched, a reset of our own). */
static void forgotten(struct server *server)
{
	struct statements *all = &server->worker->statements;
	struct names *names = names_of(server);
	cache_forget(all, &server->cache, &server->journal, server->track.base);
	if (names != NULL && !track_is_skipping_own(&server->track))
		names_forget(all, names, &server->journal, server->track.base);
}

void named_tag(struct server *server, struct span tag)
{
	if (server->pool->limits.statements == 0)
		return;
	switch (tag.size > 0 ? tag.data[0] : 0) {
	case 'A':
	case 'C':
	case 'D': break;
	default: return;
	}
	if (begins_with(tag, "DEALLOCATE ALL") || begins_with(tag, "DISCARD ALL"))
		forgotten(server);
	else if (begins_with(tag, "ALTER ") || begins_with(tag, "CREATE ") ||
	         begins_with(tag, "DROP ")) {
		schema_changed(server);
		server->schema_changes = true; /* and again when that is committed */
	}
}

void named_committed(struct server *server)
{
	server->schema_changes = false;
	schema_changed(server);
}

/* What the client calls the statement that has this name on servers. */
static struct span own_name(const struct server *server, struct span ours, bool clash)
{
	const struct names *names = names_of(server);
	if (clash)
		return span_text(server->clash);
	for (uint32_t i = 0; names != NULL && i < names->table.room; i++) {
		const struct name *name = names->table.slots[i];
		if (name != NULL && name->statement != NULL &&
		    memcmp(name->statement->name, ours.data, ours.size) == 0)
			return span_of(name->text, name->size);
	}
	return ours;
}

/* A text of the server, with the client's name in the place of ours. */
static void retell_text(const struct server *server, struct writer *out, const char *text,
                        bool clash)
{
	const char *found = strstr(text, "\"" STATEMENT_PREFIX);
	const char *end = found != NULL ? strchr(found + 1, '"') : NULL;
	if (end == NULL || end - found != STATEMENT_SERVER_NAME_SIZE + 1) {
		writer_text(out, text);
		return;
	}
	struct span ours = span_of(found + 1, STATEMENT_SERVER_NAME_SIZE);
	struct span own = own_name(server, ours, clash);
	writer_bytes(out, text, (uint32_t)(found + 1 - text));
	writer_bytes(out, own.data, own.size);
	writer_text(out, end);
}

/* The same ErrorResponse; 0: it cannot be read. */
static uint32_t retell(const struct server *server, struct span body, bool clash, uint8_t *into,
                       uint32_t room)
{
	struct reader in = reader_of(body);
	struct writer out = writer_over(into, room);
	writer_begin(&out, 'E');
	for (;;) {
		uint8_t field = reader_u8(&in);
		if (field == 0 || in.failed)
			break;
		const char *value = reader_text(&in);
		if (in.failed)
			break;
		writer_u8(&out, field);
		if (field == 'M')
			retell_text(server, &out, value, clash);
		else
			writer_text(&out, value);
	}
	writer_u8(&out, 0);
	writer_end(&out);
	return in.failed || out.failed ? 0 : out.size;
}

static bool sqlstate_is(struct span body, const char *sqlstate)
{
	struct reader in = reader_of(body);
	for (;;) {
		uint8_t field = reader_u8(&in);
		if (field == 0 || in.failed)
			return false;
		const char *value = reader_text(&in);
		if (field == 'C' && !in.failed)
			return strcmp(value, sqlstate) == 0;
	}
}

uint32_t named_error(struct server *server, struct span message,
                     uint8_t instead[NAMED_ERROR_MAX + 256])
{
	struct span body = span_of(message.data + SCAN_HEADER_SIZE,
	                           message.size - SCAN_HEADER_SIZE);
	bool clash = server->clashes && server->clash_position == server->track.base &&
	             sqlstate_is(body, "42P05");
	if (sqlstate_is(body, "0A000")) /* cached plan must not change result type */
		schema_changed(server);
	else if (!clash && (sqlstate_is(body, "42P05") || sqlstate_is(body, "26000")))
		server->close_needed = true; /* it does not have what it should have */
	return retell(server, body, clash, instead, NAMED_ERROR_MAX + 256);
}

static bool is_within(uint32_t position, uint32_t from, uint32_t to)
{
	return position - from < to - from;
}

/* What is without name on the server, and what is its client's, from here on. */
static void unnamed_become(struct server *server, uint64_t which, uint64_t mine)
{
	struct client *client = server->client;
	struct unnamed_change *changes = server->unnamed_changes;
	uint64_t client_before = client != NULL ? client->unnamed : 0;
	uint32_t count = 0;
	for (uint32_t i = 0; i < server->unnamed_change_count; i++)
		if (!position_before(changes[i].position, server->track.base))
			changes[count++] = changes[i];
	changes[MIN(count, UNNAMED_CHANGES_MAX - 1)] = (struct unnamed_change){
		.position = track_position(&server->track),
		.before = server->unnamed,
		.client_before = client_before,
	};
	if (count == UNNAMED_CHANGES_MAX) {
		/* in the place of the last: what that had made of it is not known any more,
		 * what was there before them all is */
		count--;
		changes[count].before = changes[count].client_before = 0;
	}
	if (client != NULL && client->extended != NULL)
		changes[count].effect_before = client->extended->unnamed_effect;
	server->unnamed_change_count = count + 1;
	server->unnamed = which;
	if (client != NULL)
		client->unnamed = mine;
}

void named_unnamed_is(struct server *server, uint64_t which)
{
	const struct client *client = server->client;
	if (server->unnamed != which || (client != NULL && client->unnamed != which))
		unnamed_become(server, which, which);
}

void named_unnamed_here(struct client *client)
{
	unnamed_become(client->server, client->server->unnamed, ++client->worker->unnamed_count);
}

/* The change was not made: what was there before it is what the next one has found,
 * or what is there.  A Parse that has failed has left none. */
static void unnamed_undo(struct server *server, uint32_t index, bool has_failed)
{
	struct client *client = server->client;
	struct unnamed_change undone = server->unnamed_changes[index];
	struct unnamed_change *next = &server->unnamed_changes[index];
	uint32_t behind = --server->unnamed_change_count - index;
	if (has_failed)
		undone.before = undone.client_before = undone.effect_before = 0;
	if (behind > 0) {
		memmove(next, next + 1, behind * sizeof *next);
		next->before = undone.before;
		next->client_before = undone.client_before;
		next->effect_before = undone.effect_before;
		return;
	}
	server->unnamed = undone.before;
	if (client != NULL)
		client->unnamed = undone.client_before;
	if (client != NULL && client->extended != NULL)
		client->extended->unnamed_effect = undone.effect_before;
}

static void unnamed_failed(struct server *server, uint32_t from, uint32_t to)
{
	for (uint32_t i = server->unnamed_change_count; i > 0; i--) {
		uint32_t position = server->unnamed_changes[i - 1].position;
		if (is_within(position, from, to))
			unnamed_undo(server, i - 1, position == from);
	}
}

/* What was asked in [from, to) has not been done. */
static void failed(struct server *server, uint32_t from, uint32_t to)
{
	struct client *client = server->client;
	journal_undo(&server->worker->statements, &server->journal, names_of(server),
	             &server->cache, from, to);
	unnamed_failed(server, from, to);
	struct extended *extended = client != NULL ? client->extended : NULL;
	if (extended != NULL && extended->unnamed_pending &&
	    is_within(extended->unnamed_position, from, to))
		unnamed_drop(client);
	if (is_within(server->clash_position, from, to))
		server->clashes = false;
}

void named_replied(struct server *server, uint8_t type)
{
	const struct track *track = &server->track;
	if (type == 'E')
		failed(server, track->cut_from, track->cut_to);
	if (server->journal.count > 0)
		journal_commit(&server->worker->statements, &server->journal, names_of(server),
		               &server->cache, track->base);
	if (server->clashes && position_before(server->clash_position, track->base))
		server->clashes = false;
	if (server->forgets && position_before(server->forget_position, track->base))
		server->forgets = false;
}

void named_answer(struct server *server)
{
	static const uint8_t parse_complete[] = {'1', 0, 0, 0, 4};
	static const uint8_t close_complete[] = {'3', 0, 0, 0, 4};
	while (server->client != NULL && server_is_between(server)) {
		uint8_t type = track_take_local(&server->track);
		if (type == 0)
			break;
		conn_send_copy(&server->client->conn, type == 'P' ? parse_complete : close_complete,
		               sizeof parse_complete);
		named_replied(server, 0);
	}
}

void named_drop_notes(struct client *client, struct server *server)
{
	struct names *names = client->extended != NULL ? &client->extended->names : NULL;
	journal_drop(&server->worker->statements, &server->journal, names, &server->cache);
	server->close_needed = true; /* it is not known what it has */
}
