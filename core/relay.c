/*
 * relay.c - what a client and a server are to each other; see relay.h.
 *
 * The two directions are relay_up.c and relay_down.c.  Here: how a pair comes
 * together, how it parts, and who is paused when.  Pooling is three rules:
 *
 *  - a client gets a server when it says something that needs one;
 *  - a server goes back when it owes nothing, stands outside of a transaction,
 *    and no message lies partly with it (relay_settle);
 *  - a conn that is full pauses the conn that feeds it (relay_flow).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/relay.h"

#include "core/base/check.h"
#include "core/client.h"
#include "core/log.h"
#include "core/pool.h"
#include "core/relay_named.h"
#include "core/relay_parts.h"
#include "core/server.h"
#include "core/worker.h"
#include "net/buf.h"
#include "proto/write.h"

enum { SETS_ROOM = 16000, TO_START_ROOM = 80 };

/* Reads from the client exactly when what it says can go somewhere. */
void relay_flow(struct client *client)
{
	bool full = (client->server != NULL && conn_is_full(&client->server->conn)) ||
	            conn_is_full(&client->conn);
	bool waits = client->state != CLIENT_READY || client->held_first != NULL;
	if (full)
		conn_pause(&client->conn);
	else if (waits)
		conn_pause_quietly(&client->conn);
	else
		conn_resume(&client->conn);
}

static void set_vars(struct client *client, struct server *server)
{
	struct buf_pool *bufs = &client->worker->loop.bufs;
	struct buf *buf = buf_block(bufs, SETS_ROOM);
	bool proven;
	if (buf == NULL) {
		client_fail(client, "53200", "out of memory");
		return;
	}
	char *sql = (char *)buf->data;
	uint32_t size = vars_difference(&client->vars, &server->vars, sql, buf->capacity, &proven);
	if (size == UINT32_MAX) {
		client_fail(client, NULL, "invalid server parameter");
	} else if (size > 0) {
		server_log(server, LOG_LEVEL_DEBUG, "varcache_apply: %s", sql);
		server->setting_vars = true;
		server->vars_unproven = !proven;
		server_query_own(server, sql);
	}
	buf_drop(bufs, buf);
}

static void have_vars(struct client *client, struct server *server)
{
	if (!vars_equal(&client->worker->words, &client->vars, &server->vars))
		set_vars(client, server);
}

void relay_to_start(struct server *server)
{
	struct client *client = server->client;
	struct words *words = &server->worker->words;
	/* What was RESET is told by what the server reports: others were SET since. */
	uint32_t among = server->was_discarded ? UINT32_MAX : server->reported;
	uint32_t differ = vars_to_start(words, client->start, &client->vars, &server->vars,
	                                &server->login_vars, among);
	server->to_start = true;
	for (uint32_t i = 0; i < vars_count(); i++) {
		if ((differ & 1U << i) == 0)
			continue;
		const struct word *value = client->vars.values[i];
		struct buf_pool *bufs = &server->worker->loop.bufs;
		struct buf *buf = buf_block(bufs, value->size + TO_START_ROOM);
		if (buf == NULL)
			return;
		struct writer out = writer_over(buf->data, buf->capacity);
		write_parameter_status(&out, vars_name(i), value->text);
		conn_send_copy(&client->conn, buf->data, out.size);
		buf_drop(bufs, buf);
	}
}

void relay_attach(struct client *client, struct server *server)
{
	CHECK(client->server == NULL && server->client == NULL);
	CHECK(client->state == CLIENT_READY);
	server_move(server, SERVER_ACTIVE);
	client->server = server;
	server->client = client;
	server->cut = false;
	client->pool->counters.server_assignment_count++;
	if (conn_is_full(&client->conn))
		conn_pause(&server->conn);
	have_vars(client, server);
}

void relay_detach(struct server *server)
{
	struct client *client = server->client;
	CHECK(client != NULL && client->server == server);
	named_part(client, server);
	server->cut = !client_is_between(client);
	client->server = NULL;
	server->client = NULL;
	server->query_us = server->xact_us = 0;
	if (server->state == SERVER_ACTIVE)
		conn_resume(&server->conn);
}

void relay_vars_set(struct server *server)
{
	struct client *client = server->client;
	server->setting_vars = server->vars_unproven = false;
	if (server->own_failed) {
		server_close(server, "invalid server parameter");
		return;
	}
	if (client == NULL)
		return;
	vars_canonical(&server->worker->words, &client->vars, client->start, &server->vars);
	relay_resume(client);
	relay_settle(server);
}

/* The one place where a pair parts in peace. */
void relay_settle(struct server *server)
{
	struct client *client = server->client;
	if (client == NULL || server->state != SERVER_ACTIVE)
		return;
	if (client->ended && !track_owes(&server->track) && client->held_first == NULL) {
		client_close(client, client->reason);
		return;
	}
	bool is_session = client->pool->limits.mode == POOL_SESSION;
	bool stays = is_session || server->track.status == 'T';
	if (server->to_start && !track_owes(&server->track)) {
		server->to_start = false;
		if (stays && !server->setting_vars)
			have_vars(client, server);
	}
	if (is_session || server->setting_vars || client->held_first != NULL ||
	    !client_is_between(client) || !track_is_free(&server->track))
		return;
	relay_detach(server);
	relay_flow(client); /* that server may have been full */
	server_release(server);
}

void relay_client_room(struct client *client)
{
	if (client->server != NULL)
		conn_resume(&client->server->conn);
	relay_flow(client);
}

void relay_server_room(struct server *server)
{
	if (server->client != NULL)
		relay_flow(server->client);
}
