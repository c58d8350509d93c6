/*
 * worker.h - one thread, one core, one world.
 *
 * Owns its loop, its clients and servers, its part of every pool.  Nothing of
 * it is touched by another thread, but what is marked _Atomic and read relaxed
 * by others.  worker_turn() is one turn of its life: the thread calls it in a
 * loop, the simulator steps several workers through it in one thread.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_WORKER_H
#define CORE_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/slab.h"
#include "core/statements.h"
#include "core/vars.h"
#include "net/listen.h"
#include "net/loop.h"
#include "net/mail.h"

struct config;
struct pool;
struct post;
struct process;

enum { WORKER_LISTENERS_MAX = 32, GUESSERS = 16, RANDOM_STORE = 512 };

/* An address whose cancel requests name keys that nobody has (core/cancels.c). */
struct guesser {
	uint64_t hash; /* of the address */
	uint64_t since_us;
	uint32_t count;
};

struct worker {
	struct loop loop;
	struct mailbox mailbox;
	struct bell bell;
	struct process *process;
	struct config *config; /* held; switched by POST_CONFIG */
	uint32_t index;
	int cpu;       /* pinned to; -1: not pinned */
	bool stopping; /* COMMAND_STOP has come */
	bool stopped;  /* nothing is open any more */

	struct slab clients, servers, helds, jobs;
	struct words words;
	struct statements statements;
	uint8_t random[RANDOM_STORE]; /* for keys; the first random_left bytes are fresh */
	uint32_t random_left;
	uint64_t unnamed_count; /* statements without name that were parsed here */
	struct list logins;     /* clients not in a pool: STARTUP, AUTH, MOVING */
	struct list consoles;
	struct list cancels; /* clients that ask for a cancel */
	struct list closing; /* clients */
	struct list cancel_jobs;
	struct pool **pools; /* by pool id; NULL: none here */
	uint32_t pool_room;
	struct timer janitor;
	uint32_t janitor_runs;
	uint32_t abandoned; /* servers closed, but their look-up has not come back */
	uint32_t deriving;  /* jobs that are with the helper (core/derive.h) */

	struct listener listeners[WORKER_LISTENERS_MAX];
	uint32_t listener_count, listening;

	_Atomic uint32_t client_count; /* for the balance */
	uint64_t lent, borrowed;       /* servers handed over so far */
	uint64_t moved;                /* clients that have logged in and went elsewhere */
	uint64_t console_logins, console_queries, console_bytes;
	struct guesser guessers[GUESSERS]; /* who asks for cancels with unknown keys */
};

/* In the thread (or simulator) that will run it; process->config is taken over
 * by hold.  The fds are listening sockets of this worker.  False: *failure. */
bool worker_open(struct worker *worker, struct process *process, uint32_t index,
                 struct ring_failure *failure);
bool worker_listen(struct worker *worker, int fd, bool is_unix);

/* One turn.  max_wait_us: -1 no limit. */
void worker_turn(struct worker *worker, int64_t max_wait_us);

/* After worker->stopped. */
void worker_close(struct worker *worker);

/* Every pool with a part here. */
#define worker_each_pool(worker, name)                                          \
	for (uint32_t name##_i = 0; name##_i < (worker)->pool_room; name##_i++) \
		for (struct pool *name = (worker)->pools[name##_i]; name != NULL; name = NULL)

/* The client whose conn has this place in the table of the loop; NULL if it is
 * gone. */
struct client *worker_find_client(struct worker *worker, uint32_t slot, uint32_t generation);

#endif
