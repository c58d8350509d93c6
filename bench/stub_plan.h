/*
 * stub_plan.h - what a statement asks the stub to do.
 *
 * The stub has no tables.  It understands a select list that real PostgreSQL
 * would mostly understand too, so that the same queries run against both:
 *
 *	SELECT 'text', 7, $1::text              echo literals and parameters
 *	SELECT repeat('x', 1000)                a column of 1000 x; also repeat(1000)
 *	... FROM generate_series(1, 50)         50 rows; also `SELECT ... x 50`
 *	SELECT pg_sleep(0.01), sleep(10)        seconds and milliseconds, before the answer
 *	SELECT error(40001), fatal(57P01)       ErrorResponse; fatal ends the session
 *	SELECT drop()                           end the session without a word
 *	COPY t FROM STDIN, COPY (SELECT ...) TO STDOUT
 *	BEGIN, COMMIT, ROLLBACK, SET name = value, RESET ALL, DISCARD ALL
 *
 * sleep, error, fatal and drop work in a comment too, before any statement:
 * `/ * sleep(5) error(40001) * / COMMIT`.  All else is one row: 1.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_STUB_PLAN_H
#define BENCH_STUB_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

enum { PLAN_COLUMNS_MAX = 16, PLAN_PARAMETERS_MAX = 64 };

enum plan_kind {
	PLAN_EMPTY,
	PLAN_ROWS,
	PLAN_COPY_IN,
	PLAN_COPY_OUT,
	PLAN_BEGIN,
	PLAN_COMMIT,
	PLAN_ROLLBACK,
	PLAN_SET,     /* .name, .value; value without data: the default */
	PLAN_RESET,   /* all */
	PLAN_DISCARD, /* all */
	PLAN_TAG,     /* anything that answers with .tag only */
};

enum column_kind { COLUMN_TEXT, COLUMN_FILL, COLUMN_PARAMETER };

struct column {
	enum column_kind kind;
	struct span text; /* COLUMN_TEXT; with its doubled quotes */
	uint32_t size;    /* COLUMN_TEXT, COLUMN_FILL: of the value in bytes */
	uint32_t number;  /* COLUMN_PARAMETER: from 1 */
	char fill;        /* COLUMN_FILL */
};

struct plan {
	enum plan_kind kind;
	uint64_t delay_us;
	uint64_t rows;
	const char *tag;
	struct span name, value;
	uint32_t parameters; /* the highest $n */
	uint32_t column_count;
	bool fatal, drop;
	char sqlstate[6]; /* empty: no error */
	struct column columns[PLAN_COLUMNS_MAX];
};

/* Reads the first statement of a text and takes it off; the plan points into
 * the text. */
void plan_read(struct span *text, struct plan *plan);

/* Makes a plan that points into `from` point into its copy at `to`. */
void plan_move(struct plan *plan, struct span from, const uint8_t *to);

#endif
