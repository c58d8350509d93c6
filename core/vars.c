/*
 * vars.c - see vars.h.
 *
 * Values are quoted as PostgreSQL's own quoting does: doubled quotes, and E''
 * with doubled backslashes where there is one, which is right whatever
 * standard_conforming_strings says.  Values that cannot be in a query (no NUL
 * can) are not there to begin with: they came as texts.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/vars.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/bytes.h"
#include "core/base/check.h"

enum { NAME_SIZE = 64, BUCKETS_MIN = 64 };

/* Settable parameters that servers report; search_path from PostgreSQL 18 on. */
static const char *const builtin[] = {
	"DateStyle",        "client_encoding", "TimeZone",    "standard_conforming_strings",
	"application_name", "IntervalStyle",   "search_path", "default_transaction_read_only",
};

static char names[VARS_MAX][NAME_SIZE];
static uint32_t name_count;

static void name_add(const char *name, size_t size)
{
	if (size == 0 || size >= NAME_SIZE || name_count == VARS_MAX)
		return;
	char text[NAME_SIZE];
	memcpy(text, name, size);
	text[size] = '\0';
	if (vars_index(text) < 0)
		memcpy(names[name_count++], text, size + 1);
}

void vars_names_init(const char *extra)
{
	name_count = 0;
	for (size_t i = 0; i < ARRAY_LEN(builtin); i++)
		name_add(builtin[i], strlen(builtin[i]));
	while (extra != NULL && *extra != '\0') {
		size_t size = strcspn(extra, ", \t");
		name_add(extra, size);
		extra += size;
		extra += strspn(extra, ", \t");
	}
}

uint32_t vars_count(void)
{
	return name_count;
}

const char *vars_name(uint32_t index)
{
	CHECK(index < name_count);
	return names[index];
}

int vars_index(const char *name)
{
	for (uint32_t i = 0; i < name_count; i++)
		if (strcasecmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

bool words_init(struct words *words, uint64_t seed)
{
	*words = (struct words){.room = BUCKETS_MIN, .seed = seed};
	words->buckets = (struct word **)calloc(words->room, sizeof(struct word *));
	return words->buckets != NULL;
}

void words_fini(struct words *words)
{
	CHECK(words->count == 0);
	free((void *)words->buckets);
	*words = (struct words){0};
}

static void words_grow(struct words *words)
{
	uint32_t room = words->room * 2;
	struct word **buckets = (struct word **)calloc(room, sizeof(struct word *));
	if (buckets == NULL)
		return; /* longer chains, nothing worse */
	for (uint32_t i = 0; i < words->room; i++)
		for (struct word *word = words->buckets[i], *next; word != NULL; word = next) {
			next = word->next;
			word->next = buckets[word->hash & (room - 1)];
			buckets[word->hash & (room - 1)] = word;
		}
	free((void *)words->buckets);
	words->buckets = buckets;
	words->room = room;
}

struct word *word_acquire(struct words *words, const char *text)
{
	size_t size = strlen(text);
	if (size > VAR_VALUE_MAX)
		return NULL;
	uint32_t hash = (uint32_t)bytes_hash(text, size, words->seed);
	struct word **bucket = &words->buckets[hash & (words->room - 1)];
	for (struct word *word = *bucket; word != NULL; word = word->next)
		if (word->hash == hash && word->size == size &&
		    memcmp(word->text, text, size) == 0) {
			word->holders++;
			return word;
		}
	struct word *word = malloc(sizeof *word + size + 1);
	if (word == NULL)
		return NULL;
	*word = (struct word){.next = *bucket, .holders = 1, .hash = hash, .size = (uint16_t)size};
	memcpy(word->text, text, size + 1);
	*bucket = word;
	words->memory += sizeof *word + size + 1;
	if (++words->count > words->room)
		words_grow(words);
	return word;
}

void word_release(struct words *words, struct word *word)
{
	if (word == NULL)
		return;
	CHECK(word->holders > 0);
	if (--word->holders > 0)
		return;
	struct word **at = &words->buckets[word->hash & (words->room - 1)];
	while (*at != word)
		at = &(*at)->next;
	*at = word->next;
	words->memory -= sizeof *word + word->size + 1;
	words->count--;
	free(word);
}

void vars_set(struct words *words, struct vars *vars, uint32_t index, const char *text)
{
	CHECK(index < name_count);
	struct word *word = word_acquire(words, text);
	word_release(words, vars->values[index]);
	vars->values[index] = word;
	vars->version = 0;
}

uint32_t vars_given(const struct vars *vars)
{
	uint32_t given = 0;
	for (uint32_t i = 0; i < VARS_MAX; i++)
		given |= (uint32_t)(vars->values[i] != NULL) << i;
	return given;
}

void vars_clear(struct words *words, struct vars *vars)
{
	for (uint32_t i = 0; i < name_count; i++) {
		word_release(words, vars->values[i]);
		vars->values[i] = NULL;
	}
	vars->version = 0;
}

void vars_copy(struct words *words, struct vars *to, const struct vars *from)
{
	for (uint32_t i = 0; i < VARS_MAX; i++) {
		if (from->values[i] != NULL)
			from->values[i]->holders++;
		word_release(words, to->values[i]);
		to->values[i] = from->values[i];
	}
	to->version = from->version;
}

bool vars_compare(struct words *words, struct vars *a, struct vars *b)
{
	if (memcmp(a->values, b->values, sizeof a->values) != 0)
		return false;
	if (b->version == 0)
		b->version = ++words->versions;
	a->version = b->version;
	return true;
}

void vars_fill(struct vars *to, const struct vars *from)
{
	to->version = 0;
	for (uint32_t i = 0; i < name_count; i++)
		if (to->values[i] == NULL && from->values[i] != NULL) {
			to->values[i] = from->values[i];
			to->values[i]->holders++;
		}
}

struct sql {
	char *text;
	uint32_t size, room;
	bool failed;
};

static void sql_add(struct sql *sql, const char *bytes, size_t size)
{
	if (sql->failed || size >= sql->room - sql->size) {
		sql->failed = true;
		return;
	}
	memcpy(sql->text + sql->size, bytes, size);
	sql->size += (uint32_t)size;
	sql->text[sql->size] = '\0';
}

static void sql_text(struct sql *sql, const char *text)
{
	sql_add(sql, text, strlen(text));
}

static void sql_literal(struct sql *sql, const struct word *word)
{
	sql_text(sql, memchr(word->text, '\\', word->size) != NULL ? "E'" : "'");
	for (uint32_t i = 0; i < word->size; i++) {
		char c = word->text[i];
		if (c == '\'' || c == '\\')
			sql_add(sql, &c, 1);
		sql_add(sql, &c, 1);
	}
	sql_text(sql, "'");
}

/* search_path is a list of identifiers, reported quoted as it must be written;
 * set_config() takes the list as one text, whatever is in it. */
static void sql_set(struct sql *sql, uint32_t index, const struct word *word)
{
	bool is_path = strcasecmp(names[index], "search_path") == 0;
	sql_text(sql, is_path ? "SELECT pg_catalog.set_config('" : "SET ");
	sql_text(sql, names[index]);
	sql_text(sql, is_path ? "'," : "=");
	sql_literal(sql, word);
	sql_text(sql, is_path ? ",false);" : ";");
}

/* NOLINTBEGIN(readability-non-const-parameter): written through struct sql */
uint32_t vars_difference(const struct vars *client, const struct vars *server, char *sql,
                         uint32_t room, bool *proven)
{
	struct sql out = {.text = sql, .room = room};
	*proven = true;
	for (uint32_t i = 0; i < name_count; i++) {
		const struct word *want = client->values[i];
		const struct word *have = server->values[i];
		if (want == have || want == NULL || have == NULL)
			continue;
		sql_set(&out, i, want);
		*proven = *proven && (want->proven & 1U << i) != 0;
	}
	return out.failed ? UINT32_MAX : out.size;
}
/* NOLINTEND(readability-non-const-parameter) */

struct start_vars *vars_keep_start(struct words *words, const struct vars *vars, uint32_t asked)
{
	if (asked == 0)
		return NULL;
	size_t size = sizeof(struct start_vars) +
	              (size_t)__builtin_popcount(asked) * sizeof(struct word *);
	struct start_vars *start = malloc(size);
	if (start == NULL)
		return NULL;
	start->asked = asked;
	uint32_t count = 0;
	vars_each (i, asked) {
		start->words[count] = vars->values[i];
		start->words[count++]->holders++;
	}
	words->memory += size;
	return start;
}

void vars_free_start(struct words *words, struct start_vars *start)
{
	uint32_t count = 0;
	if (start == NULL)
		return;
	for (uint32_t i = 0; i < VARS_MAX; i++)
		if ((start->asked & 1U << i) != 0)
			word_release(words, start->words[count++]);
	words->memory -= sizeof *start + count * sizeof(struct word *);
	free(start);
}

/* The value asked for at the start; NULL: none. */
static struct word **start_of(struct start_vars *start, uint32_t index)
{
	if (start == NULL || (start->asked & 1U << index) == 0)
		return NULL;
	uint32_t before = start->asked & ((1U << index) - 1);
	return &start->words[__builtin_popcount(before)];
}

static void word_replace(struct words *words, struct word **at, struct word *by)
{
	by->holders++;
	word_release(words, *at);
	*at = by;
}

/* All that it asked for is as at the login, and some of it was not before: RESET ALL. */
static bool is_all_reset(const struct start_vars *start, const struct vars *server,
                         const struct vars *login, uint32_t among)
{
	for (uint32_t i = 0; i < name_count; i++)
		if ((start->asked & 1U << i) != 0 && server->values[i] != login->values[i])
			return false;
	return (start->asked & among) != 0;
}

/* NOLINTNEXTLINE(readability-function-size): six parameters, none goes with another */
uint32_t vars_to_start(struct words *words, const struct start_vars *start, struct vars *client,
                       const struct vars *server, const struct vars *login, uint32_t among)
{
	uint32_t differ = 0, count = 0;
	if (start == NULL)
		return 0;
	if (is_all_reset(start, server, login, among))
		among = UINT32_MAX;
	for (uint32_t i = 0; i < name_count; i++) {
		if ((start->asked & 1U << i) == 0)
			continue;
		struct word *word = start->words[count++];
		const struct word *have = server->values[i];
		bool was_reset = (among & 1U << i) != 0 && have == login->values[i];
		if (!was_reset || have == NULL || have == word)
			continue;
		word_replace(words, &client->values[i], word);
		client->version = 0;
		differ |= 1U << i;
	}
	return differ;
}

void vars_canonical(struct words *words, struct vars *client, struct start_vars *start,
                    const struct vars *server)
{
	for (uint32_t i = 0; i < name_count; i++) {
		struct word *have = server->values[i];
		if (have == NULL || have == client->values[i] || client->values[i] == NULL)
			continue;
		struct word **asked = start_of(start, i);
		if (asked != NULL && *asked == client->values[i])
			word_replace(words, asked, have);
		word_replace(words, &client->values[i], have);
		client->version = 0;
	}
}
