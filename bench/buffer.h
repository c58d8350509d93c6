/*
 * buffer.h - growing queue of bytes, for the programs of bench.
 *
 * Bytes are added at the end and taken from the front.  Running out of memory
 * ends the program: these are tools, and nothing depends on their survival.
 *
 *	struct writer out = buffer_writer(&buffer, 64);
 *	write_ready(&out, 'I');
 *	buffer_wrote(&buffer, &out);
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_BUFFER_H
#define BENCH_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/write.h"

/* All zero is an empty buffer. */
struct buffer {
	uint8_t *data;
	size_t start, end, room;
};

static inline size_t buffer_size(const struct buffer *buffer)
{
	return buffer->end - buffer->start;
}

static inline uint8_t *buffer_front(const struct buffer *buffer)
{
	return buffer->data + buffer->start;
}

void buffer_fini(struct buffer *buffer);

/* Room for `size` bytes more at the end; they count when buffer->end is moved. */
uint8_t *buffer_room(struct buffer *buffer, size_t size);
void buffer_add(struct buffer *buffer, const void *bytes, size_t size);
void buffer_take(struct buffer *buffer, size_t size);
void buffer_clear(struct buffer *buffer);

struct writer buffer_writer(struct buffer *buffer, uint32_t room);
/* The room must have been enough. */
void buffer_wrote(struct buffer *buffer, const struct writer *writer);

/* malloc and realloc that do not fail; zeroed. */
void *memory_new(size_t size);
void *memory_grow(void *memory, size_t size);

#endif
