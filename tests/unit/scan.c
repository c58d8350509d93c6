/*
 * A stream parser must not care where the kernel cuts the stream: every case
 * is fed whole, byte by byte, and in two parts cut at every byte, and each
 * part is a copy of its exact size, so that a read past it is seen.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/scan.h"

#include <criterion/criterion.h>
#include <stdlib.h>

struct seen {
	uint8_t bytes[512];
	uint32_t size;
	uint32_t lengths[16];
	char types[16];
	uint32_t messages, begun;
	enum scan_status status;
};

static void feed(struct scan *scan, struct seen *seen, const uint8_t *data, uint32_t size)
{
	uint8_t *copy = malloc(size + 1);
	cr_assert_not_null(copy);
	uint8_t *start = copy + 1; /* an odd address, and the end at the end */
	memcpy(start, data, size);
	struct span in = {start, size};
	struct piece piece;
	while ((seen->status = scan_next(scan, &in, 0x3fffffff, &piece)) == SCAN_PIECE) {
		cr_assert_eq(piece.held, piece.bytes.data == scan->header);
		cr_assert(piece.held || (piece.bytes.data >= start &&
		                         piece.bytes.data + piece.bytes.size <= start + size));
		memcpy(seen->bytes + seen->size, piece.bytes.data, piece.bytes.size);
		seen->size += piece.bytes.size;
		if (piece.first)
			seen->lengths[seen->begun++] = piece.length;
		else
			cr_assert_eq(piece.length, 0);
		if (piece.last)
			seen->types[seen->messages++] = (char)piece.type;
	}
	cr_assert(seen->status == SCAN_BAD || in.size == 0);
	free(copy);
}

static const uint8_t stream[] = "Q\0\0\0\x0dSELECT 1\0"
				"S\0\0\0\x04"
				"d\0\0\0\x05x"
				"H\0\0\0\x04"
				"c\0\0\0\x04"
				"D\0\0\0\x14\0\1\0\0\0\x0aZ\0\0\0\5IZ\0\0\0";
enum { STREAM_SIZE = sizeof stream - 1 };

static void stream_check(const struct scan *scan, const struct seen *seen)
{
	static const uint32_t lengths[] = {14, 5, 6, 5, 5, 21};
	cr_assert_eq(seen->status, SCAN_MORE);
	cr_assert_str_eq(seen->types, "QSdHcD");
	cr_assert_arr_eq(seen->lengths, lengths, sizeof lengths);
	cr_assert_eq(seen->size, STREAM_SIZE);
	cr_assert_arr_eq(seen->bytes, stream, STREAM_SIZE);
	cr_assert(scan_at_boundary(scan));
}

Test(scan, survives_any_cut)
{
	for (uint32_t cut = 0; cut <= STREAM_SIZE; cut++) {
		struct scan scan = {0};
		struct seen seen = {0};
		feed(&scan, &seen, stream, cut);
		feed(&scan, &seen, stream + cut, STREAM_SIZE - cut);
		stream_check(&scan, &seen);
	}
	for (uint32_t step = 1; step < 8; step++) {
		struct scan scan = {0};
		struct seen seen = {0};
		bool between = true;
		for (uint32_t at = 0; at < STREAM_SIZE; at += step) {
			uint32_t left = STREAM_SIZE - at;
			feed(&scan, &seen, stream + at, left < step ? left : step);
			uint32_t sum = 0;
			for (uint32_t i = 0; i < seen.begun; i++)
				sum += seen.lengths[i];
			between = seen.begun == seen.messages && seen.size == sum && scan.held == 0;
			cr_assert_eq(scan_at_boundary(&scan), between);
		}
		stream_check(&scan, &seen);
	}
}

static const struct {
	uint32_t length, length_max;
	enum scan_status status;
} lengths[] = {
	{0, UINT32_MAX, SCAN_BAD},
	{1, UINT32_MAX, SCAN_BAD},
	{3, UINT32_MAX, SCAN_BAD},
	{4, UINT32_MAX, SCAN_PIECE},
	{5, UINT32_MAX, SCAN_PIECE},
	{4, 4, SCAN_PIECE},
	{5, 4, SCAN_BAD},
	{4, 0, SCAN_BAD},
	{4095, 4096, SCAN_PIECE},
	{4096, 4096, SCAN_PIECE},
	{4097, 4096, SCAN_BAD},
	{65535, 65536, SCAN_PIECE},
	{65536, 65536, SCAN_PIECE},
	{65537, 65536, SCAN_BAD},
	{0x3ffffffe, 2147483647, SCAN_PIECE},
	{0x3fffffff, 2147483647, SCAN_PIECE},
	{0x40000000, 2147483647, SCAN_BAD},
	{0x7fffffff, 2147483647, SCAN_BAD},
	{0x80000000, UINT32_MAX, SCAN_BAD},
	{0x80000004, UINT32_MAX, SCAN_BAD},
	{0xfffffffb, UINT32_MAX, SCAN_BAD},
	{0xffffffff, UINT32_MAX, SCAN_BAD},
};

/* The header alone, whole and cut, of every type: a bad one stays bad. */
static void length_check(size_t row, uint8_t type, uint32_t cut)
{
	uint8_t header[SCAN_HEADER_SIZE] = {type};
	write_u32(header + 1, lengths[row].length);
	struct scan scan = {0};
	struct piece piece;
	struct span in = {header, cut};
	if (cut < SCAN_HEADER_SIZE) {
		cr_assert_eq(scan_next(&scan, &in, lengths[row].length_max, &piece), SCAN_MORE);
		in = (struct span){header + cut, SCAN_HEADER_SIZE - cut};
	}
	enum scan_status status = scan_next(&scan, &in, lengths[row].length_max, &piece);
	cr_assert_eq(status, lengths[row].status, "row %zu cut %u", row, cut);
	if (status == SCAN_PIECE) {
		cr_assert_eq(piece.length, lengths[row].length + 1);
		cr_assert_eq(piece.last, lengths[row].length == 4);
		cr_assert_eq(piece.type, type);
		return;
	}
	static const uint8_t sync[] = "S\0\0\0\x04";
	struct span good = {sync, 5};
	cr_assert_eq(scan_next(&scan, &good, UINT32_MAX, &piece), SCAN_BAD);
	cr_assert_not(scan_at_boundary(&scan));
}

Test(scan, bounds_the_length)
{
	for (size_t row = 0; row < sizeof lengths / sizeof lengths[0]; row++)
		for (uint32_t type = 0; type < 256; type++)
			for (uint32_t cut = 1; cut <= SCAN_HEADER_SIZE; cut++)
				length_check(row, (uint8_t)type, cut);
}

/* A body of a gigabyte goes through a buffer of one page. */
Test(scan, passes_large_bodies_in_pieces)
{
	static const uint8_t header[] = "d\x3f\xff\xff\xff";
	static uint8_t page[1 << 20];
	struct scan scan = {0};
	struct piece piece;
	struct span in = {header, 5};
	cr_assert_eq(scan_next(&scan, &in, 2147483647, &piece), SCAN_PIECE);
	cr_assert(piece.first && !piece.last);
	uint64_t passed = piece.bytes.size;
	while (!piece.last) {
		cr_assert_not(scan_at_boundary(&scan));
		in = (struct span){page, sizeof page};
		cr_assert_eq(scan_next(&scan, &in, 2147483647, &piece), SCAN_PIECE);
		cr_assert(!piece.first && !piece.held);
		passed += piece.bytes.size;
	}
	cr_assert_eq(passed, 0x40000000U);
	cr_assert_eq(in.size, sizeof page - 0x3ffffffbU % sizeof page);
	cr_assert(scan_at_boundary(&scan));
}
