/*
 * registry.c - see registry.h.
 *
 * Logins of all workers meet at the mutex, and there may be tens of thousands of
 * names: a record is found by hash, and hashed before the mutex is taken.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/registry.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/config.h"

static const char console_name[] = "pgbouncer";

static void text_copy(char *to, size_t room, const char *from)
{
	size_t size = strlen(from);
	CHECK(size < room);
	memcpy(to, from, size + 1);
}

static uint32_t positive(int64_t value, int64_t otherwise)
{
	int64_t chosen = value > 0 ? value : otherwise;
	return chosen > 0 ? (uint32_t)MIN(chosen, INT32_MAX) : 0;
}

uint32_t pool_size_of(const struct config *config, const struct database *database,
                      const struct user *user)
{
	const struct database_entry *entry = config_entry_for(config, database->name);
	const struct user_entry *own = config_find_user(config, user->name);
	if (own != NULL && own->pool_size >= 0 && (entry == NULL || entry->user == NULL))
		return (uint32_t)own->pool_size;
	if (entry != NULL && entry->pool_size >= 0)
		return (uint32_t)entry->pool_size;
	return positive(config->settings.default_pool_size, 0);
}

static void database_limit(struct database *database, const struct config *config)
{
	const struct database_entry *entry = config_entry_for(config, database->name);
	account_set_limit(&database->account,
	                  positive(entry != NULL ? entry->max_db_connections : -1,
	                           config->settings.max_db_connections));
}

static void user_limit(struct user *user, const struct config *config)
{
	const struct user_entry *entry = config_find_user(config, user->name);
	account_set_limit(&user->account, positive(entry != NULL ? entry->max_user_connections : -1,
	                                           config->settings.max_user_connections));
}

static void *record_new(size_t size)
{
	size_t rounded = (size + 63) & ~(size_t)63;
	void *record = aligned_alloc(64, rounded);
	if (record != NULL)
		memset(record, 0, rounded);
	return record;
}

static uint32_t name_hash(const struct registry *registry, const char *name)
{
	return (uint32_t)bytes_hash(name, strlen(name), registry->seed);
}

static uint32_t database_hash(const void *database)
{
	return ((const struct database *)database)->hash;
}

static uint32_t user_hash(const void *user)
{
	return ((const struct user *)user)->hash;
}

static uint32_t pool_hash_of(const struct database *database, const struct user *user)
{
	return database->hash * 31 + user->hash;
}

static uint32_t pool_hash(const void *pool)
{
	const struct pool_record *record = pool;
	return pool_hash_of(record->database, record->user);
}

static struct database *database_new(struct registry *registry, const char *name, uint32_t hash)
{
	if (!table_reserve(&registry->databases_by_name, database_hash))
		return NULL;
	struct database *database = record_new(sizeof *database);
	if (database == NULL)
		return NULL;
	text_copy(database->name, sizeof database->name, name);
	database->hash = hash;
	table_insert(&registry->databases_by_name, hash, database);
	database->id = registry->database_count++;
	database->next = registry->databases;
	registry->databases = database;
	return database;
}

void registry_init(struct registry *registry, uint32_t worker_count, uint64_t seed)
{
	*registry = (struct registry){.worker_count = worker_count, .seed = seed};
	pthread_mutex_init(&registry->mutex, NULL);
	struct database *console = database_new(registry, console_name,
	                                        name_hash(registry, console_name));
	CHECK(console != NULL);
	console->is_console = true;
}

#define FREE_ALL(type, list)                                          \
	for (type *item = (list), *next; item != NULL; item = next) { \
		next = item->next;                                    \
		free(item);                                           \
	}

static void user_free(struct user *user)
{
	struct derived *derived = atomic_load(&user->derived);
	while (derived != NULL) {
		struct derived *older = derived->older;
		bytes_wipe(derived, sizeof *derived);
		free(derived);
		derived = older;
	}
	free(user);
}

void registry_fini(struct registry *registry)
{
	FREE_ALL(struct database, registry->databases)
	for (struct user *user = registry->users, *next; user != NULL; user = next) {
		next = user->next;
		user_free(user);
	}
	for (struct pool_record *pool = registry->pools, *next; pool != NULL; pool = next) {
		next = pool->next;
		pthread_mutex_destroy(&pool->mutex);
		free(pool->locals);
		bytes_wipe(&pool->keys, sizeof pool->keys);
		bytes_wipe(&pool->derived, sizeof pool->derived);
		free(pool);
	}
	for (struct welcome *welcome = registry->welcomes, *older; welcome != NULL;
	     welcome = older) {
		older = welcome->older;
		free(welcome);
	}
	table_fini(&registry->databases_by_name);
	table_fini(&registry->users_by_name);
	table_fini(&registry->pools_by_names);
	pthread_mutex_destroy(&registry->mutex);
	*registry = (struct registry){0};
}

static struct database *database_find(const struct registry *registry, const char *name,
                                      uint32_t hash)
{
	const struct table *table = &registry->databases_by_name;
	for (uint32_t i = table_at(table, hash); table->used > 0 && table->slots[i] != NULL;
	     i = table_next(table, i)) {
		struct database *database = table->slots[i];
		if (database->hash == hash && strcmp(database->name, name) == 0)
			return database;
	}
	return NULL;
}

static struct user *user_find(const struct registry *registry, const char *name, uint32_t hash)
{
	const struct table *table = &registry->users_by_name;
	for (uint32_t i = table_at(table, hash); table->used > 0 && table->slots[i] != NULL;
	     i = table_next(table, i)) {
		struct user *user = table->slots[i];
		if (user->hash == hash && strcmp(user->name, name) == 0)
			return user;
	}
	return NULL;
}

static struct pool_record *pool_find(const struct registry *registry,
                                     const struct database *database, const struct user *user)
{
	const struct table *table = &registry->pools_by_names;
	for (uint32_t i = table_at(table, pool_hash_of(database, user));
	     table->used > 0 && table->slots[i] != NULL; i = table_next(table, i)) {
		struct pool_record *pool = table->slots[i];
		if (pool->database == database && pool->user == user)
			return pool;
	}
	return NULL;
}

void registry_configure(struct registry *registry, const struct config *config)
{
	pthread_mutex_lock(&registry->mutex);
	for (struct database *d = registry->databases; d != NULL; d = d->next) {
		if (d->is_console)
			continue;
		const struct database_entry *own = config_find_database(config, d->name);
		d->is_auto = own == NULL;
		atomic_store(&d->removed, own == NULL && config->autodb == NULL);
		database_limit(d, config);
	}
	for (struct user *u = registry->users; u != NULL; u = u->next)
		user_limit(u, config);
	for (struct pool_record *p = registry->pools; p != NULL; p = p->next)
		account_set_limit(&p->account, pool_size_of(config, p->database, p->user));
	pthread_mutex_unlock(&registry->mutex);
}

struct database *registry_database(struct registry *registry, const struct config *config,
                                   const char *name, bool *made_auto)
{
	*made_auto = false;
	if (strlen(name) > DATABASE_NAME_MAX)
		return NULL;
	bool is_console = strcmp(name, console_name) == 0;
	bool is_named = config_find_database(config, name) != NULL;
	if (!is_console && !is_named && config->autodb == NULL)
		return NULL;
	uint32_t hash = name_hash(registry, name);
	pthread_mutex_lock(&registry->mutex);
	struct database *database = database_find(registry, name, hash);
	if (database == NULL && registry->database_count < REGISTRY_NAMES_MAX) {
		database = database_new(registry, name, hash);
		if (database != NULL) {
			database->is_auto = *made_auto = !is_named;
			database_limit(database, config);
		}
	}
	pthread_mutex_unlock(&registry->mutex);
	return database;
}

static struct user *user_new(struct registry *registry, const struct config *config,
                             const char *name, uint32_t hash)
{
	if (!table_reserve(&registry->users_by_name, user_hash))
		return NULL;
	struct user *user = record_new(sizeof *user);
	if (user == NULL)
		return NULL;
	text_copy(user->name, sizeof user->name, name);
	user->hash = hash;
	user_limit(user, config);
	table_insert(&registry->users_by_name, hash, user);
	user->next = registry->users;
	registry->users = user;
	registry->user_count++;
	return user;
}

struct user *registry_user(struct registry *registry, const struct config *config, const char *name)
{
	if (strlen(name) > USER_NAME_MAX)
		return NULL;
	uint32_t hash = name_hash(registry, name);
	pthread_mutex_lock(&registry->mutex);
	struct user *user = user_find(registry, name, hash);
	if (user == NULL && registry->user_count < REGISTRY_NAMES_MAX)
		user = user_new(registry, config, name, hash);
	pthread_mutex_unlock(&registry->mutex);
	return user;
}

static struct pool_record *pool_new(struct registry *registry, const struct config *config,
                                    struct database *database, struct user *user)
{
	if (!table_reserve(&registry->pools_by_names, pool_hash))
		return NULL;
	struct pool_record *pool = record_new(sizeof *pool);
	if (pool == NULL)
		return NULL;
	pool->locals = calloc(registry->worker_count, sizeof pool->locals[0]);
	if (pool->locals == NULL) {
		free(pool);
		return NULL;
	}
	pthread_mutex_init(&pool->mutex, NULL);
	pool->id = registry->pool_count++;
	uint64_t hash = bytes_hash(&pool->id, sizeof pool->id, registry->seed);
	pool->home = (uint32_t)(hash % registry->worker_count);
	pool->database = database;
	pool->user = user;
	account_set_limit(&pool->account, pool_size_of(config, database, user));
	table_insert(&registry->pools_by_names, pool_hash(pool), pool);
	pool->next = registry->pools;
	registry->pools = pool;
	return pool;
}

struct pool_record *registry_pool(struct registry *registry, const struct config *config,
                                  struct database *database, struct user *user)
{
	pthread_mutex_lock(&registry->mutex);
	struct pool_record *pool = pool_find(registry, database, user);
	if (pool == NULL)
		pool = pool_new(registry, config, database, user);
	pthread_mutex_unlock(&registry->mutex);
	return pool;
}

struct database *registry_find_database(struct registry *registry, const char *name)
{
	uint32_t hash = name_hash(registry, name);
	pthread_mutex_lock(&registry->mutex);
	struct database *database = database_find(registry, name, hash);
	pthread_mutex_unlock(&registry->mutex);
	return database;
}

struct user *registry_find_user(struct registry *registry, const char *name)
{
	uint32_t hash = name_hash(registry, name);
	pthread_mutex_lock(&registry->mutex);
	struct user *user = user_find(registry, name, hash);
	pthread_mutex_unlock(&registry->mutex);
	return user;
}

struct pool_record **registry_pools(struct registry *registry, uint32_t *count)
{
	pthread_mutex_lock(&registry->mutex);
	*count = registry->pool_count;
	struct pool_record **pools = (struct pool_record **)calloc(registry->pool_count + 1,
	                                                           sizeof(struct pool_record *));
	for (struct pool_record *p = registry->pools; p != NULL && pools != NULL; p = p->next)
		pools[p->id] = p;
	pthread_mutex_unlock(&registry->mutex);
	CHECK(pools != NULL);
	return pools;
}

static bool welcome_equal(const struct welcome *a, const struct welcome *b)
{
	return a->size == b->size && a->untracked_count == b->untracked_count &&
	       memcmp(a->tracked_at, b->tracked_at, sizeof a->tracked_at) == 0 &&
	       memcmp(a->text, b->text, a->size) == 0;
}

void registry_welcome(struct registry *registry, struct pool_record *pool, struct welcome *welcome)
{
	pthread_mutex_lock(&registry->mutex);
	struct welcome *known = registry->welcomes;
	while (known != NULL && !welcome_equal(known, welcome))
		known = known->older;
	if (known != NULL) {
		free(welcome);
	} else {
		known = welcome;
		known->older = registry->welcomes;
		registry->welcomes = known;
	}
	if (atomic_load(&pool->welcome) == NULL)
		atomic_store_explicit(&pool->welcome, known, memory_order_release);
	pthread_mutex_unlock(&registry->mutex);
}

void registry_reconnect(struct registry *registry, struct pool_record *pool)
{
	pthread_mutex_lock(&registry->mutex);
	atomic_fetch_add(&pool->epoch, 1);
	atomic_store_explicit(&pool->welcome, NULL, memory_order_release);
	pthread_mutex_unlock(&registry->mutex);
}
