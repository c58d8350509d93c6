/*
 * sql.h - the statements that sim clients send and the sim server obeys.
 *
 *	<VERB> <nonce> <a> <b> <mark>
 *	DEALLOCATE <name> | DEALLOCATE ALL | DISCARD ALL, and the nonce in a comment
 *
 * in a simple Query joined by ';'.  The nonce says which client asks and is
 * never used twice; where its lower half is 0 it comes as the parameter of Bind,
 * and the upper half says whose text it is, or 0: of several.  Every row, tag
 * and error of the answer carries it.  The mark is of the text, not of who runs
 * it: rows, tags and descriptions carry it too, so another statement of the same
 * name is seen.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_SQL_H
#define TESTS_SIM_SQL_H

#include <stdbool.h>
#include <stdint.h>

/* PostgreSQL tells names of statements apart by so many bytes. */
enum { SQL_NAME_MAX = 63 };

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
	VERB_ALTER,   /* the schema: what was planned may be void */
	VERB_DEALLOCATE,
	VERB_DEALLOCATE_ALL,
	VERB_DISCARD_ALL,
	VERB_COUNT,
};

struct sql {
	enum verb verb;
	uint64_t nonce;
	uint32_t a, b;
	uint32_t mark;                 /* 0: none */
	char target[SQL_NAME_MAX + 1]; /* DEALLOCATE */
};

enum { STATEMENTS_MAX = 4, SQL_MAX = 800, ROW_FILLER_MAX = 70000, TAG_MAX = 64 };

static inline uint32_t nonce_client(uint64_t nonce)
{
	return (uint32_t)(nonce >> 32);
}

const char *verb_name(enum verb verb);
bool verb_has_rows(enum verb verb);

/* Forgets prepared statements: its tag is PostgreSQL's, and nobody counts how
 * often it runs. */
bool verb_forgets(enum verb verb);

/* COMMIT, ROLLBACK: also in a failed transaction. */
bool verb_ends_transaction(enum verb verb);

/* Its nonce comes with Bind. */
bool sql_has_parameter(const struct sql *sql);

/* How many bytes of nothing a text of this mark has at its end. */
uint32_t sql_padding(const struct sql *sql);

/* Statements to text and back; the number of statements, 0: an empty query. */
void sql_write(const struct sql *statements, uint32_t count, char text[SQL_MAX]);
uint32_t sql_read(const char *text, struct sql statements[STATEMENTS_MAX]);

/* Row `index` of an answer: text of the nonce and the index, then filler; at
 * most ROW_FILLER_MAX + 64 bytes.  Its size. */
uint32_t sql_row(const struct sql *statement, uint32_t index, char *text);
bool sql_row_is(const struct sql *statement, uint32_t index, const void *bytes, uint32_t size);

/* "VERB nonce [mark]" of CommandComplete. */
void sql_tag(const struct sql *statement, char text[TAG_MAX]);

/* What the column of its rows is called. */
void sql_column(const struct sql *sql, char text[TAG_MAX]);

#endif
