/* sql.c - see sql.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/sql.h"

#include "tests/sim/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verb_names[VERB_COUNT] = {
	[VERB_OWN] = "OWN",
	[VERB_ROWS] = "ROWS",
	[VERB_FAIL] = "FAIL",
	[VERB_BAD] = "BAD",
	[VERB_BEGIN] = "BEGIN",
	[VERB_COMMIT] = "COMMIT",
	[VERB_ROLLBACK] = "ROLLBACK",
	[VERB_SLEEP] = "SLEEP",
	[VERB_COPYIN] = "COPYIN",
	[VERB_COPYOUT] = "COPYOUT",
	[VERB_NOTE] = "NOTE",
	[VERB_ALTER] = "ALTER",
	[VERB_DEALLOCATE] = "DEALLOCATE",
	[VERB_DEALLOCATE_ALL] = "DEALLOCATE ALL",
	[VERB_DISCARD_ALL] = "DISCARD ALL",
};

const char *verb_name(enum verb verb)
{
	return verb_names[verb];
}

bool verb_has_rows(enum verb verb)
{
	return verb == VERB_ROWS || verb == VERB_SLEEP;
}

bool verb_forgets(enum verb verb)
{
	return verb == VERB_DEALLOCATE || verb == VERB_DEALLOCATE_ALL || verb == VERB_DISCARD_ALL;
}

bool verb_ends_transaction(enum verb verb)
{
	return verb == VERB_COMMIT || verb == VERB_ROLLBACK;
}

bool sql_has_parameter(const struct sql *sql)
{
	return (uint32_t)sql->nonce == 0 && !verb_forgets(sql->verb);
}

uint32_t sql_padding(const struct sql *sql)
{
	if (sql->mark % 61 == 7)
		return 70000;
	return sql->mark % 13 == 5 ? sql->mark * 97 % 20000 : 0;
}

/* In the ways that SQL has for it; the nonce chooses. */
static int forget_write(const struct sql *sql, char *text, size_t room)
{
	static const char *const words[2][4] = {
		{"DEALLOCATE ", " DEALLOCATE PREPARE ", "deallocate\tprepare\n",
	         "/* now */Deallocate "},
		{"DISCARD ", " discard\t", "--now\nDiscard ", "/* now */DISCARD\n"},
	};
	bool discards = sql->verb == VERB_DISCARD_ALL;
	bool one = sql->verb == VERB_DEALLOCATE;
	uint32_t way = (uint32_t)(sql->nonce + sql->mark) % 4;
	const char *quote = one ? "\"" : "";
	return snprintf(text, room, "%s%s%s%s/* %" PRIx64 " */", words[discards][way], quote,
	                one            ? sql->target
	                : way % 2 == 0 ? "ALL"
	                               : "all",
	                quote, sql->nonce);
}

void sql_write(const struct sql *statements, uint32_t count, char text[SQL_MAX])
{
	int at = 0;
	text[0] = '\0';
	for (uint32_t i = 0; i < count; i++) {
		const struct sql *sql = &statements[i];
		if (i > 0)
			text[at++] = ';';
		size_t room = (size_t)(SQL_MAX - at);
		if (verb_forgets(sql->verb))
			at += forget_write(sql, text + at, room);
		else
			at += snprintf(text + at, room,
			               "%s %" PRIx64 " %" PRIu32 " %" PRIu32 " %" PRIu32,
			               verb_names[sql->verb], sql->nonce, sql->a, sql->b,
			               sql->mark);
	}
}

/* Past white space and comments; *nonce gets what stands in a comment as number. */
static const char *blank_skip(const char *at, uint64_t *nonce)
{
	for (;;) {
		at += strspn(at, " \t\n");
		if (strncmp(at, "--", 2) == 0) {
			at += strcspn(at, "\n");
		} else if (strncmp(at, "/*", 2) == 0) {
			const char *end = strstr(at, "*/");
			SIM_CHECK(end != NULL, "a comment does not end: %.40s", at);
			char *stop;
			uint64_t number = strtoull(at + 2, &stop, 16);
			if (stop > at + 2 && *stop == ' ')
				*nonce = number;
			at = end + 2;
		} else {
			return at;
		}
	}
}

/* A word in lower case, or a name in quotes as it is. */
static const char *word_read(const char *at, char word[SQL_NAME_MAX + 1], bool *quoted)
{
	uint32_t size = 0;
	*quoted = *at == '"';
	if (*quoted)
		at++;
	for (; *quoted ? *at != '"' && *at != '\0' : isalnum((unsigned char)*at) || *at == '_';
	     at++)
		if (size < SQL_NAME_MAX)
			word[size++] = *quoted ? *at : (char)tolower((unsigned char)*at);
	word[size] = '\0';
	return *quoted && *at == '"' ? at + 1 : at;
}

/* DEALLOCATE and DISCARD ALL, as PostgreSQL reads them. */
static bool forget_read(const char *text, struct sql *sql)
{
	char word[SQL_NAME_MAX + 1];
	bool quoted;
	uint64_t nonce = 0;
	const char *at = word_read(blank_skip(text, &nonce), word, &quoted);
	bool discard = strcmp(word, "discard") == 0;
	if (!discard && strcmp(word, "deallocate") != 0)
		return false;
	at = word_read(blank_skip(at, &nonce), word, &quoted);
	if (!quoted && strcmp(word, "prepare") == 0)
		at = word_read(blank_skip(at, &nonce), word, &quoted);
	bool all = !quoted && strcmp(word, "all") == 0;
	SIM_CHECK(all || (!discard && word[0] != '\0'), "bad SQL: %.60s", text);
	at = blank_skip(at, &nonce);
	SIM_CHECK(*at == ';' || *at == '\0', "bad SQL: %.60s", text);
	*sql = (struct sql){.verb = discard ? VERB_DISCARD_ALL
	                            : all   ? VERB_DEALLOCATE_ALL
	                                    : VERB_DEALLOCATE,
	                    .nonce = nonce};
	if (!all)
		memcpy(sql->target, word, sizeof word);
	return true;
}

static bool statement_read(const char *text, struct sql *statement)
{
	char name[16];
	if (forget_read(text, statement))
		return true;
	*statement = (struct sql){0};
	if (sscanf(text, "%15[A-Z] %" SCNx64 " %" SCNu32 " %" SCNu32 " %" SCNu32, name,
	           &statement->nonce, &statement->a, &statement->b, &statement->mark) != 5)
		return false;
	for (int i = 1; i < VERB_COUNT; i++)
		if (strcmp(name, verb_names[i]) == 0) {
			statement->verb = (enum verb)i;
			return true;
		}
	return false;
}

uint32_t sql_read(const char *text, struct sql statements[STATEMENTS_MAX])
{
	uint32_t count = 0;
	if (text[strspn(text, " ;")] == '\0')
		return 0;
	for (const char *at = text; at != NULL && count < STATEMENTS_MAX; count++) {
		if (!statement_read(at, &statements[count])) {
			statements[0] = (struct sql){.verb = VERB_OWN};
			return 1;
		}
		at = strchr(at, ';');
		if (at != NULL)
			at++;
	}
	return count;
}

uint32_t sql_row(const struct sql *statement, uint32_t index, char *text)
{
	int size = snprintf(text, 64, "%" PRIx64 ":%" PRIu32 ":", statement->nonce, index);
	if (statement->mark != 0)
		size += snprintf(text + size, 20, "%" PRIx32 ":", statement->mark);
	uint32_t filler = statement->verb == VERB_SLEEP    ? 0
	                  : statement->verb == VERB_COPYIN ? 40
	                                                   : statement->b;
	SIM_CHECK(filler <= ROW_FILLER_MAX, "filler of %u", filler);
	uint32_t shift = (uint32_t)statement->nonce * 7 + index * 3;
	for (uint32_t i = 0; i < filler; i++)
		text[(uint32_t)size + i] = (char)('a' + (shift + i) % 23);
	return (uint32_t)size + filler;
}

bool sql_row_is(const struct sql *statement, uint32_t index, const void *bytes, uint32_t size)
{
	static char text[ROW_FILLER_MAX + 64];
	return sql_row(statement, index, text) == size && memcmp(text, bytes, size) == 0;
}

void sql_tag(const struct sql *statement, char text[TAG_MAX])
{
	const char *name = verb_names[statement->verb];
	if (verb_forgets(statement->verb))
		snprintf(text, TAG_MAX, "%s", name);
	else if (statement->mark == 0)
		snprintf(text, TAG_MAX, "%s %" PRIx64, name, statement->nonce);
	else
		snprintf(text, TAG_MAX, "%s %" PRIx64 " %" PRIx32, name, statement->nonce,
		         statement->mark);
}

void sql_column(const struct sql *sql, char text[TAG_MAX])
{
	snprintf(text, TAG_MAX, "c%" PRIx32, sql->mark);
}
