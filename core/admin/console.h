/*
 * console.h - clients of the database `pgbouncer`, at their worker.
 *
 * The worker cuts messages and frames answers; what a command does is
 * control's: it goes there by POST_CONSOLE and comes back by POST_REPLY, one at
 * a time, while further input waits.  A command by the extended protocol is the
 * same command: Parse and Bind keep its text, Describe is answered from the
 * table of columns, and Execute runs it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_ADMIN_CONSOLE_H
#define CORE_ADMIN_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

struct client;
struct post;
struct worker;

enum { CONSOLE_INPUT_MAX = 64 * 1024, CONSOLE_NAME_MAX = 63 };

/* A statement or portal; the last one that was made is known. */
struct console_text {
	char name[CONSOLE_NAME_MAX + 1];
	char *text; /* NULL: none */
};

struct console {
	uint8_t *in; /* what has come and was not yet acted on */
	uint32_t size, room;
	bool counted;  /* its first query is in the statistics */
	bool extended; /* the command under way came by Execute */
	bool skipping; /* after an error: all but Sync is dropped */
	struct console_text statement, portal;
	uint32_t binary; /* columns of the portal wanted in binary, a bit each */
};

/* Authentication has succeeded, rights are set: welcomes it. */
void console_begin(struct client *client);
void console_bytes(struct client *client, const uint8_t *bytes, uint32_t size);

/* POST_REPLY. */
void console_reply(struct worker *worker, struct post *post);

/* NULL and other clients are fine. */
void console_free(struct client *client);

/* Between console.c and console_extended.c. */
void console_send(struct client *client, const char *text, uint32_t size, bool extended);
void console_error(struct client *client, const char *sqlstate, const char *text);
void console_invalid(struct client *client, const char *text);
void console_extended(struct client *client, uint8_t type, struct span body);
void console_extended_reply(struct client *client, struct span reply);

#endif
