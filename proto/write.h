/*
 * write.h - writer of messages into the caller's buffer, sticky overflow.
 *
 *	struct writer out = writer_over(buffer, sizeof buffer);
 *	writer_begin(&out, 'S');
 *	writer_text(&out, name);
 *	writer_text(&out, value);
 *	writer_end(&out);
 *	if (out.failed) ... did not fit ...
 *
 * writer_end() puts in the length.  Messages that we make often have a
 * function of their own below.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_WRITE_H
#define PROTO_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

struct writer {
	uint8_t *data;
	uint32_t size, room;
	uint32_t open; /* offset of the body of the message under way; 0: none */
	bool failed;
};

struct writer writer_over(void *buffer, uint32_t room);

/* What was written; empty after a failure: half a message must not be sent. */
struct span writer_span(const struct writer *writer);

/* type 0: a packet without type byte (startup, cancel). */
void writer_begin(struct writer *writer, char type);
void writer_end(struct writer *writer);

void writer_u8(struct writer *writer, uint8_t value);
void writer_u16(struct writer *writer, uint16_t value);
void writer_u32(struct writer *writer, uint32_t value);
void writer_bytes(struct writer *writer, const void *bytes, uint32_t size);
void writer_text(struct writer *writer, const char *text); /* with its zero byte */

/* Whole messages. */
void write_error(struct writer *writer, const char *severity, const char *sqlstate,
                 const char *message);
/* detail may be NULL. */
void write_notice(struct writer *writer, const char *message, const char *detail);
void write_ready(struct writer *writer, char status);
void write_parameter_status(struct writer *writer, const char *name, const char *value);
/* code: 0 ok, 3 cleartext, 5 MD5 (extra: salt), 10 SASL, 11 continue, 12 final. */
void write_authentication(struct writer *writer, uint32_t code, struct span extra);
void write_backend_key(struct writer *writer, struct span key);
void write_negotiate(struct writer *writer, uint32_t newest, const char *const *options,
                     uint32_t count);
void write_command_complete(struct writer *writer, const char *tag);
void write_query(struct writer *writer, const char *sql);
void write_terminate(struct writer *writer);
void write_cancel_request(struct writer *writer, struct span key);
void write_ssl_request(struct writer *writer);

#endif
