/*
 * service.c - see service.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/service.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/sys.h"

/* Nobody changes the environment. */
/* NOLINTBEGIN(concurrency-mt-unsafe) */
static const char *told(const char *name)
{
	return getenv(name);
}
/* NOLINTEND(concurrency-mt-unsafe) */

uint32_t service_sockets(void)
{
	const char *pid = told("LISTEN_PID"), *count = told("LISTEN_FDS");
	if (pid == NULL || count == NULL || strtol(pid, NULL, 10) != getpid())
		return 0;
	long sockets = strtol(count, NULL, 10);
	if (sockets <= 0 || sockets > 1024)
		return 0;
	for (int i = 0; i < (int)sockets; i++)
		fcntl(SERVICE_FD_FIRST + i, F_SETFD, FD_CLOEXEC);
	return (uint32_t)sockets;
}

void service_tell(const char *state)
{
	const char *path = told("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (path == NULL || (path[0] != '/' && path[0] != '@') ||
	    strlen(path) >= sizeof address.sun_path)
		return;
	memcpy(address.sun_path, path, strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	/* Who does not listen misses something; that is all. */
	(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size);
	close(fd);
}

void service_tell_reloading(void)
{
	char state[64];
	snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, sys_clock_us());
	service_tell(state);
}
