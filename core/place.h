/*
 * place.h - on which worker a client is served.
 *
 * Whoever accepts a client logs it in.  A pool with fewer servers than the workers
 * could use (servers_per_worker) is served by as many of them as it takes: its home
 * and those behind it.  A client that has logged in elsewhere moves to the one of
 * them that has the fewest of its pool, before it is told that it is in.  So servers
 * seldom have to follow clients across cores, and several share a turn.
 *
 * It moves by value, as a server does (core/lend.h).  A client in the mail is
 * counted where it goes to.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_PLACE_H
#define CORE_PLACE_H

#include <stdint.h>

struct client;
struct moved_client;
struct pool_record;
struct worker;

/* The worker that is to serve one more client of the pool; this one if it may. */
uint32_t place_find(const struct worker *worker, const struct pool_record *record);

/* A client of the pool is served there, or will be; and no more. */
void place_take(struct pool_record *record, uint32_t worker);
void place_leave(struct pool_record *record, uint32_t worker);

/* The client, which has proven who it is, goes to another worker. */
void place_move(struct client *client, struct pool_record *record, uint32_t to);

/* What it still says here goes along; closes the client without memory. */
void place_bytes(struct client *client, const uint8_t *bytes, uint32_t size);

/* Its last operation has come back. */
void place_detached(struct client *client);

/* It is closed before it could leave; does nothing to any other. */
void place_free(struct client *client);

void place_arrive(struct worker *worker, struct moved_client *moved);

#endif
