/*
 * pool.c - see pool.h.
 *
 * The one loop in which clients and servers come together is pool_serve().  It
 * does not nest: whatever a served client does at once (a bad message, say)
 * only changes the lists that the loop looks at.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/pool.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/home.h"
#include "core/lend.h"
#include "core/log.h"
#include "core/post.h"
#include "core/process.h"
#include "core/relay.h"
#include "core/server.h"
#include "core/welcome.h"
#include "core/worker.h"

/* A waiter this old makes its worker ask for help, again and again. */
enum { DEMAND_AFTER_US = 1000, DEMAND_AGAIN_US = 20 * 1000 };

static void demand_timer_fire(struct timer *timer);

struct pool *pool_get(struct worker *worker, struct pool_record *record)
{
	uint32_t id = record->id;
	if (id < worker->pool_room && worker->pools[id] != NULL)
		return worker->pools[id];
	if (id >= worker->pool_room) {
		uint32_t room = MAX(16U, worker->pool_room * 2);
		while (room <= id)
			room *= 2;
		struct pool **pools = (struct pool **)realloc((void *)worker->pools,
		                                              room * sizeof(struct pool *));
		if (pools == NULL)
			return NULL;
		memset((void *)(pools + worker->pool_room), 0,
		       (room - worker->pool_room) * sizeof(struct pool *));
		worker->pools = pools;
		worker->pool_room = room;
	}
	struct pool *pool = calloc(1, sizeof *pool);
	if (pool == NULL)
		return NULL;
	pool->worker = worker;
	pool->record = record;
	list_init(&pool->active);
	list_init(&pool->waiting);
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		list_init(&pool->servers[i]);
	pool->demand_timer.fire = demand_timer_fire;
	pool->spare_timer.fire = pool_share_spare;
	pool->empty_since_us = worker->loop.now_us;
	if (record->home == worker->index && (pool->home = home_new(pool)) == NULL) {
		free(pool);
		return NULL;
	}
	pool_configure(pool);
	worker->pools[id] = pool;
	atomic_store_explicit(&record->locals[worker->index].pool, pool, memory_order_release);
	return pool;
}

void pool_free(struct pool *pool)
{
	CHECK(list_is_empty(&pool->active) && list_is_empty(&pool->waiting));
	CHECK(pool_server_count(pool) == 0);
	struct worker *worker = pool->worker;
	wheel_disarm(&worker->loop.wheel, &pool->demand_timer);
	wheel_disarm(&worker->loop.wheel, &pool->spare_timer);
	if (pool->home != NULL)
		home_free(pool->home);
	greeting_free(worker, pool->greeting);
	atomic_store(&pool->record->locals[worker->index].pool, NULL);
	worker->pools[pool->record->id] = NULL;
	free(pool);
}

static uint64_t first_set(int64_t a, int64_t b, uint64_t otherwise)
{
	if (a >= 0)
		return (uint64_t)a;
	return b >= 0 ? (uint64_t)b : otherwise;
}

static uint64_t first_positive(int64_t a, uint64_t otherwise)
{
	return a > 0 ? (uint64_t)a : otherwise;
}

static const char *text_or_null(const char *text)
{
	return text != NULL && *text != '\0' ? text : NULL;
}

void pool_configure(struct pool *pool)
{
	const struct config *config = pool->worker->config;
	const struct settings *settings = &config->settings;
	const struct database_entry *entry = config_entry_for(config, pool->record->database->name);
	const struct user_entry *user = config_find_user(config, pool->record->user->name);
	struct database_entry no_entry;
	struct user_entry no_user;
	database_entry_init(&no_entry, "");
	user_entry_init(&no_user, "");
	pool->has_entry = entry != NULL;
	if (entry == NULL)
		entry = &no_entry;
	if (user == NULL)
		user = &no_user;
	enum pool_mode mode = user->pool_mode != POOL_MODE_UNSET ? user->pool_mode
	                                                         : entry->pool_mode;
	pool->limits = (struct pool_limits){
		.mode = mode != POOL_MODE_UNSET ? mode : (enum pool_mode)settings->pool_mode,
		.size = pool_size_of(config, pool->record->database, pool->record->user),
		.min_size = (uint32_t)first_set(entry->min_pool_size, -1,
	                                        (uint64_t)MAX(settings->min_pool_size, 0)),
		.reserve_size = (uint32_t)first_set(user->reserve_pool_size,
	                                            entry->reserve_pool_size,
	                                            (uint64_t)MAX(settings->reserve_pool_size, 0)),
		.reserve_timeout = settings->reserve_pool_timeout,
		.query_timeout = first_positive(user->query_timeout, settings->query_timeout),
		.idle_transaction_timeout = first_positive(user->idle_transaction_timeout,
	                                                   settings->idle_transaction_timeout),
		.transaction_timeout = first_positive(user->transaction_timeout,
	                                              settings->transaction_timeout),
		.server_lifetime = first_positive(entry->server_lifetime,
	                                          settings->server_lifetime),
		.server_idle_timeout = settings->server_idle_timeout,
		.check_query = settings->server_check_query,
		.check_delay = settings->server_check_delay,
	};
	if (pool->limits.mode != POOL_SESSION)
		pool->limits.statements = (uint32_t)MAX(settings->max_prepared_statements, 0);
	pool->is_forced = entry->user != NULL;
	pool->host_balance = entry->load_balance_hosts == LOAD_BALANCE_ROUND_ROBIN;
	if (pool->limits.size > 0 && pool->limits.min_size > pool->limits.size)
		pool->limits.min_size = pool->limits.size;
	if (pool->limits.mode == POOL_SESSION || settings->server_reset_query_always)
		pool->limits.reset_query = text_or_null(settings->server_reset_query);
	if (strcmp(pool->limits.check_query != NULL ? pool->limits.check_query : "", "") == 0)
		pool->limits.check_query = NULL;
	else if (strcmp(pool->limits.check_query, "<empty>") == 0)
		pool->limits.check_query = "";
}

bool pool_is_paused(const struct pool *pool)
{
	return atomic_load_explicit(&pool->worker->process->paused, memory_order_relaxed) ||
	       atomic_load_explicit(&pool->record->database->paused, memory_order_relaxed);
}

uint32_t pool_server_count(const struct pool *pool)
{
	uint32_t count = 0;
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		count += pool->servers[i].count;
	return count;
}

static void publish(_Atomic uint32_t *to, uint32_t value)
{
	atomic_store_explicit(to, value, memory_order_relaxed);
}

static uint64_t unused_since(struct list *servers)
{
	struct link *last = list_last(servers);
	return last == NULL ? UINT64_MAX : CONTAINER(struct server, link, last)->request_us;
}

void pool_publish(struct pool *pool)
{
	struct list *servers = pool->servers;
	uint64_t since = MIN(unused_since(&servers[SERVER_IDLE]),
	                     unused_since(&servers[SERVER_USED]));
	publish(&pool->idle_count, servers[SERVER_IDLE].count + servers[SERVER_USED].count);
	publish(&pool->connected_count, pool_server_count(pool) - servers[SERVER_LOGIN].count -
	                                        servers[SERVER_CLOSING].count);
	publish(&pool->client_count, pool->active.count + pool->waiting.count);
	atomic_store_explicit(&pool->idle_since_us, since == UINT64_MAX ? 0 : since,
	                      memory_order_relaxed);
}

static bool is_shutting_down(const struct pool *pool)
{
	return atomic_load_explicit(&pool->worker->process->shutdown, memory_order_relaxed) ==
	       SHUTDOWN_WAIT_SERVERS;
}

bool pool_may_use(struct pool *pool, struct server *server)
{
	uint32_t epoch = atomic_load_explicit(&pool->record->epoch, memory_order_relaxed);
	if (server->close_needed || server->epoch != epoch)
		server_close(server, "obsolete connection");
	else if (!server_is_clean(server))
		server_close(server, "idle server got dirty");
	else
		return true;
	return false;
}

struct server *pool_take(struct pool *pool)
{
	struct list *idle = &pool->servers[SERVER_IDLE];
	while (!list_is_empty(idle)) {
		struct server *server = LIST_FRONT(struct server, link, idle);
		if (pool_may_use(pool, server))
			return server;
	}
	return NULL;
}

void pool_check_for(struct pool *pool, uint32_t wanted)
{
	struct list *used = &pool->servers[SERVER_USED];
	if (list_is_empty(used) || pool->servers[SERVER_TESTED].count >= wanted)
		return;
	struct server *server = LIST_FRONT(struct server, link, used);
	if (pool->limits.check_query == NULL) {
		pool_offer(pool, server);
		return;
	}
	server_move(server, SERVER_TESTED);
	server_query_own(server, pool->limits.check_query);
}

void pool_check_one(struct pool *pool)
{
	pool_check_for(pool,
	               pool->waiting.count + (pool->remote_ticket != 0 ? pool->remote_wanted : 0));
}

static void demand_timer_fire(struct timer *timer)
{
	struct pool *pool = CONTAINER(struct pool, demand_timer, timer);
	if (list_is_empty(&pool->waiting))
		return;
	pool_check_one(pool);
	if (!pool_is_paused(pool))
		home_demand(pool);
	/* the home knows, and looks again whenever something changes; this is for
	 * what it cannot see (a shorter queue, an older ticket) */
	wheel_arm(&pool->worker->loop.wheel, timer, pool->worker->loop.now_us + DEMAND_AGAIN_US);
}

/* The worker with nothing of its own to wait for asks at once. */
static void pool_demand(struct pool *pool)
{
	struct worker *worker = pool->worker;
	pool_check_one(pool);
	if (pool_is_paused(pool))
		return;
	uint32_t open = pool->servers[SERVER_ACTIVE].count + pool->servers[SERVER_IDLE].count;
	if (open == 0 && !pool->demanding)
		home_demand(pool);
	if (!timer_is_armed(&pool->demand_timer))
		wheel_arm(&worker->loop.wheel, &pool->demand_timer,
		          worker->loop.now_us + DEMAND_AFTER_US);
}

/* Nobody waits for the login that would show that the server is back. */
static void pool_probe(struct pool *pool)
{
	struct post *post = home_report(pool, POST_DEMAND);
	post->demand.probe = true;
	post_send(pool->worker->process, pool->record->home, post);
}

bool pool_attach(struct pool *pool, struct client *client)
{
	if (is_shutting_down(pool)) {
		client_fail(client, NULL, "server shutting down");
		return false;
	}
	if (!pool_is_paused(pool) && list_is_empty(&pool->waiting)) {
		struct server *server = pool_take(pool);
		if (server != NULL) {
			relay_attach(client, server);
			return true;
		}
		if (pool->failing) {
			char text[REASON_MAX + 1];
			text_format(text, sizeof text,
			            "server login has been failing, cached error: %.60s "
			            "(server_login_retry)",
			            pool->failure);
			client_fail(client, NULL, text);
			pool_probe(pool);
			return false;
		}
	}
	client_move(client, CLIENT_WAITING);
	client->wait_us = pool->worker->loop.now_us;
	client->notified = false;
	conn_pause_quietly(&client->conn);
	pool_demand(pool);
	return false;
}

void pool_wait_welcome(struct pool *pool, struct client *client)
{
	client->wait_us = pool->worker->loop.now_us;
	conn_pause_quietly(&client->conn);
	pool_demand(pool);
}

static void pool_waited(struct pool *pool, struct client *client)
{
	if (client->wait_us != 0)
		pool->counters.wait_time += pool->worker->loop.now_us - client->wait_us;
	client->wait_us = 0;
}

static void pool_queue_shorter(struct pool *pool)
{
	if (!list_is_empty(&pool->waiting))
		return;
	wheel_disarm(&pool->worker->loop.wheel, &pool->demand_timer);
	if (pool->demanding)
		home_demand(pool);
}

void pool_unqueue(struct pool *pool, struct client *client)
{
	pool_waited(pool, client);
	pool_queue_shorter(pool);
}

/* The first that waits for a server, not for the pool itself. */
static struct client *pool_first(const struct pool *pool)
{
	list_each (struct client, client, link, &pool->waiting)
		if (client->state == CLIENT_WAITING)
			return client;
	return NULL;
}

void pool_serve(struct pool *pool)
{
	if (pool->serving)
		return;
	pool->serving = true;
	struct client *client;
	while ((client = pool_first(pool)) != NULL && !pool_is_paused(pool)) {
		struct server *server = pool_take(pool);
		if (server == NULL)
			break;
		client_move(client, CLIENT_READY);
		pool_unqueue(pool, client);
		conn_resume(&client->conn);
		relay_attach(client, server);
		relay_resume(client);
	}
	pool->serving = false;
	publish(&pool->client_count, pool->active.count + pool->waiting.count);
}

void pool_offer(struct pool *pool, struct server *server)
{
	CHECK(server->client == NULL);
	server_move(server, SERVER_IDLE);
	if (pool_is_paused(pool) || is_shutting_down(pool)) {
		server_close(server, "pause mode");
		return;
	}
	if (pool->welcome_waiting > 0)
		pool_welcome(pool);
	if (!pool->serving && pool->remote_ticket != 0)
		pool_share(pool);
	if (!list_is_empty(&pool->waiting))
		pool_serve(pool);
}

void pool_welcome(struct pool *pool)
{
	const struct welcome *welcome = atomic_load_explicit(&pool->record->welcome,
	                                                     memory_order_acquire);
	if (pool->welcome_waiting == 0 || welcome == NULL)
		return;
	list_each_safe (struct client, client, link, &pool->waiting) {
		if (client->state != CLIENT_WELCOME)
			continue;
		pool_waited(pool, client);
		client_welcome(client, welcome); /* it may queue again at once */
	}
	pool_queue_shorter(pool);
}

static void pool_evict(struct pool *pool)
{
	struct server *oldest = NULL;
	for (int state = 0; state < SERVER_STATE_COUNT; state++) {
		if (state != SERVER_IDLE && state != SERVER_USED)
			continue;
		list_each (struct server, server, link, &pool->servers[state])
			if (oldest == NULL || server->request_us < oldest->request_us)
				oldest = server;
	}
	if (oldest != NULL)
		server_close(oldest, "evicted");
}

void pool_post(struct pool *pool, const struct post *post)
{
	switch ((int)post->kind) {
	case POST_OPEN: server_open(pool, post->open.host_turn); break;
	case POST_GIVE: pool_share_give(pool, post->give.to); break;
	case POST_REMOTE:
		pool->remote_ticket = post->demand.ticket;
		pool->remote_wait_us = post->demand.wait_us;
		pool->remote_worker = post->demand.worker;
		pool->remote_wanted = post->demand.waiting;
		pool->remote_servers = post->demand.servers;
		pool->remote_mark = post->demand.mark;
		pool_share(pool);
		pool_publish(pool);
		break;
	case POST_EVICT: pool_evict(pool); break;
	case POST_POOL_FAILED:
		pool_failed(pool, post->failed.sqlstate, post->failed.text, post->failed.quiet);
		break;
	case POST_POOL_WORKS: pool_recovered(pool); break;
	default: CHECK(false);
	}
}

void pool_failed(struct pool *pool, const char *sqlstate, const char *text, bool quiet)
{
	pool->failing = true;
	text_set(pool->failure, sizeof pool->failure, text);
	if (quiet)
		return;
	list_each_safe (struct client, client, link, &pool->waiting)
		client_fail(client, *sqlstate != '\0' ? sqlstate : NULL, text);
}

void pool_recovered(struct pool *pool)
{
	pool->failing = false;
	pool_welcome(pool);
	pool_serve(pool);
}

void pool_close_unused(struct pool *pool, const char *reason)
{
	static const uint8_t unused[] = {SERVER_LOGIN, SERVER_IDLE, SERVER_USED};
	for (size_t i = 0; i < sizeof unused; i++)
		list_each_safe (struct server, server, link, &pool->servers[unused[i]])
			server_close(server, reason);
	pool_publish(pool);
}

void pool_kick_clients(struct pool *pool, const char *reason)
{
	list_each_safe (struct client, client, link, &pool->waiting)
		client_fail(client, NULL, reason);
	list_each_safe (struct client, active, link, &pool->active)
		client_fail(active, NULL, reason);
}

void pool_close_servers(struct pool *pool, const char *reason)
{
	for (int state = 0; state < SERVER_STATE_COUNT; state++) {
		struct list *servers = &pool->servers[state];
		while (state != SERVER_CLOSING && state != SERVER_LENDING && servers->count > 0)
			server_close(LIST_FIRST(struct server, link, servers), reason);
	}
	pool_publish(pool);
}

void pool_end(struct pool *pool)
{
	pool_kick_clients(pool, "database removed");
	pool_close_servers(pool, "database removed");
}

bool pool_is_removed(const struct pool *pool)
{
	return !pool->has_entry && atomic_load(&pool->record->database->removed);
}
