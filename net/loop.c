/*
 * loop.c - see loop.h.
 *
 * What conns ask for during a turn only queues: sends leave, starved receives
 * are armed again and cancels go out with the one enter of the next turn.  The
 * clock is read right after it, for all that the turn does.
 *
 * A conn that has nothing in flight any more does not end where that shows but
 * at the end of the turn, through the list `settled`: no other code has to
 * think of a conn that is gone when a callback returns.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"
#include "net/conn.h"
#include "net/sys.h"

enum { SWEEP_MAX = 256 };

enum {
	/* A send that has not come back by now waits for the peer. */
	STALL_MS = 2,

	/* Turns that loop_close grants to bells, whose cancels need one or two. */
	CLOSE_TURNS = 100,
	CLOSE_WAIT_US = 10 * 1000,
};

static bool loop_open_parts(struct loop *loop)
{
	slab_init(&loop->pieces, sizeof(struct conn_piece), 256, 0);
	slab_init(&loop->gathers, sizeof(struct gather), 16, 0);
	list_init(&loop->to_send);
	loop->sends_now = ring_sends_now(loop->ring);
	for (uint32_t group = 0; group < RING_GROUP_COUNT; group++)
		list_init(&loop->starved[group]);
	list_init(&loop->lingering);
	list_init(&loop->stalled);
	list_init(&loop->settled);
	loop->now_us = sys_clock_us();
	wheel_init(&loop->wheel, loop->now_us);
#ifndef NDEBUG
	sys_random(&loop->random, sizeof loop->random);
	loop->random |= 1;
	loop->order = calloc(RING_COMPLETIONS, sizeof loop->order[0]);
	if (loop->order == NULL)
		return false;
#endif
	return buf_pool_init(&loop->bufs, loop->ring);
}

bool loop_open(struct loop *loop, struct ring_failure *failure)
{
	const struct ring_options options = {
		.entries = RING_ENTRIES,
		.completions = RING_COMPLETIONS,
	};
	memset(loop, 0, sizeof *loop); /* an initializer would pass 10 KB over the stack */
	loop->ring = ring_open(&options, failure);
	if (loop->ring == NULL)
		return false;
	if (!loop_open_parts(loop)) {
		snprintf(failure->text, sizeof failure->text, "no memory for receive buffers");
		free(loop->order);
		ring_close(loop->ring);
		return false;
	}
	return true;
}

void loop_close(struct loop *loop)
{
	for (int i = 0; loop->ops.used > 0 && i < CLOSE_TURNS; i++)
		loop_turn(loop, CLOSE_WAIT_US);
	op_table_fini(&loop->ops);
	slab_fini(&loop->pieces);
	slab_fini(&loop->gathers);
	buf_pool_fini(&loop->bufs);
	ring_close(loop->ring);
	free(loop->order);
	memset(loop, 0, sizeof *loop);
}

/* ---------------------------------------------------------- before the enter */

static bool loop_is_short(const struct loop *loop)
{
	bool is_short = false;
	for (uint16_t group = 0; group < RING_GROUP_COUNT; group++)
		is_short |= buf_pool_is_short(&loop->bufs, group);
	return is_short;
}

/* Slow readers must not keep the buffers that others read into. */
static void loop_unstall(struct loop *loop)
{
	if (list_is_empty(&loop->stalled) || !loop_is_short(loop))
		return;
	uint32_t now_ms = (uint32_t)(loop->now_us / 1000);
	list_each_safe (struct conn, conn, send_link, &loop->stalled) {
		if (now_ms - conn->sent_ms >= STALL_MS)
			conn_copy_out(conn);
	}
}

static uint32_t group_free(const struct loop *loop, uint16_t group)
{
	return (uint32_t)(loop->bufs.counts[group] - loop->bufs.lent[group]);
}

/* The kernel was found empty once; buffers that came back since may be used, and
 * some come back when the hasty sends of this turn are done. */
static bool group_may_feed(const struct loop *loop, uint16_t group)
{
	return !list_is_empty(&loop->starved[group]) &&
	       (group_free(loop, group) > 0 || loop->hasty > 0);
}

/* Arms again as many as there are buffers: more would only find none. */
static void loop_feed(struct loop *loop)
{
	for (uint16_t group = 0; group < RING_GROUP_COUNT; group++) {
		struct list *starved = &loop->starved[group];
		if (list_is_empty(starved))
			continue;
		for (uint32_t left = MIN(group_free(loop, group), starved->count); left > 0; left--)
			conn_starved_retry(LIST_FIRST(struct conn, starved_link, starved));
	}
}

static void loop_flush(struct loop *loop)
{
	loop->unsettled = loop->hasty > 0;
	list_each_safe (struct conn, conn, send_link, &loop->to_send)
		conn_flush(conn);
}

/* Until when the rare may wait. */
static uint64_t rare_until_us(const struct loop *loop)
{
	uint64_t until_us = UINT64_MAX;
	if (group_may_feed(loop, RING_GROUP_CLIENT) || group_may_feed(loop, RING_GROUP_SERVER) ||
	    !list_is_empty(&loop->settled))
		return 0;
	const struct conn *first = LIST_FIRST(struct conn, wait_link, &loop->lingering);
	if (first != NULL) {
		uint64_t now_ms = loop->now_us / 1000;
		int32_t left_ms = (int32_t)(first->linger_until_ms - (uint32_t)now_ms);
		until_us = (now_ms + (uint32_t)MAX(left_ms, 0)) * 1000;
	}
	if (!list_is_empty(&loop->stalled) && loop_is_short(loop))
		until_us = MIN(until_us, loop->now_us + STALL_MS * UINT64_C(1000));
	return until_us;
}

static uint64_t loop_until_us(struct loop *loop, int64_t max_wait_us)
{
	uint64_t until_us = wheel_next_us(&loop->wheel);
	if (UNLIKELY(loop->unsettled || max_wait_us == 0))
		return 0;
	if (UNLIKELY(max_wait_us > 0))
		until_us = MIN(until_us, sys_clock_us() + (uint64_t)max_wait_us);
	if (UNLIKELY(loop->rare))
		until_us = MIN(until_us, rare_until_us(loop));
	return until_us;
}

/* ------------------------------------------------------------ after the enter */

#ifndef NDEBUG
static uint32_t loop_random(struct loop *loop)
{
	loop->random ^= loop->random << 13;
	loop->random ^= loop->random >> 7;
	loop->random ^= loop->random << 17;
	return (uint32_t)(loop->random >> 32);
}

/* Slot and generation. */
static uint64_t completion_owner(const struct loop *loop, uint32_t index)
{
	return ring_completion(loop->ring, index)->user_data >> 8;
}

/* Nobody may rely on the order between owners; within one it is the order of
 * its bytes.  Each completion moves to the front by a random number of steps,
 * past those of others. */
static void loop_shuffle(struct loop *loop, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i;
		for (; at > 0 && loop_random(loop) % 4 != 0; at--) {
			if (completion_owner(loop, loop->order[at - 1]) ==
			    completion_owner(loop, i))
				break;
			loop->order[at] = loop->order[at - 1];
		}
		loop->order[at] = (uint16_t)i;
	}
}
#endif

static void loop_dispatch(struct loop *loop, uint32_t index)
{
	const struct completion *completion = ring_completion(loop->ring, index);
	enum op_kind kind;
	struct op_owner *owner = op_find(&loop->ops, completion->user_data, &kind);
	if (owner == NULL) {
		/* Owners wait for their receives, so no buffer can be lost here. */
		CHECK_SLOW(!completion->has_buffer);
		loop->late++;
		return;
	}
	owner->on_completion(owner, kind, completion);
}

/* Those that have a completion after all wait for it. */
static COLD void loop_calm(struct loop *loop, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		enum op_kind kind;
		uint64_t user_data = ring_completion(loop->ring, i)->user_data;
		struct op_owner *owner = op_find(&loop->ops, user_data, &kind);
		if (owner != NULL && kind == OP_SEND)
			conn_sent_less(conn_of(owner));
	}
}

/* Hasty sends that nothing is heard of are done, but only if nothing more will
 * be heard; else they stay for the next turn, which does not sleep. */
static void loop_run_hasty(struct loop *loop, uint32_t count)
{
	if (loop->hasty == 0 || !ring_is_settled(loop->ring))
		return;
	if (UNLIKELY(ring_has_unsent(loop->ring)))
		loop_calm(loop, count);
	while (loop->hasty > 0)
		conn_sent_all(LIST_FRONT(struct conn, send_link, &loop->to_send));
}

static void loop_run_completions(struct loop *loop, uint32_t count)
{
	bool shuffled = false;
#ifndef NDEBUG
	shuffled = count <= RING_COMPLETIONS;
	if (shuffled)
		loop_shuffle(loop, count);
#endif
	for (uint32_t i = 0; i < count; i++)
		loop_dispatch(loop, shuffled ? loop->order[i] : i);
}

static void loop_run_lingering(struct loop *loop)
{
	uint32_t now_ms = (uint32_t)(loop->now_us / 1000);
	struct conn *first;
	while ((first = LIST_FIRST(struct conn, wait_link, &loop->lingering)) != NULL &&
	       (int32_t)(now_ms - first->linger_until_ms) >= 0)
		conn_linger_expire(first);
}

/* Those that settle meanwhile have their turn in the next. */
static void loop_run_settled(struct loop *loop)
{
	for (uint32_t left = loop->settled.count; left > 0; left--)
		conn_settled(LIST_FIRST(struct conn, wait_link, &loop->settled));
}

static COLD void loop_run_rare(struct loop *loop)
{
	loop_run_lingering(loop);
	loop_run_settled(loop);
	loop->rare = (loop->starved[RING_GROUP_CLIENT].count |
	              loop->starved[RING_GROUP_SERVER].count | loop->stalled.count |
	              loop->lingering.count | loop->settled.count) != 0;
}

void loop_turn(struct loop *loop, int64_t max_wait_us)
{
	if (UNLIKELY(loop->rare)) {
		loop_unstall(loop);
		loop_feed(loop);
	}
	loop_flush(loop);
	loop->longest_turn_us = MAX(loop->longest_turn_us, sys_clock_us() - loop->now_us);
	uint32_t count = ring_turn(loop->ring, loop_until_us(loop, max_wait_us));
	loop->now_us = sys_clock_us();
	loop->turns++;
	loop->completions += count;
	loop_run_hasty(loop, count);
	loop_run_completions(loop, count);
	wheel_run(&loop->wheel, loop->now_us);
	if (UNLIKELY(loop->rare))
		loop_run_rare(loop);
}

/* ------------------------------------------------------------------- sweeping */

struct sweep {
	uint32_t count;
	struct pollfd fds[SWEEP_MAX];
	struct conn *conns[SWEEP_MAX];
};

static void sweep_look(struct sweep *sweep)
{
	int found = sys_poll_hung_up(sweep->fds, sweep->count);
	for (uint32_t i = 0; i < sweep->count && found > 0; i++)
		if ((sweep->fds[i].revents & (POLLHUP | POLLERR)) != 0)
			conn_receive_again(sweep->conns[i]);
	sweep->count = 0;
}

void loop_sweep(struct loop *loop)
{
	struct sweep sweep = {.count = 0};
	for (uint32_t slot = 0; slot < loop->ops.room; slot++) {
		struct op_owner *owner = op_at(&loop->ops, slot);
		struct conn *conn = owner != NULL ? conn_of(owner) : NULL;
		if (conn == NULL || !conn_waits(conn))
			continue;
		sweep.fds[sweep.count] = (struct pollfd){.fd = conn->fd};
		sweep.conns[sweep.count++] = conn;
		if (sweep.count == SWEEP_MAX)
			sweep_look(&sweep);
	}
	sweep_look(&sweep);
}

/* ---------------------------------------------------------------------- bells */

static void bell_read(struct bell *bell)
{
	bell->reading = true;
	ring_read(bell->loop->ring, op_user_data(&bell->owner, OP_BELL), bell->fd, &bell->value,
	          sizeof bell->value);
}

static void bell_completed(struct op_owner *owner, enum op_kind kind,
                           const struct completion *completion)
{
	struct bell *bell = CONTAINER(struct bell, owner, owner);
	int32_t result = completion->result;
	CHECK(kind == OP_BELL && bell->reading);
	CHECK(result == (int32_t)sizeof bell->value || result == -ECANCELED || result == -EINTR ||
	      result == -EAGAIN);
	bell->reading = false;
	if (!bell->closing && result > 0)
		bell->on_ring(bell);
	if (bell->closing)
		op_unregister(&bell->loop->ops, &bell->owner);
	else
		bell_read(bell);
}

bool bell_open(struct bell *bell, struct loop *loop, int fd, void (*on_ring)(struct bell *bell))
{
	*bell = (struct bell){
		.owner.on_completion = bell_completed,
		.loop = loop,
		.fd = fd,
		.on_ring = on_ring,
	};
	if (!op_register(&loop->ops, &bell->owner))
		return false;
	bell_read(bell);
	return true;
}

void bell_close(struct bell *bell)
{
	if (bell->closing)
		return;
	bell->closing = true;
	if (bell->reading)
		ring_cancel(bell->loop->ring, op_user_data(&bell->owner, OP_BELL));
}
