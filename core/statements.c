/*
 * statements.c - see statements.h: the texts, the names and the caches.
 *
 * Texts are in chains of buckets, names and what servers have in open addressing
 * (core/base/table.h): those are looked up with every Bind.  Names are hashed under
 * a part of the secret, because strangers choose them; the cache of a server goes
 * by the statement's address, which no stranger knows.  A name holds its statement,
 * what a server has holds it for as long as anything is pending about it.
 *
 * How changes are noted, confirmed and undone is in statements_journal.c.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/statements.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/statements_parts.h"
#include "proto/statement.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BUCKETS_MIN = 64 };

_Static_assert(STATEMENT_SECRET_SIZE >= XXH3_SECRET_SIZE_MIN, "what XXH3 asks for");
_Static_assert(STATEMENT_NAME_MAX <= UINT8_MAX, "fits name->size");

/* --- statements ----------------------------------------------------------- */

bool statements_init(struct statements *all, const uint8_t *secret)
{
	*all = (struct statements){.room = BUCKETS_MIN, .secret = secret};
	all->buckets = (struct statement **)calloc(all->room, sizeof(struct statement *));
	if (all->buckets == NULL)
		return false;
	all->memory = all->room * sizeof(struct statement *);
	return true;
}

void statements_fini(struct statements *all)
{
	CHECK(all->count == 0);
	CHECK_SLOW(all->memory == all->room * sizeof(struct statement *));
	free((void *)all->buckets);
	*all = (struct statements){0};
}

static void statements_grow(struct statements *all)
{
	uint32_t room = all->room * 2;
	struct statement **buckets = (struct statement **)calloc(room, sizeof(struct statement *));
	if (buckets == NULL)
		return; /* longer chains, nothing worse */
	for (uint32_t i = 0; i < all->room; i++)
		for (struct statement *at = all->buckets[i], *next; at != NULL; at = next) {
			next = at->next;
			at->next = buckets[at->hash & (room - 1)];
			buckets[at->hash & (room - 1)] = at;
		}
	free((void *)all->buckets);
	all->memory += (room - all->room) * sizeof(struct statement *);
	all->buckets = buckets;
	all->room = room;
}

static size_t statement_memory(uint32_t size)
{
	return MAX(sizeof(struct statement), offsetof(struct statement, body) + size);
}

static void hex(char to[16], uint64_t value)
{
	for (int i = 15; i >= 0; i--, value >>= 4)
		to[i] = "0123456789abcdef"[value & 15];
}

static struct statement *statement_new(struct statements *all, struct span body, XXH128_hash_t hash)
{
	struct statement *made = malloc(statement_memory(body.size));
	if (made == NULL)
		return NULL;
	struct statement **bucket = &all->buckets[hash.high64 & (all->room - 1)];
	*made = (struct statement){.next = *bucket,
	                           .holders = 1,
	                           .size = body.size,
	                           .hash = hash.high64};
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): hex() goes on */
	memcpy(made->name, STATEMENT_PREFIX, strlen(STATEMENT_PREFIX));
	hex(made->name + strlen(STATEMENT_PREFIX), hash.high64);
	hex(made->name + strlen(STATEMENT_PREFIX) + 16, hash.low64);
	if (body.size > 0)
		memcpy(made->body, body.data, body.size);
	*bucket = made;
	all->memory += statement_memory(body.size);
	if (++all->count > all->room)
		statements_grow(all);
	return made;
}

struct statement *statement_acquire(struct statements *all, struct span body)
{
	XXH128_hash_t hash = XXH3_128bits_withSecret(body.data, body.size, all->secret,
	                                             STATEMENT_SECRET_SIZE);
	struct statement *at = all->buckets[hash.high64 & (all->room - 1)];
	while (at != NULL && at->hash != hash.high64)
		at = at->next;
	if (at != NULL) /* half the hash is enough never to be seen twice */
		return span_equal(body, span_of(at->body, at->size)) ? statement_hold(at) : NULL;
	return statement_new(all, body, hash);
}

struct statement *statement_hold(struct statement *statement)
{
	CHECK(statement->holders > 0 && statement->holders < UINT32_MAX);
	statement->holders++;
	return statement;
}

void statement_release(struct statements *all, struct statement *statement)
{
	if (statement == NULL)
		return;
	CHECK(statement->holders > 0);
	if (--statement->holders > 0)
		return;
	struct statement **at = &all->buckets[statement->hash & (all->room - 1)];
	while (*at != statement)
		at = &(*at)->next;
	*at = statement->next;
	all->memory -= statement_memory(statement->size);
	all->count--;
	free(statement);
}

/* --- tables --------------------------------------------------------------- */

static bool reserve(struct statements *all, struct table *table, table_hash *hash_of)
{
	all->memory -= table_memory(table);
	bool has_room = table_reserve(table, hash_of);
	all->memory += table_memory(table);
	return has_room;
}

static void fit(struct statements *all, struct table *table, table_hash *hash_of)
{
	all->memory -= table_memory(table);
	table_fit(table, hash_of);
	all->memory += table_memory(table);
}

/* --- names ---------------------------------------------------------------- */

static uint32_t name_hash_of(const void *thing)
{
	return ((const struct name *)thing)->hash;
}

static size_t name_memory(uint32_t size)
{
	return MAX(sizeof(struct name), offsetof(struct name, text) + size);
}

static struct name *name_find(const struct names *names, struct span key, uint32_t hash)
{
	const struct table *table = &names->table;
	for (uint32_t i = table_at(table, hash); table->slots[i] != NULL;
	     i = table_next(table, i)) {
		struct name *name = table->slots[i];
		if (name->hash == hash && span_equal(key, span_of(name->text, name->size)))
			return name;
	}
	return NULL;
}

struct name *names_find(const struct names *names, struct span key)
{
	if (names == NULL || names->table.used == 0)
		return NULL;
	return name_find(names, key, (uint32_t)bytes_hash(key.data, key.size, names->seed));
}

static struct name *name_new(struct statements *all, struct names *names, struct span key)
{
	CHECK(key.size <= STATEMENT_NAME_MAX);
	if (names->table.used >= NAMES_MAX)
		return NULL;
	size_t memory = name_memory(key.size);
	struct name *name = calloc(1, memory);
	if (name == NULL || !reserve(all, &names->table, name_hash_of)) {
		free(name);
		return NULL;
	}
	memcpy(&names->seed, all->secret, sizeof names->seed);
	name->hash = (uint32_t)bytes_hash(key.data, key.size, names->seed);
	name->size = (uint8_t)key.size;
	if (key.size > 0)
		memcpy(name->text, key.data, key.size);
	table_insert(&names->table, name->hash, name);
	all->memory += memory;
	return name;
}

struct statement *name_put(struct names *names, struct name *name, struct statement *statement)
{
	struct statement *before = name->statement;
	names->count += (statement != NULL ? 1U : 0U) - (before != NULL ? 1U : 0U);
	names->bytes += statement != NULL ? statement->size : 0U;
	names->bytes -= before != NULL ? before->size : 0U;
	name->statement = statement;
	return before;
}

/* NOLINTNEXTLINE(readability-function-size): six parameters, none goes with another */
bool names_set(struct statements *all, struct names *names, struct journal *journal,
               struct span key, struct statement *statement, uint32_t position)
{
	struct name *name = names_find(names, key);
	if (name == NULL && statement == NULL)
		return true;
	if (!journal_reserve(all, journal, 1))
		return false;
	if (name == NULL)
		name = name_new(all, names, key);
	if (name == NULL)
		return false;
	if (statement != NULL)
		statement_hold(statement);
	journal_note_name(journal, name, name_put(names, name, statement), position);
	return true;
}

bool names_clear(struct statements *all, struct names *names, struct journal *journal,
                 uint32_t position)
{
	if (names == NULL)
		return true;
	if (!journal_reserve(all, journal, names->table.used))
		return false;
	for (uint32_t i = 0; i < names->table.room; i++) {
		struct name *name = names->table.slots[i];
		if (name != NULL)
			journal_note_name(journal, name, name_put(names, name, NULL), position);
	}
	CHECK(names->count == 0);
	return true;
}

void name_settle(struct statements *all, struct names *names, struct name *name)
{
	if (name->pending > 0 || name->statement != NULL)
		return;
	table_remove(&names->table, name, name_hash_of);
	all->memory -= name_memory(name->size);
	free(name);
}

void names_fit(struct statements *all, struct names *names)
{
	fit(all, &names->table, name_hash_of);
}

void names_fini(struct statements *all, struct names *names)
{
	if (names == NULL)
		return;
	for (uint32_t i = 0; i < names->table.room; i++) {
		struct name *name = names->table.slots[i];
		if (name == NULL)
			continue;
		CHECK(name->pending == 0);
		statement_release(all, name->statement);
		all->memory -= name_memory(name->size);
		free(name);
	}
	all->memory -= table_memory(&names->table);
	table_fini(&names->table);
	*names = (struct names){0};
}

/* --- cache ---------------------------------------------------------------- */

/* Addresses differ in the middle: those bits are spread over all. */
static uint32_t address_hash(const struct statement *statement)
{
	return (uint32_t)((uint64_t)(uintptr_t)statement * 0x9e3779b97f4a7c15U >> 32);
}

static uint32_t prepared_hash_of(const void *thing)
{
	return address_hash(((const struct prepared *)thing)->statement);
}

void cache_init(struct cache *cache)
{
	*cache = (struct cache){0};
	list_init(&cache->lru);
}

struct prepared *cache_find(const struct cache *cache, const struct statement *statement)
{
	const struct table *table = &cache->table;
	if (table->used == 0)
		return NULL;
	uint32_t i = table_at(table, address_hash(statement));
	for (; table->slots[i] != NULL; i = table_next(table, i)) {
		struct prepared *prepared = table->slots[i];
		if (prepared->statement == statement)
			return prepared;
	}
	return NULL;
}

static struct prepared *prepared_new(struct statements *all, struct cache *cache,
                                     struct statement *statement)
{
	struct prepared *prepared = calloc(1, sizeof *prepared);
	if (prepared == NULL || !reserve(all, &cache->table, prepared_hash_of)) {
		free(prepared);
		return NULL;
	}
	prepared->statement = statement_hold(statement);
	table_insert(&cache->table, address_hash(statement), prepared);
	all->memory += sizeof *prepared;
	return prepared;
}

void prepared_put(struct cache *cache, struct prepared *prepared, bool present, bool at_front)
{
	if (present && !prepared->present && at_front)
		list_prepend(&cache->lru, &prepared->link);
	else if (present && !prepared->present)
		list_append(&cache->lru, &prepared->link);
	else if (!present && prepared->present)
		list_remove(&cache->lru, &prepared->link);
	if (present && !prepared->present)
		cache->bytes += prepared->statement->size;
	else if (!present && prepared->present)
		cache->bytes -= prepared->statement->size;
	prepared->present = present;
}

/* NOLINTNEXTLINE(readability-function-size): six parameters, none goes with another */
bool cache_set(struct statements *all, struct cache *cache, struct journal *journal,
               struct statement *statement, bool present, uint32_t position)
{
	struct prepared *prepared = cache_find(cache, statement);
	if (prepared == NULL && !present)
		return true;
	if (!journal_reserve(all, journal, 1))
		return false;
	if (prepared == NULL)
		prepared = prepared_new(all, cache, statement);
	if (prepared == NULL)
		return false;
	journal_note_prepared(journal, prepared, position);
	prepared_put(cache, prepared, present, false);
	if (present)
		cache_touch(cache, prepared);
	return true;
}

bool cache_clear(struct statements *all, struct cache *cache, struct journal *journal,
                 uint32_t position)
{
	if (!journal_reserve(all, journal, cache->table.used))
		return false;
	for (uint32_t i = 0; i < cache->table.room; i++) {
		struct prepared *prepared = cache->table.slots[i];
		if (prepared != NULL && !prepared->present)
			journal_note_prepared(journal, prepared, position);
	}
	/* In their order, so that undoing brings it back. */
	list_each_safe (struct prepared, prepared, link, &cache->lru) {
		journal_note_prepared(journal, prepared, position);
		prepared_put(cache, prepared, false, false);
	}
	return true;
}

struct prepared *cache_oldest(const struct cache *cache, uint32_t batch)
{
	list_each (struct prepared, prepared, link, &cache->lru)
		if (is_settled(prepared->pending, prepared->position, batch))
			return prepared;
	return NULL;
}

static void prepared_free(struct statements *all, struct prepared *prepared)
{
	statement_release(all, prepared->statement);
	all->memory -= sizeof *prepared;
	free(prepared);
}

void prepared_settle(struct statements *all, struct cache *cache, struct prepared *prepared)
{
	if (prepared->pending > 0 || prepared->present)
		return;
	table_remove(&cache->table, prepared, prepared_hash_of);
	prepared_free(all, prepared);
}

void cache_fit(struct statements *all, struct cache *cache)
{
	fit(all, &cache->table, prepared_hash_of);
}

void cache_fini(struct statements *all, struct cache *cache)
{
	for (uint32_t i = 0; i < cache->table.room; i++) {
		struct prepared *prepared = cache->table.slots[i];
		if (prepared == NULL)
			continue;
		CHECK(prepared->pending == 0);
		prepared_free(all, prepared);
	}
	all->memory -= table_memory(&cache->table);
	table_fini(&cache->table);
	cache_init(cache);
}
