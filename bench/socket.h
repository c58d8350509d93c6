/* socket.h - addresses and socket options that both programs of bench want. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_SOCKET_H
#define BENCH_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct socket_address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	};
	socklen_t size;
};

/* A numeric host and a port, or the path of a unix socket (if not NULL). */
bool socket_address_read(struct socket_address *address, const char *host, uint32_t port,
                         const char *unix_path);
void socket_no_delay(int fd);

/* As many open files as the hard limit allows. */
void files_allow_many(void);

#endif
