/*
 * config_fixture.h - what the tests of the configuration share: a directory to
 * load from, and what was told while loading.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_CONFIG_FIXTURE_H
#define TESTS_UNIT_CONFIG_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/config.h"

/* What was reported: E or W, a blank, the text, a newline. */
static char told[64 * 1024];

static inline void tell(void *context, bool is_error, const char *text)
{
	size_t size = strlen(told);
	cr_assert_null(context);
	snprintf(told + size, sizeof(told) - size, "%c %s\n", is_error ? 'E' : 'W', text);
}

static const struct config_report report = {tell, NULL};

/* The tests run in a directory of their own, so that names in lines are short. */
static inline void directory_enter(void)
{
	static char path[] = "/tmp/unit-config-XXXXXX";
	cr_assert_not_null(mkdtemp(path));
	cr_assert_eq(chdir(path), 0);
}

static inline void directory_leave(void)
{
	char path[256];
	cr_assert_not_null(getcwd(path, sizeof(path)));
	static const char *const files[] = {"f", "a", "b", "users", "other"};
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		unlink(files[i]);
	cr_assert_eq(chdir("/"), 0);
	cr_assert_eq(rmdir(path), 0);
}

static inline void file_write(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");
	cr_assert_not_null(file);
	cr_assert_eq(fwrite(text, 1, strlen(text), file), strlen(text));
	fclose(file);
}

static inline struct config *load(const char *text, const struct config *previous)
{
	file_write("f", text);
	told[0] = '\0';
	return config_load("f", previous, &report);
}

static inline struct config *load_good(const char *text)
{
	struct config *config = load(text, NULL);
	cr_assert_not_null(config, "%s", told);
	return config;
}

#endif
