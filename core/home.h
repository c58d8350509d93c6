/*
 * home.h - a pool's decisions across cores, on its home worker.
 *
 * A worker with clients that wait sends a DEMAND (the ticket of its oldest
 * waiter and how many wait).  The home serves demands in the order of tickets:
 *
 *	1. a server idle on another worker is handed over (GIVE to that worker): at
 *	   once if it is unused, or the one that asks has none; else after 2
 *	2. a credit in the ledger: the worker that asks may OPEN one
 *	3. an idle server of a sibling pool that stands in the way of a database or
 *	   user limit is evicted (EVICT)
 *	4. the holders are told that somebody waits (REMOTE): they hand over at a
 *	   release (core/pool.h)
 *
 * Failures of logins come back here too, so that retry, fast fail and the
 * number of logins under way are decided once (pgbouncer.md 5.3, 5.6).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_HOME_H
#define CORE_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "net/wheel.h"

struct pool;
struct post;

struct home_demand {
	uint64_t ticket;  /* of the oldest waiter there, us; 0: none waits */
	uint64_t told_us; /* when that was said */
	uint32_t waiting;
	uint32_t sent;     /* servers given to it or opened for it so far */
	uint32_t received; /* of them, those it knows of: the rest is on its way */
	uint32_t giving;   /* idle ones asked of it, not yet given */
	/* What it was told by POST_REMOTE, less what it has given since. */
	uint64_t marked_ticket, marked_wait_us;
	uint32_t marked_worker, marked_wanted;
	uint32_t mark; /* number of the last one */
	bool login;    /* the oldest waits for welcome data */
};

struct home {
	struct pool *pool;
	struct timer retry;
	uint32_t logins; /* under way */
	uint32_t host_turn;
	bool worked;        /* the last login succeeded: several may run at once */
	bool failed;        /* the last login failed */
	uint64_t failed_us; /* when that attempt began */
	uint64_t evict_us;  /* evicted since then: */
	uint32_t evicted;
	uint32_t worker_count;
	struct home_demand demands[];
};

struct home *home_new(struct pool *pool);
void home_free(struct home *home);

/* What a worker says to the home of a pool; routed to it by mail. */
void home_post(struct pool *pool, const struct post *post);

/* Nothing is under way and no other worker has clients or servers of the pool. */
bool home_is_idle(const struct home *home);

/* Minimum size, retry, reserve: every third of a second. */
void home_janitor(struct home *home);

/* From any worker: by mail, or at once if it is the home itself. */
void home_demand(struct pool *pool);

/* A post to the home of the pool that says how it stands here; to be sent. */
struct post *home_report(struct pool *pool, int kind);
void home_tell(struct pool *pool, int kind);

#endif
