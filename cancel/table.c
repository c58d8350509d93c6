/*
 * table.c - see table.h.
 *
 * Linear probing from a place that the hash gives.  An entry was never used
 * (hash NEVER), is live, or was removed (hash GONE: a tombstone, free for the
 * next key but no end of a probe).  NEVER does not come back, so a reader may
 * stop there: a key that was in the table before he began lies in front of it.
 *
 * Whoever changes an entry makes its sequence odd by compare-and-swap, which
 * also settles who of two gets a free entry, writes, and makes it even again.
 * Fields are stored with release and loaded with acquire: a reader who saw a
 * new field also sees the odd sequence when he looks again.  (The usual fences
 * would do the same, but ThreadSanitizer does not know them.)  Nobody waits: an
 * entry found in the middle of a move counts as moving after a few looks, since
 * its writer may have been put to sleep there.
 *
 * Two that insert the same hash at once may not see each other at first.  So
 * each writes its hash into the entry it has claimed, then looks again before it
 * publishes: in the one order of all sequentially consistent operations at least
 * one finds the other and gives up.  Both may; that both succeed can not be.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cancel/table.h"

#include <stdatomic.h>

#include "core/base/check.h"

enum { PROBES_MAX = 64, LOOKS_MAX = 32, HEAD_SIZE = 64, LOAD_DIVISOR = 4 };
enum { NEVER, GONE, HASH_MIN }; /* values of entry.hash */
enum { WORKER_MASK = 0xffff, MOVING = 0x10000 };

struct entry {
	_Atomic uint32_t sequence; /* odd: being changed */
	_Atomic uint32_t worker;   /* and MOVING */
	_Atomic uint32_t slot;
	_Atomic uint32_t generation;
	_Atomic uint64_t hash;
};

struct cancel_table {
	_Alignas(HEAD_SIZE) uint64_t seed;
	uint32_t capacity;
	_Alignas(HEAD_SIZE) struct entry entries[];
};

_Static_assert(sizeof(struct cancel_table) == HEAD_SIZE, "entries follow the head");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share the entries");

size_t cancel_table_size(uint32_t clients)
{
	/* Beyond 2^30 clients the load is what 2^32 entries make of it. */
	uint64_t capacity = MIN((uint64_t)clients * LOAD_DIVISOR, UINT32_MAX);
	return HEAD_SIZE + (size_t)MAX(capacity, PROBES_MAX) * sizeof(struct entry);
}

struct cancel_table *cancel_table_init(void *memory, size_t size, uint64_t seed)
{
	CHECK((uintptr_t)memory % HEAD_SIZE == 0);
	CHECK(size >= cancel_table_size(0));
	struct cancel_table *table = memory;
	size_t capacity = (size - HEAD_SIZE) / sizeof(struct entry);
	table->capacity = (uint32_t)MIN(capacity, UINT32_MAX);
	table->seed = seed;
	return table;
}

static uint64_t key_hash(const struct cancel_table *table, struct span key)
{
	uint64_t hash = bytes_hash(key.data, key.size, table->seed);
	return hash < HASH_MIN ? hash + HASH_MIN : hash;
}

/* The number of the entry at a probe. */
static uint32_t probe_at(const struct cancel_table *table, uint64_t hash, uint32_t probe)
{
	uint64_t home = ((hash >> 32) * table->capacity) >> 32;
	return (uint32_t)((home + probe) % table->capacity);
}

/* ------------------------------------------------------------- changing an entry */

static bool entry_claim(struct entry *entry, uint32_t sequence)
{
	return (sequence & 1) == 0 &&
	       atomic_compare_exchange_strong_explicit(&entry->sequence, &sequence, sequence + 1,
	                                               memory_order_seq_cst, memory_order_relaxed);
}

static void entry_publish(struct entry *entry, uint32_t sequence)
{
	atomic_store_explicit(&entry->sequence, sequence + 2, memory_order_release);
}

static void entry_write_place(struct entry *entry, struct cancel_place place)
{
	uint32_t worker = place.worker | (place.moving ? MOVING : 0U);
	atomic_store_explicit(&entry->worker, worker, memory_order_release);
	atomic_store_explicit(&entry->slot, place.slot, memory_order_release);
	atomic_store_explicit(&entry->generation, place.generation, memory_order_release);
}

/* Claims the live entry of a key.  Nobody but the key's owner changes it, so
 * this does not fail for an entry that is there. */
static struct entry *entry_claim_own(struct cancel_table *table, struct span key,
                                     uint32_t *sequence)
{
	uint64_t hash = key_hash(table, key);
	for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
		struct entry *entry = &table->entries[probe_at(table, hash, probe)];
		*sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);
		uint64_t found = atomic_load_explicit(&entry->hash, memory_order_acquire);
		if (found == hash && entry_claim(entry, *sequence))
			return entry;
		if (found == NEVER && (*sequence & 1) == 0)
			break;
	}
	return NULL;
}

bool cancel_table_move(struct cancel_table *table, struct span key, struct cancel_place place)
{
	uint32_t sequence;
	struct entry *entry = entry_claim_own(table, key, &sequence);
	if (entry == NULL)
		return false;
	entry_write_place(entry, place);
	entry_publish(entry, sequence);
	return true;
}

void cancel_table_remove(struct cancel_table *table, struct span key)
{
	uint32_t sequence;
	struct entry *entry = entry_claim_own(table, key, &sequence);
	if (entry == NULL)
		return;
	atomic_store_explicit(&entry->hash, GONE, memory_order_release);
	entry_publish(entry, sequence);
}

/* -------------------------------------------------------------------- inserting */

struct survey {
	struct entry *free; /* the first; NULL: none */
	uint32_t sequence;  /* of it */
	bool duplicate;     /* another entry but `own` has the hash, or is about to */
};

static struct survey table_survey(struct cancel_table *table, uint64_t hash,
                                  const struct entry *own)
{
	struct survey survey = {0};
	for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
		struct entry *entry = &table->entries[probe_at(table, hash, probe)];
		uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_seq_cst);
		uint64_t found = atomic_load_explicit(&entry->hash, memory_order_seq_cst);
		if (found == hash && entry != own) {
			survey.duplicate = true;
			break;
		}
		if ((sequence & 1) != 0 || found >= HASH_MIN)
			continue;
		if (survey.free == NULL) {
			survey.free = entry;
			survey.sequence = sequence;
		}
		if (found == NEVER)
			break;
	}
	return survey;
}

bool cancel_table_insert(struct cancel_table *table, struct span key, struct cancel_place place)
{
	uint64_t hash = key_hash(table, key);
	struct survey survey;
	do {
		survey = table_survey(table, hash, NULL);
		if (survey.duplicate || survey.free == NULL)
			return false;
	} while (!entry_claim(survey.free, survey.sequence));

	struct entry *own = survey.free;
	entry_write_place(own, place);
	atomic_store_explicit(&own->hash, hash, memory_order_seq_cst);
	bool duplicate = table_survey(table, hash, own).duplicate;
	if (duplicate)
		atomic_store_explicit(&own->hash, GONE, memory_order_release);
	entry_publish(own, survey.sequence);
	return !duplicate;
}

/* ---------------------------------------------------------------------- looking up */

/* The place of an entry that had the hash a moment ago; false if it has not
 * any more. */
static bool entry_read(const struct entry *entry, uint64_t hash, struct cancel_place *place)
{
	for (uint32_t look = 0; look < LOOKS_MAX; look++) {
		uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);
		if (atomic_load_explicit(&entry->hash, memory_order_acquire) != hash)
			return false;
		uint32_t worker = atomic_load_explicit(&entry->worker, memory_order_acquire);
		place->worker = worker & WORKER_MASK;
		place->moving = (worker & MOVING) != 0;
		place->slot = atomic_load_explicit(&entry->slot, memory_order_acquire);
		place->generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
		uint32_t again = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
		if (again == sequence && (sequence & 1) == 0)
			return true;
	}
	place->moving = true;
	return true;
}

bool cancel_table_find(const struct cancel_table *table, struct span key,
                       struct cancel_place *place)
{
	uint64_t hash = key_hash(table, key);
	for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
		const struct entry *entry = &table->entries[probe_at(table, hash, probe)];
		uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);
		uint64_t found = atomic_load_explicit(&entry->hash, memory_order_acquire);
		if (found == hash && entry_read(entry, hash, place))
			return true;
		/* Odd: claimed for a key that is not in yet, while one that is in
		 * may have gone past it. */
		if (found == NEVER && (sequence & 1) == 0)
			break;
	}
	return false;
}
