/*
 * sys.c - see sys.h: the real calls.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/sys.h"

#include <errno.h>
#include <grp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/check.h"

/* ------------------------------------------------------- clocks and randomness */

static uint64_t clock_us(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000 * 1000 + (uint64_t)time.tv_nsec / 1000;
}

uint64_t sys_clock_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

uint64_t sys_wall_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

uint64_t sys_thread_cpu_us(void)
{
	return clock_us(CLOCK_THREAD_CPUTIME_ID);
}

void sys_random(void *bytes, size_t size)
{
	uint8_t *next = bytes;
	while (size > 0) {
		ssize_t got = getrandom(next, size, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			/* Keys and nonces that can be guessed are worse than an end. */
			perror("getrandom");
			abort();
		}
		next += got;
		size -= (size_t)got;
	}
}

/* --------------------------------------------------------------------- sockets */

static bool option_set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

int sys_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

void sys_close(int fd)
{
	close(fd);
}

int sys_end_send(int fd)
{
	return shutdown(fd, SHUT_WR) < 0 ? -errno : 0;
}

static const char *tcp_prepare(int fd, int family, const struct sys_listen *options)
{
	if (!option_set(fd, SOL_SOCKET, SO_REUSEADDR, 1))
		return "SO_REUSEADDR";
	if (family == AF_INET6 && !option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1))
		return "IPV6_V6ONLY";
	if (options->reuse_port && !option_set(fd, SOL_SOCKET, SO_REUSEPORT, 1))
		return "SO_REUSEPORT";
	if (!option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1)) /* accepted sockets inherit it */
		return "TCP_NODELAY";
	/* Clients speak first: accept only those that have, or after a second. */
	if (options->defer_accept && !option_set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1))
		return "TCP_DEFER_ACCEPT";
	return NULL;
}

static bool is_socket_file(const struct addr *addr)
{
	return addr->any.sa_family == AF_UNIX && addr->local.sun_path[0] != '\0';
}

static void socket_file_remove(const char *path)
{
	struct stat status;
	if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode))
		unlink(path);
}

/* 0 or an errno. */
static int group_find(const char *name, gid_t *gid)
{
	enum { ROOM_FIRST = 1024, ROOM_MAX = 1024 * 1024 };
	int error = ERANGE;
	for (size_t room = ROOM_FIRST; error == ERANGE && room <= ROOM_MAX; room *= 4) {
		char *members = malloc(room);
		if (members == NULL)
			return ENOMEM;
		struct group group;
		struct group *found = NULL;
		error = getgrnam_r(name, &group, members, room, &found);
		if (error == 0 && found == NULL)
			error = ENOENT;
		if (error == 0)
			*gid = found->gr_gid;
		free(members);
	}
	return error;
}

/* -1: errno says why. */
static int socket_file_chgrp(const char *path, const char *group)
{
	gid_t gid = 0;
	int error = group_find(group, &gid);
	if (error != 0) {
		errno = error;
		return -1;
	}
	return chown(path, (uid_t)-1, gid);
}

static const char *socket_file_permit(const char *path, const struct sys_listen *options)
{
	if (options->unix_group != NULL && options->unix_group[0] != '\0' &&
	    socket_file_chgrp(path, options->unix_group) < 0)
		return "chgrp";
	if (options->unix_mode != 0 && chmod(path, (mode_t)options->unix_mode) < 0)
		return "chmod";
	return NULL;
}

/* The name of the call that failed, or NULL. */
static const char *listen_on(int fd, const struct addr *addr, const struct sys_listen *options)
{
	const char *failed = NULL;
	bool is_file = is_socket_file(addr);
	if (addr->any.sa_family != AF_UNIX)
		failed = tcp_prepare(fd, addr->any.sa_family, options);
	if (failed != NULL)
		return failed;
	if (is_file)
		socket_file_remove(addr->local.sun_path);
	if (bind(fd, &addr->any, addr->size) < 0)
		return "bind";
	/* Before listen: nobody gets in by the mode that umask left. */
	if (is_file)
		failed = socket_file_permit(addr->local.sun_path, options);
	if (failed == NULL && listen(fd, options->backlog) < 0)
		failed = "listen";
	if (failed != NULL && is_file) {
		int error = errno;
		unlink(addr->local.sun_path);
		errno = error;
	}
	return failed;
}

int sys_listen(const struct addr *addr, const struct sys_listen *options, const char **failed)
{
	int fd = sys_socket(addr->any.sa_family);
	if (fd < 0) {
		*failed = "socket";
		return fd;
	}
	*failed = listen_on(fd, addr, options);
	if (*failed == NULL)
		return fd;
	int error = errno;
	close(fd);
	return -error;
}

void sys_defer_accept(int fd, bool defer)
{
	struct addr own;
	if (sys_own_name(fd, &own) == 0 && own.any.sa_family != AF_UNIX)
		option_set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, defer);
}

void sys_tcp_options(int fd, const struct sys_tcp *tcp)
{
	struct addr own;
	if (sys_own_name(fd, &own) < 0 || own.any.sa_family == AF_UNIX)
		return;
	const struct {
		int level, name, value;
		bool wanted;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1, true},
		{SOL_SOCKET, SO_KEEPALIVE, tcp->keepalive, true},
		{IPPROTO_TCP, TCP_KEEPIDLE, tcp->keepidle, tcp->keepalive && tcp->keepidle > 0},
		{IPPROTO_TCP, TCP_KEEPINTVL, tcp->keepintvl, tcp->keepalive && tcp->keepintvl > 0},
		{IPPROTO_TCP, TCP_KEEPCNT, tcp->keepcnt, tcp->keepalive && tcp->keepcnt > 0},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, tcp->user_timeout, tcp->user_timeout > 0},
		{SOL_SOCKET, SO_SNDBUF, tcp->buffer, tcp->buffer > 0},
		{SOL_SOCKET, SO_RCVBUF, tcp->buffer, tcp->buffer > 0},
	};
	/* A value out of the kernel's range leaves the default; the connection
	 * works all the same. */
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].wanted)
			option_set(fd, options[i].level, options[i].name, options[i].value);
}

int sys_own_name(int fd, struct addr *addr)
{
	*addr = (struct addr){.size = sizeof addr->local};
	return getsockname(fd, &addr->any, &addr->size) < 0 ? -errno : 0;
}

int sys_peer_name(int fd, struct addr *addr)
{
	*addr = (struct addr){.size = sizeof addr->local};
	return getpeername(fd, &addr->any, &addr->size) < 0 ? -errno : 0;
}

int sys_poll_hung_up(struct pollfd *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fds[i].events = 0; /* POLLHUP and POLLERR come unasked */
	int found = poll(fds, count, 0);
	return found >= 0 ? found : -errno;
}

int sys_peer_process(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	*uid = peer.uid;
	*pid = peer.pid;
	return 0;
}

/* -------------------------------------------------------------- bells and pages */

int sys_bell_open(void)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return bell < 0 ? -errno : bell;
}

void sys_bell_ring(int bell)
{
	const uint64_t one = 1;
	/* EAGAIN: it was rung 2^64 times and will still be heard. */
	while (write(bell, &one, sizeof one) < 0 && errno == EINTR)
		;
}

void *sys_pages(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return pages == MAP_FAILED ? NULL : pages;
}

void sys_pages_free(void *pages, size_t size)
{
	munmap(pages, size);
}

void *sys_shared_pages(const char *name, size_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return NULL;
	void *pages = MAP_FAILED;
	if (ftruncate(fd, (off_t)size) == 0)
		pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return pages == MAP_FAILED ? NULL : pages;
}

/* --------------------------------------------------------------------- threads */

struct sys_thread {
	pthread_t id;
	char name[16];
	void (*run)(void *argument);
	void *argument;
};

static void *thread_main(void *argument)
{
	struct sys_thread *thread = argument;
	pthread_setname_np(pthread_self(), thread->name);
	thread->run(thread->argument);
	return NULL;
}

static int attributes_pin(pthread_attr_t *attributes, int cpu)
{
	cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
	if (set == NULL)
		return ENOMEM;
	size_t size = CPU_ALLOC_SIZE((size_t)cpu + 1);
	CPU_ZERO_S(size, set);
	CPU_SET_S((size_t)cpu, size, set);
	int error = pthread_attr_setaffinity_np(attributes, size, set);
	CPU_FREE(set);
	return error;
}

/* Signals are the control thread's.  Those that a fault raises can not be put
 * off, and sanitizers want to see them. */
static int attributes_block_signals(pthread_attr_t *attributes)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t set;
	sigfillset(&set);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++)
		sigdelset(&set, faults[i]);
	return pthread_attr_setsigmask_np(attributes, &set);
}

int sys_thread_start(struct sys_thread **out, const char *name, int cpu,
                     void (*run)(void *argument), void *argument)
{
	struct sys_thread *thread = calloc(1, sizeof *thread);
	if (thread == NULL)
		return -ENOMEM;
	snprintf(thread->name, sizeof thread->name, "%s", name);
	thread->run = run;
	thread->argument = argument;
	pthread_attr_t attributes;
	int error = pthread_attr_init(&attributes);
	if (error == 0) {
		error = attributes_block_signals(&attributes);
		if (error == 0 && cpu >= 0)
			error = attributes_pin(&attributes, cpu);
		if (error == 0)
			error = pthread_create(&thread->id, &attributes, thread_main, thread);
		pthread_attr_destroy(&attributes);
	}
	if (error != 0) {
		free(thread);
		return -error;
	}
	*out = thread;
	return 0;
}

void sys_thread_join(struct sys_thread *thread)
{
	pthread_join(thread->id, NULL);
	free(thread);
}
