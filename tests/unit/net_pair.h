/*
 * net_pair.h - what the tests of conn and loop share: socket pairs on the real
 * kernel, and streams whose bytes can be checked at any position.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_NET_PAIR_H
#define TESTS_UNIT_NET_PAIR_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/addr.h"
#include "net/buf.h"
#include "net/conn.h"
#include "net/loop.h"
#include "net/sys.h"

static inline uint32_t test_random(uint64_t *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(*state >> 33);
}

/* Byte `at` of stream `seed`: a wrong, lost or doubled byte shows at once. */
static inline uint8_t stream_byte(uint32_t seed, uint64_t at)
{
	uint64_t mix = (at + seed) * 0x9e3779b97f4a7c15ULL;
	return (uint8_t)(mix >> 56 ^ mix >> 24);
}

static inline void stream_fill(uint8_t *bytes, size_t size, uint32_t seed, uint64_t at)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = stream_byte(seed, at + i);
}

static inline bool stream_is(const uint8_t *bytes, size_t size, uint32_t seed, uint64_t at)
{
	for (size_t i = 0; i < size; i++)
		if (bytes[i] != stream_byte(seed, at + i))
			return false;
	return true;
}

static inline void test_loop_open(struct loop *loop)
{
	struct ring_failure failure;
	cr_assert(loop_open(loop, &failure), "%s", failure.text);
}

/* A listening TCP socket of loopback. */
static inline int test_listen(struct addr *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	*addr = (struct addr){.size = sizeof addr->v4};
	addr->v4.sin_family = AF_INET;
	addr->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, &addr->any, addr->size), 0);
	cr_assert_eq(listen(fd, 512), 0);
	cr_assert_eq(getsockname(fd, &addr->any, &addr->size), 0);
	return fd;
}

/* Two connected sockets; buffer > 0: with so small buffers in the kernel. */
static inline void test_pair(int fds[2], bool tcp, int buffer)
{
	if (tcp) {
		struct addr addr;
		int listener = test_listen(&addr);
		if (buffer > 0)
			setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
		fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (buffer > 0)
			setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
		cr_assert_eq(connect(fds[0], &addr.any, addr.size), 0);
		fds[1] = accept(listener, NULL, NULL);
		cr_assert_geq(fds[1], 0);
		close(listener);
	} else {
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	}
	for (int i = 0; i < 2 && buffer > 0; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
}

static inline void test_nonblocking(int fd)
{
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

/* The plain end of a pair, as a stranger would drive it. */
struct stranger {
	int fd;
	uint32_t seed;
	uint64_t written, read;
};

/* Writes up to `size` bytes of its stream; false if nothing went. */
static inline bool stranger_write(struct stranger *stranger, size_t size)
{
	uint8_t bytes[4096];
	size_t part = size < sizeof bytes ? size : sizeof bytes;
	stream_fill(bytes, part, stranger->seed, stranger->written);
	ssize_t done = send(stranger->fd, bytes, part, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (done <= 0)
		return false;
	stranger->written += (uint64_t)done;
	return true;
}

/* Reads up to `size` bytes of stream `seed`; 0: nothing there, -1: the end. */
static inline ssize_t stranger_read(struct stranger *stranger, uint32_t seed, size_t size)
{
	static uint8_t bytes[65536];
	ssize_t done = recv(stranger->fd, bytes, size < sizeof bytes ? size : sizeof bytes,
	                    MSG_DONTWAIT);
	if (done < 0)
		return errno == EAGAIN ? 0 : -1;
	if (done == 0)
		return -1;
	cr_assert(stream_is(bytes, (size_t)done, seed, stranger->read));
	stranger->read += (uint64_t)done;
	return done;
}

#endif
