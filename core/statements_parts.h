/*
 * statements_parts.h - what the files of the prepared statements share.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_STATEMENTS_PARTS_H
#define CORE_STATEMENTS_PARTS_H

#include "core/statements.h"

/* Changes what is there and keeps the counts.  The references are the caller's: the
 * name takes over the one on `statement`, and what it had is returned. */
struct statement *name_put(struct names *names, struct name *name, struct statement *statement);

/* The same for a server's.  What comes back goes where it was: to the front of the
 * list, undoing goes backwards. */
void prepared_put(struct cache *cache, struct prepared *prepared, bool present, bool at_front);

/* Frees the entry if nothing is there and nothing pending. */
void name_settle(struct statements *all, struct names *names, struct name *name);
void prepared_settle(struct statements *all, struct cache *cache, struct prepared *prepared);

/* Gives back memory of the table after entries went; not in a loop over it. */
void names_fit(struct statements *all, struct names *names);
void cache_fit(struct statements *all, struct cache *cache);

/* Room for `count` more notes; false: no memory, or JOURNAL_MAX. */
bool journal_reserve(struct statements *all, struct journal *journal, uint32_t count);

/* Into the room that was reserved.  The note takes over the reference on what the name
 * meant `before`. */
void journal_note_name(struct journal *journal, struct name *name, struct statement *before,
                       uint32_t position);

/* What is there at this moment, before it changes. */
void journal_note_prepared(struct journal *journal, struct prepared *prepared, uint32_t position);

#endif
