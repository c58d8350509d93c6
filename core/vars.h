/*
 * vars.h - session parameters that are kept per client.
 *
 * Tracked are the settable ones that a server reports (ParameterStatus), plus
 * track_extra_parameters.  A value is an interned word: equal values are one
 * pointer within a worker, an unset one is NULL.  On attach those that differ
 * are set, quoted; what the server then reports becomes the client's value.
 *
 * The list of names is fixed at start (vars_names).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_VARS_H
#define CORE_VARS_H

#include <stdbool.h>
#include <stdint.h>

enum { VARS_MAX = 16, VAR_VALUE_MAX = 8192 };

struct word {
	struct word *next; /* in its bucket */
	uint32_t holders;
	uint32_t hash;
	uint16_t size;
	uint32_t proven; /* a bit per parameter for which a server has reported it */
	char text[];
};

struct words {
	struct word **buckets;
	uint32_t room, count;
	uint64_t seed;
	uint64_t versions; /* of vars so far */
	uint64_t memory;
};

struct vars {
	struct word *values[VARS_MAX];
	uint64_t version; /* same number, same values; 0: none yet, or they have changed */
};

/* What a client asked for at its start, to which RESET goes back. */
struct start_vars {
	uint32_t asked; /* a bit per parameter */
	struct word *words[];
};

/* Once, before any worker: the built-in names and an extra list (may be NULL). */
void vars_names_init(const char *extra);
uint32_t vars_count(void);
const char *vars_name(uint32_t index);

/* By name, in any case; -1: not tracked. */
int vars_index(const char *name);

bool words_init(struct words *words, uint64_t seed);
void words_fini(struct words *words);
struct word *word_acquire(struct words *words, const char *text); /* NULL without memory */
void word_release(struct words *words, struct word *word);        /* NULL is fine */

void vars_set(struct words *words, struct vars *vars, uint32_t index, const char *text);
void vars_clear(struct words *words, struct vars *vars);

/* A bit per parameter that has a value, and a walk over such bits. */
uint32_t vars_given(const struct vars *vars);
#define vars_each(index, bits)               \
	for (uint32_t left_ = (bits), index; \
	     left_ != 0 && ((index) = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

void vars_copy(struct words *words, struct vars *to, const struct vars *from);

/* Whether they have the same values.  If so they have one version then. */
bool vars_compare(struct words *words, struct vars *a, struct vars *b);
static inline bool vars_equal(struct words *words, struct vars *a, struct vars *b)
{
	return (a->version == b->version && a->version != 0) || vars_compare(words, a, b);
}

/* Gives `to` the values of `from` that it has none of. */
void vars_fill(struct vars *to, const struct vars *from);

/* Writes "SET a='x';SET b='y';" for what `server` must change to be as `client`
 * wants; 0: nothing differs.  UINT32_MAX: does not fit.  *proven: every value
 * was accepted by a server before. */
uint32_t vars_difference(const struct vars *client, const struct vars *server, char *sql,
                         uint32_t room, bool *proven);

/* asked: vars_given().  NULL: it asked for nothing (or there is no memory). */
struct start_vars *vars_keep_start(struct words *words, const struct vars *vars, uint32_t asked);
void vars_free_start(struct words *words, struct start_vars *start);

/* Goes back to it, in the parameters of `among` that the server has as it logged in.
 * Returns a bit for each that is not so on the server. */
uint32_t vars_to_start(struct words *words, const struct start_vars *start, struct vars *client,
                       const struct vars *server, const struct vars *login, uint32_t among);

/* After the SETs: the server's spelling becomes the client's. */
void vars_canonical(struct words *words, struct vars *client, struct start_vars *start,
                    const struct vars *server);

#endif
