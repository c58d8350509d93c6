/*
 * pool_janitor.c - what time does to the clients and servers of a pool.
 *
 * Runs every third of a second, as PgBouncer's does (pgbouncer.md 5.8).  Lists
 * that cannot have anything due are not walked: ten thousand idle clients cost
 * nothing unless client_idle_timeout is set.
 *
 * list_each_safe is safe here although closing one object may change lists: a
 * client that fails takes at most its own server along, never a sibling.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/check.h"
#include "core/client.h"
#include "core/home.h"
#include "core/log.h"
#include "core/pool.h"
#include "core/process.h"
#include "core/server.h"
#include "core/worker.h"
#include "net/conn.h"
#include "proto/write.h"

/* Whoever closes its sending side only still gets the answer, if it comes soon;
 * most who do so are gone. */
enum { NOTICE_MAX = 256, HALF_CLOSED_US = 1000 * 1000 };

static bool is_over(uint64_t now, uint64_t since, uint64_t limit)
{
	return limit != 0 && since != 0 && now > since && now - since > limit;
}

static uint64_t wait_limit(const struct pool *pool, const struct client *client)
{
	const struct config *config = pool->worker->config;
	const struct user_entry *user = client->user != NULL
	                                        ? config_find_user(config, client->user->name)
	                                        : NULL;
	const struct database_entry *entry = config_entry_for(config, pool->record->database->name);
	if (user != NULL && user->query_wait_timeout >= 0)
		return (uint64_t)user->query_wait_timeout;
	if (entry != NULL && entry->query_wait_timeout >= 0)
		return (uint64_t)entry->query_wait_timeout;
	return config->settings.query_wait_timeout;
}

static void notify(struct client *client)
{
	uint8_t packet[NOTICE_MAX];
	struct writer out = writer_over(packet, sizeof packet);
	write_notice(&out,
	             "No server connection available in postgres backend, client being queued",
	             NULL);
	conn_send_copy(&client->conn, packet, out.size);
	client->notified = true;
}

static void waiter_look(struct pool *pool, struct client *client, uint64_t now)
{
	const struct settings *settings = &pool->worker->config->settings;
	uint64_t notify_us = (uint64_t)MAX(settings->query_wait_notify, 0) * 1000000;
	if (atomic_load_explicit(&pool->worker->process->shutdown, memory_order_relaxed) ==
	    SHUTDOWN_WAIT_SERVERS)
		client_fail(client, NULL, "server shutting down");
	else if (client->state == CLIENT_WELCOME &&
	         is_over(now, client->connect_us, settings->client_login_timeout))
		client_fail(client, NULL, "client_login_timeout (server down)");
	else if (is_over(now, client->wait_us, pool->limits.query_timeout))
		client_fail(client, NULL, "query_timeout");
	else if (is_over(now, client->wait_us, wait_limit(pool, client)))
		client_fail(client, NULL, "query_wait_timeout");
	else if (client->state == CLIENT_WAITING && !client->notified &&
	         is_over(now, client->wait_us, notify_us))
		notify(client);
}

static uint64_t idle_limit(const struct pool *pool, const struct client *client)
{
	const struct config *config = pool->worker->config;
	const struct user_entry *user = client->user != NULL
	                                        ? config_find_user(config, client->user->name)
	                                        : NULL;
	if (user != NULL && user->client_idle_timeout > 0)
		return (uint64_t)user->client_idle_timeout;
	return config->settings.client_idle_timeout;
}

static bool any_idle_limit(const struct config *config)
{
	bool any = config->settings.client_idle_timeout > 0;
	for (uint32_t i = 0; i < config->user_count && !any; i++)
		any = config->users[i].client_idle_timeout > 0;
	return any;
}

static void clients_look(struct pool *pool, uint64_t now)
{
	list_each_safe (struct client, client, link, &pool->waiting)
		waiter_look(pool, client, now);
	if (list_is_empty(&pool->active) || !any_idle_limit(pool->worker->config))
		return;
	list_each_safe (struct client, idle, link, &pool->active)
		if (idle->server == NULL && is_over(now, idle->request_us, idle_limit(pool, idle)))
			client_fail(idle, NULL, "client_idle_timeout");
}

static bool is_old(const struct server *server)
{
	const _Atomic uint32_t *epoch = &server->pool->record->epoch;
	return server->close_needed ||
	       server->epoch != atomic_load_explicit(epoch, memory_order_relaxed);
}

/* Its client wants no more, and what is owed by the count may never come. */
static bool is_at_a_loss(const struct server *server, uint64_t now)
{
	return server->client != NULL && server->client->ended && server->track.suspect &&
	       server->track.ready && is_over(now, server->request_us, HALF_CLOSED_US);
}

static void active_look(struct pool *pool, struct server *server, uint64_t now)
{
	const struct pool_limits *limits = &pool->limits;
	const struct client *client = server->client;
	bool in_block = server->track.status == 'T' || server->track.status == 'E';
	if (is_over(now, server->query_us, limits->query_timeout))
		server_close(server, "query timeout");
	else if (in_block && server->query_us == 0 &&
	         is_over(now, server->request_us, limits->idle_transaction_timeout))
		server_close(server, "idle transaction timeout");
	else if (is_over(now, server->xact_us, limits->transaction_timeout))
		server_close(server, "transaction timeout");
	else if (is_at_a_loss(server, now) || (client != NULL && client->vanished &&
	                                       is_over(now, client->request_us, HALF_CLOSED_US)))
		server_close(server, "client disconnect while server was not ready");
	else if (is_old(server) && track_is_free(&server->track) && limits->mode == POOL_SESSION &&
	         pool->worker->config->settings.server_fast_close)
		server_close(server, "database configuration changed");
}

/* Two of a pool that grew old together are not closed together. */
static bool lifetime_is_over(struct pool *pool, const struct server *server, uint64_t now)
{
	uint64_t life = pool->limits.server_lifetime;
	if (life != 0 && now - server->connect_us <= life)
		return false;
	uint32_t used = MAX(1U, account_used(&pool->record->account));
	if (life != 0 && pool->lifetime_closed_us != 0 &&
	    now - pool->lifetime_closed_us < life / used)
		return false;
	pool->lifetime_closed_us = now;
	return true;
}

static void unused_look(struct pool *pool, struct server *server, uint64_t now)
{
	const struct pool_limits *limits = &pool->limits;
	uint32_t used = account_used(&pool->record->account);
	uint32_t most = limits->size + limits->reserve_size;
	if (is_old(server))
		server_close(server, "database configuration changed");
	else if (limits->size > 0 && used > most)
		server_close(server, "too many servers in the pool");
	else if (lifetime_is_over(pool, server, now))
		server_close(server, "server lifetime over");
	else if (is_over(now, server->request_us, limits->server_idle_timeout) &&
	         (limits->min_size == 0 || used > limits->min_size))
		server_close(server, "server idle timeout");
	else if (server->state == SERVER_IDLE && limits->check_query != NULL &&
	         limits->check_delay != 0 && is_over(now, server->request_us, limits->check_delay))
		server_move(server, SERVER_USED);
}

static bool pool_is_empty(const struct pool *pool)
{
	return pool->active.count + pool->waiting.count + pool_server_count(pool) == 0;
}

/* pool_idle_timeout: each worker forgets its part by itself, with its statistics.
 * The memory stays, since homes on other workers look at it. */
static void pool_forget(struct pool *pool, uint64_t now)
{
	uint64_t limit = pool->worker->config->settings.pool_idle_timeout;
	bool is_kept = pool->is_forced && pool->limits.min_size > 0;
	if (!pool_is_empty(pool))
		pool->forgotten = false;
	if (!pool_is_empty(pool) || (pool->home != NULL && !home_is_idle(pool->home)))
		pool->empty_since_us = now;
	bool is_over_now = pool_is_removed(pool)
	                           ? pool->empty_since_us != now
	                           : !is_kept && is_over(now, pool->empty_since_us, limit);
	if (pool->forgotten || !is_over_now)
		return;
	if (pool->home != NULL && !pool_is_removed(pool))
		log_info("cleaning up idle pool for user %s on db %s because: pool idle timeout "
		         "(age= %llus)",
		         pool->record->user->name, pool->record->database->name,
		         (unsigned long long)((now - pool->empty_since_us) / 1000000));
	pool->forgotten = true;
	pool->counters = (struct counters){0};
}

/* A check or reset that does not end keeps a credit for nothing. */
static uint64_t test_limit(const struct pool *pool)
{
	uint64_t query = pool->limits.query_timeout;
	uint64_t connect = pool->worker->config->settings.server_connect_timeout;
	return query != 0 ? query : connect;
}

void pool_janitor(struct pool *pool)
{
	static const uint8_t unused[] = {SERVER_IDLE, SERVER_USED};
	uint64_t now = pool->worker->loop.now_us;
	clients_look(pool, now);
	list_each_safe (struct server, active, link, &pool->servers[SERVER_ACTIVE])
		active_look(pool, active, now);
	for (size_t i = 0; i < sizeof unused; i++)
		list_each_safe (struct server, server, link, &pool->servers[unused[i]])
			unused_look(pool, server, now);
	list_each_safe (struct server, tested, link, &pool->servers[SERVER_TESTED])
		if (is_over(now, tested->query_us, test_limit(pool)))
			server_close(tested, "server_check_query timeout");
	pool_publish(pool);
	if (pool->home != NULL)
		home_janitor(pool->home);
	pool_forget(pool, now);
}
