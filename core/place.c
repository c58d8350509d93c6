/*
 * place.c - see place.h.
 *
 * The counts by which a place is chosen are written by whoever logs a client in, so
 * that a burst of logins does not all go to one worker; queries never touch them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/place.h"

#include <stdlib.h>
#include <string.h>

#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/client.h"
#include "core/config.h"
#include "core/post.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/worker.h"
#include "net/sys.h"

struct moved_client {
	int fd;
	bool is_unix, counted_database, counted_user, protocol_long;
	uint32_t unix_pid;
	uint64_t id, connect_us, request_us;
	struct addr_short address;
	struct database *database;
	struct user *user;
	struct pool_record *record;
	uint32_t to; /* worker */
	char *values[VARS_MAX];
	uint8_t *bytes; /* said behind its login, not yet looked at */
	uint32_t size, room;
};

/* How many workers are to serve the pool. */
static uint32_t place_width(const struct worker *worker, const struct pool_record *record)
{
	uint32_t all = worker->process->worker_count;
	uint32_t each = (uint32_t)worker->config->settings.servers_per_worker;
	const struct account *accounts[] = {&record->account, &record->database->account,
	                                    &record->user->account};
	uint32_t servers = UINT32_MAX;
	for (size_t i = 0; i < ARRAY_LEN(accounts); i++) {
		uint32_t limit = account_limit(accounts[i]);
		if (limit > 0)
			servers = MIN(servers, limit);
	}
	if (each == 0 || servers / each >= all)
		return all;
	return MAX(servers / each, 1);
}

static uint32_t clients_at(const struct pool_record *record, uint32_t worker)
{
	return atomic_load_explicit(&record->locals[worker].clients, memory_order_relaxed);
}

uint32_t place_find(const struct worker *worker, const struct pool_record *record)
{
	uint32_t all = worker->process->worker_count;
	uint32_t width = place_width(worker, record);
	if (width == all)
		return worker->index;
	uint32_t best = record->home;
	uint32_t sum = 0;
	for (uint32_t i = 0; i < width; i++) {
		uint32_t at = (record->home + i) % all;
		sum += clients_at(record, at);
		if (clients_at(record, at) < clients_at(record, best))
			best = at;
	}
	bool may_stay = (worker->index + all - record->home) % all < width;
	return may_stay && clients_at(record, worker->index) <= sum / width ? worker->index : best;
}

void place_take(struct pool_record *record, uint32_t worker)
{
	atomic_fetch_add_explicit(&record->locals[worker].clients, 1, memory_order_relaxed);
}

void place_leave(struct pool_record *record, uint32_t worker)
{
	atomic_fetch_sub_explicit(&record->locals[worker].clients, 1, memory_order_relaxed);
}

static void moved_free(struct moved_client *moved)
{
	for (uint32_t i = 0; i < VARS_MAX; i++)
		free(moved->values[i]);
	free(moved->bytes);
	free(moved);
}

/* All of it but the descriptor; NULL without memory. */
static struct moved_client *moved_of(struct client *client, struct pool_record *record)
{
	struct moved_client *moved = calloc(1, sizeof *moved);
	if (moved == NULL)
		return NULL;
	for (uint32_t i = 0; i < VARS_MAX; i++) {
		const struct word *word = client->vars.values[i];
		if (word != NULL && (moved->values[i] = strdup(word->text)) == NULL) {
			moved_free(moved);
			return NULL;
		}
	}
	struct login *login = client->login;
	moved->is_unix = client->is_unix;
	moved->unix_pid = client->unix_pid;
	moved->protocol_long = client->protocol_long;
	moved->id = client->id;
	moved->connect_us = client->connect_us;
	moved->request_us = client->request_us;
	moved->address = client->address;
	moved->database = client->database;
	moved->user = client->user;
	moved->counted_database = client->counted_database;
	moved->counted_user = client->counted_user;
	moved->record = record;
	if (login->size > 0) {
		moved->bytes = login->bytes;
		moved->size = login->size;
		moved->room = login->room;
		login->bytes = NULL;
	}
	return moved;
}

/* The login is over here: of all that come in a burst little is kept meanwhile. */
void place_move(struct client *client, struct pool_record *record, uint32_t to)
{
	CHECK(to != client->worker->index);
	struct moved_client *moved = moved_of(client, record);
	if (moved == NULL) {
		client_fail(client, "53200", "out of memory");
		return;
	}
	login_free(client);
	client_move(client, CLIENT_MOVING);
	client->moving = moved;
	moved->to = to;
	place_take(record, to);
	conn_detach(&client->conn);
}

void place_bytes(struct client *client, const uint8_t *bytes, uint32_t size)
{
	struct moved_client *moved = client->moving;
	if (size > moved->room - moved->size) {
		uint32_t room = (moved->size + size) * 2;
		uint8_t *more = realloc(moved->bytes, room);
		if (more == NULL) {
			client_fail(client, "53200", "out of memory");
			return;
		}
		moved->bytes = more;
		moved->room = room;
	}
	memcpy(moved->bytes + moved->size, bytes, size);
	moved->size += size;
}

void place_free(struct client *client)
{
	struct moved_client *moved = client->moving;
	if (moved == NULL)
		return;
	place_leave(moved->record, moved->to);
	moved_free(moved);
	client->moving = NULL;
}

void place_detached(struct client *client)
{
	CHECK(client->state == CLIENT_MOVING);
	struct worker *worker = client->worker;
	struct process *process = worker->process;
	struct moved_client *moved = client->moving;
	client->moving = NULL;
	moved->fd = conn_release(&client->conn);
	worker->moved++;
	client_free(client);
	atomic_fetch_sub_explicit(&worker->client_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&process->workers[moved->to]->client_count, 1,
	                          memory_order_relaxed);
	struct post *post = post_new(POST_CLIENT, worker->index);
	post->client.moved = moved;
	post_send(process, moved->to, post);
}

static void moved_lost(struct worker *worker, struct moved_client *moved)
{
	if (moved->counted_database)
		atomic_fetch_sub(&moved->database->clients, 1);
	if (moved->counted_user)
		atomic_fetch_sub(&moved->user->clients, 1);
	place_leave(moved->record, worker->index);
	atomic_fetch_sub_explicit(&worker->client_count, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&worker->process->clients, 1, memory_order_relaxed);
	sys_close(moved->fd);
}

static struct client *moved_revive(struct worker *worker, struct moved_client *moved)
{
	struct client *client = worker->stopping
	                                ? NULL
	                                : client_new(worker, moved->fd, moved->is_unix, false);
	if (client == NULL)
		return NULL;
	client->unix_pid = moved->unix_pid;
	client->protocol_long = moved->protocol_long;
	client->id = moved->id;
	client->connect_us = moved->connect_us;
	client->request_us = moved->request_us;
	client->address = moved->address;
	client->database = moved->database;
	client->user = moved->user;
	client->counted_database = moved->counted_database;
	client->counted_user = moved->counted_user;
	for (uint32_t i = 0; i < VARS_MAX; i++)
		if (moved->values[i] != NULL)
			vars_set(&worker->words, &client->vars, i, moved->values[i]);
	return client;
}

void place_arrive(struct worker *worker, struct moved_client *moved)
{
	struct pool_record *record = moved->record;
	struct client *client = moved_revive(worker, moved);
	if (client == NULL) {
		moved_lost(worker, moved);
		moved_free(moved);
		return;
	}
	bool begun = login_begin(client);
	if (begun) {
		client->login->bytes = moved->bytes;
		client->login->size = moved->size;
		client->login->room = moved->room;
		moved->bytes = NULL;
	}
	moved_free(moved);
	if (begun) {
		login_enter(client, record);
	} else {
		place_leave(record, worker->index);
		client_close(client, "out of memory");
	}
}
