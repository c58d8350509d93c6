/*
 * How a stream is cut must not matter.  The input names a largest length and a
 * seed, the rest is the stream: it is scanned whole, byte by byte, and in parts
 * of random size, and each time what comes out must be what a slow reader of
 * the whole stream finds.  Every part is a copy of its exact size, so that a
 * read past the end of a part is seen.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/scan.h"

#include <stdlib.h>

#include "core/base/check.h"

struct digest {
	uint64_t bytes;    /* of all bytes handed out, with the type of each */
	uint64_t messages; /* of the type and length of each message begun */
	uint64_t size, begun, ended;
	bool bad, between;
};

static void mix(uint64_t *hash, uint64_t value)
{
	*hash = (*hash ^ value) * 0x100000001b3ULL;
}

static void byte_seen(struct digest *digest, uint8_t byte, uint8_t type)
{
	mix(&digest->bytes, (uint64_t)type << 8 | byte);
	digest->size++;
}

static void begin_seen(struct digest *digest, uint8_t type, uint64_t size)
{
	mix(&digest->messages, (uint64_t)type << 40 | size);
	digest->begun++;
}

/* The slow reader: 64-bit arithmetic, one message after the other. */
static struct digest read_slowly(const uint8_t *data, size_t size, uint32_t length_max)
{
	struct digest digest = {0};
	size_t at = 0;
	while (size - at >= 5) {
		uint64_t length = 0;
		for (size_t i = 1; i < 5; i++)
			length = length * 256 + data[at + i];
		if (length < 4 || length > length_max || length > 0x3fffffff) {
			digest.bad = true;
			return digest;
		}
		begin_seen(&digest, data[at], length + 1);
		size_t end = length + 1 < size - at ? at + (size_t)length + 1 : size;
		digest.ended += end - at == length + 1;
		uint8_t type = data[at];
		while (at < end)
			byte_seen(&digest, data[at++], type);
		if (digest.ended < digest.begun)
			return digest;
	}
	digest.between = at == size;
	return digest;
}

static void part_feed(struct scan *scan, struct digest *digest, struct span in, uint32_t length_max)
{
	struct piece piece;
	enum scan_status status;
	const uint8_t *from = in.data;
	const uint8_t *to = in.data + in.size;
	while ((status = scan_next(scan, &in, length_max, &piece)) == SCAN_PIECE) {
		CHECK(piece.bytes.size > 0);
		CHECK(piece.held ? piece.bytes.data == scan->header
		                 : piece.bytes.data >= from && piece.bytes.size <= to - from);
		CHECK(piece.first == (digest->begun == digest->ended));
		if (piece.first)
			begin_seen(digest, piece.type, piece.length);
		for (uint32_t i = 0; i < piece.bytes.size; i++)
			byte_seen(digest, piece.bytes.data[i], piece.type);
		digest->ended += piece.last;
	}
	CHECK(!digest->bad || status == SCAN_BAD);
	CHECK(status == SCAN_BAD || in.size == 0);
	digest->bad = status == SCAN_BAD;
}

/* In parts of 1 to `step` bytes. */
static struct digest read_cut(struct span all, uint32_t length_max, uint32_t step, uint32_t seed)
{
	struct scan scan = {0};
	struct digest digest = {0};
	while (all.size > 0) {
		seed = seed * 1664525 + 1013904223;
		uint32_t size = 1 + (step == 1 ? 0 : (seed >> 8) % step);
		size = MIN(size, all.size);
		uint8_t *copy = malloc(size);
		CHECK(copy != NULL);
		memcpy(copy, all.data, size);
		part_feed(&scan, &digest, span_of(copy, size), length_max);
		free(copy);
		all.data += size;
		all.size -= size;
	}
	digest.between = scan_at_boundary(&scan);
	return digest;
}

static void digests_check(const struct digest *a, const struct digest *b)
{
	CHECK(a->bad == b->bad);
	CHECK(a->between == b->between);
	CHECK(a->begun == b->begun && a->ended == b->ended && a->size == b->size);
	CHECK(a->messages == b->messages);
	CHECK(a->bytes == b->bytes);
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 8)
		return 0;
	/* Half of the inputs are under a small limit, so that it is met. */
	uint32_t length_max = (data[0] & 1) != 0 ? UINT32_MAX : read_u32(data) >> 16;
	uint32_t seed = read_u32(data + 4);
	struct span stream = span_of(data + 8, size - 8);
	struct digest slow = read_slowly(stream.data, stream.size, length_max);
	uint32_t steps[] = {1, 2 + seed % 64, UINT32_MAX};
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct digest cut = read_cut(stream, length_max, steps[i], seed);
		digests_check(&slow, &cut);
	}
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
