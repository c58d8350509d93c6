/* buffer.c - see buffer.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

enum { BUFFER_ROOM_MIN = 512 };

void *memory_grow(void *memory, size_t size)
{
	void *grown = realloc(memory, size);
	if (grown == NULL) {
		fprintf(stderr, "out of memory (%zu bytes)\n", size);
		exit(2);
	}
	return grown;
}

void *memory_new(size_t size)
{
	return memset(memory_grow(NULL, size), 0, size);
}

void buffer_fini(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){0};
}

uint8_t *buffer_room(struct buffer *buffer, size_t size)
{
	if (size <= buffer->room - buffer->end)
		return buffer->data + buffer->end;
	size_t used = buffer_size(buffer);
	if (buffer->start > 0) {
		memmove(buffer->data, buffer->data + buffer->start, used);
		buffer->start = 0;
		buffer->end = used;
	}
	if (size > buffer->room - used) {
		size_t room = MAX(buffer->room * 2, (size_t)BUFFER_ROOM_MIN);
		buffer->room = MAX(room, used + size);
		buffer->data = memory_grow(buffer->data, buffer->room);
	}
	return buffer->data + buffer->end;
}

void buffer_add(struct buffer *buffer, const void *bytes, size_t size)
{
	uint8_t *room = buffer_room(buffer, size);
	if (size > 0)
		memcpy(room, bytes, size);
	buffer->end += size;
}

void buffer_take(struct buffer *buffer, size_t size)
{
	CHECK(size <= buffer_size(buffer));
	buffer->start += size;
	if (buffer->start == buffer->end)
		buffer_clear(buffer);
}

void buffer_clear(struct buffer *buffer)
{
	buffer->start = buffer->end = 0;
}

struct writer buffer_writer(struct buffer *buffer, uint32_t room)
{
	return writer_over(buffer_room(buffer, room), room);
}

void buffer_wrote(struct buffer *buffer, const struct writer *writer)
{
	CHECK(!writer->failed);
	buffer->end += writer->size;
}
