/*
 * ring.c - net/ring.h over virtual sockets.
 *
 * An operation is queued by its call and starts with the next turn.  A turn
 * visits the operations in an order that the seed decides, and each may make
 * one step: take bytes, send bytes, fail by the fault plan.  A step that ends
 * in a completion may keep it back for a while (`kept`): its effect is there,
 * the caller does not know yet, and a cancel that comes meanwhile finds a
 * multishot operation to end, or nothing.  Completions of one operation keep
 * their order, those of different ones do not.
 *
 * A turn never blocks: without completions it notes the deadline of the wait
 * and returns 0, as after a signal; the driver turns the ring again when it
 * is woken or the deadline has come.
 *
 * A send that does not wait is made when its entry is taken, in the order of the
 * entries, and what it reads is not looked at again.  What it has to say comes
 * first in that turn, unless the plan lets the completions overflow, or stops the
 * taking of entries early: then the turn is not settled.
 *
 * What a caller may not do is checked here: two sends on one socket, a buffer
 * given back twice, a buffer read after it was given back (ASan).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/report.h"
#include "tests/sim/ring_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ring *ring_open(const struct ring_options *options, struct ring_failure *failure)
{
	if (fault(world.faults.op_error) || world.ring_count == RINGS_MAX) {
		snprintf(failure->text, sizeof failure->text, "no ring in the plan");
		return NULL;
	}
	struct ring *ring = calloc(1, sizeof *ring);
	SIM_CHECK(ring != NULL, "no memory");
	ring->index = world.ring_count;
	ring->queue_room = options->entries;
	ring->queue = (struct op **)calloc(options->entries, sizeof ring->queue[0]);
	world.rings[world.ring_count++] = ring;
	ring->woken = true;
	ring->sends_now = rng_chance(&world.chance, 875000);
	return ring;
}

static void op_free(struct op *op)
{
	alarm_clear(&op->alarm);
	if (op->file != NULL)
		op->file->operations--;
	free(op->parts);
	free(op);
}

void ring_close(struct ring *ring)
{
	for (uint32_t i = 0; i < ring->op_count; i++)
		op_free(ring->ops[i]);
	for (uint32_t i = 0; i < ring->queued; i++)
		op_free(ring->queue[i]);
	for (int i = 0; i < RING_GROUP_COUNT; i++) {
		struct group *group = &ring->groups[i];
		if (group->memory != NULL)
			UNPOISON(group->memory, (size_t)group->count * group->size);
		free(group->memory);
		free(group->free);
		free(group->is_free);
	}
	world.rings[ring->index] = NULL;
	free((void *)ring->ops);
	free((void *)ring->queue);
	free(ring);
}

uint8_t *ring_group_open(struct ring *ring, uint16_t number, uint16_t count, uint32_t size)
{
	struct group *group = &ring->groups[number];
	SIM_CHECK(group->memory == NULL, "group %u opened twice", number);
	*group = (struct group){
		.memory = malloc((size_t)count * size),
		.size = size,
		.count = count,
		.free = malloc(count * sizeof group->free[0]),
		.is_free = calloc(count, sizeof group->is_free[0]),
	};
	SIM_CHECK(group->memory && group->free && group->is_free, "no memory");
	if (world.faults.buffers != 0 && world.faults.buffers < count)
		group->hidden = (uint16_t)(count - world.faults.buffers);
	for (uint16_t i = 0; i < count; i++)
		ring_buffer_give(ring, number, i);
	return group->memory;
}

void ring_buffer_give(struct ring *ring, uint16_t number, uint16_t buffer)
{
	struct group *group = &ring->groups[number];
	SIM_CHECK(buffer < group->count, "buffer %u of group %u does not exist", buffer, number);
	SIM_CHECK(!group->is_free[buffer], "buffer %u given back twice", buffer);
	uint8_t *memory = group->memory + (size_t)buffer * group->size;
	UNPOISON(memory, group->size);
	memset(memory, PATTERN, group->size);
	POISON(memory, group->size);
	group->is_free[buffer] = true;
	group->free[(group->free_head + group->free_count++) % group->count] = buffer;
}

/* Queuing. */

static void op_check_alone(const struct ring *ring, const struct op *op)
{
	for (uint32_t i = 0; i < ring->op_count; i++) {
		const struct op *present = ring->ops[i];
		SIM_CHECK(present->user_data != op->user_data, "two operations with user_data %llx",
		          (unsigned long long)op->user_data);
		SIM_CHECK(present->file != op->file || present->type != op->type,
		          "two operations of type %d on one descriptor", (int)op->type);
	}
}

static void op_cancel(struct ring *ring, uint64_t user_data)
{
	for (uint32_t i = 0; i < ring->op_count; i++) {
		struct op *op = ring->ops[i];
		if (op->user_data != user_data)
			continue;
		if (op->ended)
			return; /* too late: its completion is on the way */
		op->canceled = true;
		if (op->has_kept && rng_chance(&world.chance, 500000)) {
			op->kept.more = false; /* the last one carries data */
			op->ended = true;
		}
		return;
	}
}

static void op_start(struct ring *ring, struct op *op)
{
	if (op->type == DO_CANCEL) {
		op_cancel(ring, op->user_data);
		op_free(op);
		return;
	}
	op_check_alone(ring, op);
	if (op->type == DO_SEND_NOW) {
		op_step(op);
		if (!op->has_kept) {
			op_free(op); /* done, in silence */
			return;
		}
	}
	if (ring->op_count == ring->op_room) {
		ring->op_room = ring->op_room == 0 ? 64 : ring->op_room * 2;
		ring->ops = (struct op **)realloc((void *)ring->ops,
		                                  ring->op_room * sizeof ring->ops[0]);
		SIM_CHECK(ring->ops != NULL, "no memory");
	}
	ring->ops[ring->op_count++] = op;
}

static void queue_start(struct ring *ring)
{
	uint32_t taken = ring->queued;
	if (taken > 0 && fault(world.faults.op_error)) /* no memory for the others */
		taken = rng_below(&world.chance, taken);
	for (uint32_t i = 0; i < taken; i++)
		op_start(ring, ring->queue[i]);
	if (ring->queued > 0)
		ring->woken = true;
	ring->queued -= taken;
	memmove((void *)ring->queue, (void *)(ring->queue + taken),
	        ring->queued * sizeof ring->queue[0]);
}

static struct op *op_queue(struct ring *ring, enum op_type type, uint64_t user_data, int fd)
{
	while (ring->queued == ring->queue_room) {
		ring->enters++;
		queue_start(ring);
	}
	struct op *op = calloc(1, sizeof *op);
	SIM_CHECK(op != NULL, "no memory");
	op->ring = ring;
	op->type = type;
	op->user_data = user_data;
	if (type != DO_CANCEL) {
		op->file = file_get(fd);
		SIM_CHECK(op->file != NULL, "operation %d on descriptor %d, which is not open",
		          (int)type, fd);
		op->file->operations++;
		if (op->file->kind == FILE_SOCK)
			sock_own(op->file->sock, NULL, ring);
		else
			op->file->ring = ring;
		if (op->file->kind == FILE_DOOR)
			op->file->door->owner = ring;
	}
	ring->queue[ring->queued++] = op;
	return op;
}

void ring_accept(struct ring *ring, uint64_t user_data, int fd)
{
	op_queue(ring, DO_ACCEPT, user_data, fd);
}

void ring_recv(struct ring *ring, uint64_t user_data, int fd, uint16_t group, bool poll_first)
{
	struct op *op = op_queue(ring, DO_RECV, user_data, fd);
	op->group = group;
	op->poll_first = poll_first;
}

static void sendmsg_queue(struct ring *ring, enum op_type type, uint64_t user_data, int fd,
                          const struct msghdr *message)
{
	struct op *op = op_queue(ring, type, user_data, fd);
	SIM_CHECK(message->msg_iovlen > 0 && message->msg_iovlen <= PARTS_MAX,
	          "sendmsg of %zu parts", message->msg_iovlen);
	op->part_count = (uint32_t)message->msg_iovlen;
	op->parts = malloc(op->part_count * sizeof op->parts[0]);
	SIM_CHECK(op->parts != NULL, "no memory");
	memcpy(op->parts, message->msg_iov, op->part_count * sizeof op->parts[0]);
}

static void send_queue(struct ring *ring, enum op_type type, uint64_t user_data, int fd,
                       const void *bytes, uint32_t size)
{
	union {
		const void *read;
		void *any;
	} base = {.read = bytes};
	struct iovec part = {base.any, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	sendmsg_queue(ring, type, user_data, fd, &message);
}

void ring_send(struct ring *ring, uint64_t user_data, int fd, const void *bytes, uint32_t size)
{
	send_queue(ring, DO_SEND, user_data, fd, bytes, size);
}

void ring_send_now(struct ring *ring, uint64_t user_data, int fd, const void *bytes, uint32_t size)
{
	SIM_CHECK(ring->sends_now, "a send that this ring cannot make");
	send_queue(ring, DO_SEND_NOW, user_data, fd, bytes, size);
}

void ring_sendmsg(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message)
{
	sendmsg_queue(ring, DO_SEND, user_data, fd, message);
}

void ring_sendmsg_now(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message)
{
	SIM_CHECK(ring->sends_now, "a send that this ring cannot make");
	sendmsg_queue(ring, DO_SEND_NOW, user_data, fd, message);
}

bool ring_sends_now(const struct ring *ring)
{
	return ring->sends_now;
}

/* Time stands still meanwhile. */
void ring_spin(struct ring *ring, uint32_t us)
{
	(void)ring;
	(void)us;
}

bool ring_is_settled(const struct ring *ring)
{
	return ring->settled;
}

bool ring_has_unsent(const struct ring *ring)
{
	return ring->unsent;
}

void ring_connect(struct ring *ring, uint64_t user_data, int fd, const struct sockaddr *address,
                  socklen_t size)
{
	struct op *op = op_queue(ring, DO_CONNECT, user_data, fd);
	SIM_CHECK(size <= sizeof op->target.local, "address of %u bytes", size);
	op->target.size = size;
	memcpy(&op->target.any, address, size);
}

void ring_poll(struct ring *ring, uint64_t user_data, int fd, uint32_t mask)
{
	op_queue(ring, DO_POLL, user_data, fd)->mask = mask;
}

void ring_read(struct ring *ring, uint64_t user_data, int fd, void *bytes, uint32_t size)
{
	struct op *op = op_queue(ring, DO_READ, user_data, fd);
	SIM_CHECK(op->file->kind == FILE_BELL && size == 8, "read of what is not a bell");
	op->into = bytes;
}

void ring_cancel(struct ring *ring, uint64_t user_data)
{
	op_queue(ring, DO_CANCEL, user_data, -1);
}

/* True if the operation has ended and its last completion is out. */
static bool op_visit(struct ring *ring, struct op *op)
{
	if (!op->has_kept)
		op_step(op);
	bool late = op->type == DO_SEND_NOW ? ring->overflows : op->visible_us > world.now_us;
	if (!op->has_kept || late)
		return false;
	ring->done[ring->done_count++] = op->kept;
	trace("done", (uint64_t)ring->index << 8 | op->type, (uint64_t)op->kept.result);
	op->has_kept = false;
	ring->woken = true; /* there may be more behind it */
	return op->ended;
}

static void op_remove(struct ring *ring, uint32_t place)
{
	op_free(ring->ops[place]);
	ring->ops[place] = ring->ops[--ring->op_count];
}

/* What sends that do not wait have to say. */
static void tell_now(struct ring *ring)
{
	ring->overflows = fault(world.faults.early_end);
	ring->settled = ring->queued == 0;
	ring->unsent = false;
	for (uint32_t i = 0; i < ring->op_count;) {
		struct op *op = ring->ops[i];
		if (op->type != DO_SEND_NOW) {
			i++;
		} else if (ring->overflows || ring->done_count == TURN_COMPLETIONS) {
			ring->settled = false;
			ring->woken = true;
			i++;
		} else {
			SIM_CHECK(op_visit(ring, op), "a send that goes on");
			ring->unsent = true;
			op_remove(ring, i);
		}
	}
}

static void ops_shuffle(struct ring *ring)
{
	for (uint32_t i = ring->op_count; i > 1; i--) {
		uint32_t j = rng_below(&world.chance, i);
		struct op *op = ring->ops[i - 1];
		ring->ops[i - 1] = ring->ops[j];
		ring->ops[j] = op;
	}
}

uint32_t ring_turn(struct ring *ring, uint64_t until_us)
{
	ring->enters++;
	queue_start(ring);
	ring->done_count = 0;
	ring->woken = false;
	tell_now(ring);
	ops_shuffle(ring);
	uint32_t most = fault(world.faults.delay) ? rng_between(&world.chance, 1, 8)
	                                          : TURN_COMPLETIONS;
	for (int pass = 0; pass < 3 && ring->done_count < most; pass++)
		for (uint32_t i = 0; i < ring->op_count && ring->done_count < most;) {
			if (op_visit(ring, ring->ops[i]))
				op_remove(ring, i);
			else
				i++;
		}
	if (ring->done_count >= most)
		ring->woken = true;
	bool ends = until_us > world.now_us && until_us != UINT64_MAX;
	if (ends && fault(world.faults.delay)) /* too early */
		until_us = world.now_us + 1 +
		           (until_us - world.now_us) / rng_between(&world.chance, 1, 8);
	ring->deadline_us = until_us;
	return ring->done_count;
}

const struct completion *ring_completion(const struct ring *ring, uint32_t index)
{
	SIM_CHECK(index < ring->done_count, "completion %u of %u", index, ring->done_count);
	return &ring->done[index];
}

uint64_t ring_enters(const struct ring *ring)
{
	return ring->enters;
}

/* For the driver. */

bool ring_is_ready(const struct ring *ring)
{
	return ring->woken || ring->queued > 0 || ring->deadline_us <= world.now_us;
}

bool ring_is_late(const struct ring *ring)
{
	for (uint32_t i = 0; i < ring->op_count; i++)
		if (ring->ops[i]->has_kept)
			return true;
	return false;
}

uint64_t ring_deadline_us(const struct ring *ring)
{
	return ring->deadline_us;
}

void ring_wake(struct ring *ring)
{
	ring->woken = true;
}

uint32_t ring_lent(const struct ring *ring)
{
	uint32_t lent = 0;
	for (int i = 0; i < RING_GROUP_COUNT; i++)
		lent += (uint32_t)(ring->groups[i].count - ring->groups[i].free_count);
	for (uint32_t i = 0; i < ring->op_count; i++)
		lent -= ring->ops[i]->has_kept && ring->ops[i]->kept.has_buffer;
	return lent;
}

uint32_t ring_operations(const struct ring *ring)
{
	return ring->op_count + ring->queued;
}
