/*
 * ring.h - operations into the kernel, completions out.  The seam of tests.
 *
 * Production links net/ring.c and ring_open.c (io_uring
 * through liburing); the simulator
 * links tests/sim/ring.c (virtual sockets and time, partial transfers, faults,
 * seeded order).  Everything above is the same code in both.  Narrow enough
 * for an epoll twin.
 *
 * A ring belongs to the thread that opened it.  Operations are queued by the
 * calls below and reach the kernel with the next ring_turn(), which submits,
 * waits for at least one completion or the timeout, and collects; nothing is
 * called back.  A full submission queue is submitted on the way.  user_data is
 * the caller's, below 2^63: slot, generation and operation, never a pointer (net/op.h).
 *
 * `more` means that the operation goes on; without it the operation has ended
 * and its memory is the caller's again.  A recv completion with has_buffer
 * lends a buffer of its group until ring_buffer_give().  Buffers may come back
 * in any order.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_RING_H
#define NET_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct ring;

/* As the kernel lays it out (struct io_uring_cqe): it is read where it lies. */
struct completion {
	uint64_t user_data;
	int32_t result; /* bytes, descriptor or poll mask; or -errno */
	bool has_buffer : 1;
	bool more : 1;
	uint16_t buffer;
};

struct ring_options {
	uint32_t entries;     /* submission queue */
	uint32_t completions; /* completion queue */
};

/* Why a ring could not be had, in words for the operator: the cause (kernel
 * version, kernel.io_uring_disabled, seccomp, RLIMIT_MEMLOCK) and the remedy. */
struct ring_failure {
	char text[512];
};

/* In the thread that will use it.  NULL: *failure says why.  ENOMEM is retried
 * for up to a second, then with smaller queues (uring.md: the kernel returns
 * the charge of a ring late). */
struct ring *ring_open(const struct ring_options *options, struct ring_failure *failure);
void ring_close(struct ring *ring);

enum { RING_GROUP_CLIENT, RING_GROUP_SERVER, RING_GROUP_COUNT };

/* A group of `count` receive buffers (a power of two) of `size` bytes; all are
 * given to the kernel.  Returns their memory, buffer i at i * size; or NULL. */
uint8_t *ring_group_open(struct ring *ring, uint16_t group, uint16_t count, uint32_t size);
void ring_buffer_give(struct ring *ring, uint16_t group, uint16_t buffer);

/* Multishot accept (close-on-exec): a descriptor per completion. */
void ring_accept(struct ring *ring, uint64_t user_data, int fd);

/* Multishot receive into `group`; poll_first: nothing is expected right now.
 * result 0: end of file.  -ENOBUFS: the group is empty, re-arm when buffers
 * come back. */
void ring_recv(struct ring *ring, uint64_t user_data, int fd, uint16_t group, bool poll_first);

/* One send in flight per socket, two interleave.  Completes once, when all is
 * sent (MSG_WAITALL) or with a smaller count or an error. */
void ring_send(struct ring *ring, uint64_t user_data, int fd, const void *bytes, uint32_t size);
void ring_sendmsg(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message);

/* Sends that do not wait for room: what is not taken when the entry reaches the
 * kernel is not sent.  All taken: no completion, and the memory is free again
 * once ring_turn() has returned and ring_is_settled().  Else one completion, of
 * that turn at the latest: what was taken, or -EAGAIN or another error.
 * Not to be used unless ring_sends_now(). */
void ring_send_now(struct ring *ring, uint64_t user_data, int fd, const void *bytes, uint32_t size);
void ring_sendmsg_now(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message);

/* Whether this kernel does so; found out by ring_open(). */
bool ring_sends_now(const struct ring *ring);

/* Whether the last turn has submitted and collected all there was, so that the
 * silence of a ring_send_now() means that it is done. */
bool ring_is_settled(const struct ring *ring);

/* Whether completions of ring_send_now() are among those of the last turn. */
bool ring_has_unsent(const struct ring *ring);

void ring_connect(struct ring *ring, uint64_t user_data, int fd, const struct sockaddr *address,
                  socklen_t size);

/* One shot; `mask` as poll(2), POLLRDHUP to see a peer leave. */
void ring_poll(struct ring *ring, uint64_t user_data, int fd, uint32_t mask);

void ring_read(struct ring *ring, uint64_t user_data, int fd, void *bytes, uint32_t size);

/* Asks the kernel to end the operation with this user_data; its last completion
 * comes as usual (-ECANCELED or what it had).  Not finding it is normal.  The
 * cancel itself reports nothing. */
void ring_cancel(struct ring *ring, uint64_t user_data);

/* Later turns look for completions for so long before they sleep; 0: they do not. */
void ring_spin(struct ring *ring, uint32_t us);

/* Submits, waits for one completion or at most until a time of sys_clock_us() (0: does
 * not wait, UINT64_MAX: no limit), and collects.  The number of completions, which
 * stay until the next turn; 0 on timeout or signal, and now and then too early. */
uint32_t ring_turn(struct ring *ring, uint64_t until_us);
const struct completion *ring_completion(const struct ring *ring, uint32_t index);

/* io_uring_enter calls so far. */
uint64_t ring_enters(const struct ring *ring);

#endif
