/*
 * buf.h - buffers with a count of holders.
 *
 * A buf is a receive buffer of a group (the kernel filled it) or a block of
 * our own.  Whoever keeps one holds it; the last buf_drop() gives a receive
 * buffer back to the ring and a block to its slab.  The count is not atomic:
 * a buf never leaves the worker.  Pieces of one buf may be queued on several
 * conns.
 *
 * Blocks come in a few sizes; larger ones from malloc.  buf_block() returns
 * NULL without memory.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_BUF_H
#define NET_BUF_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/check.h"
#include "core/base/slab.h"
#include "net/ring.h"

enum { BUF_BLOCK = RING_GROUP_COUNT, BUF_BLOCK_SIZES = 3 };

struct buf {
	uint8_t *data;
	uint32_t capacity;
	uint32_t used; /* bytes written so far: a block may be appended to */
	uint16_t holders;
	uint16_t id;    /* receive buffer: in its group; block: size class */
	uint8_t origin; /* RING_GROUP_*, or BUF_BLOCK */
};

/* 512 B, 4 KiB, 16 KiB of data behind a struct buf. */
struct buf_pool {
	struct ring *ring;
	struct buf *groups[RING_GROUP_COUNT];
	uint16_t counts[RING_GROUP_COUNT];
	uint16_t lent[RING_GROUP_COUNT]; /* buffers the kernel does not have */
	struct slab blocks[BUF_BLOCK_SIZES];
	uint64_t large; /* bytes in blocks from malloc */
};

/* Opens the groups on the ring; false without memory. */
bool buf_pool_init(struct buf_pool *pool, struct ring *ring);
void buf_pool_fini(struct buf_pool *pool);

/* The receive buffer of a completion, held once by the caller. */
struct buf *buf_received(struct buf_pool *pool, uint16_t group, uint16_t id, uint32_t size);

/* A block of at least `size` bytes, held once, used = 0; NULL above 1 GiB. */
struct buf *buf_block(struct buf_pool *pool, uint32_t size);

void buf_free(struct buf_pool *pool, struct buf *buf); /* for buf_drop() */

static inline void buf_hold(struct buf *buf)
{
	CHECK(buf->holders > 0 && buf->holders < UINT16_MAX);
	buf->holders++;
}

static inline void buf_drop(struct buf_pool *pool, struct buf *buf)
{
	CHECK(buf->holders > 0);
	if (--buf->holders == 0)
		buf_free(pool, buf);
}

/* More than half of a group is lent: copy out what may stay long. */
bool buf_pool_is_short(const struct buf_pool *pool, uint16_t group);

uint64_t buf_pool_memory(const struct buf_pool *pool);

#endif
