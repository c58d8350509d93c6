/*
 * bytes.h - spans of bytes, big-endian numbers, constant-time compare, hash.
 *
 * What proto, net and cancel all want and none of them owns.  A span never
 * owns memory.  Network order is big-endian (protocol chapter "Message
 * Formats").  bytes_equal_secret() takes the same time wherever the first
 * difference lies; everything that is a secret or a key is compared by it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_BYTES_H
#define CORE_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
	const uint8_t *data;
	uint32_t size;
};

static inline struct span span_of(const void *data, size_t size)
{
	return (struct span){(const uint8_t *)data, (uint32_t)size};
}

/* The text without its end mark. */
static inline struct span span_text(const char *text)
{
	return span_of(text, strlen(text));
}

static inline bool span_equal(struct span a, struct span b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool span_is(struct span a, const char *text)
{
	return span_equal(a, span_text(text));
}

static inline uint16_t read_u16(const uint8_t *p)
{
	return (uint16_t)((uint32_t)p[0] << 8 | p[1]);
}

static inline uint32_t read_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void write_u16(uint8_t *p, uint16_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void write_u32(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 24);
	p[1] = (uint8_t)(value >> 16);
	p[2] = (uint8_t)(value >> 8);
	p[3] = (uint8_t)value;
}

/* Constant time in the content, not in the size. */
bool bytes_equal_secret(const void *a, const void *b, size_t size);

/* Overwrites a secret in a way that the compiler must not leave out. */
void bytes_wipe(void *bytes, size_t size);

/* XXH3 under a seed that strangers do not know, against hash flooding. */
uint64_t bytes_hash(const void *bytes, size_t size, uint64_t seed);

#endif
