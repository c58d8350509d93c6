/*
 * registry.h - what workers know in common: databases, users, pools.
 *
 * Records live behind one plain mutex, are found by name at login and when a
 * pool is made, and never move; they are not touched per query.  Their atomic
 * members (accounts, client counts, flags) are used without the mutex.
 * Records are kept until the process ends: names are bounded by what the
 * config names, users that exist, and the autodb limit.
 *
 * A pool is a database entry and a pool user (the forced one, or the one that
 * logged in).  It has a process-wide id, a home worker, and in each worker
 * that uses it a struct pool, published in locals[].
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_REGISTRY_H
#define CORE_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/base/table.h"
#include "core/ledger.h"
#include "core/vars.h"
#include "net/addr.h"
#include "proto/scram.h"

struct config;
struct pool;

struct database {
	struct database *next;
	char name[DATABASE_NAME_MAX + 1];
	uint32_t hash; /* of the name */
	uint32_t id;
	bool is_auto; /* made from `*` */
	bool is_console;
	struct account account;          /* max_db_connections */
	_Atomic uint32_t clients;        /* logged in or logging in */
	_Atomic uint32_t schema_changes; /* seen so far; plans made before may be out of date */
	_Atomic bool paused, disabled;
	_Atomic bool removed; /* no entry in the config any more */
};

/* A verifier derived from a plaintext secret, with the secret it was made of:
 * published once per secret, never freed (the registry owns it). */
struct derived {
	struct derived *older;
	uint64_t secret_hash;
	struct scram_verifier verifier;
};

struct user {
	struct user *next;
	char name[USER_NAME_MAX + 1];
	uint32_t hash;          /* of the name */
	struct account account; /* max_user_connections */
	_Atomic uint32_t clients;
	_Atomic(struct derived *) derived;
};

/* What a login to a pool is told, from the pool's first server: immutable, kept
 * by the registry until the end, one per distinct content. */
struct welcome {
	struct welcome *older;
	uint32_t size; /* of text */
	uint32_t untracked_count;
	uint32_t tracked_at[VARS_MAX]; /* offset of the value in text; 0: unset */
	char text[];                   /* \0, then name\0value\0 of the untracked, then values */
};

/* A worker's part of a pool. */
struct pool_local {
	_Atomic(struct pool *) pool; /* published by that worker */
	_Atomic uint32_t clients;    /* served there, or on their way (core/place.h) */
};

struct pool_record {
	struct pool_record *next;
	uint32_t id;   /* from 0, without gaps */
	uint32_t home; /* worker */
	struct database *database;
	struct user *user;      /* pool user */
	struct account account; /* pool size */
	_Atomic uint32_t epoch; /* servers of an older epoch are to be closed */
	_Atomic(struct welcome *) welcome;
	struct pool_local *locals; /* by worker */

	pthread_mutex_t mutex; /* of what follows; logins only */
	bool has_keys;         /* SCRAM pass-through */
	struct scram_keys keys;
	char keys_secret[512]; /* the SCRAM secret they belong to */
	bool has_derived;      /* keys from a plaintext password */
	struct scram_keys derived;
	uint8_t derived_salt[SCRAM_SALT_MAX];
	uint32_t derived_salt_size, derived_iterations;
	uint64_t derived_hash;
};

struct registry {
	pthread_mutex_t mutex;
	uint32_t worker_count;
	uint64_t seed;
	struct database *databases; /* lists of all, and tables to find one */
	struct user *users;
	struct pool_record *pools;
	struct table databases_by_name, users_by_name, pools_by_names;
	uint32_t database_count, user_count, pool_count;
	struct welcome *welcomes;
};

void registry_init(struct registry *registry, uint32_t worker_count, uint64_t seed);
void registry_fini(struct registry *registry);

/* Applies limits of a snapshot to the records that exist, marks databases that
 * have lost their entry.  By control, before workers switch. */
void registry_configure(struct registry *registry, const struct config *config);

/* Finds or makes.  NULL: the config has no such database, and no `*`.
 * *made_auto is set when a database was made from `*` right now. */
struct database *registry_database(struct registry *registry, const struct config *config,
                                   const char *name, bool *made_auto);
struct user *registry_user(struct registry *registry, const struct config *config,
                           const char *name);
struct pool_record *registry_pool(struct registry *registry, const struct config *config,
                                  struct database *database, struct user *user);

/* Existing ones only; NULL if there is none. */
struct database *registry_find_database(struct registry *registry, const char *name);
struct user *registry_find_user(struct registry *registry, const char *name);

/* The pools so far, by id: an array of *count, to be freed by the caller. */
struct pool_record **registry_pools(struct registry *registry, uint32_t *count);

/* Publishes welcome data if the pool has none; takes the memory either way. */
void registry_welcome(struct registry *registry, struct pool_record *pool, struct welcome *welcome);

/* RECONNECT and the like: servers so far are to be closed, welcome forgotten. */
void registry_reconnect(struct registry *registry, struct pool_record *pool);

/* Limits that follow from a snapshot (pgbouncer.md 2.8). */
uint32_t pool_size_of(const struct config *config, const struct database *database,
                      const struct user *user);

#endif
