/*
 * users.c - cuts an auth_file; see the header for the grammar.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/users.h"

#include <stdbool.h>

#include "core/base/limits.h"

/* NOLINTNEXTLINE(readability-non-const-parameter): written through users->at */
void users_init(struct users *users, char *text, size_t size)
{
	*users = (struct users){.at = text, .end = text + size, .line = 1};
}

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static void skip_line(struct users *users)
{
	while (users->at < users->end && *users->at != '\n')
		users->at++;
}

static bool skip_to_entry(struct users *users)
{
	while (users->at < users->end) {
		if (*users->at == ';') {
			skip_line(users);
			continue;
		}
		if (!is_space(*users->at))
			return true;
		users->line += *users->at++ == '\n';
	}
	return false;
}

/* From an opening quote; "" becomes one quote where it stands. */
static bool take_quoted(struct users *users, struct span *text)
{
	char *begin = ++users->at, *to = begin;
	for (;;) {
		if (users->at == users->end || *users->at == '\n' || *users->at == '\0')
			return false;
		if (*users->at == '"') {
			users->at++;
			if (users->at == users->end || *users->at != '"')
				break;
		}
		*to++ = *users->at++;
	}
	*text = span_of(begin, (size_t)(to - begin));
	return true;
}

enum users_event users_next(struct users *users, struct users_line *line)
{
	*line = (struct users_line){.number = users->line};
	if (!skip_to_entry(users))
		return USERS_END;
	line->number = users->line;
	if (*users->at != '"' || !take_quoted(users, &line->name))
		return USERS_BROKEN;
	if (line->name.size > USER_NAME_MAX)
		return USERS_NAME_TOO_LONG;
	while (users->at < users->end && *users->at != '"' && *users->at != '\n')
		users->at++;
	if (users->at == users->end || *users->at != '"' || !take_quoted(users, &line->secret))
		return USERS_BROKEN;
	if (line->secret.size > PASSWORD_MAX)
		return USERS_SECRET_TOO_LONG;
	skip_line(users);
	return USERS_ENTRY;
}
