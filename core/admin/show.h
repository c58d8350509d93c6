/*
 * show.h - every SHOW: its name, its right, its columns, its rows.
 *
 * A SHOW is a row of the table in show.c.  `collect` says what the workers are
 * asked for first; rows() then writes what has come, in the order of
 * pgbouncer.md 8.2.  Columns are known without asking anybody, so a console can
 * describe a result before it is made.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_ADMIN_SHOW_H
#define CORE_ADMIN_SHOW_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admin/admin.h"
#include "core/admin/result.h"
#include "core/config.h"

struct process;
struct rows;
struct stats;

struct show_input {
	struct process *process;
	const struct config *config;
	struct rows *rows; /* of all workers; may be put into another order */
	const struct stats *stats;
	uint64_t now_us;   /* monotonic */
	uint64_t wall_us;  /* the same moment */
	uint64_t start_us; /* monotonic, of the process */
};

struct show {
	const char *name;
	enum admin_right right;
	uint32_t collect; /* COLLECT_* */
	const struct column *columns;
	uint32_t column_count; /* 0: not a table of rows, or not there */
	void (*rows)(struct result *result, const struct show_input *input);
};

/* In any case; NULL: there is no such SHOW. */
const struct show *show_find(const char *name);
const struct show *show_at(uint32_t index); /* NULL past the end */

/* The whole answer. */
void show_write(struct result *result, const struct show *show, const struct show_input *input);

/* A fake setting (admin.h): one row, a column with its name. */
void show_fake(struct result *result, const char *name, const char *value);

/* RowDescription or NoData of what the text of a command would give; false: it
 * would give an error. */
bool show_describe(struct result *result, const char *text);

/* NULL: unset. */
const char *show_mode(enum pool_mode mode);

/* The rows, one function per SHOW. */
void show_clients(struct result *result, const struct show_input *input);
void show_config(struct result *result, const struct show_input *input);
void show_databases(struct result *result, const struct show_input *input);
void show_lists(struct result *result, const struct show_input *input);
void show_mem(struct result *result, const struct show_input *input);
void show_peers(struct result *result, const struct show_input *input);
void show_pools(struct result *result, const struct show_input *input);
void show_servers(struct result *result, const struct show_input *input);
void show_sockets(struct result *result, const struct show_input *input);
void show_active_sockets(struct result *result, const struct show_input *input);
void show_state(struct result *result, const struct show_input *input);
void show_stats(struct result *result, const struct show_input *input);
void show_stats_totals(struct result *result, const struct show_input *input);
void show_stats_averages(struct result *result, const struct show_input *input);
void show_totals(struct result *result, const struct show_input *input);
void show_users(struct result *result, const struct show_input *input);
void show_version(struct result *result, const struct show_input *input);
void show_workers(struct result *result, const struct show_input *input);

#endif
