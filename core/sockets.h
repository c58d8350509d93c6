/*
 * sockets.h - where the process listens.
 *
 * Opened by main before any worker runs, so that an error is a line at start.
 * A TCP address has a socket per worker (SO_REUSEPORT): the kernel spreads
 * clients over them.  The unix socket is one, accepted by worker 0.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_SOCKETS_H
#define CORE_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

/* How long a predecessor that has just ended may keep its sockets. */
enum { SOCKETS_TRIES = 20, SOCKETS_WAIT_US = 50 * 1000 };
#include <sys/un.h>

#include "core/config.h"
#include "core/worker.h"
#include "net/sys.h"

struct sockets {
	uint32_t count; /* of addresses */
	struct {
		int *fds; /* by worker; -1: none for it */
		bool is_unix;
	} of[WORKER_LISTENERS_MAX];
	uint32_t worker_count;
	char file[sizeof((struct sockaddr_un *)0)->sun_path]; /* to be removed; "": none */
};

/* What the settings say of every TCP socket. */
static inline struct sys_tcp sockets_tcp(const struct settings *settings)
{
	return (struct sys_tcp){
		.keepalive = settings->tcp_keepalive,
		.keepidle = settings->tcp_keepidle,
		.keepintvl = settings->tcp_keepintvl,
		.keepcnt = settings->tcp_keepcnt,
		.user_timeout = settings->tcp_user_timeout,
		.buffer = settings->tcp_socket_buffer,
	};
}

/* False: a FATAL line was logged. */
bool sockets_open(struct sockets *sockets, const struct settings *settings, uint32_t worker_count);

/* Closes those that no worker has taken. */
void sockets_close(struct sockets *sockets);

/* The file of the unix socket goes. */
void sockets_unlink(struct sockets *sockets);

#endif
