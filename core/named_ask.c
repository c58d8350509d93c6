/*
 * named_ask.c - messages of our own ahead of a client's; see relay_named.h.
 *
 * They are quiet: the client gets their error, as if its own message had it,
 * and nothing else of them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "core/base/check.h"
#include "core/client.h"
#include "core/named_parts.h"
#include "core/pool.h"
#include "core/server.h"
#include "core/worker.h"
#include "proto/write.h"

enum {
	/* Requests that stay free for the client's own message and what it needs. */
	ROOM_KEPT = 4,
};

static void send_close(struct server *server, const char *name)
{
	uint8_t packet[SCAN_HEADER_SIZE + 1 + STATEMENT_SERVER_NAME_SIZE + 1];
	struct writer out = writer_over(packet, sizeof packet);
	writer_begin(&out, 'C');
	writer_u8(&out, 'S');
	writer_text(&out, name);
	writer_end(&out);
	CHECK(!out.failed);
	track_ask(&server->track, 'C', TRACK_QUIET);
	conn_send_copy(&server->conn, packet, out.size);
}

void named_send_parse(struct server *server, const char *name, struct span body)
{
	uint8_t front[SCAN_HEADER_SIZE + STATEMENT_SERVER_NAME_SIZE + 1];
	uint32_t name_size = (uint32_t)strlen(name) + 1;
	CHECK(name_size <= STATEMENT_SERVER_NAME_SIZE + 1);
	front[0] = 'P';
	write_u32(front + 1, SCAN_HEADER_SIZE - 1 + name_size + body.size);
	memcpy(front + SCAN_HEADER_SIZE, name, name_size);
	conn_send_copy(&server->conn, front, SCAN_HEADER_SIZE + name_size);
	conn_send_copy(&server->conn, body.data, body.size);
}

bool named_close(struct client *client, struct statement *statement)
{
	struct server *server = client->server;
	if (!cache_set(statements_of(client), &server->cache, &server->journal, statement, false,
	               track_position(&server->track))) {
		named_no_memory(client);
		return false;
	}
	send_close(server, statement->name);
	return true;
}

bool named_make_room(struct client *client, const struct statement *statement)
{
	struct server *server = client->server;
	while (is_full_for(server, statement) &&
	       (track_room(&server->track) > ROOM_KEPT || relay_grow(server))) {
		struct prepared *oldest = cache_oldest(&server->cache, server->track.batch);
		if (oldest == NULL)
			break;
		if (!named_close(client, oldest->statement))
			return false;
	}
	return true;
}

bool named_prepare(struct client *client, struct statement *statement)
{
	struct server *server = client->server;
	if (!named_make_room(client, statement))
		return false;
	if (!cache_set(statements_of(client), &server->cache, &server->journal, statement, true,
	               track_position(&server->track))) {
		named_no_memory(client);
		return false;
	}
	cache_find(&server->cache, statement)->fresh = schema_changes(server);
	track_ask(&server->track, 'P', TRACK_QUIET);
	named_send_parse(server, statement->name, span_of(statement->body, statement->size));
	client->pool->counters.server_parse_count++;
	return true;
}

void named_close_unnamed(struct client *client)
{
	named_unnamed_is(client->server, 0);
	send_close(client->server, "");
}

void named_parse_unnamed(struct client *client, const struct statement *statement)
{
	struct server *server = client->server;
	named_unnamed_is(server, ++client->worker->unnamed_count);
	track_ask(&server->track, 'P', TRACK_QUIET);
	named_send_parse(server, "", span_of(statement->body, statement->size));
}

/* An empty one can be prepared even in a failed transaction, and may be there
 * from an earlier time. */
void named_sacrifice(struct client *client)
{
	struct server *server = client->server;
	send_close(server, SACRIFICED);
	track_ask(&server->track, 'P', TRACK_QUIET);
	named_send_parse(server, SACRIFICED, span_of("\0\0", 3));
}
