/*
 * op.c - see op.h.
 *
 * user_data is slot (32 bits), generation (24), kind (8).  The generation of a
 * slot moves on when its owner leaves and is never 0, so no user_data of ours
 * is 0, and none is UINT64_MAX as no kind is that large: ring.c may use both
 * for itself.  2^24 owners later an old completion could find a stranger, but
 * owners wait for their operations (conn.h), so old means milliseconds.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/op.h"

#include <stdlib.h>

#include "core/base/check.h"

enum { GENERATION_MAX = (1 << 24) - 1, FIRST_ROOM = 64 };

static const uint32_t NONE = UINT32_MAX;

struct op_slot {
	struct op_owner *owner; /* NULL: free */
	uint32_t generation;
	uint32_t next_free;
};

/* Slots are found by number, so the table may move when it grows. */
static bool table_grow(struct op_table *table)
{
	uint32_t room = table->room == 0 ? FIRST_ROOM : table->room * 2;
	if (room < table->room)
		return false;
	struct op_slot *slots = realloc(table->slots, (size_t)room * sizeof slots[0]);
	if (slots == NULL)
		return false;
	for (uint32_t i = table->room; i < room; i++) {
		slots[i] = (struct op_slot){
			.generation = 1,
			.next_free = i + 1 < room ? i + 1 : NONE,
		};
	}
	table->free = table->room;
	table->slots = slots;
	table->room = room;
	return true;
}

bool op_register(struct op_table *table, struct op_owner *owner)
{
	CHECK(owner->on_completion != NULL);
	/* Full and zeroed tables look the same: nothing is free. */
	if (table->used == table->room && !table_grow(table))
		return false;
	CHECK(table->free < table->room);
	owner->slot = table->free;
	struct op_slot *slot = &table->slots[owner->slot];
	CHECK(slot->owner == NULL);
	table->free = slot->next_free;
	table->used++;
	slot->owner = owner;
	owner->generation = slot->generation;
	return true;
}

void op_unregister(struct op_table *table, struct op_owner *owner)
{
	CHECK(owner->slot < table->room && table->used > 0);
	struct op_slot *slot = &table->slots[owner->slot];
	CHECK(slot->owner == owner && slot->generation == owner->generation);
	slot->owner = NULL;
	slot->generation = slot->generation == GENERATION_MAX ? 1 : slot->generation + 1;
	slot->next_free = table->free;
	table->free = owner->slot;
	table->used--;
	owner->generation = 0;
}

uint64_t op_user_data(const struct op_owner *owner, enum op_kind kind)
{
	CHECK(owner->generation != 0);
	return (uint64_t)owner->slot << 32 | (uint64_t)owner->generation << 8 | (uint64_t)kind;
}

struct op_owner *op_find(const struct op_table *table, uint64_t user_data, enum op_kind *kind)
{
	uint32_t number = (uint32_t)(user_data >> 32);
	uint32_t generation = (uint32_t)user_data >> 8;
	*kind = op_kind_of(user_data);
	if (number >= table->room || *kind >= OP_KIND_COUNT)
		return NULL;
	const struct op_slot *slot = &table->slots[number];
	return slot->generation == generation ? slot->owner : NULL;
}

struct op_owner *op_at(const struct op_table *table, uint32_t slot)
{
	CHECK(slot < table->room);
	return table->slots[slot].owner;
}

void op_table_fini(struct op_table *table)
{
	CHECK(table->used == 0);
	free(table->slots);
	*table = (struct op_table){0};
}
