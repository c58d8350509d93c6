/*
 * parameters.c - see parameters.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/auth/parameters.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/log.h"
#include "core/worker.h"
#include "proto/startup.h"
#include "proto/write.h"

enum { EXTENSIONS_MAX = 16, NEGOTIATE_MAX = 4096 };

static bool limit_or(int32_t own, int32_t global, uint32_t *limit)
{
	int32_t chosen = own > 0 ? own : global;
	*limit = chosen > 0 ? (uint32_t)chosen : UINT32_MAX;
	return chosen > 0;
}

uint32_t database_client_limit(const struct config *config, const struct database *database)
{
	const struct database_entry *entry = config_entry_for(config, database->name);
	uint32_t limit;
	limit_or(entry != NULL ? entry->max_db_client_connections : -1,
	         config->settings.max_db_client_connections, &limit);
	return limit;
}

uint32_t user_client_limit(const struct config *config, const struct user_entry *entry)
{
	uint32_t limit;
	limit_or(entry != NULL ? entry->max_user_client_connections : -1,
	         config->settings.max_user_client_connections, &limit);
	return limit;
}

static bool refuse(struct client *client, const char *what, const char *name, const char *value)
{
	char text[REASON_MAX + 1];
	client_log(client, LOG_LEVEL_WARNING, "%s: %s=%s", what, name, value);
	text_format(text, sizeof text, "%s: %s", what, name);
	client_fail(client, NULL, text);
	return false;
}

static bool take_tracked(struct client *client, const char *name, const char *value)
{
	int index = vars_index(name);
	if (index < 0)
		return false;
	vars_set(&client->worker->words, &client->vars, (uint32_t)index, value);
	return true;
}

static bool take_options(struct client *client, const char *text)
{
	static const char what[] = "unsupported startup parameter in options";
	const struct settings *settings = &client->worker->config->settings;
	bool lenient = config_list_has(settings->ignore_startup_parameters, "options");
	char *scratch = malloc(strlen(text) + 1);
	struct option option;
	enum option_status status = OPTION_BAD;
	uint32_t at = 0;
	bool refused = false;
	while (scratch != NULL && !refused &&
	       (status = startup_option(text, &at, scratch, &option)) == OPTION_SET) {
		if (take_tracked(client, option.name, option.value) || lenient ||
		    config_list_has(settings->ignore_startup_parameters, option.name))
			continue;
		refused = true;
		refuse(client, what, option.name, option.value);
	}
	free(scratch);
	if (!refused && status == OPTION_BAD && !lenient) {
		client_fail(client, NULL,
		            "unsupported options startup parameter: only '-c config=val' and "
		            "'--config=val' are allowed");
		return false;
	}
	return !refused;
}

/* application_name_add_host (pgbouncer.md 4.5). */
static void add_host(struct client *client)
{
	int index = vars_index("application_name");
	char peer[ADDR_TEXT_MAX];
	char host[80] = "";
	char name[512];
	CHECK(index >= 0);
	const struct word *word = client->vars.values[index];
	addr_text(&client->address, peer);
	if (client->is_unix) {
		gethostname(host, sizeof host - 1);
		text_format(peer, sizeof peer, "unix(%u@%s):%d", client->unix_pid, host,
		            client->worker->config->settings.listen_port);
	}
	text_format(name, sizeof name, "%s - %s",
	            word != NULL && word->size > 0 ? word->text : "app", peer);
	vars_set(&client->worker->words, &client->vars, (uint32_t)index, name);
}

/* Besides what goes straight into the login; NULL: not given. */
struct asked {
	const char *user, *database;
	const char *extensions[EXTENSIONS_MAX];
	uint32_t extension_count;
};

static bool take_one(struct client *client, const char *name, const char *value,
                     struct asked *asked)
{
	struct login *login = client->login;
	const struct settings *settings = &client->worker->config->settings;
	if (strcmp(name, "user") == 0) {
		asked->user = value;
		text_set(login->user, sizeof login->user, value);
	} else if (strcmp(name, "database") == 0) {
		asked->database = value;
		text_set(login->database, sizeof login->database, value);
	} else if (strcmp(name, "options") == 0)
		return take_options(client, value);
	else if (strncmp(name, "_pq_.", 5) == 0) {
		if (asked->extension_count < EXTENSIONS_MAX)
			asked->extensions[asked->extension_count++] = name;
	} else if (strcmp(name, "replication") == 0 &&
	           (strcmp(value, "false") == 0 || strcmp(value, "off") == 0 ||
	            strcmp(value, "no") == 0 || strcmp(value, "0") == 0))
		return true;
	else if (!take_tracked(client, name, value) &&
	         !config_list_has(settings->ignore_startup_parameters, name))
		return refuse(client, "unsupported startup parameter", name, value);
	return true;
}

static void negotiate(struct client *client, uint32_t protocol, const struct asked *asked)
{
	uint8_t packet[NEGOTIATE_MAX];
	uint32_t newest = protocol < PROTOCOL_3_2 ? PROTOCOL_3_0 : PROTOCOL_3_2;
	client->protocol_long = newest == PROTOCOL_3_2;
	if (protocol == newest && asked->extension_count == 0)
		return;
	struct writer out = writer_over(packet, sizeof packet);
	write_negotiate(&out, newest, asked->extensions, asked->extension_count);
	if (!out.failed)
		conn_send_copy(&client->conn, packet, out.size);
}

static bool names_are_right(struct client *client, const char *user, const char *database)
{
	struct login *login = client->login;
	if (user == NULL || *user == '\0') {
		client_fail(client, NULL, "no username supplied");
		return false;
	}
	if (strlen(user) > USER_NAME_MAX) {
		client_fail(client, NULL, "username too long");
		return false;
	}
	if (database == NULL || *database == '\0')
		text_set(login->database, sizeof login->database, user);
	size_t size = strlen(database != NULL && *database != '\0' ? database : user);
	if (size > DATABASE_NAME_MAX) {
		client_log(client, LOG_LEVEL_LOG, "login failed: db=%.63s... user=%s",
		           login->database, login->user);
		client_fail(client, NULL, "no such database: name too long");
		return false;
	}
	return true;
}

bool parameters_read(struct client *client, const struct startup *startup)
{
	struct asked asked = {0};
	const char *name;
	const char *value;
	uint32_t at = 0;
	while (startup_parameter(startup, &at, &name, &value))
		if (!take_one(client, name, value, &asked))
			return false;
	if (!names_are_right(client, asked.user, asked.database))
		return false;
	if (client->worker->config->settings.application_name_add_host)
		add_host(client);
	negotiate(client, startup->protocol, &asked);
	return true;
}
