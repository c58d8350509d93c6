/*
 * op.h - who owns an operation that the kernel holds.
 *
 * An owner has a slot in the table of its loop as long as it is open.  The
 * user_data of an operation names slot, generation and kind, so a completion
 * finds its owner by two loads, and one that comes late for an owner gone
 * before finds nobody (counted, its buffer given back), never a stranger.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_OP_H
#define NET_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/check.h"

struct completion;
struct op_owner;

enum op_kind {
	OP_ACCEPT,
	OP_RECV,
	OP_SEND,
	OP_CONNECT,
	OP_POLL,
	OP_BELL,
	OP_KIND_COUNT,
};

struct op_owner {
	void (*on_completion)(struct op_owner *owner, enum op_kind kind,
	                      const struct completion *completion);
	uint64_t name; /* user_data, without the kind; 0: none */
};

struct op_table {
	struct op_slot *slots;
	uint32_t room, used;
	uint32_t free; /* first free slot, UINT32_MAX: none */
};

/* False without memory. */
bool op_register(struct op_table *table, struct op_owner *owner);
void op_unregister(struct op_table *table, struct op_owner *owner);

static inline uint64_t op_user_data(const struct op_owner *owner, enum op_kind kind)
{
	CHECK_SLOW(owner->name != 0);
	return owner->name | (uint64_t)kind;
}

static inline uint32_t op_slot_of(const struct op_owner *owner)
{
	return (uint32_t)(owner->name >> 32);
}

static inline uint32_t op_generation_of(const struct op_owner *owner)
{
	return (uint32_t)owner->name >> 8;
}

/* The name of who had this slot and generation. */
static inline uint64_t op_name(uint32_t slot, uint32_t generation)
{
	return (uint64_t)slot << 32 | (uint64_t)generation << 8;
}

static inline enum op_kind op_kind_of(uint64_t user_data)
{
	return (enum op_kind)(user_data & 0xff);
}

/* NULL if the owner is gone. */
struct op_owner *op_find(const struct op_table *table, uint64_t user_data, enum op_kind *kind);

/* The owner in a slot below table->room; NULL: free. */
struct op_owner *op_at(const struct op_table *table, uint32_t slot);

void op_table_fini(struct op_table *table);

#endif
