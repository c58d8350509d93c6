/*
 * show_rows.c - what control shows of itself: databases, users, settings, lists.
 *
 * Entries of the config and records of the registry are two views of the same
 * names: an entry nobody has used has no record yet, a record made from `*` has
 * no entry.  Both are listed, once, in byte order.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admin/collect.h"
#include "core/admin/show.h"
#include "core/base/check.h"
#include "core/config.h"
#include "core/process.h"
#include "core/version.h"

enum { SECOND_US = 1000 * 1000, DEFAULT_PORT = 5432, CONSOLE_POOL_SIZE = 2 };

static const char console_name[] = "pgbouncer";

const char *show_mode(enum pool_mode mode)
{
	switch (mode) {
	case POOL_SESSION: return "session";
	case POOL_TRANSACTION: return "transaction";
	case POOL_STATEMENT: return "statement";
	case POOL_MODE_UNSET: break;
	}
	return NULL;
}

static uint64_t first_set(int64_t value, int64_t otherwise)
{
	return (uint64_t)MAX(value >= 0 ? value : otherwise, 0);
}

static uint64_t first_positive(int64_t value, int64_t otherwise)
{
	return (uint64_t)MAX(value > 0 ? value : otherwise, 0);
}

/* ---- Databases ---- */

struct database_row {
	const char *name;
	struct database *database; /* NULL: no record yet */
};

static int database_order(const void *left, const void *right)
{
	const struct database_row *a = left, *b = right;
	return strcmp(a->name, b->name);
}

static bool database_is_used(struct database *database)
{
	return atomic_load(&database->clients) > 0 || account_used(&database->account) > 0;
}

static bool database_is_listed(const struct show_input *input, struct database *database)
{
	if (database->is_console || config_find_database(input->config, database->name) != NULL)
		return true;
	return database->is_auto && !atomic_load(&database->removed) && database_is_used(database);
}

/* An array of *count in order, to be freed; NULL without memory. */
static struct database_row *databases_list(const struct show_input *input, uint32_t *count)
{
	struct registry *registry = &input->process->registry;
	const struct config *config = input->config;
	pthread_mutex_lock(&registry->mutex);
	struct database_row *rows = calloc((size_t)config->database_count +
	                                           registry->database_count,
	                                   sizeof *rows);
	*count = 0;
	for (struct database *d = registry->databases; rows != NULL && d != NULL; d = d->next)
		if (database_is_listed(input, d))
			rows[(*count)++] = (struct database_row){d->name, d};
	pthread_mutex_unlock(&registry->mutex);
	if (rows == NULL)
		return NULL;
	uint32_t recorded = *count;
	qsort(rows, recorded, sizeof *rows, database_order);
	for (uint32_t i = 0; i < config->database_count; i++) {
		struct database_row row = {.name = config->databases[i].name};
		if (bsearch(&row, rows, recorded, sizeof *rows, database_order) == NULL)
			rows[(*count)++] = row;
	}
	qsort(rows, *count, sizeof *rows, database_order);
	return rows;
}

static void console_database(struct result *result, const struct show_input *input,
                             const struct database *console)
{
	const struct settings *settings = &input->config->settings;
	result_row(result);
	result_text(result, console_name);
	result_text(result, NULL);
	result_number(result, (uint64_t)settings->listen_port);
	result_text(result, console_name);
	result_text(result, console_name);
	result_number(result, CONSOLE_POOL_SIZE);
	result_number(result, 0);
	result_number(result, 0);
	result_number(result, settings->server_lifetime / SECOND_US);
	result_text(result, show_mode(POOL_STATEMENT));
	result_text(result, NULL);
	result_number(result, 0);
	result_number(result, 0);
	result_number(result, (uint64_t)settings->max_db_client_connections);
	result_number(result, console != NULL ? atomic_load(&console->clients) : 0);
	result_number(result, 0);
	result_number(result, 0);
	result_row_end(result);
}

static const char *balance_name(const struct database_entry *entry)
{
	if (entry->host == NULL || strchr(entry->host, ',') == NULL)
		return NULL;
	return entry->load_balance_hosts == LOAD_BALANCE_DISABLE ? "disable" : "round-robin";
}

static void database_write(struct result *result, const struct show_input *input,
                           const struct database_row *row)
{
	const struct settings *settings = &input->config->settings;
	const struct database *database = row->database;
	const struct database_entry *entry = config_entry_for(input->config, row->name);
	if (entry == NULL)
		return; /* lost its entry since it was listed: not so within one snapshot */
	result_row(result);
	result_text(result, row->name);
	result_text(result, entry->host);
	result_number(result, first_positive(entry->port, DEFAULT_PORT));
	result_text(result, entry->dbname != NULL ? entry->dbname : row->name);
	result_text(result, entry->user);
	result_number(result, first_set(entry->pool_size, settings->default_pool_size));
	result_number(result, first_set(entry->min_pool_size, settings->min_pool_size));
	result_number(result, first_set(entry->reserve_pool_size, settings->reserve_pool_size));
	result_number(result,
	              first_positive(entry->server_lifetime, (int64_t)settings->server_lifetime) /
	                      SECOND_US);
	result_text(result, show_mode(entry->pool_mode));
	result_text(result, balance_name(entry));
	result_number(result,
	              first_positive(entry->max_db_connections, settings->max_db_connections));
	result_number(result, database != NULL ? account_used(&database->account) : 0);
	result_number(result, first_positive(entry->max_db_client_connections,
	                                     settings->max_db_client_connections));
	result_number(result, database != NULL ? atomic_load(&database->clients) : 0);
	result_number(result, database != NULL && atomic_load(&database->paused));
	result_number(result, database != NULL && atomic_load(&database->disabled));
	result_row_end(result);
}

void show_databases(struct result *result, const struct show_input *input)
{
	uint32_t count;
	struct database_row *rows = databases_list(input, &count);
	for (uint32_t i = 0; rows != NULL && i < count; i++) {
		if (strcmp(rows[i].name, console_name) == 0)
			console_database(result, input, rows[i].database);
		else
			database_write(result, input, &rows[i]);
	}
	free(rows);
}

/* ---- Users ---- */

struct user_row {
	const char *name;
	const struct user *user; /* NULL: no record yet */
};

static int user_order(const void *left, const void *right)
{
	const struct user_row *a = left, *b = right;
	return strcmp(a->name, b->name);
}

/* An array of *count in order, to be freed; NULL without memory. */
static struct user_row *users_list(const struct show_input *input, uint32_t *count)
{
	struct registry *registry = &input->process->registry;
	const struct config *config = input->config;
	pthread_mutex_lock(&registry->mutex);
	struct user_row *rows = calloc((size_t)config->user_count + registry->user_count + 1,
	                               sizeof *rows);
	*count = 0;
	for (const struct user *u = registry->users; rows != NULL && u != NULL; u = u->next)
		rows[(*count)++] = (struct user_row){u->name, u};
	pthread_mutex_unlock(&registry->mutex);
	if (rows == NULL)
		return NULL;
	uint32_t recorded = *count;
	qsort(rows, recorded, sizeof *rows, user_order);
	struct user_row console = {.name = console_name};
	if (bsearch(&console, rows, recorded, sizeof *rows, user_order) == NULL &&
	    config_find_user(config, console_name) == NULL)
		rows[(*count)++] = console;
	for (uint32_t i = 0; i < config->user_count; i++) {
		struct user_row row = {.name = config->users[i].name};
		if (bsearch(&row, rows, recorded, sizeof *rows, user_order) == NULL)
			rows[(*count)++] = row;
	}
	qsort(rows, *count, sizeof *rows, user_order);
	return rows;
}

static void cell_size(struct result *result, int32_t size)
{
	char text[16] = "";
	if (size >= 0)
		snprintf(text, sizeof text, "%9d", size);
	result_text(result, text);
}

void show_users(struct result *result, const struct show_input *input)
{
	const struct settings *settings = &input->config->settings;
	uint32_t count;
	struct user_row *rows = users_list(input, &count);
	for (uint32_t i = 0; rows != NULL && i < count; i++) {
		const struct user *user = rows[i].user;
		const struct user_entry *entry = config_find_user(input->config, rows[i].name);
		struct user_entry none;
		user_entry_init(&none, rows[i].name);
		if (entry == NULL)
			entry = &none;
		result_row(result);
		result_text(result, rows[i].name);
		cell_size(result, entry->pool_size);
		cell_size(result, entry->reserve_pool_size);
		result_text(result, show_mode(entry->pool_mode));
		result_number(result, first_positive(entry->max_user_connections,
		                                     settings->max_user_connections));
		result_number(result, user != NULL ? account_used(&user->account) : 0);
		result_number(result, first_positive(entry->max_user_client_connections,
		                                     settings->max_user_client_connections));
		result_number(result, user != NULL ? atomic_load(&user->clients) : 0);
		result_row_end(result);
	}
	free(rows);
}

/* ---- The rest ---- */

static void pair_write(struct result *result, const char *name, uint64_t value)
{
	result_row(result);
	result_text(result, name);
	result_number(result, value);
	result_row_end(result);
}

void show_lists(struct result *result, const struct show_input *input)
{
	struct rows *rows = input->rows;
	uint64_t client_sockets = 0, client_room = 0, logins = 0, server_sockets = 0,
		 server_room = 0;
	uint32_t databases = 0, users = 0;
	for (uint32_t i = 0; i < rows->workers.count; i++) {
		const struct worker_row *row = ROW(rows, worker_row, workers, i);
		client_sockets += row->client_sockets;
		client_room += row->client_room;
		logins += row->logins;
		server_sockets += row->server_sockets;
		server_room += row->server_room;
	}
	free(databases_list(input, &databases));
	free(users_list(input, &users));
	pair_write(result, "databases", databases);
	pair_write(result, "users", users);
	pair_write(result, "peers", input->config->peer_count);
	pair_write(result, "pools", rows->pools.count);
	pair_write(result, "peer_pools", 0);
	pair_write(result, "free_clients", client_room - client_sockets);
	pair_write(result, "used_clients", client_sockets);
	pair_write(result, "login_clients", logins);
	pair_write(result, "free_servers", server_room - server_sockets);
	pair_write(result, "used_servers", server_sockets);
	pair_write(result, "dns_names", 0);
	pair_write(result, "dns_zones", 0);
	pair_write(result, "dns_queries", 0);
	pair_write(result, "dns_pending", 0);
}

void show_peers(struct result *result, const struct show_input *input)
{
	const struct config *config = input->config;
	for (uint32_t i = 0; i < config->peer_count; i++) {
		const struct peer_entry *peer = &config->peers[i];
		result_row(result);
		result_number(result, (uint64_t)peer->id);
		result_text(result, peer->host);
		result_number(result, first_positive(peer->port, 6432));
		result_number(result,
		              first_positive(peer->pool_size, config->settings.default_pool_size));
		result_row_end(result);
	}
}

void show_config(struct result *result, const struct show_input *input)
{
	struct setting_row row;
	for (uint32_t i = 0; config_setting_row(input->config, i, &row); i++) {
		result_row(result);
		result_text(result, row.key);
		result_text(result, row.value_is_null ? NULL : row.value);
		result_text(result, row.initial_is_null ? NULL : row.initial);
		result_text(result, row.changeable ? "yes" : "no");
		result_row_end(result);
	}
}

void show_version(struct result *result, const struct show_input *input)
{
	(void)input;
	result_row(result);
	result_text(result, VERSION_TEXT);
	result_row_end(result);
}

void show_state(struct result *result, const struct show_input *input)
{
	bool is_paused = atomic_load(&input->process->paused);
	const struct {
		const char *key;
		bool value;
	} states[] = {{"active", !is_paused}, {"paused", is_paused}, {"suspended", false}};
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		result_row(result);
		result_text(result, states[i].key);
		result_text(result, states[i].value ? "yes" : "no");
		result_row_end(result);
	}
}
