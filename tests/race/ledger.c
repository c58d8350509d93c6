/*
 * Several workers take and give credits of pools that share users and
 * databases, while another thread lowers and raises the limits.  Each account
 * has a count of holders of our own, which must never exceed what the limit
 * allows, not by one, and everything must be zero in the end.
 *
 * What is allowed is kept in one word with a number that changes with it: the
 * bound is raised before the limit, and lowered only after the limit was
 * lowered and the surplus is gone.  A count taken while the word stayed the
 * same is held against it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/ledger.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "core/base/check.h"
#include "net/sys.h"

enum { WORKERS = 4, USERS = 2, DATABASES = 2, POOLS = USERS * DATABASES };
enum { ACCOUNTS = USERS + DATABASES + POOLS, HELD_MAX = 12, EXTRA = 2, RUN_US = 2500 * 1000 };

struct watched {
	struct account account;
	_Alignas(64) _Atomic uint32_t holders;
	_Atomic uint64_t bound; /* number << 32 | holders allowed */
	uint32_t extra;
};

struct worker {
	uint64_t seed, takes, refusals, compared;
	uint32_t held[HELD_MAX]; /* pools */
	uint32_t held_count;
};

static struct watched watched[ACCOUNTS];
static _Atomic bool over;
static _Atomic uint32_t broken;
static uint64_t changes;

static uint64_t random_below(uint64_t *seed, uint64_t bound)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % bound;
}

static struct watched *pool_user(uint32_t pool)
{
	return &watched[pool % USERS];
}

static struct watched *pool_database(uint32_t pool)
{
	return &watched[USERS + pool / USERS];
}

static struct watched *pool_own(uint32_t pool)
{
	return &watched[USERS + DATABASES + pool];
}

static void holder_enters(struct worker *worker, struct watched *w)
{
	uint64_t before = atomic_load(&w->bound);
	uint32_t holders = atomic_fetch_add(&w->holders, 1) + 1;
	if (atomic_load(&w->bound) != before)
		return;
	worker->compared++;
	if (holders > (uint32_t)before)
		atomic_fetch_add(&broken, 1);
}

static void worker_take(struct worker *worker, uint32_t pool)
{
	struct watched *all[] = {pool_user(pool), pool_database(pool), pool_own(pool)};
	if (ledger_take(&all[0]->account, &all[1]->account, &all[2]->account, EXTRA) !=
	    LEDGER_TAKEN) {
		worker->refusals++;
		return;
	}
	for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
		holder_enters(worker, all[i]);
	worker->held[worker->held_count++] = pool;
	worker->takes++;
}

static void worker_give(struct worker *worker)
{
	uint32_t chosen = (uint32_t)random_below(&worker->seed, worker->held_count);
	uint32_t pool = worker->held[chosen];
	worker->held[chosen] = worker->held[--worker->held_count];
	struct watched *all[] = {pool_user(pool), pool_database(pool), pool_own(pool)};
	for (uint32_t i = 0; i < ARRAY_LEN(all); i++)
		atomic_fetch_sub(&all[i]->holders, 1);
	ledger_give(&all[0]->account, &all[1]->account, &all[2]->account);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		bool take = worker->held_count == 0 ||
		            (worker->held_count < HELD_MAX && random_below(&worker->seed, 2) == 0);
		if (take)
			worker_take(worker, (uint32_t)random_below(&worker->seed, POOLS));
		else
			worker_give(worker);
		/* With two cores, threads meet only if they are also torn apart. */
		if (random_below(&worker->seed, 512) == 0)
			sched_yield();
	}
	while (worker->held_count > 0)
		worker_give(worker);
	return NULL;
}

static void bound_set(struct watched *w, uint32_t allowed)
{
	uint64_t number = (atomic_load(&w->bound) >> 32) + 1;
	atomic_store(&w->bound, number << 32 | allowed);
}

static void change_limits(uint64_t end_us)
{
	uint64_t seed = 77;
	while (sys_clock_us() < end_us) {
		struct watched *w = &watched[random_below(&seed, ACCOUNTS)];
		uint32_t old = account_limit(&w->account);
		uint32_t limit = (uint32_t)(1 + random_below(&seed, 12));
		if (limit > old)
			bound_set(w, limit + w->extra);
		account_set_limit(&w->account, limit);
		CHECK(account_limit(&w->account) == limit);
		while (limit < old && account_used(&w->account) > limit + w->extra) {
			/* A credit was lost: the sum in the end shows it. */
			if (sys_clock_us() > end_us + RUN_US)
				return;
			sched_yield();
		}
		if (limit < old)
			bound_set(w, limit + w->extra);
		changes++;
		for (uint64_t left = random_below(&seed, 4); left > 0; left--)
			sched_yield();
	}
}

/* All zero, and each account has exactly its limit to give. */
static bool all_returned(void)
{
	for (uint32_t i = 0; i < ACCOUNTS; i++) {
		struct account *account = &watched[i].account;
		if (account_used(account) != 0 || atomic_load(&watched[i].holders) != 0)
			return false;
		for (uint32_t k = account_limit(account); k > 0; k--)
			if (!account_take(account, 0))
				return false;
		if (account_take(account, 0))
			return false;
	}
	return true;
}

int main(void)
{
	static struct worker workers[WORKERS];
	pthread_t threads[WORKERS];
	uint64_t takes = 0, refusals = 0, compared = 0;
	for (uint32_t i = 0; i < ACCOUNTS; i++) {
		watched[i].extra = i < USERS + DATABASES ? 0 : EXTRA;
		bound_set(&watched[i], 6 + watched[i].extra);
		account_set_limit(&watched[i].account, 6);
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		workers[i].seed = 0x9e3779b97f4a7c15 * (i + 1);
		CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	change_limits(sys_clock_us() + RUN_US);
	atomic_store(&over, true);
	for (uint32_t i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		takes += workers[i].takes;
		refusals += workers[i].refusals;
		compared += workers[i].compared;
	}
	bool returned = all_returned();
	printf("ledger: %llu takes, %llu refusals, %llu changes of limits, %llu comparisons, "
	       "%u over the limit, %s\n",
	       (unsigned long long)takes, (unsigned long long)refusals, (unsigned long long)changes,
	       (unsigned long long)compared, atomic_load(&broken),
	       returned ? "all returned" : "NOT all returned");
	return atomic_load(&broken) == 0 && returned && takes > 0 && changes > 0 ? 0 : 1;
}
