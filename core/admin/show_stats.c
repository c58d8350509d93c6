/*
 * show_stats.c - SHOW STATS, STATS_TOTALS, STATS_AVERAGES, TOTALS, WORKERS, MEM.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admin/collect.h"
#include "core/admin/show.h"
#include "core/admin/stats.h"
#include "core/base/check.h"

enum { PERCENT = 100 };

static int pool_order(const void *left, const void *right)
{
	const struct pool_row *a = left, *b = right;
	int order = strcmp(a->database, b->database);
	return order != 0 ? order : strcmp(a->user, b->user);
}

static void counters_write(struct result *result, const struct counters *counters)
{
#define COUNTER(name) result_number(result, counters->name);
#include "core/counters.def"
}

/* A row per database that has a pool. */
static void stats_write(struct result *result, const struct show_input *input, bool totals,
                        bool averages)
{
	struct rows *rows = input->rows;
	const char *last = NULL;
	if (rows->pools.count > 1)
		qsort(rows->pools.rows, rows->pools.count, sizeof(struct pool_row), pool_order);
	for (uint32_t i = 0; i < rows->pools.count; i++) {
		const struct pool_row *row = ROW(rows, pool_row, pools, i);
		if (last != NULL && strcmp(row->database, last) == 0)
			continue;
		last = row->database;
		struct stats_sum sum = stats_sum(input->stats, rows, last, input->now_us);
		result_row(result);
		result_text(result, last);
		if (totals)
			counters_write(result, &sum.total);
		if (averages)
			counters_write(result, &sum.average);
		result_row_end(result);
	}
}

void show_stats(struct result *result, const struct show_input *input)
{
	stats_write(result, input, true, true);
}

void show_stats_totals(struct result *result, const struct show_input *input)
{
	stats_write(result, input, true, false);
}

void show_stats_averages(struct result *result, const struct show_input *input)
{
	stats_write(result, input, false, true);
}

static void total_write(struct result *result, const char *prefix, const char *name, uint64_t value)
{
	/* These three have a longer name here than in the other tables. */
	bool is_prepared = strstr(name, "parse") != NULL || strstr(name, "bind") != NULL;
	char text[64];
	snprintf(text, sizeof text, "%s_%s%s", prefix, is_prepared ? "ps_" : "", name);
	result_row(result);
	result_text(result, text);
	result_number(result, value);
	result_row_end(result);
}

void show_totals(struct result *result, const struct show_input *input)
{
	struct stats_sum sum = stats_sum(input->stats, input->rows, NULL, input->now_us);
#define COUNTER(name) total_write(result, "total", #name, sum.total.name);
#include "core/counters.def"
#define COUNTER(name) total_write(result, "avg", #name, sum.average.name);
#include "core/counters.def"
}

static int worker_order(const void *left, const void *right)
{
	const struct worker_row *a = left, *b = right;
	return a->index < b->index ? -1 : a->index > b->index;
}

void show_workers(struct result *result, const struct show_input *input)
{
	struct rows *rows = input->rows;
	if (rows->workers.count > 1)
		qsort(rows->workers.rows, rows->workers.count, sizeof(struct worker_row),
		      worker_order);
	for (uint32_t i = 0; i < rows->workers.count; i++) {
		const struct worker_row *row = ROW(rows, worker_row, workers, i);
		uint64_t life_us = MAX(1, row->now_us - MIN(input->start_us, row->now_us));
		result_row(result);
		result_number(result, row->index);
		if (row->cpu >= 0)
			result_number(result, (uint64_t)row->cpu);
		else
			result_text(result, NULL);
		result_number(result, row->client_sockets);
		result_number(result, row->servers_idle);
		result_number(result, row->servers_busy);
		result_number(result, row->lent);
		result_number(result, row->borrowed);
		result_number(result, row->moved);
		result_number(result, row->turns);
		result_number(result, row->enters);
		result_number(result, row->transactions);
		result_number(result, MIN(PERCENT, row->busy_us * PERCENT / life_us));
		result_number(result, row->longest_turn_us);
		result_row_end(result);
	}
}

void show_mem(struct result *result, const struct show_input *input)
{
	for (uint32_t i = 0; i < input->rows->memories.count; i++) {
		const struct memory_row *row = ROW(input->rows, memory_row, memories, i);
		result_row(result);
		result_text(result, row->name);
		result_number(result, row->size);
		result_number(result, row->used);
		result_number(result, row->free);
		result_number(result, row->memory);
		result_row_end(result);
	}
}

void show_pools(struct result *result, const struct show_input *input)
{
	static const uint8_t states[] = {SERVER_IDLE, SERVER_USED, SERVER_TESTED, SERVER_LOGIN};
	enum { SECOND_US = 1000 * 1000 };
	struct rows *rows = input->rows;
	if (rows->pools.count > 1)
		qsort(rows->pools.rows, rows->pools.count, sizeof(struct pool_row), pool_order);
	for (uint32_t i = 0; i < rows->pools.count; i++) {
		const struct pool_row *row = ROW(rows, pool_row, pools, i);
		const struct database_entry *entry = config_find_database(input->config,
		                                                          row->database);
		bool is_list = entry != NULL && entry->host != NULL &&
		               strchr(entry->host, ',') != NULL;
		result_row(result);
		result_text(result, row->database);
		result_text(result, row->user);
		result_number(result, row->clients_active);
		result_number(result, row->clients_waiting);
		result_number(result, row->cancel_requests);
		result_number(result, 0); /* a cancel request never waits */
		result_number(result, row->servers[SERVER_ACTIVE]);
		result_number(result, row->servers_canceling);
		result_number(result, row->servers[SERVER_BEING_CANCELED]);
		for (size_t k = 0; k < ARRAY_LEN(states); k++)
			result_number(result, row->servers[states[k]]);
		result_number(result, row->wait_us / SECOND_US);
		result_number(result, row->wait_us % SECOND_US);
		result_text(result, show_mode(row->mode));
		result_text(result, !is_list ? NULL
		                    : entry->load_balance_hosts == LOAD_BALANCE_DISABLE
		                            ? "disable"
		                            : "round-robin");
		result_row_end(result);
	}
}
