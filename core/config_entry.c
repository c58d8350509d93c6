/*
 * config_entry.c - one entry of [databases], [users] or [peers].
 *
 * The keys are rows of settings.def.  An entry is read whole into a struct and
 * only then added.  What is said about a wrong one shows no password, nor what
 * might be one: values of unknown keys and all behind a syntax error.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"
#include "core/config_parts.h"
#include "core/connstr.h"

enum key_kind {
	KEY_TEXT,
	KEY_PORT,
	KEY_MODE,
	KEY_BALANCE,
	KEY_SIZE,
	KEY_LIMIT,
	KEY_SECONDS_LIMIT,
	KEY_WAIT,
};

struct entry_key {
	const char *name;
	enum key_kind kind;
	size_t offset; /* in the entry's struct */
};

static const struct entry_key database_keys[] = {
#define DATABASE_KEY(k, n, member, help) \
	{.name = #n, .kind = KEY_##k, .offset = offsetof(struct database_entry, member)},
#include "core/settings.def"
};

static const struct entry_key user_keys[] = {
#define USER_KEY(k, n, member, help) \
	{.name = #n, .kind = KEY_##k, .offset = offsetof(struct user_entry, member)},
#include "core/settings.def"
};

static const struct entry_key peer_keys[] = {
#define PEER_KEY(k, n, member, help) \
	{.name = #n, .kind = KEY_##k, .offset = offsetof(struct peer_entry, member)},
#include "core/settings.def"
};

static const struct section_keys {
	const struct entry_key *keys;
	size_t count;
	const char *unknown, *broken;
} section_keys[] = {
	[SECTION_DATABASES] = {database_keys, ARRAY_LEN(database_keys),
                               "unrecognized connection parameter",
                               "syntax error in connection string"},
	[SECTION_USERS] = {user_keys, ARRAY_LEN(user_keys), "unrecognized user parameter",
                           "syntax error in user settings"},
	[SECTION_PEERS] = {peer_keys, ARRAY_LEN(peer_keys), "unrecognized connection parameter",
                           "syntax error in connection string"},
};

static const struct entry_key *key_find(const struct section_keys *section, struct span name)
{
	for (size_t i = 0; i < section->count; i++)
		if (span_is(name, section->keys[i].name))
			return &section->keys[i];
	return NULL;
}

/* The pairs as they may be shown. */
static void pairs_mask(const struct section_keys *section, const char *pairs, char *shown,
                       size_t room)
{
	struct connstr_pair pair;
	size_t size = 0;
	shown[0] = '\0';
	for (;;) {
		const char *begin = pairs;
		enum connstr_event event = connstr_next(&pairs, &pair);
		const struct entry_key *key = event == CONNSTR_PAIR ? key_find(section, pair.key)
		                                                    : NULL;
		bool is_open = key != NULL && !span_is(pair.key, "password");
		int added = 0;
		if (event == CONNSTR_END)
			return;
		if (event == CONNSTR_BROKEN)
			added = snprintf(shown + size, room - size, "%s...", size == 0 ? "" : " ");
		else if (is_open)
			added = snprintf(shown + size, room - size, "%.*s", (int)(pairs - begin),
			                 begin);
		else
			added = snprintf(shown + size, room - size, "%s%.*s=***",
			                 size == 0 ? "" : " ", (int)pair.key.size,
			                 (const char *)pair.key.data);
		if (event == CONNSTR_BROKEN || added < 0 || (size_t)added >= room - size)
			return;
		size += (size_t)added;
	}
}

static bool number_read(const struct entry_key *key, const char *text, int32_t *number,
                        const struct config_place *place)
{
	char *end;
	errno = 0;
	intmax_t value = strtoimax(text, &end, 10);
	if (end == text || *end != '\0') {
		config_tell_at(place, true, "%s: not an integer: %s; expected 0..%" PRId32,
		               key->name, text, INT32_MAX);
		return false;
	}
	if (errno != 0 || value < INT32_MIN || value > INT32_MAX) {
		config_tell_at(place, true, "%s: out of range: %s; expected 0..%" PRId32, key->name,
		               text, INT32_MAX);
		return false;
	}
	*number = (int32_t)value;
	return true;
}

static bool port_read(const char *text, int32_t *port, const struct config_place *place)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || value < 1 || value > UINT16_MAX) {
		config_tell_at(place, true, "invalid port: %s; expected 1..65535", text);
		return false;
	}
	*port = (int32_t)value;
	return true;
}

static bool mode_read(const char *text, enum pool_mode *mode, const struct config_place *place)
{
	if (pool_mode_read(text, mode))
		return true;
	config_tell_at(place, true,
	               "invalid pool mode: %s; expected session, transaction or statement", text);
	return false;
}

static bool balance_read(const char *text, enum load_balance *balance,
                         const struct config_place *place)
{
	static const char *const words[] = {
		[LOAD_BALANCE_ROUND_ROBIN] = "round-robin",
		[LOAD_BALANCE_DISABLE] = "disable",
		NULL,
	};
	int found = word_find(words, text);
	if (found < 0) {
		config_tell_at(place, true,
		               "invalid load_balance_hosts: %s; expected round-robin or disable",
		               text);
		return false;
	}
	*balance = (enum load_balance)found;
	return true;
}

static bool key_set(const struct entry_key *key, void *entry, const char *text,
                    const struct config_place *place)
{
	void *member = (char *)entry + key->offset;
	int32_t number = 0;
	switch (key->kind) {
	case KEY_TEXT: *(const char **)member = text; return true;
	case KEY_PORT: return port_read(text, member, place);
	case KEY_MODE: return mode_read(text, member, place);
	case KEY_BALANCE: return balance_read(text, member, place);
	case KEY_SIZE:
	case KEY_LIMIT:
	case KEY_SECONDS_LIMIT:
	case KEY_WAIT: break;
	}
	if (!number_read(key, text, &number, place))
		return false;
	int64_t time = (int64_t)number * 1000000;
	if (key->kind == KEY_SIZE)
		*(int32_t *)member = MAX(number, -1);
	else if (key->kind == KEY_LIMIT)
		*(int32_t *)member = number > 0 ? number : -1;
	else if (key->kind == KEY_SECONDS_LIMIT)
		*(int64_t *)member = number > 0 ? time : -1;
	else
		*(int64_t *)member = MAX(time, 0); /* 0 waits for ever too */
	return true;
}

static bool pairs_read(struct config *config, const struct section_keys *section, const char *pairs,
                       void *entry, const struct config_place *place)
{
	struct connstr_pair pair;
	enum connstr_event event;
	while ((event = connstr_next(&pairs, &pair)) == CONNSTR_PAIR) {
		const struct entry_key *key = key_find(section, pair.key);
		char *value = config_room(config->memory, (size_t)pair.value.size + 1);
		if (value == NULL)
			return false;
		if (key == NULL) {
			char name[64];
			snprintf(name, sizeof(name), "%.*s", (int)pair.key.size,
			         (const char *)pair.key.data);
			const char *near = name_nearest(name, &section->keys[0].name,
			                                section->count, sizeof(*key));
			config_tell_at(place, true,
			               near != NULL ? "%s: %s; did you mean %s?" : "%s: %s",
			               section->unknown, name, near);
			return false;
		}
		connstr_value(&pair, value);
		if (!key_set(key, entry, value, place))
			return false;
	}
	if (event == CONNSTR_BROKEN)
		config_tell_at(place, true, "%s", section->broken);
	return event == CONNSTR_END;
}

static bool text_fits(const char *text, size_t room, const char *what,
                      const struct config_place *place)
{
	if (text == NULL || strlen(text) <= room)
		return true;
	config_tell_at(place, true, "%s: longer than %zu bytes", what, room);
	return false;
}

static bool database_read(struct config *config, const char *name, const char *pairs,
                          const struct config_place *place)
{
	struct database_entry entry;
	if (strcmp(name, "pgbouncer") == 0) {
		config_tell_at(place, true, "database name \"pgbouncer\" is reserved");
		return false;
	}
	if (strlen(name) > DATABASE_NAME_MAX) {
		config_tell_at(place, false, "too long db name: %s", name);
		return false;
	}
	database_entry_init(&entry, config_text(config->memory, span_text(name)));
	if (!pairs_read(config, &section_keys[SECTION_DATABASES], pairs, &entry, place) ||
	    !text_fits(entry.user, USER_NAME_MAX, "user", place) ||
	    !text_fits(entry.auth_user, USER_NAME_MAX, "auth_user", place) ||
	    !text_fits(entry.password, PASSWORD_MAX, "password", place))
		return false;
	if (entry.auth_dbname != NULL && strcmp(entry.auth_dbname, "pgbouncer") == 0) {
		config_tell_at(place, true,
		               "cannot use the reserved \"pgbouncer\" database as an auth_dbname");
		return false;
	}
	struct database_entry *added = config_grow(config->memory, (void **)&config->databases,
	                                           &config->database_count,
	                                           &config->memory->database_room, sizeof(entry));
	if (added != NULL)
		*added = entry;
	return added != NULL;
}

static bool user_read(struct config *config, const char *name, const char *pairs,
                      const struct config_place *place)
{
	struct user_entry entry;
	user_entry_init(&entry, config_text(config->memory, span_text(name)));
	if (!text_fits(name, USER_NAME_MAX, "user name", place) ||
	    !pairs_read(config, &section_keys[SECTION_USERS], pairs, &entry, place))
		return false;
	struct user_entry *added = config_grow(config->memory, (void **)&config->users,
	                                       &config->user_count, &config->memory->user_room,
	                                       sizeof(entry));
	if (added != NULL)
		*added = entry;
	return added != NULL;
}

static bool peer_read(struct config *config, const char *name, const char *pairs,
                      const struct config_place *place)
{
	char *end;
	errno = 0;
	long id = strtol(name, &end, 10);
	if (end == name || *end != '\0' || errno != 0 || id < 1 || id > PEER_ID_MAX) {
		config_tell_at(place, true,
		               "ids of peers must be a number larger than 0 and at most 65536");
		return false;
	}
	struct peer_entry entry = {.id = (int32_t)id, .port = 6432, .pool_size = -1};
	if (!pairs_read(config, &section_keys[SECTION_PEERS], pairs, &entry, place))
		return false;
	if (entry.host == NULL) {
		config_tell_at(place, true, "host was not provided for peer %" PRId32, entry.id);
		return false;
	}
	struct peer_entry *added = config_grow(config->memory, (void **)&config->peers,
	                                       &config->peer_count, &config->memory->peer_room,
	                                       sizeof(entry));
	if (added != NULL)
		*added = entry;
	return added != NULL;
}

bool entry_read(struct config *config, enum entry_section section, const char *name,
                const char *pairs, const struct config_place *place)
{
	bool is_good = false;
	switch (section) {
	case SECTION_DATABASES: is_good = database_read(config, name, pairs, place); break;
	case SECTION_USERS: is_good = user_read(config, name, pairs, place); break;
	case SECTION_PEERS: is_good = peer_read(config, name, pairs, place); break;
	}
	if (!is_good && !config->memory->failed) {
		char shown[512];
		pairs_mask(&section_keys[section], pairs, shown, sizeof(shown));
		config_tell(place->report, true,
		            "invalid value \"%s\" for parameter %s in configuration (%s:%" PRIu32
		            ")",
		            shown, name, place->file, place->line);
	}
	return is_good;
}
