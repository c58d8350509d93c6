/*
 * stats.c - see stats.h.
 *
 * Pools are looked up by a walk: there are as many as SHOW POOLS has rows, and
 * nobody waits for these sums but a console and the clock.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admin/collect.h"
#include "core/base/check.h"

enum { SECOND_US = 1000 * 1000, POOLS_FIRST = 16 };

void stats_init(struct stats *stats, uint64_t now_us)
{
	*stats = (struct stats){.older_us = now_us, .newer_us = now_us};
}

void stats_fini(struct stats *stats)
{
	free(stats->pools);
	*stats = (struct stats){0};
}

static struct stats_pool *pool_find(const struct stats *stats, uint32_t id)
{
	for (uint32_t i = 0; i < stats->count; i++)
		if (stats->pools[i].id == id)
			return &stats->pools[i];
	return NULL;
}

/* NULL without memory: the pool is then averaged over its whole life. */
static struct stats_pool *pool_make(struct stats *stats, uint32_t id)
{
	struct stats_pool *pool = pool_find(stats, id);
	if (pool != NULL)
		return pool;
	if (stats->count == stats->room) {
		uint32_t room = MAX((uint32_t)POOLS_FIRST, stats->room * 2);
		void *more = reallocarray(stats->pools, room, sizeof *stats->pools);
		if (more == NULL)
			return NULL;
		stats->pools = more;
		stats->room = room;
	}
	pool = &stats->pools[stats->count++];
	*pool = (struct stats_pool){.id = id};
	return pool;
}

void stats_turn(struct stats *stats, const struct rows *rows, uint64_t now_us)
{
	for (uint32_t i = 0; i < rows->pools.count; i++) {
		const struct pool_row *row = ROW(rows, pool_row, pools, i);
		struct stats_pool *pool = pool_make(stats, row->id);
		if (pool == NULL)
			continue;
		pool->older = pool->newer;
		pool->newer = row->counters;
	}
	stats->older_us = stats->newer_us;
	stats->newer_us = now_us;
}

static void counters_add(struct counters *sum, const struct counters *more)
{
#define COUNTER(name) sum->name += more->name;
#include "core/counters.def"
}

/* Counters of several workers are read one after the other: one of them may
 * seem to go back. */
static uint64_t above(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

static uint64_t per_second(uint64_t delta, uint64_t duration_us)
{
	if (duration_us == 0)
		return 0;
	return delta / duration_us * SECOND_US + delta % duration_us * SECOND_US / duration_us;
}

static uint64_t per(uint64_t delta, uint64_t count)
{
	return count == 0 ? 0 : delta / count;
}

struct counters stats_average(const struct counters *now, const struct counters *then,
                              uint64_t duration_us)
{
	struct counters delta, average;
#define COUNTER(name)                              \
	delta.name = above(now->name, then->name); \
	average.name = per_second(delta.name, duration_us);
#include "core/counters.def"
	average.xact_time = per(delta.xact_time, delta.xact_count);
	average.query_time = per(delta.query_time, delta.query_count);
	average.wait_time = per(delta.wait_time, delta.server_assignment_count);
	return average;
}

struct stats_sum stats_sum(const struct stats *stats, const struct rows *rows, const char *database,
                           uint64_t now_us)
{
	struct stats_sum sum = {0};
	struct counters then = {0};
	for (uint32_t i = 0; i < rows->pools.count; i++) {
		const struct pool_row *row = ROW(rows, pool_row, pools, i);
		if (database != NULL && strcmp(row->database, database) != 0)
			continue;
		counters_add(&sum.total, &row->counters);
		const struct stats_pool *pool = pool_find(stats, row->id);
		if (pool != NULL)
			counters_add(&then, &pool->older);
	}
	sum.average = stats_average(&sum.total, &then, above(now_us, stats->older_us));
	return sum;
}

void stats_line(const struct stats *stats, char *line, size_t room)
{
	struct counters now = {0}, then = {0};
	for (uint32_t i = 0; i < stats->count; i++) {
		counters_add(&now, &stats->pools[i].newer);
		counters_add(&then, &stats->pools[i].older);
	}
	struct counters a = stats_average(&now, &then, above(stats->newer_us, stats->older_us));
	snprintf(line, room,
	         "stats: %" PRIu64 " xacts/s, %" PRIu64 " queries/s, %" PRIu64
	         " client parses/s, %" PRIu64 " server parses/s, %" PRIu64 " binds/s, %" PRIu64
	         " client logins/s, in %" PRIu64 " B/s, out %" PRIu64 " B/s, xact %" PRIu64
	         " us, query %" PRIu64 " us, wait %" PRIu64 " us",
	         a.xact_count, a.query_count, a.client_parse_count, a.server_parse_count,
	         a.bind_count, a.client_login_count, a.client_bytes, a.server_bytes, a.xact_time,
	         a.query_time, a.wait_time);
}
