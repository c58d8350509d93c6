/* Texts, then names and caches by short scripts, limits and memory.  The words of a
 * script have three characters: `+a1` a is prepared as of position 1, `-a2` closed, `*.3`
 * all are; `=a.` used; `<.3` what came before 3 is confirmed, `u24` 2 and 3 are
 * undone, `f.4` what came before 4 is forgotten; `!..` the server dies.  Each is done to a
 * cache and to names of the same letters. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/statements.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "proto/statement.h"

enum { LETTERS = 6, MANY = 1000 };

static uint8_t secret[STATEMENT_SECRET_SIZE];
static struct statements all;

static void begin(void)
{
	for (uint32_t i = 0; i < sizeof secret; i++)
		secret[i] = (uint8_t)(i * 37 + 11);
	cr_assert(statements_init(&all, secret));
}

static struct statement *acquire(const char *text)
{
	uint8_t body[64] = {0};
	size_t size = strlen(text);
	memcpy(body, text, size);
	struct statement *statement = statement_acquire(&all, span_of(body, size + 3));
	cr_assert_not_null(statement);
	return statement;
}

static void name_check(const struct statement *statement)
{
	cr_assert_eq(strlen(statement->name), STATEMENT_SERVER_NAME_SIZE);
	cr_assert_eq(strncmp(statement->name, "rb_", 3), 0);
	cr_assert_eq(strspn(statement->name + 3, "0123456789abcdef"), 32);
}

static void many_check(void)
{
	static struct statement *many[MANY];
	char text[32];
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < MANY; i++) {
			memset(text, 0, sizeof text);
			(void)snprintf(text, sizeof text, "SELECT %u", i);
			struct statement *statement = acquire(text);
			cr_assert(round == 0 || statement == many[i]);
			cr_assert_eq(statement->holders, round + 1);
			many[i] = statement;
			name_check(statement);
			cr_assert(i == 0 || strcmp(statement->name, many[i - 1]->name) != 0);
		}
	cr_assert_eq(all.count, MANY);
	for (uint32_t i = 0; i < 2 * MANY; i++)
		statement_release(&all, many[i / 2]);
	cr_assert_eq(all.count, 0);
}

/* Bodies that are easily taken for one another. */
static const struct span bodies[] = {
	{(const uint8_t *)"", 0},           {(const uint8_t *)"\0", 1},
	{(const uint8_t *)"\0\0\0", 3},     {(const uint8_t *)"a\0\0\0", 4},
	{(const uint8_t *)"a\0\0\1\0", 5},  {(const uint8_t *)"a\0\0\1\0\0\0\27", 8},
	{(const uint8_t *)"b\0\0\0", 4},    {(const uint8_t *)"A\0\0\0", 4},
	{(const uint8_t *)"a \0\0\0", 5},   {(const uint8_t *)"a\0\0\1\0\0\0\24", 8},
	{(const uint8_t *)"a\0\0\0\0\0", 6}};

/* The same secret makes the same names in another worker, another one others. */
static void elsewhere_check(uint8_t change)
{
	static uint8_t its_secret[STATEMENT_SECRET_SIZE];
	for (uint32_t i = 0; i < sizeof secret; i++)
		its_secret[i] = (uint8_t)(secret[i] + change * i * i);
	struct statements elsewhere;
	cr_assert(statements_init(&elsewhere, its_secret));
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct statement *here = statement_acquire(&all, bodies[i]);
		struct statement *there = statement_acquire(&elsewhere, bodies[i]);
		cr_assert_eq(strcmp(here->name, there->name) == 0, change == 0);
		statement_release(&all, here);
		statement_release(&elsewhere, there);
	}
	statements_fini(&elsewhere);
}

Test(statements, are_kept_once)
{
	begin();
	uint64_t memory = all.memory;
	struct statement *held[ARRAY_LEN(bodies)];
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		held[i] = statement_acquire(&all, bodies[i]);
		cr_assert_not_null(held[i]);
		cr_assert_eq(all.count, i + 1);
		cr_assert_eq(held[i]->size, bodies[i].size);
	}
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		cr_assert_eq(statement_acquire(&all, bodies[i]), held[i]);
		cr_assert_eq(statement_hold(held[i])->holders, 3);
	}
	elsewhere_check(0);
	elsewhere_check(1);
	for (size_t i = 0; i < 3 * ARRAY_LEN(bodies); i++)
		statement_release(&all, held[i / 3]);
	statement_release(&all, NULL);
	cr_assert_eq(all.memory, memory);
	many_check();
	statements_fini(&all);
}

/* What one server and its client have. */
struct world {
	struct statement *statements[LETTERS];
	struct names names;
	struct cache cache;
	struct journal journal;
	uint32_t origin; /* what the scripts call position 0 */
};

static void world_init(struct world *world, uint32_t origin)
{
	*world = (struct world){.origin = origin};
	cache_init(&world->cache);
	for (uint32_t i = 0; i < LETTERS; i++) {
		char text[8] = {(char)('a' + i)};
		world->statements[i] = acquire(text);
	}
}

static void world_fini(struct world *world)
{
	journal_drop(&all, &world->journal, &world->names, &world->cache);
	cr_assert_null(world->journal.notes);
	names_fini(&all, &world->names);
	cache_fini(&all, &world->cache);
	for (uint32_t i = 0; i < LETTERS; i++) {
		cr_assert_eq(world->statements[i]->holders, 1);
		statement_release(&all, world->statements[i]);
	}
}

static void letter_step(struct world *world, const char *word)
{
	struct statement *statement = world->statements[word[1] - 'a'];
	uint32_t position = world->origin + (uint32_t)(word[2] - '0');
	struct span key = span_of(word + 1, 1);
	bool present = word[0] == '+';
	if (word[0] == '=') {
		cache_touch(&world->cache, cache_find(&world->cache, statement));
		return;
	}
	cr_assert(cache_set(&all, &world->cache, &world->journal, statement, present, position));
	cr_assert(names_set(&all, &world->names, &world->journal, key, present ? statement : NULL,
	                    position));
}

static void step(struct world *world, const char *word)
{
	struct names *names = &world->names;
	struct cache *cache = &world->cache;
	struct journal *journal = &world->journal;
	uint32_t from = world->origin + (uint32_t)(word[1] - '0');
	uint32_t position = world->origin + (uint32_t)(word[2] - '0');
	switch (word[0]) {
	case '*':
		cr_assert(cache_clear(&all, cache, journal, position));
		cr_assert(names_clear(&all, names, journal, position));
		break;
	case '<': journal_commit(&all, journal, names, cache, position); break;
	case 'u': journal_undo(&all, journal, names, cache, from, position); break;
	case 'f':
		cache_forget(&all, cache, journal, position);
		names_forget(&all, names, journal, position);
		break;
	case '!': journal_drop(&all, journal, names, cache); break;
	default: letter_step(world, word);
	}
}

/* What the cache has, the least recently used first; the names are the same. */
static void present_check(const struct world *world, const char *expected, const char *script)
{
	char present[LETTERS + 1] = "";
	uint32_t count = 0;
	list_each (struct prepared, prepared, link, &world->cache.lru) {
		present[count++] = (char)prepared->statement->body[0];
		struct name *name = names_find(&world->names,
		                               span_of(prepared->statement->body, 1));
		cr_assert_not_null(name, "%s", script);
		cr_assert_eq(name->statement, prepared->statement, "%s", script);
		cr_assert_eq(name->pending, prepared->pending, "%s", script);
	}
	cr_assert_str_eq(present, expected, "%s: %s", script, present);
	cr_assert_eq(count, world->names.count, "%s", script);
	cr_assert_eq(world->cache.table.used, world->names.table.used, "%s", script);
	if (world->journal.count == 0)
		cr_assert_eq(world->names.table.used, count, "%s", script);
}

/* `oldest` is asked for a batch that begins at `batch`; '-': none. */
static const struct {
	const char *script, *present;
	char batch, oldest;
} rows[] = {
	{"+a1 +b2 +c3", "abc", '1', 'a'},
	{"+a1 +b2 +c3", "abc", '2', 'b'},
	{"+a1 +b2 +c3", "abc", '4', '-'},
	{"+a1 +b2 +c3 <.3", "abc", '4', 'a'},
	{"+a1 +b2 +c3 <.4 =a. =b.", "cab", '5', 'c'},
	{"+a1 +b2 +c3 =b. =b. <.2 =a.", "cba", '4', 'a'},
	{"-a1 -b2 <.3", "", '3', '-'},
	{"+a1 -a2 +a3 -a4", "", '1', '-'},
	{"+a1 -a2 +a3 -a4 u45", "a", '1', 'a'},
	{"+a1 -a2 +a3 -a4 <.2 u35 <.9", "", '9', '-'},
	{"+a1 +a2 +a3 u34 <.2 u23 <.3", "a", '3', 'a'},
	/* A place in the order is found again. */
	{"+a1 +b2 +c3 <.4 -a5 -b6 +d7 u48 <.8", "abc", '8', 'a'},
	{"+a1 +b2 +c3 <.4 =a. *.5 u56", "bca", '6', 'b'},
	{"+a1 +b2 +c3 <.4 *.5 +b6 u67 <.7", "", '8', '-'},
	{"+a1 +b2 +c3 <.4 *.5 +b6 u57 <.7", "abc", '8', 'a'},
	{"+a1 +b2 +c3 <.4 *.5 +b6 <.7", "b", '8', 'b'},
	/* Out of the middle: what came later stays as it was meant. */
	{"+a1 +b2 +c3 u23 <.4", "ac", '4', 'a'},
	{"+a1 <.2 -a2 *.4 u24 <.5", "", '5', '-'},
	{"+a1 <.2 -a2 -a4 u24 <.5", "", '5', '-'},
	{"+a1 <.2 -a2 -a4 u24 u45", "a", '5', 'a'},
	{"+a1 *.3 +a4 u13 u45 <.9", "", '9', '-'},
	{"+a1 +b1 -a2 +a5 u15 u56", "", '6', '-'},
	{"+a1 +b1 +c5 u15 <.6", "c", '6', 'c'},
	{"+a1 u02 u02 u12 <.1 u79", "", '2', '-'},
	/* Several of one request. */
	{"+a1 +b1 -a1 +c1 u12", "", '2', '-'},
	{"+a1 +b1 -a1 +c1 <.2", "bc", '2', 'b'},
	/* Forgotten, whether it was confirmed or not. */
	{"+a1 +b2 +c3 <.3 f.3", "c", '3', 'c'},
	{"+a1 +b2 +c3 f.3 <.9", "c", '9', 'c'},
	{"+a1 +b2 +c3 f.9", "", '9', '-'},
	{"+a1 +b2 f.3 u13", "", '3', '-'},
	{"+a1 <.2 -a5 f.4 u56", "", '6', '-'},
	{"+a1 <.2 +a5 f.4", "a", '5', 'a'},
	{"+a1 <.2 +a5 -a6 f.4 u67", "a", '5', 'a'},
	{"+a1 <.2 +a5 -a6 f.4 u67 u56", "", '7', '-'},
	{"+a1 *.2 +a5 f.4 f.4 u12 u23 <.6", "a", '6', 'a'},
	/* The server dies: nothing is undone, nothing is pending any more. */
	{"!..", "", '1', '-'},
	{"+a1 +b2 -a3 <.2 +c4 !..", "bc", '4', 'b'},
	{"+a1 <.2 *.2 +a3 *.4 !.. +b5", "b", '5', 'b'},
};

static void row_play(size_t row, uint32_t origin)
{
	struct world world;
	world_init(&world, origin);
	for (const char *word = rows[row].script; *word != '\0'; word += strspn(word, " ")) {
		step(&world, word);
		word += 3;
	}
	present_check(&world, rows[row].present, rows[row].script);
	uint32_t batch = origin + (uint32_t)(rows[row].batch - '0');
	const struct prepared *oldest = cache_oldest(&world.cache, batch);
	cr_assert_eq(oldest != NULL ? oldest->statement->body[0] : '-', rows[row].oldest, "%s",
	             rows[row].script);
	step(&world, "!..");
	present_check(&world, rows[row].present, rows[row].script);
	world_fini(&world);
}

/* What it was prepared for comes back with it. */
static void fresh_check(void)
{
	struct world world;
	world_init(&world, 0);
	struct statement *a = world.statements[0];
	for (uint32_t position = 1; position <= 3; position++) {
		step(&world, (const char[]){'-', 'a', (char)('0' + position), 0});
		step(&world, (const char[]){'+', 'a', (char)('0' + position), 0});
		cache_find(&world.cache, a)->fresh = 10 * position;
	}
	step(&world, "u34");
	cr_assert_eq(cache_find(&world.cache, a)->fresh, 20);
	step(&world, "f.2");
	cr_assert_eq(cache_find(&world.cache, a)->fresh, 20);
	step(&world, "u12");
	cr_assert_eq(cache_find(&world.cache, a)->fresh, 20);
	cr_assert_null(cache_find(&world.cache, world.statements[1]));
	step(&world, "<.9");
	world_fini(&world);
}

Test(statements, are_noted_confirmed_and_undone)
{
	begin();
	uint64_t memory = all.memory;
	for (size_t row = 0; row < ARRAY_LEN(rows); row++)
		for (uint32_t origin = UINT32_MAX - 6; origin != 3; origin++) {
			row_play(row, origin);
			cr_assert_eq(all.memory, memory, "%s", rows[row].script);
		}
	fresh_check();
	/* no names: nothing about them is asked */
	struct cache cache;
	struct journal journal = {0};
	struct statement *a = acquire("a");
	cache_init(&cache);
	cr_assert_null(names_find(NULL, span_text("a")));
	cr_assert(names_clear(&all, NULL, &journal, 1));
	names_forget(&all, NULL, &journal, 1);
	names_fini(&all, NULL);
	for (uint32_t i = 1; i < 9; i++)
		cr_assert(cache_set(&all, &cache, &journal, a, i % 2 != 0, i));
	journal_commit(&all, &journal, NULL, &cache, 3);
	journal_undo(&all, &journal, NULL, &cache, 6, 9);
	journal_drop(&all, &journal, NULL, &cache);
	cr_assert_eq(cache.lru.count, 1);
	cache_fini(&all, &cache);
	statement_release(&all, a);
	cr_assert_eq(all.memory, memory);
	statements_fini(&all);
}

/* As many names as there may be, which is then a limit; and one on the notes. */
static void names_fill(struct world *world)
{
	char key[STATEMENT_NAME_MAX];
	memset(key, 'x', sizeof key);
	for (uint32_t i = 0; i <= NAMES_MAX; i++) {
		(void)snprintf(key, 16, "name_%05u", i);
		key[10] = 'x';
		uint32_t size = i % 1000 == 999 ? STATEMENT_NAME_MAX : 10;
		bool is_set = names_set(&all, &world->names, &world->journal, span_of(key, size),
		                        world->statements[i % LETTERS], i);
		cr_assert_eq(is_set, i < NAMES_MAX);
		if (i % 3 == 0) /* they come and go at the same time */
			journal_commit(&all, &world->journal, &world->names, &world->cache, i);
	}
}

Test(statements, have_limits)
{
	begin();
	struct world world;
	uint64_t memory = all.memory;
	world_init(&world, NAMES_MAX + 1);
	uint64_t empty = all.memory;
	names_fill(&world);
	step(&world, "<.0");
	cr_assert(world.journal.room <= 64);
	cr_assert_eq(world.names.count, NAMES_MAX);
	cr_assert((all.memory - empty) / NAMES_MAX < 60);
	/* one that is there can change, one that goes makes room only when it has gone */
	struct span first = span_text("name_00000");
	struct span other = span_text("other");
	struct statement *a = world.statements[0];
	cr_assert(names_set(&all, &world.names, &world.journal, first, a, world.origin));
	cr_assert(names_set(&all, &world.names, &world.journal, first, NULL, world.origin));
	cr_assert_not(names_set(&all, &world.names, &world.journal, other, a, world.origin));
	step(&world, "<.1");
	cr_assert(names_set(&all, &world.names, &world.journal, other, a, world.origin + 1));
	step(&world, "<.2");
	/* all or nothing */
	for (uint32_t i = 0; i < JOURNAL_MAX / NAMES_MAX; i++)
		step(&world, "*.2");
	uint64_t full = all.memory;
	cr_assert_eq(world.journal.count, JOURNAL_MAX);
	cr_assert_not(names_clear(&all, &world.names, &world.journal, world.origin + 3));
	cr_assert_not(cache_set(&all, &world.cache, &world.journal, a, true, world.origin + 3));
	cr_assert_not(names_set(&all, &world.names, &world.journal, other, a, world.origin + 3));
	cr_assert_eq(all.memory, full);
	step(&world, "u23");
	cr_assert_eq(world.names.count, NAMES_MAX);
	step(&world, "*.3");
	step(&world, "<.4");
	step(&world, "+b4");
	step(&world, "<.9");
	cr_assert_eq(world.names.count, 1);
	cr_assert(all.memory - empty < 1024);
	world_fini(&world);
	cr_assert_eq(all.memory, memory);
	statements_fini(&all);
}
