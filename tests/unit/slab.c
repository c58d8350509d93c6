/* Slots stay, memory does not move, a limit holds, and what is wrong stops. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/slab.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

enum { OBJECTS = 100 };

static const struct {
	uint32_t object_size, per_chunk, rounded;
} shapes[] = {
	{1, 1, 16}, {16, 1, 16}, {17, 3, 32}, {24, 7, 32}, {100, 64, 112}, {4096, 33, 4096},
};

static bool is_zero(const uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/* Takes OBJECTS and fills each with its number. */
static void objects_acquire(struct slab *slab, uint8_t **objects, uint32_t size)
{
	bool seen[OBJECTS * 2] = {false};
	for (uint32_t i = 0; i < OBJECTS; i++) {
		objects[i] = slab_acquire(slab);
		cr_assert_not_null(objects[i]);
		cr_assert_eq((uintptr_t)objects[i] % 16, 0);
		cr_assert(is_zero(objects[i], size));
		memset(objects[i], (int)i + 1, size);
		uint32_t slot = slab_slot(slab, objects[i]);
		cr_assert(slot < OBJECTS * 2 && !seen[slot]);
		seen[slot] = true;
		cr_assert_eq(slab_at(slab, slot), objects[i]);
		cr_assert_eq(slab_slot(slab, objects[i] + size - 1), slot);
		cr_assert_eq(slab->used, i + 1);
	}
}

static void shape_check(size_t row)
{
	uint32_t size = shapes[row].object_size;
	uint32_t per_chunk = shapes[row].per_chunk;
	uint8_t *objects[OBJECTS];
	struct slab slab;
	slab_init(&slab, size, per_chunk, 0);
	cr_assert_eq(slab_memory(&slab), 0);
	objects_acquire(&slab, objects, size);
	uint32_t chunks = (OBJECTS + per_chunk - 1) / per_chunk;
	uint64_t memory = (uint64_t)chunks * per_chunk * shapes[row].rounded;
	cr_assert_eq(slab_memory(&slab), memory);

	/* Every other one goes and comes back, clean and in the same memory. */
	uint32_t freed = 0;
	for (uint32_t i = 0; i < OBJECTS; i += 2, freed++)
		slab_release(&slab, objects[i]);
	cr_assert_eq(slab.used, OBJECTS - freed);
	for (uint32_t i = 0; i < OBJECTS; i += 2) {
		objects[i] = slab_acquire(&slab);
		cr_assert(is_zero(objects[i], size));
	}
	cr_assert_eq(slab_memory(&slab), memory);
	for (uint32_t i = 1; i < OBJECTS; i += 2)
		for (uint32_t at = 0; at < size; at++)
			cr_assert_eq(objects[i][at], i + 1);

	for (uint32_t i = 0; i < OBJECTS; i++)
		slab_release(&slab, objects[i]);
	slab_fini(&slab);
	cr_assert_eq(slab_memory(&slab), 0);
}

Test(slab, shapes)
{
	for (size_t row = 0; row < sizeof shapes / sizeof shapes[0]; row++)
		shape_check(row);
}

Test(slab, limit_and_order)
{
	struct slab slab;
	void *objects[5];
	slab_init(&slab, 8, 3, 5);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 5; i++)
			cr_assert_not_null(objects[i] = slab_acquire(&slab));
		cr_assert_null(slab_acquire(&slab));
		cr_assert_eq(slab.used, 5);
		for (uint32_t i = 0; i < 5; i++)
			slab_release(&slab, objects[i]);
	}
	/* The one released last is the warmest, and comes first. */
	cr_assert_eq(slab_acquire(&slab), objects[4]);
	slab_release(&slab, objects[4]);
	slab_fini(&slab);
}

Test(slab, no_end_while_in_use, .signal = SIGABRT)
{
	struct slab slab;
	slab_init(&slab, 8, 4, 0);
	slab_acquire(&slab);
	slab_fini(&slab);
}

Test(slab, no_slot_for_strangers, .signal = SIGABRT)
{
	struct slab slab;
	int stranger = 0;
	slab_init(&slab, 8, 4, 0);
	slab_slot(&slab, &stranger);
}

#if !defined(NDEBUG)
/* Writes as the kernel does: where AddressSanitizer does not look. */
__attribute__((noinline, no_sanitize("address"))) static void late_write(uint8_t *place)
{
	*(volatile uint8_t *)place = 1;
}

Test(slab, no_write_after_release, .signal = SIGABRT)
{
	struct slab slab;
	slab_init(&slab, 64, 1, 0);
	uint8_t *object = slab_acquire(&slab);
	slab_release(&slab, object);
	late_write(object + 40);
	slab_acquire(&slab);
}
#endif
