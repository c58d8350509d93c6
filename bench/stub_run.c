/*
 * stub_run.c - statements of the stub, one at a time and in steps.
 *
 * run_go() takes steps until the run is idle or stuck.  A run gets stuck in
 * three ways: it sleeps, the peer does not read its rows, or it waits for the
 * data of a COPY.  The text of a simple query lies in the read buffer, so a
 * run that gets stuck first copies what it still needs.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/stub.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"

enum {
	ROW_MAX = 1000 * 1000 * 1000,
	CHUNK = 32 * 1024,
	TEXT_TYPE = 25, /* its OID */
};

/* ------------------------------------------------------------ small answers */

static void run_tag(struct session *session)
{
	struct run *run = &session->run;
	char text[48];
	const char *tag = run->plan.tag;
	if (run->plan.kind == PLAN_ROWS) {
		snprintf(text, sizeof text, "SELECT %" PRIu64, run->row);
		tag = text;
	} else if (run->plan.kind == PLAN_COPY_IN || run->plan.kind == PLAN_COPY_OUT) {
		uint64_t count = run->plan.kind == PLAN_COPY_IN ? run->line_count : run->row;
		snprintf(text, sizeof text, "COPY %" PRIu64, count);
		tag = text;
	}
	session_message(session, 'C', tag, (uint32_t)strlen(tag) + 1);
}

void run_describe(struct session *session, const struct plan *plan)
{
	struct writer out = buffer_writer(&session->out, PLAN_COLUMNS_MAX * 32 + 16);
	writer_begin(&out, 'T');
	writer_u16(&out, (uint16_t)plan->column_count);
	for (uint32_t i = 0; i < plan->column_count; i++) {
		bool fill = plan->columns[i].kind == COLUMN_FILL;
		writer_text(&out, fill ? "repeat" : "?column?");
		writer_u32(&out, 0);
		writer_u16(&out, 0);
		writer_u32(&out, TEXT_TYPE);
		writer_u16(&out, UINT16_MAX);
		writer_u32(&out, UINT32_MAX);
		writer_u16(&out, 0);
	}
	writer_end(&out);
	buffer_wrote(&session->out, &out);
}

/* CopyInResponse, CopyOutResponse: text, one column. */
static void run_copy_response(struct session *session, char type)
{
	static const uint8_t body[] = {0, 0, 1, 0, 0};
	session_message(session, type, body, sizeof body);
}

/* --------------------------------------------------------------------- rows */

/* The size of a column's value; -1 for a null. */
static int64_t column_size(const struct run *run, const struct column *column)
{
	if (column->kind != COLUMN_PARAMETER)
		return column->size;
	if (run->portal == NULL || column->number > run->portal->value_count)
		return -1;
	const struct span *value = &run->portal->values[column->number - 1];
	return value->data == NULL ? -1 : (int64_t)value->size;
}

static uint64_t row_size(const struct run *run)
{
	uint64_t size = 0;
	for (uint32_t i = 0; i < run->plan.column_count; i++) {
		int64_t column = column_size(run, &run->plan.columns[i]);
		size += column > 0 ? (uint64_t)column : 0;
	}
	return size;
}

static void row_begin(struct session *session)
{
	const struct run *run = &session->run;
	bool copy = run->plan.kind == PLAN_COPY_OUT;
	uint32_t size = (uint32_t)row_size(run) + run->plan.column_count * (copy ? 1 : 4);
	struct writer out = buffer_writer(&session->out, 8);
	writer_u8(&out, copy ? 'd' : 'D');
	writer_u32(&out, size + (copy ? 4 : 6));
	if (!copy)
		writer_u16(&out, (uint16_t)run->plan.column_count);
	buffer_wrote(&session->out, &out);
}

/* Adds up to `size` bytes of a value from `offset` on; literals are whole. */
static void column_add(struct session *session, const struct column *column, uint32_t offset,
                       uint32_t size)
{
	const struct run *run = &session->run;
	uint8_t *to = buffer_room(&session->out, size);
	if (column->kind == COLUMN_FILL) {
		memset(to, column->fill, size);
	} else if (column->kind == COLUMN_PARAMETER) {
		memcpy(to, run->portal->values[column->number - 1].data + offset, size);
	} else if (column->size == column->text.size) {
		memcpy(to, column->text.data + offset, size);
	} else {
		for (uint32_t i = 0; i < column->text.size; i++) {
			*to++ = column->text.data[i];
			if (column->text.data[i] == '\'')
				i++;
		}
	}
	session->out.end += size;
}

/* Adds what fits of the row under way; false if some of it is left. */
static bool row_add(struct session *session)
{
	struct run *run = &session->run;
	bool copy = run->plan.kind == PLAN_COPY_OUT;
	if (run->column == 0 && !run->inside)
		row_begin(session);
	for (; run->column < run->plan.column_count; run->column++) {
		const struct column *column = &run->plan.columns[run->column];
		int64_t size = column_size(run, column);
		if (!run->inside && !copy) {
			struct writer out = buffer_writer(&session->out, 4);
			writer_u32(&out, (uint32_t)size);
			buffer_wrote(&session->out, &out);
		}
		uint32_t left = size > 0 ? (uint32_t)size - run->offset : 0;
		bool whole = left <= CHUNK || (column->kind == COLUMN_TEXT);
		uint32_t now = whole ? left : CHUNK;
		if (now > 0)
			column_add(session, column, run->offset, now);
		run->inside = !whole;
		run->offset = whole ? 0 : run->offset + now;
		if (!whole)
			return false;
		if (copy)
			buffer_add(&session->out,
			           run->column + 1 < run->plan.column_count ? "\t" : "\n", 1);
	}
	run->column = 0;
	run->row++;
	return true;
}

/* False if the peer has to read first. */
static bool rows_add(struct session *session)
{
	struct run *run = &session->run;
	size_t turn = 0;
	while (run->row < run->row_end) {
		size_t before = buffer_size(&session->out);
		if (before >= STUB_OUT_HIGH && (!session_flush(session) || turn > STUB_TURN_BYTES))
			return false;
		before = buffer_size(&session->out);
		row_add(session);
		turn += buffer_size(&session->out) - before;
	}
	return true;
}

/* -------------------------------------------------------------------- steps */

/* A run that got stuck must not point into the read buffer. */
static void run_keep(struct session *session)
{
	struct run *run = &session->run;
	if (run->extended || run->kept)
		return;
	struct span old = run->source;
	buffer_clear(&run->copy);
	buffer_add(&run->copy, old.data, old.size);
	const uint8_t *copy = buffer_front(&run->copy);
	plan_move(&run->plan, old, copy);
	run->source.data = copy;
	run->text.data = copy + (run->text.data - old.data);
	run->kept = true;
}

static void run_fail(struct session *session, const char *sqlstate, const char *message)
{
	struct run *run = &session->run;
	session_error(session, sqlstate, message);
	run->step = run->extended ? RUN_IDLE : RUN_READY;
}

static bool plan_ends_transaction(const struct plan *plan)
{
	return plan->kind == PLAN_COMMIT || plan->kind == PLAN_ROLLBACK;
}

/* What a statement does apart from rows. */
static void run_effect(struct session *session)
{
	struct plan *plan = &session->run.plan;
	if (plan->kind == PLAN_BEGIN) {
		session->status = 'T';
	} else if (plan_ends_transaction(plan)) {
		if (session->status == 'E')
			plan->tag = "ROLLBACK";
		session->status = 'I';
	} else if (plan->kind == PLAN_SET) {
		session_set(session, plan->name, plan->value);
	} else if (plan->kind == PLAN_RESET || plan->kind == PLAN_DISCARD) {
		session_reset(session);
		if (plan->kind == PLAN_DISCARD)
			extended_forget(session);
	}
}

static void run_head(struct session *session)
{
	struct run *run = &session->run;
	const struct plan *plan = &run->plan;
	run->step = RUN_TAIL;
	if (plan->drop) {
		session_close(session);
	} else if (plan->fatal) {
		session_fatal(session, plan->sqlstate, "fatal as asked");
	} else if (plan->sqlstate[0] != '\0') {
		run_fail(session, plan->sqlstate, "failed as asked");
	} else if (session->status == 'E' && !plan_ends_transaction(plan) &&
	           plan->kind != PLAN_BEGIN && plan->kind != PLAN_EMPTY) {
		run_fail(session, "25P02",
		         "current transaction is aborted, commands ignored until end of "
		         "transaction block");
	} else if (plan->kind == PLAN_ROWS || plan->kind == PLAN_COPY_OUT) {
		if (row_size(run) > ROW_MAX) {
			run_fail(session, "54000", "row too large");
			return;
		}
		if (plan->kind == PLAN_COPY_OUT)
			run_copy_response(session, 'H');
		else if (!run->extended)
			run_describe(session, plan);
		run->step = RUN_ROWS;
	} else if (plan->kind == PLAN_COPY_IN) {
		run_copy_response(session, 'G');
		run->line_count = 0;
		run_keep(session);
		run->step = RUN_COPY_IN;
	} else {
		run_effect(session);
	}
}

static void run_tail(struct session *session)
{
	struct run *run = &session->run;
	run->step = run->extended ? RUN_IDLE : RUN_STATEMENT;
	if (run->plan.kind == PLAN_COPY_OUT)
		session_message(session, 'c', NULL, 0);
	if (run->plan.kind == PLAN_EMPTY)
		session_message(session, 'I', NULL, 0);
	else if (run->extended && run->row < run->plan.rows)
		session_message(session, 's', NULL, 0);
	else
		run_tag(session);
	if (run->again) {
		run->again = false;
		run->row = 0;
		run->step = RUN_HEAD;
	}
}

/* Every n-th row goes wrong, in one of four ways by turns; true if it never comes. */
static bool run_spoil(struct session *session)
{
	static const char lie[] = "spoiled";
	struct stub *stub = session->stub;
	struct run *run = &session->run;
	run->again = false;
	if (stub->spoil == 0 || run->plan.kind != PLAN_ROWS || ++stub->spoil_count < stub->spoil)
		return false;
	stub->spoil_count = 0;
	switch (stub->spoiled++ % 4) {
	case 0:
		run->plan.columns[0].text = span_text(lie);
		run->plan.columns[0].size = sizeof lie - 1;
		break;
	case 1: run->row_end = 0; break;
	case 2: run->again = true; break;
	default: return true;
	}
	return false;
}

/* The next statement of a simple query, or its end. */
static void run_statement(struct session *session)
{
	struct run *run = &session->run;
	bool first = run->first;
	run->first = false;
	run->source = run->text;
	plan_read(&run->text, &run->plan);
	/* Nothing behind the last semicolon is no statement. */
	if (run->plan.kind == PLAN_EMPTY && !first) {
		run->step = RUN_READY;
		return;
	}
	run->row = 0;
	run->row_end = run->plan.rows;
	run->step = RUN_BEGIN;
}

/* Delays a statement that says so. */
static void run_begin(struct session *session)
{
	struct run *run = &session->run;
	bool never = run_spoil(session);
	session->stub->queries++;
	run->step = RUN_HEAD;
	if (run->plan.delay_us == 0 && !never)
		return;
	run_keep(session);
	run->step = RUN_DELAYED;
	if (!never)
		timers_set(&session->stub->timers, &session->timer,
		           clock_now() + run->plan.delay_us * NS_PER_US);
}

void run_go(struct session *session)
{
	struct run *run = &session->run;
	while (session->fd >= 0 && !session->ending) {
		switch (run->step) {
		case RUN_STATEMENT: run_statement(session); break;
		case RUN_BEGIN: run_begin(session); break;
		case RUN_HEAD: run_head(session); break;
		case RUN_ROWS:
			if (!rows_add(session)) {
				run_keep(session);
				return;
			}
			run->step = RUN_TAIL;
			break;
		case RUN_TAIL: run_tail(session); break;
		case RUN_READY:
			run->step = RUN_IDLE;
			session_ready(session);
			return;
		case RUN_IDLE:
		case RUN_COPY_IN:
		case RUN_DELAYED: return;
		}
	}
}

void run_query(struct session *session, struct span text)
{
	struct run *run = &session->run;
	run->extended = run->kept = false;
	run->first = true;
	run->portal = NULL;
	run->source = run->text = text;
	run->step = RUN_STATEMENT;
	run_go(session);
}

void run_portal(struct session *session, struct portal *portal, uint32_t row_limit)
{
	struct run *run = &session->run;
	struct span text = portal->text;
	plan_read(&text, &run->plan);
	run->extended = true;
	run->portal = portal;
	run->row = portal->row;
	run->row_end = run->plan.rows;
	if (row_limit > 0 && run->plan.kind == PLAN_ROWS)
		run->row_end = MIN(run->row + row_limit, run->row_end);
	portal->row = run->row_end;
	run->step = RUN_BEGIN;
	run_go(session);
}

void run_copy_message(struct session *session, uint8_t type, struct span body, bool last)
{
	struct run *run = &session->run;
	if (type == 'd') {
		for (uint32_t i = 0; i < body.size; i++)
			run->line_count += body.data[i] == '\n';
	} else if (type == 'c' && last) {
		run->step = RUN_TAIL;
		run_go(session);
	} else if (type == 'f' && last) {
		run_fail(session, "57014", "COPY from stdin failed");
		run_go(session);
	}
}

void run_cancel(struct session *session)
{
	struct run *run = &session->run;
	if (run->step != RUN_DELAYED && run->step != RUN_COPY_IN &&
	    (run->step != RUN_ROWS || run->inside))
		return;
	session->stub->cancels_hit++;
	timers_clear(&session->stub->timers, &session->timer);
	run_fail(session, "57014", "canceling statement due to user request");
	session_resume(session);
}
