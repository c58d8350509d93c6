/*
 * sys.c - net/sys.h in the virtual world: its clock, its chance, its sockets.
 *
 * Threads are not started: the driver steps the workers itself.  The wall
 * clock starts at a fixed day and runs with the virtual time.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/sys.h"

#include "tests/sim/report.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t sys_clock_us(void)
{
	return world.now_us;
}

uint64_t sys_wall_us(void)
{
	return 1783000000000000U + world.now_us;
}

void sys_random(void *bytes, size_t size)
{
	uint8_t *to = bytes;
	for (size_t i = 0; i < size; i++)
		to[i] = (uint8_t)rng_next(&world.secrets);
}

int sys_socket(int family)
{
	(void)family;
	if (fault(world.faults.op_error))
		return -EMFILE;
	int fd = file_open(FILE_SOCK);
	if (fd >= 0)
		file_get(fd)->sock = sock_open();
	return fd;
}

void sys_close(int fd)
{
	file_close(fd);
}

static struct file *sock_file(int fd)
{
	struct file *file = file_get(fd);
	SIM_CHECK(file != NULL && file->kind == FILE_SOCK, "descriptor %d is not a socket", fd);
	return file;
}

int sys_end_send(int fd)
{
	struct sock *sock = sock_file(fd)->sock;
	if (sock->state != SOCK_OPEN)
		return -ENOTCONN;
	sock_end(sock);
	return 0;
}

int sys_listen(const struct addr *addr, const struct sys_listen *options, const char **failed)
{
	(void)options;
	(void)failed;
	int fd = file_open(FILE_DOOR);
	if (fd < 0)
		return fd;
	struct door *door = door_open(addr);
	door->is_ringed = true;
	file_get(fd)->door = door;
	return fd;
}

void sys_defer_accept(int fd, bool defer)
{
	(void)fd;
	(void)defer;
}

void sys_tcp_options(int fd, const struct sys_tcp *tcp)
{
	(void)tcp;
	sock_file(fd);
}

int sys_own_name(int fd, struct addr *addr)
{
	struct file *file = file_get(fd);
	if (file == NULL)
		return -EBADF;
	*addr = file->kind == FILE_DOOR ? file->door->addr : file->sock->own;
	return 0;
}

int sys_peer_name(int fd, struct addr *addr)
{
	const struct sock *sock = sock_file(fd)->sock;
	if (sock->state != SOCK_OPEN || sock->reset)
		return -ENOTCONN;
	*addr = sock->target;
	return 0;
}

int sys_peer_process(int fd, uid_t *uid, pid_t *pid)
{
	sock_file(fd);
	*uid = 0;
	*pid = 4711;
	return 0;
}

int sys_bell_open(void)
{
	return file_open(FILE_BELL);
}

void sys_bell_ring(int bell)
{
	struct file *file = file_get(bell);
	SIM_CHECK(file != NULL && file->kind == FILE_BELL, "descriptor %d is not a bell", bell);
	file->rung++;
	if (file->ring != NULL)
		ring_wake(file->ring);
}

/* Page-aligned, since cancel/table wants cache lines. */
void *sys_pages(size_t size)
{
	size_t whole = (size + 4095) & ~(size_t)4095;
	void *pages = aligned_alloc(4096, whole);
	if (pages != NULL)
		memset(pages, 0, whole);
	return pages;
}

void sys_pages_free(void *pages, size_t size)
{
	(void)size;
	free(pages);
}

/* The virtual ring never loses the end of a receive. */
int sys_poll_hung_up(struct pollfd *fds, uint32_t count)
{
	(void)fds;
	(void)count;
	return 0;
}

void *sys_shared_pages(const char *name, size_t size)
{
	(void)name;
	return sys_pages(size);
}

int sys_thread_start(struct sys_thread **thread, const char *name, int cpu,
                     void (*run)(void *argument), void *argument)
{
	(void)name;
	(void)cpu;
	(void)run;
	(void)argument;
	*thread = NULL;
	return -EAGAIN;
}

void sys_thread_join(struct sys_thread *thread)
{
	SIM_CHECK(thread == NULL, "join of a thread that was not started");
}

uint64_t sys_thread_cpu_us(void)
{
	return world.now_us;
}
