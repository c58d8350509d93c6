/*
 * book.h - the prepared statements of one session: what a private PostgreSQL
 * would have under which name.
 *
 * The model keeps one as of the replies seen, a client one as of what it has
 * sent, if all of that goes well.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_BOOK_H
#define TESTS_SIM_BOOK_H

#include "tests/sim/sql.h"

#include <stdbool.h>
#include <stdint.h>

enum { BOOK_ROOM = 16 };

struct book_entry {
	bool used, empty; /* empty: a text without statement */
	char name[SQL_NAME_MAX + 1];
	struct sql sql;
};

struct book {
	struct book_entry unnamed, named[BOOK_ROOM];
};

/* NULL: there is none.  The empty name is that of the statement without name. */
struct book_entry *book_find(struct book *book, const char *name);
void book_set(struct book *book, const char *name, const struct sql *sql, bool empty);
void book_drop(struct book *book, const char *name);

/* DEALLOCATE ALL, which leaves the one without name alone. */
void book_drop_named(struct book *book);

#endif
