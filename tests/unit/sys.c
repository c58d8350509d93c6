/* What sys.c promises, asked back from the kernel. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/sys.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/check.h"

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t size = sizeof value;
	cr_assert_eq(getsockopt(fd, level, name, &value, &size), 0);
	return value;
}

static void assert_descriptor(int fd)
{
	cr_assert_geq(fd, 0, "%s", strerror(-fd));
	cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static int listen_at(const struct addr *addr, const struct sys_listen *options)
{
	const char *failed = "";
	int fd = sys_listen(addr, options, &failed);
	cr_assert_geq(fd, 0, "%s: %s", failed, strerror(-fd));
	assert_descriptor(fd);
	cr_assert_eq(option_of(fd, SOL_SOCKET, SO_ACCEPTCONN), 1);
	return fd;
}

static int lowest_free_descriptor(void)
{
	int fd = dup(0);
	close(fd);
	return fd;
}

static void assert_listen_fails(const struct addr *addr, const struct sys_listen *options,
                                const char *call, int error)
{
	const char *failed = "";
	int before = lowest_free_descriptor();
	cr_assert_eq(sys_listen(addr, options, &failed), -error);
	cr_assert_str_eq(failed, call);
	cr_assert_eq(lowest_free_descriptor(), before); /* nothing was left open */
}

Test(sys, listen_tcp)
{
	static const char *const hosts[] = {"127.0.0.1", "::1"};
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		struct addr addr, own;
		cr_assert(addr_literal(&addr, hosts[i], 0));
		struct sys_listen options = {.backlog = 10,
		                             .reuse_port = true,
		                             .defer_accept = true};
		const char *failed = "";
		int fd = sys_listen(&addr, &options, &failed);
		if (fd == -EADDRNOTAVAIL || fd == -EAFNOSUPPORT)
			continue; /* a machine without IPv6 */
		assert_descriptor(fd);
		cr_assert_eq(option_of(fd, SOL_SOCKET, SO_REUSEADDR), 1);
		cr_assert_eq(option_of(fd, SOL_SOCKET, SO_REUSEPORT), 1);
		cr_assert_eq(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		cr_assert_eq(option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), 1);
		if (addr.any.sa_family == AF_INET6)
			cr_assert_eq(option_of(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);

		cr_assert_eq(sys_own_name(fd, &own), 0);
		cr_assert_neq(addr_shorten(&own).port, 0);
		int second = listen_at(&own, &options);
		options.reuse_port = false;
		assert_listen_fails(&own, &options, "bind", EADDRINUSE);
		sys_close(second);
		sys_close(fd);
		options.defer_accept = false;
		fd = listen_at(&own, &options);
		cr_assert_eq(option_of(fd, SOL_SOCKET, SO_REUSEPORT), 0);
		cr_assert_eq(option_of(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
		sys_close(fd);
	}
	struct addr strange = {.size = sizeof strange.any, .any = {.sa_family = AF_MAX}};
	assert_listen_fails(&strange, &(struct sys_listen){.backlog = 1}, "socket", EAFNOSUPPORT);
}

Test(sys, listen_unix)
{
	char dir[] = "/tmp/unit-sys-XXXXXX";
	cr_assert_not_null(mkdtemp(dir));
	struct addr addr;
	struct stat status;
	cr_assert(addr_unix(&addr, dir, 6432));
	const char *path = addr.local.sun_path;
	const struct group *group = getgrgid(getegid());
	char group_name[64] = "";
	if (group != NULL)
		snprintf(group_name, sizeof group_name, "%s", group->gr_name);

	/* A socket file left over makes room; anything else is somebody's. */
	struct sys_listen options = {.backlog = 5, .unix_mode = 0640, .unix_group = group_name};
	sys_close(listen_at(&addr, &options));
	cr_assert_eq(stat(path, &status), 0);
	cr_assert(S_ISSOCK(status.st_mode));
	cr_assert_eq(status.st_mode & 07777, 0640);
	cr_assert_eq(status.st_gid, getegid());
	options.unix_mode = 0777;
	sys_close(listen_at(&addr, &options));
	cr_assert_eq(stat(path, &status), 0);
	cr_assert_eq(status.st_mode & 07777, 0777);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(symlink("/dev/null", path), 0);
	assert_listen_fails(&addr, &options, "bind", EADDRINUSE);
	cr_assert_eq(unlink(path), 0);

	options.unix_group = "no-such-group";
	assert_listen_fails(&addr, &options, "chgrp", ENOENT);
	cr_assert_eq(stat(path, &status), -1); /* not left behind */
	options.unix_group = NULL;
	cr_assert_eq(rmdir(dir), 0);
	assert_listen_fails(&addr, &options, "bind", ENOENT);

	char name[64];
	snprintf(name, sizeof name, "@unit-sys-%d", getpid());
	cr_assert(addr_unix(&addr, name, 6432));
	options.unix_group = "no-such-group"; /* means nothing without a file */
	int fd = listen_at(&addr, &options);
	struct addr own;
	cr_assert_eq(sys_own_name(fd, &own), 0);
	cr_assert(addr_equal(&own, &addr));
	assert_listen_fails(&addr, &options, "bind", EADDRINUSE);
	sys_close(fd);
}

static void connect_pair(const struct addr *where, int pair[2])
{
	struct addr own;
	int listener = listen_at(where, &(struct sys_listen){.backlog = 1});
	cr_assert_eq(sys_own_name(listener, &own), 0);
	pair[0] = sys_socket(own.any.sa_family);
	assert_descriptor(pair[0]);
	cr_assert_eq(fcntl(pair[0], F_GETFL) & O_NONBLOCK, 0);
	cr_assert_eq(connect(pair[0], &own.any, own.size), 0);
	pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(pair[1], 0);
	sys_close(listener);
}

Test(sys, connected)
{
	struct addr addr, own, peer;
	int pair[2];
	cr_assert(addr_literal(&addr, "127.0.0.1", 0));
	connect_pair(&addr, pair);
	cr_assert_eq(sys_own_name(pair[0], &own), 0);
	cr_assert_eq(sys_peer_name(pair[1], &peer), 0);
	cr_assert(addr_equal(&own, &peer));

	struct sys_tcp tcp = {.keepalive = true,
	                      .keepidle = 11,
	                      .keepintvl = 12,
	                      .keepcnt = 13,
	                      .user_timeout = 14000,
	                      .buffer = 65536};
	int idle_before = option_of(pair[1], IPPROTO_TCP, TCP_KEEPIDLE);
	sys_tcp_options(pair[0], &tcp);
	sys_tcp_options(pair[1], &(struct sys_tcp){.keepidle = 11});
	cr_assert_eq(option_of(pair[0], IPPROTO_TCP, TCP_NODELAY), 1);
	cr_assert_eq(option_of(pair[0], SOL_SOCKET, SO_KEEPALIVE), 1);
	cr_assert_eq(option_of(pair[0], IPPROTO_TCP, TCP_KEEPIDLE), 11);
	cr_assert_eq(option_of(pair[0], IPPROTO_TCP, TCP_KEEPINTVL), 12);
	cr_assert_eq(option_of(pair[0], IPPROTO_TCP, TCP_KEEPCNT), 13);
	cr_assert_eq(option_of(pair[0], IPPROTO_TCP, TCP_USER_TIMEOUT), 14000);
	cr_assert_eq(option_of(pair[0], SOL_SOCKET, SO_SNDBUF), 2 * 65536); /* socket(7) */
	cr_assert_eq(option_of(pair[1], SOL_SOCKET, SO_KEEPALIVE), 0);
	cr_assert_eq(option_of(pair[1], IPPROTO_TCP, TCP_KEEPIDLE), idle_before);

	/* The end of one direction; the other goes on. */
	char byte;
	cr_assert_eq(sys_end_send(pair[0]), 0);
	cr_assert_eq(read(pair[1], &byte, 1), 0);
	cr_assert_eq(write(pair[1], "x", 1), 1);
	cr_assert_eq(read(pair[0], &byte, 1), 1);
	sys_close(pair[0]);
	sys_close(pair[1]);
	cr_assert_eq(sys_end_send(-1), -EBADF);
	cr_assert_eq(sys_peer_name(-1, &peer), -EBADF);
	cr_assert_eq(sys_own_name(-1, &own), -EBADF);

	char name[64];
	uid_t uid;
	pid_t pid;
	snprintf(name, sizeof name, "@unit-sys-pair-%d", getpid());
	cr_assert(addr_unix(&addr, name, 6432));
	connect_pair(&addr, pair);
	cr_assert_eq(sys_peer_process(pair[1], &uid, &pid), 0);
	cr_assert(uid == geteuid() && pid == getpid());
	cr_assert_eq(sys_peer_name(pair[1], &peer), 0);
	cr_assert_eq(addr_shorten(&peer).family, AF_UNIX);
	int buffer_before = option_of(pair[0], SOL_SOCKET, SO_SNDBUF);
	sys_tcp_options(pair[0], &tcp);
	cr_assert_eq(option_of(pair[0], SOL_SOCKET, SO_SNDBUF), buffer_before);
	sys_close(pair[0]);
	sys_close(pair[1]);
	cr_assert_eq(sys_peer_process(-1, &uid, &pid), -EBADF);
}

Test(sys, clocks_bells_pages)
{
	uint64_t wall = sys_wall_us(), clock = sys_clock_us(), cpu = sys_thread_cpu_us();
	cr_assert_leq(wall / 1000000, (uint64_t)time(NULL));
	cr_assert_geq(wall / 1000000 + 10, (uint64_t)time(NULL));
	while (sys_thread_cpu_us() - cpu < 5000)
		;
	cr_assert_geq(sys_clock_us() - clock, 5000 - 1);

	uint8_t a[300] = {0}, b[sizeof a] = {0};
	sys_random(a, sizeof a);
	sys_random(b, sizeof b);
	cr_assert_neq(memcmp(a, b, sizeof a), 0);
	cr_assert_neq(memcmp(a + sizeof a - 16, b + sizeof b - 16, 16), 0);

	int bell = sys_bell_open();
	assert_descriptor(bell);
	uint64_t value = UINT64_MAX - 1;
	cr_assert_eq(write(bell, &value, sizeof value), sizeof value);
	sys_bell_ring(bell); /* full: must not block */
	cr_assert_eq(read(bell, &value, sizeof value), sizeof value);
	cr_assert_eq(read(bell, &value, sizeof value), -1);
	sys_bell_ring(bell);
	cr_assert_eq(read(bell, &value, sizeof value), sizeof value);
	cr_assert_eq(value, 1);
	sys_close(bell);

	enum { SIZE = 3 * 4096 + 1 };
	uint8_t *kinds[] = {sys_pages(SIZE), sys_shared_pages("unit-sys", SIZE)};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		cr_assert_not_null(kinds[i]);
		for (size_t k = 0; k < SIZE; k++)
			cr_assert_eq(kinds[i][k], 0);
		memset(kinds[i], 1, SIZE);
		sys_pages_free(kinds[i], SIZE);
	}
	cr_assert_null(sys_pages(SIZE_MAX / 2));
	cr_assert_null(sys_shared_pages("unit-sys", SIZE_MAX / 2));
}

struct report {
	char name[16];
	cpu_set_t cpus;
	sigset_t blocked;
};

static void thread_report(void *argument)
{
	struct report *report = argument;
	pthread_getname_np(pthread_self(), report->name, sizeof report->name);
	sched_getaffinity(0, sizeof report->cpus, &report->cpus);
	pthread_sigmask(SIG_BLOCK, NULL, &report->blocked);
}

Test(sys, threads)
{
	cpu_set_t mine;
	sched_getaffinity(0, sizeof mine, &mine);
	size_t cpu = 0;
	while (!CPU_ISSET(cpu, &mine))
		cpu++;
	struct report report = {.name = ""};
	struct sys_thread *thread;
	cr_assert_eq(sys_thread_start(&thread, "a name longer than 15", -1, thread_report, &report),
	             0);
	sys_thread_join(thread);
	cr_assert_str_eq(report.name, "a name longer t");
	cr_assert(CPU_EQUAL(&report.cpus, &mine));

	cr_assert_eq(sys_thread_start(&thread, "pinned", (int)cpu, thread_report, &report), 0);
	sys_thread_join(thread);
	cr_assert_str_eq(report.name, "pinned");
	cr_assert_eq(CPU_COUNT(&report.cpus), 1);
	cr_assert(CPU_ISSET(cpu, &report.cpus));
	static const int blocked[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE, SIGCHLD};
	for (size_t i = 0; i < ARRAY_LEN(blocked); i++)
		cr_assert_eq(sigismember(&report.blocked, blocked[i]), 1);
	cr_assert_eq(sigismember(&report.blocked, SIGSEGV), 0);

	/* A processor that is not there, also beyond what cpu_set_t can say. */
	cr_assert_eq(sys_thread_start(&thread, "nowhere", 1023, thread_report, &report), -EINVAL);
	cr_assert_eq(sys_thread_start(&thread, "nowhere", 5000, thread_report, &report), -EINVAL);
}
