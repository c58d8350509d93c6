/* drive.c - see drive.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/drive.h"

#include "tests/sim/report.h"

#include "core/base/check.h"

/* In an uneven run a worker sleeps now and then although it has work. */
static uint64_t nap_until_us[RINGS_MAX];

static bool ring_may_turn(uint32_t index)
{
	return world.rings[index] != NULL && nap_until_us[index] <= world.now_us &&
	       ring_is_ready(world.rings[index]);
}

bool drive_step_rings(void (*turn)(uint32_t index))
{
	uint32_t count = 0, chosen = 0;
	for (uint32_t i = 0; i < world.ring_count; i++)
		if (ring_may_turn(i) && rng_below(&world.net, ++count) == 0)
			chosen = i;
	if (count == 0)
		return false;
	trace("turn", chosen, 0);
	turn(chosen);
	world_advance(world.now_us + 1 + rng_below(&world.net, 20));
	if (world.faults.uneven && !world.calm && rng_chance(&world.net, 150000))
		nap_until_us[chosen] = world.now_us + rng_below(&world.net, 4000);
	return true;
}

uint64_t drive_next_us(void)
{
	uint64_t next = UINT64_MAX;
	for (uint32_t i = 0; i < world.ring_count; i++) {
		if (world.rings[i] == NULL)
			continue;
		uint64_t at = ring_is_ready(world.rings[i]) ? world.now_us
		                                            : ring_deadline_us(world.rings[i]);
		at = MAX(at, nap_until_us[i]);
		next = MIN(next, at);
	}
	return next;
}

void drive_run_for(const struct drive *drive, uint64_t us)
{
	uint64_t end = world.now_us + us;
	while (world.now_us < end) {
		bool any = world_run();
		any |= drive->step();
		if (any)
			continue;
		uint64_t next = MIN(world_next_us(), drive->next_us());
		world_advance(MIN(MAX(next, world.now_us + 1), end));
	}
}

static void self_open(const struct plan *plan, const struct addr *front, const struct addr *back)
{
	(void)plan;
	(void)front;
	(void)back;
}

static bool self_step(void)
{
	return false;
}

static uint64_t self_next_us(void)
{
	return UINT64_MAX;
}

static void self_settle(struct postgres *postgres)
{
	drive_run_for(&drive_self, 2000000);
	SIM_CHECK(postgres_backends(postgres) == 0, "%u backends left",
	          postgres_backends(postgres));
}

static void self_close(void)
{
}

static void self_print(void)
{
}

const struct drive drive_self = {
	"self", self_open, self_step, self_next_us, self_settle, self_close, self_print,
};
