/*
 * timers.h - a heap of timers, for the programs of bench.
 *
 * A timer lies inside what it belongs to and is all zero when it is not set.
 * Times are nanoseconds of CLOCK_MONOTONIC, since a load generator must be
 * able to start things at the right tenth of a millisecond.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_TIMERS_H
#define BENCH_TIMERS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { NS_PER_US = 1000, NS_PER_MS = 1000 * 1000, NS_PER_S = 1000 * 1000 * 1000 };

struct timer {
	uint64_t due;
	uint32_t place; /* in the heap, from 1; 0: not set */
};

struct timers {
	struct timer **heap; /* from 1 */
	uint32_t count, room;
};

uint64_t clock_now(void);

/* Setting a timer that is set moves it. */
void timers_set(struct timers *timers, struct timer *timer, uint64_t due);
void timers_clear(struct timers *timers, struct timer *timer);

/* Takes out the first timer that is due; NULL if none is. */
struct timer *timers_pop(struct timers *timers, uint64_t now);

/* How long to sleep until the first; NULL if none is set. */
const struct timespec *timers_wait(const struct timers *timers, uint64_t now,
                                   struct timespec *wait);
void timers_fini(struct timers *timers);

#endif
