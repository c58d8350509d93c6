/*
 * derive.h - keys from passwords in a helper thread: PBKDF2 takes a CPU for
 * milliseconds, or for seconds if the other side says so.
 *
 *	derive_new -> fill in -> derive_submit ... POST_DERIVED -> done()
 *
 * A job is the helper's from its submission until it has come back to the
 * worker that asked, which frees it.  The asker keeps the pointer for one use
 * only: to let go of the job (derive_drop) when it ends before.  So neither a
 * client nor a server has to stay for a job, but a worker has to: it does not
 * leave while worker->deriving counts any.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_DERIVE_H
#define CORE_DERIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct post;
struct worker;

/* For which login: each side has a queue of its own, and they take turns. */
enum derive_side { DERIVE_SERVER, DERIVE_CLIENT, DERIVE_SIDE_COUNT };

/* The head of a job; what it needs and makes follows in the asker's struct. */
struct derive_job {
	struct derive_job *next;
	struct worker *worker;
	size_t size;
	uint32_t iterations;  /* what it costs */
	void *owner;          /* for done(); the worker's only */
	_Atomic bool dropped; /* nobody waits for it any more */
	bool failed;          /* the helper has stopped: it was not run */
	/* In the helper: touches nothing that is a worker's. */
	void (*run)(struct derive_job *job);
	/* On the worker, one turn after derive_submit() or later; not after
	 * derive_drop(). */
	void (*done)(void *owner, struct derive_job *job);
};

/* One helper per process; 0 or -errno.  Without it a job is run by
 * derive_submit() itself (the simulator has no threads). */
int derive_start(void);
/* What is queued comes back `failed`. */
void derive_stop(void);

/* A zeroed job of `size` bytes, with struct derive_job first; NULL without
 * memory.  Its bytes are wiped when it is freed. */
void *derive_new(size_t size);
void derive_free(struct derive_job *job);

/* False, and the job is freed: too many wait. */
bool derive_submit(struct worker *worker, enum derive_side side, struct derive_job *job);

/* Its owner goes: done() will not be called. */
void derive_drop(struct derive_job *job);

/* POST_DERIVED. */
void derive_came(struct worker *worker, struct post *post);

#endif
