/*
 * result.h - what the console answers, as messages of the protocol.
 *
 * Grows as it is written.  Rows go cell by cell against a table of columns:
 * the type stands there once, and a row with too few or too many cells stops
 * the process in any test that shows it.  ReadyForQuery is not part of it (see
 * core/admin/console.h).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_ADMIN_RESULT_H
#define CORE_ADMIN_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/write.h"

enum column_type { COLUMN_TEXT, COLUMN_INT4, COLUMN_INT8, COLUMN_NUMERIC };

struct column {
	const char *name;
	enum column_type type;
};

struct result {
	struct writer out;
	const struct column *columns;
	uint32_t column_count;
	uint32_t cell;   /* the next one of the row under way */
	uint32_t binary; /* columns wanted in binary, a bit each */
};

void result_init(struct result *result, uint32_t binary);
void result_fini(struct result *result);

/* Hands over the bytes, which are the caller's to free; NULL without memory. */
char *result_take(struct result *result, uint32_t *size);

/* RowDescription, then rows. */
void result_columns(struct result *result, const struct column *columns, uint32_t count);
void result_row(struct result *result);
void result_row_end(struct result *result);
void result_text(struct result *result, const char *text); /* NULL: SQL NULL */
void result_number(struct result *result, uint64_t value);

void result_no_data(struct result *result);
void result_tag(struct result *result, const char *tag);
void result_notice(struct result *result, const char *message, const char *detail);
void result_error(struct result *result, const char *sqlstate, const char *message);

#endif
