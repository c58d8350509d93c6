/*
 * loop.h - one turn of a thread: submit and wait once, collect all, run all.
 *
 *	loop_turn: stalled sends copied out, starved receives re-armed, sends of
 *	           the last turn gathered -> ring_turn -> clock -> hasty sends done
 *	           -> completions run -> timers run -> on_closed, on_detached of
 *	           conns that are done
 *
 * Everything of net hangs on a loop and belongs to its thread.  Debug builds
 * shuffle the order of collected completions of different owners (seeded).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/limits.h"
#include "core/base/list.h"
#include "core/base/slab.h"
#include "net/buf.h"
#include "net/op.h"
#include "net/ring.h"
#include "net/wheel.h"

/* The memory of a gathered send, the kernel's until it completes. */
struct gather {
	struct msghdr message;
	struct iovec parts[SEND_PIECES_MAX];
};

struct loop {
	struct ring *ring;
	struct op_table ops;
	struct buf_pool bufs;
	struct slab pieces;  /* of conns' send queues, beyond the first */
	struct slab gathers; /* of sendmsg in flight */
	struct wheel wheel;
	struct list
		to_send; /* conns whose hasty send this turn ends, then those with more to say */
	uint32_t hasty;  /* of the former */
	bool sends_now;  /* the ring can */
	bool unsettled;  /* hasty sends of an earlier turn are still open */
	bool rare;       /* a list below has members, or had this turn */
	struct list starved[RING_GROUP_COUNT]; /* conns whose receive found its group empty */
	struct list lingering;                 /* conns saying goodbye, oldest first */
	struct list stalled; /* conns with receive buffers queued and a send in flight */
	struct list settled; /* conns with nothing in flight that end or move */
	uint64_t now_us;     /* of this turn */
	uint64_t turns, sends, completions, late;
	uint64_t longest_turn_us; /* without what the enter takes */
	uint16_t *order;          /* debug builds: of the completions, shuffled */
	uint64_t random;
};

/* In the thread that will run it.  False: *failure says why. */
bool loop_open(struct loop *loop, struct ring_failure *failure);

/* Every conn, listener and bell must be closed. */
void loop_close(struct loop *loop);

/* max_wait_us: -1 no limit besides the wheel's. */
void loop_turn(struct loop *loop, int64_t max_wait_us);

/* To a list that few are in, and that a turn must look after. */
static inline void loop_add_rare(struct loop *loop, struct list *list, struct link *link)
{
	list_append(list, link);
	loop->rare = true;
}

/* Looks for conns whose peer is gone while their receive still waits, and arms
 * it anew.  io_uring's multishot receive loses a reset that comes together with
 * data (seen on 6.18): the poll behind it is edge-triggered, and after the data
 * the receive is not tried again.  To be called every few seconds; costs one
 * poll(2) per 256 conns. */
void loop_sweep(struct loop *loop);

/* A bell of this loop: on_ring() runs in the turn after it was rung. */
struct bell {
	struct op_owner owner;
	struct loop *loop;
	int fd;
	uint64_t value;
	bool reading, closing;
	void (*on_ring)(struct bell *bell);
};

bool bell_open(struct bell *bell, struct loop *loop, int fd, void (*on_ring)(struct bell *bell));

/* Ends with the loop: cancels its read; the fd stays the caller's. */
void bell_close(struct bell *bell);

#endif
