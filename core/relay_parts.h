/*
 * relay_parts.h - what the files of the relay share.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_RELAY_PARTS_H
#define CORE_RELAY_PARTS_H

#include <stdint.h>

struct buf;
struct client;
struct server;

/* Bytes of one buffer that go the same way. */
struct run {
	struct buf *buf;
	uint32_t from, to;
};

/* Parts client and server if nothing keeps them together. */
void relay_settle(struct server *server);

/* Pauses or resumes the client's conn, as its server can take. */
void relay_flow(struct client *client);

#endif
