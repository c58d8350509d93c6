/*
 * message.h - the message types of protocol 3, one row each in messages.def.
 *
 * The same byte means different things from the two sides, so a type is a
 * byte and a side.  A byte without a row is not a message of that side.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

enum side { SIDE_CLIENT, SIDE_SERVER }; /* who sends it: frontend, backend */

/* What a relay does with it. */
enum message_use {
	USE_NONE,    /* not a message of this side */
	USE_REQUEST, /* client: owes a reply, needs a server */
	USE_ASIDE,   /* client: needs a server, owes nothing (Flush) */
	USE_COPY,    /* client: data or end of COPY */
	USE_END,     /* client: Terminate */
	USE_LOGIN,   /* only during login: BAD in a session */
	USE_REPLY,   /* server: may be large, passes in pieces */
	USE_WHOLE,   /* server: small, the relay reads it whole (S, Z) */
	USE_ASYNC,   /* server: nobody asked (N, A) */
};

enum message_use message_use(enum side side, uint8_t type);

/* "Query", "DataRow"; "unknown" for a byte without a row. */
const char *message_name(enum side side, uint8_t type);

#endif
