/*
 * stats.h - totals and averages over time (pgbouncer.md 10.3, 10.4).
 *
 * Workers count per pool and never reset.  Control keeps what the counters of
 * each pool were at the last two ends of a period; an average is over the time
 * since the older of them, one to two periods, so that it never is over nothing.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_ADMIN_STATS_H
#define CORE_ADMIN_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pool.h"

struct rows;

struct stats_pool {
	uint32_t id;
	struct counters older, newer;
};

struct stats {
	uint64_t older_us, newer_us;
	struct stats_pool *pools;
	uint32_t count, room;
};

void stats_init(struct stats *stats, uint64_t now_us);
void stats_fini(struct stats *stats);

/* A period is over. */
void stats_turn(struct stats *stats, const struct rows *rows, uint64_t now_us);

/* Totals and averages of the pools of one database; NULL: of all. */
struct stats_sum {
	struct counters total, average;
};
struct stats_sum stats_sum(const struct stats *stats, const struct rows *rows, const char *database,
                           uint64_t now_us);

/* The periodic line, of the period that ended with the last stats_turn(). */
void stats_line(const struct stats *stats, char *line, size_t room);

/* Pure: what `now` is above `then`, per second or per event. */
struct counters stats_average(const struct counters *now, const struct counters *then,
                              uint64_t duration_us);

#endif
