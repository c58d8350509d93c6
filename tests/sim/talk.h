/*
 * talk.h - messages over a sock, for actors of both sides.
 *
 * Written apart from proto/ on purpose: what checks the product must not
 * share its mistakes.  Output is queued without limit and leaves as the window
 * of the peer allows; it may be held back until talk_flush(), as PostgreSQL
 * does up to 8 KiB.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_TALK_H
#define TESTS_SIM_TALK_H

#include "tests/sim/world.h"

#include <stdbool.h>
#include <stdint.h>

struct talk_queue {
	uint8_t *bytes;
	uint32_t head, size, room; /* bytes [head, size) */
};

struct talk {
	struct sock *sock; /* NULL: closed */
	struct talk_queue in, out;
	uint32_t ready;  /* of out, may leave now */
	uint32_t open;   /* start of the length of the message under way */
	uint64_t handed; /* bytes that have left in all */
	bool failed;     /* a write found the connection gone */
};

struct message {
	uint8_t type;
	const uint8_t *body; /* until the next call of talk_*() */
	uint32_t size;
};

void talk_open(struct talk *talk, struct sock *sock);
void talk_close(struct talk *talk, bool reset); /* idempotent */
void talk_fini(struct talk *talk);

/* type 0: none. */
void talk_begin(struct talk *talk, char type);
void talk_u8(struct talk *talk, uint8_t value);
void talk_u16(struct talk *talk, uint16_t value);
void talk_u32(struct talk *talk, uint32_t value);
void talk_bytes(struct talk *talk, const void *bytes, uint32_t size);
void talk_text(struct talk *talk, const char *text); /* with its zero byte */
void talk_end(struct talk *talk);
void talk_empty(struct talk *talk, char type); /* a message without body */

/* All that is queued may leave. */
void talk_flush(struct talk *talk);

/* Sends what may leave and fits. */
void talk_send(struct talk *talk);
uint32_t talk_unsent(const struct talk *talk);
uint32_t talk_held(const struct talk *talk);

/* Takes in what has arrived. */
void talk_receive(struct talk *talk);

/* The next whole message; typed: with a type byte. */
bool talk_next(struct talk *talk, bool typed, struct message *message);

/* A single byte (answer to SSLRequest). */
bool talk_next_byte(struct talk *talk, uint8_t *byte);
bool talk_is_empty(const struct talk *talk);

/* Bodies: a cursor that is total. */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

struct cursor cursor_of(const struct message *message);
uint8_t cursor_u8(struct cursor *cursor);
uint16_t cursor_u16(struct cursor *cursor);
uint32_t cursor_u32(struct cursor *cursor);
const char *cursor_text(struct cursor *cursor);

/* Field `code` of an ErrorResponse; "" if absent. */
const char *message_field(const struct message *message, char code);

#endif
