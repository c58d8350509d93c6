/*
 * welcome.c - what a client is told when it has logged in; see welcome.h.
 *
 * Most of it is the same for all clients of a pool: it is kept ready to be sent, with
 * the values as words of this worker.  What a client has asked for at its start takes
 * the place of the server's value.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/welcome.h"

#include <stdlib.h>
#include <string.h>

#include "cancel/table.h"
#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/pool.h"
#include "core/process.h"
#include "core/relay.h"
#include "core/worker.h"
#include "net/buf.h"
#include "net/sys.h"
#include "proto/write.h"

/* A message around a name and a value; what is behind the parameters. */
enum { STATUS_OVERHEAD = 8, WELCOME_END = 256, KEY_TRIES = 16 };

struct greeting {
	const struct welcome *of; /* made from; immutable, and never freed */
	struct vars vars;         /* what a client has that has asked for nothing */
	uint32_t size;
	uint32_t from[VARS_MAX], to[VARS_MAX]; /* of each parameter's message, in this order */
	uint8_t bytes[];
};

void greeting_free(struct worker *worker, struct greeting *greeting)
{
	if (greeting == NULL)
		return;
	vars_clear(&worker->words, &greeting->vars);
	free(greeting);
}

static uint32_t greeting_room(const struct welcome *welcome)
{
	uint32_t room = WELCOME_END + welcome->size + STATUS_OVERHEAD * welcome->untracked_count;
	for (uint32_t i = 0; i < vars_count(); i++)
		room += (uint32_t)strlen(vars_name(i)) + STATUS_OVERHEAD;
	return room;
}

static struct greeting *greeting_new(struct worker *worker, const struct welcome *welcome)
{
	uint32_t room = greeting_room(welcome);
	struct greeting *greeting = calloc(1, sizeof *greeting + room);
	if (greeting == NULL)
		return NULL;
	greeting->of = welcome;
	struct writer out = writer_over(greeting->bytes, room);
	write_authentication(&out, 0, span_of(NULL, 0));
	const char *at = welcome->text + 1;
	for (uint32_t i = 0; i < welcome->untracked_count; i++) {
		const char *value = at + strlen(at) + 1;
		write_parameter_status(&out, at, value);
		at = value + strlen(value) + 1;
	}
	for (uint32_t i = 0; i < vars_count(); i++) {
		const char *value = welcome->text + welcome->tracked_at[i];
		greeting->from[i] = out.size;
		if (welcome->tracked_at[i] != 0) {
			write_parameter_status(&out, vars_name(i), value);
			vars_set(&worker->words, &greeting->vars, i, value);
		}
		greeting->to[i] = out.size;
	}
	CHECK(!out.failed);
	greeting->size = out.size;
	return greeting;
}

/* Of the client's pool; NULL without memory. */
static const struct greeting *greeting_of(struct pool *pool, const struct welcome *welcome)
{
	if (pool->greeting != NULL && pool->greeting->of == welcome)
		return pool->greeting;
	greeting_free(pool->worker, pool->greeting);
	pool->greeting = greeting_new(pool->worker, welcome);
	return pool->greeting;
}

/* What it asked for at its start can be given to it on every server only if
 * servers report it; otherwise it would have it now and then, and is not *asked. */
static bool welcome_asked(struct client *client, const struct welcome *welcome, uint32_t *asked)
{
	const struct settings *settings = &client->worker->config->settings;
	vars_each (i, *asked) {
		const char *name = vars_name(i);
		if (welcome->tracked_at[i] != 0 ||
		    config_list_has(settings->track_extra_parameters, name))
			continue;
		if (!config_list_has(settings->ignore_startup_parameters, name)) {
			char text[REASON_MAX + 1];
			text_format(text, sizeof text, "unsupported startup parameter: %s", name);
			client_fail(client, NULL, text);
			return false;
		}
		word_release(&client->worker->words, client->vars.values[i]);
		client->vars.values[i] = NULL;
		client->vars.version = 0;
		*asked &= ~(1U << i);
	}
	return true;
}

/* What it asked for at its start, in place of what all are told. */
static void welcome_parameters(struct client *client, const struct greeting *greeting,
                               uint32_t asked, struct writer *out)
{
	uint32_t done = 0;
	vars_each (i, asked) {
		writer_bytes(out, greeting->bytes + done, greeting->from[i] - done);
		write_parameter_status(out, vars_name(i), client->vars.values[i]->text);
		done = greeting->to[i];
	}
	writer_bytes(out, greeting->bytes + done, greeting->size - done);
}

static uint32_t parameters_size(const struct client *client, const struct greeting *greeting,
                                uint32_t asked)
{
	uint32_t size = greeting->size;
	vars_each (i, asked)
		size += client->vars.values[i]->size + STATUS_OVERHEAD +
		        (uint32_t)strlen(vars_name(i));
	return size;
}

/* A part of the worker's store, which one system call fills for many. */
static void random_take(struct worker *worker, uint8_t *bytes, uint32_t size)
{
	if (worker->random_left < size) {
		sys_random(worker->random, sizeof worker->random);
		worker->random_left = sizeof worker->random;
	}
	worker->random_left -= size;
	memcpy(bytes, worker->random + worker->random_left, size);
	bytes_wipe(worker->random + worker->random_left, size);
}

/* The key goes into the table before the client can know it. */
static bool client_key(struct client *client)
{
	struct worker *worker = client->worker;
	struct cancel_place place = {
		.worker = (uint16_t)worker->index,
		.slot = op_slot_of(&client->conn.owner),
		.generation = op_generation_of(&client->conn.owner),
	};
	for (int tries = 0; tries < KEY_TRIES; tries++) {
		uint8_t random[sizeof client->key.bytes];
		random_take(worker, random, sizeof random);
		cancel_key_make(&client->key, random, client->protocol_long,
		                (uint16_t)worker->config->settings.peer_id);
		if (cancel_table_insert(worker->process->cancels,
		                        span_of(client->key.bytes, client->key.size), place))
			return client->in_cancel_table = true;
	}
	return false;
}

static struct buf *welcome_packet(struct client *client, const struct greeting *greeting,
                                  uint32_t asked)
{
	const char *notice = client->worker->config->settings.login_notify_message;
	uint32_t size = parameters_size(client, greeting, asked) + WELCOME_END;
	if (notice != NULL)
		size += (uint32_t)strlen(notice);
	struct buf *buf = buf_block(&client->worker->loop.bufs, size);
	if (buf == NULL)
		return NULL;
	struct writer out = writer_over(buf->data, buf->capacity);
	welcome_parameters(client, greeting, asked, &out);
	write_backend_key(&out, span_of(client->key.bytes, client->key.size));
	if (notice != NULL && *notice != '\0')
		write_notice(&out, notice, NULL);
	write_ready(&out, 'I');
	CHECK(!out.failed);
	buf->used = out.size;
	return buf;
}

void client_welcome(struct client *client, const struct welcome *welcome)
{
	struct buf_pool *bufs = &client->worker->loop.bufs;
	uint32_t asked = vars_given(&client->vars);
	if (!welcome_asked(client, welcome, &asked))
		return;
	const struct greeting *greeting = greeting_of(client->pool, welcome);
	struct buf *buf = NULL;
	if (greeting != NULL && client_key(client))
		buf = welcome_packet(client, greeting, asked);
	if (buf == NULL) {
		client_fail(client, NULL, "failed to prepare welcome message");
		return;
	}
	client->start = vars_keep_start(&client->worker->words, &client->vars, asked);
	vars_fill(&client->vars, &greeting->vars);
	login_free(client);
	client_move(client, CLIENT_READY);
	client->query_us = client->xact_us = 0; /* wait_us: pool_unqueue() */
	client->scan = (struct scan){0};
	conn_send(&client->conn, buf, 0, buf->used);
	relay_resume(client);
	buf_drop(bufs, buf);
}
