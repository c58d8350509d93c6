/*
 * slab.h - objects of one size, numbered, from chunks that are never moved.
 *
 * Grown a chunk at a time, never shrunk; free objects are poisoned under ASan
 * and filled with a pattern in debug builds (the kernel writes through a ring
 * where ASan does not look; the pattern is checked when the object is taken
 * again).  An object's slot is its number from 0 and stays its own while it
 * is in use.  Not for several threads.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_SLAB_H
#define CORE_BASE_SLAB_H

#include <stdint.h>

struct slab {
	uint32_t object_size; /* rounded up to 16 */
	uint32_t per_chunk;
	uint32_t chunk_count, chunk_room;
	uint32_t used;
	uint32_t limit; /* of objects in use; 0: none */
	void **chunks;
	void *free; /* stack of free objects, newest first */
};

void slab_init(struct slab *slab, uint32_t object_size, uint32_t per_chunk, uint32_t limit);

/* Frees all memory; every object must have been released. */
void slab_fini(struct slab *slab);

/* Returns a zeroed object, or NULL at the limit or without memory. */
void *slab_acquire(struct slab *slab);

/* The same, but with whatever bytes are in it. */
void *slab_acquire_raw(struct slab *slab);

void slab_release(struct slab *slab, void *object);

/* The slot of an object in use; O(number of chunks). */
uint32_t slab_slot(const struct slab *slab, const void *object);
void *slab_at(const struct slab *slab, uint32_t slot);

/* Bytes of memory held, used or not. */
uint64_t slab_memory(const struct slab *slab);

#endif
