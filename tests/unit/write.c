/* Every message against its bytes, in a buffer of the exact size and in every
 * smaller one: it fits whole, or the writer shows nothing. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/write.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "proto/read.h"
#include "proto/scan.h"

static const char *const options[] = {"_pq_.one", "_pq_.two"};
static const uint8_t key[] = {0, 1, 2, 3, 0xfc, 0xfd, 0xfe, 0xff};

static void error(struct writer *out)
{
	write_error(out, "FATAL", "08P01", "no such user");
}

static void notice(struct writer *out)
{
	write_notice(out, "hello", NULL);
}

static void notice_with_detail(struct writer *out)
{
	write_notice(out, "Console usage", "\n\tRELOAD\n");
}

static void ready(struct writer *out)
{
	write_ready(out, 'T');
}

static void parameter_status(struct writer *out)
{
	write_parameter_status(out, "TimeZone", "");
}

static void authentication_ok(struct writer *out)
{
	write_authentication(out, 0, (struct span){NULL, 0});
}

static void authentication_md5(struct writer *out)
{
	write_authentication(out, 5, span_of("\0\1\2\3", 4));
}

static void authentication_sasl(struct writer *out)
{
	write_authentication(out, 10, span_of("SCRAM-SHA-256\0", 15));
}

static void backend_key(struct writer *out)
{
	write_backend_key(out, span_of(key, sizeof key));
}

static void negotiate(struct writer *out)
{
	write_negotiate(out, 0x30000, options, 2);
}

static void negotiate_nothing(struct writer *out)
{
	write_negotiate(out, 0x30002, NULL, 0);
}

static void command_complete(struct writer *out)
{
	write_command_complete(out, "SHOW");
}

static void query(struct writer *out)
{
	write_query(out, "SELECT 1");
}

static void cancel_request(struct writer *out)
{
	write_cancel_request(out, span_of(key, sizeof key));
}

static const struct {
	void (*write)(struct writer *);
	const char *bytes;
	uint32_t size;
} rows[] = {
#define ROW(write, bytes)                       \
	{                                       \
		write, bytes, sizeof(bytes) - 1 \
	}
	ROW(error, "E\0\0\0\x21SFATAL\0C08P01\0Mno such user\0\0"),
	ROW(notice, "N\0\0\0\x1bSNOTICE\0C00000\0Mhello\0\0"),
	ROW(notice_with_detail, "N\0\0\0\x2eSNOTICE\0C00000\0MConsole usage\0D\n\tRELOAD\n\0\0"),
	ROW(ready, "Z\0\0\0\x05T"),
	ROW(parameter_status, "S\0\0\0\x0eTimeZone\0\0"),
	ROW(authentication_ok, "R\0\0\0\x08\0\0\0\0"),
	ROW(authentication_md5, "R\0\0\0\x0c\0\0\0\x05\0\1\2\3"),
	ROW(authentication_sasl, "R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"),
	ROW(backend_key, "K\0\0\0\x0c\0\1\2\3\xfc\xfd\xfe\xff"),
	ROW(negotiate, "v\0\0\0\x1e\0\3\0\0\0\0\0\x02_pq_.one\0_pq_.two\0"),
	ROW(negotiate_nothing, "v\0\0\0\x0c\0\3\0\2\0\0\0\0"),
	ROW(command_complete, "C\0\0\0\x09SHOW\0"),
	ROW(query, "Q\0\0\0\x0dSELECT 1\0"),
	ROW(write_terminate, "X\0\0\0\x04"),
	ROW(cancel_request, "\0\0\0\x10\x04\xd2\x16\x2e\0\1\2\3\xfc\xfd\xfe\xff"),
	ROW(write_ssl_request, "\0\0\0\x08\x04\xd2\x16\x2f"),
#undef ROW
};

static void row_check(size_t row, uint32_t room)
{
	uint8_t *buffer = malloc(room);
	cr_assert(buffer != NULL || room == 0);
	struct writer out = writer_over(buffer, room);
	rows[row].write(&out);
	cr_assert_eq(out.failed, room < rows[row].size, "row %zu room %u", row, room);
	struct span written = writer_span(&out);
	if (room < rows[row].size)
		cr_assert_eq(written.size, 0);
	else
		cr_assert(span_equal(written, span_of(rows[row].bytes, rows[row].size)), "row %zu",
		          row);

	/* A failure is sticky, also for what would fit. */
	uint32_t left = out.room - out.size;
	writer_bytes(&out, NULL, 0);
	writer_u8(&out, 0);
	cr_assert_eq(out.failed, room < rows[row].size || left == 0);
	free(buffer);
}

Test(write, whole_messages)
{
	for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
		for (uint32_t room = 0; room <= rows[row].size + 1; room++)
			row_check(row, room);
}

/* All messages in a row are a stream that scan cuts into the same messages,
 * and what was written as an error is read as one. */
Test(write, reads_back)
{
	uint8_t buffer[1024];
	struct writer out = writer_over(buffer, sizeof buffer);
	char types[32] = {0};
	uint32_t count = 0;
	for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
		if (rows[row].bytes[0] == '\0')
			continue;
		types[count++] = rows[row].bytes[0];
		rows[row].write(&out);
	}
	cr_assert_not(out.failed);

	struct scan scan = {0};
	struct span in = writer_span(&out);
	struct piece piece;
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_eq(scan_next(&scan, &in, 0x3fffffff, &piece), SCAN_PIECE);
		cr_assert_eq(piece.type, types[i]);
		cr_assert(piece.last);
		struct span body = {piece.bytes.data + 5, piece.bytes.size - 5};
		if (piece.type == 'E') {
			cr_assert_str_eq(error_sqlstate(body), "08P01");
			cr_assert_str_eq(error_field(body, 'M'), "no such user");
		}
		if (piece.type == 'N') {
			cr_assert_str_eq(error_field(body, 'S'), "NOTICE");
			cr_assert_eq(body.data[body.size - 1], 0);
		}
	}
	cr_assert_eq(scan_next(&scan, &in, 0x3fffffff, &piece), SCAN_MORE);
}

Test(write, numbers_and_misuse)
{
	uint8_t buffer[16];
	struct writer out = writer_over(buffer, sizeof buffer);
	writer_begin(&out, 'd');
	writer_u8(&out, 0xfe);
	writer_u16(&out, 0xfedc);
	writer_u32(&out, 0xfedcba98);
	writer_end(&out);
	cr_assert(span_equal(writer_span(&out),
	                     span_of("d\0\0\0\x0b\xfe\xfe\xdc\xfe\xdc\xba\x98", 12)));
	cr_assert_eq(out.open, 0);

	/* A size near the top of its type does not wrap. */
	static const uint32_t sizes[] = {5, 0x7fffffff, 0x80000000, 0xfffffff4, 0xffffffff};
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct writer full = out;
		writer_bytes(&full, buffer, sizes[i]);
		cr_assert(full.failed);
		writer_begin(&full, 'Z');
		writer_end(&full);
		cr_assert_eq(writer_span(&full).size, 0);
	}
	out = writer_over(NULL, 0);
	cr_assert_eq(writer_span(&out).size, 0);
	write_terminate(&out);
	cr_assert(out.failed);
}
