/*
 * scan.c - see scan.h.
 *
 * Three states: inside a body (body_left > 0), in front of a header, or lost.
 * A header that arrives whole, nearly always, is read where it lies; one that
 * straddles reads is gathered in the scan.  Lost is the state after an
 * impossible length and is final: nobody can tell where the next message
 * starts, and guessing is how bytes of one message become another (a full
 * `header` that was not taken marks it, since a good one is taken at once).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/scan.h"

#include "core/base/check.h"

static struct span span_take(struct span *in, uint32_t size)
{
	CHECK(size <= in->size);
	struct span front = {in->data, size};
	in->data += size;
	in->size -= size;
	return front;
}

/* Enters the message of a whole header. */
static bool header_parse(struct scan *scan, const uint8_t *header, uint32_t length_max)
{
	uint32_t length = read_u32(header + 1);
	if (length < SCAN_LENGTH_MIN || length > MIN(length_max, SCAN_LENGTH_MAX)) {
		scan->held = SCAN_HEADER_SIZE;
		return false;
	}
	scan->type = header[0];
	scan->body_left = length - SCAN_LENGTH_MIN;
	scan->held = 0;
	return true;
}

/* Moves header bytes from `in` to the scan until the header is whole. */
static bool header_gather(struct scan *scan, struct span *in)
{
	uint32_t missing = (uint32_t)SCAN_HEADER_SIZE - scan->held;
	struct span part = span_take(in, MIN(missing, in->size));
	memcpy(scan->header + scan->held, part.data, part.size);
	scan->held = (uint8_t)(scan->held + part.size);
	return scan->held == SCAN_HEADER_SIZE;
}

static enum scan_status held_next(struct scan *scan, struct span *in, uint32_t length_max,
                                  struct piece *piece)
{
	if (!header_gather(scan, in))
		return SCAN_MORE;
	if (!header_parse(scan, scan->header, length_max))
		return SCAN_BAD;
	*piece = (struct piece){
		.bytes = {scan->header, SCAN_HEADER_SIZE},
		.length = scan->body_left + SCAN_HEADER_SIZE,
		.type = scan->type,
		.first = true,
		.last = scan->body_left == 0,
		.held = true,
	};
	return SCAN_PIECE;
}

enum scan_status scan_next(struct scan *scan, struct span *in, uint32_t length_max,
                           struct piece *piece)
{
	if (scan->held == SCAN_HEADER_SIZE)
		return SCAN_BAD;
	if (in->size == 0)
		return SCAN_MORE;

	if (scan->body_left > 0) {
		uint32_t size = MIN(scan->body_left, in->size);
		scan->body_left -= size;
		*piece = (struct piece){
			.bytes = span_take(in, size),
			.type = scan->type,
			.last = scan->body_left == 0,
		};
		return SCAN_PIECE;
	}

	if (scan->held > 0 || in->size < SCAN_HEADER_SIZE)
		return held_next(scan, in, length_max, piece);

	if (!header_parse(scan, in->data, length_max))
		return SCAN_BAD;
	uint32_t length = scan->body_left + SCAN_HEADER_SIZE;
	uint32_t body = MIN(scan->body_left, in->size - SCAN_HEADER_SIZE);
	scan->body_left -= body;
	*piece = (struct piece){
		.bytes = span_take(in, SCAN_HEADER_SIZE + body),
		.length = length,
		.type = scan->type,
		.first = true,
		.last = scan->body_left == 0,
	};
	return SCAN_PIECE;
}
