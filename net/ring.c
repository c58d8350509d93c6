/*
 * ring.c - see ring.h: io_uring.
 *
 * liburing sets the ring up and fills entries in; submitting and waiting is
 * our own io_uring_enter(2), exactly one per turn.  The helpers of liburing 2.3
 * decide themselves whether to enter and whether to ask for events, and a
 * DEFER_TASKRUN ring makes no progress unless asked.
 *
 * The kernel fills receive buffers only inside of an enter of this thread, so
 * buffers given back become visible to it by one store per group and enter.
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
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/ring.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/check.h"
#include "net/ring_failure.h"
#include "net/sys.h"

/* Of cancels, which succeed in silence and may fail: nobody wants to know. */
static const uint64_t user_data_cancel = UINT64_MAX;

/* Of alarms. */
static const uint64_t user_data_alarm = UINT64_MAX - 1;

enum {
	/* Two clocks and a rounding lie between a limit and its alarm. */
	ALARM_SLACK_US = 100,

	/* Under way at once: one goes off before others, which were there first. */
	ALARMS_MAX = 8,
};

/* Smallest queues to fall back to when memory may not be locked. */
static const uint32_t entries_min = 16;
static const uint32_t completions_min = 128;

static const uint64_t patience_us = 1000 * 1000;
static const uint32_t nap_first_us = 1000;
static const uint32_t nap_longest_us = 100 * 1000;

struct group {
	struct io_uring_buf_ring *queue; /* shared with the kernel; NULL: not open */
	size_t queue_size;
	uint8_t *memory;
	uint32_t buffer_size;
	uint16_t count;
	uint16_t tail;  /* of queue, ours; the kernel is shown it with the next enter */
	bool has_given; /* tail has moved since */
};

struct ring {
	struct io_uring uring;
	bool fd_registered;
	bool sends_now;
	bool settled;
	struct group groups[RING_GROUP_COUNT];
	uint64_t enters;
	struct completion *completions;
	uint32_t completion_room, completion_count;
	uint64_t alarm_us;                   /* when the next alarm goes off; 0: none is known */
	uint32_t alarms;                     /* under way */
	struct __kernel_timespec alarm_time; /* of the last, until it is submitted */
	bool alarms_fail;
	uint32_t sq_head; /* of the submission queue, when it was last looked at */
};

static void nap(uint32_t us)
{
	struct timespec time = {.tv_nsec = (long)us * 1000};
	nanosleep(&time, NULL);
}

/* ------------------------------------------------------------- open and close */

/* The kernel gives the locked memory of a closed ring back up to 300 ms late,
 * so a process that succeeds another may find it all in use at first. */
struct patience {
	uint64_t until_us;
	uint32_t nap_us;
};

static struct patience patience_begin(void)
{
	return (struct patience){sys_clock_us() + patience_us, nap_first_us};
}

/* Sleeps a while; false when it has lasted long enough. */
static bool patience_nap(struct patience *patience)
{
	if (sys_clock_us() >= patience->until_us)
		return false;
	nap(patience->nap_us);
	patience->nap_us = MIN(patience->nap_us * 2, nap_longest_us);
	return true;
}

static int queues_open(struct io_uring *uring, uint32_t entries, uint32_t completions)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
	                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
		.cq_entries = completions,
	};
	return io_uring_queue_init_params(entries, uring, &params);
}

/* Waits for memory first, then settles for less of it. */
static int queues_open_patiently(struct io_uring *uring, const struct ring_options *options)
{
	struct patience patience = patience_begin();
	uint32_t entries = options->entries;
	uint32_t completions = options->completions;
	for (;;) {
		int result = queues_open(uring, entries, completions);
		if (result != -ENOMEM)
			return result;
		if (patience_nap(&patience))
			continue;
		if (entries <= entries_min && completions <= completions_min)
			return result;
		entries = MAX(entries / 2, entries_min);
		completions = MAX(completions / 2, completions_min);
	}
}

static int queue_register(struct ring *ring, void *queue, uint16_t group, uint16_t count)
{
	struct io_uring_buf_reg reg = {
		.ring_addr = (uint64_t)(uintptr_t)queue,
		.ring_entries = count,
		.bgid = group,
	};
	return io_uring_register_buf_ring(&ring->uring, &reg, 0);
}

/* What we use must be there before anything depends on it, and a seccomp
 * filter may forbid each of the three system calls on its own. */
static bool ring_probe(struct ring *ring, struct ring_failure *failure)
{
	static const struct {
		uint8_t code;
		const char *name;
	} needed[] = {
		{IORING_OP_ACCEPT, "ACCEPT"},   {IORING_OP_RECV, "RECV"},
		{IORING_OP_SEND, "SEND"},       {IORING_OP_SENDMSG, "SENDMSG"},
		{IORING_OP_CONNECT, "CONNECT"}, {IORING_OP_POLL_ADD, "POLL_ADD"},
		{IORING_OP_READ, "READ"},       {IORING_OP_ASYNC_CANCEL, "ASYNC_CANCEL"},
		{IORING_OP_TIMEOUT, "TIMEOUT"},
	};
	enum { OPERATIONS = 256 };
	struct io_uring_probe *probe =
		calloc(1, sizeof *probe + OPERATIONS * sizeof(struct io_uring_probe_op));
	int result = probe == NULL ? -ENOMEM
	                           : io_uring_register_probe(&ring->uring, probe, OPERATIONS);
	const char *missing = NULL;
	for (size_t i = 0; result == 0 && i < ARRAY_LEN(needed); i++)
		if (!io_uring_opcode_supported(probe, needed[i].code))
			missing = needed[i].name;
	free(probe);
	if (result < 0)
		ring_failure_explain(failure, "io_uring_register", result);
	else if (missing != NULL)
		ring_failure_missing(failure, missing);
	return result == 0 && missing == NULL;
}

static bool ring_try_group(struct ring *ring, struct ring_failure *failure)
{
	enum { TRIAL_SIZE = 4096 };
	struct patience patience = patience_begin();
	int result;
	do {
		void *queue = sys_pages(TRIAL_SIZE);
		result = queue == NULL ? -ENOMEM : queue_register(ring, queue, 0, 1);
		if (result == 0)
			io_uring_unregister_buf_ring(&ring->uring, 0);
		if (queue != NULL)
			sys_pages_free(queue, TRIAL_SIZE);
	} while (result == -ENOMEM && patience_nap(&patience));
	if (result == -EINVAL)
		ring_failure_missing(failure, "REGISTER_PBUF_RING");
	else if (result < 0)
		ring_failure_explain(failure, "io_uring_register", result);
	return result == 0;
}

/* True if a send of `size` bytes that must not wait says what it should: nothing
 * when there is room for all, else at once a part or that there is none. */
static bool try_send_now(struct ring *ring, int fd, const uint8_t *bytes, uint32_t size, bool room)
{
	ring_send_now(ring, 1, fd, bytes, size);
	uint32_t count = ring_turn(ring, 0, 0);
	if (!ring_is_settled(ring))
		return false;
	if (room || count != 1)
		return room && count == 0;
	const struct completion *only = ring_completion(ring, 0);
	return only->user_data == 1 && !only->more &&
	       (only->result == -EAGAIN || (only->result > 0 && only->result < (int32_t)size));
}

/* Whether silence can be relied on is tried, not looked up; without sockets for
 * it, it is not relied on. */
static bool ring_try_now(struct ring *ring)
{
	enum { FLOOD = 1 << 20 };
	int pair[2];
	uint8_t *bytes = calloc(1, FLOOD);
	if (bytes == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		free(bytes);
		return false;
	}
	int least = 1; /* bytes: the kernel makes the least it can of it */
	setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
	bool works = try_send_now(ring, pair[0], bytes, 1, true) &&
	             recv(pair[1], bytes, 2, MSG_DONTWAIT) == 1 &&
	             try_send_now(ring, pair[0], bytes, FLOOD, false) &&
	             try_send_now(ring, pair[0], bytes, FLOOD, false);
	sys_close(pair[0]);
	sys_close(pair[1]);
	free(bytes);
	return works;
}

static bool ring_try_enter(struct ring *ring, struct ring_failure *failure)
{
	int result = io_uring_enter((unsigned)ring->uring.ring_fd, 0, 0, IORING_ENTER_GETEVENTS,
	                            NULL);
	ring->enters++;
	if (result < 0)
		ring_failure_explain(failure, "io_uring_enter", result);
	return result >= 0;
}

struct ring *ring_open(const struct ring_options *options, struct ring_failure *failure)
{
	struct ring *ring = calloc(1, sizeof *ring);
	if (ring == NULL) {
		ring_failure_explain(failure, "malloc", -ENOMEM);
		return NULL;
	}
	int result = queues_open_patiently(&ring->uring, options);
	if (result < 0) {
		ring_failure_explain(failure, "io_uring_setup", result);
		free(ring);
		return NULL;
	}
	bool usable = ring_probe(ring, failure) && ring_try_group(ring, failure) &&
	              ring_try_enter(ring, failure);
	if (usable) {
		ring->completion_room = ring->uring.cq.ring_entries;
		ring->completions = calloc(ring->completion_room, sizeof ring->completions[0]);
		if (ring->completions == NULL)
			ring_failure_explain(failure, "malloc", -ENOMEM);
	}
	if (ring->completions == NULL) {
		io_uring_queue_exit(&ring->uring);
		free(ring);
		return NULL;
	}
	/* Saves a look-up per enter; whatever is in the way, it goes without. */
	ring->fd_registered = io_uring_register_ring_fd(&ring->uring) == 1;
	ring->sends_now = ring_try_now(ring);
	return ring;
}

static size_t group_memory_size(const struct group *group)
{
	return (size_t)group->count * group->buffer_size;
}

void ring_close(struct ring *ring)
{
	for (int i = 0; i < RING_GROUP_COUNT; i++)
		if (ring->groups[i].queue != NULL)
			io_uring_unregister_buf_ring(&ring->uring, i);
	io_uring_queue_exit(&ring->uring);
	for (int i = 0; i < RING_GROUP_COUNT; i++) {
		struct group *group = &ring->groups[i];
		if (group->queue == NULL)
			continue;
		sys_pages_free(group->queue, group->queue_size);
		sys_pages_free(group->memory, group_memory_size(group));
	}
	free(ring->completions);
	free(ring);
}

/* ------------------------------------------------------------ receive buffers */

uint8_t *ring_group_open(struct ring *ring, uint16_t group_id, uint16_t count, uint32_t size)
{
	CHECK(group_id < RING_GROUP_COUNT && ring->groups[group_id].queue == NULL);
	CHECK(count > 0 && (count & (count - 1)) == 0 && size > 0);
	struct group *group = &ring->groups[group_id];
	struct group fresh = {
		.queue_size = count * sizeof(struct io_uring_buf),
		.buffer_size = size,
		.count = count,
	};
	fresh.memory = sys_pages(group_memory_size(&fresh));
	if (fresh.memory == NULL)
		return NULL;
	fresh.queue = sys_pages(fresh.queue_size);
	int result = -ENOMEM;
	if (fresh.queue != NULL) {
		struct patience patience = patience_begin();
		do
			result = queue_register(ring, fresh.queue, group_id, count);
		while (result == -ENOMEM && patience_nap(&patience));
	}
	if (result < 0) {
		if (fresh.queue != NULL)
			sys_pages_free(fresh.queue, fresh.queue_size);
		sys_pages_free(fresh.memory, group_memory_size(&fresh));
		return NULL;
	}
	*group = fresh;
	for (uint16_t i = 0; i < count; i++)
		ring_buffer_give(ring, group_id, i);
	return group->memory;
}

void ring_buffer_give(struct ring *ring, uint16_t group_id, uint16_t buffer)
{
	CHECK(group_id < RING_GROUP_COUNT);
	struct group *group = &ring->groups[group_id];
	CHECK(buffer < group->count);
	/* Member by member: the tail of the queue lies in what its first entry
	 * does not use. */
	struct io_uring_buf *entry = &group->queue->bufs[group->tail & (group->count - 1)];
	entry->addr = (uint64_t)(uintptr_t)(group->memory + (size_t)buffer * group->buffer_size);
	entry->len = group->buffer_size;
	entry->bid = buffer;
	group->tail++;
	group->has_given = true;
}

static void groups_publish(struct ring *ring)
{
	for (int i = 0; i < RING_GROUP_COUNT; i++) {
		struct group *group = &ring->groups[i];
		if (!group->has_given)
			continue;
		io_uring_smp_store_release(&group->queue->tail, group->tail);
		group->has_given = false;
	}
}

/* -------------------------------------------------------------------- the turn */

/* Entries the kernel has not taken yet. */
static uint32_t queue_publish(struct ring *ring)
{
	struct io_uring_sq *sq = &ring->uring.sq;
	sq->sqe_head = sq->sqe_tail;
	io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
	return sq->sqe_tail - io_uring_smp_load_acquire(sq->khead);
}

/*
 * One io_uring_enter.  Returns 0, or what the caller may have to mind: -EAGAIN
 * and -ENOMEM, entries were left in the queue for want of memory; -EBUSY, the
 * completion queue must be emptied first.
 *
 * Any other error is a ring used by a stranger, or (EBADR) completions that the
 * kernel had to drop: whose, nobody can know, so nothing can be relied on.
 */
static int ring_enter(struct ring *ring, uint32_t to_submit, uint32_t wait_for, uint32_t flags,
                      const struct __kernel_timespec *timeout)
{
	struct io_uring_getevents_arg wait = {.ts = (uint64_t)(uintptr_t)timeout};
	groups_publish(ring);
	flags |= IORING_ENTER_EXT_ARG;
	if (ring->fd_registered)
		flags |= IORING_ENTER_REGISTERED_RING;
	int result = io_uring_enter2((unsigned)ring->uring.enter_ring_fd, to_submit, wait_for,
	                             flags, (sigset_t *)(void *)&wait, sizeof wait);
	ring->enters++;
	if (result >= 0 || result == -ETIME || result == -EINTR)
		return 0;
	CHECK(result == -EAGAIN || result == -ENOMEM || result == -EBUSY);
	return result;
}

static void alarm_went_off(struct ring *ring, int32_t result)
{
	CHECK(ring->alarms > 0);
	ring->alarms--;
	ring->alarm_us = 0;
	ring->alarms_fail |= result != -ETIME;
}

/* Copies out, so that the queue is free again before anybody acts on it. */
static uint32_t ring_collect(struct ring *ring)
{
	const struct io_uring_cq *cq = &ring->uring.cq;
	uint32_t ready = io_uring_cq_ready(&ring->uring);
	uint32_t head = *cq->khead;
	uint32_t count = 0;
	CHECK(ready <= ring->completion_room);
	for (uint32_t i = 0; i < ready; i++) {
		const struct io_uring_cqe *cqe = &cq->cqes[(head + i) & cq->ring_mask];
		if (UNLIKELY(cqe->user_data >= user_data_alarm)) {
			if (cqe->user_data == user_data_alarm)
				alarm_went_off(ring, cqe->res);
			continue;
		}
		ring->completions[count++] = (struct completion){
			.user_data = cqe->user_data,
			.result = cqe->res,
			.buffer = (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT),
			.has_buffer = (cqe->flags & IORING_CQE_F_BUFFER) != 0,
			.more = (cqe->flags & IORING_CQE_F_MORE) != 0,
		};
	}
	io_uring_cq_advance(&ring->uring, ready);
	return count;
}

/* An entry to fill in.  A full queue is submitted, without running any work: a
 * completion must not come in the middle of the caller's turn.  There is no
 * way to report failure here and no entry may be lost, so it waits for memory
 * if it must. */
static void ring_make_room(struct ring *ring)
{
	const struct io_uring_sq *sq = &ring->uring.sq;
	ring->sq_head = io_uring_smp_load_acquire(sq->khead);
	while (sq->sqe_tail - ring->sq_head == sq->ring_entries) {
		if (ring_enter(ring, queue_publish(ring), 0, 0, NULL) < 0)
			nap(nap_first_us);
		ring->sq_head = io_uring_smp_load_acquire(sq->khead);
	}
}

static struct io_uring_sqe *ring_sqe(struct ring *ring)
{
	struct io_uring_sq *sq = &ring->uring.sq;
	if (UNLIKELY(sq->sqe_tail - ring->sq_head == sq->ring_entries))
		ring_make_room(ring);
	struct io_uring_sqe *sqe = &sq->sqes[sq->sqe_tail & sq->ring_mask];
	sq->sqe_tail++;
	return sqe;
}

/* True: an alarm will end a wait that may last until at_us, timeout_us from now. */
static bool ring_alarm(struct ring *ring, uint64_t at_us, const struct __kernel_timespec *timeout)
{
	if (ring->alarm_us != 0 && ring->alarm_us <= at_us + ALARM_SLACK_US)
		return true;
	if (ring->alarms == ALARMS_MAX || ring->alarms_fail)
		return false;
	struct io_uring_sqe *sqe = ring_sqe(ring);
	ring->alarm_time = *timeout;
	io_uring_prep_timeout(sqe, &ring->alarm_time, 0, 0);
	sqe->user_data = user_data_alarm;
	ring->alarm_us = at_us;
	ring->alarms++;
	return true;
}

/*
 * With GETEVENTS the kernel first runs the work it has put off and moves what
 * overflowed into the queue, then waits only if that is empty: completions
 * beyond one enter's share (about 20 pieces of work) or beyond the queue's
 * room come with the next turn, which does not sleep then.
 */
uint32_t ring_turn(struct ring *ring, uint64_t now_us, int64_t timeout_us)
{
	enum { SECOND_US = 1000 * 1000 };
	struct __kernel_timespec time, *timeout = NULL;
	if (timeout_us > 0) {
		time = (struct __kernel_timespec){
			.tv_sec = timeout_us / SECOND_US,
			.tv_nsec = timeout_us % SECOND_US * 1000,
		};
		if (!ring_alarm(ring, now_us + (uint64_t)timeout_us, &time))
			timeout = &time;
	}
	int result = ring_enter(ring, queue_publish(ring), timeout_us == 0 ? 0 : 1,
	                        IORING_ENTER_GETEVENTS, timeout);
	if (result == -EAGAIN || result == -ENOMEM) {
		/* Nothing was run either.  What is under way must go on, it may
		 * free memory; and we must not spin. */
		struct __kernel_timespec a_while = {.tv_nsec = (long long)nap_first_us * 1000};
		ring_enter(ring, 0, 1, IORING_ENTER_GETEVENTS, &a_while);
	}
	ring->completion_count = ring_collect(ring);
	const struct io_uring_sq *sq = &ring->uring.sq;
	ring->settled = io_uring_smp_load_acquire(sq->khead) == sq->sqe_tail &&
	                (IO_URING_READ_ONCE(*sq->kflags) & IORING_SQ_CQ_OVERFLOW) == 0;
	return ring->completion_count;
}

const struct completion *ring_completion(const struct ring *ring, uint32_t index)
{
	CHECK(index < ring->completion_count);
	return &ring->completions[index];
}

bool ring_sends_now(const struct ring *ring)
{
	return ring->sends_now;
}

bool ring_is_settled(const struct ring *ring)
{
	return ring->settled;
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
	sqe->user_data = user_data;
}

void ring_sendmsg_now(struct ring *ring, uint64_t user_data, int fd, const struct msghdr *message)
{
	struct io_uring_sqe *sqe = ring_sqe(ring);
	io_uring_prep_sendmsg(sqe, fd, message, now_flags);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = user_data;
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
