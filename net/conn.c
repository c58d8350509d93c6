/*
 * conn.c - life and receiving of a conn; see conn.h.  Sending: conn_send.c.
 *
 * Owners and the kernel change their minds faster than operations end: a conn
 * is paused, resumed and detached again before the cancel of its receive has
 * come back.  So nothing here is a reaction to a particular change.  Wishes are
 * flags and the state; what is under way is in_flight; conn_tend() compares the
 * two, starts what is missing and cancels what is too much.  It runs after
 * every change and every completion but the usual one, bytes of a receive that
 * goes on, and repeats nothing already asked for.
 *
 * To end a receive is dear where many are armed: the kernel looks for it in a table
 * of few buckets.  So that of a conn which is paused quietly stays until something
 * comes; nearly all that wait for a server say nothing meanwhile.
 *
 * A cancel and what is armed after it reach the kernel in that order, so a
 * cancel never hits the successor; -ECANCELED nobody asked for is still no
 * error, just a reason to arm again.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/conn.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/limits.h"
#include "net/conn_parts.h"
#include "net/loop.h"
#include "net/sys.h"

static void conn_cancel(struct conn *conn, enum op_kind kind)
{
	ring_cancel(conn->loop->ring, op_user_data(&conn->owner, kind));
}

/* Somebody is there to hear what the peer says. */
static bool conn_listens(const struct conn *conn)
{
	return conn->state == CONN_OPEN || conn->state == CONN_DETACHING;
}

void conn_fail(struct conn *conn, int error)
{
	if (conn->state == CONN_CLOSED || conn->state == CONN_CLOSING)
		return;
	if (conn->state == CONN_LINGERING)
		list_remove(&conn->loop->lingering, &conn->wait_link);
	conn->state = CONN_CLOSING;
	conn->error = error;
	conn_unlist(conn);
	if (conn_flies(conn, OP_SEND) && !conn->copying && !conn->hasty)
		conn_cancel(conn, OP_SEND);
	if (conn_flies(conn, OP_CONNECT))
		conn_cancel(conn, OP_CONNECT);
}

/* Says end of file when all is out, and leaves when the peer has said it: most that
 * part say both in one breath, and closing is enough then.  So it is not said before
 * the completions of this turn are through. */
static void linger_tend(struct conn *conn)
{
	if (conn->state != CONN_LINGERING || conn->queue.first != NULL)
		return;
	if (conn->ended)
		conn_fail(conn, 0);
	else if (!conn->shut && !link_is_in(&conn->send_link))
		list_append(&conn->loop->to_send, &conn->send_link);
}

void conn_end_send(struct conn *conn)
{
	CHECK(conn->state == CONN_LINGERING && !conn->shut);
	list_remove(&conn->loop->to_send, &conn->send_link);
	conn->shut = true;
	(void)sys_end_send(conn->fd); /* fails if the peer is gone: the receive tells */
}

static void receive_arm(struct conn *conn)
{
	conn_begin(conn, OP_RECV);
	ring_recv(conn->loop->ring, op_user_data(&conn->owner, OP_RECV), conn->fd, conn->group,
	          !conn->armed);
	conn->armed = true;
}

static void receive_tend(struct conn *conn)
{
	bool wanted = !conn->ended && (conn->state == CONN_LINGERING ||
	                               (conn->state == CONN_OPEN && !conn->paused));
	bool stays = wanted || (conn->state == CONN_OPEN && !conn->ended && !conn->unheard);
	if (!wanted && link_is_in(&conn->starved_link))
		list_remove(&conn->loop->starved[conn->group], &conn->starved_link);
	if (conn_flies(conn, OP_RECV)) {
		if (!stays && !conn->canceling) {
			conn->canceling = true;
			conn_cancel(conn, OP_RECV);
		}
	} else if (wanted && !link_is_in(&conn->starved_link)) {
		receive_arm(conn);
	}
}

/* The poll watches for the peer's leaving while no receive does. */
static void poll_tend(struct conn *conn)
{
	bool wanted = conn->state == CONN_OPEN && conn->paused && !conn->ended && !conn->hung_up &&
	              !conn_flies(conn, OP_RECV);
	if (conn_flies(conn, OP_POLL)) {
		if (!wanted && !conn->unpolling) {
			conn->unpolling = true;
			conn_cancel(conn, OP_POLL);
		}
	} else if (wanted) {
		conn_begin(conn, OP_POLL);
		ring_poll(conn->loop->ring, op_user_data(&conn->owner, OP_POLL), conn->fd,
		          POLLRDHUP | POLLHUP | POLLERR);
	}
}

void conn_tend(struct conn *conn)
{
	linger_tend(conn);
	receive_tend(conn);
	poll_tend(conn);
	bool settled = conn->state == CONN_CLOSING ||
	               (conn->state == CONN_DETACHING && !conn->detached &&
	                conn->queue.first == NULL);
	if (settled && conn->in_flight == 0 && !link_is_in(&conn->wait_link))
		loop_add_rare(conn->loop, &conn->loop->settled, &conn->wait_link);
}

/* Does nothing, unless this build is slower on purpose: see meson_options.txt. */
static void slow_down(void)
{
#ifdef SLOW_BY
	for (int i = 0; i < SLOW_BY; i++)
		(void)getppid();
#endif
}

static void conn_heard(struct conn *conn, const struct completion *completion)
{
	struct buf_pool *bufs = &conn->loop->bufs;
	uint32_t size = (uint32_t)MAX(completion->result, 0);
	slow_down();
	struct buf *buf = buf_received(bufs, conn->group, completion->buffer, size);
	if (LIKELY(size > 0 && conn_listens(conn)))
		conn->events->on_bytes(conn, buf, 0, size);
	buf_drop(bufs, buf);
}

static void conn_received(struct conn *conn, const struct completion *completion)
{
	int32_t result = completion->result;
	if (!completion->more) {
		conn_end(conn, OP_RECV);
		conn->canceling = false;
	}
	conn->unheard |= conn->paused && result > 0;
	if (completion->has_buffer)
		conn_heard(conn, completion);
	if (result == 0) {
		bool news = !conn->ended;
		conn->ended = true;
		if (news && conn_listens(conn))
			conn->events->on_eof(conn);
	} else if (result == -ENOBUFS) {
		if (!completion->more && !link_is_in(&conn->starved_link))
			loop_add_rare(conn->loop, &conn->loop->starved[conn->group],
			              &conn->starved_link);
	} else if (result < 0 && result != -ECANCELED && result != -EINTR && result != -EAGAIN) {
		conn_fail(conn, result);
	}
}

static void conn_connected(struct conn *conn, const struct completion *completion)
{
	conn_end(conn, OP_CONNECT);
	if (conn->state != CONN_OPENING)
		return;
	if (completion->result < 0) {
		conn_fail(conn, completion->result);
		return;
	}
	conn->state = CONN_OPEN;
	conn->events->on_open(conn);
}

static void conn_polled(struct conn *conn, const struct completion *completion)
{
	conn_end(conn, OP_POLL);
	conn->unpolling = false;
	if (completion->result < 0) {
		if (completion->result != -ECANCELED && completion->result != -EINTR)
			conn_fail(conn, completion->result);
	} else if (conn->state == CONN_OPEN && conn->paused && !conn->hung_up) {
		conn->hung_up = true;
		conn->events->on_hangup(conn);
	}
}

static void conn_completed(struct op_owner *owner, enum op_kind kind,
                           const struct completion *completion)
{
	struct conn *conn = CONTAINER(struct conn, owner, owner);
	if (LIKELY(kind == OP_RECV && completion->has_buffer && completion->more &&
	           !conn->paused)) {
		conn_heard(conn, completion);
		return;
	}
	switch (kind) {
	case OP_RECV: conn_received(conn, completion); break;
	case OP_SEND: conn_sent(conn, completion); break;
	case OP_CONNECT: conn_connected(conn, completion); break;
	case OP_POLL: conn_polled(conn, completion); break;
	case OP_ACCEPT:
	case OP_BELL:
	case OP_KIND_COUNT: CHECK(false);
	}
	conn_tend(conn);
}

struct conn *conn_of(struct op_owner *owner)
{
	return owner->on_completion == conn_completed ? CONTAINER(struct conn, owner, owner) : NULL;
}

bool conn_waits(const struct conn *conn)
{
	return conn->state == CONN_OPEN && conn_flies(conn, OP_RECV) && !conn->canceling;
}

void conn_receive_again(struct conn *conn)
{
	CHECK(conn_waits(conn));
	conn->canceling = true;
	conn_cancel(conn, OP_RECV); /* its completion arms the next: conn_tend() */
}

static bool conn_start(struct conn *conn, struct loop *loop, int fd, uint8_t group,
                       const struct conn_events *events)
{
	CHECK(conn->state == CONN_CLOSED && group < RING_GROUP_COUNT);
	*conn = (struct conn){
		.owner.on_completion = conn_completed,
		.events = events,
		.loop = loop,
		.fd = fd,
		.group = group,
	};
	return op_register(&loop->ops, &conn->owner);
}

/* NOLINTNEXTLINE(readability-function-size): six parameters, none goes with another */
bool conn_accept(struct conn *conn, struct loop *loop, int fd, uint8_t group,
                 const struct conn_events *events, bool has_spoken)
{
	if (!conn_start(conn, loop, fd, group, events))
		return false;
	conn->state = CONN_OPEN;
	conn->armed = has_spoken;
	conn_tend(conn);
	return true;
}

int conn_connect(struct conn *conn, struct loop *loop, const struct addr *addr, uint8_t group,
                 const struct conn_events *events)
{
	int fd = sys_socket(addr->any.sa_family);
	if (fd < 0)
		return fd;
	if (!conn_start(conn, loop, fd, group, events)) {
		sys_close(fd);
		return -ENOMEM;
	}
	conn->state = CONN_OPENING;
	conn_begin(conn, OP_CONNECT);
	ring_connect(loop->ring, op_user_data(&conn->owner, OP_CONNECT), fd, &addr->any,
	             addr->size);
	return 0;
}

static void conn_set_paused(struct conn *conn, bool paused, bool unheard)
{
	if (conn->paused == paused && conn->unheard == unheard)
		return;
	conn->paused = paused;
	conn->unheard = unheard;
	if (conn->state == CONN_OPEN)
		conn_tend(conn);
}

void conn_pause(struct conn *conn)
{
	conn_set_paused(conn, true, true);
}

void conn_pause_quietly(struct conn *conn)
{
	if (!conn->paused)
		conn_set_paused(conn, true, false);
}

void conn_resume(struct conn *conn)
{
	conn_set_paused(conn, false, false);
}

void conn_detach(struct conn *conn)
{
	CHECK(conn->state != CONN_CLOSED && conn->state != CONN_OPENING);
	if (conn->state != CONN_OPEN)
		return;
	conn->state = CONN_DETACHING;
	conn->detached = false;
	conn_tend(conn);
}

int conn_release(struct conn *conn)
{
	CHECK(conn->state == CONN_DETACHING && conn->detached && conn->in_flight == 0);
	int fd = conn->fd;
	op_unregister(&conn->loop->ops, &conn->owner);
	conn->state = CONN_CLOSED;
	conn->fd = -1;
	return fd;
}

void conn_reattach(struct conn *conn)
{
	CHECK(conn->state == CONN_DETACHING && conn->detached);
	conn->state = CONN_OPEN;
	conn_tend(conn);
}

void conn_finish(struct conn *conn)
{
	struct loop *loop = conn->loop;
	if (conn->state == CONN_OPENING) {
		conn_close(conn);
		return;
	}
	if (!conn_listens(conn))
		return;
	if (link_is_in(&conn->wait_link))
		list_remove(&loop->settled, &conn->wait_link);
	conn->state = CONN_LINGERING;
	conn->linger_until_ms = (uint32_t)(loop->now_us / 1000) + CONN_LINGER_MS;
	loop_add_rare(loop, &loop->lingering, &conn->wait_link);
	conn_tend(conn);
}

void conn_close(struct conn *conn)
{
	if (conn->state == CONN_CLOSED || conn->state == CONN_CLOSING)
		return;
	conn_fail(conn, 0);
	conn_tend(conn);
}

void conn_linger_expire(struct conn *conn)
{
	CHECK(conn->state == CONN_LINGERING);
	conn_close(conn);
}

void conn_starved_retry(struct conn *conn)
{
	list_remove(&conn->loop->starved[conn->group], &conn->starved_link);
	conn_tend(conn);
}

void conn_settled(struct conn *conn)
{
	CHECK(conn->in_flight == 0);
	struct loop *loop = conn->loop;
	list_remove(&loop->settled, &conn->wait_link);
	if (conn->state == CONN_DETACHING) {
		conn->detached = true;
		conn->events->on_detached(conn);
		return;
	}
	CHECK(conn->state == CONN_CLOSING);
	conn_unqueue(conn);
	op_unregister(&loop->ops, &conn->owner);
	sys_close(conn->fd);
	conn->fd = -1;
	conn->state = CONN_CLOSED;
	conn->events->on_closed(conn, conn->error);
}
