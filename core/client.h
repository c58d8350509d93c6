/*
 * client.h - one connection from a client, from its first byte to its end.
 *
 *	STARTUP -> AUTH -> WELCOME -> READY <-> WAITING      (in a pool)
 *	       \-> CANCEL (a cancel request)  \-> CONSOLE    (database pgbouncer)
 *	any -> CLOSING
 *
 * MOVING is between AUTH and WELCOME: it goes to the worker that serves its pool.
 * READY is a client between queries or attached to a server.  WAITING is queued:
 * its conn is paused and what it has said waits in `held`, copied out of the
 * receive buffers, so that waiting costs nobody anything.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CLIENT_H
#define CORE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cancel/key.h"
#include "core/base/limits.h"
#include "core/base/list.h"
#include "core/part.h"
#include "core/registry.h"
#include "core/vars.h"
#include "net/addr.h"
#include "net/conn.h"
#include "proto/scan.h"

struct buf;
struct console;
struct extended;
struct login;
struct moved_client;
struct pool;
struct server;
struct worker;

enum client_state {
	CLIENT_STARTUP,
	CLIENT_AUTH,
	CLIENT_MOVING,
	CLIENT_WELCOME, /* logged in, waits for the pool's welcome data */
	CLIENT_READY,
	CLIENT_WAITING,
	CLIENT_CONSOLE,
	CLIENT_CANCEL,
	CLIENT_CLOSING,
	CLIENT_STATE_COUNT,
};

/* Bytes a client has said that wait for a server. */
struct held {
	struct held *next;
	struct buf *buf;
	uint32_t from, to;
};

struct client {
	struct conn conn;
	struct link link; /* worker's or pool's list of its state */
	struct worker *worker;
	struct pool *pool;
	struct database *database;
	struct user *user;           /* who logged in */
	struct server *server;       /* attached */
	struct login *login;         /* until it is logged in */
	struct moved_client *moving; /* in MOVING */
	struct console *console;     /* in CONSOLE */
	struct held *held_first, *held_last;
	uint64_t unnamed;          /* its statement without name, by a number; 0: none */
	struct extended *extended; /* its prepared statements (core/relay_named.h) */
	struct part part;          /* of a message that is being looked into */
	struct vars vars;
	struct start_vars *start; /* what it asked for at its start; NULL: nothing */
	struct scan scan;
	uint64_t id;
	uint64_t connect_us;
	uint64_t request_us;        /* last message from the client */
	uint64_t query_us, xact_us; /* begun at; 0: none */
	uint64_t wait_us;           /* queued since; 0: not */
	struct addr_short address;
	struct cancel_key key;
	uint8_t state; /* enum client_state */
	bool counted_database, counted_user, counted_client, in_cancel_table;
	bool is_admin, is_stats; /* rights on the console */
	bool is_unix;
	bool skip_to_sync;  /* its batch was answered by an error: all but Sync is dropped */
	bool gathering;     /* a message is being looked into, none of it is with a server */
	bool dropping;      /* the rest of the message under way is dropped */
	bool drop_next;     /* its next message was answered already */
	bool relaying;      /* inside relay_up: no second entry */
	bool ended;         /* it will send no more */
	bool vanished;      /* by end of file, not Terminate */
	bool leaves;        /* said goodbye while it was queued, behind nothing new */
	bool notified;      /* of its wait (query_wait_notify) */
	bool console_busy;  /* a console command is under way */
	bool protocol_long; /* speaks 3.2 */
	uint32_t unix_pid;
	const char *reason; /* of its end, once `ended`: a constant text */
};

/* Takes a connection that was accepted here or mailed here. */
void client_open(struct worker *worker, int fd, bool is_unix);

/* One with an id, an address and a login to be made, in no count; NULL: no memory,
 * the descriptor is the caller's still.  has_spoken: bytes of it are there already. */
struct client *client_new(struct worker *worker, int fd, bool is_unix, bool has_spoken);

/* Its conn is closed or released. */
void client_free(struct client *client);

/* Between lists and states; checks that the move is allowed. */
void client_move(struct client *client, enum client_state state);

/* Tells the client why (FATAL, `sqlstate`), and closes.  What becomes of its
 * server follows pgbouncer.md 5.4.  sqlstate NULL: 08P01.  text NULL: says
 * nothing.  Idempotent. */
void client_fail(struct client *client, const char *sqlstate, const char *text);

/* The same for bytes that are no message: shows the first eight. */
void client_fail_header(struct client *client, struct span bytes);

/* Closes without a word; the reason is for the log. */
void client_close(struct client *client, const char *reason);

/* The attached server has gone: the client is told and closed, no server is
 * touched. */
void client_server_gone(struct client *client, const char *reason);

/* Every third of a second: timeouts of clients that are in no pool. */
void client_janitor(struct worker *worker);

/* Queues bytes that must wait, by copy; closes the client without memory. */
void client_hold(struct client *client, const uint8_t *bytes, uint32_t size);
void client_hold_first(struct client *client, const uint8_t *bytes, uint32_t size);
void client_drop_held(struct client *client);

/* No message of it is partly with the server. */
static inline bool client_is_between(const struct client *client)
{
	return client->scan.body_left == 0 || client->dropping;
}

bool client_key_is(const struct client *client, struct span key);

__attribute__((format(printf, 3, 4))) void client_log(const struct client *client, int level,
                                                      const char *format, ...);

extern const struct conn_events client_events;

#endif
