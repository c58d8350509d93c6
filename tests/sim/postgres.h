/*
 * postgres.h - an actor that is PostgreSQL as seen through a socket.
 *
 * Backends come with a connect and go with Terminate, end of file or sudden
 * death.  They obey sql.h in simple and extended protocol, keep transactions
 * and COPY as PostgreSQL does, skip to Sync after an error, hold output back
 * up to 8 KiB, and take cancel requests.  A backend belongs to its holder, the
 * session it works for, until it is clean; a word of another session before
 * that is a breach of I3.  A batch may begin with words that name no session.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_POSTGRES_H
#define TESTS_SIM_POSTGRES_H

#include "tests/sim/sql.h"
#include "tests/sim/talk.h"

#include <stdbool.h>
#include <stdint.h>

enum { BACKENDS_MAX = 512, PREPARED_MAX = 32 };

/* What the pooler makes to have it deallocated. */
#define PREPARED_SACRIFICED "rb_gone"

enum backend_state { BACKEND_FREE, BACKEND_STARTUP, BACKEND_READY, BACKEND_CANCEL };

/* A prepared statement. */
struct kept {
	bool used;
	char name[SQL_NAME_MAX + 1];
	struct sql statement;
	bool empty;
};

struct backend {
	enum backend_state state;
	struct postgres *postgres;
	struct talk talk;
	uint32_t pid, secret;
	char tx;         /* 'I', 'T', 'E' */
	bool skipping;   /* to Sync */
	bool batch;      /* extended messages since the last Sync */
	bool unclaimed;  /* a batch has begun with a message that names no session */
	bool anonymous;  /* what runs is of nobody that can be told */
	uint32_t holder; /* session; 0: nobody */
	char user[64], database[64], application_name[64];

	/* What runs: the statements of one Query, or of one Execute. */
	bool running, extended;
	struct sql statements[STATEMENTS_MAX];
	uint32_t statement_count, statement_at;
	bool begun;        /* the statement at hand: its first step is done */
	uint32_t rows;     /* of it so far */
	uint32_t rows_max; /* of Execute; 0: all */
	bool copying;      /* COPY IN, waits for data */
	bool waiting;      /* for the alarm */
	struct alarm alarm;

	struct kept unnamed, prepared[PREPARED_MAX];
	struct sql portal;
	bool portal_open, portal_empty, portal_done;
	uint32_t portal_rows;

	/* A cancel under way to another backend. */
	uint32_t cancel_pid, cancel_secret;
	uint64_t counted; /* of talk.handed, told to check_sent */
};

struct postgres {
	struct door *door;
	struct rng rng;
	struct backend *backends[BACKENDS_MAX];
	/* Backends at most, of a user and database together and of each; 0: any. */
	uint32_t limit_pool, limit_user, limit_database;
	uint32_t limit_prepared; /* statements with a name on a backend; 0: any */
	bool strict;             /* those whose peer has left count as well */
	bool wants_reset;        /* between two sessions (session pooling) */
	uint32_t ready;          /* logged in now */
	uint32_t most;           /* at once so far */
	bool is_down;            /* refuses */
};

void postgres_open(struct postgres *postgres, const struct addr *addr, uint64_t seed);
void postgres_close(struct postgres *postgres);

/* What each backend is at, to stderr. */
void postgres_print(const struct postgres *postgres);

/* The names of a backend that are the pooler's; UINT32_MAX: there is no such
 * backend, or it has something to do. */
uint32_t postgres_prepared(const struct postgres *postgres, uint32_t pid);
bool postgres_has_prepared(const struct postgres *postgres, uint32_t pid, const char *name);

/* Backends there are, of any state. */
uint32_t postgres_backends(const struct postgres *postgres);

/* For run.c: an error of the backend's statement; `code` is the SQLSTATE. */
void backend_error(struct backend *backend, const char *severity, const char *code, uint64_t nonce,
                   const char *text);
void backend_error_words(struct backend *backend, const char *severity, const char *code,
                         const char *words);
void backend_ready(struct backend *backend);
void backend_claim(struct backend *backend, uint32_t session);
void backend_pump(struct backend *backend);
void backend_parameter(struct backend *backend, const char *name, const char *value);

/* run.c: starts and goes on with what runs.  False: it waits (for the alarm, for
 * room, for COPY data). */
void run_start(struct backend *backend, bool extended);
bool run_step(struct backend *backend);
void run_copy_message(struct backend *backend, const struct message *message);
bool run_cancel(struct backend *backend);

/* RowDescription. */
void backend_describe_rows(struct backend *backend, const struct sql *statement);

/* extended.c: a message of the extended protocol; statements that are prepared. */
void extended_message(struct backend *backend, const struct message *message);
bool prepared_drop(struct backend *backend, const char *name);
void prepared_drop_all(struct backend *backend);

#endif
