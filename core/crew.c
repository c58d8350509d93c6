/*
 * crew.c - see crew.h.
 *
 * A worker's ring must be made by the thread that uses it, so what can fail at
 * start fails there; one mutex and one condition carry the news to main.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/crew.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config.h"
#include "core/control.h"
#include "core/derive.h"
#include "core/log.h"
#include "core/process.h"
#include "core/sockets.h"
#include "core/worker.h"
#include "net/resolve.h"
#include "net/ring.h"
#include "net/sys.h"

enum { CPUS_MAX = 4096, SECOND_US = 1000 * 1000 };

struct recruit {
	struct crew *crew;
	struct worker worker;
	struct sys_thread *thread;
};

struct crew {
	struct process *process;
	struct sockets *sockets;
	struct recruit *recruits[WORKERS_MAX];
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	uint32_t opened, left;
	bool failed;
	struct ring_failure failure;
};

/* The CPUs that the process may run on, or those of cpu_list. */
static uint32_t cpus_list(const struct settings *settings, uint16_t *cpus)
{
	uint32_t count = 0;
	if (settings->cpu_list != NULL && settings->cpu_list[0] != '\0') {
		if (!config_cpu_list(settings->cpu_list, cpus, CPUS_MAX, &count) || count == 0) {
			log_fatal("cpu_list is not a list of CPUs: %s", settings->cpu_list);
			return 0;
		}
		return count;
	}
	cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
	size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
	if (set != NULL && sched_getaffinity(0, size, set) == 0)
		for (uint16_t cpu = 0; cpu < CPUS_MAX; cpu++)
			if (CPU_ISSET_S(cpu, size, set))
				cpus[count++] = cpu;
	if (set != NULL)
		CPU_FREE(set);
	if (count == 0)
		log_fatal("sched_getaffinity(): %s", text_of_error(errno));
	return count;
}

struct crew *crew_new(struct process *process, const struct settings *settings)
{
	static uint16_t cpus[CPUS_MAX];
	uint32_t cpu_count = cpus_list(settings, cpus);
	if (cpu_count == 0)
		return NULL;
	struct crew *crew = calloc(1, sizeof *crew);
	CHECK(crew != NULL);
	crew->process = process;
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_cond_init(&crew->changed, NULL);
	process->worker_count = settings->workers > 0 ? (uint32_t)settings->workers
	                                              : MIN(cpu_count, (uint32_t)WORKERS_MAX);
	for (uint32_t i = 0; i < process->worker_count; i++) {
		size_t size = (sizeof(struct recruit) + 63) & ~(size_t)63;
		struct recruit *recruit = aligned_alloc(64, size);
		CHECK(recruit != NULL);
		memset(recruit, 0, size);
		recruit->crew = crew;
		recruit->worker.index = i;
		recruit->worker.cpu = settings->cpu_pinning ? cpus[i % cpu_count] : -1;
		int error = mailbox_open(&recruit->worker.mailbox);
		if (error < 0) {
			log_fatal("eventfd(): %s", text_of_error(-error));
			return NULL;
		}
		crew->recruits[i] = recruit;
		process->workers[i] = &recruit->worker;
	}
	return crew;
}

static bool worker_begin(struct recruit *recruit, struct ring_failure *failure)
{
	struct crew *crew = recruit->crew;
	struct worker *worker = &recruit->worker;
	uint32_t index = worker->index;
	if (!worker_open(worker, crew->process, index, failure))
		return false;
	for (uint32_t i = 0; i < crew->sockets->count; i++) {
		int *fd = &crew->sockets->of[i].fds[index];
		if (*fd < 0)
			continue;
		if (!worker_listen(worker, *fd, crew->sockets->of[i].is_unix)) {
			snprintf(failure->text, sizeof failure->text, "cannot accept: no memory");
			return false;
		}
		*fd = -1; /* the worker's now */
	}
	return true;
}

static void worker_live(void *argument)
{
	struct recruit *recruit = argument;
	struct crew *crew = recruit->crew;
	struct worker *worker = &recruit->worker;
	struct ring_failure failure = {.text = ""};
	bool is_good = worker_begin(recruit, &failure);
	pthread_mutex_lock(&crew->mutex);
	crew->opened++;
	if (!is_good && !crew->failed) {
		crew->failed = true;
		crew->failure = failure;
	}
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->mutex);
	if (!is_good)
		return;
	while (!worker->stopped)
		worker_turn(worker, -1);
	worker_close(worker);
	pthread_mutex_lock(&crew->mutex);
	crew->left++;
	pthread_cond_broadcast(&crew->changed);
	pthread_mutex_unlock(&crew->mutex);
}

bool crew_start(struct crew *crew, struct sockets *sockets)
{
	struct process *process = crew->process;
	crew->sockets = sockets;
	int helper = resolve_start();
	if (helper != 0) {
		log_fatal("cannot start the helper for host names: %s", text_of_error(-helper));
		return false;
	}
	helper = derive_start();
	if (helper != 0) {
		log_fatal("cannot start the helper for keys: %s", text_of_error(-helper));
		return false;
	}
	for (uint32_t i = 0; i < process->worker_count; i++) {
		struct recruit *recruit = crew->recruits[i];
		char name[32];
		snprintf(name, sizeof name, "worker/%u", i);
		int error = sys_thread_start(&recruit->thread, name, recruit->worker.cpu,
		                             worker_live, recruit);
		if (error == 0)
			continue;
		log_fatal("cannot start worker %u on CPU %d: %s", i, recruit->worker.cpu,
		          text_of_error(-error));
		return false;
	}
	pthread_mutex_lock(&crew->mutex);
	while (crew->opened < process->worker_count)
		pthread_cond_wait(&crew->changed, &crew->mutex);
	bool is_good = !crew->failed;
	pthread_mutex_unlock(&crew->mutex);
	if (!is_good)
		log_fatal("%s", crew->failure.text);
	return is_good;
}

static bool all_have_left(struct crew *crew, uint64_t timeout_us)
{
	uint64_t until_us = sys_wall_us() + timeout_us;
	struct timespec until = {
		.tv_sec = (time_t)(until_us / SECOND_US),
		.tv_nsec = (long)(until_us % SECOND_US * 1000),
	};
	int error = 0;
	pthread_mutex_lock(&crew->mutex);
	while (crew->left < crew->process->worker_count && error == 0)
		error = pthread_cond_timedwait(&crew->changed, &crew->mutex, &until);
	bool all = crew->left == crew->process->worker_count;
	pthread_mutex_unlock(&crew->mutex);
	return all;
}

bool crew_join(struct crew *crew, uint64_t timeout_us)
{
	struct process *process = crew->process;
	if (!all_have_left(crew, timeout_us))
		return false;
	for (uint32_t i = 0; i < process->worker_count; i++)
		sys_thread_join(crew->recruits[i]->thread);
	resolve_stop();
	derive_stop();
	/* Mail that came behind the last look of its receiver. */
	control_drain(process);
	for (uint32_t i = 0; i < process->worker_count; i++) {
		mailbox_close(&crew->recruits[i]->worker.mailbox);
		free(crew->recruits[i]);
	}
	pthread_cond_destroy(&crew->changed);
	pthread_mutex_destroy(&crew->mutex);
	free(crew);
	return true;
}
