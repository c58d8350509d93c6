/*
 * The wheel against a slow model: every timer's time in an array, the next to
 * fire found by looking at all.  Both must agree on which timer fires when and
 * in which order, whatever is armed, disarmed and re-armed meanwhile.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/wheel.h"

#include <criterion/criterion.h>

enum { TIMERS = 48 };

struct model_timer {
	struct timer timer;
	bool armed;
	uint64_t at_us;
	uint64_t due_ms; /* the past counts as the wheel's clock at arming */
	uint64_t order;  /* of arming */
};

static struct wheel wheel;
static struct model_timer timers[TIMERS];
static uint64_t now_us, order, run_order, fired, seed;

static uint64_t random_below(uint64_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % bound;
}

/* Microseconds until the wheel wants to run; -1: never. */
static int64_t wait_us(struct wheel *of, uint64_t from_us)
{
	uint64_t next_us = wheel_next_us(of);
	if (next_us == UINT64_MAX)
		return -1;
	return next_us <= from_us ? 0 : (int64_t)(next_us - from_us);
}

/* Near and far alike: the number of bits is drawn first. */
static uint64_t random_span(uint32_t bits_max)
{
	return random_below(2ULL << random_below(bits_max));
}

static void model_arm(struct model_timer *model, uint64_t at_us)
{
	uint64_t at_ms = at_us / 1000 + (at_us % 1000 != 0);
	model->armed = true;
	model->at_us = at_us;
	model->due_ms = MAX(at_ms, wheel.now_ms);
	model->order = order++;
	wheel_arm(&wheel, &model->timer, at_us);
}

static void model_disarm(struct model_timer *model)
{
	model->armed = false;
	wheel_disarm(&wheel, &model->timer);
}

/* The one to fire next in this run; NULL: the run must end. */
static struct model_timer *model_next(void)
{
	struct model_timer *next = NULL;
	for (uint32_t i = 0; i < TIMERS; i++) {
		struct model_timer *t = &timers[i];
		if (!t->armed || t->due_ms > now_us / 1000 || t->order >= run_order)
			continue;
		if (next == NULL || t->due_ms < next->due_ms ||
		    (t->due_ms == next->due_ms && t->order < next->order))
			next = t;
	}
	return next;
}

static uint64_t random_time(void)
{
	uint64_t bits = random_below(50) == 0 ? 52 : 36;
	uint64_t span = random_span((uint32_t)bits);
	switch (random_below(8)) {
	case 0: return now_us;
	case 1: return span < now_us ? now_us - span : 0;
	case 2: return (now_us + span) / 64000 * 64000; /* many in one slot */
	default: return now_us + span;
	}
}

static void arm_or_disarm_any(void)
{
	struct model_timer *any = &timers[random_below(TIMERS)];
	if (random_below(3) == 0)
		model_disarm(any);
	else
		model_arm(any, random_time());
}

static void on_fire(struct timer *timer)
{
	struct model_timer *model = CONTAINER(struct model_timer, timer, timer);
	cr_assert_eq(model_next(), model);
	cr_assert_leq(model->at_us, now_us);
	cr_assert(!timer_is_armed(timer));
	model->armed = false;
	fired++;
	if (random_below(3) == 0)
		model_arm(model, random_time());
	if (random_below(4) == 0)
		arm_or_disarm_any();
}

static void run(void)
{
	run_order = order;
	wheel_run(&wheel, now_us);
	cr_assert_null(model_next());
}

static void check_wait(void)
{
	uint64_t first_us = UINT64_MAX;
	uint32_t armed = 0;
	for (uint32_t i = 0; i < TIMERS; i++) {
		cr_assert_eq(timer_is_armed(&timers[i].timer), timers[i].armed);
		if (timers[i].armed) {
			first_us = MIN(first_us, timers[i].due_ms * 1000);
			armed++;
		}
	}
	cr_assert_eq(wheel.armed, armed);
	int64_t wait = wait_us(&wheel, now_us);
	if (armed == 0) {
		cr_assert_eq(wait, -1);
		return;
	}
	cr_assert_geq(wait, 0);
	cr_assert_leq((uint64_t)wait, first_us <= now_us ? 0 : first_us - now_us);
}

/* A loop that sleeps as long as it may: a turn or so per level and per round of
 * the highest (two years, the farthest timer here is 64 of them), not per tick. */
static void sleep_to_next(void)
{
	uint64_t before = fired;
	for (int turns = 0; wheel.armed > 0 && fired == before; turns++) {
		cr_assert_lt(turns, 2 * WHEEL_LEVELS + 66);
		now_us += (uint64_t)wait_us(&wheel, now_us);
		run();
	}
}

static void clock_moves(void)
{
	switch (random_below(16)) {
	case 0: now_us += random_span(42); break; /* up to weeks */
	case 1: now_us += 3600ULL * 1000 * 1000 * (1 + random_below(5)); break;
	case 2: sleep_to_next(); return;
	case 3: break;
	case 4: now_us += random_span(24); return; /* a turn that is late */
	default: now_us += random_span(24);
	}
	run();
}

static void play(uint64_t start_us, uint64_t play_seed, int steps)
{
	seed = play_seed;
	now_us = start_us;
	memset(timers, 0, sizeof timers);
	for (uint32_t i = 0; i < TIMERS; i++)
		timers[i].timer.fire = on_fire;
	wheel_init(&wheel, now_us);
	for (int step = 0; step < steps; step++) {
		for (uint64_t left = random_below(4); left > 0; left--)
			arm_or_disarm_any();
		check_wait();
		clock_moves();
		check_wait();
	}
}

Test(wheel, agrees_with_a_sorted_model)
{
	/* Beginnings shortly before a level turns over, the highest included. */
	static const uint64_t starts_ms[] = {
		0, 1, 63, 4095, (1ULL << 24) - 2, (1ULL << 36) - 3, (5ULL << 36) - 1, 1ULL << 40,
	};
	for (uint64_t i = 0; i < ARRAY_LEN(starts_ms); i++)
		for (uint64_t s = 1; s <= 6; s++)
			play(starts_ms[i] * 1000 + 999 * (s & 1), 0x9e3779b97f4a7c15 * (s + 8 * i),
			     3000);
	cr_assert_gt(fired, 10000);
}

static int beats;

static void on_beat(struct timer *timer)
{
	beats++;
	wheel_arm(&wheel, timer, 0);
}

Test(wheel, edges)
{
	struct timer beat = {.fire = on_beat};
	wheel_init(&wheel, 5000500);
	cr_assert_eq(wait_us(&wheel, 5000500), -1);
	wheel_disarm(&wheel, &beat);

	/* Re-armed for the past: once in each run, and no waiting between. */
	wheel_arm(&wheel, &beat, 0);
	for (int i = 1; i <= 3; i++) {
		cr_assert_eq(wait_us(&wheel, 5000500), 0);
		wheel_run(&wheel, 5000500);
		cr_assert_eq(beats, i);
	}
	/* Never early, not even within a tick. */
	wheel_arm(&wheel, &beat, 5000501);
	cr_assert_eq(wait_us(&wheel, 5000600), 400);
	wheel_run(&wheel, 5000999);
	cr_assert_eq(beats, 3);
	wheel_run(&wheel, 5001000);
	cr_assert_eq(beats, 4);
	/* A clock that goes back does no harm. */
	wheel_run(&wheel, 4000000);
	cr_assert_eq(beats, 5);
	wheel_arm(&wheel, &beat, 5100000);
	wheel_run(&wheel, 4000000);
	cr_assert_gt(wait_us(&wheel, 5001000), 0);
	wheel_disarm(&wheel, &beat);
	cr_assert_eq(wait_us(&wheel, 5001000), -1);
	/* The end of time. */
	wheel_arm(&wheel, &beat, UINT64_MAX);
	cr_assert_gt(wait_us(&wheel, 5001000), 0);
	wheel_run(&wheel, 5001000 + (1ULL << 50));
	cr_assert_eq(beats, 5);
	wheel_disarm(&wheel, &beat);
	cr_assert_eq(wait_us(&wheel, 5001000), -1);
	cr_assert_eq(wheel.armed, 0);
}
