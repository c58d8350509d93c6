/* sql.c - see sql.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/sql.h"

#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verb_names[VERB_COUNT] = {
	[VERB_OWN] = "OWN",           [VERB_ROWS] = "ROWS",   [VERB_FAIL] = "FAIL",
	[VERB_BAD] = "BAD",           [VERB_BEGIN] = "BEGIN", [VERB_COMMIT] = "COMMIT",
	[VERB_ROLLBACK] = "ROLLBACK", [VERB_SLEEP] = "SLEEP", [VERB_COPYIN] = "COPYIN",
	[VERB_COPYOUT] = "COPYOUT",   [VERB_NOTE] = "NOTE",
};

const char *verb_name(enum verb verb)
{
	return verb_names[verb];
}

bool verb_has_rows(enum verb verb)
{
	return verb == VERB_ROWS || verb == VERB_SLEEP;
}

void sql_write(const struct sql *statements, uint32_t count, char text[SQL_MAX])
{
	int at = 0;
	text[0] = '\0';
	for (uint32_t i = 0; i < count; i++)
		at += snprintf(text + at, (size_t)(SQL_MAX - at),
		               "%s%s %" PRIx64 " %" PRIu32 " %" PRIu32, i == 0 ? "" : ";",
		               verb_names[statements[i].verb], statements[i].nonce, statements[i].a,
		               statements[i].b);
}

static bool statement_read(const char *text, struct sql *statement)
{
	char name[16];
	if (sscanf(text, "%15[A-Z] %" SCNx64 " %" SCNu32 " %" SCNu32, name, &statement->nonce,
	           &statement->a, &statement->b) != 4)
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
	snprintf(text, TAG_MAX, "%s %" PRIx64, verb_names[statement->verb], statement->nonce);
}
