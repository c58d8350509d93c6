/*
 * wheel.c - see wheel.h.
 *
 * A time in ms is read as digits of WHEEL_BITS bits.  A timer lies in the level
 * of the highest digit in which its time differs from the clock's, in the slot
 * of that digit.  So where a timer lies follows from its time and the clock
 * alone: disarming needs no search, timers of one time always share a slot, and
 * all timers of a level come before those of the next.  When the clock reaches
 * the start of a slot, the slot is spread to lower levels.  The clock goes from
 * one occupied slot to the next, never tick by tick, so a jump of hours is
 * cheap, and timers fire in the order of their times, then of arming.
 *
 * The digit of a timer is always larger than the clock's: slot 0 of a level
 * would never be used.  Two are put to use: in the lowest level for what is
 * due, in the highest for what differs beyond it, spread when the highest digit
 * turns over.
 *
 * The usual run finds nothing to do by one comparison, and leaves the clock where
 * it is: it may lag behind as long as no slot starts in between.
 *
 * What is due is collected before the first timer fires.  A timer that is armed
 * for the past by one that fires waits for the next run: no run is endless.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/wheel.h"

enum { TOP = WHEEL_LEVELS - 1, ROUND_BITS = WHEEL_LEVELS * WHEEL_BITS };

struct spot {
	uint32_t level, slot;
};

static const struct spot due = {0, 0};
static const struct spot beyond = {TOP, 0};

static struct spot wheel_spot(const struct wheel *wheel, uint64_t at_ms)
{
	if (at_ms <= wheel->now_ms)
		return due;
	uint32_t highest = 63U - (uint32_t)__builtin_clzll(at_ms ^ wheel->now_ms);
	uint32_t level = highest / WHEEL_BITS;
	if (level >= WHEEL_LEVELS)
		return beyond;
	return (struct spot){level, (at_ms >> (level * WHEEL_BITS)) & (WHEEL_SLOTS - 1)};
}

static void wheel_put(struct wheel *wheel, struct timer *timer)
{
	struct spot spot = wheel_spot(wheel, timer->at_ms);
	list_append(&wheel->slots[spot.level][spot.slot], &timer->link);
	wheel->occupied[spot.level] |= 1ULL << spot.slot;
	wheel->next_us = 0;
}

static void spot_tidy(struct wheel *wheel, struct spot spot)
{
	if (list_is_empty(&wheel->slots[spot.level][spot.slot]))
		wheel->occupied[spot.level] &= ~(1ULL << spot.slot);
}

void wheel_init(struct wheel *wheel, uint64_t now_us)
{
	*wheel = (struct wheel){.now_ms = now_us / 1000};
	for (uint32_t level = 0; level < WHEEL_LEVELS; level++)
		for (uint32_t slot = 0; slot < WHEEL_SLOTS; slot++)
			list_init(&wheel->slots[level][slot]);
}

void wheel_disarm(struct wheel *wheel, struct timer *timer)
{
	if (!timer_is_armed(timer))
		return;
	struct spot spot = wheel_spot(wheel, timer->at_ms);
	list_remove(&wheel->slots[spot.level][spot.slot], &timer->link);
	spot_tidy(wheel, spot);
	wheel->armed--;
	wheel->next_us = 0;
}

void wheel_arm(struct wheel *wheel, struct timer *timer, uint64_t at_us)
{
	CHECK(timer->fire != NULL);
	wheel_disarm(wheel, timer);
	timer->at_ms = at_us / 1000 + (at_us % 1000 != 0);
	wheel_put(wheel, timer);
	wheel->armed++;
}

/* The first spot the clock comes to, and when.  False: nothing but what is due. */
static bool wheel_next(const struct wheel *wheel, struct spot *spot, uint64_t *start_ms)
{
	for (uint32_t level = 0; level < WHEEL_LEVELS; level++) {
		uint64_t ahead = wheel->occupied[level] & ~1ULL;
		if (ahead == 0)
			continue;
		uint32_t shift = level * WHEEL_BITS;
		*spot = (struct spot){level, (uint32_t)__builtin_ctzll(ahead)};
		uint64_t base = wheel->now_ms >> shift >> WHEEL_BITS << WHEEL_BITS;
		*start_ms = (base | spot->slot) << shift;
		return true;
	}
	if ((wheel->occupied[TOP] & 1) == 0)
		return false;
	*spot = beyond;
	*start_ms = ((wheel->now_ms >> ROUND_BITS) + 1) << ROUND_BITS;
	return true;
}

void wheel_look_up(struct wheel *wheel)
{
	struct spot spot;
	uint64_t start_ms;
	if ((wheel->occupied[0] & 1) != 0)
		wheel->next_us = 0;
	else
		wheel->next_us = wheel_next(wheel, &spot, &start_ms) ? start_ms * 1000 : UINT64_MAX;
}

/* Puts the timers of a spot where they belong by the clock of now; some of
 * those beyond the top level may come back to it. */
static void wheel_spread(struct wheel *wheel, struct spot spot)
{
	struct list *list = &wheel->slots[spot.level][spot.slot];
	for (uint32_t left = list->count; left > 0; left--) {
		struct timer *timer = CONTAINER(struct timer, link, list->ends.next);
		list_remove(list, &timer->link);
		wheel_put(wheel, timer);
	}
	spot_tidy(wheel, spot);
}

static void wheel_advance(struct wheel *wheel, uint64_t now_ms)
{
	struct spot spot;
	uint64_t start_ms;
	while (wheel_next(wheel, &spot, &start_ms) && start_ms <= now_ms) {
		wheel->now_ms = start_ms;
		wheel_spread(wheel, spot);
	}
	wheel->now_ms = MAX(wheel->now_ms, now_ms);
}

void wheel_fire(struct wheel *wheel, uint64_t now_us)
{
	wheel_advance(wheel, now_us / 1000);
	wheel->next_us = 0;
	struct list *list = &wheel->slots[due.level][due.slot];
	if (list_is_empty(list))
		return;
	/* What is armed for the past meanwhile lands behind the mark. */
	struct link mark = {0};
	list_append(list, &mark);
	while (list->ends.next != &mark) {
		struct timer *timer = CONTAINER(struct timer, link, list->ends.next);
		list_remove(list, &timer->link);
		wheel->armed--;
		timer->fire(timer);
	}
	list_remove(list, &mark);
	spot_tidy(wheel, due);
}
