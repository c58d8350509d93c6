/*
 * load_histogram.h - log-linear histogram of times in nanoseconds.
 *
 * Exact below 128, then 128 steps for each power of two: a value read back is
 * within 0.4 %.  One thread adds while another reads.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_LOAD_HISTOGRAM_H
#define BENCH_LOAD_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEP_BITS = 7, HISTOGRAM_BITS_MAX = 40 };

enum { HISTOGRAM_SIZE = (HISTOGRAM_BITS_MAX - HISTOGRAM_STEP_BITS + 1) << HISTOGRAM_STEP_BITS };

struct histogram {
	uint64_t counts[HISTOGRAM_SIZE];
};

/* Counters that one thread writes and others read. */
static inline void counter_add(uint64_t *counter, uint64_t count)
{
	__atomic_store_n(counter, *counter + count, __ATOMIC_RELAXED);
}

static inline uint64_t counter_read(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void histogram_add(struct histogram *histogram, uint64_t ns);
void histogram_sum(struct histogram *sum, const struct histogram *part);

/* now - before, into `difference`, which may be one of them. */
void histogram_subtract(struct histogram *difference, const struct histogram *now,
                        const struct histogram *before);
uint64_t histogram_count(const struct histogram *histogram);

/* The value that `share` (0 to 1) of all are not above; 0 if there are none. */
uint64_t histogram_value(const struct histogram *histogram, double share);
double histogram_mean(const struct histogram *histogram);

#endif
