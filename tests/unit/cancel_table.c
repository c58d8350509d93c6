/*
 * The table against a plain array of what should be in it: random inserts,
 * moves, removals and look-ups, also with the table full and of tombstones.
 * tests/race/cancel_table.c has the threads.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "cancel/table.h"
#include "core/base/check.h"

static uint64_t seed = 88172645463325252;

static uint32_t random_below(uint32_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16) % bound;
}

static struct cancel_table *table_open(uint32_t clients, void **memory)
{
	size_t size = cancel_table_size(clients);
	*memory = aligned_alloc(64, (size + 63) / 64 * 64);
	memset(*memory, 0, size);
	return cancel_table_init(*memory, size, seed);
}

static struct cancel_place random_place(void)
{
	return (struct cancel_place){
		.worker = (uint16_t)random_below(UINT16_MAX + 1),
		.moving = random_below(2),
		.slot = random_below(UINT32_MAX),
		.generation = random_below(UINT32_MAX),
	};
}

static void check_place(const struct cancel_table *table, uint64_t key, bool present,
                        struct cancel_place expected)
{
	struct cancel_place place;
	cr_assert_eq(cancel_table_find(table, span_of(&key, sizeof key), &place), present);
	if (!present)
		return;
	cr_assert_eq(place.worker, expected.worker);
	cr_assert_eq(place.moving, expected.moving);
	cr_assert_eq(place.slot, expected.slot);
	cr_assert_eq(place.generation, expected.generation);
}

Test(cancel_table, agrees_with_a_plain_array)
{
	enum { KEYS = 500 };
	static struct {
		bool present;
		struct cancel_place place;
	} model[KEYS];
	void *memory;
	struct cancel_table *table = table_open(KEYS, &memory);
	for (int step = 0; step < 200000; step++) {
		uint64_t key = random_below(KEYS);
		struct span bytes = span_of(&key, sizeof key);
		struct cancel_place place = random_place();
		switch (random_below(4)) {
		case 0:
			cr_assert_eq(cancel_table_insert(table, bytes, place), !model[key].present);
			if (!model[key].present)
				model[key].place = place;
			model[key].present = true;
			break;
		case 1:
			cr_assert_eq(cancel_table_move(table, bytes, place), model[key].present);
			if (model[key].present)
				model[key].place = place;
			break;
		case 2:
			cancel_table_remove(table, bytes);
			model[key].present = false;
			break;
		default: break;
		}
		check_place(table, key, model[key].present, model[key].place);
		check_place(table, KEYS + key, false, place);
	}
	for (uint64_t key = 0; key < KEYS; key++)
		check_place(table, key, model[key].present, model[key].place);
	free(memory);
}

/* Keys of all sizes; at a load of a quarter, with every tombstone there can be,
 * each finds an entry, and what is removed makes room for as many others. */
Test(cancel_table, holds_what_it_is_sized_for)
{
	static const uint32_t sizes[] = {1, 2, 15, 16, 17, 100, 5000};
	for (uint32_t i = 0; i < ARRAY_LEN(sizes); i++) {
		void *memory;
		struct cancel_table *table = table_open(sizes[i], &memory);
		cr_assert_leq(cancel_table_size(sizes[i]), 64 + MAX(64, sizes[i] * 4) * 24);
		for (uint32_t round = 0; round < 20; round++) {
			uint8_t key[36] = {0};
			struct span bytes = span_of(key, round % 2 == 0 ? 8 : sizeof key);
			for (uint32_t k = 0; k < sizes[i]; k++) {
				struct cancel_place place = {.slot = k, .generation = round};
				write_u32(key, round);
				write_u32(key + 4, k);
				cr_assert(cancel_table_insert(table, bytes, place));
				cr_assert_not(cancel_table_insert(table, bytes, place));
			}
			for (uint32_t k = 0; k < sizes[i]; k++) {
				struct cancel_place place;
				write_u32(key + 4, k);
				cr_assert(cancel_table_find(table, bytes, &place));
				cr_assert_eq(place.slot, k);
				cr_assert_eq(place.generation, round);
				cancel_table_remove(table, bytes);
				cr_assert_not(cancel_table_find(table, bytes, &place));
			}
		}
		free(memory);
	}
}

/* Overfull: inserts fail, what is in stays found. */
Test(cancel_table, refuses_when_full)
{
	void *memory;
	struct cancel_table *table = table_open(1, &memory);
	uint32_t held = 0;
	for (uint64_t key = 0; key < 1000; key++) {
		struct cancel_place place = {.slot = (uint32_t)key};
		held += cancel_table_insert(table, span_of(&key, sizeof key), place);
	}
	cr_assert_eq(held, 64);
	for (uint64_t key = 0; key < 64; key++)
		check_place(table, key, true, (struct cancel_place){.slot = (uint32_t)key});
	uint64_t key = 17, other = 5000;
	cancel_table_remove(table, span_of(&key, sizeof key));
	cr_assert(cancel_table_insert(table, span_of(&other, sizeof other),
	                              (struct cancel_place){.slot = 3}));
	check_place(table, other, true, (struct cancel_place){.slot = 3});
	check_place(table, key, false, (struct cancel_place){0});
	free(memory);
}
