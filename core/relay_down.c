/*
 * relay_down.c - from servers to clients.
 *
 * Rows and everything else that may be large pass in pieces, as ranges of the
 * buffer they came in.  ReadyForQuery, ParameterStatus, CommandComplete and errors
 * that may speak of a name of ours are looked at whole: they nearly always are
 * whole where they lie, else they are put together first.  Replies to queries of
 * our own are dropped, in their place.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/check.h"
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
#include "proto/read.h"

static void down_flush(struct server *server, struct run *run)
{
	struct client *client = server->client;
	uint32_t size = run->to - run->from;
	if (size > 0) {
		CHECK(client != NULL);
		server->pool->counters.server_bytes += size;
		conn_send(&client->conn, run->buf, run->from, run->to);
		if (conn_is_full(&client->conn))
			conn_pause(&server->conn);
	}
	run->from = run->to;
}

static void down_copy(struct server *server, struct run *run, struct span bytes)
{
	down_flush(server, run);
	server->pool->counters.server_bytes += bytes.size;
	conn_send_copy(&server->client->conn, bytes.data, bytes.size);
	if (conn_is_full(&server->client->conn))
		conn_pause(&server->conn);
}

/* [from, to) of the run's buffer goes to the client. */
static void down_range(struct server *server, struct run *run, uint32_t from, uint32_t to)
{
	if (run->to != from) {
		down_flush(server, run);
		run->from = from;
	}
	run->to = to;
}

static void down_forward(struct server *server, struct run *run, const struct piece *piece,
                         uint32_t from, uint32_t to)
{
	if (piece->held) {
		down_copy(server, run, piece->bytes);
		run->from = run->to = to;
		return;
	}
	down_range(server, run, from, to);
}

/* A message that passes in pieces. */
static enum verdict down_verdict(struct server *server, struct run *run, uint8_t type)
{
	bool own = track_is_skipping_own(&server->track);
	if (own && type == 'E')
		server->own_failed = true;
	enum verdict verdict = track_reply(&server->track, type, 0);
	named_replied(server, type);
	if (verdict == VERDICT_BAD) {
		down_flush(server, run);
		server_close(server, "unknown pkt");
		return VERDICT_DROP;
	}
	if (verdict == VERDICT_FORWARD && server->client == NULL) {
		if (message_use(SIDE_SERVER, type) == USE_REPLY && type != 'E')
			server_log(server, LOG_LEVEL_WARNING,
			           "got packet '%c' from server when not linked", type);
		return VERDICT_DROP;
	}
	return verdict;
}

static void down_parameter(struct server *server, struct span body)
{
	struct reader in = reader_of(body);
	const char *name = reader_text(&in);
	const char *value = reader_text(&in);
	if (reader_done(&in))
		server_parameter(server, name, value);
}

/* What ReadyForQuery ends, for the statistics and the timeouts. */
static void down_count(struct server *server, char status)
{
	struct client *client = server->client;
	uint64_t now = server->worker->loop.now_us;
	struct counters *counters = &server->pool->counters;
	if (track_owes(&server->track))
		return;
	server->query_us = 0;
	if (status == 'I')
		server->xact_us = 0;
	if (client == NULL)
		return;
	if (client->query_us != 0)
		counters->query_time += now - client->query_us;
	client->query_us = 0;
	if (status != 'I')
		return;
	if (client->xact_us != 0)
		counters->xact_time += now - client->xact_us;
	client->xact_us = 0;
}

static enum verdict down_ready(struct server *server, struct run *run, char status)
{
	bool is_statement = server->pool->limits.mode == POOL_STATEMENT;
	enum verdict verdict = track_ready(&server->track, status);
	named_replied(server, 'Z');
	if (server->schema_changes && status == 'I')
		named_committed(server);
	if (verdict == VERDICT_BAD) {
		down_flush(server, run);
		server_close(server, "unknown pkt");
		return VERDICT_DROP;
	}
	down_count(server, status);
	bool was_reset = server->was_reset || server->was_discarded;
	if (was_reset && server->client != NULL && status != 'E' && verdict == VERDICT_FORWARD) {
		down_flush(server, run);
		relay_to_start(server);
	}
	server->was_reset = server->was_discarded = false;
	server->reported = 0;
	if (verdict == VERDICT_FORWARD && is_statement && status != 'I' && server->client) {
		down_flush(server, run);
		server_close(server, "transaction blocks not allowed in statement pooling mode");
		return VERDICT_DROP;
	}
	return verdict;
}

static enum verdict down_error(struct server *server, struct run *run, struct span message)
{
	uint8_t instead[NAMED_ERROR_MAX + 256];
	uint32_t size = named_error(server, message, instead);
	enum verdict verdict = down_verdict(server, run, 'E');
	if (size == 0 || verdict != VERDICT_FORWARD || server->client == NULL)
		return verdict;
	down_copy(server, run, span_of(instead, size));
	return VERDICT_DROP;
}

static void down_tag(struct server *server, struct span body)
{
	struct span tag = span_of(body.data, body.size > 0 ? body.size - 1 : 0);
	named_tag(server, tag);
	if (track_is_skipping_own(&server->track))
		return;
	server->was_reset = server->was_reset || span_is(tag, "RESET");
	server->was_discarded = server->was_discarded || span_is(tag, "DISCARD ALL");
}

/* A message that is looked at whole. */
static enum verdict down_whole(struct server *server, struct run *run, struct span message)
{
	struct span body = span_of(message.data + SCAN_HEADER_SIZE,
	                           message.size - SCAN_HEADER_SIZE);
	enum verdict verdict;
	switch (message.data[0]) {
	case 'Z': return down_ready(server, run, (char)(body.size == 1 ? body.data[0] : 0));
	case 'C': down_tag(server, body); return down_verdict(server, run, 'C');
	case 'E': return down_error(server, run, message);
	default: break;
	}
	verdict = track_reply(&server->track, 'S', 0);
	down_parameter(server, body);
	return verdict;
}

/* After the whole message was seen, and sent if it is the client's. */
static void down_after(struct server *server, struct run *run, uint8_t type, bool own)
{
	if (type != 'Z' || server->state == SERVER_CLOSING)
		return;
	if (server->client != NULL)
		down_flush(server, run);
	if (own)
		server_own_done(server);
	else
		relay_settle(server);
}

static void down_message(struct server *server, struct run *run, const struct piece *piece,
                         uint32_t from, uint32_t to)
{
	struct span message = piece->bytes;
	bool own = track_is_skipping_own(&server->track);
	bool in_place = piece->first && piece->last && !piece->held;
	if (!in_place) {
		if (!part_append(&server->part, piece->bytes, HELD_MESSAGE_MAX)) {
			down_flush(server, run);
			server_close(server, "bad pkt header");
			return;
		}
		if (!piece->last)
			return;
		message = span_of(server->part.bytes, server->part.size);
	}
	enum verdict verdict = down_whole(server, run, message);
	bool forward = verdict == VERDICT_FORWARD && server->client != NULL &&
	               server->state != SERVER_CLOSING;
	if (forward && in_place)
		down_forward(server, run, piece, from, to);
	else if (forward)
		down_copy(server, run, message);
	part_clear(&server->part);
	down_after(server, run, piece->type, own);
}

/* False: the rest is not ours to look at. */
static bool down_piece(struct server *server, struct run *run, const struct piece *piece,
                       uint32_t from, uint32_t to)
{
	if (piece->first)
		server->whole = message_use(SIDE_SERVER, piece->type) == USE_WHOLE ||
		                named_reads(server, piece);
	if (server->whole) {
		server->dropping = false;
		down_message(server, run, piece, from, to);
		return server->state != SERVER_CLOSING;
	}
	if (piece->first)
		server->dropping = down_verdict(server, run, piece->type) != VERDICT_FORWARD;
	if (server->state == SERVER_CLOSING)
		return false;
	if (!server->dropping && server->client != NULL)
		down_forward(server, run, piece, from, to);
	return true;
}

/* SELECT, INSERT, COMMIT: of such a tag nothing is noted (down_tag). */
static bool is_plain_tag(const uint8_t *message, uint32_t size)
{
	if (size < SCAN_HEADER_SIZE + 2)
		return false;
	uint8_t second = message[SCAN_HEADER_SIZE + 1];
	switch (message[SCAN_HEADER_SIZE]) {
	case 'A':
	case 'D': return false;
	case 'C':
	case 'R': return second == 'O';
	default: return true;
	}
}

/* A ReadyForQuery that ends what the client has asked, where nothing hangs on it
 * (down_ready). */
static bool down_common_ready(struct server *server, const uint8_t *message, uint32_t size,
                              uint32_t working_on)
{
	if (size != SCAN_HEADER_SIZE + 1 || server->was_reset || server->was_discarded ||
	    server->schema_changes || server->pool->limits.mode == POOL_STATEMENT)
		return false;
	char status = (char)message[SCAN_HEADER_SIZE];
	if (!track_ready_common(&server->track, status, working_on))
		return false;
	down_count(server, status);
	server->reported = 0;
	return true;
}

/* Takes off the front of `in` what lies whole in place and passes as it is: nearly
 * all of a result, and the ReadyForQuery behind it, which may part the pair.  The
 * general way, down_piece(), would do the same with it, in many more steps; it has
 * the rest.  False: there was none. */
static bool down_common(struct server *server, struct run *run, struct span *in, uint32_t to,
                        uint32_t max)
{
	struct track *track = &server->track;
	uint32_t working_on = track_working_on(track);
	const uint8_t *message = in->data;
	uint32_t left = in->size;
	bool ready = false;
	if (server->client == NULL || left > max || !scan_at_boundary(&server->scan) ||
	    !named_has_no_notes(server))
		return false;
	while (left >= SCAN_HEADER_SIZE && !ready) {
		uint8_t type = message[0];
		uint32_t size = read_u32(message + 1) + 1; /* with the type byte */
		if (size > left || size < SCAN_HEADER_SIZE ||
		    (type == 'C' && !is_plain_tag(message, size)))
			break;
		ready = type == 'Z' && down_common_ready(server, message, size, working_on);
		if (!ready && !track_reply_common(track, type, &working_on))
			break;
		server->scan.type = type;
		message += size;
		left -= size;
	}
	if (left == in->size)
		return false;
	down_range(server, run, to - in->size, to - left);
	*in = span_of(message, left);
	if (ready) {
		down_flush(server, run);
		relay_settle(server);
	}
	return true;
}

/* All messages of the buffer.  False: the server is closed. */
/* NOLINTNEXTLINE(readability-function-size,readability-function-cognitive-complexity): a loop */
static bool down_messages(struct server *server, struct run *run, struct span in, uint32_t to)
{
	uint32_t max = server->worker->config->settings.max_packet_size;
	while (in.size > 0) {
		bool ended = down_common(server, run, &in, to, max);
		if (!ended) {
			uint32_t at = to - in.size;
			struct piece piece;
			enum scan_status status = scan_next(&server->scan, &in, max, &piece);
			if (status == SCAN_MORE)
				return true;
			if (status == SCAN_BAD) {
				if (server->client != NULL)
					down_flush(server, run);
				server_close(server, "bad pkt header");
				return false;
			}
			if (!down_piece(server, run, &piece, at, to - in.size))
				return false;
			ended = piece.last;
		}
		if (server->state == SERVER_CLOSING)
			return false;
		if (ended && track_head_mode(&server->track) == TRACK_LOCAL) {
			if (server->client != NULL)
				down_flush(server, run);
			named_answer(server);
		}
	}
	return true;
}

void relay_down(struct server *server, struct buf *buf, uint32_t from, uint32_t to)
{
	struct run run = {.buf = buf, .from = from, .to = from};
	if (!down_messages(server, &run, span_of(buf->data + from, to - from), to))
		return;
	struct client *client = server->client;
	if (client == NULL)
		return;
	down_flush(server, &run);
	if (client->ended && client->held_first == NULL && !track_will_end(&server->track)) {
		client_close(client, client->reason); /* its COPY, or a skip to Sync, has no end */
		return;
	}
	if (client->held_first != NULL && client->state == CLIENT_READY && !server->vars_unproven &&
	    !track_full(&server->track))
		relay_resume(client);
}
