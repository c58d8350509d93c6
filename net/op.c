/*
 * op.c - see op.h.
 *
 * user_data is slot (31 bits), generation (24), kind (8).  The generation of a
 * slot moves on when its owner leaves and is never 0, so no user_data of ours is
 * 0, and its first bit is ring.c's.  2^24 owners later an old completion could find a
 * stranger, but owners wait for their operations (conn.h), so old means milliseconds.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/op.h"

#include <stdlib.h>

#include "core/base/check.h"

enum { GENERATION_MAX = (1 << 24) - 1, FIRST_ROOM = 64 };

static const uint32_t ROOM_MAX = UINT32_C(1) << 31;

static const uint32_t NONE = UINT32_MAX;

struct op_slot {
	struct op_owner *owner; /* NULL: free */
	uint64_t name;          /* of the owner, or of the next */
	uint32_t next_free;
};

/* Slots are found by number, so the table may move when it grows. */
static bool table_grow(struct op_table *table)
{
	uint32_t room = table->room == 0 ? FIRST_ROOM : table->room * 2;
	if (room > ROOM_MAX)
		return false;
	struct op_slot *slots = realloc(table->slots, (size_t)room * sizeof slots[0]);
	if (slots == NULL)
		return false;
	for (uint32_t i = table->room; i < room; i++) {
		slots[i] = (struct op_slot){
			.name = op_name(i, 1),
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
	struct op_slot *slot = &table->slots[table->free];
	CHECK(slot->owner == NULL);
	table->free = slot->next_free;
	table->used++;
	slot->owner = owner;
	owner->name = slot->name;
	return true;
}

void op_unregister(struct op_table *table, struct op_owner *owner)
{
	uint32_t number = op_slot_of(owner);
	uint32_t generation = op_generation_of(owner);
	CHECK(number < table->room && table->used > 0);
	struct op_slot *slot = &table->slots[number];
	CHECK(slot->owner == owner && slot->name == owner->name);
	slot->owner = NULL;
	slot->name = op_name(number, generation == GENERATION_MAX ? 1 : generation + 1);
	slot->next_free = table->free;
	table->free = number;
	table->used--;
	owner->name = 0;
}

struct op_owner *op_find(const struct op_table *table, uint64_t user_data, enum op_kind *kind)
{
	uint32_t number = (uint32_t)(user_data >> 32);
	if (UNLIKELY(number >= table->room))
		return NULL;
	const struct op_slot *slot = &table->slots[number];
	uint64_t rest = user_data - slot->name; /* the kind, if it is his */
	*kind = (enum op_kind)rest;
	return LIKELY(rest < OP_KIND_COUNT) ? slot->owner : NULL;
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
