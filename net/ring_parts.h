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
	uint16_t tail;  /* of queue, ours; the kernel is shown it with the next enter */
	bool has_given; /* tail has moved since */
};

struct ring {
	struct io_uring uring;
	bool fd_registered;
	bool sends_now;
	bool settled;
	struct group groups[RING_GROUP_COUNT];
	uint64_t enters;
	struct completion *completions;
	uint32_t completion_room, completion_count;
	uint64_t alarm_us;                   /* when the next alarm goes off; 0: none is known */
	uint32_t alarms;                     /* under way */
	struct __kernel_timespec alarm_time; /* of the last, until it is submitted */
	bool alarms_fail;
	uint32_t sq_head; /* of the submission queue, when it was last looked at */
};

static inline void ring_nap(uint32_t us)
{
	struct timespec time = {.tv_nsec = (long)us * 1000};
	nanosleep(&time, NULL);
}

#endif
