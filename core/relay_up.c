/*
 * relay_up.c - from clients to servers.
 *
 * A buffer is cut into pieces of messages; pieces with the verdict FORWARD that
 * lie together leave as one range of the buffer, without a copy.  The verdict
 * is made at the first piece of a message.  HOLD means: not now (no server, or
 * its own SETs may still fail, or it owes too many replies); then the scan goes
 * back to the start of that message and the rest of the bytes waits, copied out.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/log.h"
#include "core/pool.h"
#include "core/relay.h"
#include "core/relay_named.h"
#include "core/relay_parts.h"
#include "core/server.h"
#include "core/worker.h"
#include "net/buf.h"
#include "proto/message.h"
#include "proto/sqlstate.h"
#include "proto/write.h"

/* Requests that one message of a client can cause: its own, and ours ahead of it. */
enum { ASKED_AHEAD = 8 };

void relay_up_send(struct client *client, const struct run *run)
{
	CHECK(client->server != NULL);
	client->pool->counters.client_bytes += run->to - run->from;
	conn_send(&client->server->conn, run->buf, run->from, run->to);
}

/* [from, to) of the run's buffer is what the piece has just used up. */
static void up_forward(struct client *client, struct run *run, const struct piece *piece,
                       uint32_t from, uint32_t to)
{
	if (piece->held) { /* a header that came in two reads: its bytes are the scan's */
		relay_up_flush(client, run);
		client->pool->counters.client_bytes += piece->bytes.size;
		conn_send_copy(&client->server->conn, piece->bytes.data, piece->bytes.size);
		run->from = run->to = to;
		return;
	}
	relay_range(client, run, from, to);
}

/* The client will send no more: what it has asked is answered first. */
static void up_end(struct client *client, const char *reason)
{
	struct server *server = client->server;
	client->ended = true;
	client->reason = reason;
	if (client->vanished && server != NULL && client->held_first != NULL)
		return; /* decided when that has been said: up_vanished() */
	bool will_end = server != NULL && track_will_end(&server->track) &&
	                client_is_between(client);
	if (!will_end)
		client_close(client, reason);
}

bool relay_grow(struct server *server)
{
	struct track *track = &server->track;
	if (track->room >= OWED_MAX)
		return false;
	void *memory = malloc(track->room * 2);
	if (memory == NULL)
		return false;
	free(track_grow(track, memory, track->room * 2));
	return true;
}

void relay_count_anew(struct client *client)
{
	uint64_t now = client->worker->loop.now_us;
	struct server *server = client->server;
	struct counters *counters = &client->pool->counters;
	if (client->query_us == 0) {
		client->query_us = now;
		counters->query_count++;
	}
	if (client->xact_us == 0) {
		client->xact_us = now;
		counters->xact_count++;
	}
	if (server->query_us == 0)
		server->query_us = now;
	if (server->xact_us == 0)
		server->xact_us = now;
}

static void up_answer(struct client *client, bool error, bool ready)
{
	uint8_t packet[256];
	struct writer out = writer_over(packet, sizeof packet);
	if (error)
		write_error(&out, "ERROR", SQLSTATE_QUERY_CANCELED,
		            "canceling statement due to user request");
	if (ready)
		write_ready(&out, 'I');
	conn_send_copy(&client->conn, packet, out.size);
}

/* Its batch was answered by an error of ours: as a server does, until Sync. */
static enum verdict up_skipped(struct client *client, uint8_t type)
{
	if (type == 'S') {
		client->skip_to_sync = false;
		up_answer(client, false, true);
	}
	return VERDICT_DROP;
}

enum verdict relay_server(struct client *client)
{
	if (client->server == NULL && !pool_attach(client->pool, client))
		return VERDICT_HOLD;
	struct server *server = client->server;
	if (server == NULL || server->vars_unproven)
		return VERDICT_HOLD;
	if (track_room(&server->track) < ASKED_AHEAD && !relay_grow(server))
		return VERDICT_HOLD;
	return VERDICT_FORWARD;
}

/* It would find nothing to do. */
static inline bool up_has_server(const struct client *client)
{
	const struct server *server = client->server;
	return server != NULL && !server->vars_unproven &&
	       track_room(&server->track) >= ASKED_AHEAD;
}

/* REPLACE: it has to be looked into (named_piece). */
static enum verdict up_verdict(struct client *client, const struct piece *piece)
{
	uint8_t type = piece->type;
	enum message_use use = message_use(SIDE_CLIENT, type);
	if (client->drop_next) {
		client->drop_next = false;
		return VERDICT_DROP;
	}
	if (use == USE_NONE || use == USE_LOGIN) {
		client_fail(client, NULL, "unknown pkt");
		return VERDICT_DROP;
	}
	if (use == USE_END) {
		up_end(client, "client close request");
		return VERDICT_DROP;
	}
	if (client->skip_to_sync)
		return up_skipped(client, type);
	if (use == USE_COPY && client->server == NULL)
		return VERDICT_DROP; /* late data of a COPY that has failed */
	if (type == 'Q' && client->worker->config->settings.disable_pqexec) {
		client_log(client, LOG_LEVEL_ERROR, "client used \"Query\" packet type");
		client_fail(client, NULL, "PQexec disallowed");
		return VERDICT_DROP;
	}
	bool is_named = named_is_on(client);
	if (is_named && named_concerns(client, piece))
		return VERDICT_REPLACE;
	enum verdict verdict = relay_server(client);
	if (verdict != VERDICT_FORWARD)
		return verdict;
	if (is_named && type == 'Q' && !client->server->track.skipping)
		named_unnamed_is(client->server, 0);
	verdict = track_request(&client->server->track, type);
	if (verdict == VERDICT_FORWARD && use == USE_REQUEST)
		relay_count(client);
	return verdict;
}

/* What comes next may end the client.  If its server owes nothing, that server
 * would be handed on, so the end of the last message must be with it by then. */
static void up_flush_last(struct client *client, struct run *run)
{
	if (client->server != NULL && !track_owes(&client->server->track))
		relay_up_flush(client, run);
}

/* Nothing is owed and nothing will come of what was just sent (late COPY data,
 * a Flush): no reply will part the pair. */
static void up_settle(struct client *client)
{
	if (client->server != NULL && !track_owes(&client->server->track))
		relay_settle(client->server);
}

static bool up_said_goodbye(const struct client *client)
{
	return client->ended && !client->vanished;
}

/* What becomes of a piece that begins a message. */
static enum verdict up_first(struct client *client, struct run *run, const struct piece *piece)
{
	up_flush_last(client, run);
	if (piece->type == 'Q')
		run->unnamed.size = 0; /* the server drops it */
	enum verdict verdict = up_verdict(client, piece);
	if (verdict == VERDICT_HOLD)
		return verdict;
	client->gathering = verdict == VERDICT_REPLACE;
	client->dropping = verdict != VERDICT_FORWARD;
	return verdict;
}

/* A piece of a message that is looked into.  False: it must wait. */
static bool up_gather(struct client *client, struct run *run, const struct piece *piece,
                      uint32_t from, uint32_t to)
{
	enum verdict verdict = named_piece(client, run, piece, from, to);
	if (client->state == CLIENT_CLOSING)
		return true;
	client->dropping = verdict != VERDICT_FORWARD;
	return verdict != VERDICT_HOLD;
}

static bool is_common(uint8_t type)
{
	switch (type) {
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
	case 'S':
	case 'Q': return true;
	default: return false;
	}
}

/* A Query that lies whole in place goes on as it is. */
static bool up_query_passes(struct client *client, struct span message)
{
	struct piece piece = {
		.bytes = message,
		.length = message.size,
		.type = 'Q',
		.first = true,
		.last = true,
	};
	return !client->worker->config->settings.disable_pqexec &&
	       (!named_is_on(client) || named_are_none(client) || !named_concerns(client, &piece));
}

/* Takes off the front of `in` the requests that lie whole in place: nearly all that
 * is said.  The general way, from up_first() on, would do the same with them, in
 * many more steps; it has the rest.  HOLD: the next must wait, or the client has
 * been closed; DROP: it is for the general way. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one loop, as fast as it can be */
static enum verdict up_common(struct client *client, struct run *run, struct span *in, uint32_t to,
                              uint32_t max)
{
	bool named = named_is_on(client), counted = false;
	if (!scan_at_boundary(&client->scan) || client->gathering || client->part.size > 0 ||
	    client->drop_next || client->skip_to_sync || in->size > max)
		return VERDICT_DROP;
	while (in->size >= SCAN_HEADER_SIZE) {
		uint8_t type = in->data[0];
		uint32_t length = read_u32(in->data + 1); /* without the type byte */
		if (!is_common(type) || length < SCAN_LENGTH_MIN || length >= in->size)
			return VERDICT_DROP;
		struct span message = span_of(in->data, length + 1);
		uint32_t at = to - in->size;
		if (type == 'Q' && !up_query_passes(client, message))
			return VERDICT_DROP;
		if (!up_has_server(client) && relay_server(client) != VERDICT_FORWARD)
			return VERDICT_HOLD;
		if (named && !named_ignores(client, type) && !named_passes(client, run, message)) {
			up_flush_last(client, run);
			if (named_whole(client, run, message, at) == VERDICT_HOLD ||
			    client->state == CLIENT_CLOSING)
				return VERDICT_HOLD;
		} else {
			if (!counted)
				relay_count(client);
			counted = true;
			track_ask(&client->server->track, type, TRACK_PLAIN);
			relay_range(client, run, at, at + message.size);
		}
		*in = span_of(in->data + message.size, in->size - message.size);
	}
	return VERDICT_DROP;
}

/* Returns where it stopped: `to`, or the start of what must wait. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one loop, as fast as it can be */
static uint32_t up_pieces(struct client *client, struct buf *buf, uint32_t from, uint32_t to)
{
	uint32_t max = client->worker->config->settings.max_packet_size;
	struct span in = span_of(buf->data + from, to - from);
	struct run run = {.buf = buf, .from = from, .to = from};
	while (client->state == CLIENT_READY && !up_said_goodbye(client)) {
		if (up_common(client, &run, &in, to, max) == VERDICT_HOLD || in.size == 0)
			break;
		struct scan before = client->scan;
		uint32_t at = to - in.size;
		struct piece piece;
		enum scan_status status = scan_next(&client->scan, &in, max, &piece);
		if (status == SCAN_MORE)
			break;
		if (status == SCAN_BAD) {
			relay_up_flush(client, &run);
			client_fail_header(client, span_of(buf->data + at, to - at));
			return to;
		}
		bool hold = piece.first && up_first(client, &run, &piece) == VERDICT_HOLD;
		if (client->state == CLIENT_CLOSING)
			return to;
		if (client->gathering && !hold)
			hold = !up_gather(client, &run, &piece, at, to - in.size);
		else if (!client->dropping && !hold)
			up_forward(client, &run, &piece, at, to - in.size);
		if (client->state == CLIENT_CLOSING)
			return to;
		if (hold && client->part.size > 0) /* it was collected: up_put_back() */
			break;
		if (hold) {
			in = span_of(buf->data + at, to - at);
			client->scan = before;
			break;
		}
	}
	if (client->state == CLIENT_CLOSING)
		return to;
	relay_up_flush(client, &run);
	named_leave(client, &run);
	/* nothing counts behind Terminate */
	return up_said_goodbye(client) ? to : to - in.size;
}

/* What was collected of a message that must wait is said again, before the rest. */
static void up_put_back(struct client *client)
{
	if (client->gathering || client->part.size == 0)
		return;
	client->scan = (struct scan){0};
	client->dropping = false;
	client_hold_first(client, client->part.bytes, client->part.size);
	part_clear(&client->part);
}

void relay_up(struct client *client, struct buf *buf, uint32_t from, uint32_t to)
{
	uint32_t used = from;
	if (client->state == CLIENT_READY && client->held_first == NULL)
		used = up_pieces(client, buf, from, to);
	if (client->state == CLIENT_CLOSING)
		return;
	up_put_back(client);
	if (used < to)
		client_hold(client, buf->data + used, to - used);
	if (client->state == CLIENT_CLOSING)
		return;
	relay_flow(client);
	up_settle(client);
}

/* All that it said before its end of file is with the server. */
static void up_vanished(struct client *client)
{
	const struct server *server = client->server;
	if (server == NULL || !track_will_end(&server->track))
		client_close(client, client->reason);
}

void relay_resume(struct client *client)
{
	struct worker *worker = client->worker;
	while (client->held_first != NULL && client->state == CLIENT_READY) {
		struct held *held = client->held_first;
		uint32_t end = held->to;
		uint32_t used = up_pieces(client, held->buf, held->from, end);
		if (client->state == CLIENT_CLOSING)
			return; /* and what it held is gone */
		held->from = used;
		bool all = used == end;
		if (all) {
			client->held_first = held->next;
			if (client->held_first == NULL)
				client->held_last = NULL;
			buf_drop(&worker->loop.bufs, held->buf);
			slab_release(&worker->helds, held);
		}
		bool waits = !all || (client->part.size > 0 && !client->gathering);
		up_put_back(client);
		if (waits)
			break;
	}
	relay_flow(client);
	up_settle(client);
	if (client->vanished && client->held_first == NULL)
		up_vanished(client);
}

/* What it asked first is answered as PostgreSQL answers a cancel: a Query by an
 * error and ReadyForQuery, an extended batch by an error and silence to Sync.  Where
 * nothing runs (Sync, Flush, what is left of a COPY) a cancel comes to nothing. */
void relay_cancel_waiting(struct client *client)
{
	CHECK(client->state == CLIENT_WAITING);
	const struct held *first = client->held_first;
	uint8_t type = client->scan.held > 0 ? client->scan.header[0]
	               : first != NULL       ? first->buf->data[first->from]
	                                     : 0;
	if (type != 0 && strchr("SHcdf", type) != NULL)
		return;
	bool is_simple = type == 'Q' || type == 'F';
	client_move(client, CLIENT_READY);
	pool_unqueue(client->pool, client);
	client->query_us = client->xact_us = 0;
	client->drop_next = is_simple;
	client->skip_to_sync = !is_simple;
	up_answer(client, true, is_simple);
	relay_resume(client);
}

/* What is held for it, read through.  True: there is a Terminate, and *asked says
 * whether something stands before it.  Else *scan is where that ends. */
static bool up_look_ahead(const struct client *client, struct scan *scan, bool *asked)
{
	*scan = client->scan;
	*asked = !scan_at_boundary(scan);
	for (const struct held *held = client->held_first; held != NULL; held = held->next) {
		struct span in = span_of(held->buf->data + held->from, held->to - held->from);
		struct piece piece;
		while (scan_next(scan, &in, UINT32_MAX, &piece) == SCAN_PIECE) {
			if (piece.first && message_use(SIDE_CLIENT, piece.type) == USE_END)
				return true;
			*asked = true;
		}
	}
	return false;
}

bool relay_says_goodbye(const struct client *client)
{
	struct scan scan;
	bool asked;
	return up_look_ahead(client, &scan, &asked) && asked;
}

bool relay_leaves(const struct client *client, struct span bytes)
{
	struct scan scan;
	bool asked;
	return bytes.size > 0 && message_use(SIDE_CLIENT, bytes.data[0]) == USE_END &&
	       !up_look_ahead(client, &scan, &asked) && scan_at_boundary(&scan);
}

void relay_client_eof(struct client *client)
{
	if (client->ended)
		return;
	client->vanished = true;
	client->request_us = client->worker->loop.now_us;
	up_end(client, "client unexpected eof");
}
