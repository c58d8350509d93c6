/*
 * home.c - see home.h.
 *
 * The picture a home has of the workers is made of their last mails and may be
 * a little old: a worker that waits repeats its demand every 20 ms, so that no
 * mistake lasts longer.  What must be exact, the limits, is in the ledger.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/home.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/log.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/worker.h"

/* A server idle for less is about to be used again where it is: handing it over
 * would only move the wait, so a new one is opened if there is room. */
enum { UNUSED_US = 10 * 1000 };

/* How often it is looked whether the credit of an evicted server has come, and how
 * long that may take: as long, each waiter has one server evicted and no more. */
enum { EVICT_AGAIN_US = 2000, EVICT_LASTS_US = 50 * 1000 };

static struct pool *local(const struct home *home, uint32_t worker)
{
	return atomic_load_explicit(&home->pool->record->locals[worker].pool, memory_order_acquire);
}

static uint32_t connected(const struct home *home)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < home->worker_count; i++) {
		const struct pool *pool = local(home, i);
		if (pool != NULL)
			sum += atomic_load_explicit(&pool->connected_count, memory_order_relaxed);
	}
	return sum;
}

static uint64_t now_of(const struct home *home)
{
	return home->pool->worker->loop.now_us;
}

static void retry_at(struct home *home, uint64_t at_us)
{
	struct wheel *wheel = &home->pool->worker->loop.wheel;
	if (!timer_is_armed(&home->retry) || home->retry.at_ms > at_us / 1000 + 1)
		wheel_arm(wheel, &home->retry, at_us);
}

/* To every worker that has a part of the pool. */
static void broadcast(struct home *home, enum post_kind kind, const struct post *like)
{
	for (uint32_t i = 0; i < home->worker_count; i++) {
		if (local(home, i) == NULL)
			continue;
		struct post *post = post_new(kind, home->pool->worker->index);
		post->pool = home->pool->record;
		if (like != NULL)
			post->failed = like->failed;
		post_send(home->pool->worker->process, i, post);
	}
}

/* On their way to the worker.  A hand-over between two workers may be known to
 * the one that got it before the home knows of it at all. */
static uint32_t on_the_way(const struct home_demand *demand)
{
	int32_t count = (int32_t)(demand->sent - demand->received);
	return count > 0 ? (uint32_t)count : 0;
}

static bool is_unserved(const struct home_demand *demand)
{
	return demand->ticket != 0 && demand->waiting > on_the_way(demand);
}

static uint32_t servers_at(const struct home *home, uint32_t worker)
{
	const struct pool *pool = local(home, worker);
	return pool == NULL ? 0
	                    : atomic_load_explicit(&pool->connected_count, memory_order_relaxed);
}

static bool has_servers(const struct home *home, uint32_t worker)
{
	return servers_at(home, worker) > 0;
}

/* How long the oldest waiter of a worker waits.  Where there are servers the
 * queue moves, so the waiter of whom it was told may long be served: the next
 * one is taken to wait as long as that one did then.  Without servers it is
 * still the same one. */
static uint64_t wait_of(const struct home *home, uint32_t worker)
{
	const struct home_demand *demand = &home->demands[worker];
	uint64_t until = has_servers(home, worker) ? demand->told_us : now_of(home);
	return until > demand->ticket ? until - demand->ticket : 1;
}

/* Who waits longest for something that is not on its way; but for `except`. */
static uint32_t oldest_demand(const struct home *home, uint32_t except)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < home->worker_count; i++) {
		const struct home_demand *demand = &home->demands[i];
		if (i == except || !is_unserved(demand))
			continue;
		if (best == UINT32_MAX || wait_of(home, i) > wait_of(home, best))
			best = i;
	}
	return best;
}

static bool is_unused(const struct home *home, const struct pool *pool)
{
	uint64_t since = atomic_load_explicit(&pool->idle_since_us, memory_order_relaxed);
	return since != 0 && now_of(home) > since + UNUSED_US;
}

/* 1. An idle server of another worker: for one that has none, also a server that
 * is used all the time.  The others get such a one when it is spare (mark_holders). */
static bool give_idle(struct home *home, uint32_t to)
{
	bool any = !has_servers(home, to);
	if (home->demands[to].login &&
	    atomic_load_explicit(&home->pool->record->welcome, memory_order_relaxed) == NULL)
		return false; /* no server that is there could help it */
	for (uint32_t i = 0; i < home->worker_count; i++) {
		const struct pool *pool = i != to ? local(home, i) : NULL;
		if (pool == NULL || !(any || is_unused(home, pool)) ||
		    atomic_load_explicit(&pool->idle_count, memory_order_relaxed) <=
		            home->demands[i].giving)
			continue;
		struct post *post = post_new(POST_GIVE, home->pool->worker->index);
		post->pool = home->pool->record;
		post->give.to = to;
		home->demands[i].giving++;
		home->demands[to].sent++;
		post_send(home->pool->worker->process, i, post);
		return true;
	}
	return false;
}

static bool may_evict_more(struct home *home)
{
	uint32_t unserved = 0;
	for (uint32_t i = 0; i < home->worker_count; i++)
		if (is_unserved(&home->demands[i]))
			unserved += home->demands[i].waiting - on_the_way(&home->demands[i]);
	if (now_of(home) - home->evict_us >= EVICT_LASTS_US) {
		home->evict_us = now_of(home);
		home->evicted = 0;
	}
	return home->evicted < unserved;
}

struct unused {
	struct pool_record *pool; /* NULL: there is none */
	uint32_t worker;
	uint64_t since_us;
};

/* The servers of a pool that have been unused for longer than what was found so far. */
static void unused_look(struct unused *best, struct pool_record *record, uint32_t workers)
{
	for (uint32_t i = 0; i < workers; i++) {
		struct pool *pool = atomic_load_explicit(&record->locals[i].pool,
		                                         memory_order_acquire);
		uint64_t since = 0;
		if (pool != NULL)
			since = atomic_load_explicit(&pool->idle_since_us, memory_order_relaxed);
		if (since != 0 && since < best->since_us)
			*best = (struct unused){record, i, since};
	}
}

/* 3. The idle server of a sibling pool that has been unused longest. */
static void evict(struct home *home, bool same_user)
{
	if (!may_evict_more(home)) {
		retry_at(home, now_of(home) + EVICT_AGAIN_US);
		return;
	}
	struct worker *worker = home->pool->worker;
	struct pool_record *own = home->pool->record;
	uint32_t count;
	struct pool_record **pools = registry_pools(&worker->process->registry, &count);
	struct unused best = {.since_us = UINT64_MAX};
	for (uint32_t p = 0; p < count; p++) {
		struct pool_record *record = pools[p];
		bool sibling = same_user ? record->user == own->user
		                         : record->database == own->database;
		if (sibling && record != own)
			unused_look(&best, record, home->worker_count);
	}
	free((void *)pools);
	retry_at(home, now_of(home) + EVICT_AGAIN_US);
	if (best.pool == NULL)
		return;
	struct post *post = post_new(POST_EVICT, worker->index);
	post->pool = best.pool;
	home->evicted++;
	post_send(worker->process, best.worker, post);
}

static uint32_t reserve_allowed(struct home *home, uint32_t worker)
{
	const struct pool_limits *limits = &home->pool->limits;
	uint64_t ticket = home->demands[worker].ticket;
	if (limits->reserve_size == 0 || limits->reserve_timeout == 0 || ticket == 0)
		return 0;
	if (now_of(home) < ticket + limits->reserve_timeout) {
		retry_at(home, ticket + limits->reserve_timeout);
		return 0;
	}
	return limits->reserve_size;
}

static bool may_login(struct home *home)
{
	const struct settings *settings = &home->pool->worker->config->settings;
	uint64_t again = home->failed_us + settings->server_login_retry;
	uint32_t most = home->worked ? (uint32_t)MAX(settings->pool_parallel_logins, 1) : 1;
	if (home->logins >= most)
		return false;
	if (home->failed && now_of(home) < again) {
		retry_at(home, again);
		return false;
	}
	return true;
}

static void open_at(struct home *home, uint32_t worker)
{
	struct post *post = post_new(POST_OPEN, home->pool->worker->index);
	post->pool = home->pool->record;
	post->open.host_turn = home->host_turn;
	if (home->pool->host_balance)
		home->host_turn++;
	home->logins++;
	home->demands[worker].sent++;
	post_send(home->pool->worker->process, worker, post);
}

/* 2. A new connection, if the ledger has credits for it. */
static bool open_new(struct home *home, uint32_t worker, bool may_evict)
{
	struct pool_record *record = home->pool->record;
	if (!may_login(home))
		return false;
	uint32_t extra = reserve_allowed(home, worker);
	bool was_full = account_limit(&record->account) != 0 &&
	                account_used(&record->account) >= account_limit(&record->account);
	switch (ledger_take(&record->user->account, &record->database->account, &record->account,
	                    extra)) {
	case LEDGER_TAKEN: break;
	case LEDGER_USER_FULL:
		if (may_evict)
			evict(home, true);
		return false;
	case LEDGER_DATABASE_FULL:
		if (may_evict)
			evict(home, false);
		return false;
	case LEDGER_POOL_FULL: return false;
	}
	if (was_full && extra > 0)
		log_warning("%s/%s: taking connection from reserve_pool", record->database->name,
		            record->user->name);
	open_at(home, worker);
	return true;
}

/* 4. Each worker is told of the oldest demand that is not its own. */
static void mark_holders(struct home *home)
{
	for (uint32_t i = 0; i < home->worker_count; i++) {
		if (local(home, i) == NULL)
			continue;
		struct home_demand *told = &home->demands[i];
		uint32_t worker = oldest_demand(home, i);
		const struct home_demand *demand = worker != UINT32_MAX ? &home->demands[worker]
		                                                        : NULL;
		uint64_t ticket = demand != NULL ? demand->ticket : 0;
		uint32_t wanted = demand != NULL ? demand->waiting - on_the_way(demand) : 0;
		uint64_t wait_us = demand != NULL && has_servers(home, worker)
		                           ? wait_of(home, worker)
		                           : 0;
		bool same = worker == told->marked_worker && wanted <= told->marked_wanted &&
		            wait_us / 5 * 4 <= told->marked_wait_us;
		if (ticket == told->marked_ticket && (ticket == 0 || same))
			continue;
		told->marked_ticket = ticket;
		told->marked_worker = worker;
		told->marked_wanted = wanted;
		told->marked_wait_us = wait_us;
		struct post *post = post_new(POST_REMOTE, home->pool->worker->index);
		post->pool = home->pool->record;
		post->demand.ticket = ticket;
		post->demand.worker = demand != NULL ? worker : 0;
		post->demand.waiting = wanted;
		post->demand.wait_us = wait_us;
		post->demand.mark = ++told->mark;
		if (demand != NULL)
			post->demand.servers = servers_at(home, worker) + on_the_way(demand);
		post_send(home->pool->worker->process, i, post);
	}
}

static void home_serve(struct home *home)
{
	if (pool_is_paused(home->pool) || !home->pool->has_entry)
		return;
	for (;;) {
		uint32_t worker = oldest_demand(home, UINT32_MAX);
		if (worker == UINT32_MAX)
			break;
		if (!give_idle(home, worker) && !open_new(home, worker, false) &&
		    !open_new(home, worker, true))
			break;
	}
	if (home->worker_count > 1)
		mark_holders(home);
}

static void retry_fire(struct timer *timer)
{
	home_serve(CONTAINER(struct home, retry, timer));
}

struct home *home_new(struct pool *pool)
{
	uint32_t count = pool->worker->process->worker_count;
	struct home *home = calloc(1, sizeof *home + count * sizeof home->demands[0]);
	if (home == NULL)
		return NULL;
	home->pool = pool;
	home->worker_count = count;
	home->retry.fire = retry_fire;
	return home;
}

void home_free(struct home *home)
{
	wheel_disarm(&home->pool->worker->loop.wheel, &home->retry);
	free(home);
}

static void login_ended(struct home *home)
{
	if (home->logins > 0)
		home->logins--;
}

static void on_opened(struct home *home)
{
	bool any_login = home->failed || !home->worked;
	login_ended(home);
	home->failed = false;
	home->worked = true;
	for (uint32_t i = 0; i < home->worker_count; i++)
		any_login = any_login || home->demands[i].login;
	if (any_login)
		broadcast(home, POST_POOL_WORKS, NULL);
}

static void on_failed(struct home *home, const struct post *post)
{
	login_ended(home);
	if (post->failed.text[0] == '\0')
		return; /* closed by ourselves: says nothing about the server */
	home->worked = false;
	home->failed = true;
	home->host_turn += !home->pool->host_balance; /* on to the next host */
	home->failed_us = post->failed.began_us;
	if (connected(home) == 0)
		broadcast(home, POST_POOL_FAILED, post);
}

static void on_demand(struct home *home, const struct post *post)
{
	struct home_demand *demand = &home->demands[post->from];
	demand->ticket = post->demand.ticket;
	demand->told_us = now_of(home);
	demand->waiting = post->demand.waiting;
	demand->login = post->demand.login;
	demand->received = post->demand.received;
}

static void on_gave(struct home *home, const struct post *post)
{
	struct home_demand *giver = &home->demands[post->from];
	struct home_demand *taker = &home->demands[post->give.to];
	if (post->give.lost) {
		taker->sent--;
	} else if (post->give.asked) {
		if (giver->giving > 0)
			giver->giving--;
		if (!post->give.done)
			taker->sent--;
	} else {
		taker->sent++; /* by itself, because it was marked: as there (remote_serve) */
		if (post->give.mark != giver->mark)
			return; /* the mark under way replaces the one it gave by */
		if (giver->marked_wanted <= 1)
			giver->marked_ticket = 0;
		else
			giver->marked_wanted--;
	}
}

/* A login for its own sake, after a failure and as often as server_login_retry
 * allows: clients that are refused do not wait, so no demand would bring one. */
static void probe(struct home *home, uint32_t worker)
{
	struct pool_record *record = home->pool->record;
	if (!home->failed || home->logins > 0 || pool_is_paused(home->pool) || !may_login(home))
		return;
	if (ledger_take(&record->user->account, &record->database->account, &record->account, 0) ==
	    LEDGER_TAKEN)
		open_at(home, worker);
}

void home_post(struct pool *pool, const struct post *post)
{
	struct home *home = pool->home;
	CHECK(home != NULL && post->from < home->worker_count);
	on_demand(home, post);
	switch ((int)post->kind) {
	case POST_DEMAND: break;
	case POST_OPENED: on_opened(home); break;
	case POST_FAILED: on_failed(home, post); break;
	case POST_GAVE: on_gave(home, post); break;
	case POST_CREDIT: break;
	default: CHECK(false);
	}
	home_serve(home);
	if (post->demand.probe)
		probe(home, post->from);
}

bool home_is_idle(const struct home *home)
{
	bool idle = home->logins == 0 && connected(home) == 0;
	for (uint32_t i = 0; i < home->worker_count; i++) {
		const struct pool *part = local(home, i);
		bool has_clients = part != NULL && atomic_load_explicit(&part->client_count,
		                                                        memory_order_relaxed) > 0;
		idle = idle && !has_clients && on_the_way(&home->demands[i]) == 0;
	}
	return idle;
}

/* Fills up to min_pool_size, one connection at a time, evicting nobody. */
void home_janitor(struct home *home)
{
	struct pool *pool = home->pool;
	struct pool_record *record = pool->record;
	uint32_t clients = 0;
	if (pool->limits.min_size == 0 || pool_is_paused(pool) || home->logins > 0 ||
	    atomic_load(&pool->worker->process->shutdown) != SHUTDOWN_NONE)
		return;
	for (uint32_t i = 0; i < home->worker_count; i++) {
		const struct pool *part = local(home, i);
		if (part != NULL)
			clients += atomic_load_explicit(&part->client_count, memory_order_relaxed);
	}
	if ((clients == 0 && !pool->is_forced) || connected(home) >= pool->limits.min_size ||
	    !may_login(home))
		return;
	if (ledger_take(&record->user->account, &record->database->account, &record->account, 0) !=
	    LEDGER_TAKEN)
		return;
	open_at(home, pool->worker->index);
}

struct post *home_report(struct pool *pool, int kind)
{
	const struct client *first = LIST_FIRST(struct client, link, &pool->waiting);
	struct post *post = post_new((enum post_kind)kind, pool->worker->index);
	post->pool = pool->record;
	post->demand.ticket = first != NULL ? MAX(first->wait_us, 1) : 0;
	post->demand.waiting = pool->waiting.count;
	post->demand.login = pool->welcome_waiting > 0;
	post->demand.received = pool->received;
	pool->demanding = first != NULL;
	return post;
}

void home_tell(struct pool *pool, int kind)
{
	post_send(pool->worker->process, pool->record->home, home_report(pool, kind));
}

void home_demand(struct pool *pool)
{
	home_tell(pool, POST_DEMAND);
}
