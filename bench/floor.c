/*
 * floor.c - options and sockets of the bare relay; see floor.h.
 *
 * It prints `listening on HOST:PORT` when clients may come, and ends with 0 by
 * SIGTERM or SIGINT.  Whatever keeps it from relaying (no descriptors, no
 * memory) ends it with a message and 1: a relay that limps measures nothing.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/floor.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/un.h>

enum { BACKLOG = 4096, NAME_MAX_SIZE = 256 };

static const char usage_text[] =
	"floor: passes bytes between clients and a server, and does nothing else\n\n"
	"  --engine NAME          uring, uring-now (small sends do not report), epoll (uring)\n"
	"  --listen HOST:PORT     numeric, [HOST]:PORT for IPv6\n"
	"  --server HOST:PORT     the same, or the /path of a unix socket\n"
	"  --cpu N                stay on this CPU\n"
	"  --version              names of the engines, version of liburing\n";

_Noreturn static void usage(int code)
{
	fputs(usage_text, code == 0 ? stdout : stderr);
	exit(code);
}

_Noreturn void floor_fail(const char *what, int error)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(error));
	exit(1);
}

static void no_delay(int fd)
{
	int on = 1;
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0)
		floor_fail("TCP_NODELAY", errno);
}

int floor_socket(const struct relay *relay, int flags)
{
	int fd = socket(relay->server.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		floor_fail("socket", errno);
	if (relay->server.ss_family != AF_UNIX)
		no_delay(fd);
	return fd;
}

static bool host_port_read(const char *text, struct sockaddr_storage *address, socklen_t *size)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	const char *colon = strrchr(text, ':');
	if (colon == NULL)
		return false;
	const char *from = text, *to = colon;
	if (to - from >= 2 && from[0] == '[' && to[-1] == ']') {
		from++;
		to--;
	}
	char host[NAME_MAX_SIZE];
	size_t length = (size_t)(to - from);
	if (length == 0 || length >= sizeof host)
		return false;
	memcpy(host, from, length);
	host[length] = '\0';
	struct addrinfo *found;
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return false;
	memcpy(address, found->ai_addr, found->ai_addrlen);
	*size = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

static bool server_read(const char *text, struct relay *relay)
{
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	if (text[0] != '/')
		return host_port_read(text, &relay->server, &relay->server_size);
	size_t length = strlen(text);
	if (length >= sizeof local.sun_path)
		return false;
	memcpy(local.sun_path, text, length);
	relay->server_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
	memcpy(&relay->server, &local, relay->server_size);
	return true;
}

/* Accepted sockets inherit TCP_NODELAY. */
static int relay_listen(const char *text)
{
	struct sockaddr_storage address;
	socklen_t size;
	if (!host_port_read(text, &address, &size))
		usage(2);
	int on = 1;
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		floor_fail("socket", errno);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
		floor_fail("SO_REUSEADDR", errno);
	no_delay(fd);
	if (bind(fd, (const struct sockaddr *)&address, size) < 0)
		floor_fail("bind", errno);
	if (listen(fd, BACKLOG) < 0)
		floor_fail("listen", errno);
	return fd;
}

static int relay_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		floor_fail("signalfd", errno);
	return fd;
}

static void stay_on(const char *text)
{
	char *end;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	unsigned long cpu = strtoul(text, &end, 10);
	if (end == text || *end != '\0' || cpu >= CPU_SETSIZE)
		usage(2);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof cpus, &cpus) < 0)
		floor_fail("sched_setaffinity", errno);
}

/* As many open files as may be. */
static void files_allow_all(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"engine", required_argument, NULL, 'e'},
		{"listen", required_argument, NULL, 'l'},
		{"server", required_argument, NULL, 's'},
		{"cpu", required_argument, NULL, 'c'},
		{"version", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static struct relay relay;
	const char *engine = "uring", *own = NULL, *server = NULL;
	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'e': engine = optarg; break;
		case 'l': own = optarg; break;
		case 's': server = optarg; break;
		case 'c': stay_on(optarg); break;
		case 'v':
			puts("floor: engines uring, uring-now, epoll; liburing " LIBURING_VERSION);
			return 0;
		default: usage(option == 'h' ? 0 : 2);
		}
	}
	bool now = strcmp(engine, "uring-now") == 0;
	bool uring = now || strcmp(engine, "uring") == 0;
	if (optind < argc || own == NULL || server == NULL || !server_read(server, &relay) ||
	    (!uring && strcmp(engine, "epoll") != 0))
		usage(2);
	files_allow_all();
	signal(SIGPIPE, SIG_IGN);
	relay.signals = relay_signals();
	relay.listener = relay_listen(own);
	printf("listening on %s\n", own);
	fflush(stdout);
	if (uring)
		floor_uring(&relay, now);
	else
		floor_epoll(&relay);
	/* A ring is cleaned up after its process is gone: it must not keep the port. */
	shutdown(relay.listener, SHUT_RDWR);
	return 0;
}
