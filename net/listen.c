/*
 * listen.c - see listen.h.
 *
 * The kernel ends a multishot accept with the first error.  Errors of the one
 * connection that was being accepted are no reason to wait; after all others
 * the accept is armed again 100 ms later.  For want of descriptors that is the
 * point (the limit is looked up when the accept is armed, so it cannot help
 * earlier), for errors nobody has thought of it keeps the loop from spinning.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/listen.h"

#include <errno.h>

#include "core/base/check.h"
#include "net/loop.h"
#include "net/sys.h"

enum { RETRY_US = 100 * 1000, TELL_US = 1000 * 1000 };

static void listener_arm(struct listener *listener)
{
	listener->accepting = true;
	ring_accept(listener->loop->ring, op_user_data(&listener->owner, OP_ACCEPT), listener->fd);
}

/* Errors that the next connection need not have. */
static bool is_passing(int error)
{
	switch (error) {
	case -EAGAIN:
	case -EINTR:
	case -ECANCELED:
	case -ECONNABORTED:
	case -EPROTO:
	case -EPERM: return true; /* a firewall's word on one connection */
	default: return false;
	}
}

static void listener_suspend(struct listener *listener, int error)
{
	struct loop *loop = listener->loop;
	listener->suspended = true;
	wheel_arm(&loop->wheel, &listener->retry, loop->now_us + RETRY_US);
	if (listener->told_us != 0 && loop->now_us - listener->told_us < TELL_US)
		return;
	listener->told_us = loop->now_us;
	listener->events->on_trouble(listener, error);
}

static void listener_end(struct listener *listener)
{
	wheel_disarm(&listener->loop->wheel, &listener->retry);
	op_unregister(&listener->loop->ops, &listener->owner);
	sys_close(listener->fd);
	listener->fd = -1;
	listener->events->on_closed(listener);
}

static void listener_retry(struct timer *timer)
{
	struct listener *listener = CONTAINER(struct listener, retry, timer);
	listener->suspended = false;
	if (listener->closing)
		listener_end(listener);
	else
		listener_arm(listener);
}

static void listener_completed(struct op_owner *owner, enum op_kind kind,
                               const struct completion *completion)
{
	struct listener *listener = CONTAINER(struct listener, owner, owner);
	int32_t result = completion->result;
	CHECK(kind == OP_ACCEPT && listener->accepting);
	listener->accepting = completion->more;
	if (result >= 0)
		listener->events->on_accept(listener, result);
	if (listener->accepting)
		return;
	if (listener->closing)
		listener_end(listener);
	else if (result >= 0 || is_passing(result))
		listener_arm(listener);
	else
		listener_suspend(listener, result);
}

bool listener_open(struct listener *listener, struct loop *loop, int fd,
                   const struct listener_events *events)
{
	struct addr own;
	*listener = (struct listener){
		.owner.on_completion = listener_completed,
		.events = events,
		.loop = loop,
		.fd = fd,
		.is_unix = sys_own_name(fd, &own) == 0 && own.any.sa_family == AF_UNIX,
		.retry.fire = listener_retry,
	};
	if (!op_register(&loop->ops, &listener->owner))
		return false;
	listener_arm(listener);
	return true;
}

void listener_close(struct listener *listener)
{
	struct loop *loop = listener->loop;
	if (listener->closing)
		return;
	listener->closing = true;
	if (listener->accepting)
		ring_cancel(loop->ring, op_user_data(&listener->owner, OP_ACCEPT));
	else
		/* Nothing to wait for, but no event comes from inside a call. */
		wheel_arm(&loop->wheel, &listener->retry, loop->now_us);
}
