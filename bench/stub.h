/*
 * stub.h - a stand-in for PostgreSQL: one thread, epoll, no tables.
 *
 * A session is a file descriptor, a scan of what comes in, a queue of what
 * goes out, and a run: the statement under way.  While a run is stuck (it
 * sleeps, or the peer does not read), what the peer sends meanwhile waits in
 * `backlog`, as it would wait in the socket of a PostgreSQL backend.
 *
 *	stub.c          options, sockets, the loop
 *	stub_session.c  from startup to the end of a session; simple queries
 *	stub_extended.c Parse, Bind, Describe, Execute, Close
 *	stub_run.c      statements: delays, rows, COPY, transactions
 *	stub_plan.c     what a statement asks for
 *
 * A session that ends is marked and freed between two turns of the loop: an
 * event of the same turn may still point to it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_STUB_H
#define BENCH_STUB_H

#include "bench/buffer.h"
#include "bench/stub_plan.h"
#include "bench/timers.h"

#include "proto/scan.h"
#include "proto/scram.h"

enum {
	STUB_READ_SIZE = 64 * 1024,
	STUB_OUT_HIGH = 64 * 1024,     /* queued for one peer before rows pause */
	STUB_TURN_BYTES = 1024 * 1024, /* of rows for one peer in one turn */
	STUB_MESSAGE_MAX = 256 * 1024 * 1024,
	STUB_PARAMETERS = 13, /* that are reported, see stub_session.c */
	STUB_VALUE_MAX = 64,
	STUB_BUCKETS = 64, /* of named statements in a session */
};

enum stub_auth { STUB_TRUST, STUB_MD5, STUB_SCRAM };

struct stub {
	const char *host, *unix_path, *password;
	uint32_t port, max; /* max 0: none */
	uint32_t spoil, spoil_count, spoiled;
	enum stub_auth auth;
	bool quiet;
	int epoll;
	struct timers timers;
	struct session **sessions; /* by slot */
	uint32_t slot_count;
	struct session *dead;
	struct scram_verifier verifier;
	uint32_t open, open_most; /* sessions past their startup packet */
	uint64_t logins, refused, queries, cancels, cancels_hit;
	uint8_t read[STUB_READ_SIZE];
};

enum session_phase {
	PHASE_STARTUP,
	PHASE_PASSWORD,
	PHASE_SASL_FIRST,
	PHASE_SASL_FINAL,
	PHASE_READY
};

enum run_step {
	RUN_IDLE,
	RUN_STATEMENT, /* read the next one of a simple query */
	RUN_BEGIN,     /* delay it if it says so */
	RUN_DELAYED,
	RUN_HEAD, /* what comes before the rows */
	RUN_ROWS,
	RUN_COPY_IN,
	RUN_TAIL,
	RUN_READY, /* the end of a simple query */
};

struct statement {
	struct statement *next;
	uint64_t hash;
	struct buffer name, text; /* with their zero bytes */
	uint32_t parameters;
	uint32_t types[PLAN_PARAMETERS_MAX];
};

struct portal {
	struct portal *next;
	struct buffer name, bytes; /* of the statement and of the parameters */
	struct span text;
	struct span values[PLAN_PARAMETERS_MAX]; /* data NULL: a null */
	uint32_t value_count;
	bool exists;
	uint64_t row; /* already sent: Execute may stop before the end */
};

struct run {
	enum run_step step;
	bool extended;
	bool kept;          /* the text lies in `copy` */
	bool again;         /* the answer comes twice */
	bool first;         /* statement of its query: an empty query has one, too */
	struct span text;   /* of a simple query: what is left */
	struct span source; /* ... with the statement under way */
	struct buffer copy;
	struct plan plan;
	const struct portal *portal;
	uint64_t row, row_end, line_count;
	uint32_t column, offset; /* in the row under way */
	bool inside;             /* a column */
};

struct session {
	struct stub *stub;
	struct session *next_dead;
	int fd; /* -1: dead */
	uint32_t slot;
	uint32_t secret; /* of the cancel key; the pid is slot + 1 */
	uint32_t events; /* that epoll is asked for */
	enum session_phase phase;
	bool counted, skipping, ending; /* ending: close when all is sent */
	char status;
	uint32_t reports; /* bits of parameters that changed */
	uint8_t salt[4];
	char user[128];
	struct scan scan;
	struct buffer backlog, held, out;
	struct timer timer;
	struct run run;
	struct statement unnamed;
	struct statement **named;
	struct portal portal, *portals;
	struct scram_server *scram;
	char values[STUB_PARAMETERS][STUB_VALUE_MAX];
};

/* stub.c */
void session_close(struct session *session);
/* Sends what it can; false if something is left or the session is dead. */
bool session_flush(struct session *session);
/* Tells epoll what the session waits for now.  `early`: bytes came that it cannot take yet. */
void session_watch(struct session *session, bool early);

/* stub_session.c */
void session_readable(struct session *session);
/* Goes on after a delay or when the peer has read. */
void session_resume(struct session *session);
void session_init(struct session *session);
/* Whether it takes what comes in, or has to get on with a statement first. */
bool session_takes(const struct session *session);
void session_fini(struct session *session);
void session_ready(struct session *session);
void session_error(struct session *session, const char *sqlstate, const char *message);
void session_fatal(struct session *session, const char *sqlstate, const char *message);
void session_set(struct session *session, struct span name, struct span value);
void session_reset(struct session *session);
void session_message(struct session *session, char type, const void *body, uint32_t size);

/* stub_extended.c; a body without header each. */
void extended_parse(struct session *session, struct span body);
void extended_bind(struct session *session, struct span body);
void extended_describe(struct session *session, struct span body);
void extended_execute(struct session *session, struct span body);
void extended_close(struct session *session, struct span body);
void extended_forget_portals(struct session *session);
void extended_forget(struct session *session);

/* stub_run.c */
void run_query(struct session *session, struct span text);
void run_portal(struct session *session, struct portal *portal, uint32_t row_limit);
/* Goes on until the run is idle or stuck. */
void run_go(struct session *session);
void run_copy_message(struct session *session, uint8_t type, struct span body, bool last);
void run_cancel(struct session *session);
void run_describe(struct session *session, const struct plan *plan);

#endif
