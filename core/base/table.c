/*
 * table.c - see table.h.
 *
 * At most 70 % full; made smaller only when asked to and less than an eighth full,
 * so that a table which goes up and down does not do so all the time.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/table.h"

#include <stdlib.h>

#include "core/base/check.h"

enum { ROOM_MIN = 4, FIT_MIN = 64 };

static bool table_resize(struct table *table, uint32_t room, table_hash *hash_of)
{
	struct table resized = {.slots = (void **)calloc(room, sizeof(void *)), .room = room};
	if (resized.slots == NULL)
		return false;
	for (uint32_t i = 0; i < table->room; i++)
		if (table->slots[i] != NULL)
			table_insert(&resized, hash_of(table->slots[i]), table->slots[i]);
	free((void *)table->slots);
	*table = resized;
	return true;
}

bool table_reserve(struct table *table, table_hash *hash_of)
{
	if ((table->used + (uint64_t)1) * 10 <= table->room * (uint64_t)7)
		return true;
	CHECK(table->room <= UINT32_MAX / 2);
	return table_resize(table, MAX((uint32_t)ROOM_MIN, table->room * 2), hash_of);
}

void table_insert(struct table *table, uint32_t hash, void *thing)
{
	CHECK(table->used + 1 < table->room);
	uint32_t slot = table_at(table, hash);
	while (table->slots[slot] != NULL)
		slot = table_next(table, slot);
	table->slots[slot] = thing;
	table->used++;
}

void table_remove(struct table *table, const void *thing, table_hash *hash_of)
{
	CHECK(table->used > 0);
	uint32_t mask = table->room - 1;
	uint32_t hole = hash_of(thing) & mask;
	while (table->slots[hole] != thing) {
		CHECK(table->slots[hole] != NULL);
		hole = (hole + 1) & mask;
	}
	/* What would be looked for at or before the hole moves into it. */
	for (uint32_t i = (hole + 1) & mask; table->slots[i] != NULL; i = (i + 1) & mask) {
		uint32_t wanted = hash_of(table->slots[i]) & mask;
		if (((i - wanted) & mask) >= ((i - hole) & mask)) {
			table->slots[hole] = table->slots[i];
			hole = i;
		}
	}
	table->slots[hole] = NULL;
	table->used--;
}

void table_fit(struct table *table, table_hash *hash_of)
{
	if (table->used == 0) {
		table_fini(table);
		return;
	}
	if (table->room < FIT_MIN || table->used >= table->room / 8)
		return;
	uint32_t room = table->room;
	while (table->used < room / 4)
		room /= 2;
	(void)table_resize(table, MAX((uint32_t)ROOM_MIN, room), hash_of); /* or it stays large */
}

void table_fini(struct table *table)
{
	free((void *)table->slots);
	*table = (struct table){0};
}
