/*
 * result.c - see result.h.
 *
 * The writer of proto does not grow: room is made ahead of each piece.  After
 * a failed allocation it is marked failed and takes nothing more.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

enum {
	ROOM_FIRST = 1024,
	MESSAGE_FIXED = 64,     /* type, length, field codes and SQLSTATE of any message here */
	NUMERIC_DIGITS_MAX = 5, /* of base 10000 in 64 bits */
	NUMERIC_BASE = 10000,
};

static const struct {
	uint32_t oid;
	int16_t size;
} types[] = {
	[COLUMN_TEXT] = {25, -1},
	[COLUMN_INT4] = {23, 4},
	[COLUMN_INT8] = {20, 8},
	[COLUMN_NUMERIC] = {1700, -1},
};

void result_init(struct result *result, uint32_t binary)
{
	*result = (struct result){.out = writer_over(NULL, 0), .binary = binary};
}

void result_fini(struct result *result)
{
	free(result->out.data);
	*result = (struct result){0};
}

char *result_take(struct result *result, uint32_t *size)
{
	CHECK(result->out.open == 0 || result->out.failed);
	char *bytes = (char *)result->out.data;
	*size = result->out.size;
	if (result->out.failed) {
		free(bytes);
		bytes = NULL;
		*size = 0;
	}
	*result = (struct result){0};
	return bytes;
}

static void result_room(struct result *result, size_t size)
{
	struct writer *out = &result->out;
	if (out->failed || size <= out->room - out->size)
		return;
	size_t room = MAX((size_t)ROOM_FIRST, ((size_t)out->size + size) * 2);
	uint8_t *data = room > INT32_MAX ? NULL : realloc(out->data, room);
	if (data == NULL) {
		out->failed = true;
		return;
	}
	out->data = data;
	out->room = (uint32_t)room;
}

void result_columns(struct result *result, const struct column *columns, uint32_t count)
{
	struct writer *out = &result->out;
	result->columns = columns;
	result->column_count = count;
	CHECK(count <= 32); /* bits of `binary` */
	size_t size = MESSAGE_FIXED;
	for (uint32_t i = 0; i < count; i++)
		size += MESSAGE_FIXED + strlen(columns[i].name);
	result_room(result, size);
	writer_begin(out, 'T');
	writer_u16(out, (uint16_t)count);
	for (uint32_t i = 0; i < count; i++) {
		writer_text(out, columns[i].name);
		writer_u32(out, 0); /* of no table */
		writer_u16(out, 0);
		writer_u32(out, types[columns[i].type].oid);
		writer_u16(out, (uint16_t)types[columns[i].type].size);
		writer_u32(out, UINT32_MAX);
		writer_u16(out, (uint16_t)(result->binary >> i & 1));
	}
	writer_end(out);
}

void result_row(struct result *result)
{
	CHECK(result->columns != NULL);
	result_room(result, MESSAGE_FIXED);
	result->cell = 0;
	writer_begin(&result->out, 'D');
	writer_u16(&result->out, (uint16_t)result->column_count);
}

void result_row_end(struct result *result)
{
	CHECK(result->cell == result->column_count);
	writer_end(&result->out);
}

static void cell_bytes(struct result *result, const void *bytes, size_t size)
{
	result_room(result, size + 4);
	writer_u32(&result->out, (uint32_t)size);
	writer_bytes(&result->out, bytes, (uint32_t)size);
}

void result_text(struct result *result, const char *text)
{
	CHECK(result->cell < result->column_count);
	enum column_type type = result->columns[result->cell++].type;
	CHECK(text == NULL || type == COLUMN_TEXT);
	if (text != NULL) {
		cell_bytes(result, text, strlen(text));
		return;
	}
	result_room(result, 4);
	writer_u32(&result->out, UINT32_MAX);
}

/* A numeric in binary: digits of base 10000, the first counts 10000^weight. */
static void cell_numeric(struct result *result, uint64_t value)
{
	uint16_t digits[NUMERIC_DIGITS_MAX];
	uint32_t count = 0;
	for (; value > 0; value /= NUMERIC_BASE)
		digits[count++] = (uint16_t)(value % NUMERIC_BASE);
	result_room(result, 32);
	writer_u32(&result->out, 8 + 2 * count);
	writer_u16(&result->out, (uint16_t)count);
	writer_u16(&result->out, (uint16_t)(count > 0 ? count - 1 : 0));
	writer_u16(&result->out, 0); /* not negative */
	writer_u16(&result->out, 0); /* nothing behind the point */
	while (count > 0)
		writer_u16(&result->out, digits[--count]);
}

void result_number(struct result *result, uint64_t value)
{
	CHECK(result->cell < result->column_count);
	enum column_type type = result->columns[result->cell].type;
	bool is_binary = result->binary >> result->cell & 1;
	uint64_t most = type == COLUMN_INT4   ? INT32_MAX
	                : type == COLUMN_INT8 ? INT64_MAX
	                                      : UINT64_MAX;
	char text[24];
	uint8_t bytes[8];
	value = MIN(value, most);
	write_u32(bytes, (uint32_t)(value >> 32));
	write_u32(bytes + 4, (uint32_t)value);
	result->cell++;
	CHECK(type != COLUMN_TEXT);
	if (!is_binary) {
		int size = snprintf(text, sizeof text, "%" PRIu64, value);
		cell_bytes(result, text, (size_t)size);
	} else if (type == COLUMN_INT4) {
		cell_bytes(result, bytes + 4, 4);
	} else if (type == COLUMN_INT8) {
		cell_bytes(result, bytes, 8);
	} else {
		cell_numeric(result, value);
	}
}

void result_no_data(struct result *result)
{
	result_room(result, MESSAGE_FIXED);
	writer_begin(&result->out, 'n');
	writer_end(&result->out);
}

void result_tag(struct result *result, const char *tag)
{
	result_room(result, MESSAGE_FIXED + strlen(tag));
	write_command_complete(&result->out, tag);
}

void result_notice(struct result *result, const char *message, const char *detail)
{
	result_room(result,
	            MESSAGE_FIXED + strlen(message) + (detail != NULL ? strlen(detail) : 0));
	write_notice(&result->out, message, detail);
}

void result_error(struct result *result, const char *sqlstate, const char *message)
{
	result_room(result, MESSAGE_FIXED + strlen(message));
	write_error(&result->out, "ERROR", sqlstate, message);
}
