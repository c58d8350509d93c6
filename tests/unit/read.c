/* Readers are total: every getter is asked of every prefix of its message, in
 * a copy of the exact size, so that a read past it is seen. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/read.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* A copy whose end is the end of its allocation. */
static struct span copy_of(const void *data, uint32_t size)
{
	uint8_t *copy = malloc(size);
	cr_assert(copy != NULL || size == 0);
	if (size > 0)
		memcpy(copy, data, size);
	return span_of(copy, size);
}

static void copy_free(struct span copy)
{
	free((void *)(uintptr_t)copy.data);
}

static const char message[] = "\x01\x02\x03\xff\xfe\xfd\xfctext\0\0bytes";
enum { MESSAGE_SIZE = sizeof message - 1 };

static void message_check(uint32_t size)
{
	/* Where each getter's part ends. */
	static const uint32_t ends[] = {1, 3, 7, 12, 13, 18};
	struct span body = copy_of(message, size);
	struct reader in = reader_of(body);
	cr_assert_eq(reader_u8(&in), size >= ends[0] ? 0x01 : 0);
	cr_assert_eq(in.failed, size < ends[0]);
	cr_assert_eq(reader_u16(&in), size >= ends[1] ? 0x0203 : 0);
	cr_assert_eq(in.failed, size < ends[1]);
	cr_assert_eq(reader_u32(&in), size >= ends[2] ? 0xfffefdfcU : 0);
	cr_assert_eq(in.failed, size < ends[2]);
	cr_assert_str_eq(reader_text(&in), size >= ends[3] ? "text" : "");
	cr_assert_eq(in.failed, size < ends[3]);
	cr_assert_str_eq(reader_text(&in), "");
	cr_assert_eq(in.failed, size < ends[4]);
	struct span bytes = reader_bytes(&in, 5);
	cr_assert_not_null(bytes.data);
	cr_assert(span_is(bytes, size >= ends[5] ? "bytes" : ""));
	cr_assert_eq(in.failed, size < ends[5]);
	cr_assert_eq(reader_done(&in), size == MESSAGE_SIZE);
	cr_assert_eq(reader_left(&in), 0);
	copy_free(body);
}

Test(read, is_total)
{
	for (uint32_t size = 0; size <= MESSAGE_SIZE; size++)
		message_check(size);

	/* Failure is sticky, also for what would fit again. */
	struct reader in = reader_of(span_of("ab", 2));
	cr_assert_eq(reader_u32(&in), 0);
	cr_assert_eq(reader_u8(&in), 0);
	cr_assert_eq(reader_bytes(&in, 0).size, 0);
	cr_assert(in.failed && !reader_done(&in));

	/* No length wraps. */
	static const uint32_t sizes[] = {3, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		in = reader_of(span_of("ab", 2));
		cr_assert_eq(reader_bytes(&in, sizes[i]).size, 0);
		cr_assert(in.failed);
	}

	in = reader_of((struct span){NULL, 0});
	cr_assert(reader_done(&in));
	cr_assert_eq(reader_left(&in), 0);
	cr_assert_eq(reader_bytes(&in, 0).size, 0);
	cr_assert_str_eq(reader_text(&in), "");
	cr_assert(in.failed);
}

static const struct {
	const char *body;
	uint32_t size;
	const char *severity, *sqlstate, *message;
} errors[] = {
#define ROW(body, ...)                              \
	{                                           \
		body, sizeof(body) - 1, __VA_ARGS__ \
	}
	ROW("SFATAL\0C57P03\0Mno\0\0", "FATAL", "57P03", "no"),
	ROW("SERROR\0VERROR\0C42601\0Mm\0P1\0Ff.c\0L1\0Rr\0\0", "ERROR", "42601", "m"),
	ROW("Mm\0\0", "", "XX000", "m"),
	ROW("\0", "", "XX000", ""),
	ROW("", "", "XX000", ""),
	ROW("S\0C\0M\0\0", "", "XX000", ""),
	ROW("C1234\0\0", "", "XX000", ""),
	ROW("C123456\0\0", "", "XX000", ""),
	ROW("Mone\0Mtwo\0\0", "", "XX000", "two"),
	/* Malformed: no end, no end of a text, bytes behind the end. */
	ROW("SFATAL\0C57P03\0Mno\0", "", "XX000", ""),
	ROW("SFATAL\0C57P03\0Mno", "", "XX000", ""),
	ROW("SFATAL\0C57P03\0M", "", "XX000", ""),
	ROW("SFATAL\0C57P03\0Mno\0\0x", "", "XX000", ""),
	ROW("\0SFATAL\0C57P03\0Mno\0\0", "", "XX000", ""),
#undef ROW
};

Test(read, error_fields)
{
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
		struct span body = copy_of(errors[i].body, errors[i].size);
		cr_assert_str_eq(error_field(body, 'S'), errors[i].severity, "row %zu", i);
		cr_assert_str_eq(error_field(body, 'M'), errors[i].message, "row %zu", i);
		cr_assert_str_eq(error_sqlstate(body), errors[i].sqlstate, "row %zu", i);
		cr_assert_str_eq(error_field(body, 'x'), "");
		cr_assert_str_eq(error_field(body, '\0'), "");
		copy_free(body);
	}
	cr_assert_str_eq(error_field((struct span){NULL, 0}, 'M'), "");

	/* No prefix of an error but the whole one has fields. */
	for (uint32_t size = 0; size < errors[0].size; size++) {
		struct span body = copy_of(errors[0].body, size);
		cr_assert_str_eq(error_field(body, 'M'), "");
		cr_assert_str_eq(error_sqlstate(body), "XX000");
		copy_free(body);
	}
}
