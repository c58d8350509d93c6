/*
 * statement.h - what messages say about prepared statements, and SQL that
 * forgets them.
 *
 * head_read() reads the names at the front of Parse, Bind, Describe, Close
 * and Execute (protocol chapter, "Message Formats") as soon as they are there;
 * what follows them (text, parameters) is not looked at, so a Bind of 100 MB
 * has a head of some bytes.
 *
 * sql_effect() reads the text of a Query or Parse: does it forget prepared
 * statements?  It knows white space, comments, quoted names and statements that
 * follow, as PostgreSQL's scanner does.  It is only to be asked when
 * sql_may_forget(), which is quick and errs on the safe side.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_STATEMENT_H
#define PROTO_STATEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

enum {
	/* PostgreSQL tells names apart by their first 63 bytes (NAMEDATALEN). */
	STATEMENT_NAME_MAX = 63,
};

enum head_status {
	HEAD_OK,
	HEAD_MORE,   /* the names are not all there yet */
	HEAD_BROKEN, /* they never will be: a name without end, a kind that is none; or
	              * the message does not end where its type has to (D, C, E) */
};

struct head {
	struct span portal; /* Bind, Execute, Describe P, Close P; without its zero byte */
	struct span name;   /* of the statement: Parse, Bind, Describe S, Close S */
	uint8_t kind;       /* Describe, Close: 'S' or 'P' */
	uint32_t size;      /* bytes up to behind the last name, header included */
};

/* `bytes` is what is there of a message of `length` bytes, type byte included.  The
 * spans point into it.  The head is good only if HEAD_OK. */
enum head_status head_read(struct head *head, struct span bytes, uint32_t length);

/* The name as PostgreSQL tells it apart. */
static inline struct span statement_key(struct span name)
{
	return span_of(name.data, name.size < STATEMENT_NAME_MAX ? name.size : STATEMENT_NAME_MAX);
}

enum sql_effect {
	SQL_NONE,
	SQL_DEALLOCATE,     /* of one name, and nothing else in the text */
	SQL_DEALLOCATE_ALL, /* and nothing else */
	SQL_DISCARD_ALL,    /* and nothing else */
	SQL_UNCLEAR,        /* several statements, and one of them may be of these */
};

/* The text without its zero byte.  For SQL_DEALLOCATE, name_of[] gets the name,
 * folded and unquoted as PostgreSQL does, cut to STATEMENT_NAME_MAX. */
enum sql_effect sql_effect(struct span text, char name_of[STATEMENT_NAME_MAX + 1]);

/* False: sql_effect() would say SQL_NONE.  A few instructions for nearly every
 * text: begins with a letter that is not D, and no `;` but at its end. */
bool sql_may_forget(struct span text);

#endif
