/*
 * Any bytes as the auth_file: entries up to the first broken line.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"
#include "core/config_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_errors(void *context, bool is_error, const char *text)
{
	uint32_t *errors = context;
	CHECK(strlen(text) < CONFIG_LINE_MAX);
	*errors += is_error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t errors = 0;
	const struct config_report report = {count_errors, &errors};
	struct config *config = config_create();
	char *text = malloc(size + (size == 0));
	CHECK(config != NULL && text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	bool is_good = config_read_users(config, &report, "users.txt", text, size);
	CHECK(errors == (is_good ? 0 : 1));
	free(text);
	for (uint32_t i = 0; i < config->user_count; i++) {
		const struct user_entry *user = &config->users[i];
		CHECK(config_find_user(config, user->name) == user && user->in_auth_file);
		CHECK((user->secret == NULL) == (user->secret_kind == SECRET_NONE));
		CHECK(strlen(user->name) <= USER_NAME_MAX);
		CHECK(user->secret == NULL || strlen(user->secret) <= PASSWORD_MAX);
	}
	config_drop(config);
	return 0;
}
