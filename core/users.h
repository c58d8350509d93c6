/*
 * users.h - cuts an auth_file into names and secrets.
 *
 *	"name" "secret" whatever follows
 *	; a comment
 *
 * "" inside quotes is one quote.  Reading ends at the first line that is broken:
 * from there on nothing can be trusted.  An entry never reaches over the end of
 * its line, so that a lost quote cannot make a name of one line the password of
 * another.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_USERS_H
#define CORE_USERS_H

#include <stdint.h>

#include "core/base/bytes.h"

struct users {
	char *at, *end;
	uint32_t line; /* of `at`, from 1 */
};

enum users_event {
	USERS_END,
	USERS_ENTRY,
	USERS_BROKEN,
	USERS_NAME_TOO_LONG,
	USERS_SECRET_TOO_LONG,
};

struct users_line {
	struct span name, secret; /* no zero bytes; the secret may be empty */
	uint32_t number;
};

/* The text is changed in place while it is read. */
void users_init(struct users *users, char *text, size_t size);
enum users_event users_next(struct users *users, struct users_line *line);

#endif
