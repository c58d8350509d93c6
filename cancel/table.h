/*
 * table.h - cancel keys to places, lock-free, over memory that core hands it.
 *
 * Open addressing, hashed with a secret seed, at most 64 probes, sized for a
 * load of at most a quarter.  An entry is a 64-bit hash and a place (worker,
 * slot, generation), guarded by a sequence number: writers are the owners of
 * the keys (insert at login, remove at logout, move), readers are any thread
 * and retry an entry that changes under them.  A place is a hint: its owner
 * compares the whole key again, in constant time.  No pointer, no process
 * state: a successor process may map it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CANCEL_TABLE_H
#define CANCEL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/bytes.h"

struct cancel_table;

struct cancel_place {
	uint16_t worker;
	bool moving; /* on its way to another worker: look again next turn */
	uint32_t slot;
	uint32_t generation;
};

/* Bytes of memory for `clients` keys at a load of at most a quarter. */
size_t cancel_table_size(uint32_t clients);

/* `memory` is zeroed, 64-byte aligned and `size` bytes large. */
struct cancel_table *cancel_table_init(void *memory, size_t size, uint64_t seed);

/* False if no entry is free within 64 probes (make another key and try again)
 * or the key's hash is already there. */
bool cancel_table_insert(struct cancel_table *table, struct span key, struct cancel_place place);

/* Changes the place of a key that is in the table; false if it is not. */
bool cancel_table_move(struct cancel_table *table, struct span key, struct cancel_place place);
void cancel_table_remove(struct cancel_table *table, struct span key);

bool cancel_table_find(const struct cancel_table *table, struct span key,
                       struct cancel_place *place);

#endif
