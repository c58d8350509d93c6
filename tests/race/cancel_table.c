/*
 * Writers insert, move and remove keys of their own in one small table, so that
 * they meet at the same entries; readers look up everybody's.  What a reader
 * finds must be a whole place of that key.  Then two insert the same key at the
 * same moment, over and over: at most one may succeed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "cancel/table.h"
#include "core/base/check.h"
#include "net/sys.h"

enum { WRITERS = 3, READERS = 2, KEYS = 64, BATCH = 400, CONTESTANTS = 2 };
enum { RUN_US = 2000 * 1000, CONTEST_US = 1000 * 1000 };

struct writer {
	uint32_t number;
	uint64_t seed, changes, refused, contests, won;
	bool present[KEYS];
	struct cancel_place place[KEYS];
};

static struct cancel_table *table;
static _Atomic uint32_t arrivals, winners;
static _Atomic bool over;
static uint64_t found_count[READERS], missed_count[READERS], moving_count[READERS];

static uint64_t random_below(uint64_t *seed, uint64_t bound)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % bound;
}

static void fail(const char *what)
{
	printf("cancel table: %s\n", what);
	exit(1);
}

/* Any part of a place tells the others, given the key. */
static struct cancel_place place_of(uint64_t key, uint32_t version)
{
	return (struct cancel_place){
		.worker = (uint16_t)(version * 31 + key),
		.slot = version,
		.generation = version * 2654435761U + (uint32_t)key,
	};
}

static bool place_equal(struct cancel_place a, struct cancel_place b)
{
	return a.worker == b.worker && a.slot == b.slot && a.generation == b.generation;
}

static void check_own(const struct writer *writer, uint64_t key, uint32_t k)
{
	struct cancel_place place;
	bool found = cancel_table_find(table, span_of(&key, sizeof key), &place);
	if (found != writer->present[k])
		fail(found ? "a removed key was found" : "a key that is in was not found");
	if (found && (place.moving || !place_equal(place, writer->place[k])))
		fail("a writer found another place than it wrote");
}

static void change_own(struct writer *writer)
{
	uint32_t k = (uint32_t)random_below(&writer->seed, KEYS);
	uint64_t key = (uint64_t)writer->number << 32 | k;
	struct span bytes = span_of(&key, sizeof key);
	struct cancel_place place = place_of(key, (uint32_t)random_below(&writer->seed, 1U << 30));
	check_own(writer, key, k);
	if (!writer->present[k]) {
		writer->present[k] = cancel_table_insert(table, bytes, place);
		writer->refused += !writer->present[k];
	} else if (random_below(&writer->seed, 3) == 0) {
		cancel_table_remove(table, bytes);
		writer->present[k] = false;
	} else if (!cancel_table_move(table, bytes, place)) {
		fail("a key that is in could not be moved");
	}
	writer->place[k] = place;
	check_own(writer, key, k);
	writer->changes++;
}

static void *write_keys(void *argument)
{
	struct writer *writer = argument;
	uint64_t end_us = sys_clock_us() + RUN_US;
	while (sys_clock_us() < end_us)
		for (uint32_t left = BATCH; left > 0; left--)
			change_own(writer);
	atomic_store(&over, true);
	for (uint32_t k = 0; k < KEYS; k++) {
		uint64_t key = (uint64_t)writer->number << 32 | k;
		cancel_table_remove(table, span_of(&key, sizeof key));
	}
	return NULL;
}

static void *look_up(void *argument)
{
	uint32_t number = *(uint32_t *)argument;
	uint64_t seed = 12345 + number;
	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		uint64_t key = random_below(&seed, WRITERS) << 32 | random_below(&seed, KEYS);
		struct cancel_place place;
		if (!cancel_table_find(table, span_of(&key, sizeof key), &place))
			missed_count[number]++;
		else if (place.moving)
			moving_count[number]++;
		else if (place_equal(place, place_of(key, place.slot)))
			found_count[number]++;
		else
			fail("a reader found a torn place");
	}
	return NULL;
}

/* Waits for the other contestant; both leave as close together as can be. */
static void meet(uint32_t meeting)
{
	atomic_fetch_add(&arrivals, 1);
	for (uint32_t spins = 0; atomic_load(&arrivals) < meeting * CONTESTANTS; spins++)
		if (spins > 5000)
			sched_yield();
}

/* Both insert the same key at one moment.  Whether there is another round is
 * decided by one of them, between two meetings. */
static void *contest(void *argument)
{
	struct writer *writer = argument;
	uint64_t end_us = sys_clock_us() + CONTEST_US;
	uint32_t meetings = 0;
	while (!atomic_load(&over)) {
		uint64_t key = UINT64_MAX - meetings;
		struct span bytes = span_of(&key, sizeof key);
		struct cancel_place place = place_of(key, writer->number), found;
		meet(++meetings);
		bool won = cancel_table_insert(table, bytes, place);
		if (won && atomic_fetch_add(&winners, 1) != 0)
			fail("two inserted the same key");
		meet(++meetings);
		if (won && (!cancel_table_find(table, bytes, &found) || !place_equal(found, place)))
			fail("the winner's place is not there");
		if (won) {
			cancel_table_remove(table, bytes);
			atomic_store(&winners, 0);
			writer->won++;
		}
		writer->contests++;
		if (writer->number == 0 && sys_clock_us() >= end_us)
			atomic_store(&over, true);
		meet(++meetings);
	}
	return NULL;
}

static void run(struct writer writers[WRITERS])
{
	pthread_t threads[WRITERS + READERS];
	uint32_t numbers[READERS];
	for (uint32_t i = 0; i < WRITERS; i++) {
		writers[i].number = i;
		writers[i].seed = 0x9e3779b97f4a7c15 * (i + 1);
		CHECK(pthread_create(&threads[i], NULL, write_keys, &writers[i]) == 0);
	}
	for (uint32_t i = 0; i < READERS; i++) {
		numbers[i] = i;
		CHECK(pthread_create(&threads[WRITERS + i], NULL, look_up, &numbers[i]) == 0);
	}
	for (uint32_t i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&over, false);
	for (uint32_t i = 0; i < CONTESTANTS; i++)
		CHECK(pthread_create(&threads[i], NULL, contest, &writers[i]) == 0);
	for (uint32_t i = 0; i < CONTESTANTS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	static struct writer writers[WRITERS];
	uint64_t changes = 0, refused = 0, won = 0, found = 0, missed = 0, moving = 0;
	size_t size = cancel_table_size(KEYS);
	void *memory = sys_pages(size);
	CHECK(memory != NULL);
	table = cancel_table_init(memory, size, 42);
	run(writers);
	for (uint32_t i = 0; i < WRITERS; i++) {
		changes += writers[i].changes;
		refused += writers[i].refused;
		won += writers[i].won;
		for (uint32_t k = 0; k < KEYS; k++) {
			uint64_t key = (uint64_t)i << 32 | k;
			struct cancel_place place;
			if (cancel_table_find(table, span_of(&key, sizeof key), &place))
				fail("a key is left over");
		}
	}
	for (uint32_t i = 0; i < READERS; i++) {
		found += found_count[i];
		missed += missed_count[i];
		moving += moving_count[i];
	}
	sys_pages_free(memory, size);
	printf("cancel table: %llu changes, %llu refused, %llu contests, %llu with a winner, "
	       "%llu found, %llu missed, %llu moving\n",
	       (unsigned long long)changes, (unsigned long long)refused,
	       (unsigned long long)writers[0].contests, (unsigned long long)won,
	       (unsigned long long)found, (unsigned long long)missed, (unsigned long long)moving);
	return changes > 0 && found > 0 && won > 0 ? 0 : 1;
}
