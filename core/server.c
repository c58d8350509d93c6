/*
 * server.c - see server.h.
 *
 * The end of a server is a join of its conn, the helper that looks up its host
 * name, and a cancel that is aimed at it; the credit goes back when all have
 * ended, and the home is told.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/server.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/cancels.h"
#include "core/client.h"
#include "core/home.h"
#include "core/lend.h"
#include "core/log.h"
#include "core/post.h"
#include "core/process.h"
#include "core/relay.h"
#include "core/relay_named.h"
#include "core/server_login.h"
#include "core/worker.h"
#include "net/buf.h"
#include "net/sys.h"
#include "proto/write.h"

static const uint16_t allowed_moves[SERVER_STATE_COUNT] = {
#define TO(state) (1U << SERVER_##state)
	[SERVER_LOGIN] = TO(IDLE) | TO(TESTED) | TO(CLOSING),
	[SERVER_IDLE] = TO(ACTIVE) | TO(USED) | TO(LENDING) | TO(CLOSING) | TO(IDLE),
	[SERVER_ACTIVE] = TO(IDLE) | TO(TESTED) | TO(USED) | TO(BEING_CANCELED) | TO(CLOSING),
	[SERVER_USED] = TO(TESTED) | TO(IDLE) | TO(CLOSING),
	[SERVER_TESTED] = TO(IDLE) | TO(USED) | TO(CLOSING),
	[SERVER_BEING_CANCELED] = TO(IDLE) | TO(TESTED) | TO(USED) | TO(CLOSING),
	[SERVER_LENDING] = TO(CLOSING),
#undef TO
};

void server_log(const struct server *server, int level, const char *format, ...)
{
	if (!log_shows((enum log_level)level))
		return;
	char peer[ADDR_TEXT_MAX];
	struct addr_short addr = addr_shorten(&server->address);
	addr_text(&addr, peer);
	const struct pool_record *record = server->pool->record;
	const struct log_session of = {
		"S-", server, record->database->name, record->user->name, peer,
	};
	va_list arguments;
	va_start(arguments, format);
	log_session((enum log_level)level, &of, format, arguments);
	va_end(arguments);
}

void server_move(struct server *server, enum server_state state)
{
	struct pool *pool = server->pool;
	if (server->state == state && state == SERVER_IDLE)
		return;
	CHECK(allowed_moves[server->state] & (1U << state));
	list_remove(&pool->servers[server->state], &server->link);
	server->state = (uint8_t)state;
	bool last_in = state == SERVER_IDLE &&
	               (server->close_needed || pool->worker->config->settings.server_round_robin);
	if (last_in)
		list_append(&pool->servers[state], &server->link);
	else
		list_prepend(&pool->servers[state], &server->link);
	pool_publish(pool);
}

struct server *server_new(struct pool *pool)
{
	struct worker *worker = pool->worker;
	struct server *server = slab_acquire(&worker->servers);
	if (server == NULL)
		return NULL;
	server->worker = worker;
	server->pool = pool;
	server->conn.fd = -1;
	server->connect_us = server->request_us = worker->loop.now_us;
	server->epoch = atomic_load_explicit(&pool->record->epoch, memory_order_acquire);
	track_init(&server->track);
	cache_init(&server->cache);
	server->state = SERVER_LOGIN;
	list_append(&pool->servers[SERVER_LOGIN], &server->link);
	return server;
}

static void server_give_credit(struct server *server)
{
	struct pool_record *record = server->pool->record;
	if (!server->has_credit)
		return;
	server->has_credit = false;
	ledger_give(&record->user->account, &record->database->account, &record->account);
	home_tell(server->pool, POST_CREDIT);
}

/* Everything that could still refer to it has ended. */
void server_ended(struct server *server)
{
	struct pool *pool = server->pool;
	struct worker *worker = server->worker;
	CHECK(server->client == NULL && server->cancel == NULL);
	if (!server->closed)
		return;
	server_give_credit(server);
	if (server->resolving) { /* the helper still refers to it */
		worker->abandoned += !server->abandoned;
		server->abandoned = true;
		return;
	}
	worker->abandoned -= server->abandoned;
	wheel_disarm(&worker->loop.wheel, &server->timer);
	server_login_free(server);
	part_fini(&server->part);
	journal_drop(&worker->statements, &server->journal, NULL, &server->cache);
	cache_fini(&worker->statements, &server->cache);
	vars_clear(&worker->words, &server->vars);
	vars_clear(&worker->words, &server->login_vars);
	free(track_fini(&server->track));
	list_remove(&pool->servers[server->state], &server->link);
	slab_release(&worker->servers, server);
}

bool server_is_fit(const struct server *server)
{
	return track_is_free(&server->track) && scan_at_boundary(&server->scan) &&
	       !server->track.suspect && !server->setting_vars && server->part.size == 0 &&
	       !server->conn.ended;
}

bool server_is_clean(const struct server *server)
{
	return server_is_fit(server) && server->conn.state == CONN_OPEN;
}

/* Terminate and end of file, then its end of file, or a second (conn_finish). */
static void server_say_goodbye(struct server *server)
{
	uint8_t packet[8];
	struct writer out = writer_over(packet, sizeof packet);
	bool between = server->client != NULL ? client_is_between(server->client) : !server->cut;
	bool copying = server->track.copy == COPY_IN || server->track.copy == COPY_BOTH;
	if (server->logged_in && between && !copying) {
		write_terminate(&out);
		conn_send_copy(&server->conn, packet, out.size);
	}
	if (server->conn.state == CONN_OPEN && !server->conn.ended)
		conn_finish(&server->conn);
	else
		conn_close(&server->conn);
}

void server_close(struct server *server, const char *reason)
{
	struct worker *worker = server->worker;
	bool is_away = server->state == SERVER_LENDING && server->conn.state == CONN_CLOSED &&
	               !server->closed; /* it is the receiver's by now */
	if (server->state == SERVER_CLOSING || is_away)
		return;
	if (server->login != NULL)
		server_login_tell(server, "", "", true);
	text_set(server->reason, sizeof server->reason, reason);
	if (worker->config->settings.log_disconnections)
		server_log(server, LOG_LEVEL_LOG, "closing because: %s (age=%llus)", reason,
		           (unsigned long long)((worker->loop.now_us - server->connect_us) /
		                                1000000));
	if (server->state == SERVER_LENDING)
		lend_broken(server);
	server_move(server, SERVER_CLOSING);
	cancel_forget_server(server);
	wheel_disarm(&worker->loop.wheel, &server->timer);
	struct client *client = server->client;
	/* not in the middle of a message; and after a server's own last word (FATAL
	 * 57P01, say) the client needs no second one */
	bool is_gone = server->conn.ended || server->conn.state == CONN_CLOSED;
	bool may_speak = server_is_between(server) && !(is_gone && server->scan.type == 'E');
	server_say_goodbye(server);
	if (client != NULL) {
		relay_detach(server);
		if (may_speak)
			client_server_gone(client, server->reason);
		else
			client_close(client, server->reason);
	}
	if (server->conn.state == CONN_CLOSED) {
		server->closed = true;
		server_ended(server);
	}
}

void server_query_own(struct server *server, const char *sql)
{
	struct buf_pool *bufs = &server->worker->loop.bufs;
	struct buf *buf = buf_block(bufs, (uint32_t)strlen(sql) + 16);
	if (buf == NULL) {
		server_close(server, "out of memory");
		return;
	}
	struct writer out = writer_over(buf->data, buf->capacity);
	write_query(&out, sql);
	CHECK(!out.failed);
	server->own_failed = false;
	named_unnamed_is(server, 0); /* a Query drops it */
	if (server->query_us == 0)
		server->query_us = server->worker->loop.now_us;
	track_ask(&server->track, 'Q', TRACK_OWN);
	buf->used = out.size;
	conn_send(&server->conn, buf, 0, out.size);
	buf_drop(bufs, buf);
}

static bool lifetime_is_over(const struct server *server)
{
	uint64_t life = server->pool->limits.server_lifetime;
	uint64_t age = server->worker->loop.now_us - server->connect_us;
	return life == 0 || age > life;
}

static bool session_must_reset(const struct server *server)
{
	return server->pool->limits.reset_query != NULL && server->state != SERVER_TESTED;
}

void server_release(struct server *server)
{
	struct pool *pool = server->pool;
	uint32_t epoch = atomic_load_explicit(&pool->record->epoch, memory_order_relaxed);
	CHECK(server->client == NULL);
	if (server->track.suspect)
		server_close(server, "replies could not be followed");
	else if (lifetime_is_over(server))
		server_close(server, "server lifetime over");
	else if (server->close_needed || server->epoch != epoch)
		server_close(server, "close_needed");
	else if (cancel_holds(server))
		server_move(server, SERVER_BEING_CANCELED);
	else if (session_must_reset(server)) {
		server_move(server, SERVER_TESTED);
		server_query_own(server, pool->limits.reset_query);
	} else if (pool->limits.check_delay == 0 && pool->limits.check_query != NULL) {
		server_move(server, SERVER_USED);
		pool_check_one(pool);
	} else
		pool_offer(pool, server);
}

void server_own_done(struct server *server)
{
	struct pool *pool = server->pool;
	if (server->login != NULL) {
		server_login_done(server);
		return;
	}
	if (server->setting_vars) {
		relay_vars_set(server);
		return;
	}
	if (server->state == SERVER_TESTED)
		pool_offer(pool, server);
}

void server_parameter(struct server *server, const char *name, const char *value)
{
	int index = vars_index(name);
	if (index < 0)
		return;
	struct words *words = &server->worker->words;
	vars_set(words, &server->vars, (uint32_t)index, value);
	if (server->vars.values[index] != NULL)
		server->vars.values[index]->proven |= 1U << index;
	else /* too large to be kept: it must not stay for the next client */
		server->close_needed = true;
	struct client *client = server->client;
	if (client != NULL && !server->setting_vars) {
		vars_set(words, &client->vars, (uint32_t)index, value);
		server->reported |= 1U << index;
	}
}

static struct server *server_of(struct conn *conn)
{
	return CONTAINER(struct server, conn, conn);
}

static void on_open(struct conn *conn)
{
	struct server *server = server_of(conn);
	struct addr own;
	char text[ADDR_TEXT_MAX];
	if (server->state != SERVER_LOGIN)
		return;
	if (sys_own_name(conn->fd, &own) == 0)
		server->local = addr_shorten(&own);
	addr_text(&server->local, text);
	if (server->worker->config->settings.log_connections) {
		if (server->local.family == AF_UNIX)
			server_log(server, LOG_LEVEL_LOG, "new connection to server");
		else
			server_log(server, LOG_LEVEL_LOG, "new connection to server (from %s)",
			           text);
	}
	server_login_begin(server);
}

static void on_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct server *server = server_of(conn);
	server->request_us = server->worker->loop.now_us;
	if (server->state == SERVER_CLOSING)
		return;
	if (!server->logged_in)
		server_login_bytes(server, buf, from, to);
	else
		relay_down(server, buf, from, to);
}

/* It has gone of itself; in a login that is a failure of the login. */
static void server_lost(struct server *server, const char *reason)
{
	if (server->login != NULL)
		server_login_failed(server, "", reason, reason);
	else
		server_close(server, reason);
}

static void on_eof(struct conn *conn)
{
	struct server *server = server_of(conn);
	if (server->state == SERVER_LENDING)
		server->close_needed = true; /* lend_detached() sees to it */
	else
		server_lost(server, "server conn crashed?");
}

static void on_room(struct conn *conn)
{
	relay_server_room(server_of(conn));
}

static void on_hangup(struct conn *conn)
{
	(void)conn; /* what it said before will be read, then its end */
}

static void on_detached(struct conn *conn)
{
	lend_detached(server_of(conn));
}

static void on_closed(struct conn *conn, int error)
{
	struct server *server = server_of(conn);
	bool connecting = server->login != NULL && server->local.family == 0;
	if (connecting && error != 0 && server->state != SERVER_CLOSING)
		server_log(server, LOG_LEVEL_WARNING, "sbuf_connect failed: %s",
		           text_of_error(-error));
	server->closed = true;
	if (server->state == SERVER_CLOSING)
		server_ended(server);
	else /* the conn is CLOSED: this frees the server */
		server_lost(server, connecting ? "connect failed" : "server conn crashed?");
}

const struct conn_events server_events = {
	.on_open = on_open,
	.on_bytes = on_bytes,
	.on_eof = on_eof,
	.on_room = on_room,
	.on_hangup = on_hangup,
	.on_detached = on_detached,
	.on_closed = on_closed,
};
