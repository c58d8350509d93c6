/*
 * floor.h - the bare relay that a pooler is measured against.
 *
 * Every accepted client gets a connection of its own to the server, and bytes
 * pass 1:1 both ways until one side ends; what it sent before still arrives,
 * then both are closed.  No PostgreSQL, no pool, no timer, no log: what a
 * transaction costs here is what the kernel takes for passing it on.  There are
 * two of it, with one way of using the kernel each:
 *
 *	floor.c        options, sockets
 *	floor_uring.c  io_uring, set up as net/ring.c does
 *	floor_epoll.c  level-triggered epoll, recv and send
 *
 * It is a yardstick: once figures have been taken with it, it does not change.
 * So it uses nothing else of ours, and reports print the sum of its sources:
 *
 *	cat bench/floor*.c bench/floor*.h | sha256sum
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <sys/socket.h>

enum {
	/* A side is not read while more than this waits for its peer... */
	FLOOR_QUEUE_HIGH = 256 * 1024,
	/* ...until it is less than this. */
	FLOOR_QUEUE_LOW = 64 * 1024,
};

struct relay {
	int listener, signals; /* signals is readable when it is time to end */
	struct sockaddr_storage server;
	socklen_t server_size;
};

/* floor.c */
/* Ends the program: `what` failed with this errno. */
_Noreturn void floor_fail(const char *what, int error);
/* A socket to connect to the server. */
int floor_socket(const struct relay *relay, int flags);

/* One engine each; back when it is time to end. */
void floor_uring(const struct relay *relay, bool now);
void floor_epoll(const struct relay *relay);

#endif
