/*
 * pool_share.c - which servers of a pool go to another worker, and when.
 *
 * The home has told that somebody waits elsewhere (POST_REMOTE), and asks here
 * and there for an idle server (POST_GIVE).  Who has no server at all gets one
 * as soon as its oldest client comes before ours, so that a pool smaller than
 * the number of workers goes round in the order of tickets.
 *
 * Handing over costs the server a transaction or so.  Where both sides have some
 * it is a matter of shares, not of a single client, and what is told of waits is
 * a moment's: a worker that did not get the CPU for a while would be given all.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/check.h"
#include "core/client.h"
#include "core/home.h"
#include "core/lend.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/server.h"
#include "core/worker.h"

/* A client elsewhere comes first if it waits this much longer, and a quarter of the
 * wait longer.  A share changes by one server in this time, or by this part of it
 * if the other side will still wait longer then. */
enum {
	REMOTE_SLACK_US = 1000,
	REMOTE_SLACK_PART = 4,
	REMOTE_SHARE_US = 20 * 1000,
	REMOTE_SHARE_PART = 8,
};

/* Who was served comes back at once: a server is spare when it was not used for
 * this long. */
enum { SPARE_US = 1000 };

static uint64_t remote_wait(const struct pool *pool)
{
	uint64_t now = pool->worker->loop.now_us;
	if (pool->remote_wait_us != 0)
		return pool->remote_wait_us;
	return now > pool->remote_ticket ? now - pool->remote_ticket : 0;
}

/* Servers that can still be used here. */
static uint32_t own_servers(const struct pool *pool)
{
	return atomic_load_explicit(&pool->connected_count, memory_order_relaxed) -
	       pool->servers[SERVER_LENDING].count;
}

/* What was told of the other side is old where servers go round quickly: it has
 * none if all there are, are here. */
static bool remote_has_some(const struct pool *pool)
{
	return pool->remote_servers > 0 && account_used(&pool->record->account) > own_servers(pool);
}

/* What the wait there will be with one server more. */
static uint64_t remote_wait_then(const struct pool *pool)
{
	return remote_wait(pool) * pool->remote_servers / (pool->remote_servers + 1);
}

static bool waits_longer(uint64_t a_us, uint64_t b_us)
{
	return a_us > b_us + MAX(REMOTE_SLACK_US, b_us / REMOTE_SLACK_PART);
}

/* Somebody on another core waits longer than anybody here. */
static bool remote_is_first(const struct pool *pool)
{
	if (pool->remote_ticket == 0)
		return false;
	const struct client *first = LIST_FIRST(struct client, link, &pool->waiting);
	if (first == NULL)
		return true;
	uint64_t now = pool->worker->loop.now_us;
	uint64_t own = now > first->wait_us ? now - first->wait_us : 0;
	if (!waits_longer(remote_wait(pool), own))
		return false;
	if (!remote_has_some(pool) || now - pool->share_us >= REMOTE_SHARE_US)
		return true;
	uint64_t servers = own_servers(pool);
	return servers > 1 && pool->share_given < servers / REMOTE_SHARE_PART &&
	       waits_longer(remote_wait_then(pool), own * servers / (servers - 1));
}

static void pool_gave(struct pool *pool, uint32_t to, bool done, bool asked)
{
	struct post *post = home_report(pool, POST_GAVE);
	post->give.to = to;
	post->give.done = done;
	post->give.asked = asked;
	post->give.mark = pool->remote_mark;
	post_send(pool->worker->process, pool->record->home, post);
}

/* One for the other side.  If it has servers of its own and nobody waits here, it
 * gets what is spare, the one that was unused longest. */
static struct server *remote_take(struct pool *pool)
{
	struct worker *worker = pool->worker;
	struct list *idle = &pool->servers[SERVER_IDLE];
	if (!list_is_empty(&pool->waiting) || !remote_has_some(pool))
		return pool_take(pool);
	while (!list_is_empty(idle)) {
		struct server *server = CONTAINER(struct server, link, list_last(idle));
		struct server *first = LIST_FRONT(struct server, link, idle);
		if (first->request_us < server->request_us) /* server_round_robin */
			server = first;
		if (worker->loop.now_us - server->request_us < SPARE_US) {
			if (!timer_is_armed(&pool->spare_timer))
				wheel_arm(&worker->loop.wheel, &pool->spare_timer,
				          server->request_us + SPARE_US);
			return NULL;
		}
		if (pool_may_use(pool, server))
			return server;
	}
	return NULL;
}

static void share_shrinks(struct pool *pool)
{
	uint64_t now = pool->worker->loop.now_us;
	pool->share_given++;
	if (now - pool->share_us < REMOTE_SHARE_US)
		return;
	pool->share_us = now;
	pool->share_given = 1;
}

void pool_share(struct pool *pool)
{
	while (remote_is_first(pool)) {
		struct server *server = remote_take(pool);
		if (server == NULL) {
			pool_check_one(pool); /* and then it is offered again */
			return;
		}
		uint32_t to = pool->remote_worker;
		if (pool->remote_wanted <= 1)
			pool->remote_ticket = 0;
		else
			pool->remote_wanted--;
		pool->remote_wait_us = MAX(remote_wait_then(pool), 1);
		pool->remote_servers++;
		share_shrinks(pool);
		lend_server(server, to);
		pool_gave(pool, to, true, false);
	}
}

void pool_share_spare(struct timer *timer)
{
	struct pool *pool = CONTAINER(struct pool, spare_timer, timer);
	if (!pool_is_paused(pool))
		pool_share(pool);
}

void pool_share_give(struct pool *pool, uint32_t to)
{
	struct server *server = pool_take(pool);
	if (server != NULL) {
		lend_server(server, to);
	} else {
		pool_check_for(pool, 1); /* the home asks again when it is idle */
	}
	pool_gave(pool, to, server != NULL, true);
}
