/* book.c - see book.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/book.h"

#include "tests/sim/report.h"

#include <string.h>

struct book_entry *book_find(struct book *book, const char *name)
{
	if (name[0] == '\0')
		return book->unnamed.used ? &book->unnamed : NULL;
	for (int i = 0; i < BOOK_ROOM; i++)
		if (book->named[i].used && strncmp(book->named[i].name, name, SQL_NAME_MAX) == 0)
			return &book->named[i];
	return NULL;
}

void book_set(struct book *book, const char *name, const struct sql *sql, bool empty)
{
	struct book_entry *entry = name[0] == '\0' ? &book->unnamed : book_find(book, name);
	for (int i = 0; entry == NULL && i < BOOK_ROOM; i++)
		if (!book->named[i].used)
			entry = &book->named[i];
	SIM_CHECK(entry != NULL, "more than %d names", BOOK_ROOM);
	*entry = (struct book_entry){.used = true, .empty = empty, .sql = *sql};
	for (int i = 0; i < SQL_NAME_MAX && name[i] != '\0'; i++)
		entry->name[i] = name[i];
}

void book_drop(struct book *book, const char *name)
{
	struct book_entry *entry = book_find(book, name);
	if (entry != NULL)
		entry->used = false;
}

void book_drop_named(struct book *book)
{
	for (int i = 0; i < BOOK_ROOM; i++)
		book->named[i].used = false;
}
