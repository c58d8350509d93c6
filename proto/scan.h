/*
 * scan.h - cut a PostgreSQL byte stream into messages, in place.
 *
 * After the startup phase every message is a type byte, a four-byte
 * big-endian length that counts itself, and a body.  A scan remembers where
 * in that grammar the last byte left it; scan_next() hands out one piece at a
 * time:
 *
 *	struct span in = {bytes, size};
 *	struct piece piece;
 *	while ((status = scan_next(&scan, &in, &piece)) == SCAN_PIECE)
 *		...
 *
 * A piece points into `in`, so a 1 GB DataRow costs no memory and a pooler
 * can forward a message before its end has arrived.  The one exception is a
 * header that straddles two reads: its first bytes wait in the scan, and the
 * piece then points there until the next call (piece.held is set).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_SCAN_H
#define PROTO_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

enum {
	SCAN_HEADER_SIZE = 5,

	/* The length counts itself: the least there can be. */
	SCAN_LENGTH_MIN = 4,

	/* PostgreSQL allocates no message larger than this (MaxAllocSize). */
	SCAN_LENGTH_MAX = 0x3fffffff,
};

enum scan_status {
	SCAN_PIECE, /* *piece is set */
	SCAN_MORE,  /* `in` is used up */
	SCAN_BAD,   /* impossible length: the stream cannot be followed further */
};

struct piece {
	struct span bytes; /* header included, in the first piece */
	uint32_t length;   /* of the whole message, type byte included; in the first piece */
	uint8_t type;
	bool first; /* starts a message */
	bool last;  /* ends it */
	bool held;  /* bytes lie in the scan, not in `in` */
};

/* All zero is a fresh scan. */
struct scan {
	uint32_t body_left; /* of the message we are in; 0: between messages */
	uint8_t type;
	uint8_t held;                     /* bytes of `header` in use */
	uint8_t header[SCAN_HEADER_SIZE]; /* a header that straddles reads */
};

/* Takes the next piece off the front of `in`.  `length_max` is the largest
 * message allowed, type byte not counted (setting max_packet_size). */
enum scan_status scan_next(struct scan *scan, struct span *in, uint32_t length_max,
                           struct piece *piece);

/* Whether the stream stands between two messages: the only place where a
 * server may change hands. */
static inline bool scan_at_boundary(const struct scan *scan)
{
	return scan->body_left == 0 && scan->held == 0;
}

#endif
