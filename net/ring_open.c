/*
 * ring_open.c - sets a ring and its buffers up, and finds out what the kernel can; see
 * ring.h.
 *
 * What is relied on is tried, not looked up by version: some distributions have parts
 * of newer kernels.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "core/base/check.h"
#include "net/ring.h"
#include "net/ring_failure.h"
#include "net/ring_parts.h"
#include "net/sys.h"

/* Smallest queues to fall back to when memory may not be locked. */
static const uint32_t entries_min = 16;
static const uint32_t completions_min = 128;

static const uint64_t patience_us = 1000 * 1000;
static const uint32_t nap_first_us = 1000;
static const uint32_t nap_longest_us = 100 * 1000;

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
	ring_nap(patience->nap_us);
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
	uint32_t count = ring_turn(ring, 0);
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
	ring->alarm_us = UINT64_MAX;
	if (!ring_probe(ring, failure) || !ring_try_group(ring, failure) ||
	    !ring_try_enter(ring, failure)) {
		io_uring_queue_exit(&ring->uring);
		free(ring);
		return NULL;
	}
	/* Saves a look-up per enter; whatever is in the way, it goes without. */
	if (io_uring_register_ring_fd(&ring->uring) == 1)
		ring->enter_flags = IORING_ENTER_REGISTERED_RING;
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
