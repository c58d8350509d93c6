/* The table against a plain array, with hashes so few that things stand in each
 * other's way and around the end; loops that remove; memory given back. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/table.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/base/check.h"

enum { THINGS = 200, STEPS = 4000 };

struct thing {
	uint32_t hash;
	bool is_in;
};

static struct thing things[THINGS];

static uint32_t hash_of(const void *thing)
{
	return ((const struct thing *)thing)->hash;
}

static bool is_found(const struct table *table, const struct thing *thing)
{
	if (table->used == 0)
		return false;
	for (uint32_t i = table_at(table, thing->hash); table->slots[i] != NULL;
	     i = table_next(table, i))
		if (table->slots[i] == thing)
			return true;
	return false;
}

static void all_check(const struct table *table)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < THINGS; i++) {
		cr_assert_eq(is_found(table, &things[i]), things[i].is_in);
		count += things[i].is_in;
	}
	cr_assert_eq(table->used, count);
	cr_assert(table->used * 10 <= table->room * 7);
}

static void toggle(struct table *table, struct thing *thing)
{
	if (thing->is_in) {
		table_remove(table, thing, hash_of);
	} else {
		cr_assert(table_reserve(table, hash_of));
		table_insert(table, thing->hash, thing);
	}
	thing->is_in = !thing->is_in;
}

/* A loop that takes away what is odd, seeing each at least once. */
static void odd_remove(struct table *table)
{
	uint32_t i = 0;
	while (i < table->room) {
		struct thing *thing = table->slots[i];
		if (thing != NULL && (thing - things) % 2 != 0)
			toggle(table, thing);
		else
			i++;
	}
	for (uint32_t odd = 1; odd < THINGS; odd += 2)
		cr_assert_not(things[odd].is_in);
	all_check(table);
}

/* spread: how many hashes there are; base: the least. */
static void spread_check(uint32_t spread, uint32_t base)
{
	struct table table = {0};
	for (uint32_t i = 0; i < THINGS; i++)
		things[i] = (struct thing){.hash = base + (uint32_t)rand() % spread};
	for (uint32_t few = 5; few <= THINGS; few *= 2) {
		for (uint32_t step = 0; step < STEPS; step++) {
			toggle(&table, &things[(uint32_t)rand() % few]);
			if (step % 64 == 0)
				all_check(&table);
		}
		odd_remove(&table);
		table_fit(&table, hash_of);
		all_check(&table);
	}
	for (uint32_t i = 0; i < THINGS; i++)
		if (things[i].is_in)
			toggle(&table, &things[i]);
	cr_assert_neq(table_memory(&table), 0);
	table_fit(&table, hash_of);
	cr_assert_eq(table_memory(&table), 0);
}

/* The room by how many are in it, growing and then shrinking. */
static const struct {
	uint32_t used, grown, fitted;
} rooms[] = {{1, 4, 4}, {2, 4, 8}, {3, 8, 8}, {5, 8, 16}, {6, 16, 16}, {11, 16, 32}, {31, 64, 64}};

static void rooms_check(void)
{
	for (size_t row = 0; row < ARRAY_LEN(rooms); row++) {
		struct table table = {0};
		for (uint32_t i = 0; i < THINGS; i++)
			things[i] = (struct thing){.hash = i};
		for (uint32_t i = 0; i < THINGS; i++) {
			toggle(&table, &things[i]);
			if (i + 1 == rooms[row].used)
				cr_assert_eq(table.room, rooms[row].grown);
		}
		cr_assert_eq(table.room, 512);
		for (uint32_t i = THINGS; i > rooms[row].used; i--)
			toggle(&table, &things[i - 1]);
		table_fit(&table, hash_of);
		cr_assert_eq(table.room, rooms[row].fitted);
		all_check(&table);
		table_fini(&table);
		cr_assert_eq(table_memory(&table), 0);
	}
}

Test(table, finds_what_is_in_it)
{
	srand(1);
	rooms_check();
	spread_check(UINT32_MAX, 0);
	spread_check(16, UINT32_MAX - 8);
	spread_check(3, 6);
	spread_check(1, 0x12345678);
}
