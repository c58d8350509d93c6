/*
 * part.c - see part.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/part.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

/* What is kept between two messages; room grows by doubling. */
enum { PART_MIN = 512 };

bool part_append(struct part *part, struct span bytes, uint32_t max)
{
	if (bytes.size > max - MIN(part->size, max))
		return false;
	if (bytes.size > part->room - part->size) {
		uint64_t room = MAX((uint64_t)PART_MIN, ((uint64_t)part->size + bytes.size) * 2);
		uint8_t *more = realloc(part->bytes, MIN(room, UINT32_MAX));
		if (more == NULL)
			return false;
		part->bytes = more;
		part->room = (uint32_t)MIN(room, UINT32_MAX);
	}
	memcpy(part->bytes + part->size, bytes.data, bytes.size);
	part->size += bytes.size;
	return true;
}

void part_clear(struct part *part)
{
	part->size = 0;
	if (part->room > PART_MIN)
		part_fini(part); /* what was once large is not kept */
}

void part_fini(struct part *part)
{
	free(part->bytes);
	*part = (struct part){0};
}
