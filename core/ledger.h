/*
 * ledger.h - limits on server connections, exact over all workers.
 *
 * A credit is a server connection that is open or opening.  An account holds
 * `used` and `limit` (0: no limit) in one atomic word, so that "used <= limit"
 * is decided by one compare-and-swap.  A server needs one credit of each of
 * its accounts, taken in the fixed order user, database, pool and undone on
 * failure.  Touched when servers open and close, never per transaction.
 *
 * Lowering a limit changes the limit only; the surplus closes when free.
 * An account that gave a credit back calls nobody: the pool's home looks.  A
 * refusal may be owed to a credit that another is about to undo, so whoever was
 * refused asks again some time later, also if nothing was given back meanwhile.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_LEDGER_H
#define CORE_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct account {
	_Alignas(64) _Atomic uint64_t state; /* limit << 32 | used */
};

void account_set_limit(struct account *account, uint32_t limit);
uint32_t account_limit(const struct account *account);
uint32_t account_used(const struct account *account);

/* One credit more than `extra` beyond the limit is never given (reserve pool). */
bool account_take(struct account *account, uint32_t extra);
void account_give(struct account *account);

enum ledger_refusal { LEDGER_TAKEN, LEDGER_USER_FULL, LEDGER_DATABASE_FULL, LEDGER_POOL_FULL };

/* All three or none; what was full first. */
enum ledger_refusal ledger_take(struct account *user, struct account *database,
                                struct account *pool, uint32_t pool_extra);
void ledger_give(struct account *user, struct account *database, struct account *pool);

#endif
