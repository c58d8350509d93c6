/*
 * admin.h - the grammar of the console, and who may say what.
 *
 *	WORD [WORD] [;]
 *	SET key = value [;]        SET key TO 'value' [;]
 *
 * A word is letters, digits and underscores, or "anything" with "" for a
 * quote.  Each command is a row with the right it needs; a row without one does
 * not compile.  Pure: what a command does is core/control_commands.c's.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_ADMIN_ADMIN_H
#define CORE_ADMIN_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ADMIN_COMMAND_MAX = 15,
	ADMIN_ARGUMENT_MAX = 63,
	ADMIN_VALUE_MAX = 255,
};

/* In this order: who has one has those before it. */
enum admin_right { RIGHT_ANYBODY, RIGHT_STATS, RIGHT_ADMIN };

enum admin_verb {
	VERB_SHOW,
	VERB_SET,
	VERB_RELOAD,
	VERB_PAUSE,
	VERB_RESUME,
	VERB_SUSPEND,
	VERB_DISABLE,
	VERB_ENABLE,
	VERB_KILL,
	VERB_KILL_CLIENT,
	VERB_RECONNECT,
	VERB_WAIT_CLOSE,
	VERB_SHUTDOWN,
	VERB_COUNT,
};

enum admin_operand { OPERAND_NONE, OPERAND_MAY, OPERAND_WANTED };

struct admin_command {
	const char *word;
	enum admin_verb verb;
	enum admin_right right;
	enum admin_operand operand;
};

extern const struct admin_command admin_commands[];
extern const size_t admin_command_count;

struct admin_request {
	const struct admin_command *command;
	bool has_argument;
	char argument[ADMIN_ARGUMENT_MAX + 1]; /* as written; of SET the key */
	char value[ADMIN_VALUE_MAX + 1];       /* of SET */
};

enum admin_status {
	ADMIN_GOOD,
	ADMIN_INVALID,  /* no such command, or not its grammar */
	ADMIN_TOO_LONG, /* a word is longer than any may be */
};

enum admin_status admin_parse(const char *text, struct admin_request *request);

/* What drivers ask any server for; NULL: not one of these. */
const char *admin_fake_setting(const char *name, const char **value);

#endif
