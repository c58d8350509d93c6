/*
 * slab.c - see slab.h.
 *
 * A free object holds the link of the free stack in its first bytes; the rest
 * is PATTERN in debug builds.  Chunks come from calloc: the pages of a large
 * chunk are the kernel's until they are touched.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/slab.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

#ifdef __has_feature /* clang */
#if __has_feature(address_sanitizer)
#define SLAB_IS_WATCHED
#endif
#elif defined(__SANITIZE_ADDRESS__) /* gcc */
#define SLAB_IS_WATCHED
#endif

#ifdef SLAB_IS_WATCHED
#include <sanitizer/asan_interface.h>
#define POISON(p, size)   __asan_poison_memory_region(p, size)
#define UNPOISON(p, size) __asan_unpoison_memory_region(p, size)
#else
#define POISON(p, size)   ((void)0)
#define UNPOISON(p, size) ((void)0)
#endif

enum { PATTERN = 0xdb };

struct free_object {
	struct free_object *next;
};

void slab_init(struct slab *slab, uint32_t object_size, uint32_t per_chunk, uint32_t limit)
{
	CHECK(object_size > 0 && per_chunk > 0);
	*slab = (struct slab){
		.object_size = (object_size + 15U) & ~15U,
		.per_chunk = per_chunk,
		.limit = limit,
	};
}

void slab_fini(struct slab *slab)
{
	CHECK(slab->used == 0);
	for (uint32_t i = 0; i < slab->chunk_count; i++) {
		UNPOISON(slab->chunks[i], (size_t)slab->object_size * slab->per_chunk);
		free(slab->chunks[i]);
	}
	free((void *)slab->chunks);
	*slab = (struct slab){0};
}

static void object_retire(struct slab *slab, void *object)
{
	struct free_object *head = object;
#ifndef NDEBUG
	memset(object, PATTERN, slab->object_size);
#endif
	head->next = slab->free;
	slab->free = head;
	POISON(object, slab->object_size);
}

static bool slab_grow(struct slab *slab)
{
	if (slab->chunk_count == slab->chunk_room) {
		uint32_t room = slab->chunk_room == 0 ? 8 : slab->chunk_room * 2;
		void **chunks = (void **)realloc((void *)slab->chunks,
		                                 room * sizeof slab->chunks[0]);
		if (chunks == NULL)
			return false;
		slab->chunks = chunks;
		slab->chunk_room = room;
	}
	char *chunk = calloc(slab->per_chunk, slab->object_size);
	if (chunk == NULL)
		return false;
	slab->chunks[slab->chunk_count++] = chunk;
	for (uint32_t i = slab->per_chunk; i-- > 0;)
		object_retire(slab, chunk + (size_t)i * slab->object_size);
	return true;
}

static void pattern_check(const struct slab *slab, const void *object)
{
#ifndef NDEBUG
	const uint8_t *bytes = object;
	for (uint32_t i = sizeof(struct free_object); i < slab->object_size; i++)
		CHECK(bytes[i] == PATTERN);
#else
	(void)slab;
	(void)object;
#endif
}

void *slab_acquire_raw(struct slab *slab)
{
	if (slab->limit != 0 && slab->used >= slab->limit)
		return NULL;
	if (slab->free == NULL && !slab_grow(slab))
		return NULL;
	struct free_object *object = slab->free;
	UNPOISON(object, slab->object_size);
	pattern_check(slab, object);
	slab->free = object->next;
	slab->used++;
	return object;
}

void *slab_acquire(struct slab *slab)
{
	void *object = slab_acquire_raw(slab);
	if (object != NULL)
		memset(object, 0, slab->object_size);
	return object;
}

void slab_release(struct slab *slab, void *object)
{
	CHECK(slab->used > 0);
	slab->used--;
	object_retire(slab, object);
}

uint32_t slab_slot(const struct slab *slab, const void *object)
{
	size_t chunk_size = (size_t)slab->object_size * slab->per_chunk;
	for (uint32_t i = 0; i < slab->chunk_count; i++) {
		const char *chunk = slab->chunks[i];
		const char *place = object;
		if (place >= chunk && place < chunk + chunk_size)
			return i * slab->per_chunk + (uint32_t)(place - chunk) / slab->object_size;
	}
	CHECK(false);
	return 0;
}

void *slab_at(const struct slab *slab, uint32_t slot)
{
	CHECK(slot / slab->per_chunk < slab->chunk_count);
	char *chunk = slab->chunks[slot / slab->per_chunk];
	return chunk + (size_t)(slot % slab->per_chunk) * slab->object_size;
}

uint64_t slab_memory(const struct slab *slab)
{
	return (uint64_t)slab->chunk_count * slab->per_chunk * slab->object_size;
}
