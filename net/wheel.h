/*
 * wheel.h - timers in user space: a hierarchical wheel of 1 ms ticks.
 *
 * Arming and disarming cost a few stores; no kernel timer is touched.  A timer
 * fires once, at or up to one tick after its time, from wheel_run().  A timer
 * may be re-armed or disarmed from its own or another's function.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_WHEEL_H
#define NET_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"

struct timer {
	struct link link; /* in a slot of the wheel while armed */
	uint64_t at_ms;
	void (*fire)(struct timer *timer);
};

enum { WHEEL_BITS = 6, WHEEL_SLOTS = 1 << WHEEL_BITS, WHEEL_LEVELS = 6 };

struct wheel {
	uint64_t now_ms;  /* of the last run that found something to do */
	uint64_t next_us; /* nothing to do before; 0: something is due, or to be looked up */
	uint32_t armed;
	uint64_t occupied[WHEEL_LEVELS]; /* a bit per slot that has timers */
	struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, uint64_t now_us);

/* Arms, or arms anew; `timer->fire` is set by the caller. */
void wheel_arm(struct wheel *wheel, struct timer *timer, uint64_t at_us);
void wheel_disarm(struct wheel *wheel, struct timer *timer); /* idempotent */

static inline bool timer_is_armed(const struct timer *timer)
{
	return link_is_in(&timer->link);
}

void wheel_look_up(struct wheel *wheel); /* for wheel_next_us() */

/* When the wheel wants to run; 0: now, UINT64_MAX: never.  May be early (a coarse
 * level that must be spread), never late. */
static inline uint64_t wheel_next_us(struct wheel *wheel)
{
	if (wheel->next_us == 0)
		wheel_look_up(wheel);
	return wheel->next_us;
}

/* Fires what is due. */
void wheel_fire(struct wheel *wheel, uint64_t now_us);

static inline void wheel_run(struct wheel *wheel, uint64_t now_us)
{
	if (now_us >= wheel->next_us)
		wheel_fire(wheel, now_us);
}

#endif
