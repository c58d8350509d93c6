/*
 * read.c - see read.h.
 *
 * A failure moves the reader to its end: nothing is left, so every later
 * getter of a byte or more fails by the same compare that guards the bounds.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/read.h"

/* What a failed getter points to; never NULL, so callers need no case for it. */
static const char empty[] = "";

struct reader reader_of(struct span bytes)
{
	/* A span of no bytes may have no address either. */
	const uint8_t *at = bytes.size > 0 ? bytes.data : (const uint8_t *)empty;
	return (struct reader){.at = at, .end = at + bytes.size};
}

uint32_t reader_left(const struct reader *reader)
{
	return (uint32_t)(reader->end - reader->at);
}

bool reader_done(const struct reader *reader)
{
	return !reader->failed && reader->at == reader->end;
}

static void reader_fail(struct reader *reader)
{
	reader->failed = true;
	reader->at = reader->end;
}

/* The next `size` bytes, or NULL and failed. */
static const uint8_t *reader_take(struct reader *reader, uint32_t size)
{
	if (reader->failed || size > reader_left(reader)) {
		reader_fail(reader);
		return NULL;
	}
	const uint8_t *front = reader->at;
	reader->at += size;
	return front;
}

uint8_t reader_u8(struct reader *reader)
{
	const uint8_t *p = reader_take(reader, 1);
	return p == NULL ? 0 : *p;
}

uint16_t reader_u16(struct reader *reader)
{
	const uint8_t *p = reader_take(reader, 2);
	return p == NULL ? 0 : read_u16(p);
}

uint32_t reader_u32(struct reader *reader)
{
	const uint8_t *p = reader_take(reader, 4);
	return p == NULL ? 0 : read_u32(p);
}

struct span reader_bytes(struct reader *reader, uint32_t size)
{
	const uint8_t *p = reader_take(reader, size);
	return p == NULL ? span_of(empty, 0) : span_of(p, size);
}

const char *reader_text(struct reader *reader)
{
	uint32_t left = reader_left(reader);
	const uint8_t *mark = left == 0 ? NULL : memchr(reader->at, '\0', left);
	if (mark == NULL) {
		reader_fail(reader);
		return empty;
	}
	const char *text = (const char *)reader->at;
	reader->at = mark + 1;
	return text;
}

const char *error_field(struct span body, char code)
{
	struct reader in = reader_of(body);
	const char *found = empty;
	for (uint8_t field; (field = reader_u8(&in)) != 0;) {
		const char *text = reader_text(&in);
		/* A repeated field: the last one, as libpq does. */
		if (field == (uint8_t)code)
			found = text;
	}
	return reader_done(&in) ? found : empty;
}

const char *error_sqlstate(struct span body)
{
	const char *sqlstate = error_field(body, 'C');
	return strlen(sqlstate) == 5 ? sqlstate : "XX000";
}
