/*
 * client.c - see client.h.
 *
 * How a client ends has one way: whatever the cause, what it holds is let go
 * first (its server, its place in a queue), then it may be told why, then its
 * conn finishes and on_closed frees it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cancel/table.h"
#include "core/admin/console.h"
#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config.h"
#include "core/log.h"
#include "core/place.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/relay.h"
#include "core/relay_named.h"
#include "core/server.h"
#include "core/worker.h"
#include "net/buf.h"
#include "net/sys.h"
#include "proto/sqlstate.h"
#include "proto/write.h"

enum { SILENT_MAX = 256 };

static const uint16_t allowed_moves[CLIENT_STATE_COUNT] = {
#define TO(state) (1U << CLIENT_##state)
	[CLIENT_STARTUP] = TO(AUTH) | TO(WELCOME) | TO(CONSOLE) | TO(CANCEL) | TO(CLOSING),
	[CLIENT_AUTH] = TO(MOVING) | TO(WELCOME) | TO(CONSOLE) | TO(CLOSING),
	[CLIENT_MOVING] = TO(CLOSING),
	[CLIENT_WELCOME] = TO(READY) | TO(CLOSING),
	[CLIENT_READY] = TO(WAITING) | TO(CLOSING),
	[CLIENT_WAITING] = TO(READY) | TO(CLOSING),
	[CLIENT_CONSOLE] = TO(CLOSING),
	[CLIENT_CANCEL] = TO(CLOSING),
#undef TO
};

static struct list *client_list(struct client *client)
{
	struct worker *worker = client->worker;
	switch ((enum client_state)client->state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTH:
	case CLIENT_MOVING: return &worker->logins;
	case CLIENT_WELCOME:
	case CLIENT_WAITING: return &client->pool->waiting;
	case CLIENT_READY: return &client->pool->active;
	case CLIENT_CONSOLE: return &worker->consoles;
	case CLIENT_CANCEL: return &worker->cancels;
	case CLIENT_CLOSING:
	case CLIENT_STATE_COUNT: break;
	}
	return &worker->closing;
}

void client_move(struct client *client, enum client_state state)
{
	CHECK(allowed_moves[client->state] & (1U << state));
	CHECK_SLOW(client->state != CLIENT_WELCOME || client->pool != NULL);
	if (client->state == CLIENT_WELCOME)
		client->pool->welcome_waiting--;
	list_remove(client_list(client), &client->link);
	client->state = (uint8_t)state;
	list_append(client_list(client), &client->link);
	if (client->state == CLIENT_WELCOME)
		client->pool->welcome_waiting++;
}

static const char *name_or(const char *name, const char *otherwise)
{
	return name != NULL ? name : otherwise;
}

void client_log(const struct client *client, int level, const char *format, ...)
{
	if (!log_shows((enum log_level)level))
		return;
	char peer[ADDR_TEXT_MAX];
	addr_text(&client->address, peer);
	if (client->is_unix)
		text_format(peer, sizeof peer, "unix(%u):%d", client->unix_pid,
		            client->worker->config->settings.listen_port);
	const char *database = client->database != NULL ? client->database->name
	                                                : login_database(client);
	const char *user = client->user != NULL ? client->user->name : login_user(client);
	const struct log_session of = {
		"C-", client, name_or(database, "(nodb)"), name_or(user, "(nouser)"), peer,
	};
	va_list arguments;
	va_start(arguments, format);
	log_session((enum log_level)level, &of, format, arguments);
	va_end(arguments);
}

static void client_address(struct client *client)
{
	struct addr addr;
	if (sys_peer_name(client->conn.fd, &addr) == 0)
		client->address = addr_shorten(&addr);
	uid_t uid;
	pid_t pid;
	if (client->is_unix && sys_peer_process(client->conn.fd, &uid, &pid) == 0)
		client->unix_pid = (uint32_t)pid;
}

static void client_count(struct client *client, int32_t change)
{
	struct worker *worker = client->worker;
	atomic_fetch_add_explicit(&worker->client_count, (uint32_t)change, memory_order_relaxed);
	atomic_fetch_add_explicit(&worker->process->clients, (uint32_t)change,
	                          memory_order_relaxed);
}

struct client *client_new(struct worker *worker, int fd, bool is_unix, bool has_spoken)
{
	struct client *client = slab_acquire(&worker->clients);
	if (client == NULL)
		return NULL;
	client->worker = worker;
	client->is_unix = is_unix;
	if (!conn_accept(&client->conn, &worker->loop, fd, RING_GROUP_CLIENT, &client_events,
	                 has_spoken)) {
		slab_release(&worker->clients, client);
		return NULL;
	}
	list_append(&worker->logins, &client->link);
	return client;
}

void client_free(struct client *client)
{
	struct worker *worker = client->worker;
	login_free(client);
	place_free(client);
	console_free(client);
	vars_clear(&worker->words, &client->vars);
	vars_free_start(&worker->words, client->start);
	extended_free(client);
	part_fini(&client->part);
	list_remove(client_list(client), &client->link);
	slab_release(&worker->clients, client);
}

void client_open(struct worker *worker, int fd, bool is_unix)
{
	uint32_t count = atomic_load_explicit(&worker->process->clients, memory_order_relaxed);
	uint32_t most = (uint32_t)MAX(worker->config->settings.max_client_conn, 0) + SILENT_MAX;
	/* beyond the limit there is room to say so to a few, not to a flood */
	bool room = !worker->stopping && count < most;
	bool has_spoken = !is_unix && worker->config->settings.tcp_defer_accept;
	struct client *client = room ? client_new(worker, fd, is_unix, has_spoken) : NULL;
	if (client == NULL) {
		sys_close(fd);
		return;
	}
	client->connect_us = client->request_us = worker->loop.now_us;
	client->id = atomic_fetch_add(&worker->process->next_id, 1) + 1;
	client_count(client, 1);
	client_address(client);
	if (!login_begin(client))
		client_close(client, "out of memory");
}

static struct held *held_new(struct client *client, const uint8_t *bytes, uint32_t size)
{
	struct worker *worker = client->worker;
	struct held *held = slab_acquire(&worker->helds);
	struct buf *buf = held != NULL ? buf_block(&worker->loop.bufs, size) : NULL;
	if (buf == NULL) {
		if (held != NULL)
			slab_release(&worker->helds, held);
		client_fail(client, "53200", "out of memory");
		return NULL;
	}
	memcpy(buf->data, bytes, size);
	buf->used = size;
	*held = (struct held){.buf = buf, .to = size};
	return held;
}

void client_hold(struct client *client, const uint8_t *bytes, uint32_t size)
{
	if (size == 0)
		return;
	struct held *last = client->held_last;
	if (last != NULL && last->buf->capacity - last->to >= size) {
		memcpy(last->buf->data + last->to, bytes, size);
		last->to += size;
		last->buf->used = last->to;
		return;
	}
	struct held *held = held_new(client, bytes, size);
	if (held == NULL)
		return;
	if (client->held_last != NULL)
		client->held_last->next = held;
	else
		client->held_first = held;
	client->held_last = held;
}

void client_hold_first(struct client *client, const uint8_t *bytes, uint32_t size)
{
	struct held *held = held_new(client, bytes, size);
	if (held == NULL)
		return;
	held->next = client->held_first;
	client->held_first = held;
	if (client->held_last == NULL)
		client->held_last = held;
}

void client_drop_held(struct client *client)
{
	struct worker *worker = client->worker;
	while (client->held_first != NULL) {
		struct held *held = client->held_first;
		client->held_first = held->next;
		buf_drop(&worker->loop.bufs, held->buf);
		slab_release(&worker->helds, held);
	}
	client->held_last = NULL;
}

static bool client_is_queued(const struct client *client)
{
	return client->state == CLIENT_WAITING || client->state == CLIENT_WELCOME;
}

/* What becomes of the server of a client that leaves (pgbouncer.md 5.4). */
static void client_let_server_go(struct client *client)
{
	struct server *server = client->server;
	if (server == NULL)
		return;
	bool whole = client_is_between(client);
	relay_detach(server);
	if (!server->track.ready || !whole)
		server_close(server, "client disconnect while server was not ready");
	else if (server->setting_vars || !track_is_free(&server->track))
		server_close(server, "client disconnected with query in progress");
	else
		server_release(server);
}

static void client_uncount(struct client *client)
{
	if (client->counted_database)
		atomic_fetch_sub(&client->database->clients, 1);
	if (client->counted_user)
		atomic_fetch_sub(&client->user->clients, 1);
	client->counted_database = client->counted_user = false;
}

static void client_say(struct client *client, const char *sqlstate, const char *text)
{
	uint8_t packet[ERROR_PACKET_MAX];
	char cut[REASON_MAX + 1];
	text_set(cut, sizeof cut, text);
	struct writer out = writer_over(packet, sizeof packet);
	write_error(&out, "FATAL", sqlstate, cut);
	conn_send_copy(&client->conn, packet, out.size);
}

/* `text` NULL: without a word. */
static void client_end(struct client *client, const char *sqlstate, const char *text,
                       const char *reason)
{
	if (client->state == CLIENT_CLOSING)
		return;
	struct worker *worker = client->worker;
	const struct settings *settings = &worker->config->settings;
	/* in the middle of a server's message a word of ours would be part of it */
	bool may_speak = text != NULL && client->state != CLIENT_CANCEL &&
	                 (client->server == NULL || server_is_between(client->server));
	if (settings->log_disconnections && reason != NULL)
		client_log(client, LOG_LEVEL_LOG, "closing because: %s (age=%llus)", reason,
		           (unsigned long long)((worker->loop.now_us - client->connect_us) /
		                                1000000));
	if (text != NULL && settings->log_pooler_errors)
		client_log(client, LOG_LEVEL_WARNING, "pooler error: %s", text);
	if (client->in_cancel_table)
		cancel_table_remove(worker->process->cancels,
		                    span_of(client->key.bytes, client->key.size));
	client->in_cancel_table = false;
	struct pool *pool = client->pool;
	if (pool != NULL)
		place_leave(pool->record, worker->index);
	bool was_queued = client_is_queued(client);
	client_move(client, CLIENT_CLOSING);
	if (was_queued)
		pool_unqueue(pool, client);
	client_let_server_go(client);
	client_drop_held(client);
	client_uncount(client);
	client_count(client, -1);
	if (may_speak)
		client_say(client, sqlstate != NULL ? sqlstate : SQLSTATE_PROTOCOL_VIOLATION, text);
	bool has_words = !client->conn.ended || !conn_is_flushed(&client->conn);
	if (client->conn.state == CONN_OPEN && has_words)
		conn_finish(&client->conn);
	else
		conn_close(&client->conn);
}

void client_fail(struct client *client, const char *sqlstate, const char *text)
{
	client_end(client, sqlstate, text, text);
}

void client_fail_header(struct client *client, struct span bytes)
{
	char text[64] = "bad packet header: '";
	size_t at = strlen(text);
	for (uint32_t i = 0; i < bytes.size && i < 8; i++, at += 2)
		text_format(text + at, sizeof text - at, "%02x", bytes.data[i]);
	text_format(text + at, sizeof text - at, "'");
	client_fail(client, NULL, text);
}

void client_close(struct client *client, const char *reason)
{
	client_end(client, NULL, NULL, reason);
}

void client_server_gone(struct client *client, const char *reason)
{
	client_end(client, SQLSTATE_PROTOCOL_VIOLATION, reason, reason);
}

bool client_key_is(const struct client *client, struct span key)
{
	return client->in_cancel_table && cancel_key_equal(&client->key, key);
}

void client_janitor(struct worker *worker)
{
	uint64_t limit = worker->config->settings.client_login_timeout;
	uint64_t cancel_limit = worker->config->settings.cancel_wait_timeout + 1000000;
	list_each_safe (struct client, asking, link, &worker->cancels)
		if (worker->loop.now_us - asking->connect_us > cancel_limit)
			client_close(asking, "cancel_wait_timeout");
	if (limit == 0)
		return;
	list_each_safe (struct client, client, link, &worker->logins)
		if (worker->loop.now_us - client->connect_us > limit)
			client_fail(client, NULL, "client_login_timeout");
}

static struct client *client_of(struct conn *conn)
{
	return CONTAINER(struct client, conn, conn);
}

static void on_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct client *client = client_of(conn);
	client->request_us = client->worker->loop.now_us;
	if (client_is_queued(client))
		client->leaves |= relay_leaves(client, span_of(buf->data + from, to - from));
	switch ((enum client_state)client->state) {
	case CLIENT_STARTUP:
	case CLIENT_AUTH:
	case CLIENT_WELCOME: login_bytes(client, buf->data + from, to - from); break;
	case CLIENT_MOVING: place_bytes(client, buf->data + from, to - from); break;
	case CLIENT_READY:
	case CLIENT_WAITING: relay_up(client, buf, from, to); break;
	case CLIENT_CONSOLE: console_bytes(client, buf->data + from, to - from); break;
	case CLIENT_CANCEL:
	case CLIENT_CLOSING:
	case CLIENT_STATE_COUNT: break;
	}
}

/* While it is queued: a client that has gone is not served, but for one that said
 * goodbye together with its queries, as PostgreSQL runs those. */
static void on_hangup(struct conn *conn)
{
	struct client *client = client_of(conn);
	if (client_is_queued(client) && (client->leaves || !relay_says_goodbye(client)))
		client_close(client, "client unexpected eof");
}

static void on_eof(struct conn *conn)
{
	struct client *client = client_of(conn);
	if (client->state == CLIENT_READY)
		relay_client_eof(client);
	else if (client_is_queued(client))
		on_hangup(conn);
	else if (client->state == CLIENT_STARTUP && login_is_silent(client))
		client_close(client, NULL);
	else
		client_close(client, "client unexpected eof");
}

static void on_room(struct conn *conn)
{
	struct client *client = client_of(conn);
	if (client->state == CLIENT_READY || client_is_queued(client))
		relay_client_room(client); /* nobody pauses what others say */
}

static void on_closed(struct conn *conn, int error)
{
	struct client *client = client_of(conn);
	(void)error;
	client_close(client, "client unexpected eof");
	client_free(client);
}

static void on_detached(struct conn *conn)
{
	place_detached(client_of(conn));
}

const struct conn_events client_events = {
	.on_bytes = on_bytes,
	.on_eof = on_eof,
	.on_room = on_room,
	.on_hangup = on_hangup,
	.on_detached = on_detached,
	.on_closed = on_closed,
};
