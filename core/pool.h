/*
 * pool.h - one worker's part of a pool: its clients, its servers, its queue.
 *
 * A list is a state: a client or server is in exactly one list of its pool,
 * SHOW reads their counts.
 *
 *	client:  active (idle or attached) <-> waiting
 *	server:  LOGIN -> IDLE <-> ACTIVE -> (TESTED, USED, BEING_CANCELED) -> IDLE
 *	         any -> CLOSING;  IDLE -> LENDING -> another worker
 *
 * pool_attach() gives a client a server or queues it, strictly first come
 * first served within the worker; pool_offer() is the one place where a server
 * that is free goes on: to another core that waits longer (core/home.h), to the
 * oldest waiter here, or to the idle list.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/config.h"
#include "core/registry.h"
#include "net/wheel.h"

struct client;
struct home;
struct post;
struct server;
struct worker;

enum server_state {
	SERVER_LOGIN,
	SERVER_IDLE,
	SERVER_ACTIVE,
	SERVER_USED,           /* idle, must be checked before use */
	SERVER_TESTED,         /* runs its check or reset query */
	SERVER_BEING_CANCELED, /* free, but a cancel aimed at it is under way */
	SERVER_LENDING,        /* on its way to another worker */
	SERVER_CLOSING,
	SERVER_STATE_COUNT,
};

struct counters {
#define COUNTER(name) uint64_t name;
#include "core/counters.def"
};

/* What the snapshot in force says for this pool; times in microseconds. */
struct pool_limits {
	enum pool_mode mode;
	uint32_t size, min_size, reserve_size;
	uint64_t reserve_timeout;
	uint64_t query_timeout, idle_transaction_timeout, transaction_timeout;
	uint64_t server_lifetime, server_idle_timeout;
	uint32_t statements;     /* prepared ones on a server; 0: not looked after */
	const char *reset_query; /* NULL: none on release */
	const char *check_query; /* NULL: never checked */
	uint64_t check_delay;
};

struct pool {
	struct worker *worker;
	struct pool_record *record;
	struct pool_limits limits;
	struct list active;  /* clients logged in, idle or attached */
	struct list waiting; /* clients queued, for a server or for the welcome */
	struct list servers[SERVER_STATE_COUNT];
	struct counters counters;
	uint32_t welcome_waiting; /* of `waiting`: logins without welcome data */

	/* Across cores: written by this worker, read relaxed by homes. */
	_Atomic uint32_t idle_count, connected_count, client_count;
	_Atomic uint64_t idle_since_us; /* of the idle server unused longest */
	struct timer demand_timer;      /* armed while clients wait */
	struct timer spare_timer; /* armed while somebody elsewhere waits for what is idle here */
	bool is_forced;           /* the database entry names the user */
	bool has_entry;           /* the config of this worker has one for its database */
	bool host_balance;        /* each connection goes to the next host */
	bool demanding;           /* the home believes that we wait */
	uint32_t received;        /* servers that have come, or failed to, so far */
	bool serving;             /* pool_serve() is running */
	uint64_t remote_wait_us;  /* how long it waited when that was said; 0: still the same */
	uint64_t remote_ticket;   /* a client elsewhere waits since then; 0: none */
	uint32_t remote_worker;
	uint32_t remote_wanted;
	uint32_t remote_servers; /* that are there, or on their way */
	uint32_t remote_mark;    /* number of the POST_REMOTE that said so */
	uint64_t share_us;       /* handed over since then, where both sides had some: */
	uint32_t share_given;
	struct home *home;         /* on the home worker only */
	struct greeting *greeting; /* of the last login (core/welcome.c); NULL: none yet */

	/* Fast fail (pgbouncer.md 5.6): set by the home's mail. */
	bool failing;
	char failure[128];
	uint64_t empty_since_us;
	bool forgotten; /* unused for pool_idle_timeout: SHOW leaves it out */
	uint64_t lifetime_closed_us;
};

/* RELOAD has taken away its database, here and for all. */
bool pool_is_removed(const struct pool *pool);

/* All servers, whatever they do; and its clients too. */
void pool_close_servers(struct pool *pool, const char *reason);
void pool_end(struct pool *pool);

/* The local part of a pool, made if needed; NULL without memory. */
struct pool *pool_get(struct worker *worker, struct pool_record *record);
void pool_free(struct pool *pool);

/* A new snapshot is in force. */
void pool_configure(struct pool *pool);

/* True: client->server is set.  False: the client waits (its conn is paused) or
 * was closed (fast fail, shutdown). */
bool pool_attach(struct pool *pool, struct client *client);

/* The client waits for the welcome data of a pool without any. */
void pool_wait_welcome(struct pool *pool, struct client *client);

/* Out of the queue, whatever the reason; the client's state is the caller's. */
void pool_unqueue(struct pool *pool, struct client *client);

/* A server that is clean and unattached goes on. */
void pool_offer(struct pool *pool, struct server *server);

/* A waiter makes a server that must be checked first run its check. */
void pool_check_one(struct pool *pool);
void pool_check_for(struct pool *pool, uint32_t wanted);

/* The first idle server that may be used. */
struct server *pool_take(struct pool *pool);

/* Closes an idle server that may not be used. */
bool pool_may_use(struct pool *pool, struct server *server);

/* Hands over what others are to get (pool_share.c): after a release, at the word
 * of the home, and when a server has become spare. */
void pool_share(struct pool *pool);
void pool_share_give(struct pool *pool, uint32_t to);
void pool_share_spare(struct timer *timer);

/* Servers open or opening here. */
uint32_t pool_server_count(const struct pool *pool);

/* Welcome data has come: those that waited for it go on. */
void pool_welcome(struct pool *pool);

/* The home says that the last login failed: waiters get this error, unless
 * `quiet` (57P03, connect failures). */
void pool_failed(struct pool *pool, const char *sqlstate, const char *text, bool quiet);
void pool_recovered(struct pool *pool);

/* What the home says (POST_OPEN, GIVE, REMOTE, EVICT, POOL_FAILED, POOL_WORKS). */
void pool_post(struct pool *pool, const struct post *post);

/* Waiters and idle servers come together, as far as both last. */
void pool_serve(struct pool *pool);

/* Every third of a second: timeouts of clients and servers. */
void pool_janitor(struct pool *pool);

/* Closes servers nobody uses: for PAUSE, KILL. */
void pool_close_unused(struct pool *pool, const char *reason);

/* Disconnects every client. */
void pool_kick_clients(struct pool *pool, const char *reason);

/* Whether PAUSE, of the process or of the database, holds this pool. */
bool pool_is_paused(const struct pool *pool);

/* Makes the counts of the pool known to the home. */
void pool_publish(struct pool *pool);

#endif
