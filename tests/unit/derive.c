/*
 * A worker that is only a mailbox.  Jobs come back each once, to the worker that
 * asked, also those that were let go of; the sides take turns, the cheapest
 * server goes first; a full queue says so.  Without the helper a job is run at
 * once and still comes back by mail.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/derive.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/limits.h"
#include "core/post.h"
#include "core/process.h"
#include "core/worker.h"

enum { NOTES_MAX = 64 };

struct note_job {
	struct derive_job job;
	char name;
	bool waits; /* until `gate` opens */
	bool was_run;
};

static struct process process;
static struct worker workers[2];
static sem_t gate, at_gate;
static char run_order[NOTES_MAX], done_order[NOTES_MAX];
static uint32_t run_count, done_count, failed_count;
static uint32_t owner;

static void note_run(struct derive_job *job)
{
	struct note_job *note = CONTAINER(struct note_job, job, job);
	if (note->waits) {
		sem_post(&at_gate);
		sem_wait(&gate);
	}
	note->was_run = true;
	if (run_count++ < NOTES_MAX - 1)
		run_order[run_count - 1] = note->name;
}

static void note_done(void *of, struct derive_job *job)
{
	const struct note_job *note = CONTAINER(struct note_job, job, job);
	cr_assert_eq(of, &owner);
	cr_assert_eq(note->was_run, !job->failed);
	failed_count += job->failed;
	if (done_count++ < NOTES_MAX - 1)
		done_order[done_count - 1] = note->name;
}

static struct derive_job *submit(uint32_t worker, enum derive_side side, char name,
                                 uint32_t iterations)
{
	struct note_job *note = derive_new(sizeof *note);
	cr_assert_not_null(note);
	note->job.owner = &owner;
	note->job.run = note_run;
	note->job.done = note_done;
	note->job.iterations = iterations;
	note->name = name;
	note->waits = name == '!';
	return derive_submit(&workers[worker], side, &note->job) ? &note->job : NULL;
}

/* The mail of a worker, until it has nothing with the helper. */
static void take(uint32_t index)
{
	struct worker *worker = &workers[index];
	while (worker->deriving > 0) {
		struct pollfd bell = {.fd = worker->mailbox.bell, .events = POLLIN};
		uint64_t rings;
		cr_assert_eq(poll(&bell, 1, 20 * 1000), 1);
		cr_assert_eq(read(bell.fd, &rings, sizeof rings), sizeof rings);
		struct mail *mail = mailbox_take(&worker->mailbox);
		while (mail != NULL) {
			struct post *post = CONTAINER(struct post, mail, mail);
			mail = mail->next;
			cr_assert_eq(post->kind, POST_DERIVED);
			derive_came(worker, post);
			post_free(post);
		}
	}
}

static void begin(void)
{
	process.worker_count = ARRAY_LEN(workers);
	for (uint32_t i = 0; i < ARRAY_LEN(workers); i++) {
		workers[i].process = &process;
		workers[i].index = i;
		process.workers[i] = &workers[i];
		cr_assert_eq(mailbox_open(&workers[i].mailbox), 0);
	}
	sem_init(&gate, 0, 0);
	sem_init(&at_gate, 0, 0);
}

static void forget(void)
{
	memset(run_order, 0, sizeof run_order);
	memset(done_order, 0, sizeof done_order);
	run_count = done_count = failed_count = 0;
}

/* Has the helper busy, so that what is submitted next is ordered by the queues. */
static void hold_helper(void)
{
	forget();
	cr_assert_not_null(submit(0, DERIVE_SERVER, '!', 1));
	sem_wait(&at_gate);
}

static void check_order(void)
{
	hold_helper();
	submit(0, DERIVE_CLIENT, 'a', 9);
	submit(0, DERIVE_CLIENT, 'b', 5);
	submit(1, DERIVE_CLIENT, 'c', 1);
	submit(0, DERIVE_SERVER, 'Z', 1000);
	submit(0, DERIVE_SERVER, 'M', 50);
	submit(1, DERIVE_SERVER, 'N', 50);
	submit(0, DERIVE_SERVER, 'A', 2);
	submit(0, DERIVE_SERVER, 'Y', 1000);
	sem_post(&gate);
	take(0);
	take(1);
	cr_assert_str_eq(run_order, "!aAbMcNZY");
	cr_assert_str_eq(done_order, "!aAbMZYcN");
}

/* One let go of is skipped, but comes back; one under way is run to its end. */
static void check_drop(void)
{
	forget();
	struct derive_job *under_way = submit(0, DERIVE_SERVER, '!', 1);
	sem_wait(&at_gate);
	struct derive_job *queued = submit(0, DERIVE_CLIENT, 'a', 1);
	submit(0, DERIVE_CLIENT, 'b', 1);
	derive_drop(under_way);
	derive_drop(queued);
	sem_post(&gate);
	take(0);
	cr_assert_str_eq(run_order, "!b");
	cr_assert_str_eq(done_order, "b");
	cr_assert_eq(workers[0].deriving, 0);
}

/* What is queued at the end is not run. */
static void check_full_and_stop(void)
{
	hold_helper();
	for (uint32_t i = 0; i < DERIVE_QUEUE_MAX; i++)
		cr_assert_not_null(submit(1, DERIVE_CLIENT, 'x', 1));
	cr_assert_null(submit(1, DERIVE_CLIENT, 'y', 1));
	cr_assert_not_null(submit(1, DERIVE_SERVER, 'z', 1));
	cr_assert_eq(workers[1].deriving, DERIVE_QUEUE_MAX + 1);
	sem_post(&gate);
	derive_stop();
	take(0);
	take(1);
	cr_assert_eq(done_count, DERIVE_QUEUE_MAX + 2);
	cr_assert_eq(failed_count + run_count, done_count);
}

Test(derive, helper)
{
	begin();
	/* without it */
	cr_assert_not_null(submit(0, DERIVE_CLIENT, 'a', 1));
	cr_assert_not_null(submit(0, DERIVE_SERVER, 'b', 1));
	cr_assert_str_eq(run_order, "ab");
	cr_assert_str_eq(done_order, "");
	take(0);
	cr_assert_str_eq(done_order, "ab");
	/* with it, twice */
	for (int round = 0; round < 2; round++) {
		cr_assert_eq(derive_start(), 0);
		check_order();
		check_drop();
		check_full_and_stop();
	}
	for (uint32_t i = 0; i < ARRAY_LEN(workers); i++)
		mailbox_close(&workers[i].mailbox);
}
