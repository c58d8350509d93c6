/*
 * config.c - a snapshot's life, its memory, and look-ups in it.
 *
 * Texts lie in blocks that are wiped when they go, since some are secrets.
 * config_with() makes a snapshot that has settings of its own and borrows all
 * the rest from the one that was loaded: a SET costs a few KiB, however many
 * users there are.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/config_parts.h"

enum { BLOCK_SIZE = 16 * 1024 };

struct config_block {
	struct config_block *next;
	size_t used, size;
	char bytes[];
};

char *config_room(struct config_memory *memory, size_t size)
{
	struct config_block *block = memory->blocks;
	if (block == NULL || size > block->size - block->used) {
		size_t room = MAX(size, (size_t)BLOCK_SIZE);
		block = malloc(sizeof(*block) + room);
		if (block == NULL) {
			memory->failed = true;
			return NULL;
		}
		*block = (struct config_block){.next = memory->blocks, .size = room};
		memory->blocks = block;
	}
	block->used += size;
	return block->bytes + block->used - size;
}

const char *config_text(struct config_memory *memory, struct span text)
{
	char *copy = config_room(memory, (size_t)text.size + 1);
	if (copy == NULL)
		return "";
	if (text.size > 0)
		memcpy(copy, text.data, text.size);
	copy[text.size] = '\0';
	return copy;
}

void *config_grow(struct config_memory *memory, void **array, uint32_t *count, uint32_t *room,
                  size_t object_size)
{
	if (*count == *room) {
		uint32_t more = *room == 0 ? 16 : *room > UINT32_MAX / 2 ? 0 : *room * 2;
		void *grown = more == 0 ? NULL : reallocarray(*array, more, object_size);
		if (grown == NULL) {
			memory->failed = true;
			return NULL;
		}
		*array = grown;
		*room = more;
	}
	return (char *)*array + (size_t)(*count)++ * object_size;
}

struct config *config_create(void)
{
	struct config *config = calloc(1, sizeof(*config));
	if (config == NULL)
		return NULL;
	config->memory = calloc(1, sizeof(*config->memory));
	if (config->memory == NULL) {
		free(config);
		return NULL;
	}
	config->path = "";
	atomic_init(&config->holders, 1);
	atomic_init(&config->memory->holders, 1);
	char reason[CONFIG_LINE_MAX];
	for (uint32_t i = 0; i < SETTING_COUNT; i++) {
		const struct setting *setting = &setting_table[i];
		if (setting->initial == NULL)
			continue; /* zero already */
		bool is_good = setting_set(config, setting, setting->initial, reason,
		                           sizeof(reason));
		CHECK(is_good);
	}
	memset(config->memory->is_set, 0, sizeof(config->memory->is_set));
	return config;
}

struct config *config_default(void)
{
	struct config *config = config_create();
	CHECK(config != NULL && !config->memory->failed);
	return config;
}

void config_hold(struct config *config)
{
	atomic_fetch_add_explicit(&config->holders, 1, memory_order_relaxed);
}

static void blocks_free(struct config_memory *memory)
{
	while (memory->blocks != NULL) {
		struct config_block *block = memory->blocks;
		memory->blocks = block->next;
		bytes_wipe(block->bytes, block->used);
		free(block);
	}
}

/* The arrays belong to the snapshot whose memory has none below. */
static void memory_drop(struct config_memory *memory, const struct config *config)
{
	while (memory != NULL &&
	       atomic_fetch_sub_explicit(&memory->holders, 1, memory_order_acq_rel) == 1) {
		struct config_memory *below = memory->below;
		if (below == NULL) {
			free(config->databases);
			free(config->users);
			free(config->peers);
		}
		blocks_free(memory);
		free(memory);
		memory = below;
	}
}

void config_drop(struct config *config)
{
	uint32_t holders = atomic_fetch_sub_explicit(&config->holders, 1, memory_order_acq_rel);
	CHECK(holders > 0);
	if (holders > 1)
		return;
	memory_drop(config->memory, config);
	free(config);
}

void database_entry_init(struct database_entry *entry, const char *name)
{
	*entry = (struct database_entry){
		.name = name,
		.dbname = name,
		.port = -1,
		.pool_size = -1,
		.min_pool_size = -1,
		.reserve_pool_size = -1,
		.pool_mode = POOL_MODE_UNSET,
		.query_wait_timeout = -1,
		.load_balance_hosts = LOAD_BALANCE_ROUND_ROBIN,
		.max_db_connections = -1,
		.max_db_client_connections = -1,
		.server_lifetime = -1,
	};
	if (strcmp(name, "*") == 0)
		entry->dbname = NULL;
}

void user_entry_init(struct user_entry *entry, const char *name)
{
	*entry = (struct user_entry){
		.name = name,
		.pool_mode = POOL_MODE_UNSET,
		.pool_size = -1,
		.reserve_pool_size = -1,
		.max_user_connections = -1,
		.max_user_client_connections = -1,
		.query_timeout = -1,
		.idle_transaction_timeout = -1,
		.transaction_timeout = -1,
		.client_idle_timeout = -1,
		.query_wait_timeout = -1,
	};
}

/* A snapshot made by config_with() may borrow the arrays. */
static bool is_mine(const struct config *config)
{
	return config->memory->below == NULL && atomic_load(&config->memory->holders) == 1;
}

void config_add_database(struct config *config, const struct database_entry *entry)
{
	CHECK(is_mine(config));
	struct database_entry *added = config_grow(config->memory, (void **)&config->databases,
	                                           &config->database_count,
	                                           &config->memory->database_room, sizeof(*added));
	CHECK(added != NULL);
	*added = *entry;
	entries_sort(config);
}

void config_add_user(struct config *config, const struct user_entry *entry)
{
	CHECK(is_mine(config));
	struct user_entry *added = config_grow(config->memory, (void **)&config->users,
	                                       &config->user_count, &config->memory->user_room,
	                                       sizeof(*added));
	CHECK(added != NULL);
	*added = *entry;
	entries_sort(config);
}

/* Both kinds of entry begin with their name. */
static const void *entry_find(const void *entries, uint32_t count, size_t size, const char *name)
{
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const void *entry = (const char *)entries + middle * size;
		int order = strcmp(name, *(const char *const *)entry);
		if (order == 0)
			return entry;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

_Static_assert(offsetof(struct database_entry, name) == 0, "entry_find");
_Static_assert(offsetof(struct user_entry, name) == 0, "entry_find");

const struct database_entry *config_find_database(const struct config *config, const char *name)
{
	return entry_find(config->databases, config->database_count, sizeof(*config->databases),
	                  name);
}

const struct user_entry *user_find(const struct user_entry *users, uint32_t count, const char *name)
{
	return entry_find(users, count, sizeof(*users), name);
}

const struct database_entry *config_entry_for(const struct config *config, const char *name)
{
	const struct database_entry *entry = config_find_database(config, name);
	return entry != NULL ? entry : config->autodb;
}

const struct user_entry *config_find_user(const struct config *config, const char *name)
{
	return user_find(config->users, config->user_count, name);
}

bool config_list_has(const char *list, const char *word)
{
	static const char gaps[] = ", \t\r\n\f\v";
	size_t size = strlen(word);
	if (list == NULL || size == 0)
		return false;
	for (;;) {
		list += strspn(list, gaps);
		size_t length = strcspn(list, gaps);
		if (length == 0)
			return false;
		if (length == size && memcmp(list, word, size) == 0)
			return true;
		list += length;
	}
}

bool config_is_set(const struct config *config, const char *key)
{
	const struct setting *setting = setting_find(key);
	CHECK(setting != NULL);
	return config->memory->is_set[setting_number(setting)];
}

struct config *config_with(const struct config *config, const char *key, const char *value,
                           const char **reason)
{
	static _Thread_local char said[CONFIG_LINE_MAX];
	*reason = said;
	const struct setting *setting = setting_find(key);
	if (setting == NULL) {
		snprintf(said, sizeof(said), "unknown parameter: pgbouncer/%s", key);
		return NULL;
	}
	struct config *copy = config_create();
	if (copy == NULL) {
		snprintf(said, sizeof(said), "out of memory");
		return NULL;
	}
	struct config_memory *memory = copy->memory;
	for (uint32_t i = 0; i < SETTING_COUNT; i++)
		setting_copy(&setting_table[i], copy, &config->settings);
	memcpy(memory->is_set, config->memory->is_set, sizeof(memory->is_set));
	bool is_good = !setting->is_live || setting_set(copy, setting, value, said, sizeof(said));
	const char *refusal = is_good ? setting_refusal(setting, &copy->settings) : NULL;
	if (refusal != NULL)
		snprintf(said, sizeof(said), "%s: %s", key, refusal);
	if (!is_good || refusal != NULL || memory->failed) {
		if (memory->failed)
			snprintf(said, sizeof(said), "out of memory");
		config_drop(copy);
		return NULL;
	}
	memory->below = config->memory->below == NULL ? config->memory : config->memory->below;
	atomic_fetch_add_explicit(&memory->below->holders, 1, memory_order_relaxed);
	copy->path = config_text(memory, span_text(config->path));
	copy->databases = config->databases;
	copy->database_count = config->database_count;
	copy->autodb = config->autodb;
	copy->users = config->users;
	copy->user_count = config->user_count;
	copy->peers = config->peers;
	copy->peer_count = config->peer_count;
	return copy;
}
