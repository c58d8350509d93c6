/*
 * listen.c - accepting goes on through everything, and ends in one on_closed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/listen.h"

#include "tests/unit/net_pair.h"

#include <stdio.h>
#include <sys/resource.h>

enum { FDS_MAX = 1000 };

struct counted {
	struct listener listener;
	int fds[FDS_MAX];
	int accepted, trouble, closed;
	int error;
	bool close_on_accept, close_on_trouble, inside;
};

static struct loop loop;

static void close_it(struct counted *counted)
{
	counted->inside = true;
	listener_close(&counted->listener);
	listener_close(&counted->listener);
	counted->inside = false;
}

static void count_accept(struct listener *listener, int fd)
{
	struct counted *counted = CONTAINER(struct counted, listener, listener);
	cr_assert_eq(counted->closed, 0);
	cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	counted->fds[counted->accepted++] = fd;
	if (counted->close_on_accept)
		close_it(counted);
}

static void count_trouble(struct listener *listener, int error)
{
	struct counted *counted = CONTAINER(struct counted, listener, listener);
	counted->trouble++;
	counted->error = error;
	if (counted->close_on_trouble)
		close_it(counted);
}

static void count_closed(struct listener *listener)
{
	struct counted *counted = CONTAINER(struct counted, listener, listener);
	cr_assert_not(counted->inside);
	cr_assert_eq(++counted->closed, 1);
}

static const struct listener_events events = {
	.on_accept = count_accept,
	.on_trouble = count_trouble,
	.on_closed = count_closed,
};

static void count_connects(const struct addr *addr, int *fds, int count)
{
	for (int i = 0; i < count; i++) {
		fds[i] = socket(addr->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(fds[i], &addr->any, addr->size), 0, "%s", strerror(errno));
	}
}

static void close_all(int *fds, int count)
{
	for (int i = 0; i < count; i++)
		close(fds[i]);
}

static void accept_until(struct counted *counted, int count)
{
	for (int i = 0; counted->accepted < count; i++) {
		cr_assert_lt(i, 2000, "%d of %d", counted->accepted, count);
		loop_turn(&loop, 1000);
	}
}

static void close_until(struct counted *counted)
{
	close_it(counted);
	cr_assert_eq(counted->closed, 0);
	for (int i = 0; counted->closed == 0; i++) {
		cr_assert_lt(i, 2000);
		loop_turn(&loop, 1000);
	}
	cr_assert_eq(loop.ops.used, 0);
	cr_assert_eq(counted->listener.fd, -1);
}

Test(listen, accepts_and_closes)
{
	static struct counted counted;
	static int fds[FDS_MAX];
	struct addr addr;
	test_loop_open(&loop);
	for (int is_unix = 0; is_unix < 2; is_unix++) {
		int fd;
		if (is_unix == 0) {
			fd = test_listen(&addr);
		} else {
			addr = (struct addr){.size = sizeof(sa_family_t) + 20};
			addr.local.sun_family = AF_UNIX;
			snprintf(addr.local.sun_path + 1, 20, "unit-listen-%d", (int)getpid());
			fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
			cr_assert_eq(bind(fd, &addr.any, addr.size), 0);
			cr_assert_eq(listen(fd, 512), 0);
		}
		counted = (struct counted){0};
		cr_assert(listener_open(&counted.listener, &loop, fd, &events));
		cr_assert_eq(counted.listener.is_unix, is_unix == 1);
		for (int sofar = 0; sofar < 300; sofar += 100) {
			count_connects(&addr, fds + sofar, 100);
			accept_until(&counted, sofar + 100);
		}
		close_until(&counted);
		cr_assert_eq(fcntl(fd, F_GETFD), -1);
		cr_assert_eq(counted.trouble, 0);
		close_all(fds, 300);
		close_all(counted.fds, counted.accepted);
	}

	/* At once, and from inside on_accept. */
	for (int inside = 0; inside < 2; inside++) {
		counted = (struct counted){.close_on_accept = inside == 1};
		int fd = test_listen(&addr);
		cr_assert(listener_open(&counted.listener, &loop, fd, &events));
		if (inside == 1) {
			count_connects(&addr, fds, 3);
			accept_until(&counted, 1);
		}
		close_until(&counted);
		close_all(fds, inside * 3);
		close_all(counted.fds, counted.accepted);
	}
	loop_close(&loop);
}

Test(listen, out_of_descriptors)
{
	enum { ROOM = 5, CALLERS = 12 };
	static struct counted counted;
	struct rlimit limit;
	struct addr addr;
	int fds[CALLERS];
	test_loop_open(&loop);
	for (int inside = 0; inside < 2; inside++) {
		int fd = test_listen(&addr);
		count_connects(&addr, fds, CALLERS);
		int next = dup(fd);
		close(next);
		getrlimit(RLIMIT_NOFILE, &limit);
		struct rlimit low = limit;
		low.rlim_cur = (rlim_t)next + ROOM;
		setrlimit(RLIMIT_NOFILE, &low);

		counted = (struct counted){.close_on_trouble = inside == 1};
		cr_assert(listener_open(&counted.listener, &loop, fd, &events));
		accept_until(&counted, ROOM);
		uint64_t turns = loop.turns;
		uint64_t start = sys_clock_us();
		while (sys_clock_us() - start < 350 * 1000)
			loop_turn(&loop, 50 * 1000);
		cr_assert_eq(counted.accepted, ROOM);
		cr_assert_eq(counted.trouble, 1);
		cr_assert_eq(counted.error, -EMFILE);
		cr_assert_leq(loop.turns - turns, 30);
		if (inside == 1) {
			cr_assert_eq(counted.closed, 1);
		} else {
			/* Those who waited are served as soon as there is room. */
			close_all(counted.fds, ROOM);
			accept_until(&counted, 2 * ROOM);
			setrlimit(RLIMIT_NOFILE, &limit);
			accept_until(&counted, CALLERS);
			close_all(counted.fds + ROOM, CALLERS - ROOM);
			close_until(&counted);
		}
		setrlimit(RLIMIT_NOFILE, &limit);
		if (inside == 1)
			close_all(counted.fds, ROOM);
		close_all(fds, CALLERS);
	}
	loop_close(&loop);
}

Test(listen, closes_while_suspended)
{
	static struct counted counted;
	test_loop_open(&loop);
	/* A descriptor that does not listen: every accept fails. */
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(listener_open(&counted.listener, &loop, fd, &events));
	uint64_t turns = loop.turns;
	for (int i = 0; i < 30; i++)
		loop_turn(&loop, 10 * 1000);
	cr_assert_eq(counted.trouble, 1);
	cr_assert_eq(counted.error, -EINVAL);
	cr_assert_leq(loop.turns - turns, 40);
	cr_assert(counted.listener.suspended);
	close_until(&counted);
	loop_close(&loop);
}
