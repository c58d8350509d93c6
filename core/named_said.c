/*
 * named_said.c - a message of a client, as it is told to a server.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/named_parts.h"
#include "core/pool.h"
#include "core/server.h"
#include "core/worker.h"

enum { FRONT_MAX = 512 };

bool named_is_on(const struct client *client)
{
	return client->pool->limits.statements > 0;
}

struct statements *statements_of(const struct client *client)
{
	return &client->worker->statements;
}

struct span body_text(struct span body)
{
	return span_of(body.data, strnlen((const char *)body.data, body.size));
}

enum verdict named_no_memory(struct client *client)
{
	client_fail(client, "53200", "out of memory");
	return VERDICT_DROP;
}

struct extended *extended_of(struct client *client)
{
	if (client->extended == NULL)
		client->extended = calloc(1, sizeof *client->extended);
	return client->extended;
}

void extended_free(struct client *client)
{
	if (client->extended == NULL)
		return;
	forget_unnamed(client);
	names_fini(statements_of(client), &client->extended->names);
	free(client->extended);
	client->extended = NULL;
}

struct name *name_find(const struct client *client, struct span name)
{
	if (client->extended == NULL)
		return NULL;
	return names_find(&client->extended->names, statement_key(name));
}

static bool waits(const struct server *server, uint32_t pending, uint32_t position)
{
	return !is_settled(pending, position, server->track.batch) &&
	       !track_waits_for_data(&server->track);
}

bool name_waits(const struct server *server, const struct name *name)
{
	return name != NULL && waits(server, name->pending, name->position);
}

bool prepared_waits(const struct server *server, const struct prepared *prepared)
{
	return prepared != NULL && waits(server, prepared->pending, prepared->position);
}

bool journal_waits(const struct server *server)
{
	const struct journal *journal = &server->journal;
	return journal->count > 0 &&
	       waits(server, 1, journal->notes[journal->head & (journal->room - 1)].position);
}

bool is_full_for(const struct server *server, const struct statement *statement)
{
	const struct cache *cache = &server->cache;
	return cache->lru.count >= server->pool->limits.statements ||
	       (cache->lru.count > 0 && cache->bytes + statement->size > CACHE_BYTES_MAX);
}

bool may_prepare(const struct server *server, const struct statement *statement)
{
	/* if that fails, all it had is there still */
	if (server->forgets && waits(server, 1, server->forget_position))
		return false;
	return !is_full_for(server, statement) || track_waits_for_data(&server->track) ||
	       cache_oldest(&server->cache, server->track.batch) != NULL;
}

uint32_t schema_changes(const struct server *server)
{
	return atomic_load_explicit(&server->pool->record->database->schema_changes,
	                            memory_order_relaxed);
}

/* --- what goes to the server ------------------------------------------------ */

void said_rest(struct client *client, struct run *run, const struct said *said, uint32_t offset)
{
	if (said->in_place) {
		relay_range(client, run, said->at + offset, said->at + said->bytes.size);
		return;
	}
	relay_up_flush(client, run);
	client->pool->counters.client_bytes += said->bytes.size - offset;
	conn_send_copy(&client->server->conn, said->bytes.data + offset, said->bytes.size - offset);
}

enum verdict said_raw(struct client *client, struct run *run, const struct said *said)
{
	enum verdict verdict = track_request(&client->server->track, said->type);
	CHECK(verdict == VERDICT_FORWARD);
	relay_count(client);
	said_rest(client, run, said, 0);
	return VERDICT_FORWARD;
}

/* Small, as nearly all are: in one piece with what goes out around it. */
static void said_packed(struct client *client, const struct said *said, uint8_t *front,
                        uint32_t size)
{
	uint32_t rest = said->bytes.size - said->head.size;
	memcpy(front + size, said->bytes.data + said->head.size, rest);
	client->pool->counters.client_bytes += said->bytes.size;
	conn_send_copy(&client->server->conn, front, size + rest);
}

void said_renamed(struct client *client, struct run *run, const struct said *said,
                  const char name[STATEMENT_SERVER_NAME_SIZE + 1], uint32_t name_size)
{
	const struct head *head = &said->head;
	struct conn *conn = &client->server->conn;
	uint8_t front[FRONT_MAX];
	uint32_t size = SCAN_HEADER_SIZE;
	front[0] = said->type;
	write_u32(front + 1, said->length - 1 - head->name.size + name_size);
	if (said->type == 'B' && head->portal.size == 0) {
		front[size++] = '\0';
	} else if (said->type == 'B') {
		uint32_t portal = head->portal.size + 1;
		if (portal > FRONT_MAX - SCAN_HEADER_SIZE - STATEMENT_SERVER_NAME_SIZE - 2) {
			conn_send_copy(conn, front, size);
			conn_send_copy(conn, head->portal.data, portal);
			size = 0;
		} else {
			memcpy(front + size, head->portal.data, portal);
			size += portal;
		}
	} else if (said->type == 'D') {
		front[size++] = 'S';
	}
	memcpy(front + size, name, STATEMENT_SERVER_NAME_SIZE + 1);
	size += name_size + 1;
	if (said->bytes.size == said->length && said->bytes.size - head->size <= FRONT_MAX - size) {
		said_packed(client, said, front, size);
		return;
	}
	conn_send_copy(conn, front, size);
	client->pool->counters.client_bytes += head->size;
	said_rest(client, run, said, head->size);
}
