/* socket.c - see socket.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

bool socket_address_read(struct socket_address *address, const char *host, uint32_t port,
                         const char *unix_path)
{
	memset(address, 0, sizeof *address);
	if (unix_path != NULL) {
		size_t size = strlen(unix_path);
		if (size >= sizeof address->local.sun_path)
			return false;
		address->local.sun_family = AF_UNIX;
		memcpy(address->local.sun_path, unix_path, size);
		address->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size + 1);
		return true;
	}
	address->v4.sin_port = htons((uint16_t)port); /* at the same place in both */
	if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
		address->v4.sin_family = AF_INET;
		address->size = sizeof address->v4;
		return true;
	}
	if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
		address->v6.sin6_family = AF_INET6;
		address->size = sizeof address->v6;
		return true;
	}
	return false;
}

void socket_no_delay(int fd)
{
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void files_allow_many(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}
