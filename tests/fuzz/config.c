/*
 * Any bytes as the configuration file: a snapshot or a reason, never both, and
 * whatever was loaded can be shown, copied and dropped.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdint.h>
#include <string.h>

#include "core/base/check.h"
#include "core/config_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_errors(void *context, bool is_error, const char *text)
{
	uint32_t *errors = context;
	CHECK(strlen(text) < CONFIG_LINE_MAX);
	*errors += is_error;
}

static void look(const struct config *config, const struct config_report *report)
{
	struct setting_row row;
	for (uint32_t i = 0; config_setting_row(config, i, &row); i++) {
		const char *reason;
		if (row.value_is_null || strlen(row.value) == sizeof(row.value) - 1)
			continue;
		/* what is shown is what is taken */
		struct config *copy = config_with(config, row.key, row.value, &reason);
		if (copy != NULL)
			config_drop(copy);
	}
	for (uint32_t i = 0; i < config->database_count; i++) {
		const struct database_entry *entry = &config->databases[i];
		CHECK(config_find_database(config, entry->name) == entry);
		CHECK(entry->dbname != NULL && strlen(entry->name) > 0);
		CHECK(i == 0 || strcmp(entry[-1].name, entry->name) < 0);
	}
	for (uint32_t i = 0; i < config->user_count; i++)
		CHECK(config_find_user(config, config->users[i].name) == &config->users[i]);
	for (uint32_t i = 1; i < config->peer_count; i++)
		CHECK(config->peers[i - 1].id < config->peers[i].id);
	config_check_supported(config, report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t errors = 0;
	const struct config_report report = {count_errors, &errors};
	struct config *config = config_create();
	CHECK(config != NULL);
	/* no includes: the fuzzer must not wander about the disk */
	bool is_good = config_read_text(config, &report, "fuzz.ini", span_of(data, size), 0);
	CHECK(is_good == (errors == 0));
	if (is_good)
		look(config, &report);
	config_drop(config);
	return 0;
}
