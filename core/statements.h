/*
 * statements.h - prepared statements of clients, on servers that they share.
 *
 * Three things, all of one worker:
 *
 *   statement   a text with its parameter types, kept once however many clients
 *               and servers have it.  Its name on every server is "rb_" and the
 *               128-bit XXH3 of it under a secret of the process: the same on
 *               every core without a shared table.  On a hit the whole text is
 *               compared, a hash is never trusted.
 *   names       of one client: what it calls which statement (at most NAMES_MAX).
 *   cache       of one server: which statements are prepared there, the least
 *               recently used first to go.
 *
 * Messages are rewritten when they come, their replies arrive later, and an
 * error makes the server skip what follows it up to Sync.  So each change of
 * a name or of a cache is made at once, in stream order, and noted in the
 * server's journal under the position that its request has in the track.  A
 * reply confirms the notes of its position; what an error skipped is undone,
 * last first.  An entry with notes is pending: a request of a later batch
 * that depends on it waits (is_settled), because whether it is there is not known
 * before the reply.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_STATEMENTS_H
#define CORE_STATEMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/list.h"
#include "core/base/table.h"

#define STATEMENT_PREFIX "rb_"

enum {
	/* STATEMENT_PREFIX, 32 hexadecimal digits. */
	STATEMENT_SERVER_NAME_SIZE = 35,

	/* Names one client may have; PostgreSQL has no such limit, but memory. */
	NAMES_MAX = 65536,

	/* Bytes of the texts that one client's names may mean, and that are kept on
	 * account of one server: then the oldest go. */
	NAMES_BYTES_MAX = 64 << 20,
	CACHE_BYTES_MAX = 16 << 20,

	/* Notes of one journal.  Each DEALLOCATE ALL of a pipeline notes all names that
	 * are there or pending: without a bound a stranger could have any memory. */
	JOURNAL_MAX = 4 * NAMES_MAX,

	STATEMENT_SECRET_SIZE = 192,
};

/* A statement: the body of its Parse behind the name (text, zero byte, number
 * of types, types). */
struct statement {
	struct statement *next; /* in its bucket */
	uint32_t holders;
	uint32_t size;  /* of body */
	uint64_t hash;  /* the first half of the 128 bits */
	uint8_t effect; /* of its text, once looked at: enum sql_effect + 1, else 0 */
	char name[STATEMENT_SERVER_NAME_SIZE + 1];
	uint8_t body[];
};

/* Of a worker.  The secret is the process's. */
struct statements {
	struct statement **buckets;
	uint32_t room, count;
	const uint8_t *secret; /* STATEMENT_SECRET_SIZE bytes */
	uint64_t memory;       /* bytes of all texts, names, caches and journals */
};

bool statements_init(struct statements *all, const uint8_t *secret);
void statements_fini(struct statements *all); /* nothing may be held any more */

/* Held once more by the caller; NULL without memory (or in the case, not to be
 * seen in this universe, that two texts have one hash). */
struct statement *statement_acquire(struct statements *all, struct span body);
struct statement *statement_hold(struct statement *statement);
void statement_release(struct statements *all, struct statement *statement); /* NULL is fine */

/* A name of a client. */
struct name {
	struct statement *statement; /* NULL: gone, and that is not confirmed yet */
	uint32_t pending;            /* notes about it in the journal */
	uint32_t position;           /* of the last of them */
	uint32_t hash;
	uint8_t size;
	char text[]; /* at most STATEMENT_NAME_MAX, no zero byte */
};

/* Made when a client prepares something, by calloc: all zero is empty. */
struct names {
	struct table table; /* of struct name; with pending ones that are gone */
	uint32_t count;     /* there: with a statement */
	uint64_t bytes;     /* of their texts */
	uint64_t seed;      /* of the hash, from the secret: strangers choose names */
};

/* A statement on a server. */
struct prepared {
	struct link link; /* in cache->lru while present, the last used at the end */
	struct statement *statement;
	bool present;
	uint32_t pending, position;
	uint32_t fresh; /* the database's count of schema changes when it was prepared */
};

struct cache {
	struct table table; /* of struct prepared; with pending ones that are gone */
	struct list lru;    /* present ones; its count is how many the server has */
	uint64_t bytes;     /* of their texts */
};

struct note {
	uint32_t position; /* of its request in the track */
	uint32_t fresh;    /* as the prepared one's was */
	struct name *name; /* one of these two */
	struct prepared *prepared;
	struct statement *before; /* what the name meant; held */
	bool was_present;
};

/* A ring. */
struct journal {
	struct note *notes;
	uint32_t room, head, count;
};

/* Positions wrap around: a is before b. */
static inline bool position_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* --- names ---------------------------------------------------------------- */

/* By its key (proto/statement.h).  NULL: never heard of.  A name whose statement is NULL
 * does not exist, as far as is known.  `names` may be NULL, also below. */
struct name *names_find(const struct names *names, struct span key);

/* Gives the name a statement (held anew; NULL: takes it away) as of `position`, and
 * notes it.  False without memory or room: nothing has changed. */
bool names_set(struct statements *all, struct names *names, struct journal *journal,
               struct span key, struct statement *statement, uint32_t position);

/* Takes every name away as of `position`, and notes each, also those that are gone
 * but pending: what brings them back is undone before this is. */
bool names_clear(struct statements *all, struct names *names, struct journal *journal,
                 uint32_t position);

/* Frees what it holds; no note may be about them any more. */
void names_fini(struct statements *all, struct names *names);

/* --- cache ---------------------------------------------------------------- */

void cache_init(struct cache *cache);

/* NULL: not there, and nothing is pending about it. */
struct prepared *cache_find(const struct cache *cache, const struct statement *statement);

/* It is used now. */
static inline void cache_touch(struct cache *cache, struct prepared *prepared)
{
	if (cache->lru.ends.previous != &prepared->link) {
		list_remove(&cache->lru, &prepared->link);
		list_append(&cache->lru, &prepared->link);
	}
}

/* Prepared (a Parse goes out) or closed (a Close does) as of `position`. */
bool cache_set(struct statements *all, struct cache *cache, struct journal *journal,
               struct statement *statement, bool present, uint32_t position);

/* All of them, for DEALLOCATE ALL. */
bool cache_clear(struct statements *all, struct cache *cache, struct journal *journal,
                 uint32_t position);

/* Which one goes to make room: the least recently used that is settled or was
 * changed at or behind `batch`.  NULL: none is. */
struct prepared *cache_oldest(const struct cache *cache, uint32_t batch);

/* The server has forgotten what was prepared before `position`, unasked: its
 * CommandComplete says so.  No note; but those of later requests are corrected, so
 * that undoing them brings back nothing that is forgotten. */
void cache_forget(struct statements *all, struct cache *cache, struct journal *journal,
                  uint32_t position);
void names_forget(struct statements *all, struct names *names, struct journal *journal,
                  uint32_t position);

void cache_fini(struct statements *all, struct cache *cache);

/* --- journal -------------------------------------------------------------- */

/* Whether what is there can be relied on by a request of the batch that begins at
 * `batch`: nothing about it is pending from before. */
static inline bool is_settled(uint32_t pending, uint32_t position, uint32_t batch)
{
	return pending == 0 || !position_before(position, batch);
}

/* Requests in [from, to) were skipped: undone, last first. */
void journal_undo(struct statements *all, struct journal *journal, struct names *names,
                  struct cache *cache, uint32_t from, uint32_t to);

/* Requests before `position` were answered. */
void journal_commit(struct statements *all, struct journal *journal, struct names *names,
                    struct cache *cache, uint32_t position);

/* The server goes, and its client with it: nothing is undone. */
void journal_drop(struct statements *all, struct journal *journal, struct names *names,
                  struct cache *cache);

#endif
