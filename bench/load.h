/*
 * load.h - a load generator that checks every answer.
 *
 * A client does units: one query, a transaction, K batches in one write, or a
 * whole visit (churn).  Every query carries a nonce that no other query has,
 * and for every query an entry in the client's queue says which replies must
 * come for it, each once, in order.  Whatever else comes is counted:
 *
 *	wrong   a reply that belongs to another query or does not fit this one
 *	lost    a query that ended, or a client that waited, without its answer
 *	double  a reply that came before, or that nobody waits for
 *
 * An ErrorResponse or an end of the connection is none of these: they are
 * counted as errors, by SQLSTATE.  But a 57014 for a client that has not asked
 * for a cancel lately is wrong: somebody else's cancel hit it.
 *
 *	load.c           threads, phases, the clock of a run
 *	load_options.c   the command line
 *	load_report.c    lines, the summary, JSON
 *	load_thread.c    the loop of a thread
 *	load_client.c    one connection: connect, read, write, end
 *	load_login.c     startup and authentication
 *	load_unit.c      what a client asks for, and when
 *	load_answer.c    what must come back
 *	load_request.c   the bytes of requests, made once and patched
 *	load_cancel.c    cancel requests, each on a connection of its own
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "bench/buffer.h"
#include "bench/load_histogram.h"
#include "bench/socket.h"
#include "bench/timers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "proto/scan.h"
#include "proto/scram.h"

enum {
	LOAD_READ_SIZE = 256 * 1024,
	LOAD_MESSAGE_MAX = 1024 * 1024 * 1024,
	NONCE_SIZE = 20, /* run-client-sequence, 4 + 6 + 8 hex digits */
	TRANSACTION_STEPS = 5,
	ERROR_KINDS_MAX = 64,
	COMPLAINTS_MAX = 20, /* lines on stderr, in all */
};

/* --------------------------------------------------------------- what is set */

enum load_mode {
	MODE_SIMPLE,
	MODE_EXTENDED,
	MODE_PREPARED,
	MODE_TRANSACTION,
	MODE_PIPELINE,
	MODE_CHURN,
	MODE_BULK,
};

struct options {
	enum load_mode mode;
	const char *host, *unix_path, *user, *database, *password, *json;
	uint32_t port;
	uint32_t clients, threads, batches, variants, size, rows, slow;
	int pid; /* whose CPU time is measured; 0: nobody's */
	double seconds, warmup, rate, vanish, cancel, timeout, progress;
	uint64_t read_rate, seed;
};

/* ----------------------------------------------------------------- requests */

enum request_kind {
	REQUEST_SIMPLE,   /* Query */
	REQUEST_EXTENDED, /* Parse, Bind, Describe, Execute, Sync; a nonce in text and parameter */
	REQUEST_BOUND,    /* Bind, Execute, Sync of the prepared statement */
	REQUEST_PREPARE,  /* Parse, Sync */
	REQUEST_BEGIN,
	REQUEST_COMMIT,
	REQUEST_SLEEP, /* Query that takes a while */
	REQUEST_BULK,
	REQUEST_KINDS,
};

/* Replies, by what they are to a request. */
enum reply {
	REPLY_PARSE = 1,
	REPLY_BIND = 2,
	REPLY_DESCRIBE = 4,
	REPLY_ROW = 8,
	REPLY_COMPLETE = 16,
};

struct request {
	struct buffer bytes;
	uint32_t nonce_at[4], nonce_count;
	uint8_t wants; /* enum reply */
};

/* One entry for each ReadyForQuery that must come. */
struct expected {
	uint64_t sequence;
	uint32_t rows;
	uint8_t kind; /* enum request_kind */
	uint8_t seen; /* enum reply */
	bool failed;
};

/* ------------------------------------------------------------------ counting */

enum count {
	COUNT_TRANSACTIONS,
	COUNT_QUERIES,
	COUNT_WRONG,
	COUNT_LOST,
	COUNT_DOUBLE,
	COUNT_ERRORS,
	COUNT_CONNECTS,
	COUNT_VANISHED,
	COUNT_CANCELS,
	COUNT_CANCELLED, /* 57014 that the client had asked for */
	COUNT_BYTES,
	COUNTS,
};

struct error_count {
	char state[6]; /* or a word of ours in capitals */
	uint64_t count;
};

/* ------------------------------------------------------------------- clients */

enum endpoint_kind { ENDPOINT_CLIENT, ENDPOINT_CANCEL };

struct endpoint {
	enum endpoint_kind kind;
	int fd; /* -1: none */
};

enum client_state {
	CLIENT_CLOSED,
	CLIENT_CONNECTING,
	CLIENT_LOGIN,
	CLIENT_IDLE,
	CLIENT_BUSY,
};

/* What happens to a unit besides its answers. */
enum fate {
	FATE_NONE,
	FATE_HALF,   /* gone with half of a request sent */
	FATE_SENT,   /* gone with a request just sent */
	FATE_LATER,  /* gone after a while */
	FATE_CANCEL, /* cancel request after a while */
	FATE_CANCEL_NOW,
};

struct unit {
	uint64_t intended; /* when it should have begun */
	uint32_t step, fate_step;
	enum fate fate;
	bool sleepy; /* the query at fate_step takes a while */
	bool prepare, failed;
};

struct client {
	struct endpoint endpoint; /* first */
	struct thread *thread;
	uint32_t number, variant;
	enum client_state state;
	uint32_t events;
	uint32_t incarnation; /* counts connections */
	bool slow, was_ready, fatal, prepared;
	char status; /* of the last ReadyForQuery */
	uint8_t key[CANCEL_KEY_MAX + 4], key_size;
	uint32_t cancels_open;
	uint64_t cancel_at; /* when one was last under way */
	uint64_t since;     /* when bytes last went or came */
	uint64_t intended;  /* next start, open loop */
	uint64_t sequence;
	uint64_t done, done_before; /* units; at the start of the measurement */
	struct scan scan;
	struct buffer held, out;
	struct timer timer, read_timer;
	double read_allowed;
	uint64_t read_at;
	struct unit unit;
	struct expected *expected; /* ring of options.batches */
	uint32_t expected_head, expected_count;
	struct scram_client scram;
};

struct thread {
	struct load *load;
	pthread_t handle;
	int epoll;
	struct list cancels;
	int phase; /* that it has seen */
	uint64_t now, random, drain_began, scanned;
	struct timers timers;
	struct client *clients;
	uint32_t client_count;
	uint64_t counts[COUNTS];
	struct histogram latency;
	struct error_count errors[ERROR_KINDS_MAX];
	struct scram_keys keys; /* of the password, for the salt below */
	uint8_t salt[SCRAM_SALT_MAX];
	uint32_t salt_size, iterations;
	uint8_t *read;
};

enum phase { PHASE_RAMP, PHASE_RUN, PHASE_DRAIN };

struct load {
	struct options options;
	struct socket_address address;
	struct request requests[REQUEST_KINDS];
	struct request *prepares; /* by variant */
	struct thread *threads;
	uint16_t run;               /* part of every nonce */
	int phase;                  /* enum phase, atomic */
	uint32_t ready, complaints; /* atomic */
	uint64_t run_began;
};

/* load_options.c */
void options_read(struct options *options, int argc, char **argv);
const char *mode_name(enum load_mode mode);

/* load_request.c */
void requests_make(struct load *load);
void requests_free(struct load *load);
void nonce_write(const struct client *client, uint64_t sequence, char nonce[NONCE_SIZE]);
void variant_write(uint32_t variant, char text[16]);
/* Appends a request with its nonce to what the client sends, and expects its answer. */
void request_send(struct client *client, enum request_kind kind);

/* load_thread.c */
void *thread_run(void *thread);
uint64_t thread_random(struct thread *thread, uint64_t below);
bool thread_chance(struct thread *thread, double percent);
void thread_error(struct thread *thread, const char *state);
void thread_count(struct thread *thread, enum count count, uint64_t add);
enum phase thread_phase(const struct thread *thread);

/* load_client.c */
void client_connect(struct client *client);
void client_event(struct client *client, uint32_t events);
/* A slow reader may read again. */
void client_read_more(struct client *client);
void client_flush(struct client *client);
/* Ends the connection: quietly, by FIN, by RST. */
enum leave { LEAVE_TERMINATE, LEAVE_FIN, LEAVE_RST };
void client_leave(struct client *client, enum leave how);
/* The same after a failure; comes back after a while. */
void client_fail(struct client *client, const char *state);
/* Says on stderr what is wrong, counts it, and starts afresh. */
__attribute__((format(printf, 3, 4))) void client_complain(struct client *client, enum count count,
                                                           const char *format, ...);

/* load_login.c */
void login_start(struct client *client);
void login_message(struct client *client, uint8_t type, struct span body);

/* load_unit.c */
/* Logged in, or done with a unit: when does the next one start? */
void client_next(struct client *client);
void client_timer(struct client *client);
void unit_start(struct client *client, uint64_t intended);
/* All answers of a step are here. */
void unit_step_done(struct client *client);

/* load_answer.c */
void answer_message(struct client *client, uint8_t type, struct span body);

/* load_cancel.c */
struct cancel;
void cancel_start(struct client *client);
void cancel_event(struct endpoint *endpoint);
/* Gives up those that are older than `age_ns`. */
void cancels_end(struct thread *thread, uint64_t age_ns);

/* load_report.c */
struct snapshot {
	uint64_t at;
	uint64_t counts[COUNTS];
	uint64_t cpu_ns; /* of options.pid */
	struct histogram latency;
};

void snapshot_take(struct snapshot *snapshot, const struct load *load);
void report_progress(const struct load *load, const struct snapshot *before,
                     const struct snapshot *now);
/* Whether all answers were right. */
bool report_end(const struct load *load, const struct snapshot *first, const struct snapshot *last);

#endif
