/*
 * The ring against the kernel of this machine.
 *
 * Operations are told apart by user_data: the order of their completions is the
 * kernel's affair.  ring_limits.c has what happens when something runs out.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/ring.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/check.h"
#include "net/addr.h"
#include "net/sys.h"

enum { LONG_US = 10 * 1000 * 1000, SECOND_US = 1000 * 1000 };

static struct ring *ring_of(uint32_t entries, uint32_t completions)
{
	struct ring_options options = {.entries = entries, .completions = completions};
	struct ring_failure failure = {{0}};
	struct ring *ring = ring_open(&options, &failure);
	cr_assert_not_null(ring, "%s", failure.text);
	return ring;
}

static void socket_pair(int pair[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void write_all(int fd, const void *bytes, size_t size)
{
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
}

/* Turns until the ring has completed something; it must be one thing. */
static struct completion turn_one(struct ring *ring)
{
	uint64_t end = sys_clock_us() + LONG_US;
	while (sys_clock_us() < end) {
		uint32_t count = ring_turn(ring, sys_clock_us() + SECOND_US);
		cr_assert_leq(count, 1);
		if (count == 1)
			return *ring_completion(ring, 0);
	}
	cr_assert(false, "nothing was completed");
	return (struct completion){0};
}

static void assert_quiet(struct ring *ring)
{
	cr_assert_eq(ring_turn(ring, sys_clock_us() + 2000), 0);
}

static void fill_pattern(uint8_t *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)((i + seed) * 2654435761U >> 24);
}

/* ------------------------------------------------------------- sends, receives */

/* Bytes of all sizes go over the ring both ways; buffers come back late and in
 * any order. */
Test(ring, echo)
{
	enum { COUNT = 8, SIZE = 64, TOTAL = 40000 };
	static uint8_t sent[TOTAL], got[TOTAL];
	struct ring *ring = ring_of(64, 256);
	uint8_t *memory = ring_group_open(ring, RING_GROUP_SERVER, COUNT, SIZE);
	cr_assert_not_null(memory);
	int pair[2];
	socket_pair(pair);
	fill_pattern(sent, sizeof sent, 1);

	uint16_t kept[COUNT];
	uint32_t kept_count = 0, from = 0, arrived = 0;
	uint32_t in_flight = 0;
	bool receiving = false;
	while (arrived < TOTAL) {
		if (in_flight == 0 && from < TOTAL) {
			in_flight = MIN(1 + from % 700, TOTAL - from);
			ring_send(ring, 2, pair[1], sent + from, in_flight);
		}
		if (!receiving)
			ring_recv(ring, 1, pair[0], RING_GROUP_SERVER, true);
		receiving = true;
		uint32_t count = ring_turn(ring, sys_clock_us() + LONG_US);
		cr_assert_gt(count, 0);
		for (uint32_t i = 0; i < count; i++) {
			struct completion it = *ring_completion(ring, i);
			if (it.user_data == 2) {
				cr_assert_eq(it.result, (int)in_flight);
				cr_assert_not(it.more || it.has_buffer);
				from += in_flight;
				in_flight = 0;
				continue;
			}
			cr_assert_eq(it.user_data, 1);
			receiving = it.more;
			cr_assert_eq(it.has_buffer, it.result > 0);
			cr_assert(it.result > 0 || (it.result == -ENOBUFS && !it.more));
			if (it.result < 0)
				continue;
			cr_assert_lt(it.buffer, COUNT);
			memcpy(got + arrived, memory + it.buffer * SIZE, (size_t)it.result);
			memset(memory + it.buffer * SIZE, 0xee, SIZE);
			arrived += (uint32_t)it.result;
			kept[kept_count++] = it.buffer;
		}
		/* The last that came is the first that goes back. */
		while (kept_count > (receiving ? 3 : 0))
			ring_buffer_give(ring, RING_GROUP_SERVER, kept[--kept_count]);
	}
	cr_assert_arr_eq(got, sent, TOTAL);
	sys_close(pair[0]);
	sys_close(pair[1]);
	ring_close(ring);
}

Test(ring, empty_group_and_end_of_file)
{
	enum { COUNT = 4, SIZE = 64, TOTAL = 600 };
	uint8_t sent[TOTAL];
	struct ring *ring = ring_of(64, 256);
	uint8_t *memory = ring_group_open(ring, RING_GROUP_CLIENT, COUNT, SIZE);
	int pair[2], idle[2];
	socket_pair(pair);
	socket_pair(idle);
	fill_pattern(sent, sizeof sent, 2);
	write_all(pair[1], sent, sizeof sent);

	uint32_t arrived = 0;
	for (uint32_t round = 0; arrived < TOTAL; round++) {
		ring_recv(ring, 1, pair[0], RING_GROUP_CLIENT, false);
		bool ended = false;
		uint16_t lent[COUNT];
		uint32_t lent_count = 0;
		while (!ended && arrived < TOTAL) {
			uint32_t count = ring_turn(ring, sys_clock_us() + LONG_US);
			cr_assert_gt(count, 0);
			for (uint32_t i = 0; i < count; i++) {
				struct completion it = *ring_completion(ring, i);
				cr_assert_eq(it.user_data, 1);
				ended = !it.more;
				if (!it.has_buffer) {
					cr_assert_eq(it.result, -ENOBUFS);
					cr_assert_eq(lent_count, COUNT);
					break;
				}
				cr_assert_lt(lent_count, COUNT);
				cr_assert_eq(memcmp(memory + it.buffer * SIZE, sent + arrived,
				                    (size_t)it.result),
				             0);
				arrived += (uint32_t)it.result;
				lent[lent_count++] = it.buffer;
			}
		}
		if (round == 0) {
			/* An idle socket may wait without a buffer, if told so. */
			ring_recv(ring, 2, idle[0], RING_GROUP_CLIENT, true);
			assert_quiet(ring);
		}
		while (lent_count > 0)
			ring_buffer_give(ring, RING_GROUP_CLIENT, lent[--lent_count]);
	}
	cr_assert_eq(arrived, TOTAL);
	assert_quiet(ring);

	cr_assert_eq(sys_end_send(idle[1]), 0);
	struct completion end = turn_one(ring);
	cr_assert_eq(end.user_data, 2);
	cr_assert(end.result == 0 && !end.more && !end.has_buffer);
	sys_close(pair[1]);
	end = turn_one(ring);
	cr_assert_eq(end.user_data, 1);
	cr_assert(end.result == 0 && !end.more && !end.has_buffer);
	sys_close(pair[0]);
	sys_close(idle[0]);
	sys_close(idle[1]);
	ring_close(ring);
}

Test(ring, cancel)
{
	struct ring *ring = ring_of(64, 256);
	int pair[2];
	socket_pair(pair);
	cr_assert_not_null(ring_group_open(ring, RING_GROUP_CLIENT, 4, 64));
	for (int round = 0; round < 20; round++) {
		ring_recv(ring, 5, pair[0], RING_GROUP_CLIENT, round % 2 == 0);
		if (round % 3 == 0)
			assert_quiet(ring);
		ring_cancel(ring, 99); /* of nobody */
		ring_cancel(ring, 5);
		ring_cancel(ring, 5);
		struct completion it = turn_one(ring);
		cr_assert_eq(it.user_data, 5);
		cr_assert(it.result == -ECANCELED && !it.more && !it.has_buffer);
		assert_quiet(ring);
	}
	/* What was received before stays received. */
	ring_recv(ring, 6, pair[0], RING_GROUP_CLIENT, true);
	assert_quiet(ring);
	write_all(pair[1], "abc", 3);
	ring_cancel(ring, 6);
	int32_t bytes = 0;
	bool more = true;
	while (more) {
		struct completion it = turn_one(ring);
		cr_assert_eq(it.user_data, 6);
		bytes += MAX(it.result, 0);
		more = it.more;
	}
	char rest[8];
	ssize_t left = recv(pair[0], rest, sizeof rest, MSG_DONTWAIT);
	cr_assert_eq(bytes + (left > 0 ? left : 0), 3);

	ring_poll(ring, 7, pair[0], POLLIN);
	char byte;
	ring_read(ring, 8, pair[0], &byte, 1);
	assert_quiet(ring);
	ring_cancel(ring, 8);
	cr_assert_eq(turn_one(ring).user_data, 8);
	ring_cancel(ring, 7);
	struct completion it = turn_one(ring);
	cr_assert(it.user_data == 7 && it.result == -ECANCELED);
	sys_close(pair[0]);
	sys_close(pair[1]);
	ring_close(ring);
}

static uint32_t read_slowly(int fd, uint8_t *bytes, uint32_t size)
{
	ssize_t got = recv(fd, bytes, size, MSG_DONTWAIT);
	return got > 0 ? (uint32_t)got : 0;
}

/* One completion with the whole count, however slow the reader. */
Test(ring, send_all)
{
	enum { TOTAL = 4 * 1024 * 1024, PIECES = 64 };
	uint8_t *sent = malloc(TOTAL), *got = malloc(TOTAL);
	cr_assert(sent != NULL && got != NULL);
	struct ring *ring = ring_of(64, 256);
	fill_pattern(sent, TOTAL, 3);
	for (int gathered = 0; gathered < 2; gathered++) {
		int pair[2];
		socket_pair(pair);
		if (gathered == 0) {
			ring_send(ring, 1, pair[0], sent, TOTAL);
		} else {
			/* Pieces of all sizes, which together are the whole. */
			struct iovec pieces[PIECES];
			uint32_t from = 0;
			for (uint32_t i = 0; i < PIECES; i++) {
				uint32_t size = i + 1 < PIECES ? i * i * 31 + 1 : TOTAL - from;
				pieces[i] = (struct iovec){sent + from, size};
				from += size;
			}
			struct msghdr message = {.msg_iov = pieces, .msg_iovlen = PIECES};
			ring_sendmsg(ring, 1, pair[0], &message);
			ring_turn(ring, 0);
			/* The kernel has its own copy of the vector from now on. */
			memset(pieces, 0x55, sizeof pieces);
			memset(&message, 0x55, sizeof message);
		}
		uint32_t arrived = 0, completed = 0;
		while (completed == 0) {
			uint32_t count = ring_turn(ring, 0);
			for (uint32_t i = 0; i < count; i++) {
				cr_assert_eq(ring_completion(ring, i)->result, TOTAL);
				cr_assert_not(ring_completion(ring, i)->more);
				completed++;
			}
			uint32_t step = MIN(70000, TOTAL - arrived);
			arrived += read_slowly(pair[1], got + arrived, step);
		}
		cr_assert_eq(completed, 1);
		while (arrived < TOTAL)
			arrived += read_slowly(pair[1], got + arrived, TOTAL - arrived);
		cr_assert_eq(memcmp(got, sent, TOTAL), 0);
		memset(got, 0, TOTAL);
		sys_close(pair[0]);
		sys_close(pair[1]);
	}
	free(sent);
	free(got);
	ring_close(ring);
}

/* A peer that leaves is an error of the operation and not a signal. */
Test(ring, peer_leaves)
{
	struct ring *ring = ring_of(64, 256);
	int pair[2];
	socket_pair(pair);
	ring_poll(ring, 1, pair[0], POLLRDHUP);
	assert_quiet(ring);
	write_all(pair[1], "unread", 6);
	assert_quiet(ring);
	sys_close(pair[1]);
	struct completion it = turn_one(ring);
	cr_assert_eq(it.user_data, 1);
	cr_assert((it.result & POLLRDHUP) != 0 && !it.more);

	ring_send(ring, 2, pair[0], "x", 1);
	it = turn_one(ring);
	cr_assert(it.user_data == 2 && (it.result == -EPIPE || it.result == -ECONNRESET));
	struct iovec piece = {&pair, 1};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	ring_sendmsg(ring, 3, pair[0], &message);
	it = turn_one(ring);
	cr_assert(it.user_data == 3 && it.result == -EPIPE);
	ring_send(ring, 4, -1, "x", 1);
	it = turn_one(ring);
	cr_assert(it.user_data == 4 && it.result == -EBADF);
	sys_close(pair[0]);
	ring_close(ring);
}

/* ------------------------------------------------------------ accept and connect */

static void accept_and_connect(struct ring *ring, const struct addr *where)
{
	enum { CLIENTS = 5 };
	struct sys_listen options = {.backlog = 16, .unix_mode = 0600};
	const char *failed;
	int listener = sys_listen(where, &options, &failed);
	cr_assert_geq(listener, 0, "%s: %s", failed, strerror(-listener));
	struct addr addr;
	cr_assert_eq(sys_own_name(listener, &addr), 0);

	ring_accept(ring, 100, listener);
	int clients[CLIENTS], accepted[CLIENTS];
	uint32_t accepted_count = 0, connected = 0;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		clients[i] = sys_socket(addr.any.sa_family);
		ring_connect(ring, i, clients[i], &addr.any, addr.size);
	}
	while (accepted_count < CLIENTS || connected < CLIENTS) {
		uint32_t count = ring_turn(ring, sys_clock_us() + LONG_US);
		cr_assert_gt(count, 0);
		for (uint32_t i = 0; i < count; i++) {
			struct completion it = *ring_completion(ring, i);
			cr_assert_geq(it.result, 0);
			cr_assert_eq(it.more, it.user_data == 100);
			if (it.user_data == 100)
				accepted[accepted_count++] = it.result;
			else
				connected++;
		}
	}
	for (uint32_t i = 0; i < CLIENTS; i++) {
		cr_assert_eq(fcntl(accepted[i], F_GETFD), FD_CLOEXEC);
		cr_assert_eq(fcntl(clients[i], F_GETFD), FD_CLOEXEC);
		sys_close(accepted[i]);
		sys_close(clients[i]);
	}
	ring_cancel(ring, 100);
	struct completion it = turn_one(ring);
	cr_assert(it.user_data == 100 && it.result == -ECANCELED && !it.more);
	sys_close(listener);

	int late = sys_socket(addr.any.sa_family);
	ring_connect(ring, 7, late, &addr.any, addr.size);
	it = turn_one(ring);
	cr_assert_eq(it.result, -ECONNREFUSED);
	sys_close(late);
	if (addr.any.sa_family == AF_UNIX && addr.local.sun_path[0] != '\0')
		cr_assert_eq(unlink(addr.local.sun_path), 0);
}

Test(ring, accept_and_connect)
{
	struct ring *ring = ring_of(64, 256);
	struct addr addr;
	char dir[] = "/tmp/unit-ring-XXXXXX";
	char name[64];
	cr_assert_not_null(mkdtemp(dir));
	snprintf(name, sizeof name, "@unit-ring-%d", getpid());
	cr_assert(addr_literal(&addr, "127.0.0.1", 0));
	accept_and_connect(ring, &addr);
	cr_assert(addr_unix(&addr, dir, 6432));
	accept_and_connect(ring, &addr);
	cr_assert(addr_unix(&addr, name, 6432));
	accept_and_connect(ring, &addr);
	cr_assert(addr_literal(&addr, "::1", 0));
	int probe = sys_socket(AF_INET6);
	if (probe >= 0 && bind(probe, &addr.any, addr.size) == 0)
		accept_and_connect(ring, &addr);
	if (probe >= 0)
		sys_close(probe);
	cr_assert_eq(rmdir(dir), 0);
	ring_close(ring);
}

/* ---------------------------------------------------------------------- waiting */

static void ring_later(void *argument)
{
	usleep(20 * 1000);
	sys_bell_ring(*(const int *)argument);
}

Test(ring, bell)
{
	struct ring *ring = ring_of(64, 256);
	int bell = sys_bell_open();
	cr_assert_geq(bell, 0);
	uint64_t value = 0;
	sys_bell_ring(bell);
	sys_bell_ring(bell);
	ring_read(ring, 1, bell, &value, sizeof value);
	cr_assert_eq(turn_one(ring).result, 8);
	cr_assert_eq(value, 2);
	ring_read(ring, 2, bell, &value, sizeof value);
	assert_quiet(ring);

	/* From another thread, while this one sleeps without a limit. */
	struct sys_thread *thread;
	cr_assert_eq(sys_thread_start(&thread, "ring-later", -1, ring_later, &bell), 0);
	cr_assert_eq(ring_turn(ring, UINT64_MAX), 1);
	cr_assert_eq(ring_completion(ring, 0)->user_data, 2);
	cr_assert_eq(ring_completion(ring, 0)->result, 8);
	cr_assert_eq(value, 1);
	sys_thread_join(thread);
	sys_close(bell);
	ring_close(ring);
}

/* It asks often before it sleeps, finds what has come meanwhile, and what comes later; a
 * limit holds, and one of no time is not put off. */
Test(ring, spin)
{
	struct ring *ring = ring_of(64, 256);
	int bell = sys_bell_open();
	uint64_t value = 0, enters = 0;
	ring_spin(ring, 1000);
	for (int round = 0; round < 2; round++) {
		enters = ring_enters(ring);
		ring_read(ring, 1, bell, &value, sizeof value);
		if (round == 0)
			sys_bell_ring(bell);
		struct sys_thread *thread = NULL;
		if (round == 1)
			cr_assert_eq(sys_thread_start(&thread, "ring-later", -1, ring_later, &bell),
			             0);
		cr_assert_eq(ring_turn(ring, UINT64_MAX), 1);
		cr_assert_eq(ring_completion(ring, 0)->user_data, 1);
		if (round == 0)
			cr_assert_eq(ring_enters(ring), enters + 1);
		else
			cr_assert_gt(ring_enters(ring), enters + 2);
		if (thread != NULL)
			sys_thread_join(thread);
	}
	enters = ring_enters(ring);
	cr_assert_eq(ring_turn(ring, 0), 0);
	cr_assert_eq(ring_enters(ring), enters + 1);
	ring_spin(ring, SECOND_US);
	uint64_t start = sys_clock_us();
	cr_assert_eq(ring_turn(ring, start + 5000), 0);
	cr_assert_geq(sys_clock_us(), start + 5000);
	cr_assert_lt(sys_clock_us(), start + SECOND_US);
	sys_close(bell);
	ring_close(ring);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
	(void)number;
	alarms = alarms + 1;
}

/* A far limit that is still under way does not delay a near one, and near ones that are
 * left over end others too early, but only a few times. */
Test(ring, limits_of_many_waits)
{
	struct ring *ring = ring_of(64, 256);
	char byte = 0;
	int pair[2];
	socket_pair(pair);
	for (int round = 0; round < 40; round++) {
		/* Ends at once, and leaves its limit behind. */
		uint64_t far = round % 10 == 0 ? LONG_US : 1000U * (uint64_t)(30 - round % 10);
		write_all(pair[1], "!", 1);
		ring_read(ring, 1, pair[0], &byte, 1);
		cr_assert_eq(ring_turn(ring, sys_clock_us() + far), 1);
		uint64_t start = sys_clock_us(), now = start;
		int turns = 0;
		for (; now < start + 3000; turns++) {
			cr_assert_eq(ring_turn(ring, start + 3000), 0);
			now = sys_clock_us();
		}
		cr_assert_lt(now - start, SECOND_US, "round %d: waited %d us", round,
		             (int)(now - start));
		cr_assert_leq(turns, 10, "round %d: %d turns", round, turns);
	}
	sys_close(pair[0]);
	sys_close(pair[1]);
	ring_close(ring);
}

Test(ring, timeout_and_signal)
{
	struct ring *ring = ring_of(64, 256);
	uint64_t enters = ring_enters(ring);
	uint64_t start = sys_clock_us();
	for (int i = 0; i < 100; i++)
		cr_assert_eq(ring_turn(ring, 0), 0);
	cr_assert_lt(sys_clock_us() - start, 500 * 1000);
	cr_assert_eq(ring_enters(ring) - enters, 100);

	static const uint64_t waits[] = {1, 10 * 1000, 1001 * 1000};
	for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
		start = sys_clock_us();
		cr_assert_eq(ring_turn(ring, sys_clock_us() + waits[i]), 0);
		cr_assert_geq(sys_clock_us() - start, (uint64_t)waits[i]);
		cr_assert_lt(sys_clock_us() - start, (uint64_t)waits[i] + LONG_US);
	}
	cr_assert_eq(ring_enters(ring) - enters, 100 + ARRAY_LEN(waits));

	/* Work put off is run even if the turn does not wait. */
	char byte = 0;
	int pair[2];
	socket_pair(pair);
	ring_read(ring, 1, pair[0], &byte, 1);
	cr_assert_eq(ring_turn(ring, 0), 0);
	write_all(pair[1], "!", 1);
	cr_assert_eq(ring_turn(ring, 0), 1);
	cr_assert_eq(byte, '!');

	struct sigaction action = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &action, NULL);
	const uint64_t interrupted[] = {UINT64_MAX, sys_clock_us() + LONG_US};
	for (size_t i = 0; i < ARRAY_LEN(interrupted); i++) {
		struct itimerval timer = {.it_value.tv_usec = 20 * 1000};
		setitimer(ITIMER_REAL, &timer, NULL);
		cr_assert_eq(ring_turn(ring, interrupted[i]), 0);
		cr_assert_eq(alarms, (int)i + 1);
	}
	sys_close(pair[0]);
	sys_close(pair[1]);
	ring_close(ring);
}
