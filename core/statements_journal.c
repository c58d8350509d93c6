/*
 * statements_journal.c - see statements.h: notes, what confirms and what undoes them.
 *
 * A note keeps what was there before its change.  To undo some out of the middle,
 * everything from them on is taken back, last first; each note then has what was
 * there after it, the same swap in the other direction makes the change again, and
 * that is done with those that remain.  So an entry that was changed several
 * times needs no search for the note that follows.  Forgetting goes the same way:
 * back to the moment, everything away, and forward again.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>

#include "core/base/check.h"
#include "core/statements.h"
#include "core/statements_parts.h"

enum { ROOM_MIN = 8, ROOM_KEPT = 64 };

static struct note *note_at(const struct journal *journal, uint32_t index)
{
	return &journal->notes[(journal->head + index) & (journal->room - 1)];
}

static void journal_free(struct statements *all, struct journal *journal)
{
	all->memory -= journal->room * sizeof journal->notes[0];
	free(journal->notes);
	*journal = (struct journal){0};
}

bool journal_reserve(struct statements *all, struct journal *journal, uint32_t count)
{
	if (count <= journal->room - journal->count)
		return true;
	if (count > JOURNAL_MAX - journal->count)
		return false;
	uint32_t room = MAX((uint32_t)ROOM_MIN, journal->room);
	while (room - journal->count < count)
		room *= 2;
	struct note *notes = malloc(room * sizeof notes[0]);
	if (notes == NULL)
		return false;
	for (uint32_t i = 0; i < journal->count; i++)
		notes[i] = *note_at(journal, i);
	uint32_t kept = journal->count;
	journal_free(all, journal);
	*journal = (struct journal){.notes = notes, .room = room, .count = kept};
	all->memory += room * sizeof notes[0];
	return true;
}

static void journal_add(struct journal *journal, struct note note)
{
	CHECK(journal->count < journal->room);
	CHECK(journal->count == 0 ||
	      !position_before(note.position, note_at(journal, journal->count - 1)->position));
	*note_at(journal, journal->count++) = note;
}

void journal_note_name(struct journal *journal, struct name *name, struct statement *before,
                       uint32_t position)
{
	journal_add(journal, (struct note){.position = position, .name = name, .before = before});
	name->pending++;
	name->position = position;
}

void journal_note_prepared(struct journal *journal, struct prepared *prepared, uint32_t position)
{
	journal_add(journal, (struct note){.position = position,
	                                   .fresh = prepared->fresh,
	                                   .prepared = prepared,
	                                   .was_present = prepared->present});
	prepared->pending++;
	prepared->position = position;
}

/* How many notes are of requests before `position`. */
static uint32_t notes_before(const struct journal *journal, uint32_t position)
{
	uint32_t low = 0;
	uint32_t high = journal->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (position_before(note_at(journal, middle)->position, position))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Takes the change back, or makes it again.  NULL: not those of names, of caches. */
static void note_swap(struct note *note, struct names *names, struct cache *cache, bool back)
{
	if (note->name != NULL && names != NULL) {
		note->before = name_put(names, note->name, note->before);
	} else if (note->prepared != NULL && cache != NULL) {
		struct prepared *prepared = note->prepared;
		struct note was = *note;
		note->was_present = prepared->present;
		note->fresh = prepared->fresh;
		prepared_put(cache, prepared, was.was_present, back);
		prepared->fresh = was.fresh;
	}
}

/* Back to where `count` notes were there. */
static void journal_rewind(struct journal *journal, struct names *names, struct cache *cache,
                           uint32_t count)
{
	for (uint32_t i = journal->count; i > count; i--)
		note_swap(note_at(journal, i - 1), names, cache, true);
}

/* The note is over, whatever became of it. */
static void note_end(struct statements *all, const struct note *note, struct names *names,
                     struct cache *cache)
{
	statement_release(all, note->before);
	if (note->name != NULL) {
		CHECK(names != NULL && note->name->pending > 0);
		note->name->pending--;
		name_settle(all, names, note->name);
	} else {
		CHECK(note->prepared->pending > 0);
		note->prepared->pending--;
		prepared_settle(all, cache, note->prepared);
	}
}

/* After notes ended: memory that is not needed any more. */
static void fit(struct statements *all, struct journal *journal, struct names *names,
                struct cache *cache)
{
	if (names != NULL)
		names_fit(all, names);
	cache_fit(all, cache);
	if (journal->count == 0 && journal->room > ROOM_KEPT)
		journal_free(all, journal);
}

/* NOLINTNEXTLINE(readability-function-size): six parameters, none goes with another */
void journal_undo(struct statements *all, struct journal *journal, struct names *names,
                  struct cache *cache, uint32_t from, uint32_t to)
{
	uint32_t first = notes_before(journal, from);
	uint32_t end = notes_before(journal, to);
	if (first >= end)
		return;
	journal_rewind(journal, names, cache, first);
	for (uint32_t i = end; i > first; i--)
		note_end(all, note_at(journal, i - 1), names, cache);
	for (uint32_t i = end; i < journal->count; i++) {
		struct note *note = note_at(journal, i);
		note_swap(note, names, cache, false);
		*note_at(journal, first + i - end) = *note;
	}
	journal->count -= end - first;
	fit(all, journal, names, cache);
}

void journal_commit(struct statements *all, struct journal *journal, struct names *names,
                    struct cache *cache, uint32_t position)
{
	if (journal->count == 0 || !position_before(note_at(journal, 0)->position, position))
		return; /* as with nearly every reply */
	while (journal->count > 0 && position_before(note_at(journal, 0)->position, position)) {
		note_end(all, note_at(journal, 0), names, cache);
		journal->head = (journal->head + 1) & (journal->room - 1);
		journal->count--;
	}
	fit(all, journal, names, cache);
}

void journal_drop(struct statements *all, struct journal *journal, struct names *names,
                  struct cache *cache)
{
	for (uint32_t i = 0; i < journal->count; i++)
		note_end(all, note_at(journal, i), names, cache);
	journal->count = 0;
	fit(all, journal, names, cache);
	journal_free(all, journal);
}

/* --- forgetting ----------------------------------------------------------- */

/* The way back from a rewind, once everything is forgotten: what older notes would
 * bring back is too. */
static void journal_replay(struct statements *all, struct journal *journal, struct names *names,
                           struct cache *cache, uint32_t forgotten)
{
	for (uint32_t i = 0; i < forgotten; i++) {
		struct note *note = note_at(journal, i);
		if (note->name != NULL && names != NULL) {
			statement_release(all, note->before);
			note->before = NULL;
		} else if (note->prepared != NULL && cache != NULL) {
			note->was_present = false;
		}
	}
	for (uint32_t i = forgotten; i < journal->count; i++)
		note_swap(note_at(journal, i), names, cache, false);
}

void cache_forget(struct statements *all, struct cache *cache, struct journal *journal,
                  uint32_t position)
{
	uint32_t forgotten = notes_before(journal, position);
	journal_rewind(journal, NULL, cache, forgotten);
	list_each_safe (struct prepared, prepared, link, &cache->lru) {
		prepared_put(cache, prepared, false, false);
		prepared_settle(all, cache, prepared);
	}
	journal_replay(all, journal, NULL, cache, forgotten);
	cache_fit(all, cache);
}

void names_forget(struct statements *all, struct names *names, struct journal *journal,
                  uint32_t position)
{
	if (names == NULL)
		return;
	uint32_t forgotten = notes_before(journal, position);
	journal_rewind(journal, names, NULL, forgotten);
	uint32_t i = 0;
	while (i < names->table.room) {
		struct name *name = names->table.slots[i];
		if (name != NULL)
			statement_release(all, name_put(names, name, NULL));
		if (name != NULL && name->pending == 0)
			name_settle(all, names, name); /* another may be here now */
		else
			i++;
	}
	journal_replay(all, journal, names, NULL, forgotten);
	names_fit(all, names);
}
