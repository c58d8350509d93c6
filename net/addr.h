/*
 * addr.h - addresses of sockets, as values and as text.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_ADDR_H
#define NET_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct addr {
	socklen_t size; /* 0: none */
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	};
};

/* The short form for objects that are kept by the ten thousand: no unix path. */
struct addr_short {
	uint8_t ip[16];
	uint16_t port;  /* host order */
	uint8_t family; /* AF_INET, AF_INET6, AF_UNIX, 0: none */
};

/* A literal address and a port; false if `text` is not one ("10.0.0.1", "::1"). */
bool addr_literal(struct addr *addr, const char *text, uint16_t port);

/* dir/.s.PGSQL.port; a dir that begins with '@' is an abstract name.  False if
 * the path is longer than sun_path. */
bool addr_unix(struct addr *addr, const char *dir, uint16_t port);

struct addr_short addr_shorten(const struct addr *addr);
bool addr_equal(const struct addr *a, const struct addr *b);

enum { ADDR_TEXT_MAX = 160 };

/* "127.0.0.1", "::1", "unix" (SHOW CLIENTS, column addr). */
void addr_host_text(const struct addr_short *addr, char text[ADDR_TEXT_MAX]);

/* "127.0.0.1:6432", "[::1]:6432", "unix" (log lines). */
void addr_text(const struct addr_short *addr, char text[ADDR_TEXT_MAX]);

#endif
