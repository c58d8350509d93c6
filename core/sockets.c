/*
 * sockets.c - see sockets.h.
 *
 * Several of our own sockets on one port need SO_REUSEPORT, which also lets
 * another process in.  Unless that is asked for (so_reuseport), each address is
 * first bound without it: then a second instance fails, as it should.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/sockets.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config.h"
#include "core/log.h"
#include "core/service.h"
#include "net/addr.h"
#include "net/sys.h"

enum { HOST_MAX = 256, PORT_TEXT_MAX = 16 };

static void address_text(const struct addr *addr, const struct settings *settings, char *text,
                         size_t room)
{
	char brief[ADDR_TEXT_MAX];
	struct addr_short parts = addr_shorten(addr);
	addr_text(&parts, brief);
	if (parts.family == AF_UNIX)
		snprintf(text, room, "unix:%s/.s.PGSQL.%d", settings->unix_socket_dir,
		         settings->listen_port);
	else
		snprintf(text, room, "%s", brief);
}

static struct sys_listen listen_options(const struct settings *settings)
{
	return (struct sys_listen){
		.backlog = settings->listen_backlog,
		.defer_accept = settings->tcp_defer_accept,
		.unix_mode = settings->unix_socket_mode,
		.unix_group = settings->unix_socket_group,
	};
}

/* Room for one more address; NULL: there are too many. */
static int *sockets_add(struct sockets *sockets, bool is_unix)
{
	if (sockets->count == ARRAY_LEN(sockets->of))
		return NULL;
	int *fds = calloc(sockets->worker_count, sizeof fds[0]);
	CHECK(fds != NULL);
	for (uint32_t i = 0; i < sockets->worker_count; i++)
		fds[i] = -1;
	sockets->of[sockets->count].fds = fds;
	sockets->of[sockets->count].is_unix = is_unix;
	sockets->count++;
	return fds;
}

static void fds_close(int *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (fds[i] >= 0)
			sys_close(fds[i]);
}

/* 0 or -errno. */
static int tcp_probe(const struct addr *addr, const struct settings *settings, const char **failed)
{
	struct sys_listen options = listen_options(settings);
	if (settings->so_reuseport)
		return 0;
	int fd = sys_listen(addr, &options, failed);
	/* the kernel lets go of the sockets of a ring some time after its process */
	for (int tries = 0; fd == -EADDRINUSE && tries < SOCKETS_TRIES; tries++) {
		usleep(SOCKETS_WAIT_US);
		fd = sys_listen(addr, &options, failed);
	}
	if (fd < 0)
		return fd;
	sys_close(fd);
	return 0;
}

/* A socket per worker; 0 or -errno. */
static int tcp_listen(struct sockets *sockets, const struct addr *addr,
                      const struct settings *settings)
{
	struct sys_listen options = listen_options(settings);
	const char *failed = NULL;
	char text[ADDR_TEXT_MAX];
	address_text(addr, settings, text, sizeof text);
	int error = tcp_probe(addr, settings, &failed);
	int *fds = error == 0 ? sockets_add(sockets, false) : NULL;
	if (error == 0 && fds == NULL) {
		failed = "listen";
		error = -EMFILE;
	}
	options.reuse_port = true;
	for (uint32_t i = 0; i < sockets->worker_count && error == 0; i++) {
		fds[i] = sys_listen(addr, &options, &failed);
		error = MIN(fds[i], 0);
		if (error == 0) {
			struct sys_tcp tcp = sockets_tcp(settings);
			sys_tcp_options(fds[i], &tcp);
		}
	}
	if (error == 0) {
		log_info("listening on %s", text);
		return 0;
	}
	log_warning("cannot listen on %s: %s(): %s", text, failed, text_of_error(-error));
	if (fds != NULL) {
		fds_close(fds, sockets->worker_count);
		free(fds);
		sockets->count--;
	}
	return error;
}

/* All addresses of one element of listen_addr.  False: a line was logged. */
static bool host_listen(struct sockets *sockets, const char *host, const struct settings *settings,
                        int *error)
{
	struct addrinfo wanted = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	char port[PORT_TEXT_MAX];
	snprintf(port, sizeof port, "%d", settings->listen_port);
	int failure = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, port, &wanted, &found);
	if (failure != 0) {
		log_fatal("getaddrinfo('%s', '%s') = %s [%d]", host, port, gai_strerror(failure),
		          failure);
		return false;
	}
	for (struct addrinfo *at = found; at != NULL; at = at->ai_next) {
		struct addr addr = {.size = at->ai_addrlen};
		if (at->ai_addrlen > sizeof addr.local)
			continue;
		memcpy(&addr.any, at->ai_addr, at->ai_addrlen);
		int result = tcp_listen(sockets, &addr, settings);
		if (result != 0)
			*error = result;
	}
	freeaddrinfo(found);
	return true;
}

static bool tcp_open(struct sockets *sockets, const struct settings *settings)
{
	static const char gaps[] = ", \t";
	const char *at = settings->listen_addr != NULL ? settings->listen_addr : "";
	char host[HOST_MAX];
	int error = 0;
	bool any = false;
	for (at += strspn(at, gaps); *at != '\0'; at += strspn(at, gaps)) {
		size_t size = strcspn(at, gaps);
		snprintf(host, sizeof host, "%.*s", (int)MIN(size, sizeof host - 1), at);
		at += size;
		any = true;
		if (!host_listen(sockets, host, settings, &error))
			return false;
	}
	if (any && sockets->count == 0) {
		log_fatal("failed to listen on any address in listen_addr list: %s",
		          text_of_error(-error));
		return false;
	}
	return true;
}

static bool unix_open(struct sockets *sockets, const struct settings *settings)
{
	struct sys_listen options = listen_options(settings);
	struct addr addr;
	const char *dir = settings->unix_socket_dir, *failed = "bind";
	char text[ADDR_TEXT_MAX + sizeof sockets->file];
	char lock[sizeof sockets->file + 8];
	if (dir == NULL || *dir == '\0')
		return true;
	if (!addr_unix(&addr, dir, (uint16_t)settings->listen_port)) {
		log_fatal("failed to create unix socket: the path is too long: %s", dir);
		return false;
	}
	bool is_file = *dir != '@';
	snprintf(lock, sizeof lock, "%s.lock", is_file ? addr.local.sun_path : "");
	if (is_file && access(lock, F_OK) == 0) {
		log_fatal("unix port %d is in use", settings->listen_port);
		return false;
	}
	int fd = sys_listen(&addr, &options, &failed);
	if (fd < 0) {
		log_fatal("failed to create unix socket: %s(): %s", failed, text_of_error(-fd));
		return false;
	}
	int *fds = sockets_add(sockets, true);
	if (fds == NULL) {
		log_fatal("failed to create unix socket: more addresses than %d",
		          WORKER_LISTENERS_MAX);
		sys_close(fd);
		return false;
	}
	fds[0] = fd;
	if (is_file)
		memcpy(sockets->file, addr.local.sun_path, sizeof sockets->file);
	address_text(&addr, settings, text, sizeof text);
	log_info("listening on %s", text);
	return true;
}

/* Those of the service manager, and no others. */
static bool service_open(struct sockets *sockets, const struct settings *settings, uint32_t count)
{
	if (settings->listen_addr != NULL && settings->listen_addr[0] != '\0')
		log_warning("sockets passed from service manager, cf_listen_addr ignored");
	if (settings->unix_socket_dir != NULL && strcmp(settings->unix_socket_dir, "/tmp") != 0)
		log_warning("sockets passed from service manager, cf_unix_socket_dir ignored");
	for (uint32_t i = 0; i < count; i++) {
		struct addr own;
		int fd = SERVICE_FD_FIRST + (int)i;
		bool is_unix = sys_own_name(fd, &own) == 0 && own.any.sa_family == AF_UNIX;
		int *fds = sockets_add(sockets, is_unix);
		if (fds == NULL) {
			log_fatal("more sockets passed from service manager than %d",
			          WORKER_LISTENERS_MAX);
			return false;
		}
		fds[0] = fd;
		log_info("socket passed from service manager (fd %d)", fd);
	}
	return true;
}

bool sockets_open(struct sockets *sockets, const struct settings *settings, uint32_t worker_count)
{
	*sockets = (struct sockets){.worker_count = worker_count};
	uint32_t handed = service_sockets();
	bool is_good = handed > 0 ? service_open(sockets, settings, handed)
	                          : tcp_open(sockets, settings) && unix_open(sockets, settings);
	if (is_good && sockets->count == 0) {
		log_fatal("nowhere to listen on");
		return false;
	}
	return is_good;
}

void sockets_close(struct sockets *sockets)
{
	for (uint32_t i = 0; i < sockets->count; i++) {
		fds_close(sockets->of[i].fds, sockets->worker_count);
		free(sockets->of[i].fds);
	}
	sockets->count = 0;
}

void sockets_unlink(struct sockets *sockets)
{
	if (sockets->file[0] != '\0')
		unlink(sockets->file);
	sockets->file[0] = '\0';
}
