/*
 * ledger.c - see ledger.h.
 *
 * A give is a release and a take an acquire, so what a worker did with its
 * server before it gave the credit back lies before what the next taker does.
 *
 * ledger_take() looks at all three before it takes the first: a pool is full
 * far more often than its user or database, and a look leaves the line shared
 * where a take and its undoing would pull it from core to core.  Between look
 * and take another worker may be faster, so the undoing stays.  While it lasts,
 * a credit is counted that no server has: a third worker may be refused for it.
 * That errs to the safe side, and nobody gives a credit back to end it: who was
 * refused has to ask again some time later, as the pool's home does.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/ledger.h"

#include "core/base/check.h"

static const uint64_t used_mask = UINT32_MAX;

static bool state_has_room(uint64_t state, uint32_t extra)
{
	uint64_t limit = state >> 32;
	return limit == 0 || (state & used_mask) < limit + extra;
}

static bool account_has_room(const struct account *account, uint32_t extra)
{
	return state_has_room(atomic_load_explicit(&account->state, memory_order_relaxed), extra);
}

void account_set_limit(struct account *account, uint32_t limit)
{
	uint64_t state = atomic_load_explicit(&account->state, memory_order_relaxed);
	uint64_t changed;
	do
		changed = (uint64_t)limit << 32 | (state & used_mask);
	while (!atomic_compare_exchange_weak_explicit(&account->state, &state, changed,
	                                              memory_order_acq_rel, memory_order_relaxed));
}

uint32_t account_limit(const struct account *account)
{
	return (uint32_t)(atomic_load_explicit(&account->state, memory_order_acquire) >> 32);
}

uint32_t account_used(const struct account *account)
{
	return (uint32_t)atomic_load_explicit(&account->state, memory_order_acquire);
}

bool account_take(struct account *account, uint32_t extra)
{
	uint64_t state = atomic_load_explicit(&account->state, memory_order_relaxed);
	do {
		if (!state_has_room(state, extra))
			return false;
		CHECK((state & used_mask) < UINT32_MAX);
	} while (!atomic_compare_exchange_weak_explicit(&account->state, &state, state + 1,
	                                                memory_order_acquire,
	                                                memory_order_relaxed));
	return true;
}

void account_give(struct account *account)
{
	uint64_t before = atomic_fetch_sub_explicit(&account->state, 1, memory_order_release);
	CHECK((before & used_mask) > 0);
}

static enum ledger_refusal ledger_look(const struct account *user, const struct account *database,
                                       const struct account *pool, uint32_t pool_extra)
{
	if (!account_has_room(user, 0))
		return LEDGER_USER_FULL;
	if (!account_has_room(database, 0))
		return LEDGER_DATABASE_FULL;
	if (!account_has_room(pool, pool_extra))
		return LEDGER_POOL_FULL;
	return LEDGER_TAKEN;
}

enum ledger_refusal ledger_take(struct account *user, struct account *database,
                                struct account *pool, uint32_t pool_extra)
{
	enum ledger_refusal refusal = ledger_look(user, database, pool, pool_extra);
	if (refusal != LEDGER_TAKEN)
		return refusal;
	if (!account_take(user, 0))
		return LEDGER_USER_FULL;
	if (!account_take(database, 0)) {
		account_give(user);
		return LEDGER_DATABASE_FULL;
	}
	if (!account_take(pool, pool_extra)) {
		account_give(database);
		account_give(user);
		return LEDGER_POOL_FULL;
	}
	return LEDGER_TAKEN;
}

void ledger_give(struct account *user, struct account *database, struct account *pool)
{
	account_give(pool);
	account_give(database);
	account_give(user);
}
