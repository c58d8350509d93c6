/*
 * ring_steps.c - what each kind of operation does when its turn comes.
 *
 * The order of looking is the kernel's: bytes before the end of file, the end
 * before a reset, and a receive wants a buffer before it looks at all unless
 * it was told to poll first.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/report.h"
#include "tests/sim/ring_parts.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/list.h"

static bool group_is_empty(const struct group *group)
{
	return group->free_count <= (world.calm ? 0 : group->hidden);
}

static uint16_t group_take(struct group *group)
{
	uint16_t buffer = group->free[group->free_head];
	group->free_head = (uint16_t)((group->free_head + 1) % group->count);
	group->free_count--;
	group->is_free[buffer] = false;
	const uint8_t *memory = group->memory + (size_t)buffer * group->size;
	UNPOISON(memory, group->size);
	for (uint32_t i = 0; i < group->size; i += 61)
		SIM_CHECK(memory[i] == PATTERN, "buffer %u written to after it was given back",
		          buffer);
	return buffer;
}

static void visible_fire(struct alarm *alarm)
{
	ring_wake(CONTAINER(struct op, alarm, alarm)->ring);
}

static void op_keep(struct op *op, int32_t result, bool more)
{
	if (more && fault(world.faults.early_end))
		more = false;
	op->kept = (struct completion){.user_data = op->user_data, .result = result, .more = more};
	op->has_kept = true;
	op->ended = !more;
	op->visible_us = world.now_us;
	if (fault(world.faults.delay)) {
		op->visible_us += rng_between(&world.chance, 1, world.faults.delay_us);
		alarm_set(&op->alarm, op->visible_us, visible_fire);
	}
}

/* An error of the plan; those of a connection that is gone break it. */
static bool op_errs(struct op *op, const int *errors, uint32_t count)
{
	if (!fault(world.faults.op_error))
		return false;
	int error = errors[rng_below(&world.chance, count)];
	struct file *file = op->file;
	if (file->kind == FILE_SOCK &&
	    (error == ECONNRESET || error == EPIPE || error == ETIMEDOUT))
		sock_break(file->sock);
	op_keep(op, -error, false);
	return true;
}

static void accept_step(struct op *op)
{
	static const int errors[] = {EMFILE, ENFILE, ENOMEM, ECONNABORTED, ENOBUFS, ECANCELED};
	struct door *door = op->file->door;
	if (op->canceled) {
		op_keep(op, -ECANCELED, false);
		return;
	}
	if (door->queued == 0 || op_errs(op, errors, ARRAY_LEN(errors)))
		return;
	int fd = file_open(FILE_SOCK);
	if (fd < 0) {
		op_keep(op, fd, false);
		return;
	}
	file_get(fd)->sock = door_take(door);
	op_keep(op, fd, true);
}

static void recv_step(struct op *op)
{
	static const int errors[] = {ECONNRESET, ETIMEDOUT, ENOMEM, ECANCELED, ENOBUFS};
	struct group *group = &op->ring->groups[op->group];
	struct sock *sock = op->file->sock;
	bool first = !op->tried && !op->poll_first;
	op->tried = true;
	if (op->canceled &&
	    (sock->arrived == 0 || group_is_empty(group) || rng_chance(&world.chance, 700000))) {
		op_keep(op, -ECANCELED, false);
		return;
	}
	if (sock->state != SOCK_OPEN) {
		op_keep(op, -ENOTCONN, false);
		return;
	}
	bool ready = sock->arrived > 0 || sock->eof || sock->reset;
	if (!ready && !(first && group_is_empty(group)))
		return;
	/* ENOBUFS of the plan would be a lie while no buffer is lent. */
	uint32_t error_count = group->free_count < group->count ? ARRAY_LEN(errors)
	                                                        : ARRAY_LEN(errors) - 1;
	if (op_errs(op, errors, error_count))
		return;
	if (sock->arrived == 0 && ready) {
		op_keep(op, sock->eof ? 0 : -ECONNRESET, false);
		return;
	}
	if (group_is_empty(group)) {
		op_keep(op, -ENOBUFS, false);
		return;
	}
	uint32_t size = MIN(sock->arrived, group->size);
	if (size > 1 && fault(world.faults.cut))
		size = rng_between(&world.chance, 1, size);
	uint16_t buffer = group_take(group);
	uint8_t *memory = group->memory + (size_t)buffer * group->size;
	sock_read(sock, memory, size);
	POISON(memory + size, group->size - size);
	op_keep(op, (int32_t)size, !op->canceled);
	op->kept.has_buffer = true;
	op->kept.buffer = buffer;
}

static void send_step(struct op *op)
{
	static const int errors[] = {ECONNRESET, EPIPE, ETIMEDOUT, ENOMEM, ENOBUFS, ECANCELED};
	struct sock *sock = op->file->sock;
	if (op->canceled) {
		op_keep(op, op->done > 0 ? (int32_t)op->done : -ECANCELED, false);
		return;
	}
	if (!op->tried) {
		op->tried = true;
		if (op_errs(op, errors, ARRAY_LEN(errors)))
			return;
	}
	while (op->part < op->part_count) {
		const struct iovec *part = &op->parts[op->part];
		uint32_t left = (uint32_t)part->iov_len - op->part_done;
		const char *from = (const char *)part->iov_base + op->part_done;
		int32_t sent = left == 0 ? 0 : sock_write(sock, from, left);
		if (sent < 0) {
			op_keep(op, op->done > 0 ? (int32_t)op->done : sent, false);
			return;
		}
		op->done += (uint32_t)sent;
		op->part_done += (uint32_t)sent;
		if (op->part_done < part->iov_len) {
			if (sock_room(sock) > 0)
				op->ring->woken = true; /* cut by the plan: goes on next turn */
			return;
		}
		op->part++;
		op->part_done = 0;
	}
	op_keep(op, (int32_t)op->done, false);
}

/* What goes in, goes in now; the last word is kept unless all went in. */
static void send_now_step(struct op *op)
{
	static const int errors[] = {ECONNRESET, EPIPE, ETIMEDOUT, ENOMEM, ENOBUFS, EAGAIN, EINTR};
	if (op_errs(op, errors, ARRAY_LEN(errors)))
		return;
	for (; op->part < op->part_count; op->part++) {
		const struct iovec *part = &op->parts[op->part];
		uint32_t size = (uint32_t)part->iov_len;
		int32_t sent = size == 0 ? 0 : sock_write(op->file->sock, part->iov_base, size);
		op->done += sent > 0 ? (uint32_t)sent : 0;
		if (sent == (int32_t)size)
			continue;
		int32_t none = sent < 0 ? sent : -EAGAIN;
		op_keep(op, op->done > 0 ? (int32_t)op->done : none, false);
		return;
	}
}

static void connect_step(struct op *op)
{
	static const int errors[] = {ETIMEDOUT, ECONNREFUSED, ENETUNREACH, ENOMEM, ECANCELED};
	struct sock *sock = op->file->sock;
	if (op->canceled) {
		op_keep(op, -ECANCELED, false);
		return;
	}
	if (!op->connecting) {
		op->connecting = true;
		if (!op_errs(op, errors, ARRAY_LEN(errors)))
			sock_connect(sock, &op->target);
		return;
	}
	if (sock->state == SOCK_OPEN)
		op_keep(op, 0, false);
	else if (sock->state == SOCK_FAILED)
		op_keep(op, sock->error, false);
}

static void poll_step(struct op *op)
{
	static const int errors[] = {ENOMEM, ECANCELED};
	const struct sock *sock = op->file->sock;
	uint32_t now = 0;
	if (op->canceled) {
		op_keep(op, -ECANCELED, false);
		return;
	}
	if (sock->arrived > 0)
		now |= POLLIN;
	if (sock->eof)
		now |= POLLIN | POLLRDHUP;
	if (sock->reset)
		now |= POLLIN | POLLRDHUP | POLLHUP | POLLERR;
	if (sock_room(sock) > 0)
		now |= POLLOUT;
	now &= op->mask | POLLHUP | POLLERR;
	if (now != 0 && !op_errs(op, errors, ARRAY_LEN(errors)))
		op_keep(op, (int32_t)now, false);
}

static void read_step(struct op *op)
{
	if (op->canceled) {
		op_keep(op, -ECANCELED, false);
		return;
	}
	if (op->file->rung == 0)
		return;
	memcpy(op->into, &op->file->rung, sizeof op->file->rung);
	op->file->rung = 0;
	op_keep(op, 8, false);
}

void op_step(struct op *op)
{
	switch (op->type) {
	case DO_ACCEPT: accept_step(op); break;
	case DO_RECV: recv_step(op); break;
	case DO_SEND: send_step(op); break;
	case DO_SEND_NOW:
		if (!op->ended)
			send_now_step(op);
		break;
	case DO_CONNECT: connect_step(op); break;
	case DO_POLL: poll_step(op); break;
	case DO_READ: read_step(op); break;
	case DO_CANCEL: break;
	}
}
