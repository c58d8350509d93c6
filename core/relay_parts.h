/*
 * relay_parts.h - what the files of the relay share.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_RELAY_PARTS_H
#define CORE_RELAY_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/client.h"
#include "core/server.h"
#include "proto/track.h"

struct buf;

/* Bytes of one buffer that go the same way. */
struct run {
	struct buf *buf;
	uint32_t from, to;
	struct span unnamed; /* from clients: body of a Parse without name, not bound yet */
	uint32_t unnamed_position;
};

/* A server for what comes, with room for a request and what goes ahead of it;
 * HOLD without one, or before it may be used. */
enum verdict relay_server(struct client *client);

/* Doubles the room of its track; false: at the limit, or no memory. */
bool relay_grow(struct server *server);

/* A request begins, for statistics and timeouts. */
void relay_count_anew(struct client *client);
static inline void relay_count(struct client *client)
{
	const struct server *server = client->server;
	if (client->query_us == 0 || client->xact_us == 0 || server->query_us == 0 ||
	    server->xact_us == 0)
		relay_count_anew(client);
}

/* What is in the run goes to the server. */
void relay_up_send(struct client *client, const struct run *run);
static inline void relay_up_flush(struct client *client, struct run *run)
{
	if (run->from < run->to)
		relay_up_send(client, run);
	run->from = run->to;
}

/* [from, to) of the run's buffer goes to the server with what follows. */
static inline void relay_range(struct client *client, struct run *run, uint32_t from, uint32_t to)
{
	if (run->to != from) {
		relay_up_flush(client, run);
		run->from = from;
	}
	run->to = to;
}

/* After RESET or DISCARD ALL, before the Z that follows: what the client asked for
 * at its start holds again.  Tells it so. */
void relay_to_start(struct server *server);

/* Parts client and server if nothing keeps them together. */
void relay_settle(struct server *server);

/* Pauses or resumes the client's conn, as its server can take. */
void relay_flow(struct client *client);

#endif
