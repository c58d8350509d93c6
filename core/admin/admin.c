/*
 * admin.c - see admin.h.
 *
 * A hand-written matcher over the whole text: it reads each byte once, and what
 * is left over makes the command invalid, so that of two statements in one
 * query none is run.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/admin.h"

#include <string.h>
#include <strings.h>

#include "core/base/check.h"

#define COMMAND(word, verb, right, operand)                         \
	{                                                           \
		word, VERB_##verb, RIGHT_##right, OPERAND_##operand \
	}

const struct admin_command admin_commands[] = {
	COMMAND("SHOW", SHOW, STATS, WANTED), /* each SHOW has a right of its own besides */
	COMMAND("SELECT", SHOW, STATS, WANTED),
	COMMAND("SET", SET, ADMIN, WANTED), /* but that of a fake setting, which is ignored */
	COMMAND("RELOAD", RELOAD, ADMIN, NONE),
	COMMAND("PAUSE", PAUSE, ADMIN, MAY),
	COMMAND("RESUME", RESUME, ADMIN, MAY),
	COMMAND("SUSPEND", SUSPEND, ADMIN, NONE),
	COMMAND("DISABLE", DISABLE, ADMIN, MAY),
	COMMAND("ENABLE", ENABLE, ADMIN, MAY),
	COMMAND("KILL", KILL, ADMIN, MAY),
	COMMAND("KILL_CLIENT", KILL_CLIENT, ADMIN, MAY),
	COMMAND("RECONNECT", RECONNECT, ADMIN, MAY),
	COMMAND("WAIT_CLOSE", WAIT_CLOSE, ADMIN, MAY),
	COMMAND("SHUTDOWN", SHUTDOWN, ADMIN, MAY),
};
const size_t admin_command_count = ARRAY_LEN(admin_commands);

enum word_status { WORD_NONE, WORD_GOOD, WORD_TOO_LONG };

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_';
}

/* False: there was none. */
static bool skip_space(const char **at)
{
	const char *from = *at;
	while (is_space(**at))
		++*at;
	return *at != from;
}

/* The text between two `quote`s; two in a row stand for one.  Past its end. */
static enum word_status take_quoted(const char **at, char quote, char *word, size_t room)
{
	const char *next = *at + 1;
	size_t size = 0;
	for (; *next != '\0'; next++) {
		if (*next == quote && next[1] != quote)
			break;
		if (*next == quote)
			next++;
		if (size < room)
			word[size] = *next;
		size++;
	}
	if (*next != quote)
		return WORD_NONE;
	*at = next + 1;
	word[MIN(size, room - 1)] = '\0';
	return size < room ? WORD_GOOD : WORD_TOO_LONG;
}

static enum word_status take_word(const char **at, char *word, size_t room)
{
	if (**at == '"')
		return take_quoted(at, '"', word, room);
	size_t size = 0;
	for (; is_word(**at); ++*at, size++)
		if (size < room)
			word[size] = **at;
	word[MIN(size, room - 1)] = '\0';
	if (size == 0)
		return WORD_NONE;
	return size < room ? WORD_GOOD : WORD_TOO_LONG;
}

static bool is_end(const char *at)
{
	skip_space(&at);
	if (*at == ';')
		at++;
	skip_space(&at);
	return *at == '\0';
}

static const struct admin_command *command_find(const char *word)
{
	for (size_t i = 0; i < admin_command_count; i++)
		if (strcasecmp(admin_commands[i].word, word) == 0)
			return &admin_commands[i];
	return NULL;
}

/* "=", or the word TO with something that sets it off from what follows. */
static bool take_equals(const char **at)
{
	bool is_apart = skip_space(at);
	if (**at == '=') {
		++*at;
	} else {
		if (!is_apart || strncasecmp(*at, "to", 2) != 0 || is_word((*at)[2]))
			return false;
		*at += 2;
	}
	skip_space(at);
	return true;
}

/* Behind the word SET. */
static enum admin_status parse_set(const char *at, struct admin_request *request)
{
	if (!skip_space(&at))
		return ADMIN_INVALID;
	enum word_status key = take_word(&at, request->argument, sizeof request->argument);
	if (key == WORD_NONE || !take_equals(&at))
		return ADMIN_INVALID;
	enum word_status value = *at == '\''
	                                 ? take_quoted(&at, '\'', request->value,
	                                               sizeof request->value)
	                                 : take_word(&at, request->value, sizeof request->value);
	if (value == WORD_NONE || !is_end(at))
		return ADMIN_INVALID;
	if (key == WORD_TOO_LONG || value == WORD_TOO_LONG)
		return ADMIN_TOO_LONG;
	request->has_argument = true;
	return ADMIN_GOOD;
}

/* Behind any other: one more word at most. */
static enum admin_status parse_argument(const char *at, bool is_too_long,
                                        struct admin_request *request)
{
	if (skip_space(&at) && !is_end(at)) {
		enum word_status status = take_word(&at, request->argument,
		                                    sizeof request->argument);
		if (status == WORD_NONE)
			return ADMIN_INVALID;
		is_too_long = is_too_long || status == WORD_TOO_LONG;
		request->has_argument = true;
	}
	if (!is_end(at))
		return ADMIN_INVALID;
	return is_too_long ? ADMIN_TOO_LONG : ADMIN_GOOD;
}

enum admin_status admin_parse(const char *text, struct admin_request *request)
{
	char word[ADMIN_COMMAND_MAX + 1];
	const char *at = text;
	*request = (struct admin_request){0};
	skip_space(&at);
	enum word_status status = take_word(&at, word, sizeof word);
	if (status == WORD_NONE)
		return ADMIN_INVALID;
	request->command = command_find(word);
	if (request->command != NULL && request->command->verb == VERB_SET)
		return parse_set(at, request);
	enum admin_status rest = parse_argument(at, status == WORD_TOO_LONG, request);
	if (rest != ADMIN_GOOD)
		return rest;
	if (request->command == NULL)
		return ADMIN_INVALID;
	enum admin_operand operand = request->command->operand;
	if (request->has_argument ? operand == OPERAND_NONE : operand == OPERAND_WANTED)
		return ADMIN_INVALID;
	return ADMIN_GOOD;
}

const char *admin_fake_setting(const char *name, const char **value)
{
	static const struct {
		const char *name, *value;
	} settings[] = {
		{"client_encoding", "UTF-8"},
		{"default_transaction_isolation", "read committed"},
		{"standard_conforming_strings", "on"},
		{"datestyle", "ISO"},
		{"timezone", "GMT"},
	};
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (strcasecmp(settings[i].name, name) == 0) {
			*value = settings[i].value;
			return settings[i].name;
		}
	}
	return NULL;
}
