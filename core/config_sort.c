/*
 * config_sort.c - brings the entries of a snapshot into their order.
 *
 * A load adds entries as they come, a million users too, and sorts at the end.
 * Where several have one name the last one counts, as in the file; but one from
 * the auth_file brings its secret only, and keeps what [users] says.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "core/config_parts.h"

struct order {
	const char *name;
	uint32_t number;
};

static int order_compare(const void *a, const void *b)
{
	const struct order *left = a, *right = b;
	int order = strcmp(left->name, right->name);
	if (order != 0)
		return order;
	return left->number < right->number ? -1 : left->number > right->number;
}

static int peer_compare(const void *a, const void *b)
{
	const struct peer_entry *left = a, *right = b;
	return left->id < right->id ? -1 : left->id > right->id;
}

static void user_merge(struct user_entry *into, const struct user_entry *from)
{
	struct user_entry merged = from->in_auth_file ? *into : *from;
	const struct user_entry *known = from->in_auth_file ? from : into;
	if (known->in_auth_file) {
		merged.secret = known->secret;
		merged.secret_kind = known->secret_kind;
		merged.in_auth_file = true;
	}
	*into = merged;
}

/* The sorted order of `count` objects whose first member is their name; NULL
 * without memory. */
static struct order *order_make(struct config_memory *memory, const void *objects, uint32_t count,
                                size_t size)
{
	struct order *order = reallocarray(NULL, count, sizeof(*order));
	if (order == NULL) {
		memory->failed = true;
		return NULL;
	}
	for (uint32_t i = 0; i < count; i++) {
		const void *object = (const char *)objects + i * size;
		order[i] = (struct order){*(const char *const *)object, i};
	}
	qsort(order, count, sizeof(*order), order_compare);
	return order;
}

static void databases_sort(struct config *config)
{
	struct config_memory *memory = config->memory;
	uint32_t count = config->database_count, kept = 0;
	if (count == 0)
		return;
	struct database_entry *sorted = reallocarray(NULL, count, sizeof(*sorted));
	struct order *order = order_make(memory, config->databases, count, sizeof(*sorted));
	if (sorted == NULL || order == NULL) {
		memory->failed = true;
		free(sorted);
		free(order);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct database_entry *entry = &config->databases[order[i].number];
		if (i + 1 < count && strcmp(entry->name, order[i + 1].name) == 0)
			continue;
		if (strcmp(entry->name, "*") == 0) {
			memory->autodb = *entry;
			config->autodb = &memory->autodb;
		} else {
			sorted[kept++] = *entry;
		}
	}
	free(order);
	free(config->databases);
	config->databases = sorted;
	config->database_count = kept;
	memory->database_room = count;
}

static void users_sort(struct config *config)
{
	struct config_memory *memory = config->memory;
	uint32_t count = config->user_count, kept = 0;
	if (count == 0)
		return;
	struct user_entry *sorted = reallocarray(NULL, count, sizeof(*sorted));
	struct order *order = order_make(memory, config->users, count, sizeof(*sorted));
	if (sorted == NULL || order == NULL) {
		memory->failed = true;
		free(sorted);
		free(order);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct user_entry *entry = &config->users[order[i].number];
		if (i > 0 && strcmp(entry->name, order[i - 1].name) == 0)
			user_merge(&sorted[kept - 1], entry);
		else
			sorted[kept++] = *entry;
	}
	free(order);
	free(config->users);
	config->users = sorted;
	config->user_count = kept;
	memory->user_room = count;
}

/* Few, and an id given again is rare: the stable way is to look. */
static void peers_sort(struct config *config)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < config->peer_count; i++) {
		uint32_t at = 0;
		while (at < kept && config->peers[at].id != config->peers[i].id)
			at++;
		config->peers[at] = config->peers[i];
		kept += at == kept;
	}
	config->peer_count = kept;
	if (kept > 0)
		qsort(config->peers, kept, sizeof(*config->peers), peer_compare);
}

void entries_sort(struct config *config)
{
	databases_sort(config);
	users_sort(config);
	peers_sort(config);
}
