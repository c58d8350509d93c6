/*
 * derive.c - see derive.h: two queues behind a mutex, and one thread.
 *
 * Servers and clients take turns, so that strangers who guess passwords do not
 * keep us from logging in to servers.  Among servers the cheapest goes first: one
 * that asks for a million rounds delays the others by the job under way, not
 * by its whole row.  Clients are served in order, since how much their users
 * cost is not theirs to say.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/derive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/base/limits.h"
#include "core/post.h"
#include "core/worker.h"
#include "net/sys.h"

struct queue {
	struct derive_job *first, *last; /* last: if there is a first */
	uint32_t count;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct queue queues[DERIVE_SIDE_COUNT];
	enum derive_side turn; /* whose job is taken next if both have one */
	bool stopping;
	struct sys_thread *thread; /* set while there are no workers */
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void *derive_new(size_t size)
{
	CHECK(size >= sizeof(struct derive_job));
	struct derive_job *job = calloc(1, size);
	if (job != NULL)
		job->size = size;
	return job;
}

void derive_free(struct derive_job *job)
{
	bytes_wipe(job, job->size);
	free(job);
}

/* The oldest job of the side whose turn it is, or of the other. */
static struct derive_job *queues_take(void)
{
	enum derive_side side = helper.turn;
	if (helper.queues[side].first == NULL)
		side = side == DERIVE_SERVER ? DERIVE_CLIENT : DERIVE_SERVER;
	struct queue *queue = &helper.queues[side];
	struct derive_job *job = queue->first;
	if (job == NULL)
		return NULL;
	queue->first = job->next;
	queue->count--;
	helper.turn = side == DERIVE_SERVER ? DERIVE_CLIENT : DERIVE_SERVER;
	return job;
}

/* The next job, or NULL when it is time to go. */
static struct derive_job *job_take(bool *stopping)
{
	pthread_mutex_lock(&helper.lock);
	struct derive_job *job;
	while ((job = queues_take()) == NULL && !helper.stopping)
		pthread_cond_wait(&helper.changed, &helper.lock);
	*stopping = helper.stopping;
	pthread_mutex_unlock(&helper.lock);
	return job;
}

/* It may be gone after this. */
static void job_return(struct derive_job *job)
{
	struct worker *worker = job->worker;
	struct post *post = post_new(POST_DERIVED, WORKERS_MAX);
	post->derived.job = job;
	post_send(worker->process, worker->index, post);
}

static void helper_run(void *argument)
{
	(void)argument;
	struct derive_job *job;
	bool stopping;
	while ((job = job_take(&stopping)) != NULL) {
		job->failed = stopping;
		if (!stopping && !atomic_load_explicit(&job->dropped, memory_order_relaxed))
			job->run(job);
		job_return(job);
	}
}

int derive_start(void)
{
	CHECK(helper.thread == NULL);
	helper.stopping = false;
	return sys_thread_start(&helper.thread, "derive", -1, helper_run, NULL);
}

/* The job under way is waited for. */
void derive_stop(void)
{
	CHECK(helper.thread != NULL);
	pthread_mutex_lock(&helper.lock);
	helper.stopping = true;
	pthread_cond_signal(&helper.changed);
	pthread_mutex_unlock(&helper.lock);
	sys_thread_join(helper.thread);
	helper.thread = NULL;
}

static bool queue_put(enum derive_side side, struct derive_job *job)
{
	struct queue *queue = &helper.queues[side];
	struct derive_job **at = &queue->first;
	if (queue->count == DERIVE_QUEUE_MAX)
		return false;
	if (*at != NULL && (side == DERIVE_CLIENT || queue->last->iterations <= job->iterations))
		at = &queue->last->next;
	else
		while (*at != NULL && (*at)->iterations <= job->iterations)
			at = &(*at)->next;
	job->next = *at;
	*at = job;
	if (job->next == NULL)
		queue->last = job;
	queue->count++;
	return true;
}

bool derive_submit(struct worker *worker, enum derive_side side, struct derive_job *job)
{
	job->worker = worker;
	if (helper.thread == NULL) {
		worker->deriving++;
		job->run(job);
		job_return(job);
		return true;
	}
	pthread_mutex_lock(&helper.lock);
	bool has_room = queue_put(side, job);
	if (has_room)
		pthread_cond_signal(&helper.changed);
	pthread_mutex_unlock(&helper.lock);
	if (has_room)
		worker->deriving++;
	else
		derive_free(job);
	return has_room;
}

void derive_drop(struct derive_job *job)
{
	job->owner = NULL;
	atomic_store_explicit(&job->dropped, true, memory_order_relaxed);
}

void derive_came(struct worker *worker, struct post *post)
{
	struct derive_job *job = post->derived.job;
	CHECK(job->worker == worker && worker->deriving > 0);
	worker->deriving--;
	if (!atomic_load_explicit(&job->dropped, memory_order_relaxed))
		job->done(job->owner, job);
	derive_free(job);
}
