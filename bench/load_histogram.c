/* load_histogram.c - see load_histogram.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load_histogram.h"

#include "core/base/check.h"

enum { STEPS = 1 << HISTOGRAM_STEP_BITS };

static uint32_t histogram_place(uint64_t ns)
{
	if (ns < STEPS)
		return (uint32_t)ns;
	uint32_t shift = 63 - (uint32_t)__builtin_clzll(ns) - HISTOGRAM_STEP_BITS;
	uint64_t place = ((uint64_t)(shift + 1) << HISTOGRAM_STEP_BITS) + (ns >> shift) - STEPS;
	return (uint32_t)MIN(place, (uint64_t)HISTOGRAM_SIZE - 1);
}

/* The middle of a place. */
static uint64_t histogram_ns(uint32_t place)
{
	if (place < STEPS)
		return place;
	uint32_t shift = (place >> HISTOGRAM_STEP_BITS) - 1;
	uint64_t low = (uint64_t)(place % STEPS + STEPS) << shift;
	return low + ((1ULL << shift) >> 1);
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
	counter_add(&histogram->counts[histogram_place(ns)], 1);
}

void histogram_sum(struct histogram *sum, const struct histogram *part)
{
	for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++)
		sum->counts[i] += counter_read(&part->counts[i]);
}

void histogram_subtract(struct histogram *difference, const struct histogram *now,
                        const struct histogram *before)
{
	for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++)
		difference->counts[i] = now->counts[i] - before->counts[i];
}

uint64_t histogram_count(const struct histogram *histogram)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++)
		count += histogram->counts[i];
	return count;
}

uint64_t histogram_value(const struct histogram *histogram, double share)
{
	double wanted = share * (double)histogram_count(histogram);
	uint64_t count = 0, value = 0;
	for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++) {
		if (histogram->counts[i] == 0)
			continue;
		value = histogram_ns(i);
		count += histogram->counts[i];
		if ((double)count >= wanted)
			break;
	}
	return value;
}

double histogram_mean(const struct histogram *histogram)
{
	double sum = 0, count = 0;
	for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++) {
		sum += (double)histogram->counts[i] * (double)histogram_ns(i);
		count += (double)histogram->counts[i];
	}
	return count > 0 ? sum / count : 0;
}
