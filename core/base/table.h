/*
 * table.h - pointers to things, found by a hash that the user makes.
 *
 * Open addressing: a thing is in the first free slot from its hash on, a search
 * ends at an empty one.  What is removed leaves no mark, those behind it move up.
 * The user compares; a search reads
 *
 *	for (uint32_t i = table_at(table, hash); table->slots[i] != NULL;
 *	     i = table_next(table, i))
 *
 * once it knows that table->used is not 0.  All zero is an empty table, which has
 * no memory.  A loop over all slots may remove the thing in the slot it stands on,
 * if it then looks at that slot again: what moves there comes from behind, or was
 * seen before.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_TABLE_H
#define CORE_BASE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct table {
	void **slots;
	uint32_t room, used; /* room: 0 or a power of two */
};

typedef uint32_t table_hash(const void *thing);

static inline uint32_t table_at(const struct table *table, uint32_t hash)
{
	return hash & (table->room - 1);
}

static inline uint32_t table_next(const struct table *table, uint32_t slot)
{
	return (slot + 1) & (table->room - 1);
}

static inline uint64_t table_memory(const struct table *table)
{
	return (uint64_t)table->room * sizeof table->slots[0];
}

/* Room for one more; false: no memory. */
bool table_reserve(struct table *table, table_hash *hash_of);

/* Into the room that was reserved. */
void table_insert(struct table *table, uint32_t hash, void *thing);

/* It must be there. */
void table_remove(struct table *table, const void *thing, table_hash *hash_of);

/* Gives back memory after many went. */
void table_fit(struct table *table, table_hash *hash_of);

/* With things in it or without. */
void table_fini(struct table *table);

#endif
