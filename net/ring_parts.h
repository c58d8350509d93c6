/*
 * ring_parts.h - what ring.c and ring_open.c tell each other; nobody else's.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_RING_PARTS_H
#define NET_RING_PARTS_H

#include <liburing.h>
#include <time.h>

#include "net/ring.h"

struct group {
	struct io_uring_buf_ring *queue; /* shared with the kernel; NULL: not open */
	size_t queue_size;
	uint8_t *memory;
	uint32_t buffer_size;
	uint16_t count;
	uint16_t tail; /* of queue */
};

struct ring {
	struct io_uring uring;
	uint32_t enter_flags; /* of every enter */
	uint32_t sq_head;     /* of the submission queue, when it was last looked at */
	uint32_t cq_head;     /* of the completion queue: the first of this turn */
	uint32_t cq_taken;    /* of this turn, with those that are nobody's */
	uint32_t completion_count;
	bool sends_now;
	bool settled;
	bool unsent;
	bool alarms_fail;
	uint32_t spin_us;
	uint32_t alarms;   /* under way */
	uint64_t alarm_us; /* when the next one goes off; UINT64_MAX: none is known */
	uint64_t enters;
	struct group groups[RING_GROUP_COUNT];
	struct __kernel_timespec alarm_time; /* of the last, until it is submitted */
	struct __kernel_timespec wait_time;
	struct io_uring_getevents_arg wait;
};

static inline void ring_nap(uint32_t us)
{
	struct timespec time = {.tv_nsec = (long)us * 1000};
	nanosleep(&time, NULL);
}

#endif
