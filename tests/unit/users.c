/*
 * The grammar of the auth_file.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/users.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/check.h"
#include "core/base/limits.h"

static char seen[4096];

/* The entries and how reading ended, such as "1:name:secret|3!". */
static const char *users_see(const char *text, size_t size)
{
	static const char *const ends[] = {
		[USERS_BROKEN] = "!",
		[USERS_NAME_TOO_LONG] = "name",
		[USERS_SECRET_TOO_LONG] = "secret",
	};
	char *copy = malloc(size + (size == 0));
	memcpy(copy, text, size);
	struct users users;
	struct users_line line;
	enum users_event event;
	size_t used = 0;
	seen[0] = '\0';
	users_init(&users, copy, size);
	while ((event = users_next(&users, &line)) == USERS_ENTRY)
		used += (size_t)snprintf(seen + used, sizeof(seen) - used, "%u:%.*s:%.*s|",
		                         line.number, (int)line.name.size,
		                         (const char *)line.name.data, (int)line.secret.size,
		                         (const char *)line.secret.data);
	if (event != USERS_END)
		snprintf(seen + used, sizeof(seen) - used, "%u%s", line.number, ends[event]);
	free(copy);
	return seen;
}

/* A line with a name and a secret of these sizes. */
static const char *long_see(size_t name_size, size_t secret_size)
{
	static char text[PASSWORD_MAX + 1024];
	int size = snprintf(text, sizeof(text), "\"%0*d\" \"%0*d\"\n", (int)name_size, 0,
	                    (int)secret_size, 0);
	return users_see(text, (size_t)size);
}

Test(users, lines)
{
	static const struct row {
		const char *text, *entries;
	} rows[] = {
		{"", ""},
		{"\n \t\r\n", ""},
		{"; \"a\" \"b\"\n", ""},
		{"\"a\" \"b\"", "1:a:b|"},
		{"  \"a\"\t\"b\" more \"words\"\n\"c\"\"d\"", "1:a:b|2!"},
		{"\"a\" \"b\" more \"words\"\n\n;x\n\"c\" \"d\"\r\n", "1:a:b|4:c:d|"},
		{"\"a\" junk \"b\"\n", "1:a:b|"},
		{"\"a\"\"b\" \"c\"\"\"\"d\"\"\"", "1:a\"b:c\"\"d\"|"},
		{"\"a\" \"\"\n", "1:a:|"},
		{"\"\" \"b\"\n", "1::b|"},
		{"# no comment\n", "1!"},
		{"\"a\" \"b\"\na \"b\"\n\"c\" \"d\"", "1:a:b|2!"},
		{"\"a\" \"b\"\n\"lost \"b\"\n\"c\" \"d\"\n", "1:a:b|2!"},
		{"\"a\n\" \"b\"", "1!"},
		{"\"a\" \n\"b\" \"c\"\n", "1!"},
		{"\"a\" \"b\n", "1!"},
		{"\"a\"", "1!"},
		{"\"a", "1!"},
		{"\"", "1!"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		users_see(rows[i].text, strlen(rows[i].text));
		cr_assert_str_eq(seen, rows[i].entries, "row %zu", i);
	}
	cr_assert_str_eq(users_see("\"a\0\" \"b\"", 8), "1!");
	cr_assert_str_eq(users_see("\"a\" \"\0b\"", 8), "1!");

	cr_assert(strstr(long_see(USER_NAME_MAX, 1), "1:0") == seen);
	cr_assert_str_eq(long_see(USER_NAME_MAX + 1, 1), "1name");
	cr_assert(strstr(long_see(1, PASSWORD_MAX), "1:0") == seen);
	cr_assert_str_eq(long_see(1, PASSWORD_MAX + 1), "1secret");

	static const char whole[] = "\"a\" \"b\" x\n; c\n \"d\"\"e\" \"f\"\n";
	for (size_t size = 0; size <= sizeof(whole) - 1; size++)
		users_see(whole, size);
	cr_assert_str_eq(seen, "1:a:b|3:d\"e:f|");
}
