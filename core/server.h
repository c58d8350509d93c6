/*
 * server.h - one connection to PostgreSQL, from its opening to its end.
 *
 *	server_open: connect -> startup -> authentication -> parameters, key
 *	             -> ReadyForQuery [-> connect_query] -> pool_offer
 *
 * A server belongs to one pool and one worker, and to at most one client.  It
 * counts one credit in each of its accounts from before it connects until its
 * end has been seen (a clean Terminate, then end of file, one second at most),
 * so PostgreSQL never sees one backend too many.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_SERVER_H
#define CORE_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/base/list.h"
#include "core/part.h"
#include "core/pool.h"
#include "core/statements.h"
#include "core/vars.h"
#include "net/addr.h"
#include "net/conn.h"
#include "net/wheel.h"
#include "proto/scan.h"
#include "proto/statement.h"
#include "proto/track.h"

/* More in one batch are rare, and then it is parsed again. */
enum { UNNAMED_CHANGES_MAX = 4 };

struct client;
struct cancel_job;
struct post;
struct server_login;

struct server {
	struct conn conn;
	struct link link; /* in pool->servers[state] */
	struct worker *worker;
	struct pool *pool;
	struct client *client; /* attached */
	struct server_login *login;
	struct cancel_job *cancel; /* aimed at this server, under way */
	struct track track;
	struct scan scan;
	struct part part;
	struct vars vars;
	struct vars login_vars; /* what it has after a RESET */
	struct cache cache;     /* what is prepared on it */
	struct journal journal; /* and what hangs on replies */
	uint64_t unnamed; /* which statement without name it has (client->unnamed); 0: of nobody */
	struct unnamed_change {
		uint32_t position;     /* of the request that changed it */
		uint8_t effect_before; /* of the client's text (enum sql_effect) */
		uint64_t before, client_before;
	} unnamed_changes[UNNAMED_CHANGES_MAX]; /* that may be skipped yet */
	uint32_t unnamed_change_count;
	uint32_t clash_position, unclear_position, forget_position;
	char clash[STATEMENT_NAME_MAX + 1]; /* the name a Parse will find taken */
	struct timer timer;                 /* of the login */
	uint64_t id;
	uint64_t connect_us;
	uint64_t request_us;        /* last message from the server */
	uint64_t query_us, xact_us; /* running since; 0: none */
	struct addr address;
	struct addr_short local;
	uint32_t reported; /* a bit per parameter: since the last ReadyForQuery */
	uint32_t epoch;
	uint32_t lent_to; /* worker, while LENDING */
	uint8_t key[CANCEL_KEY_SHORT];
	uint8_t state; /* enum server_state */
	bool has_credit;
	bool close_needed;
	bool setting_vars;           /* our SETs are under way */
	bool vars_unproven;          /* and may fail: what the client says waits for them */
	bool own_failed;             /* the query of our own under way got an error */
	bool clashes;                /* that Parse is under way */
	bool unclear;                /* a Query that may forget statements is */
	bool was_reset;              /* a RESET since the last ReadyForQuery */
	bool was_discarded;          /* or a DISCARD ALL */
	bool to_start;               /* so its client has gone back to its start */
	bool forgets;                /* what forgets all statements is */
	bool schema_changes;         /* its transaction may have changed the schema */
	bool whole;                  /* the message under way is looked at whole */
	bool dropping;               /* the rest of the message under way is dropped */
	bool abandoned;              /* closed while resolving */
	bool resolving;              /* its host name is with the helper */
	bool closed;                 /* its conn is closed */
	bool cut;                    /* its last client left in the middle of a message */
	bool forced;                 /* its password is that of the database entry */
	bool logged_in;              /* ReadyForQuery has come; `login` stays for connect_query */
	bool login_told;             /* the home knows how the login ended */
	char reason[REASON_MAX + 1]; /* why it is closing */
};

/* Opens a server for which the home has taken the credits; `host_turn` chooses
 * among several hosts.  All failures reach the home by mail. */
void server_open(struct pool *pool, uint32_t host_turn);

/* The free server of a moment ago, moved here (core/lend.h). */
struct server *server_new(struct pool *pool);

/* Between the lists of the pool. */
void server_move(struct server *server, enum server_state state);

/* The client has left or is done; decides what becomes of the server
 * (pgbouncer.md 5.4). */
void server_release(struct server *server);

/* Ends it: Terminate if that makes sense, and gives back the credit when its
 * end has been seen.  An attached client is told `reason` and closed.
 * Idempotent. */
void server_close(struct server *server, const char *reason);

/* Its client has got whole messages only. */
static inline bool server_is_between(const struct server *server)
{
	return server->scan.body_left == 0 || server->dropping || server->part.size > 0;
}

/* Whether it may change hands: owes nothing, outside of transactions, whole. */
bool server_is_fit(const struct server *server);

/* The same, with a conn that works: it may be given to a client now. */
bool server_is_clean(const struct server *server);

/* Sends a query of our own, whose replies are dropped. */
void server_query_own(struct server *server, const char *sql);

/* A ParameterStatus: name and value are texts. */
void server_parameter(struct server *server, const char *name, const char *value);

/* From the relay: what a server said while nobody was attached is done (check,
 * reset, connect query). */
void server_own_done(struct server *server);

/* Something that kept a CLOSING server from being freed has ended. */
void server_ended(struct server *server);

/* Log line with the server's prefix. */
__attribute__((format(printf, 3, 4))) void server_log(const struct server *server, int level,
                                                      const char *format, ...);

/* The helper has found the addresses (POST_RESOLVED). */
void server_resolved(struct worker *worker, struct post *post);

extern const struct conn_events server_events;

#endif
