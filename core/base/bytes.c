/* bytes.c - see bytes.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

bool bytes_equal_secret(const void *a, const void *b, size_t size)
{
	const volatile uint8_t *x = a;
	const volatile uint8_t *y = b;
	uint8_t difference = 0;
	for (size_t i = 0; i < size; i++)
		difference = (uint8_t)(difference | (x[i] ^ y[i]));
	return difference == 0;
}

void bytes_wipe(void *bytes, size_t size)
{
	explicit_bzero(bytes, size);
}

uint64_t bytes_hash(const void *bytes, size_t size, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, size, seed);
}
