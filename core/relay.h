/*
 * relay.h - bytes of clients to servers and back: pooling itself.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_RELAY_H
#define CORE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

struct buf;
struct client;
struct server;

/* Bytes of a client that is READY or WAITING. */
void relay_up(struct client *client, struct buf *buf, uint32_t from, uint32_t to);

/* The client has got a server: what it said meanwhile goes out. */
void relay_resume(struct client *client);

/* Bytes of a server that is logged in. */
void relay_down(struct server *server, struct buf *buf, uint32_t from, uint32_t to);

/* Links and unlinks; the parameters that differ are set first. */
void relay_attach(struct client *client, struct server *server);
void relay_detach(struct server *server);

/* The SETs ahead of a client have been answered. */
void relay_vars_set(struct server *server);

/* Answers what a queued client has asked with 57014 (a cancel request). */
void relay_cancel_waiting(struct client *client);

/* The peer of this conn takes bytes again. */
void relay_client_room(struct client *client);
void relay_server_room(struct server *server);

/* Whether a queued client has put Terminate behind what it asked. */
bool relay_says_goodbye(const struct client *client);

/* Whether what has come from a queued client is a Terminate of its own: if it has gone
 * it does not wait any more for what it asked. */
bool relay_leaves(const struct client *client, struct span bytes);

/* The client will send no more: it is closed when all is answered. */
void relay_client_eof(struct client *client);

#endif
