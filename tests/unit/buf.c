/*
 * buf.c - holders are counted, and what is dropped goes back where it came from.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/buf.h"

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/limits.h"

static struct ring *open_ring(void)
{
	const struct ring_options options = {.entries = 16, .completions = 64};
	struct ring_failure failure;
	struct ring *ring = ring_open(&options, &failure);
	cr_assert_not_null(ring, "%s", failure.text);
	return ring;
}

Test(buf, blocks)
{
	static const struct {
		uint32_t asked, capacity;
	} rows[] = {
		{0, 512},      {1, 512},       {512, 512},     {513, 4096},        {4096, 4096},
		{4097, 16384}, {16384, 16384}, {16385, 16385}, {1000000, 1000000},
	};
	static struct buf_pool pool;
	struct ring *ring = open_ring();
	cr_assert(buf_pool_init(&pool, ring));
	uint64_t memory = buf_pool_memory(&pool);
	cr_assert_geq(memory,
	              CLIENT_BUFFERS * CLIENT_BUFFER_SIZE + SERVER_BUFFERS * SERVER_BUFFER_SIZE);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct buf *buf = buf_block(&pool, rows[i].asked);
		cr_assert_not_null(buf);
		cr_assert_eq(buf->capacity, rows[i].capacity);
		cr_assert_eq(buf->used, 0);
		cr_assert_eq(buf->holders, 1);
		cr_assert_eq(buf->origin, BUF_BLOCK);
		memset(buf->data, 0x55, buf->capacity);
		cr_assert_gt(buf_pool_memory(&pool), memory);
		buf_hold(buf);
		buf_drop(&pool, buf);
		cr_assert_eq(buf->data[buf->capacity - 1], 0x55);
		buf_drop(&pool, buf);
		cr_assert_eq(pool.large, 0);
		for (int tier = 0; tier < BUF_BLOCK_SIZES; tier++)
			cr_assert_eq(pool.blocks[tier].used, 0);
	}
	cr_assert_null(buf_block(&pool, UINT32_MAX));
	buf_pool_fini(&pool);
	ring_close(ring);
}

Test(buf, receive_buffers)
{
	static struct buf_pool pool;
	struct ring *ring = open_ring();
	cr_assert(buf_pool_init(&pool, ring));
	for (uint16_t group = 0; group < RING_GROUP_COUNT; group++) {
		uint16_t count = pool.counts[group];
		uint8_t *end = NULL;
		for (uint16_t id = 0; id < count; id++) {
			cr_assert_eq(buf_pool_is_short(&pool, group), id > count / 2);
			struct buf *buf = buf_received(&pool, group, id, 100);
			cr_assert(end == NULL || buf->data == end);
			end = buf->data + buf->capacity;
			cr_assert_eq(buf->used, 100);
			cr_assert_eq(buf->origin, group);
			cr_assert_eq(pool.lent[group], id + 1);
			buf_hold(buf);
		}
		cr_assert_eq(pool.lent[1 - group], 0);
		for (uint16_t id = 0; id < count; id++) {
			struct buf *buf = &pool.groups[group][id];
			buf_drop(&pool, buf);
			cr_assert_eq(pool.lent[group], count - id);
			buf_drop(&pool, buf);
			cr_assert_eq(pool.lent[group], count - id - 1);
		}
		cr_assert_not(buf_pool_is_short(&pool, group));
	}
	buf_pool_fini(&pool);
	ring_close(ring);
}
