/*
 * command.c - see command.h.
 *
 * Commands go over every pool that has a part here, or over those of one
 * database.  What is closed in a pass may change the list that the pass walks
 * (a client takes its server along), so a list that loses more than the member
 * under the walk is taken from its front until it is empty.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/command.h"

#include "core/base/check.h"
#include "core/cancels.h"
#include "core/client.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/server.h"
#include "core/worker.h"

static bool is_meant(const struct pool *pool, const struct database *database)
{
	return database == NULL || pool->record->database == database;
}

static bool is_outdated(const struct server *server)
{
	return server->close_needed ||
	       server->epoch !=
	               atomic_load_explicit(&server->pool->record->epoch, memory_order_relaxed);
}

/* In PAUSE nobody has asked for servers: whoever waits does so now. */
static void pool_wake(struct pool *pool)
{
	struct worker *worker = pool->worker;
	pool_serve(pool);
	if (!list_is_empty(&pool->waiting))
		wheel_arm(&worker->loop.wheel, &pool->demand_timer, worker->loop.now_us);
}

static void pool_close_outdated(struct pool *pool)
{
	list_each_safe (struct server, login, link, &pool->servers[SERVER_LOGIN])
		if (is_outdated(login))
			server_close(login, "connect string changed");
	list_each_safe (struct server, idle, link, &pool->servers[SERVER_IDLE])
		if (is_outdated(idle))
			server_close(idle, "database configuration changed");
	list_each_safe (struct server, used, link, &pool->servers[SERVER_USED])
		if (is_outdated(used))
			server_close(used, "database configuration changed");
	pool_publish(pool);
}

/* One on its way to another worker is closed by that one. */
static uint32_t servers_busy(const struct pool *pool)
{
	return pool->servers[SERVER_ACTIVE].count + pool->servers[SERVER_TESTED].count +
	       pool->servers[SERVER_BEING_CANCELED].count + pool->servers[SERVER_LENDING].count +
	       pool->servers[SERVER_CLOSING].count; /* seen by PostgreSQL until its end */
}

static uint32_t servers_outdated(const struct pool *pool)
{
	uint32_t count = 0;
	for (int state = 0; state < SERVER_STATE_COUNT; state++) {
		if (state == SERVER_CLOSING)
			continue;
		list_each (struct server, server, link, &pool->servers[state])
			count += is_outdated(server);
	}
	return count;
}

static struct client *client_in(const struct list *clients, uint64_t id)
{
	list_each (struct client, client, link, clients)
		if (client->id == id)
			return client;
	return NULL;
}

static uint64_t kill_client(struct worker *worker, uint64_t id)
{
	struct client *client = client_in(&worker->consoles, id);
	if (client == NULL)
		client = client_in(&worker->cancels, id);
	worker_each_pool (worker, pool) {
		if (client == NULL)
			client = client_in(&pool->active, id);
		if (client == NULL)
			client = client_in(&pool->waiting, id);
	}
	if (client == NULL)
		return 0;
	client_fail(client, NULL, "admin forced disconnect");
	return 1;
}

static void close_listeners(struct worker *worker, bool also_unix)
{
	for (uint32_t i = 0; i < worker->listener_count; i++) {
		struct listener *listener = &worker->listeners[i];
		if (also_unix || !listener->is_unix)
			listener_close(listener);
	}
}

static void close_clients(struct list *clients, const char *reason)
{
	while (!list_is_empty(clients))
		client_close(LIST_FIRST(struct client, link, clients), reason);
}

static void close_all(struct worker *worker)
{
	static const char reason[] = "shutting down";
	close_clients(&worker->logins, reason);
	close_clients(&worker->consoles, reason);
	close_clients(&worker->cancels, reason);
	worker_each_pool (worker, pool) {
		close_clients(&pool->waiting, reason);
		close_clients(&pool->active, reason);
		pool_close_servers(pool, reason);
	}
	list_each_safe (struct cancel_job, job, link, &worker->cancel_jobs)
		conn_close(&job->conn);
}

static void pool_command(struct pool *pool, enum command_kind command)
{
	struct process *process = pool->worker->process;
	switch (command) {
	case COMMAND_PAUSE: pool_close_unused(pool, "pause mode"); break;
	case COMMAND_RESUME: pool_wake(pool); break;
	case COMMAND_RECONNECT: pool_close_outdated(pool); break;
	case COMMAND_KILL: pool_end(pool); break;
	case COMMAND_SHUTDOWN:
		if (atomic_load(&process->shutdown) == SHUTDOWN_WAIT_SERVERS)
			pool_close_unused(pool, "pause mode");
		break;
	case COMMAND_KILL_CLIENT:
	case COMMAND_BUSY:
	case COMMAND_OLD:
	case COMMAND_STOP: break;
	}
}

void command_run(struct worker *worker, struct post *post)
{
	enum command_kind command = (enum command_kind)post->command.command;
	if (command == COMMAND_SHUTDOWN || command == COMMAND_STOP)
		close_listeners(worker, command == COMMAND_STOP);
	if (command == COMMAND_KILL_CLIENT)
		post->command.result = kill_client(worker, post->command.id);
	worker_each_pool (worker, pool) {
		if (!is_meant(pool, post->command.database))
			continue;
		if (command == COMMAND_BUSY)
			post->command.result += servers_busy(pool);
		else if (command == COMMAND_OLD)
			post->command.result += servers_outdated(pool);
		else
			pool_command(pool, command);
	}
	if (command == COMMAND_STOP) {
		worker->stopping = true;
		close_all(worker);
	}
	post->kind = POST_DONE;
	post->from = (uint16_t)worker->index;
	post_control(worker->process, post);
}

static bool pool_is_empty(const struct pool *pool)
{
	return list_is_empty(&pool->active) && list_is_empty(&pool->waiting) &&
	       pool_server_count(pool) == 0;
}

bool command_is_stopped(const struct worker *worker)
{
	bool is_empty = worker->listening == 0 && list_is_empty(&worker->logins) &&
	                list_is_empty(&worker->consoles) && list_is_empty(&worker->cancels) &&
	                list_is_empty(&worker->closing) && list_is_empty(&worker->cancel_jobs) &&
	                worker->deriving == 0;
	worker_each_pool (worker, pool)
		is_empty = is_empty && pool_is_empty(pool);
	return is_empty;
}
