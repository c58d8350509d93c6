/*
 * part.h - a message that must be seen whole and came in parts.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_PART_H
#define CORE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

/* All zero is empty. */
struct part {
	uint8_t *bytes;
	uint32_t size, room;
};

/* False: it would be larger than `max`, or there is no memory. */
bool part_append(struct part *part, struct span bytes, uint32_t max);
void part_clear(struct part *part);
void part_fini(struct part *part);

#endif
