/*
 * read.h - bounded reader over one message, with a sticky failure.
 *
 * Every getter is total: past the end, or after any failure, it returns zero
 * or an empty text, and reader.failed is set.  So a message is read straight
 * through and checked once at its end:
 *
 *	struct reader in = reader_of(body);
 *	uint32_t code = reader_u32(&in);
 *	const char *name = reader_text(&in);
 *	if (!reader_done(&in)) ... bad message ...
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_READ_H
#define PROTO_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

struct reader {
	const uint8_t *at, *end;
	bool failed;
};

struct reader reader_of(struct span bytes);
uint8_t reader_u8(struct reader *reader);
uint16_t reader_u16(struct reader *reader);
uint32_t reader_u32(struct reader *reader);
struct span reader_bytes(struct reader *reader, uint32_t size);

/* A text that ends with a zero byte, which stays in place; "" on failure. */
const char *reader_text(struct reader *reader);

uint32_t reader_left(const struct reader *reader);

/* No failure and nothing left. */
bool reader_done(const struct reader *reader);

/* One field of an ErrorResponse or NoticeResponse body, by its code letter
 * ('S' severity, 'C' SQLSTATE, 'M' message); "" if it is absent or the body
 * is malformed.  Never NULL. */
const char *error_field(struct span body, char code);

/* The SQLSTATE of such a body; "XX000" if absent or not five characters. */
const char *error_sqlstate(struct span body);

#endif
