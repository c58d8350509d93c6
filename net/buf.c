/*
 * buf.c - see buf.h.
 *
 * The heads of a group's receive buffers lie in an array beside the memory
 * that the ring opened: they are read without touching the buffer.  A block
 * carries its head in front of its data, one object of a slab.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/buf.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"

static const struct {
	uint16_t count;
	uint32_t size;
} GROUPS[RING_GROUP_COUNT] = {
	[RING_GROUP_CLIENT] = {CLIENT_BUFFERS, CLIENT_BUFFER_SIZE},
	[RING_GROUP_SERVER] = {SERVER_BUFFERS, SERVER_BUFFER_SIZE},
};

/* A piece must fit into one send; nobody asks for so much on purpose. */
enum { BLOCK_SIZE_MAX = 1 << 30 };

static const struct {
	uint32_t size, per_chunk;
} BLOCKS[BUF_BLOCK_SIZES] = {{512, 64}, {4096, 16}, {16384, 4}};

static bool group_init(struct buf_pool *pool, uint16_t group)
{
	uint16_t count = GROUPS[group].count;
	uint32_t size = GROUPS[group].size;
	struct buf *bufs = calloc(count, sizeof bufs[0]);
	pool->groups[group] = bufs;
	if (bufs == NULL)
		return false;
	uint8_t *memory = ring_group_open(pool->ring, group, count, size);
	if (memory == NULL)
		return false;
	for (uint16_t i = 0; i < count; i++) {
		bufs[i] = (struct buf){
			.data = memory + (size_t)i * size,
			.capacity = size,
			.id = i,
			.origin = (uint8_t)group,
		};
	}
	pool->counts[group] = count;
	return true;
}

bool buf_pool_init(struct buf_pool *pool, struct ring *ring)
{
	*pool = (struct buf_pool){.ring = ring};
	for (uint32_t i = 0; i < BUF_BLOCK_SIZES; i++) {
		slab_init(&pool->blocks[i], (uint32_t)sizeof(struct buf) + BLOCKS[i].size,
		          BLOCKS[i].per_chunk, 0);
	}
	for (uint16_t group = 0; group < RING_GROUP_COUNT; group++) {
		if (!group_init(pool, group)) {
			buf_pool_fini(pool);
			return false;
		}
	}
	return true;
}

void buf_pool_fini(struct buf_pool *pool)
{
	CHECK(pool->large == 0);
	for (uint32_t i = 0; i < BUF_BLOCK_SIZES; i++)
		slab_fini(&pool->blocks[i]);
	for (uint16_t group = 0; group < RING_GROUP_COUNT; group++) {
		CHECK(pool->lent[group] == 0);
		free(pool->groups[group]);
	}
	*pool = (struct buf_pool){0};
}

struct buf *buf_received(struct buf_pool *pool, uint16_t group, uint16_t id, uint32_t size)
{
	CHECK(group < RING_GROUP_COUNT && id < pool->counts[group]);
	struct buf *buf = &pool->groups[group][id];
	CHECK(buf->holders == 0 && size <= buf->capacity);
	buf->used = size;
	buf->holders = 1;
	pool->lent[group]++;
	return buf;
}

/* Larger than the largest class: from malloc, class BUF_BLOCK_SIZES. */
static struct buf *block_large(struct buf_pool *pool, uint32_t size)
{
	struct buf *buf = size > BLOCK_SIZE_MAX ? NULL : malloc(sizeof *buf + (size_t)size);
	if (buf == NULL)
		return NULL;
	*buf = (struct buf){.capacity = size, .id = BUF_BLOCK_SIZES};
	pool->large += size;
	return buf;
}

struct buf *buf_block(struct buf_pool *pool, uint32_t size)
{
	struct buf *buf = NULL;
	uint16_t tier = 0;
	while (tier < BUF_BLOCK_SIZES && BLOCKS[tier].size < size)
		tier++;
	if (tier == BUF_BLOCK_SIZES) {
		buf = block_large(pool, size);
	} else {
		buf = slab_acquire_raw(&pool->blocks[tier]);
		if (buf != NULL)
			*buf = (struct buf){.capacity = BLOCKS[tier].size, .id = tier};
	}
	if (buf == NULL)
		return NULL;
	buf->data = (uint8_t *)(buf + 1);
	buf->holders = 1;
	buf->origin = BUF_BLOCK;
	return buf;
}

static void received_give(struct buf_pool *pool, struct buf *buf)
{
	uint16_t group = buf->origin;
	CHECK(pool->lent[group] > 0);
#ifndef NDEBUG
	/* Who still reads it reads garbage, also where ASan does not look. */
	memset(buf->data, 0xdb, buf->used);
#endif
	pool->lent[group]--;
	ring_buffer_give(pool->ring, group, buf->id);
}

void buf_free(struct buf_pool *pool, struct buf *buf)
{
	if (buf->origin != BUF_BLOCK) {
		received_give(pool, buf);
	} else if (buf->id < BUF_BLOCK_SIZES) {
		slab_release(&pool->blocks[buf->id], buf);
	} else {
		CHECK(pool->large >= buf->capacity);
		pool->large -= buf->capacity;
		free(buf);
	}
}

bool buf_pool_is_short(const struct buf_pool *pool, uint16_t group)
{
	return pool->lent[group] > pool->counts[group] / 2;
}

uint64_t buf_pool_memory(const struct buf_pool *pool)
{
	uint64_t memory = pool->large;
	for (uint16_t group = 0; group < RING_GROUP_COUNT; group++) {
		memory += (uint64_t)pool->counts[group] * (GROUPS[group].size + sizeof(struct buf));
	}
	for (uint32_t i = 0; i < BUF_BLOCK_SIZES; i++)
		memory += slab_memory(&pool->blocks[i]);
	return memory;
}
