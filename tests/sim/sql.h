/*
 * sql.h - the statements that sim clients send and the sim server obeys.
 *
 *	<VERB> <nonce> <a> <b>
 *
 * in a simple Query joined by ';'.  The nonce says which client asks and is
 * never used twice; 0 means that it comes as the parameter of Bind.  Every row,
 * tag and error of the answer carries it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_SQL_H
#define TESTS_SIM_SQL_H

#include <stdbool.h>
#include <stdint.h>

enum verb {
	VERB_OWN,  /* none of ours: the pooler speaks for itself */
	VERB_ROWS, /* a rows with b bytes of filler */
	VERB_FAIL, /* an error when run */
	VERB_BAD,  /* an error when parsed */
	VERB_BEGIN,
	VERB_COMMIT,
	VERB_ROLLBACK,
	VERB_SLEEP,   /* a microseconds, then one row */
	VERB_COPYIN,  /* b > 0: an error after b rows */
	VERB_COPYOUT, /* a rows with b bytes of filler */
	VERB_NOTE,    /* a notice */
	VERB_COUNT,
};

struct sql {
	enum verb verb;
	uint64_t nonce;
	uint32_t a, b;
};

enum { STATEMENTS_MAX = 4, SQL_MAX = 400, ROW_FILLER_MAX = 70000, TAG_MAX = 48 };

static inline uint32_t nonce_client(uint64_t nonce)
{
	return (uint32_t)(nonce >> 32);
}

const char *verb_name(enum verb verb);
bool verb_has_rows(enum verb verb);

/* Statements to text and back; the number of statements, 0: an empty query. */
void sql_write(const struct sql *statements, uint32_t count, char text[SQL_MAX]);
uint32_t sql_read(const char *text, struct sql statements[STATEMENTS_MAX]);

/* Row `index` of an answer: text of the nonce and the index, then filler; at
 * most ROW_FILLER_MAX + 64 bytes.  Its size. */
uint32_t sql_row(const struct sql *statement, uint32_t index, char *text);
bool sql_row_is(const struct sql *statement, uint32_t index, const void *bytes, uint32_t size);

/* "VERB nonce" of CommandComplete. */
void sql_tag(const struct sql *statement, char text[TAG_MAX]);

#endif
