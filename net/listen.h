/*
 * listen.h - accepts connections of one listening socket on one loop.
 *
 * Multishot accept.  When descriptors run out (EMFILE, ENFILE) or the kernel
 * is short of memory, it stops for 100 ms and says so once a second at most
 * through on_trouble; it never spins.
 *
 * What the kernel had accepted already is still handed over after
 * listener_close(), until on_closed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"
#include "net/op.h"
#include "net/wheel.h"

struct loop;
struct listener;

struct listener_events {
	void (*on_accept)(struct listener *listener, int fd);     /* fd is the owner's now */
	void (*on_trouble)(struct listener *listener, int error); /* -errno */
	void (*on_closed)(struct listener *listener);
};

struct listener {
	struct op_owner owner;
	const struct listener_events *events;
	struct loop *loop;
	int fd;
	bool accepting, closing, suspended;
	bool is_unix;
	uint32_t index; /* number among its siblings, for the owner */
	struct timer retry;
	uint64_t told_us;
};

/* Starts accepting; the fd is the listener's from now on. */
bool listener_open(struct listener *listener, struct loop *loop, int fd,
                   const struct listener_events *events);

/* Closes the socket once the kernel has handed back the accept. */
void listener_close(struct listener *listener);

#endif
