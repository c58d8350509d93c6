/* Big-endian numbers, spans, and the compare that takes no short cut. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/bytes.h"

#include <criterion/criterion.h>

static const struct {
	uint32_t value;
	uint8_t bytes[4];
} numbers[] = {
	{0, {0, 0, 0, 0}},
	{1, {0, 0, 0, 1}},
	{0x01020304, {1, 2, 3, 4}},
	{0x7fffffff, {0x7f, 0xff, 0xff, 0xff}},
	{0x80000000, {0x80, 0, 0, 0}},
	{0xfffefdfc, {0xff, 0xfe, 0xfd, 0xfc}},
	{0xffffffff, {0xff, 0xff, 0xff, 0xff}},
};

Test(bytes, numbers)
{
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		const uint8_t *bytes = numbers[i].bytes;
		uint8_t out[6] = {0xaa, 0, 0, 0, 0, 0xaa};
		cr_assert_eq(read_u32(bytes), numbers[i].value);
		cr_assert_eq(read_u16(bytes), numbers[i].value >> 16);
		cr_assert_eq(read_u16(bytes + 2), numbers[i].value & 0xffff);
		write_u32(out + 1, numbers[i].value);
		cr_assert_arr_eq(out + 1, bytes, 4);
		write_u16(out + 1, (uint16_t)numbers[i].value);
		cr_assert_arr_eq(out + 1, bytes + 2, 2);
		cr_assert_arr_eq(out + 3, bytes + 2, 2);
		cr_assert(out[0] == 0xaa && out[5] == 0xaa);
	}
}

Test(bytes, spans)
{
	struct span none = {NULL, 0};
	struct span text = span_text("a\0b"); /* to the first zero byte */
	cr_assert_eq(text.size, 1);
	cr_assert(span_is(text, "a"));
	cr_assert(!span_is(text, "b") && !span_is(text, "ab") && !span_is(text, ""));
	cr_assert(span_equal(span_of("a\0b", 3), span_of("a\0bc", 3)));
	cr_assert_not(span_equal(span_of("a\0b", 3), span_of("a\0c", 3)));
	cr_assert_not(span_equal(span_of("a\0b", 3), span_of("a\0b", 2)));
	cr_assert(span_equal(none, span_text("")) && span_is(none, ""));
	cr_assert_not(span_is(none, "a"));
}

Test(bytes, secrets)
{
	/* Every single bit of difference counts, wherever it is. */
	uint8_t a[40];
	uint8_t b[40];
	memset(a, 0x5a, sizeof a);
	memcpy(b, a, sizeof b);
	cr_assert(bytes_equal_secret(a, b, sizeof a));
	for (uint32_t bit = 0; bit < 8 * sizeof a; bit++) {
		b[bit / 8] ^= (uint8_t)(1U << bit % 8);
		cr_assert_not(bytes_equal_secret(a, b, sizeof a));
		cr_assert(bytes_equal_secret(a, b, bit / 8));
		b[bit / 8] = a[bit / 8];
	}
	cr_assert(bytes_equal_secret(NULL, NULL, 0));

	bytes_wipe(b + 1, sizeof b - 2);
	for (uint32_t i = 1; i < sizeof b - 1; i++)
		cr_assert_eq(b[i], 0);
	cr_assert(b[0] == 0x5a && b[sizeof b - 1] == 0x5a);
}

Test(bytes, hash)
{
	cr_assert_eq(bytes_hash("key", 3, 1), bytes_hash("key!", 3, 1));
	cr_assert_neq(bytes_hash("key", 3, 1), bytes_hash("key", 3, 2));
	cr_assert_neq(bytes_hash("key", 3, 1), bytes_hash("kez", 3, 1));
	cr_assert_neq(bytes_hash("key", 3, 1), bytes_hash("key", 2, 1));
	/* Of the library, so that it is the same on every machine. */
	cr_assert_eq(bytes_hash("", 0, 0), 0x2d06800538d394c2ULL);
}
