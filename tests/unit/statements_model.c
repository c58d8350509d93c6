/* Names and caches against a model that replays history: what is confirmed, then
 * every change that is pending, in order.  Thousands of random steps: requests in
 * batches, replies, errors that skip to the end of a batch, others out of the middle,
 * evictions, forgetting, dying servers; positions wrap around. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/statements.h"

enum { KEYS = 40, EVENTS_MAX = 600, EVENTS_HIGH = 400, BATCHES_MAX = 4096, STEPS = 20000 };

struct event {
	uint32_t position;
	uint32_t key;   /* KEYS: all */
	uint32_t value; /* 0: absent */
	uint64_t noted; /* the keys of which there is a note */
};

struct model {
	uint32_t base[KEYS];
	struct event events[EVENTS_MAX];
	uint32_t count;
};

static struct statements all;
static struct statement *statements[KEYS];
static char keys[KEYS][16];
static struct model names_model, cache_model;
static struct names names;
static struct cache cache;
static struct journal journal;
static uint32_t batch, next, confirmed; /* positions: of this batch, of the next request */
static uint32_t batches[BATCHES_MAX], batch_count;
static uint32_t serial;

/* --- the model ------------------------------------------------------------ */

static void event_apply(uint32_t *values, const struct event *event)
{
	for (uint32_t key = 0; key < KEYS; key++)
		if (event->key == key || event->key == KEYS)
			values[key] = event->value;
}

static void values_of(const struct model *model, uint32_t *values)
{
	memcpy(values, model->base, sizeof model->base);
	for (uint32_t i = 0; i < model->count; i++)
		event_apply(values, &model->events[i]);
}

static void pending_of(const struct model *model, uint32_t *pending)
{
	memset(pending, 0, KEYS * sizeof *pending);
	for (uint32_t i = 0; i < model->count; i++)
		for (uint32_t key = 0; key < KEYS; key++)
			pending[key] += (model->events[i].noted >> key & 1) != 0;
}

static void model_change(struct model *model, uint32_t key, uint32_t value)
{
	uint32_t values[KEYS], pending[KEYS];
	values_of(model, values);
	pending_of(model, pending);
	struct event event = {.position = next, .key = key, .value = value};
	for (uint32_t i = 0; i < KEYS; i++)
		if ((key == i || key == KEYS) && (value != 0 || values[i] != 0 || pending[i] > 0))
			event.noted |= (uint64_t)1 << i;
	cr_assert(model->count < EVENTS_MAX);
	model->events[model->count++] = event;
}

static void model_undo(struct model *model, uint32_t from, uint32_t to)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < model->count; i++)
		if (position_before(model->events[i].position, from) ||
		    !position_before(model->events[i].position, to))
			model->events[kept++] = model->events[i];
	model->count = kept;
}

static void model_commit(struct model *model, uint32_t position)
{
	for (uint32_t i = 0; i < model->count; i++)
		if (position_before(model->events[i].position, position))
			event_apply(model->base, &model->events[i]);
	model_undo(model, position - INT32_MAX, position);
}

static void model_forget(struct model *model, uint32_t position)
{
	memset(model->base, 0, sizeof model->base);
	for (uint32_t i = 0; i < model->count; i++)
		if (position_before(model->events[i].position, position))
			model->events[i].value = 0;
}

/* --- comparing ------------------------------------------------------------ */

/* Whether a later batch can rely on it. */
static bool is_noted_before(const struct model *model, uint32_t key, uint32_t position)
{
	bool is_noted = false;
	for (uint32_t i = 0; i < model->count; i++)
		if (model->events[i].noted >> key & 1)
			is_noted = position_before(model->events[i].position, position);
	return is_noted;
}

static void names_check(void)
{
	uint32_t values[KEYS], pending[KEYS], count = 0, used = 0;
	values_of(&names_model, values);
	pending_of(&names_model, pending);
	for (uint32_t i = 0; i < KEYS; i++) {
		const struct name *name = names_find(&names, span_text(keys[i]));
		cr_assert_eq(name != NULL, values[i] != 0 || pending[i] > 0);
		count += values[i] != 0;
		used += name != NULL;
		if (name == NULL)
			continue;
		cr_assert_eq(name->pending, pending[i]);
		cr_assert_eq(name->statement, values[i] != 0 ? statements[values[i] - 1] : NULL);
		cr_assert_eq(is_settled(name->pending, name->position, next),
		             !is_noted_before(&names_model, i, next));
	}
	cr_assert_eq(names.count, count);
	cr_assert_eq(names.table.used, used);
}

static void cache_check(void)
{
	uint32_t values[KEYS], pending[KEYS], count = 0, used = 0;
	values_of(&cache_model, values);
	pending_of(&cache_model, pending);
	for (uint32_t i = 0; i < KEYS; i++) {
		const struct prepared *prepared = cache_find(&cache, statements[i]);
		cr_assert_eq(prepared != NULL, values[i] != 0 || pending[i] > 0);
		count += values[i] != 0;
		used += prepared != NULL;
		if (prepared == NULL)
			continue;
		cr_assert_eq(prepared->pending, pending[i]);
		cr_assert_eq(prepared->present, values[i] != 0);
		cr_assert_eq(link_is_in(&prepared->link), values[i] != 0);
		cr_assert(values[i] == 0 || prepared->fresh == values[i]);
	}
	cr_assert_eq(cache.lru.count, count);
	cr_assert_eq(cache.table.used, used);
}

static void notes_check(void)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < names_model.count; i++)
		count += (uint32_t)__builtin_popcountll(names_model.events[i].noted);
	for (uint32_t i = 0; i < cache_model.count; i++)
		count += (uint32_t)__builtin_popcountll(cache_model.events[i].noted);
	cr_assert_eq(journal.count, count);
}

/* --- steps ---------------------------------------------------------------- */

static uint32_t below(uint32_t bound)
{
	return (uint32_t)rand() % bound;
}

static void batch_end(void)
{
	cr_assert(batch_count < BATCHES_MAX);
	batches[batch_count++] = batch = next;
}

/* Of a request that is not answered yet, or of the next one. */
static uint32_t some_position(void)
{
	return confirmed + below(next - confirmed + 1);
}

static void name_change(uint32_t key, uint32_t value)
{
	cr_assert(names_set(&all, &names, &journal, span_text(keys[key]),
	                    value > 0 ? statements[value - 1] : NULL, next));
	model_change(&names_model, key, value);
}

static void prepared_change(uint32_t key, bool present)
{
	cr_assert(cache_set(&all, &cache, &journal, statements[key], present, next));
	if (present)
		cache_find(&cache, statements[key])->fresh = ++serial;
	model_change(&cache_model, key, present ? serial : 0);
}

static void oldest_evict(void)
{
	const struct prepared *oldest = cache_oldest(&cache, batch);
	list_each (struct prepared, prepared, link, &cache.lru) {
		if (prepared == oldest)
			break;
		cr_assert(prepared->pending > 0 && position_before(prepared->position, batch));
	}
	for (uint32_t i = 0; oldest != NULL && i < KEYS; i++)
		if (oldest->statement == statements[i]) {
			prepared_change(i, false);
			break;
		}
}

static void request(void)
{
	uint32_t key = below(KEYS);
	switch (below(24)) {
	case 0:
		cr_assert(names_clear(&all, &names, &journal, next));
		model_change(&names_model, KEYS, 0);
		break;
	case 1:
		cr_assert(cache_clear(&all, &cache, &journal, next));
		model_change(&cache_model, KEYS, 0);
		break;
	case 2:
	case 3: oldest_evict(); break;
	case 4:
	case 5:
	case 6: prepared_change(key, false); break;
	case 7:
	case 8:
	case 9: name_change(key, 0); break;
	case 10:
	case 11:
		if (cache_find(&cache, statements[key]) != NULL &&
		    cache_find(&cache, statements[key])->present)
			cache_touch(&cache, cache_find(&cache, statements[key]));
		break;
	case 12:
	case 13:
	case 14:
	case 15:
	case 16: name_change(key, 1 + below(KEYS)); break;
	default: prepared_change(key, true);
	}
	next += below(4) > 0; /* or another change of the same request */
}

static void commit(uint32_t position)
{
	journal_commit(&all, &journal, &names, &cache, position);
	model_commit(&names_model, position);
	model_commit(&cache_model, position);
	confirmed = position;
}

static void undo(uint32_t from, uint32_t to)
{
	journal_undo(&all, &journal, &names, &cache, from, to);
	model_undo(&names_model, from, to);
	model_undo(&cache_model, from, to);
}

/* An error at a request: what is before was answered, what follows is skipped up to
 * the end of its batch. */
static void fail(void)
{
	uint32_t position = some_position();
	uint32_t end = next;
	for (uint32_t i = batch_count; i > 0 && position_before(position, batches[i - 1]); i--)
		end = batches[i - 1];
	commit(position);
	undo(position, end);
	confirmed = end;
	if (end == next)
		batch_end();
}

static void forget(void)
{
	uint32_t position = some_position();
	uint32_t which = below(3);
	if (which != 0) {
		names_forget(&all, &names, &journal, position);
		model_forget(&names_model, position);
	}
	if (which != 1) {
		cache_forget(&all, &cache, &journal, position);
		model_forget(&cache_model, position);
	}
}

static void drop(void)
{
	journal_drop(&all, &journal, &names, &cache);
	values_of(&names_model, names_model.base);
	values_of(&cache_model, cache_model.base);
	names_model.count = cache_model.count = 0;
	confirmed = next;
}

static void step(void)
{
	uint32_t kind = below(400);
	uint32_t from = some_position();
	if (kind < 260)
		request();
	else if (kind < 300)
		batch_end();
	else if (kind < 350)
		commit(from);
	else if (kind < 375)
		fail();
	else if (kind < 388)
		undo(from, from + below(next - from + 1));
	else if (kind < 398)
		forget();
	else
		drop();
	/* undone in the middle of a batch: what follows is another one */
	if (kind >= 375 && kind < 388)
		batch_end();
	if (names_model.count > EVENTS_HIGH || cache_model.count > EVENTS_HIGH)
		commit(next);
	if (batch_count == BATCHES_MAX) {
		commit(batch);
		batch_count = 0;
	}
}

static void begin(const uint8_t *secret)
{
	cr_assert(statements_init(&all, secret));
	cache_init(&cache);
	for (uint32_t i = 0; i < KEYS; i++) {
		(void)snprintf(keys[i], sizeof keys[i], "%.*s%u", (int)(i % 9), "statement", i);
		if (i == 0)
			keys[i][0] = '\0';
		statements[i] = statement_acquire(&all, span_of(keys[i], sizeof keys[i]));
	}
	batch = next = confirmed = UINT32_MAX - STEPS / 8;
}

static void end(void)
{
	commit(next + 1);
	cr_assert_eq(journal.count, 0);
	drop();
	names_fini(&all, &names);
	cache_fini(&all, &cache);
	for (uint32_t i = 0; i < KEYS; i++)
		statement_release(&all, statements[i]);
	cr_assert_eq(all.memory, all.room * sizeof all.buckets[0]);
	statements_fini(&all);
}

Test(statements, are_what_history_says)
{
	static uint8_t secret[STATEMENT_SECRET_SIZE];
	memset(secret, 0x5a, sizeof secret);
	srand(1);
	begin(secret);
	for (uint32_t i = 0; i < STEPS; i++) {
		step();
		names_check();
		cache_check();
		notes_check();
	}
	cr_assert(next < STEPS);
	end();
}
