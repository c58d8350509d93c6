/*
 * server_keys.c - see server_keys.h.
 *
 * The helper looks once more whether they are known by now: of several logins
 * that came for the same keys the first derives them for all.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/server_keys.h"

#include <string.h>

#include "core/base/check.h"
#include "core/pool.h"
#include "core/process.h"
#include "core/server.h"
#include "core/worker.h"

struct server_keys *server_keys_new(struct server *server, const char *secret,
                                    struct span server_first)
{
	size_t size = strlen(secret) + 1;
	struct server_keys *wanted = derive_new(sizeof *wanted + size + server_first.size);
	if (wanted == NULL)
		return NULL;
	wanted->job.owner = server;
	wanted->job.run = server_keys_derive;
	wanted->record = server->pool->record;
	wanted->secret_hash = bytes_hash(secret, size - 1, server->worker->process->seed);
	memcpy(wanted->text, secret, size);
	memcpy(wanted->text + size, server_first.data, server_first.size);
	wanted->server_first = span_of(wanted->text + size, server_first.size);
	return wanted;
}

bool server_keys_known(struct server_keys *wanted)
{
	struct pool_record *record = wanted->record;
	pthread_mutex_lock(&record->mutex);
	bool known = record->has_derived && record->derived_hash == wanted->secret_hash &&
	             record->derived_salt_size == wanted->salt_size &&
	             record->derived_iterations == wanted->iterations &&
	             memcmp(record->derived_salt, wanted->salt, wanted->salt_size) == 0;
	if (known)
		wanted->keys = record->derived;
	pthread_mutex_unlock(&record->mutex);
	return known;
}

static void keys_publish(const struct server_keys *made)
{
	struct pool_record *record = made->record;
	pthread_mutex_lock(&record->mutex);
	record->has_derived = true;
	record->derived = made->keys;
	record->derived_hash = made->secret_hash;
	record->derived_iterations = made->iterations;
	record->derived_salt_size = made->salt_size;
	memcpy(record->derived_salt, made->salt, made->salt_size);
	pthread_mutex_unlock(&record->mutex);
}

void server_keys_derive(struct derive_job *job)
{
	struct server_keys *wanted = CONTAINER(struct server_keys, job, job);
	if (server_keys_known(wanted))
		return;
	scram_keys_make(wanted->text, wanted->salt, wanted->salt_size, wanted->iterations,
	                &wanted->keys);
	keys_publish(wanted);
}
