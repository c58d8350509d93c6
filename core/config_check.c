/*
 * config_check.c - what this build does not do although the file asks for it.
 *
 * A row of settings.def marked LATER has no effect yet.  That is said once; but
 * where an operator relies on a setting for his security, doing without it
 * silently would be a hole, and the process does not start.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <string.h>

#include "core/base/check.h"
#include "core/config_parts.h"

const char *setting_refusal(const struct setting *setting, const struct settings *settings)
{
	static const char tls[] = "TLS is not there yet in this version, and to go without it "
				  "would be less secure than asked for";
	uint32_t number = setting_number(setting);
	if (number == SETTING_NUMBER_client_tls_sslmode)
		return settings->client_tls_sslmode >= SSL_REQUIRE ? tls : NULL;
	if (number == SETTING_NUMBER_server_tls_sslmode)
		return settings->server_tls_sslmode >= SSL_REQUIRE ? tls : NULL;
	if (number != SETTING_NUMBER_auth_type)
		return NULL;
	switch ((enum auth_type)settings->auth_type) {
	case AUTH_ANY:
	case AUTH_TRUST:
	case AUTH_PLAIN:
	case AUTH_MD5:
	case AUTH_SCRAM: return NULL;
	case AUTH_CERT:
	case AUTH_HBA:
	case AUTH_LDAP:
	case AUTH_PAM: break;
	}
	return "this way to log in is not there yet in this version";
}

/* Whether the value asks for nothing that is missing: the value that the build
 * behaves by, which is not always the default. */
static bool is_harmless(const struct setting *setting, const struct settings *settings,
                        const struct settings *defaults)
{
	switch (setting_number(setting)) {
	case SETTING_NUMBER_server_tls_sslmode: return settings->server_tls_sslmode == SSL_DISABLE;
	default: return setting_equal(setting, settings, defaults);
	}
}

static void entries_check(const struct config *config, const struct config_report *report)
{
	for (uint32_t i = 0; i <= config->database_count; i++) {
		const struct database_entry *entry = i < config->database_count
		                                             ? &config->databases[i]
		                                             : config->autodb;
		if (entry == NULL || (entry->auth_user == NULL && entry->auth_query == NULL))
			continue;
		config_tell(report, false,
		            "auth_query is not in effect yet in this version (database %s)",
		            entry->name);
	}
	if (config->peer_count > 0)
		config_tell(report, false, "[peers] is not in effect yet in this version");
}

bool config_check_supported(const struct config *config, const struct config_report *report)
{
	struct config *defaults = config_create();
	bool is_good = defaults != NULL && !defaults->memory->failed;
	for (uint32_t i = 0; defaults != NULL && i < SETTING_COUNT; i++) {
		const struct setting *setting = &setting_table[i];
		const char *refusal = setting_refusal(setting, &config->settings);
		const struct config_place place = {report, config->memory->set_file[i],
		                                   config->memory->set_line[i]};
		char value[64];
		if (refusal != NULL) {
			setting_show(setting, &config->settings, value, sizeof(value));
			config_tell_at(&place, true, "%s = %s: %s", setting->name, value, refusal);
			is_good = false;
		} else if (setting->is_later && config->memory->is_set[i] &&
		           !is_harmless(setting, &config->settings, &defaults->settings)) {
			config_tell_at(&place, false, "%s is not in effect yet in this version",
			               setting->name);
		}
	}
	entries_check(config, report);
	if (defaults != NULL)
		config_drop(defaults);
	return is_good;
}
