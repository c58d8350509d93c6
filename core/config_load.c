/*
 * config_load.c - reads the files, and tells the operator what is wrong.
 *
 * A load goes on behind a bad value, so that all of them are told at once, and
 * ends at the first line that is none.  Whatever was wrong, no snapshot comes of
 * it.  The auth_file is the exception that PgBouncer makes: what cannot be read
 * of it is told, and the load goes on without.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config_parts.h"
#include "core/ini.h"
#include "core/users.h"
#include "proto/scram.h"

/* Files that one load may include in all: nesting alone does not bound it. */
enum { INCLUDES_MAX = 1000 };

enum load_section { LOAD_NOWHERE, LOAD_SETTINGS, LOAD_ENTRIES, LOAD_UNKNOWN };

struct load {
	struct config *config;
	const struct config_report *report;
	enum load_section section; /* goes on into an included file and out again */
	enum entry_section entries;
	bool has_settings;
	uint32_t includes_left;
};

void config_tell(const struct config_report *report, bool is_error, const char *format, ...)
{
	if (report == NULL)
		return;
	char text[CONFIG_LINE_MAX];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	report->line(report->context, is_error, text);
}

void config_tell_at(const struct config_place *place, bool is_error, const char *format, ...)
{
	char text[CONFIG_LINE_MAX];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (place->file == NULL)
		config_tell(place->report, is_error, "%s", text);
	else if (place->line == 0)
		config_tell(place->report, is_error, "%s (%s)", text, place->file);
	else
		config_tell(place->report, is_error, "%s (%s:%" PRIu32 ")", text, place->file,
		            place->line);
}

static void text_free(char *text, size_t size)
{
	if (text != NULL)
		bytes_wipe(text, size);
	free(text);
}

/* Twice the room for `used` bytes, which fill it; where they were is wiped.  0 or an errno. */
static int text_grow(char **text, size_t used, size_t *room)
{
	size_t more = used == 0 ? 64 * 1024 : used * 2;
	if (used >= CONFIG_FILE_MAX)
		return EFBIG;
	char *grown = malloc(more);
	if (grown == NULL)
		return ENOMEM;
	if (used > 0)
		memcpy(grown, *text, used);
	text_free(*text, used);
	*text = grown;
	*room = more;
	return 0;
}

/* Reads to the end; pipes too.  0 or an errno.  The caller frees by text_free(). */
static int file_read(const char *path, char **text, size_t *size)
{
	size_t room = 0, used = 0;
	char *bytes = NULL;
	int error = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return errno;
	while (error == 0) {
		if (used == room)
			error = text_grow(&bytes, used, &room);
		ssize_t count = error == 0 ? read(fd, bytes + used, room - used) : 0;
		if (count == 0)
			break;
		if (count > 0)
			used += (size_t)count;
		else if (errno != EINTR)
			error = errno;
	}
	close(fd);
	if (error != 0) {
		text_free(bytes, used);
		return error;
	}
	*text = bytes;
	*size = used;
	return 0;
}

static bool setting_read(struct load *load, const char *name, const char *value,
                         const struct config_place *place)
{
	struct config_memory *memory = load->config->memory;
	const struct setting *setting = setting_find(name);
	if (setting == NULL) {
		const char *near = name_nearest(name, &setting_table[0].name, SETTING_COUNT,
		                                sizeof(setting_table[0]));
		config_tell_at(place, true,
		               near == NULL ? "unknown parameter: pgbouncer/%s"
		                            : "unknown parameter: pgbouncer/%s; did you mean %s?",
		               name, near);
		return false;
	}
	char reason[CONFIG_LINE_MAX];
	if (!setting_set(load->config, setting, value, reason, sizeof(reason))) {
		config_tell_at(place, true, "%s", reason);
		return false;
	}
	memory->set_file[setting_number(setting)] = place->file;
	memory->set_line[setting_number(setting)] = place->line;
	return true;
}

static bool pair_read(struct load *load, const struct ini_line *line, const char *file)
{
	struct config_memory *memory = load->config->memory;
	const char *name = config_text(memory, line->name);
	const char *value = config_text(memory, line->value);
	const struct config_place place = {load->report, file, line->number};
	bool is_good = false;
	switch (load->section) {
	case LOAD_UNKNOWN: return false; /* told at the header */
	case LOAD_ENTRIES: return entry_read(load->config, load->entries, name, value, &place);
	case LOAD_SETTINGS: is_good = setting_read(load, name, value, &place); break;
	case LOAD_NOWHERE:
		config_tell_at(&place, true, "load_init_file: value without section: %s", name);
		break;
	}
	if (!is_good)
		config_tell(load->report, true,
		            "invalid value \"%s\" for parameter %s in configuration (%s:%" PRIu32
		            ")",
		            value, name, file, line->number);
	return is_good;
}

static bool section_enter(struct load *load, const struct ini_line *line, const char *file)
{
	static const char *const entries[] = {
		[SECTION_DATABASES] = "databases",
		[SECTION_USERS] = "users",
		[SECTION_PEERS] = "peers",
	};
	if (span_is(line->name, "pgbouncer")) {
		load->section = LOAD_SETTINGS;
		load->has_settings = true;
		return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(entries); i++) {
		if (span_is(line->name, entries[i])) {
			load->section = LOAD_ENTRIES;
			load->entries = (enum entry_section)i;
			return true;
		}
	}
	load->section = LOAD_UNKNOWN;
	const struct config_place place = {load->report, file, line->number};
	config_tell_at(&place, true, "fill_defaults fail");
	config_tell(load->report, true,
	            "invalid section \"%.*s\" in configuration (%s:%" PRIu32 ")",
	            (int)line->name.size, (const char *)line->name.data, file, line->number);
	return false;
}

static bool text_read(struct load *load, const char *file, struct span text, uint32_t depth_left);

/* No deeper than depth_left. */
/* NOLINTBEGIN(misc-no-recursion) */
static bool include_read(struct load *load, const struct ini_line *line, const char *file,
                         uint32_t depth_left)
{
	const char *path = config_text(load->config->memory, line->value);
	if (depth_left == 0) {
		config_tell(load->report, true,
		            "include nesting level too deep (%s:%" PRIu32 "), stopping loading",
		            file, line->number);
		return false;
	}
	bool is_good = false;
	char *text = NULL;
	size_t size = 0;
	int error = load->includes_left == 0 ? EMFILE : file_read(path, &text, &size);
	if (error != 0) {
		config_tell(load->report, true, "could not load file \"%s\": %s", path,
		            text_of_error(error));
	} else {
		load->includes_left--;
		is_good = text_read(load, path, span_of(text, size), depth_left - 1);
		text_free(text, size);
	}
	if (!is_good)
		config_tell(load->report, true,
		            "error processing include file in configuration (%s:%" PRIu32
		            "), stopping loading",
		            file, line->number);
	return is_good;
}

static bool text_read(struct load *load, const char *file, struct span text, uint32_t depth_left)
{
	struct ini ini;
	struct ini_line line;
	bool is_good = true;
	ini_init(&ini, text);
	for (;;) {
		switch (ini_next(&ini, &line)) {
		case INI_END: return is_good;
		case INI_SECTION: is_good &= section_enter(load, &line, file); break;
		case INI_PAIR: is_good &= pair_read(load, &line, file); break;
		case INI_INCLUDE:
			if (!include_read(load, &line, file, depth_left))
				return false;
			break;
		case INI_BROKEN:
			config_tell(load->report, true,
			            "syntax error in configuration (%s:%" PRIu32
			            "), stopping loading",
			            file, line.number);
			return false;
		}
	}
}

/* NOLINTEND(misc-no-recursion) */

bool config_read_text(struct config *config, const struct config_report *report, const char *name,
                      struct span text, uint32_t depth_left)
{
	struct load load = {.config = config, .report = report, .includes_left = INCLUDES_MAX};
	name = config_text(config->memory, span_text(name));
	bool is_good = text_read(&load, name, text, depth_left);
	if (is_good && !load.has_settings) {
		const struct config_place place = {report, name, 0};
		config_tell_at(&place, true,
		               "load_init_file: main section missing from config file");
		is_good = false;
	}
	entries_sort(config);
	return is_good;
}

static enum secret_kind secret_kind_of(const char *secret)
{
	static const char hex[] = "0123456789abcdef";
	enum { MD5_PREFIX = 3, MD5_SIZE = 35 };
	struct scram_verifier verifier;
	if (secret[0] == '\0')
		return SECRET_NONE;
	if (strncmp(secret, "md5", MD5_PREFIX) == 0 && strlen(secret) == MD5_SIZE &&
	    strspn(secret + MD5_PREFIX, hex) == MD5_SIZE - MD5_PREFIX)
		return SECRET_MD5;
	bool is_scram = scram_verifier_read(secret, &verifier);
	bytes_wipe(&verifier, sizeof(verifier));
	return is_scram ? SECRET_SCRAM : SECRET_PLAIN;
}

static void user_append(struct config *config, const struct user_entry *entry)
{
	struct user_entry *added = config_grow(config->memory, (void **)&config->users,
	                                       &config->user_count, &config->memory->user_room,
	                                       sizeof(*added));
	if (added != NULL)
		*added = *entry;
}

bool config_read_users(struct config *config, const struct config_report *report, const char *name,
                       char *text, size_t size)
{
	static const char *const errors[] = {
		[USERS_BROKEN] = "broken auth file",
		[USERS_NAME_TOO_LONG] = "username too long in auth file",
		[USERS_SECRET_TOO_LONG] = "password too long in auth file",
	};
	struct users users;
	struct users_line line;
	enum users_event event;
	users_init(&users, text, size);
	while ((event = users_next(&users, &line)) == USERS_ENTRY) {
		struct user_entry entry;
		user_entry_init(&entry, config_text(config->memory, line.name));
		entry.in_auth_file = true;
		const char *secret = config_text(config->memory, line.secret);
		entry.secret_kind = secret_kind_of(secret);
		entry.secret = entry.secret_kind == SECRET_NONE ? NULL : secret;
		user_append(config, &entry);
	}
	entries_sort(config);
	if (event == USERS_END)
		return true;
	const struct config_place place = {report, name, line.number};
	config_tell_at(&place, true, "%s", errors[event]);
	return false;
}

/* What was known before stays known while the file cannot be read. */
static void users_keep(struct config *config, const struct config *previous)
{
	for (uint32_t i = 0; previous != NULL && i < previous->user_count; i++) {
		const struct user_entry *known = &previous->users[i];
		if (!known->in_auth_file)
			continue;
		struct user_entry entry;
		user_entry_init(&entry, config_text(config->memory, span_text(known->name)));
		entry.in_auth_file = true;
		entry.secret_kind = known->secret_kind;
		if (known->secret != NULL)
			entry.secret = config_text(config->memory, span_text(known->secret));
		user_append(config, &entry);
	}
	entries_sort(config);
}

static void auth_file_read(struct config *config, const struct config *previous,
                           const struct config_report *report)
{
	const char *path = config->settings.auth_file;
	char *text = NULL;
	size_t size = 0;
	if (path == NULL || path[0] == '\0' || config->settings.auth_type == AUTH_ANY ||
	    config->settings.auth_type == AUTH_PAM)
		return;
	int error = file_read(path, &text, &size);
	if (error != 0) {
		config_tell(report, true, "could not open auth_file %s: %s", path,
		            text_of_error(error));
		users_keep(config, previous);
		return;
	}
	config_read_users(config, report, path, text, size);
	text_free(text, size);
}

/* Users whom only a database names. */
static void forced_users_add(struct config *config)
{
	uint32_t count = config->user_count;
	for (uint32_t i = 0; i <= config->database_count; i++) {
		const struct database_entry *database = i < config->database_count
		                                                ? &config->databases[i]
		                                                : config->autodb;
		if (database == NULL || database->user == NULL ||
		    user_find(config->users, count, database->user) != NULL)
			continue;
		struct user_entry entry;
		user_entry_init(&entry, database->user);
		user_append(config, &entry);
	}
	if (config->user_count != count)
		entries_sort(config);
}

/* Settings that only a restart changes stay as they were. */
static void keep_from(struct config *config, const struct config *previous,
                      const struct config_report *report)
{
	for (uint32_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *setting = &setting_table[i];
		if (setting->is_live ||
		    setting_equal(setting, &config->settings, &previous->settings))
			continue;
		const struct config_place place = {report, config->memory->set_file[i],
		                                   config->memory->set_line[i]};
		char value[128];
		setting_copy(setting, config, &previous->settings);
		config->memory->is_set[i] = previous->memory->is_set[i];
		setting_show(setting, &config->settings, value, sizeof(value));
		config_tell_at(&place, false, "%s changes at a restart only; it stays \"%s\"",
		               setting->name, value);
	}
}

struct config *config_load(const char *path, const struct config *previous,
                           const struct config_report *report)
{
	char *text = NULL;
	size_t size = 0;
	int error = file_read(path, &text, &size);
	if (error != 0) {
		config_tell(report, true, "could not load file \"%s\": %s", path,
		            text_of_error(error));
		return NULL;
	}
	struct config *config = config_create();
	if (config == NULL) {
		text_free(text, size);
		config_tell(report, true, "could not load file \"%s\": out of memory", path);
		return NULL;
	}
	config->path = config_text(config->memory, span_text(path));
	bool is_good = config_read_text(config, report, path, span_of(text, size),
	                                INCLUDE_DEPTH_MAX);
	text_free(text, size);
	if (is_good) {
		if (config->settings.conffile == NULL)
			config->settings.conffile = config->path;
		if (previous != NULL)
			keep_from(config, previous, report);
		auth_file_read(config, previous, report);
		forced_users_add(config);
	}
	if (config->memory->failed)
		config_tell(report, true, "could not load file \"%s\": out of memory", path);
	if (!is_good || config->memory->failed) {
		config_drop(config);
		return NULL;
	}
	return config;
}
