/*
 * sys.h - what is asked of the operating system besides the ring.  The seam.
 *
 * Sockets, clock, randomness, pages, the bell and threads.  Production links
 * net/sys.c, the simulator tests/sim/sys.c.  Calls return 0 or a descriptor,
 * or -errno.  Every descriptor is close-on-exec.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_SYS_H
#define NET_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/addr.h"

/* Monotonic, and wall clock since 1970; microseconds. */
uint64_t sys_clock_us(void);
uint64_t sys_wall_us(void);

/* getrandom(2); ends the process if the kernel has none to give. */
void sys_random(void *bytes, size_t size);

/* A stream socket of the address's family, blocking: the ring waits itself. */
int sys_socket(int family);
void sys_close(int fd);

/* shutdown(2) of the sending side. */
int sys_end_send(int fd);

struct sys_listen {
	int backlog;
	bool reuse_port;
	bool defer_accept;
	int unix_mode;          /* of a socket file; 0: as is */
	const char *unix_group; /* NULL or "": as is */
};

/* Binds and listens.  A socket file left over is removed; `failed` is the name
 * of the call that failed ("bind", "listen", "chmod"). */
int sys_listen(const struct addr *addr, const struct sys_listen *options, const char **failed);

struct sys_tcp {
	bool keepalive;
	int keepidle, keepintvl, keepcnt; /* seconds, seconds, count; 0: as is */
	int user_timeout;                 /* ms; 0: as is */
	int buffer;                       /* bytes, both sides; 0: as is */
};

/* TCP_NODELAY and what `tcp` says; does nothing to a unix socket.  What is set on
 * a listening socket holds for those that it accepts from then on. */
void sys_tcp_options(int fd, const struct sys_tcp *tcp);
void sys_defer_accept(int fd, bool defer);

int sys_own_name(int fd, struct addr *addr);
int sys_peer_name(int fd, struct addr *addr);

/* Sets revents of those that are hung up or in error (poll(2), which waits for
 * nothing); how many, or -errno. */
struct pollfd;
int sys_poll_hung_up(struct pollfd *fds, uint32_t count);

/* The process at the other end of a unix socket. */
int sys_peer_process(int fd, uid_t *uid, pid_t *pid);

/* A bell: a descriptor to wait on by ring_read() of 8 bytes, rung from any
 * thread. */
int sys_bell_open(void);
void sys_bell_ring(int bell);

/* Pages, zeroed; NULL without memory. */
void *sys_pages(size_t size);
void sys_pages_free(void *pages, size_t size);

/* Zeroed pages of a memfd, for what a successor process may map. */
void *sys_shared_pages(const char *name, size_t size);

/* Starts a thread; cpu < 0: not pinned.  All signals are blocked in it. */
struct sys_thread;
int sys_thread_start(struct sys_thread **out, const char *name, int cpu,
                     void (*run)(void *argument), void *argument);
void sys_thread_join(struct sys_thread *thread);

/* CPU time of the calling thread, microseconds. */
uint64_t sys_thread_cpu_us(void);

#endif
