/*
 * run.c - what a backend does with statements (sql.h) of both protocols, COPY
 * too.
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
	if (backend->extended) {
		backend->running = false;
		backend->portal_done = true;
	}
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
			talk_empty(&backend->talk, 'I');
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

/* DEALLOCATE and DISCARD ALL. */
static void forget(struct backend *backend, const struct sql *statement)
{
	char words[SQL_NAME_MAX + 64];
	if (statement->verb == VERB_DISCARD_ALL &&
	    (backend->tx == 'T' || backend->statement_count > 1)) {
		statement_error(backend, "25001",
		                "DISCARD ALL cannot run inside a transaction block");
		return;
	}
	if (statement->verb != VERB_DEALLOCATE) {
		prepared_drop_all(backend);
		statement_done(backend);
		return;
	}
	if (prepared_drop(backend, statement->target)) {
		statement_done(backend);
		return;
	}
	snprintf(words, sizeof words, "prepared statement \"%s\" does not exist",
	         statement->target);
	backend_error_words(backend, "ERROR", "26000", words);
	statement_failed(backend);
}

/* The first step: what a statement does at once. */
static void statement_begin(struct backend *backend)
{
	struct sql *statement = &backend->statements[backend->statement_at];
	struct talk *talk = &backend->talk;
	backend->begun = true;
	if (statement->verb != VERB_OWN && !verb_forgets(statement->verb))
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
			backend_describe_rows(backend, statement);
		wait_for(backend, statement->a);
		return;
	case VERB_ROWS:
		if (!backend->extended)
			backend_describe_rows(backend, statement);
		return;
	case VERB_DEALLOCATE:
	case VERB_DEALLOCATE_ALL:
	case VERB_DISCARD_ALL: forget(backend, statement); return;
	case VERB_ALTER:
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
	bool whole = statement->verb == VERB_COPYOUT; /* no limit of rows stops a COPY */
	uint32_t stop = backend->rows_max == 0 || !backend->extended || whole
	                        ? UINT32_MAX
	                        : backend->portal_rows + backend->rows_max;
	for (int i = 0; i < 8 && backend->rows < statement->a && backend->rows < stop; i++)
		row_put(talk, statement, backend->rows++);
	if (backend->rows == statement->a) {
		if (statement->verb == VERB_COPYOUT)
			talk_empty(talk, 'c');
		statement_done(backend);
	} else if (backend->rows == stop) {
		talk_empty(talk, 's');
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
