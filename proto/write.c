/*
 * write.c - see write.h.
 *
 * A message is written behind a gap for its length, which writer_end() fills.
 * What does not fit is left out whole, and from then on the writer takes
 * nothing and writer_span() is empty: half a message on a stream would turn
 * the bytes that follow into nonsense.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/write.h"

#include "core/base/check.h"
#include "proto/sqlstate.h"
#include "proto/startup.h"

enum { LENGTH_SIZE = 4 };

struct writer writer_over(void *buffer, uint32_t room)
{
	return (struct writer){.data = buffer, .room = room};
}

struct span writer_span(const struct writer *writer)
{
	return (struct span){writer->data, writer->failed ? 0 : writer->size};
}

/* Room for `size` bytes more, or NULL and failed. */
static uint8_t *writer_take(struct writer *writer, uint32_t size)
{
	if (writer->failed || size > writer->room - writer->size) {
		writer->failed = true;
		return NULL;
	}
	uint8_t *place = writer->data + writer->size;
	writer->size += size;
	return place;
}

void writer_begin(struct writer *writer, char type)
{
	CHECK(writer->failed || writer->open == 0);
	if (type != '\0')
		writer_u8(writer, (uint8_t)type);
	writer_u32(writer, 0);
	writer->open = writer->size;
}

void writer_end(struct writer *writer)
{
	CHECK(writer->failed || writer->open != 0);
	/* The length is a signed number to the peer. */
	uint32_t length = writer->size - writer->open + LENGTH_SIZE;
	if (length > INT32_MAX)
		writer->failed = true;
	if (!writer->failed)
		write_u32(writer->data + writer->open - LENGTH_SIZE, length);
	writer->open = 0;
}

void writer_u8(struct writer *writer, uint8_t value)
{
	uint8_t *p = writer_take(writer, 1);
	if (p != NULL)
		*p = value;
}

void writer_u16(struct writer *writer, uint16_t value)
{
	uint8_t *p = writer_take(writer, 2);
	if (p != NULL)
		write_u16(p, value);
}

void writer_u32(struct writer *writer, uint32_t value)
{
	uint8_t *p = writer_take(writer, 4);
	if (p != NULL)
		write_u32(p, value);
}

void writer_bytes(struct writer *writer, const void *bytes, uint32_t size)
{
	uint8_t *p = writer_take(writer, size);
	if (p != NULL && size > 0)
		memcpy(p, bytes, size);
}

void writer_text(struct writer *writer, const char *text)
{
	size_t size = strlen(text) + 1;
	if (size > UINT32_MAX)
		writer->failed = true;
	else
		writer_bytes(writer, text, (uint32_t)size);
}

static void write_field(struct writer *writer, char code, const char *text)
{
	writer_u8(writer, (uint8_t)code);
	writer_text(writer, text);
}

void write_error(struct writer *writer, const char *severity, const char *sqlstate,
                 const char *message)
{
	writer_begin(writer, 'E');
	write_field(writer, 'S', severity);
	write_field(writer, 'C', sqlstate);
	write_field(writer, 'M', message);
	writer_u8(writer, 0);
	writer_end(writer);
}

void write_notice(struct writer *writer, const char *message, const char *detail)
{
	writer_begin(writer, 'N');
	write_field(writer, 'S', "NOTICE");
	write_field(writer, 'C', SQLSTATE_SUCCESS);
	write_field(writer, 'M', message);
	if (detail != NULL)
		write_field(writer, 'D', detail);
	writer_u8(writer, 0);
	writer_end(writer);
}

void write_ready(struct writer *writer, char status)
{
	writer_begin(writer, 'Z');
	writer_u8(writer, (uint8_t)status);
	writer_end(writer);
}

void write_parameter_status(struct writer *writer, const char *name, const char *value)
{
	writer_begin(writer, 'S');
	writer_text(writer, name);
	writer_text(writer, value);
	writer_end(writer);
}

void write_authentication(struct writer *writer, uint32_t code, struct span extra)
{
	writer_begin(writer, 'R');
	writer_u32(writer, code);
	writer_bytes(writer, extra.data, extra.size);
	writer_end(writer);
}

void write_backend_key(struct writer *writer, struct span key)
{
	writer_begin(writer, 'K');
	writer_bytes(writer, key.data, key.size);
	writer_end(writer);
}

void write_negotiate(struct writer *writer, uint32_t newest, const char *const *options,
                     uint32_t count)
{
	writer_begin(writer, 'v');
	writer_u32(writer, newest);
	writer_u32(writer, count);
	for (uint32_t i = 0; i < count; i++)
		writer_text(writer, options[i]);
	writer_end(writer);
}

void write_command_complete(struct writer *writer, const char *tag)
{
	writer_begin(writer, 'C');
	writer_text(writer, tag);
	writer_end(writer);
}

void write_query(struct writer *writer, const char *sql)
{
	writer_begin(writer, 'Q');
	writer_text(writer, sql);
	writer_end(writer);
}

void write_terminate(struct writer *writer)
{
	writer_begin(writer, 'X');
	writer_end(writer);
}

void write_cancel_request(struct writer *writer, struct span key)
{
	writer_begin(writer, '\0');
	writer_u32(writer, CODE_CANCEL);
	writer_bytes(writer, key.data, key.size);
	writer_end(writer);
}

void write_ssl_request(struct writer *writer)
{
	writer_begin(writer, '\0');
	writer_u32(writer, CODE_SSL);
	writer_end(writer);
}
