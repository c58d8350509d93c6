/* timers.c - see timers.h.  A binary heap: the children of place i are 2i and 2i + 1. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/timers.h"

#include "bench/buffer.h"

#include <stdlib.h>

uint64_t clock_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void timers_put(struct timers *timers, uint32_t place, struct timer *timer)
{
	timers->heap[place] = timer;
	timer->place = place;
}

/* Finds the place for `timer` from a hole upwards, then downwards. */
static void timers_settle(struct timers *timers, uint32_t hole, struct timer *timer)
{
	while (hole > 1 && timer->due < timers->heap[hole / 2]->due) {
		timers_put(timers, hole, timers->heap[hole / 2]);
		hole /= 2;
	}
	for (uint32_t child; (child = hole * 2) <= timers->count; hole = child) {
		if (child < timers->count &&
		    timers->heap[child + 1]->due < timers->heap[child]->due)
			child++;
		if (timer->due <= timers->heap[child]->due)
			break;
		timers_put(timers, hole, timers->heap[child]);
	}
	timers_put(timers, hole, timer);
}

void timers_set(struct timers *timers, struct timer *timer, uint64_t due)
{
	timer->due = due;
	if (timer->place != 0) {
		timers_settle(timers, timer->place, timer);
		return;
	}
	if (timers->count + 1 >= timers->room) {
		timers->room = timers->room == 0 ? 64 : timers->room * 2;
		timers->heap = memory_grow(timers->heap, timers->room * sizeof(struct timer *));
	}
	timers_settle(timers, ++timers->count, timer);
}

void timers_clear(struct timers *timers, struct timer *timer)
{
	uint32_t hole = timer->place;
	if (hole == 0)
		return;
	timer->place = 0;
	struct timer *last = timers->heap[timers->count--];
	if (last != timer)
		timers_settle(timers, hole, last);
}

struct timer *timers_pop(struct timers *timers, uint64_t now)
{
	if (timers->count == 0 || timers->heap[1]->due > now)
		return NULL;
	struct timer *first = timers->heap[1];
	timers_clear(timers, first);
	return first;
}

const struct timespec *timers_wait(const struct timers *timers, uint64_t now, struct timespec *wait)
{
	if (timers->count == 0)
		return NULL;
	uint64_t due = timers->heap[1]->due;
	uint64_t left = due > now ? due - now : 0;
	wait->tv_sec = (time_t)(left / NS_PER_S);
	wait->tv_nsec = (long)(left % NS_PER_S);
	return wait;
}

void timers_fini(struct timers *timers)
{
	free(timers->heap);
	*timers = (struct timers){0};
}
