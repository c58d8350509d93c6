/*
 * Credits in one thread: limits to the one, order of refusals, limits lowered
 * below use.  tests/race/ledger.c has the threads.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/ledger.h"

#include <criterion/criterion.h>

#include "core/base/check.h"

static uint32_t take_all(struct account *account, uint32_t extra, uint32_t attempts)
{
	uint32_t taken = 0;
	for (uint32_t i = 0; i < attempts; i++)
		taken += account_take(account, extra);
	return taken;
}

Test(ledger, account)
{
	static const struct {
		uint32_t limit, extra, attempts, taken;
	} rows[] = {
		{0, 0, 100, 100}, {0, 5, 100, 100}, {1, 0, 5, 1},          {20, 0, 19, 19},
		{20, 0, 20, 20},  {20, 0, 21, 20},  {20, 5, 100, 25},      {1, 1, 5, 2},
		{3, 0, 0, 0},     {7, 0, 100, 7},   {UINT32_MAX, 9, 9, 9}, {5, UINT32_MAX, 99, 99},
	};
	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct account account = {0};
		account_set_limit(&account, rows[i].limit);
		cr_assert_eq(take_all(&account, rows[i].extra, rows[i].attempts), rows[i].taken);
		cr_assert_eq(account_used(&account), rows[i].taken);
		cr_assert_eq(account_limit(&account), rows[i].limit);
		for (uint32_t k = 0; k < rows[i].taken; k++)
			account_give(&account);
		cr_assert_eq(account_used(&account), 0);
		cr_assert_eq(account_limit(&account), rows[i].limit);
	}

	/* Lowered: the surplus stays until it is given back.  Raised: room at once. */
	struct account account = {0};
	account_set_limit(&account, 10);
	cr_assert_eq(take_all(&account, 0, 99), 10);
	account_set_limit(&account, 4);
	cr_assert_eq(account_used(&account), 10);
	for (uint32_t used = 10; used > 4; used--) {
		cr_assert_not(account_take(&account, 0));
		account_give(&account);
	}
	cr_assert_not(account_take(&account, 0));
	account_give(&account);
	cr_assert(account_take(&account, 0));
	cr_assert_not(account_take(&account, 0));
	account_set_limit(&account, 6);
	cr_assert_eq(take_all(&account, 0, 99), 2);
	account_set_limit(&account, 0);
	cr_assert_eq(take_all(&account, 0, 99), 99);
}

Test(ledger, all_three_or_none)
{
	static const struct {
		uint32_t user, database, pool, extra, taken;
		enum ledger_refusal refusal;
	} rows[] = {
		{0, 0, 3, 0, 3, LEDGER_POOL_FULL},     {0, 0, 3, 2, 5, LEDGER_POOL_FULL},
		{2, 0, 3, 2, 2, LEDGER_USER_FULL},     {0, 2, 3, 2, 2, LEDGER_DATABASE_FULL},
		{2, 2, 2, 0, 2, LEDGER_USER_FULL},     {3, 2, 2, 0, 2, LEDGER_DATABASE_FULL},
		{5, 4, 3, 1, 4, LEDGER_DATABASE_FULL}, {4, 5, 3, 1, 4, LEDGER_USER_FULL},
		{5, 5, 3, 1, 4, LEDGER_POOL_FULL},     {1, 1, 1, 0, 1, LEDGER_USER_FULL},
	};
	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct account user = {0}, database = {0}, pool = {0};
		account_set_limit(&user, rows[i].user);
		account_set_limit(&database, rows[i].database);
		account_set_limit(&pool, rows[i].pool);
		uint32_t taken = 0;
		enum ledger_refusal refusal;
		while ((refusal = ledger_take(&user, &database, &pool, rows[i].extra)) ==
		       LEDGER_TAKEN)
			cr_assert_leq(++taken, rows[i].taken);
		cr_assert_eq(refusal, rows[i].refusal);
		cr_assert_eq(taken, rows[i].taken);
		cr_assert_eq(account_used(&user), taken);
		cr_assert_eq(account_used(&database), taken);
		cr_assert_eq(account_used(&pool), taken);
		for (; taken > 0; taken--)
			ledger_give(&user, &database, &pool);
		cr_assert_eq(account_used(&user), 0);
		cr_assert_eq(account_used(&database), 0);
		cr_assert_eq(account_used(&pool), 0);
	}
}
