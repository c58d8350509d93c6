/*
 * ring.c - turns and operations of a ring; see ring.h.  Setting it up: ring_open.c.
 *
 * liburing sets the ring up and fills entries in; submitting and waiting is
 * our own io_uring_enter(2), exactly one per turn.  The helpers of liburing 2.3
 * decide themselves whether to enter and whether to ask for events, and a
 * DEFER_TASKRUN ring makes no progress unless asked.
 *
 * Completions are read where the kernel put them, and their room is free again with
 * the next turn.  What a submission in between adds lies behind them, or waits for
 * room in the kernel if it must.
 *
 * Entries that the kernel did not take (it is out of memory for the moment)
 * stay in the queue, since what is to be submitted is read from its head.
 *
 * A timeout that is given to a wait arms a timer of the kernel and disarms it, each
 * time; where waits are short that is a good part of what they cost.  So it is an
 * operation of its own, an alarm, that stays until it goes off: later waits with a
 * limit behind it need none.  Some end too early by that, which costs one turn.
 *
 * A send with MSG_DONTWAIT, MSG_WAITALL and CQE_SKIP_SUCCESS is tried while it
 * is submitted and never again; it is silent when all was taken.  That silence
 * is an answer only if the kernel took every entry and no completion had to wait
 * for room in the queue.
 *
 * user_data of callers is below 2^63.  What has the bit above is looked at here: of
 * alarms, of cancels, and of such sends, whose completions are rare.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/ring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stddef.h>

#include "core/base/check.h"
#include "net/ring_parts.h"
#include "net/sys.h"

static const uint64_t user_data_ours = UINT64_C(1) << 63;

/* Of cancels, which succeed in silence and may fail: nobody wants to know. */
static const uint64_t user_data_cancel = UINT64_MAX;

/* Of alarms. */
static const uint64_t user_data_alarm = UINT64_MAX - 1;

static_assert(sizeof(struct completion) == sizeof(struct io_uring_cqe) &&
                      offsetof(struct completion, result) == offsetof(struct io_uring_cqe, res) &&
                      offsetof(struct completion, buffer) ==
                              offsetof(struct io_uring_cqe, flags) + IORING_CQE_BUFFER_SHIFT / 8,
              "a completion is read where it lies");

enum {
	/* A limit so little before an alarm needs none of its own. */
	ALARM_SLACK_US = 100,

	/* Under way at once: one goes off before others, which were there first. */
	ALARMS_MAX = 8,
};

/* How long to wait for memory before the kernel is asked again. */
static const uint32_t nap_us = 1000;

/* ------------------------------------------------------------ receive buffers */

/* The kernel looks for buffers only inside of an enter of this thread. */
void ring_buffer_give(struct ring *ring, uint16_t group_id, uint16_t buffer)
{
	CHECK_SLOW(group_id < RING_GROUP_COUNT);
	struct group *group = &ring->groups[group_id];
	CHECK_SLOW(buffer < group->count);
	/* Member by member: the tail of the queue lies in what its first entry
	 * does not use. */
	struct io_uring_buf *entry = &group->queue->bufs[group->tail & (group->count - 1)];
	entry->addr = (uint64_t)(uintptr_t)(group->memory + (size_t)buffer * group->buffer_size);
	entry->len = group->buffer_size;
	entry->bid = buffer;
	io_uring_smp_store_release(&group->queue->tail, ++group->tail);
}

/* -------------------------------------------------------------------- the turn */

/*
 * One io_uring_enter.  Returns 0, or what the caller may have to mind: -EAGAIN
 * and -ENOMEM, entries were left in the queue for want of memory; -EBUSY, the
 * completion queue must be emptied first.
 *
 * Any other error is a ring used by a stranger, or (EBADR) completions that the
 * kernel had to drop: whose, nobody can know, so nothing can be relied on.
 */
static int ring_enter(struct ring *ring, uint32_t wait_for, uint32_t flags,
                      const struct __kernel_timespec *timeout)
{
	const struct io_uring_sq *sq = &ring->uring.sq;
	struct io_uring_getevents_arg *wait = NULL;
	flags |= ring->enter_flags;
	if (UNLIKELY(timeout != NULL)) {
		wait = &ring->wait;
		wait->ts = (uint64_t)(uintptr_t)timeout;
		flags |= IORING_ENTER_EXT_ARG;
	}
	io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
	int result = io_uring_enter2((unsigned)ring->uring.enter_ring_fd,
	                             sq->sqe_tail - ring->sq_head, wait_for, flags,
	                             (sigset_t *)(void *)wait, sizeof *wait);
	ring->enters++;
	ring->sq_head = io_uring_smp_load_acquire(sq->khead);
	if (LIKELY(result >= 0) || result == -ETIME || result == -EINTR)
		return 0;
	CHECK(result == -EAGAIN || result == -ENOMEM || result == -EBUSY);
	return result;
}

static void alarm_went_off(struct ring *ring, int32_t result)
{
	CHECK(ring->alarms > 0);
	ring->alarms--;
	ring->alarm_us = UINT64_MAX;
	ring->alarms_fail |= result != -ETIME;
}

static struct io_uring_cqe *ring_cqe(const struct ring *ring, uint32_t index)
{
	const struct io_uring_cq *cq = &ring->uring.cq;
	return &cq->cqes[(ring->cq_head + index) & cq->ring_mask];
}

/* Takes what is ours out of the completions; returns how many are left. */
static COLD uint32_t ring_sort(struct ring *ring)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < ring->cq_taken; i++) {
		struct io_uring_cqe cqe = *ring_cqe(ring, i);
		if (cqe.user_data == user_data_alarm)
			alarm_went_off(ring, cqe.res);
		if (cqe.user_data >= user_data_alarm)
			continue;
		if ((cqe.user_data & user_data_ours) != 0) {
			cqe.user_data &= ~user_data_ours;
			ring->unsent = true;
		}
		*ring_cqe(ring, count++) = cqe;
	}
	return count;
}

static uint32_t ring_collect(struct ring *ring)
{
	uint64_t any = 0;
	ring->cq_taken = io_uring_smp_load_acquire(ring->uring.cq.ktail) - ring->cq_head;
	for (uint32_t i = 0; i < ring->cq_taken; i++)
		any |= ring_cqe(ring, i)->user_data;
	ring->unsent = false;
	if (UNLIKELY((any & user_data_ours) != 0))
		return ring_sort(ring);
	return ring->cq_taken;
}

/* An entry to fill in.  A full queue is submitted, without running any work: a
 * completion must not come in the middle of the caller's turn.  There is no
 * way to report failure here and no entry may be lost, so it waits for memory
 * if it must. */
static COLD void ring_make_room(struct ring *ring)
{
	const struct io_uring_sq *sq = &ring->uring.sq;
	while (sq->sqe_tail - ring->sq_head == sq->ring_entries)
		if (ring_enter(ring, 0, 0, NULL) < 0)
			ring_nap(nap_us);
}

static inline struct io_uring_sqe *ring_sqe(struct ring *ring)
{
	struct io_uring_sq *sq = &ring->uring.sq;
	if (UNLIKELY(sq->sqe_tail - ring->sq_head == sq->ring_entries))
		ring_make_room(ring);
	return &sq->sqes[sq->sqe_tail++ & sq->ring_mask];
}

static struct __kernel_timespec time_of(uint64_t us)
{
	enum { SECOND_US = 1000 * 1000 };
	return (struct __kernel_timespec){
		.tv_sec = (long long)(us / SECOND_US),
		.tv_nsec = (long long)(us % SECOND_US * 1000),
	};
}

/* Sees to it that a wait ends in time: by an alarm, or else by the timeout returned. */
static COLD const struct __kernel_timespec *ring_limit(struct ring *ring, uint64_t until_us)
{
	if (until_us == 0 || until_us == UINT64_MAX)
		return NULL;
	if (ring->alarms == ALARMS_MAX || ring->alarms_fail) {
		uint64_t now_us = sys_clock_us();
		ring->wait_time = time_of(MAX(until_us, now_us) - now_us);
		return &ring->wait_time;
	}
	struct io_uring_sqe *sqe = ring_sqe(ring);
	ring->alarm_time = time_of(until_us);
	io_uring_prep_timeout(sqe, &ring->alarm_time, 0, IORING_TIMEOUT_ABS);
	sqe->user_data = user_data_alarm;
	ring->alarm_us = until_us;
	ring->alarms++;
	return NULL;
}

/* Asks the kernel again and again, which costs a third of a microsecond each time.
 * False: there was nothing, or it has to be asked in another way. */
static COLD bool ring_look(struct ring *ring, uint64_t until_us)
{
	uint64_t end_us = MIN(until_us, sys_clock_us() + ring->spin_us);
	do {
		if (ring_enter(ring, 0, IORING_ENTER_GETEVENTS, NULL) < 0)
			return false;
		if (io_uring_smp_load_acquire(ring->uring.cq.ktail) != ring->cq_head)
			return true;
	} while (sys_clock_us() < end_us);
	return false;
}

/*
 * With GETEVENTS the kernel first runs the work it has put off and moves what
 * overflowed into the queue, then waits only if that is empty: completions
 * beyond one enter's share (about 20 pieces of work) or beyond the queue's
 * room come with the next turn, which does not sleep then.
 */
uint32_t ring_turn(struct ring *ring, uint64_t until_us)
{
	const struct __kernel_timespec *timeout = NULL;
	if (UNLIKELY(until_us + ALARM_SLACK_US < ring->alarm_us))
		timeout = ring_limit(ring, until_us);
	ring->cq_head += ring->cq_taken;
	io_uring_smp_store_release(ring->uring.cq.khead, ring->cq_head);
	int result = 0;
	if (LIKELY(ring->spin_us == 0) || until_us == 0 || !ring_look(ring, until_us))
		result = ring_enter(ring, until_us == 0 ? 0 : 1, IORING_ENTER_GETEVENTS, timeout);
	if (UNLIKELY(result == -EAGAIN || result == -ENOMEM)) {
		/* Nothing was run either.  What is under way must go on, it may
		 * free memory; and we must not spin. */
		ring->wait_time = time_of(nap_us);
		ring_enter(ring, 1, IORING_ENTER_GETEVENTS, &ring->wait_time);
	}
	ring->completion_count = ring_collect(ring);
	ring->settled = ring->sq_head == ring->uring.sq.sqe_tail &&
	                (IO_URING_READ_ONCE(*ring->uring.sq.kflags) & IORING_SQ_CQ_OVERFLOW) == 0;
	return ring->completion_count;
}

const struct completion *ring_completion(const struct ring *ring, uint32_t index)
{
	CHECK(index < ring->completion_count);
	return (const struct completion *)(const void *)ring_cqe(ring, index);
}

void ring_spin(struct ring *ring, uint32_t us)
{
	ring->spin_us = us;
}

bool ring_sends_now(const struct ring *ring)
{
	return ring->sends_now;
}

bool ring_is_settled(const struct ring *ring)
{
	return ring->settled;
}

bool ring_has_unsent(const struct ring *ring)
{
	return ring->unsent;
}

uint64_t ring_enters(const struct ring *ring)
{
	return ring->enters;
}

/* ------------------------------------------------------------------ operations */

void ring_accept(struct ring *ring, uint64_t user_data, int fd)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_multishot_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC);
	sqe->user_data = user_data;
}

void ring_recv(struct ring *ring, uint64_t user_data, int fd, uint16_t group, bool poll_first)
{
	CHECK(group < RING_GROUP_COUNT);
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = group;
	if (poll_first)
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	sqe->user_data = user_data;
}

void ring_send(struct ring *ring, uint64_t user_data, int fd, const void *bytes, uint32_t size)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_send(sqe, fd, bytes, size, MSG_WAITALL | MSG_NOSIGNAL);
	sqe->user_data = user_data;
}

void ring_sendmsg(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_sendmsg(sqe, fd, message, MSG_WAITALL | MSG_NOSIGNAL);
	sqe->user_data = user_data;
}

/* With MSG_WAITALL a short count is a failure, which is told. */
static const int now_flags = MSG_DONTWAIT | MSG_WAITALL | MSG_NOSIGNAL;

void ring_send_now(struct ring *ring, uint64_t user_data, int fd, const void *bytes, uint32_t size)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_send(sqe, fd, bytes, size, now_flags);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = user_data | user_data_ours;
}

void ring_sendmsg_now(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_sendmsg(sqe, fd, message, now_flags);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = user_data | user_data_ours;
}

void ring_connect(struct ring *ring, uint64_t user_data, int fd, const struct sockaddr *address,
                  socklen_t size)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_connect(sqe, fd, address, size);
	sqe->user_data = user_data;
}

void ring_poll(struct ring *ring, uint64_t user_data, int fd, uint32_t mask)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_poll_add(sqe, fd, mask);
	sqe->user_data = user_data;
}

void ring_read(struct ring *ring, uint64_t user_data, int fd, void *bytes, uint32_t size)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_read(sqe, fd, bytes, size, UINT64_MAX); /* no position to read at */
	sqe->user_data = user_data;
}

void ring_cancel(struct ring *ring, uint64_t user_data)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_cancel64(sqe, user_data, 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = user_data_cancel;
}
