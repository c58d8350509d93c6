/*
 * config_value.c - settings as rows: from text to value, and back.
 *
 * The table is made from settings.def.  Numbers are read as C does it (0777 and
 * 0x1f too), times as decimal seconds, words in any case.  What a value must not
 * be, although its kind allows it, stands in setting_check().
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/check.h"
#include "core/config_parts.h"

#define LIVE  true
#define START false
#define LATER true
#define DONE  false
const struct setting setting_table[SETTING_COUNT] = {
#define SETTING(k, n, d, lo, hi, when, effect, text) \
	{.name = #n,                                 \
	 .kind = SETTING_KIND_##k,                   \
	 .is_live = (when),                          \
	 .is_later = (effect),                       \
	 .initial = (d),                             \
	 .min = (lo),                                \
	 .max = (hi),                                \
	 .offset = offsetof(struct settings, n),     \
	 .help = (text)},
#include "core/settings.def"
};

static const char *const pool_mode_words[] = {
	[POOL_SESSION] = "session",
	[POOL_TRANSACTION] = "transaction",
	[POOL_STATEMENT] = "statement",
	NULL,
};

static const char *const auth_type_words[] = {
	[AUTH_ANY] = "any",
	[AUTH_TRUST] = "trust",
	[AUTH_PLAIN] = "plain",
	[AUTH_MD5] = "md5",
	[AUTH_CERT] = "cert",
	[AUTH_HBA] = "hba",
	[AUTH_LDAP] = "ldap",
	[AUTH_PAM] = "pam",
	[AUTH_SCRAM] = "scram-sha-256",
	NULL,
};

static const char *const ssl_mode_words[] = {
	[SSL_DISABLE] = "disable",
	[SSL_ALLOW] = "allow",
	[SSL_PREFER] = "prefer",
	[SSL_REQUIRE] = "require",
	[SSL_VERIFY_CA] = "verify-ca",
	[SSL_VERIFY_FULL] = "verify-full",
	NULL,
};

static const char *const *setting_words(const struct setting *setting)
{
	switch (setting_number(setting)) {
	case SETTING_NUMBER_pool_mode: return pool_mode_words;
	case SETTING_NUMBER_auth_type: return auth_type_words;
	default: break;
	}
	CHECK(setting_number(setting) == SETTING_NUMBER_client_tls_sslmode ||
	      setting_number(setting) == SETTING_NUMBER_server_tls_sslmode);
	return ssl_mode_words;
}

const struct setting *setting_find(const char *name)
{
	for (uint32_t i = 0; i < SETTING_COUNT; i++)
		if (strcmp(setting_table[i].name, name) == 0)
			return &setting_table[i];
	return NULL;
}

uint32_t setting_number(const struct setting *setting)
{
	return (uint32_t)(setting - setting_table);
}

int word_find(const char *const *words, const char *word)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcasecmp(words[i], word) == 0)
			return i;
	return -1;
}

bool pool_mode_read(const char *word, enum pool_mode *mode)
{
	int found = word_find(pool_mode_words, word);
	if (found >= 0)
		*mode = (enum pool_mode)found;
	return found >= 0;
}

/* "any, trust or plain" */
static void words_join(const char *const *words, char *text, size_t room)
{
	size_t size = 0;
	text[0] = '\0';
	for (size_t i = 0; words[i] != NULL; i++) {
		const char *gap = i == 0 ? "" : words[i + 1] == NULL ? " or " : ", ";
		int added = snprintf(text + size, room - size, "%s%s", gap, words[i]);
		if (added < 0 || (size_t)added >= room - size)
			return;
		size += (size_t)added;
	}
}

static void *value_at(struct settings *settings, const struct setting *setting)
{
	return (char *)settings + setting->offset;
}

static const void *value_in(const struct settings *settings, const struct setting *setting)
{
	return (const char *)settings + setting->offset;
}

static size_t value_size(const struct setting *setting)
{
	switch (setting->kind) {
	case SETTING_KIND_INT: return sizeof(int32_t);
	case SETTING_KIND_UINT: return sizeof(uint32_t);
	case SETTING_KIND_BOOL: return sizeof(bool);
	case SETTING_KIND_TIME: return sizeof(uint64_t);
	case SETTING_KIND_ENUM: return sizeof(int);
	case SETTING_KIND_TEXT: return sizeof(const char *);
	}
	return 0;
}

static bool number_read(const struct setting *setting, const char *text, int64_t *number,
                        char *reason, size_t room)
{
	char *end;
	errno = 0;
	intmax_t value = strtoimax(text, &end, 0);
	const char *what = NULL;
	if (end == text || *end != '\0')
		what = "not an integer";
	else if (setting->kind == SETTING_KIND_BOOL)
		what = errno == 0 ? NULL : "out of range"; /* any number but 0 is 1 */
	else if (errno != 0 || value < setting->min || value > setting->max)
		what = "out of range";
	*number = value;
	if (what == NULL)
		return true;
	if (setting->kind == SETTING_KIND_BOOL)
		snprintf(reason, room, "%s: %s; expected 0 or 1", setting->name, what);
	else
		snprintf(reason, room, "%s: %s; expected %" PRId64 "..%" PRId64, setting->name,
		         what, setting->min, setting->max);
	return false;
}

static bool time_read(const struct setting *setting, const char *text, uint64_t *time, char *reason,
                      size_t room)
{
	char *end;
	double seconds = strtod(text, &end);
	const char *what = NULL;
	if (end == text || *end != '\0' || isnan(seconds))
		what = "not a time";
	else if (seconds < 0)
		what = "negative";
	else if (seconds > (double)setting->max)
		what = "too long";
	if (what == NULL) {
		*time = (uint64_t)(seconds * 1e6 + 0.5);
		return true;
	}
	snprintf(reason, room, "%s: %s; expected seconds without unit, such as 15 or 0.5",
	         setting->name, what);
	return false;
}

bool config_cpu_list(const char *list, uint16_t *cpus, uint32_t room, uint32_t *count)
{
	enum { CPU_MAX = 65535 };
	*count = 0;
	for (;;) {
		list += strspn(list, ", \t");
		if (*list == '\0')
			return true;
		unsigned long bound[2] = {0, 0};
		for (uint32_t i = 0; i < 2; i++) {
			char *end;
			if (!isdigit((unsigned char)*list))
				return false;
			bound[i] = bound[1] = strtoul(list, &end, 10);
			list = end;
			if (*list != '-' || i == 1)
				break;
			list++;
		}
		if (bound[0] > bound[1] || bound[1] > CPU_MAX || strchr(", \t", *list) == NULL)
			return false;
		for (unsigned long cpu = bound[0]; cpu <= bound[1] && *count < room; cpu++)
			cpus[(*count)++] = (uint16_t)cpu;
	}
}

/* What a text must not be. */
static bool text_check(const struct setting *setting, const char *text, char *reason, size_t room)
{
	uint16_t cpus[1];
	uint32_t count;
	if (setting_number(setting) == SETTING_NUMBER_auth_dbname &&
	    strcmp(text, "pgbouncer") == 0) {
		snprintf(reason, room,
		         "cannot use the reserved \"pgbouncer\" database as an auth_dbname");
		return false;
	}
	if (setting_number(setting) == SETTING_NUMBER_cpu_list &&
	    !config_cpu_list(text, cpus, ARRAY_LEN(cpus), &count)) {
		snprintf(reason, room, "cpu_list: not a list of CPUs; expected such as 0-3,8");
		return false;
	}
	return true;
}

static bool word_read(const struct setting *setting, const char *text, int *word, char *reason,
                      size_t room)
{
	char words[128];
	int found = word_find(setting_words(setting), text);
	if (found < 0) {
		words_join(setting_words(setting), words, sizeof(words));
		snprintf(reason, room, "%s: unknown word; expected %s", setting->name, words);
		return false;
	}
	*word = found;
	return true;
}

bool setting_set(struct config *config, const struct setting *setting, const char *text,
                 char *reason, size_t room)
{
	void *value = value_at(&config->settings, setting);
	int64_t number = 0;
	bool is_good = false;
	switch (setting->kind) {
	case SETTING_KIND_INT:
		is_good = number_read(setting, text, &number, reason, room);
		if (is_good)
			*(int32_t *)value = (int32_t)number;
		break;
	case SETTING_KIND_UINT:
		is_good = number_read(setting, text, &number, reason, room);
		if (is_good)
			*(uint32_t *)value = (uint32_t)number;
		break;
	case SETTING_KIND_BOOL:
		is_good = number_read(setting, text, &number, reason, room);
		if (is_good)
			*(bool *)value = number != 0;
		break;
	case SETTING_KIND_TIME:
		is_good = time_read(setting, text, (uint64_t *)value, reason, room);
		break;
	case SETTING_KIND_ENUM:
		is_good = word_read(setting, text, (int *)value, reason, room);
		break;
	case SETTING_KIND_TEXT:
		is_good = text_check(setting, text, reason, room);
		if (is_good)
			*(const char **)value = config_text(config->memory, span_text(text));
		break;
	}
	if (is_good)
		config->memory->is_set[setting_number(setting)] = true;
	return is_good;
}

bool setting_equal(const struct setting *setting, const struct settings *a,
                   const struct settings *b)
{
	const void *left = value_in(a, setting), *right = value_in(b, setting);
	if (setting->kind != SETTING_KIND_TEXT)
		return memcmp(left, right, value_size(setting)) == 0;
	const char *text = *(const char *const *)left, *other = *(const char *const *)right;
	if (text == NULL || other == NULL)
		return text == other;
	return strcmp(text, other) == 0;
}

void setting_copy(const struct setting *setting, struct config *to, const struct settings *from)
{
	void *value = value_at(&to->settings, setting);
	memcpy(value, value_in(from, setting), value_size(setting));
	if (setting->kind != SETTING_KIND_TEXT)
		return;
	const char **text = value;
	if (*text != NULL)
		*text = config_text(to->memory, span_text(*text));
}

void setting_show(const struct setting *setting, const struct settings *settings, char *text,
                  size_t room)
{
	const void *value = value_in(settings, setting);
	const char *shown = NULL;
	switch (setting->kind) {
	case SETTING_KIND_INT: snprintf(text, room, "%" PRId32, *(const int32_t *)value); return;
	case SETTING_KIND_UINT: snprintf(text, room, "%" PRIu32, *(const uint32_t *)value); return;
	case SETTING_KIND_BOOL: shown = *(const bool *)value ? "1" : "0"; break;
	case SETTING_KIND_TIME:
		snprintf(text, room, "%g", (double)*(const uint64_t *)value / 1e6);
		return;
	case SETTING_KIND_ENUM: shown = setting_words(setting)[*(const int *)value]; break;
	case SETTING_KIND_TEXT: shown = *(const char *const *)value; break;
	}
	snprintf(text, room, "%s", shown == NULL ? "" : shown);
}

bool config_setting_row(const struct config *config, uint32_t index, struct setting_row *row)
{
	if (index >= SETTING_COUNT)
		return false;
	const struct setting *setting = &setting_table[index];
	const void *value = value_in(&config->settings, setting);
	row->key = setting->name;
	row->changeable = setting->is_live;
	row->value_is_null = setting->kind == SETTING_KIND_TEXT &&
	                     *(const char *const *)value == NULL;
	row->initial_is_null = setting->initial == NULL;
	setting_show(setting, &config->settings, row->value, sizeof(row->value));
	snprintf(row->initial, sizeof(row->initial), "%s",
	         setting->initial == NULL ? "" : setting->initial);
	return true;
}

/* Edits (a byte more, less or other) from one name to the other; both short. */
static size_t name_distance(const char *a, const char *b)
{
	enum { NAME_MAX_SEEN = 40 };
	size_t row[NAME_MAX_SEEN + 1], length = strlen(b);
	if (length > NAME_MAX_SEEN)
		return SIZE_MAX;
	for (size_t j = 0; j <= length; j++)
		row[j] = j;
	for (; *a != '\0'; a++) {
		size_t corner = row[0]++;
		for (size_t j = 1; j <= length; j++) {
			size_t edits = corner + (*a != b[j - 1]);
			corner = row[j];
			row[j] = MIN(edits, MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[length];
}

const char *name_nearest(const char *name, const char *const *names, size_t count, size_t stride)
{
	const char *nearest = NULL;
	size_t best = MIN(strlen(name) / 3, (size_t)3) + 1;
	for (size_t i = 0; i < count; i++) {
		const void *at = (const char *)names + i * stride;
		const char *known = *(const char *const *)at;
		size_t distance = name_distance(name, known);
		if (distance < best) {
			best = distance;
			nearest = known;
		}
	}
	return nearest;
}
