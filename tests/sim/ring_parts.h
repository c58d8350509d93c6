/*
 * ring_parts.h - the virtual ring from inside, for ring.c and ring_steps.c.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_RING_PARTS_H
#define TESTS_SIM_RING_PARTS_H

#include "tests/sim/world.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "net/ring.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, size)   __asan_poison_memory_region(p, size)
#define UNPOISON(p, size) __asan_unpoison_memory_region(p, size)
#else
#define POISON(p, size)   ((void)0)
#define UNPOISON(p, size) ((void)0)
#endif

enum { PARTS_MAX = 1024, TURN_COMPLETIONS = 256, PATTERN = 0xa5 };

enum op_type { DO_ACCEPT, DO_RECV, DO_SEND, DO_SEND_NOW, DO_CONNECT, DO_POLL, DO_READ, DO_CANCEL };

struct op {
	struct ring *ring;
	enum op_type type;
	uint64_t user_data;
	struct file *file;
	uint16_t group;
	bool poll_first, tried, connecting;
	bool canceled, ended; /* ended: `kept` is the last */
	bool has_kept;
	struct completion kept;
	uint64_t visible_us;
	struct alarm alarm;
	uint32_t mask;
	uint32_t part_count, part, part_done;
	uint32_t done;
	struct iovec *parts;
	struct addr target;
	void *into;
};

struct group {
	uint8_t *memory;
	uint32_t size;
	uint16_t count, hidden, free_head, free_count;
	uint16_t *free;
	bool *is_free;
};

struct ring {
	uint32_t index;
	struct op **ops;
	uint32_t op_count, op_room;
	struct op **queue;
	uint32_t queued, queue_room;
	struct completion done[TURN_COMPLETIONS];
	uint32_t done_count;
	struct group groups[RING_GROUP_COUNT];
	uint64_t deadline_us, enters;
	bool woken;
	bool sends_now;
	bool overflows, settled, unsent; /* of the last turn */
};

/* One step of an operation, which may leave a completion in `kept`. */
void op_step(struct op *op);

#endif
