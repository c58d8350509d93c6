/*
 * Averages against numbers worked out by hand, sums over pools, and the merge
 * of what several workers have sent.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/stats.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/admin/collect.h"
#include "core/base/check.h"

enum { SECOND_US = 1000 * 1000 };

Test(stats, averages)
{
	static const struct {
		struct counters now, then;
		uint64_t duration_us;
		struct counters average;
	} cases[] = {
		{{.xact_count = 100}, {.xact_count = 40}, 60 * SECOND_US, {.xact_count = 1}},
		{{.xact_count = 100}, {.xact_count = 0}, 30 * SECOND_US, {.xact_count = 3}},
		{{.xact_count = 100}, {.xact_count = 0}, 0, {.xact_count = 0}},
		/* never below nothing */
		{{.xact_count = 1}, {.xact_count = 5}, SECOND_US, {.xact_count = 0}},
		/* times are per event, whatever the duration */
		{{.xact_count = 10, .xact_time = 1005},
	         {.xact_count = 0, .xact_time = 5},
	         20 * SECOND_US,
	         {.xact_count = 0, .xact_time = 100}},
		{{.query_count = 4, .query_time = 10},
	         {.query_count = 4, .query_time = 0},
	         SECOND_US,
	         {.query_time = 0}},
		{{.server_assignment_count = 4, .wait_time = 10},
	         {.server_assignment_count = 0},
	         SECOND_US,
	         {.server_assignment_count = 4, .wait_time = 2}},
		/* no overflow on the way */
		{{.client_bytes = UINT64_MAX / 2},
	         {.client_bytes = 0},
	         SECOND_US,
	         {.client_bytes = UINT64_MAX / 2}},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct counters average = stats_average(&cases[i].now, &cases[i].then,
		                                        cases[i].duration_us);
		cr_assert_eq(memcmp(&average, &cases[i].average, sizeof average), 0, "case %zu", i);
	}
}

static void pool(struct rows *rows, uint32_t id, const char *database, uint64_t count)
{
	struct pool_row *row = row_add(&rows->pools, sizeof *row);
	row->id = id;
	row->database = database;
	row->user = "u";
	row->counters.xact_count = row->counters.query_count = count;
	row->counters.xact_time = count * 30;
}

Test(stats, periods)
{
	struct stats stats;
	struct rows rows = {0};
	char line[512];
	stats_init(&stats, 0);
	pool(&rows, 0, "a", 100);
	pool(&rows, 1, "a", 200);
	pool(&rows, POOL_ROW_CONSOLE, "pgbouncer", 50);

	/* in the first period: since the start */
	struct stats_sum sum = stats_sum(&stats, &rows, "a", 10 * SECOND_US);
	cr_assert_eq(sum.total.xact_count, 300);
	cr_assert_eq(sum.average.xact_count, 30);
	cr_assert_eq(sum.average.xact_time, 30);
	sum = stats_sum(&stats, &rows, NULL, 10 * SECOND_US);
	cr_assert_eq(sum.total.xact_count, 350);
	sum = stats_sum(&stats, &rows, "nothing", 10 * SECOND_US);
	cr_assert_eq(sum.total.xact_count, 0);

	stats_turn(&stats, &rows, 10 * SECOND_US);
	stats_line(&stats, line, sizeof line);
	cr_assert_str_eq(line, "stats: 35 xacts/s, 35 queries/s, 0 client parses/s, "
	                       "0 server parses/s, 0 binds/s, 0 client logins/s, in 0 B/s, "
	                       "out 0 B/s, xact 30 us, query 0 us, wait 0 us");

	/* behind it the average is still over the whole of that period, too */
	ROW(&rows, pool_row, pools, 0)->counters.xact_count = 200;
	sum = stats_sum(&stats, &rows, "a", 20 * SECOND_US);
	cr_assert_eq(sum.average.xact_count, 20);

	stats_turn(&stats, &rows, 20 * SECOND_US);
	sum = stats_sum(&stats, &rows, "a", 30 * SECOND_US);
	cr_assert_eq(sum.average.xact_count, 5);
	stats_turn(&stats, &rows, 30 * SECOND_US);
	sum = stats_sum(&stats, &rows, "a", 40 * SECOND_US);
	cr_assert_eq(sum.total.xact_count, 400);
	cr_assert_eq(sum.average.xact_count, 0);
	rows_fini(&rows);
	stats_fini(&stats);
}

Test(stats, merge)
{
	struct rows all = {0};
	for (uint32_t worker = 0; worker < 3; worker++) {
		struct rows *rows = calloc(1, sizeof *rows);
		for (uint32_t id = 0; id < 40; id++) {
			pool(rows, id, "a", 1);
			struct pool_row *row = ROW(rows, pool_row, pools, id);
			row->wait_us = worker == 1 ? 9 : 3;
			row->servers[SERVER_IDLE] = worker;
		}
		struct socket_row *socket = row_add(&rows->sockets, sizeof *socket);
		socket->id = worker;
		struct memory_row *memory = row_add(&rows->memories, sizeof *memory);
		memory->used = 10;
		rows_merge(&all, rows);
	}
	cr_assert_eq(all.pools.count, 40);
	cr_assert_eq(all.sockets.count, 3);
	cr_assert_eq(all.memories.count, 1);
	cr_assert_eq(ROW(&all, memory_row, memories, 0)->used, 30);
	for (uint32_t id = 0; id < 40; id++) {
		const struct pool_row *row = ROW(&all, pool_row, pools, id);
		cr_assert_eq(row->counters.xact_count, 3);
		cr_assert_eq(row->wait_us, 9);
		cr_assert_eq(row->servers[SERVER_IDLE], 3);
	}
	cr_assert_not(all.failed);
	rows_merge(&all, NULL);
	cr_assert(all.failed, "an answer that is missing must be noticed");
	rows_fini(&all);
}
