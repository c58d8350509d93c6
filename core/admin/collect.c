/*
 * collect.c - see collect.h.
 *
 * Without memory rows are left out and the answer is marked failed: SHOW then
 * says so, rather than showing a part for the whole.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/cancels.h"
#include "core/client.h"
#include "core/post.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/relay_named.h"
#include "core/server.h"
#include "core/worker.h"
#include "net/ring.h"
#include "net/sys.h"

enum { ROWS_FIRST = 16 };

static const char console_name[] = "pgbouncer";

static bool array_room(struct row_array *array, uint32_t count, size_t size)
{
	if (count <= array->room - array->count)
		return true;
	if (count > UINT32_MAX / 4 || array->count > UINT32_MAX / 4)
		return false;
	uint32_t room = MAX((uint32_t)ROWS_FIRST, (array->count + count) * 2);
	void *rows = reallocarray(array->rows, room, size);
	if (rows == NULL)
		return false;
	array->rows = rows;
	array->room = room;
	return true;
}

void *row_add(struct row_array *array, size_t size)
{
	if (!array_room(array, 1, size))
		return NULL;
	void *row = (char *)array->rows + size * array->count++;
	memset(row, 0, size);
	return row;
}

/* ---- At the worker ---- */

static void pool_collect(struct rows *rows, const struct pool *pool)
{
	const struct worker *worker = pool->worker;
	struct pool_row *row = row_add(&rows->pools, sizeof *row);
	if (row == NULL) {
		rows->failed = true;
		return;
	}
	row->id = pool->record->id;
	row->database = pool->record->database->name;
	row->user = pool->record->user->name;
	row->mode = pool->limits.mode;
	row->clients_active = pool->active.count;
	row->clients_waiting = pool->waiting.count;
	row->counters = pool->counters;
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		row->servers[i] = pool->servers[i].count;
	row->servers[SERVER_IDLE] += row->servers[SERVER_LENDING];
	list_each (struct cancel_job, job, link, &worker->cancel_jobs) {
		if (job->server == NULL || job->server->pool != pool)
			continue;
		row->servers_canceling++;
		row->cancel_requests += job->requesters;
	}
	const struct client *first = LIST_FIRST(struct client, link, &pool->waiting);
	if (first != NULL && first->state == CLIENT_WAITING && worker->loop.now_us > first->wait_us)
		row->wait_us = worker->loop.now_us - first->wait_us;
}

static void console_collect(struct rows *rows, const struct worker *worker)
{
	struct pool_row *row = row_add(&rows->pools, sizeof *row);
	if (row == NULL) {
		rows->failed = true;
		return;
	}
	row->id = POOL_ROW_CONSOLE;
	row->database = row->user = console_name;
	row->mode = POOL_STATEMENT;
	row->clients_active = worker->consoles.count;
	row->counters.client_login_count = worker->console_logins;
	row->counters.query_count = row->counters.xact_count = worker->console_queries;
	row->counters.client_bytes = worker->console_bytes;
}

static void application_name(char *text, size_t room, const struct vars *vars)
{
	int index = vars_index("application_name");
	const struct word *word = index < 0 ? NULL : vars->values[index];
	if (word != NULL)
		snprintf(text, room, "%s", word->text);
}

static uint64_t elapsed(const struct worker *worker, uint64_t since_us)
{
	return since_us != 0 && worker->loop.now_us > since_us ? worker->loop.now_us - since_us : 0;
}

static void client_collect(struct rows *rows, const struct client *client, enum socket_kind kind)
{
	const struct worker *worker = client->worker;
	struct socket_row *row = row_add(&rows->sockets, sizeof *row);
	if (row == NULL) {
		rows->failed = true;
		return;
	}
	row->database = client->database != NULL ? client->database->name : NULL;
	row->user = client->user != NULL ? client->user->name : NULL;
	if (client->state == CLIENT_CONSOLE && client->user == NULL)
		row->user = console_name; /* the process's own user, let in by the socket */
	row->kind = kind;
	row->is_unix = client->is_unix;
	row->id = client->id;
	row->pointer = (uintptr_t)client;
	row->link = (uintptr_t)client->server;
	row->connect_us = client->connect_us;
	row->request_us = client->request_us;
	row->wait_us = elapsed(worker, client->query_us);
	if (row->wait_us == 0 && client->state == CLIENT_WAITING)
		row->wait_us = elapsed(worker, client->wait_us);
	row->peer = client->address;
	struct addr own; /* asked for here, not kept by the ten thousand */
	if (sys_own_name(client->conn.fd, &own) == 0)
		row->local = addr_shorten(&own);
	row->remote_pid = client->unix_pid;
	for (const struct held *held = client->held_first; held != NULL; held = held->next)
		row->bytes_in += held->to - held->from;
	row->bytes_out = client->conn.queued;
	row->statements = client->extended != NULL ? client->extended->names.count : 0;
	application_name(row->application_name, sizeof row->application_name, &client->vars);
}

static void clients_collect(struct rows *rows, const struct worker *worker)
{
	worker_each_pool (worker, pool) {
		list_each (struct client, active, link, &pool->active)
			client_collect(rows, active, SOCKET_CLIENT);
		list_each (struct client, waiting, link, &pool->waiting)
			client_collect(rows, waiting, SOCKET_CLIENT_WAITING);
	}
	list_each (struct client, console, link, &worker->consoles)
		client_collect(rows, console, SOCKET_CLIENT);
	list_each (struct client, cancel, link, &worker->cancels)
		client_collect(rows, cancel, SOCKET_CLIENT_CANCEL);
}

static void server_collect(struct rows *rows, const struct server *server, enum socket_kind kind)
{
	struct socket_row *row = row_add(&rows->sockets, sizeof *row);
	if (row == NULL) {
		rows->failed = true;
		return;
	}
	const struct pool_record *record = server->pool->record;
	uint32_t epoch = atomic_load_explicit(&record->epoch, memory_order_relaxed);
	row->database = record->database->name;
	row->user = record->user->name;
	row->kind = kind;
	row->close_needed = server->close_needed || server->epoch != epoch;
	row->id = server->id;
	row->pointer = (uintptr_t)server;
	row->link = (uintptr_t)server->client;
	row->connect_us = server->connect_us;
	row->request_us = server->request_us;
	row->peer = addr_shorten(&server->address);
	row->local = server->local;
	row->is_unix = row->peer.family == AF_UNIX;
	row->remote_pid = read_u32(server->key);
	row->bytes_in = server->part.size;
	row->statements = server->cache.lru.count;
	row->bytes_out = server->conn.queued;
	application_name(row->application_name, sizeof row->application_name, &server->vars);
}

static void servers_collect(struct rows *rows, const struct worker *worker)
{
	static const struct {
		enum server_state state;
		enum socket_kind kind;
	} shown[] = {
		{SERVER_ACTIVE, SOCKET_SERVER},
		{SERVER_IDLE, SOCKET_SERVER_IDLE},
		{SERVER_LENDING, SOCKET_SERVER_IDLE},
		{SERVER_USED, SOCKET_SERVER_USED},
		{SERVER_TESTED, SOCKET_SERVER_TESTED},
		{SERVER_LOGIN, SOCKET_SERVER_LOGIN},
		{SERVER_BEING_CANCELED, SOCKET_SERVER_BEING_CANCELED},
	};
	worker_each_pool (worker, pool)
		for (size_t i = 0; i < ARRAY_LEN(shown); i++)
			list_each (struct server, server, link, &pool->servers[shown[i].state])
				server_collect(rows, server, shown[i].kind);
}

static void worker_collect(struct rows *rows, const struct worker *worker)
{
	struct worker_row *row = row_add(&rows->workers, sizeof *row);
	if (row == NULL) {
		rows->failed = true;
		return;
	}
	row->index = worker->index;
	row->cpu = worker->cpu;
	row->client_sockets = worker->clients.used;
	row->client_room = worker->clients.chunk_count * worker->clients.per_chunk;
	row->logins = worker->logins.count;
	row->server_sockets = worker->servers.used - worker->abandoned;
	row->server_room = worker->servers.chunk_count * worker->servers.per_chunk;
	worker_each_pool (worker, pool) {
		row->servers_idle += pool->servers[SERVER_IDLE].count +
		                     pool->servers[SERVER_LENDING].count +
		                     pool->servers[SERVER_USED].count;
		row->servers_busy += pool->servers[SERVER_ACTIVE].count +
		                     pool->servers[SERVER_TESTED].count +
		                     pool->servers[SERVER_BEING_CANCELED].count;
		row->transactions += pool->counters.xact_count;
	}
	row->lent = worker->lent;
	row->borrowed = worker->borrowed;
	row->moved = worker->moved;
	row->turns = worker->loop.turns;
	row->enters = ring_enters(worker->loop.ring);
	row->busy_us = sys_thread_cpu_us();
	row->longest_turn_us = worker->loop.longest_turn_us;
	row->now_us = worker->loop.now_us;
}

/* What prepared statements take: not a slab, so the sizes are as they come. */
static void memory_statements(struct rows *rows, const struct worker *worker)
{
	struct memory_row *row = row_add(&rows->memories, sizeof *row);
	if (row == NULL) {
		rows->failed = true;
		return;
	}
	row->name = "statement_cache";
	row->used = worker->statements.count;
	row->memory = worker->statements.memory;
}

static void memory_collect(struct rows *rows, const struct worker *worker)
{
	memory_statements(rows, worker);
	const struct {
		const char *name;
		const struct slab *slab;
	} slabs[] = {
		{"client_cache", &worker->clients},    {"server_cache", &worker->servers},
		{"held_cache", &worker->helds},        {"cancel_cache", &worker->jobs},
		{"piece_cache", &worker->loop.pieces}, {"gather_cache", &worker->loop.gathers},
	};
	for (size_t i = 0; i < ARRAY_LEN(slabs); i++) {
		const struct slab *slab = slabs[i].slab;
		struct memory_row *row = row_add(&rows->memories, sizeof *row);
		if (row == NULL) {
			rows->failed = true;
			return;
		}
		row->name = slabs[i].name;
		row->size = slab->object_size;
		row->used = slab->used;
		row->free = (uint64_t)slab->chunk_count * slab->per_chunk - slab->used;
		row->memory = slab_memory(slab);
	}
}

void collect_run(struct worker *worker, struct post *post)
{
	struct rows *rows = calloc(1, sizeof *rows);
	uint32_t what = post->collect.what;
	post->kind = POST_DONE;
	post->from = (uint16_t)worker->index;
	post->collect.rows = rows;
	if (rows == NULL) {
		post_control(worker->process, post);
		return;
	}
	if (what & COLLECT_POOLS) {
		worker_each_pool (worker, pool)
			if (!pool->forgotten)
				pool_collect(rows, pool);
		console_collect(rows, worker);
	}
	if (what & COLLECT_CLIENTS)
		clients_collect(rows, worker);
	if (what & COLLECT_LOGINS)
		list_each (struct client, login, link, &worker->logins)
			client_collect(rows, login, SOCKET_CLIENT_LOGIN);
	if (what & COLLECT_SERVERS)
		servers_collect(rows, worker);
	if (what & COLLECT_WORKER)
		worker_collect(rows, worker);
	if (what & COLLECT_MEMORY)
		memory_collect(rows, worker);
	post_control(worker->process, post);
}

/* ---- At control ---- */

static bool array_append(struct row_array *to, const struct row_array *from, size_t size)
{
	if (from->count == 0)
		return true;
	if (!array_room(to, from->count, size))
		return false;
	memcpy((char *)to->rows + size * to->count, from->rows, size * from->count);
	to->count += from->count;
	return true;
}

static void pool_sum(struct pool_row *to, const struct pool_row *from)
{
	to->clients_active += from->clients_active;
	to->clients_waiting += from->clients_waiting;
	to->cancel_requests += from->cancel_requests;
	to->servers_canceling += from->servers_canceling;
	to->wait_us = MAX(to->wait_us, from->wait_us);
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		to->servers[i] += from->servers[i];
#define COUNTER(name) to->counters.name += from->counters.name;
#include "core/counters.def"
}

static bool pools_merge(struct row_array *to, const struct row_array *from)
{
	for (uint32_t i = 0; i < from->count; i++) {
		const struct pool_row *row = &((const struct pool_row *)from->rows)[i];
		struct pool_row *same = NULL;
		for (uint32_t k = 0; k < to->count && same == NULL; k++)
			if (((struct pool_row *)to->rows)[k].id == row->id)
				same = &((struct pool_row *)to->rows)[k];
		if (same != NULL) {
			pool_sum(same, row);
			continue;
		}
		same = row_add(to, sizeof *same);
		if (same == NULL)
			return false;
		*same = *row;
	}
	return true;
}

static bool memories_merge(struct row_array *to, const struct row_array *from)
{
	if (to->count == 0)
		return array_append(to, from, sizeof(struct memory_row));
	for (uint32_t i = 0; i < from->count && i < to->count; i++) {
		const struct memory_row *row = &((const struct memory_row *)from->rows)[i];
		struct memory_row *sum = &((struct memory_row *)to->rows)[i];
		sum->used += row->used;
		sum->free += row->free;
		sum->memory += row->memory;
	}
	return true;
}

void rows_merge(struct rows *to, struct rows *from)
{
	if (from == NULL) {
		to->failed = true;
		return;
	}
	bool is_whole = pools_merge(&to->pools, &from->pools) &&
	                memories_merge(&to->memories, &from->memories) &&
	                array_append(&to->sockets, &from->sockets, sizeof(struct socket_row)) &&
	                array_append(&to->workers, &from->workers, sizeof(struct worker_row));
	to->failed = to->failed || from->failed || !is_whole;
	rows_fini(from);
	free(from);
}

void rows_fini(struct rows *rows)
{
	free(rows->pools.rows);
	free(rows->sockets.rows);
	free(rows->workers.rows);
	free(rows->memories.rows);
	*rows = (struct rows){0};
}
