/*
 * conn_send.c - the queue of a conn and its one send in flight; see conn.h.
 *
 * The queue is a list of pieces, each a range of a buf that it holds.  The send
 * in flight covers the first `sending` bytes; pieces that it covers are not
 * touched until it has completed, whatever it says: a short count only means
 * that the rest is sent again, and then the error shows if there is one.
 *
 * Small sends are hasty: the kernel takes them while it is entered, or not, and
 * when loop_turn() goes on they are done without a completion; until then the
 * conn stays in the list of those that want to send, before all that are not sent
 * yet.  A peer that had no room is sent the rest by a send that waits for it.  So is
 * everything whose end somebody waits for, and may sleep meanwhile: the turn that
 * brings a hasty send to the kernel may last until something else happens.
 *
 * Receive buffers that lie in the queue of a slow peer are missing to
 * everybody else.  conn_copy_out() moves their bytes to blocks: at once what is
 * not in flight, and the rest when the send, which it cancels, has come back.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "core/base/check.h"
#include "core/base/limits.h"
#include "net/buf.h"
#include "net/conn.h"
#include "net/conn_parts.h"
#include "net/loop.h"

enum {
	/* Below what one operation of the kernel can take (2 GiB less a page). */
	SEND_BYTES_MAX = 1 << 30,

	/* More seldom fits into the socket at once. */
	HASTY_BYTES_MAX = 16384,

	/* Blocks for bytes that queue anyway: few and large, but of a slab. */
	COPY_BLOCK_MIN = 4096,
	COPY_BLOCK_MAX = 16384,

	/* What follows a block is copied into it, rather than be a second piece. */
	COPY_AFTER_MAX = 256,
};

static uint32_t piece_size(const struct conn_piece *piece)
{
	return piece->to - piece->from;
}

/* Puts a hold of buf under the piece, and off again; the counts go along. */
static void piece_lay(struct conn *conn, struct conn_piece *piece, struct buf *buf, uint32_t from,
                      uint32_t to)
{
	piece->buf = buf;
	piece->from = from;
	piece->to = to;
	conn->held += buf->capacity;
	conn->borrowed += buf->origin != BUF_BLOCK;
}

static void piece_lift(struct conn *conn, struct conn_piece *piece)
{
	struct buf *buf = piece->buf;
	conn->held -= buf->capacity;
	conn->borrowed -= buf->origin != BUF_BLOCK;
	piece->buf = NULL;
	buf_drop(&conn->loop->bufs, buf);
}

static struct conn_piece *piece_acquire(struct conn *conn)
{
	if (LIKELY(conn->piece.buf == NULL))
		return &conn->piece;
	return slab_acquire_raw(&conn->loop->pieces);
}

/* After piece_lift(). */
static void piece_release(struct conn *conn, struct conn_piece *piece)
{
	if (piece != &conn->piece)
		slab_release(&conn->loop->pieces, piece);
}

/* Takes over a hold of buf, also when it fails. */
static bool queue_append(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct conn_piece *piece = piece_acquire(conn);
	if (piece == NULL) {
		buf_drop(&conn->loop->bufs, buf);
		return false;
	}
	piece->next = NULL;
	piece_lay(conn, piece, buf, from, to);
	if (conn->queue.last == NULL)
		conn->queue.first = piece;
	else
		conn->queue.last->next = piece;
	conn->queue.last = piece;
	conn->queued += to - from;
	return true;
}

static void queue_drop_first(struct conn *conn)
{
	struct conn_piece *piece = conn->queue.first;
	conn->queue.first = piece->next;
	if (conn->queue.first == NULL)
		conn->queue.last = NULL;
	piece_lift(conn, piece);
	piece_release(conn, piece);
}

static void queue_clear(struct conn *conn)
{
	struct conn_piece *piece = conn->queue.first;
	while (piece != NULL) {
		struct conn_piece *next = piece->next;
		struct buf *buf = piece->buf;
		piece->buf = NULL;
		piece_release(conn, piece);
		buf_drop(&conn->loop->bufs, buf);
		piece = next;
	}
	conn->queue = (struct piece_link){NULL, NULL};
	conn->queued = conn->held = conn->borrowed = 0;
}

static void queue_consume(struct conn *conn, uint32_t size)
{
	if (LIKELY(size == conn->queued)) {
		queue_clear(conn);
		return;
	}
	CHECK(size < conn->queued);
	conn->queued -= size;
	while (size > 0) {
		struct conn_piece *piece = conn->queue.first;
		uint32_t part = MIN(size, piece_size(piece));
		piece->from += part;
		size -= part;
		if (piece_size(piece) == 0)
			queue_drop_first(conn);
	}
}

void conn_unqueue(struct conn *conn)
{
	CHECK(!conn_flies(conn, OP_SEND));
	queue_clear(conn);
}

/* With a send in flight that waits for room; all others are in loop->to_send. */
static bool conn_may_stall(const struct conn *conn)
{
	return conn_flies(conn, OP_SEND) && !conn->hasty;
}

/* A hasty send stays listed, whatever becomes of the conn: nothing else ends it. */
void conn_unlist(struct conn *conn)
{
	struct loop *loop = conn->loop;
	if (link_is_in(&conn->send_link) && !conn->hasty)
		list_remove(conn_may_stall(conn) ? &loop->stalled : &loop->to_send,
		            &conn->send_link);
}

static void conn_enlist(struct conn *conn)
{
	struct loop *loop = conn->loop;
	if (link_is_in(&conn->send_link))
		return;
	if (UNLIKELY(conn_may_stall(conn))) {
		if (conn->borrowed > 0)
			loop_add_rare(loop, &loop->stalled, &conn->send_link);
	} else if (conn->queue.first != NULL) {
		list_append(&loop->to_send, &conn->send_link);
	}
}

static void queue_grown(struct conn *conn)
{
	if (UNLIKELY(conn->held > CONN_QUEUE_HIGH))
		conn->full = true;
	conn_enlist(conn);
}

static COLD void queue_failed(struct conn *conn)
{
	conn_fail(conn, -ENOMEM);
	conn_tend(conn);
}

/* The last piece, unless the send in flight covers it. */
static struct conn_piece *queue_open_end(const struct conn *conn)
{
	return conn->queued > conn->sending ? conn->queue.last : NULL;
}

/* What fits into the block at the end of the queue, if that is ours alone. */
static uint32_t queue_room(const struct conn *conn)
{
	const struct conn_piece *last = queue_open_end(conn);
	if (last == NULL || last->buf->origin != BUF_BLOCK || last->buf->holders != 1 ||
	    last->to != last->buf->used)
		return 0;
	return last->buf->capacity - last->buf->used;
}

/* Fills up that block; returns what went in. */
static uint32_t queue_fill_up(struct conn *conn, const uint8_t *bytes, uint32_t size)
{
	uint32_t part = MIN(size, queue_room(conn));
	if (part == 0)
		return 0;
	struct conn_piece *last = conn->queue.last;
	struct buf *buf = last->buf;
	memcpy(buf->data + buf->used, bytes, part);
	buf->used += part;
	last->to += part;
	conn->queued += part;
	return part;
}

/* Makes the last piece longer, if the bytes follow it or it has room for them. */
static bool queue_extend(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	uint32_t size = to - from;
	struct conn_piece *last = queue_open_end(conn);
	if (last != NULL && last->buf == buf && last->to == from) {
		last->to = to;
		conn->queued += size;
		return true;
	}
	if (size > COPY_AFTER_MAX || size > queue_room(conn))
		return false;
	queue_fill_up(conn, buf->data + from, size);
	return true;
}

void conn_send(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	CHECK(from <= to && to <= buf->used);
	if (conn->state != CONN_OPEN || from == to)
		return;
	if (conn->queue.first != NULL && queue_extend(conn, buf, from, to))
		return;
	buf_hold(buf);
	if (LIKELY(queue_append(conn, buf, from, to)))
		queue_grown(conn);
	else
		queue_failed(conn);
}

void conn_send_copy(struct conn *conn, const void *bytes, uint32_t size)
{
	const uint8_t *rest = bytes;
	if (conn->state != CONN_OPEN || size == 0)
		return;
	uint32_t part = queue_fill_up(conn, rest, size);
	while (part < size) {
		rest += part;
		size -= part;
		uint32_t room = conn->queued > 0 ? MAX(size, COPY_BLOCK_MIN) : size;
		struct buf *block = buf_block(&conn->loop->bufs, MIN(room, COPY_BLOCK_MAX));
		if (block == NULL) {
			queue_failed(conn);
			return;
		}
		part = MIN(size, block->capacity);
		memcpy(block->data, rest, part);
		block->used = part;
		if (!queue_append(conn, block, 0, part)) {
			queue_failed(conn);
			return;
		}
	}
	queue_grown(conn);
}

/* As many pieces as fit; returns their bytes. */
static uint32_t gather_fill(struct gather *gather, const struct conn *conn)
{
	uint32_t total = 0;
	size_t count = 0;
	for (const struct conn_piece *piece = conn->queue.first;
	     piece != NULL && count < SEND_PIECES_MAX; piece = piece->next) {
		uint32_t size = piece_size(piece);
		if (count > 0 && size > SEND_BYTES_MAX - total)
			break;
		gather->parts[count++] = (struct iovec){
			.iov_base = piece->buf->data + piece->from,
			.iov_len = size,
		};
		total += size;
	}
	gather->message = (struct msghdr){.msg_iov = gather->parts, .msg_iovlen = count};
	return total;
}

static bool conn_may_hasten(const struct conn *conn)
{
	return conn->loop->sends_now && conn->state == CONN_OPEN && !conn->patient && !conn->full &&
	       conn->queued <= HASTY_BYTES_MAX;
}

static void send_gather(struct conn *conn, uint64_t user_data)
{
	struct ring *ring = conn->loop->ring;
	conn->sending = gather_fill(conn->gather, conn);
	if (conn->hasty)
		ring_sendmsg_now(ring, user_data, conn->fd, &conn->gather->message);
	else
		ring_sendmsg(ring, user_data, conn->fd, &conn->gather->message);
}

static void send_first(struct conn *conn, uint64_t user_data)
{
	struct ring *ring = conn->loop->ring;
	const struct conn_piece *first = conn->queue.first;
	const uint8_t *bytes = first->buf->data + first->from;
	conn->sending = piece_size(first);
	if (conn->hasty)
		ring_send_now(ring, user_data, conn->fd, bytes, conn->sending);
	else
		ring_send(ring, user_data, conn->fd, bytes, conn->sending);
}

void conn_flush(struct conn *conn)
{
	struct loop *loop = conn->loop;
	uint64_t user_data = op_user_data(&conn->owner, OP_SEND);
	if (UNLIKELY(conn->hasty))
		return; /* since an earlier turn */
	if (UNLIKELY(conn->queue.first == NULL)) {
		conn_end_send(conn);
		return;
	}
	conn_begin(conn, OP_SEND);
	conn->hasty = conn_may_hasten(conn);
	if (conn->queue.first->next != NULL)
		conn->gather = slab_acquire_raw(&loop->gathers);
	if (UNLIKELY(conn->gather != NULL))
		send_gather(conn, user_data);
	else /* one piece; or no memory for a gather, then one after the other */
		send_first(conn, user_data);
	loop->sends++;
	if (LIKELY(conn->hasty)) {
		loop->hasty++;
	} else {
		list_remove(&loop->to_send, &conn->send_link);
		conn->sent_ms = (uint32_t)(loop->now_us / 1000);
		conn_enlist(conn);
	}
}

/* Adds the bytes of `piece` to the block under `block`. */
static void piece_pour(struct conn_piece *block, const struct conn_piece *piece)
{
	struct buf *buf = block->buf;
	uint32_t size = piece_size(piece);
	memcpy(buf->data + buf->used, piece->buf->data + piece->from, size);
	buf->used += size;
	block->to += size;
}

/* Replaces the receive buffer under a piece by a block with room for more. */
static bool piece_settle(struct conn *conn, struct conn_piece *piece, uint32_t room)
{
	struct buf *block = buf_block(&conn->loop->bufs, room);
	if (block == NULL)
		return false;
	struct conn_piece copy = {.buf = block};
	piece_pour(&copy, piece);
	piece_lift(conn, piece);
	piece_lay(conn, piece, block, 0, copy.to);
	return true;
}

/* Copies what lies in receive buffers and is not in flight, small pieces
 * together in large blocks.  Without memory the rest stays where it is. */
static void queue_copy_out(struct conn *conn)
{
	struct conn_piece *before = NULL;
	struct conn_piece *piece = conn->queue.first;
	uint32_t covered = 0;
	for (; piece != NULL && covered < conn->sending; piece = piece->next) {
		covered += piece_size(piece);
		before = piece;
	}
	bool open = false; /* the block under `before` is of this pass */
	uint32_t left = conn->queued - covered;
	for (; piece != NULL; piece = before->next) {
		uint32_t size = piece_size(piece);
		if (piece->buf->origin == BUF_BLOCK) {
			open = false;
			before = piece;
		} else if (open && size <= before->buf->capacity - before->buf->used) {
			piece_pour(before, piece);
			before->next = piece->next;
			if (conn->queue.last == piece)
				conn->queue.last = before;
			piece_lift(conn, piece);
			piece_release(conn, piece);
		} else {
			if (!piece_settle(conn, piece, MAX(size, MIN(left, COPY_BLOCK_MAX))))
				return;
			open = true;
			before = piece;
		}
		left -= size;
	}
}

void conn_copy_out(struct conn *conn)
{
	queue_copy_out(conn);
	if (conn->borrowed == 0) {
		conn_unlist(conn);
		conn_enlist(conn);
	} else if (conn_flies(conn, OP_SEND) && !conn->copying) {
		conn->copying = true;
		ring_cancel(conn->loop->ring, op_user_data(&conn->owner, OP_SEND));
	}
}

/* Nobody waits for the completion of a hasty send any more. */
static void conn_calm(struct conn *conn)
{
	CHECK(conn->hasty && conn->loop->hasty > 0);
	list_remove(&conn->loop->to_send, &conn->send_link);
	conn->loop->hasty--;
	conn->hasty = false;
}

static void send_end(struct conn *conn)
{
	conn_end(conn, OP_SEND);
	if (UNLIKELY(conn->gather != NULL))
		slab_release(&conn->loop->gathers, conn->gather);
	conn->gather = NULL;
	conn->sending = 0;
}

/* What is queued since, or still, and what there is room for again. */
static void send_go_on(struct conn *conn)
{
	if (conn->state == CONN_CLOSING)
		return;
	conn_enlist(conn);
	if (conn->full && conn->held < CONN_QUEUE_LOW) {
		conn->full = false;
		if (conn->state != CONN_LINGERING)
			conn->events->on_room(conn);
	}
}

void conn_sent(struct conn *conn, const struct completion *completion)
{
	int32_t result = completion->result;
	bool copying = conn->copying;
	if (conn->hasty)
		conn_calm(conn);
	conn_unlist(conn);
	CHECK(result <= (int64_t)conn->sending);
	conn->patient = result != (int64_t)conn->sending;
	conn->copying = false;
	send_end(conn);
	if (result > 0)
		queue_consume(conn, (uint32_t)result);
	else if (result < 0 && result != -ECANCELED && result != -EINTR && result != -EAGAIN)
		conn_fail(conn, result);
	if (copying && conn->state != CONN_CLOSING)
		queue_copy_out(conn);
	send_go_on(conn);
}

void conn_sent_less(struct conn *conn)
{
	if (conn->hasty)
		conn_calm(conn); /* else it completes as usual */
}

void conn_sent_all(struct conn *conn)
{
	uint32_t size = conn->sending;
	conn_calm(conn);
	send_end(conn);
	queue_consume(conn, size);
	if (UNLIKELY(conn->queue.first != NULL || conn->full))
		send_go_on(conn);
	if (UNLIKELY(conn->state != CONN_OPEN))
		conn_tend(conn);
}
