/*
 * message.c - see message.h.
 *
 * The rows are spread over all 256 bytes of both sides, so that a look-up on
 * the path of a query is one load, and an unknown byte is a row of zeros.  A
 * row that stands twice in messages.def does not compile.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/message.h"

#include <stddef.h>

#define MESSAGE(byte, side, name, use) [side][byte] = (use),
static const uint8_t uses[2][256] = {
#include "proto/messages.def"
};
#undef MESSAGE

#define MESSAGE(byte, side, name, use) [side][byte] = (name),
static const char *const names[2][256] = {
#include "proto/messages.def"
};
#undef MESSAGE

enum message_use message_use(enum side side, uint8_t type)
{
	return (enum message_use)uses[side][type];
}

const char *message_name(enum side side, uint8_t type)
{
	const char *name = names[side][type];
	return name == NULL ? "unknown" : name;
}
