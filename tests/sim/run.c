/*
 * run.c - what a backend does with statements (sql.h): simple queries, the
 * extended protocol, COPY.
 *
 * A statement runs in steps, so that a large answer is made only as fast as
 * its reader takes it, and a cancel can come in between.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/postgres.h"
#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"

static void row_description(struct talk *talk)
{
	talk_begin(talk, 'T');
	talk_u16(talk, 1);
	talk_text(talk, "c");
	talk_u32(talk, 0);
	talk_u16(talk, 0);
	talk_u32(talk, 25);
	talk_u16(talk, 0xffff);
	talk_u32(talk, 0xffffffff);
	talk_u16(talk, 0);
	talk_end(talk);
}

static void empty_message(struct talk *talk, char type)
{
	talk_begin(talk, type);
	talk_end(talk);
}

static void row_put(struct talk *talk, const struct sql *statement, uint32_t index)
{
	static char text[ROW_FILLER_MAX + 64];
	uint32_t size = sql_row(statement, index, text);
	if (statement->verb == VERB_COPYOUT) {
		talk_begin(talk, 'd');
	} else {
		talk_begin(talk, 'D');
		talk_u16(talk, 1);
		talk_u32(talk, size);
	}
	talk_bytes(talk, text, size);
	talk_end(talk);
}

static void copy_response(struct talk *talk, char type)
{
	talk_begin(talk, type);
	talk_u8(talk, 0);
	talk_u16(talk, 1);
	talk_u16(talk, 0);
	talk_end(talk);
}

static void notice(struct talk *talk, uint64_t nonce)
{
	char line[40];
	snprintf(line, sizeof line, "%" PRIx64, nonce);
	talk_begin(talk, 'N');
	talk_bytes(talk, "SNOTICE", 8);
	talk_bytes(talk, "C00000", 7);
	talk_u8(talk, 'M');
	talk_text(talk, line);
	talk_u8(talk, 0);
	talk_end(talk);
	talk_flush(talk);
}

/* The statement has ended well. */
static void statement_done(struct backend *backend)
{
	const struct sql *statement = &backend->statements[backend->statement_at];
	char tag[TAG_MAX];
	sql_tag(statement, tag);
	talk_begin(&backend->talk, 'C');
	talk_text(&backend->talk, tag);
	talk_end(&backend->talk);
	backend->statement_at++;
	backend->begun = false;
	backend->rows = 0;
	if (backend->extended)
		backend->running = false;
}

/* It has ended by an error, which was sent. */
static void statement_failed(struct backend *backend)
{
	backend->copying = false;
	backend->waiting = false;
	alarm_clear(&backend->alarm);
	backend->portal_open = false;
	if (backend->extended) {
		backend->skipping = true;
		backend->running = false;
	} else {
		backend->statement_at = backend->statement_count;
	}
}

static void statement_error(struct backend *backend, const char *code, const char *text)
{
	const struct sql *statement = &backend->statements[backend->statement_at];
	backend_error(backend, "ERROR", code, statement->nonce, text);
	statement_failed(backend);
}

static void alarm_fire(struct alarm *alarm)
{
	struct backend *backend = CONTAINER(struct backend, alarm, alarm);
	backend->waiting = false;
	backend_pump(backend);
}

static void wait_for(struct backend *backend, uint32_t us)
{
	backend->waiting = true;
	alarm_set(&backend->alarm, world.now_us + us, alarm_fire);
}

void run_start(struct backend *backend, bool extended)
{
	backend->running = true;
	backend->extended = extended;
	backend->statement_at = 0;
	backend->begun = false;
	backend->rows = 0;
	if (!extended) {
		if (backend->statement_count == 0)
			empty_message(&backend->talk, 'I');
		for (uint32_t i = 0; i < backend->statement_count; i++)
			if (backend->statements[i].verb == VERB_BAD) {
				backend->statement_at = i;
				statement_error(backend, "42601", "syntax error");
				break;
			}
	}
	if (rng_chance(&backend->postgres->rng, 300000))
		wait_for(backend, rng_below(&backend->postgres->rng, 400));
}

static bool verb_ends_transaction(enum verb verb)
{
	return verb == VERB_COMMIT || verb == VERB_ROLLBACK;
}

/* The first step: what a statement does at once. */
static void statement_begin(struct backend *backend)
{
	struct sql *statement = &backend->statements[backend->statement_at];
	struct talk *talk = &backend->talk;
	backend->begun = true;
	if (statement->verb != VERB_OWN)
		check_ran(statement->nonce);
	if (backend->tx == 'E' && !verb_ends_transaction(statement->verb)) {
		statement_error(backend, "25P02", "current transaction is aborted");
		return;
	}
	switch (statement->verb) {
	case VERB_FAIL: statement_error(backend, "P0001", "as you wish"); return;
	case VERB_BEGIN:
		if (backend->tx == 'T')
			notice(talk, statement->nonce);
		backend->tx = 'T';
		statement_done(backend);
		return;
	case VERB_COMMIT:
	case VERB_ROLLBACK:
		if (backend->tx == 'I')
			notice(talk, statement->nonce);
		backend->tx = 'I';
		backend->portal_open = false;
		statement_done(backend);
		return;
	case VERB_NOTE:
		notice(talk, statement->nonce);
		statement_done(backend);
		return;
	case VERB_COPYIN:
		copy_response(talk, 'G');
		talk_flush(talk);
		backend->copying = true;
		return;
	case VERB_COPYOUT: copy_response(talk, 'H'); return;
	case VERB_SLEEP:
		if (!backend->extended)
			row_description(talk);
		wait_for(backend, statement->a);
		return;
	case VERB_ROWS:
		if (!backend->extended)
			row_description(talk);
		return;
	case VERB_OWN:
	case VERB_BAD:
	case VERB_COUNT: statement_done(backend); return;
	}
}

bool run_step(struct backend *backend)
{
	if (backend->statement_at == backend->statement_count) {
		backend->running = false;
		if (!backend->extended)
			backend_ready(backend);
		return true;
	}
	if (!backend->begun) {
		statement_begin(backend);
		return true;
	}
	const struct sql *statement = &backend->statements[backend->statement_at];
	struct talk *talk = &backend->talk;
	if (statement->verb == VERB_SLEEP) {
		row_put(talk, statement, 0);
		statement_done(backend);
		return true;
	}
	uint32_t stop = backend->rows_max == 0 || !backend->extended
	                        ? UINT32_MAX
	                        : backend->portal_rows + backend->rows_max;
	for (int i = 0; i < 8 && backend->rows < statement->a && backend->rows < stop; i++)
		row_put(talk, statement, backend->rows++);
	if (backend->rows == statement->a) {
		if (statement->verb == VERB_COPYOUT)
			empty_message(talk, 'c');
		statement_done(backend);
	} else if (backend->rows == stop) {
		empty_message(talk, 's');
		backend->portal_rows = backend->rows;
		backend->running = false;
	}
	return true;
}

void run_copy_message(struct backend *backend, const struct message *message)
{
	const struct sql *statement = &backend->statements[backend->statement_at];
	trace("copy", backend->pid, message->type);
	switch (message->type) {
	case 'd':
		SIM_CHECK(sql_row_is(statement, backend->rows, message->body, message->size),
		          "I1: backend %u was sent other COPY data than session %u has sent",
		          backend->pid, backend->holder);
		if (++backend->rows == statement->b)
			statement_error(backend, "22P04", "bad copy data");
		break;
	case 'c':
		backend->copying = false;
		check_counts.copies++;
		statement_done(backend);
		break;
	case 'f': statement_error(backend, "57014", "copy from stdin failed"); break;
	case 'H':
	case 'S': break; /* ignored while copying */
	case 'X':        /* an error like any wrong message; the end of file follows */
		statement_error(backend, "08P01", "unexpected message during COPY");
		break;
	default: sim_fail("backend %u was sent '%c' inside of COPY", backend->pid, message->type);
	}
}

bool run_cancel(struct backend *backend)
{
	if (backend->statement_at == backend->statement_count)
		return false;
	statement_error(backend, "57014", "canceling statement due to user request");
	return true;
}

/* Extended protocol. */

static struct kept *prepared_find(struct backend *backend, const char *name)
{
	for (int i = 0; i < PREPARED_MAX; i++)
		if (backend->prepared[i].used && strcmp(backend->prepared[i].name, name) == 0)
			return &backend->prepared[i];
	return NULL;
}

static void extended_error(struct backend *backend, const char *code, uint64_t nonce,
                           const char *text)
{
	backend_error(backend, "ERROR", code, nonce, text);
	backend->skipping = true;
	backend->portal_open = false;
}

static bool is_aborted(const struct backend *backend, const struct sql *statement)
{
	return backend->tx == 'E' && !verb_ends_transaction(statement->verb);
}

static void parse(struct backend *backend, struct cursor cursor)
{
	const char *name = cursor_text(&cursor);
	const char *text = cursor_text(&cursor);
	struct sql statements[STATEMENTS_MAX] = {0};
	uint32_t count = sql_read(text, statements);
	SIM_CHECK(!cursor.bad && count <= 1, "malformed Parse");
	uint64_t nonce = statements[0].nonce;
	if (nonce_client(nonce) != 0)
		backend_claim(backend, nonce_client(nonce));
	else
		backend->unclaimed |= backend->tx == 'I' && !backend->batch;
	backend->batch = true;
	if (statements[0].verb == VERB_BAD) {
		extended_error(backend, "42601", nonce, "syntax error");
		return;
	}
	if (count > 0 && is_aborted(backend, &statements[0])) {
		extended_error(backend, "25P02", nonce, "current transaction is aborted");
		return;
	}
	struct kept *prepared = prepared_find(backend, name);
	if (prepared != NULL && name[0] != '\0') {
		extended_error(backend, "42P05", nonce, "prepared statement already exists");
		return;
	}
	for (int i = 0; prepared == NULL && i < PREPARED_MAX; i++)
		if (!backend->prepared[i].used)
			prepared = &backend->prepared[i];
	SIM_CHECK(prepared != NULL, "more than %d prepared statements", PREPARED_MAX);
	*prepared = (struct kept){.used = true, .empty = count == 0};
	prepared->statement = statements[0];
	snprintf(prepared->name, sizeof prepared->name, "%s", name);
	empty_message(&backend->talk, '1');
}

static uint64_t bind_nonce(struct cursor *cursor)
{
	uint64_t nonce = 0;
	for (uint16_t formats = cursor_u16(cursor); formats > 0; formats--)
		cursor_u16(cursor);
	for (uint16_t i = cursor_u16(cursor); i > 0; i--) {
		uint32_t size = cursor_u32(cursor);
		for (uint32_t k = 0; k < size && k < 17; k++)
			nonce = nonce << 4 |
			        (uint64_t)strtol((char[]){(char)cursor_u8(cursor), 0}, NULL, 16);
	}
	return nonce;
}

static void bind_portal(struct backend *backend, struct cursor cursor)
{
	cursor_text(&cursor);
	struct kept *prepared = prepared_find(backend, cursor_text(&cursor));
	uint64_t nonce = bind_nonce(&cursor);
	SIM_CHECK(!cursor.bad, "malformed Bind");
	if (nonce == 0 && prepared != NULL)
		nonce = prepared->statement.nonce;
	backend_claim(backend, nonce_client(nonce));
	backend->batch = true;
	if (prepared == NULL) {
		extended_error(backend, "26000", nonce, "prepared statement does not exist");
		return;
	}
	if (!prepared->empty && is_aborted(backend, &prepared->statement)) {
		extended_error(backend, "25P02", nonce, "current transaction is aborted");
		return;
	}
	backend->portal = prepared->statement;
	backend->portal.nonce = nonce;
	backend->portal_open = true;
	backend->portal_empty = prepared->empty;
	backend->portal_rows = 0;
	empty_message(&backend->talk, '2');
}

static void describe(struct backend *backend, struct cursor cursor)
{
	uint8_t kind = cursor_u8(&cursor);
	struct kept *prepared = prepared_find(backend, cursor_text(&cursor));
	const struct sql *statement = &backend->portal;
	if (kind == 'S') {
		if (prepared == NULL) {
			extended_error(backend, "26000", 0, "prepared statement does not exist");
			return;
		}
		statement = &prepared->statement;
		talk_begin(&backend->talk, 't');
		talk_u16(&backend->talk, 0);
		talk_end(&backend->talk);
	} else if (!backend->portal_open) {
		extended_error(backend, "34000", 0, "portal does not exist");
		return;
	}
	if (verb_has_rows(statement->verb))
		row_description(&backend->talk);
	else
		empty_message(&backend->talk, 'n');
}

static void execute(struct backend *backend, struct cursor cursor)
{
	cursor_text(&cursor);
	backend->rows_max = cursor_u32(&cursor);
	SIM_CHECK(!cursor.bad, "malformed Execute");
	if (!backend->portal_open) {
		extended_error(backend, "34000", 0, "portal does not exist");
		return;
	}
	if (backend->portal_empty) {
		empty_message(&backend->talk, 'I');
		return;
	}
	backend->statements[0] = backend->portal;
	backend->statement_count = 1;
	run_start(backend, true);
	if (backend->portal_rows > 0) {
		backend->begun = true;
		backend->rows = backend->portal_rows;
	}
}

void run_extended(struct backend *backend, const struct message *message)
{
	struct cursor cursor = cursor_of(message);
	switch (message->type) {
	case 'P': parse(backend, cursor); break;
	case 'B': bind_portal(backend, cursor); break;
	case 'D': describe(backend, cursor); break;
	case 'E': execute(backend, cursor); break;
	default: { /* Close */
		bool is_statement = cursor_u8(&cursor) == 'S';
		struct kept *prepared = prepared_find(backend, cursor_text(&cursor));
		if (is_statement && prepared != NULL)
			prepared->used = false;
		empty_message(&backend->talk, '3');
	}
	}
	backend->batch = true;
}
