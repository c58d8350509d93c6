/*
 * load_answer.c - is this the answer to what was asked?
 *
 * The head of the client's queue says which replies are still to come before
 * its ReadyForQuery.  A reply is checked against the head alone: a protocol
 * that keeps its order leaves no other place for it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "proto/read.h"

/* How long after a cancel request a 57014 may come for it. */
enum { CANCEL_GRACE_NS = NS_PER_S };

static struct expected *answer_head(struct client *client)
{
	return client->expected_count == 0 ? NULL : &client->expected[client->expected_head];
}

static uint8_t answer_wants(const struct client *client, const struct expected *expected)
{
	return client->thread->load->requests[expected->kind].wants;
}

/* Notes a reply; false if it should not be here. */
static bool answer_note(struct client *client, struct expected *head, uint8_t reply, uint8_t type)
{
	bool bulk = head->kind == REQUEST_BULK && reply == REPLY_ROW;
	if ((answer_wants(client, head) & reply) == 0 || head->failed) {
		client_complain(client, COUNT_WRONG, "message '%c' is no answer to query %08x",
		                type, (uint32_t)head->sequence);
		return false;
	}
	if ((head->seen & reply) != 0 && !bulk) {
		client_complain(client, COUNT_DOUBLE, "message '%c' twice for query %08x", type,
		                (uint32_t)head->sequence);
		return false;
	}
	head->seen |= reply;
	return true;
}

/* All x, and as many as asked for. */
static bool bulk_is_right(const struct client *client, struct span text)
{
	if (text.size != client->thread->load->options.size)
		return false;
	return text.size == 0 ||
	       (text.data[0] == 'x' && memcmp(text.data, text.data + 1, text.size - 1) == 0);
}

static bool second_is_right(const struct client *client, const struct expected *head,
                            struct span second, const char *nonce)
{
	if (head->kind == REQUEST_SLEEP)
		return second.size == 0;
	if (head->kind == REQUEST_BULK)
		return bulk_is_right(client, second);
	return span_equal(second, span_of(nonce, NONCE_SIZE));
}

static void complain_row(struct client *client, const struct expected *head, struct span first,
                         struct span second)
{
	char nonce[NONCE_SIZE];
	/* An answer that this client has had before is double, not wrong. */
	bool had = false;
	for (uint64_t back = 1; back <= 64 && back < head->sequence; back++) {
		nonce_write(client, head->sequence - back, nonce);
		had = had || span_equal(first, span_of(nonce, NONCE_SIZE));
	}
	nonce_write(client, head->sequence, nonce);
	client_complain(client, had ? COUNT_DOUBLE : COUNT_WRONG,
	                "query %.*s got the row '%.*s', '%.*s' (second column of %u bytes)",
	                NONCE_SIZE, nonce, (int)MIN(first.size, 60U), (const char *)first.data,
	                (int)MIN(second.size, 60U), (const char *)second.data, second.size);
}

static void answer_row(struct client *client, struct expected *head, struct span body)
{
	char nonce[NONCE_SIZE], variant[16];
	struct reader in = reader_of(body);
	uint32_t columns = reader_u16(&in);
	struct span first = reader_bytes(&in, reader_u32(&in));
	struct span second = span_of("", 0);
	if (columns > 1)
		second = reader_bytes(&in, reader_u32(&in));
	nonce_write(client, head->sequence, nonce);
	struct span wanted = span_of(nonce, NONCE_SIZE);
	if (head->kind == REQUEST_BOUND) {
		variant_write(client->variant, variant);
		wanted = span_text(variant);
	}
	bool right = reader_done(&in) && span_equal(first, wanted) &&
	             columns == (head->kind == REQUEST_SIMPLE ? 1 : 2);
	if (right && columns == 2)
		right = second_is_right(client, head, second, nonce);
	head->rows++;
	if (!right)
		complain_row(client, head, first, second);
}

static void answer_complete(struct client *client, const struct expected *head, struct span body)
{
	char wanted[32];
	const char *tag = wanted;
	struct reader in = reader_of(body);
	const char *text = reader_text(&in);
	uint32_t rows = head->kind == REQUEST_BULK ? client->thread->load->options.rows : 1;
	snprintf(wanted, sizeof wanted, "SELECT %u", rows);
	if (head->kind == REQUEST_BEGIN)
		tag = "BEGIN";
	else if (head->kind == REQUEST_COMMIT)
		tag = client->unit.failed ? "ROLLBACK" : "COMMIT";
	else if (head->rows != rows)
		client_complain(client, COUNT_LOST, "query %08x got %u rows of %u",
		                (uint32_t)head->sequence, head->rows, rows);
	if (client->endpoint.fd >= 0 && (!reader_done(&in) || strcmp(text, tag) != 0))
		client_complain(client, COUNT_WRONG, "query %08x ended with '%.40s', not '%s'",
		                (uint32_t)head->sequence, text, tag);
}

static void answer_error(struct client *client, struct span body)
{
	struct thread *thread = client->thread;
	struct expected *head = answer_head(client);
	const char *state = error_sqlstate(body);
	const char *severity = error_field(body, 'S');
	client->fatal = strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
	if (head == NULL && !client->fatal) {
		client_complain(client, COUNT_DOUBLE, "nobody waits for the error %s: %s", state,
		                error_field(body, 'M'));
		return;
	}
	client->unit.failed = true;
	if (head != NULL)
		head->failed = true;
	bool cancelled = strcmp(state, "57014") == 0;
	bool asked = client->cancels_open > 0 || thread->now < client->cancel_at + CANCEL_GRACE_NS;
	if (cancelled && asked)
		thread_count(thread, COUNT_CANCELLED, 1);
	else if (cancelled && !client->fatal)
		client_complain(client, COUNT_WRONG, "a 57014 that it did not ask for: %s",
		                error_field(body, 'M'));
	else
		thread_error(thread, state);
}

static void answer_ready(struct client *client, struct span body)
{
	struct expected *head = answer_head(client);
	char status = body.size == 1 ? (char)body.data[0] : '?';
	bool in_transaction = client->thread->load->options.mode == MODE_TRANSACTION &&
	                      head->kind != REQUEST_COMMIT && !client->unit.prepare;
	if (!head->failed && head->seen != answer_wants(client, head) &&
	    !(head->kind == REQUEST_BULK && client->thread->load->options.rows == 0)) {
		client_complain(client, COUNT_LOST, "query %08x ended without all of its answer",
		                (uint32_t)head->sequence);
		return;
	}
	if (!client->unit.failed && status != (in_transaction ? 'T' : 'I')) {
		client_complain(client, COUNT_WRONG, "query %08x left the status '%c'",
		                (uint32_t)head->sequence, status);
		return;
	}
	client->status = status;
	client->expected_head = (client->expected_head + 1) % client->thread->load->options.batches;
	client->expected_count--;
	thread_count(client->thread, COUNT_QUERIES, 1);
	if (client->expected_count == 0)
		unit_step_done(client);
}

void answer_message(struct client *client, uint8_t type, struct span body)
{
	struct expected *head = answer_head(client);
	if (type == 'N' || type == 'S' || type == 'A')
		return;
	if (type == 'E') {
		answer_error(client, body);
		return;
	}
	if (head == NULL) {
		client_complain(client, COUNT_DOUBLE, "nobody waits for message '%c' of %u bytes",
		                type, body.size);
		return;
	}
	switch (type) {
	case '1': answer_note(client, head, REPLY_PARSE, type); break;
	case '2': answer_note(client, head, REPLY_BIND, type); break;
	case 'T': answer_note(client, head, REPLY_DESCRIBE, type); break;
	case 'Z': answer_ready(client, body); break;
	case 'D':
		if (answer_note(client, head, REPLY_ROW, type))
			answer_row(client, head, body);
		break;
	case 'C':
		if (answer_note(client, head, REPLY_COMPLETE, type))
			answer_complete(client, head, body);
		break;
	default:
		client_complain(client, COUNT_WRONG, "message '%c' is no answer to query %08x",
		                type, (uint32_t)head->sequence);
	}
}
