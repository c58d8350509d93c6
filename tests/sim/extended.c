/*
 * extended.c - the extended protocol of a backend: prepared statements, portals.
 *
 * What PostgreSQL checks, in its order: a Parse first reads its text, then minds
 * a failed transaction, then the name; a Bind and a Describe find the statement
 * before they mind anything else.  A Parse without name has dropped the old one
 * whatever comes of it.  There is one portal, that without name.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/postgres.h"
#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void backend_describe_rows(struct backend *backend, const struct sql *statement)
{
	struct talk *talk = &backend->talk;
	char column[TAG_MAX];
	sql_column(statement, column);
	talk_begin(talk, 'T');
	talk_u16(talk, 1);
	talk_text(talk, column);
	talk_u32(talk, 0);
	talk_u16(talk, 0);
	talk_u32(talk, 25);
	talk_u16(talk, 0xffff);
	talk_u32(talk, 0xffffffff);
	talk_u16(talk, 0);
	talk_end(talk);
}

/* --- what is prepared --------------------------------------------------------- */

static struct kept *prepared_find(struct backend *backend, const char *name)
{
	if (name[0] == '\0')
		return backend->unnamed.used ? &backend->unnamed : NULL;
	for (int i = 0; i < PREPARED_MAX; i++)
		if (backend->prepared[i].used &&
		    strncmp(backend->prepared[i].name, name, SQL_NAME_MAX) == 0)
			return &backend->prepared[i];
	return NULL;
}

bool prepared_drop(struct backend *backend, const char *name)
{
	struct kept *kept = prepared_find(backend, name);
	if (kept != NULL)
		kept->used = false;
	return kept != NULL;
}

void prepared_drop_all(struct backend *backend)
{
	for (int i = 0; i < PREPARED_MAX; i++)
		backend->prepared[i].used = false;
}

/* The pooler keeps to its limit. */
static void prepared_count(const struct backend *backend)
{
	uint32_t count = 0;
	for (int i = 0; i < PREPARED_MAX; i++)
		count += backend->prepared[i].used &&
		         strcmp(backend->prepared[i].name, PREPARED_SACRIFICED) != 0;
	uint32_t limit = backend->postgres->limit_prepared;
	SIM_CHECK(limit == 0 || count <= limit,
	          "I4: %u prepared statements on backend %u where %u are allowed", count,
	          backend->pid, limit);
	if (count > check_counts.prepared_most)
		check_counts.prepared_most = count;
}

static struct kept *prepared_place(struct backend *backend, const char *name)
{
	if (name[0] == '\0')
		return &backend->unnamed;
	for (int i = 0; i < PREPARED_MAX; i++)
		if (!backend->prepared[i].used)
			return &backend->prepared[i];
	sim_fail("more than %d prepared statements", PREPARED_MAX);
}

/* --- messages ------------------------------------------------------------------- */

static void claim(struct backend *backend, uint64_t nonce)
{
	if (nonce_client(nonce) != 0)
		backend_claim(backend, nonce_client(nonce));
}

static void failed(struct backend *backend)
{
	backend->skipping = true;
	backend->portal_open = false;
}

static void extended_error(struct backend *backend, const char *code, uint64_t nonce,
                           const char *text)
{
	backend_error(backend, "ERROR", code, nonce, text);
	failed(backend);
}

static void name_error(struct backend *backend, const char *code, const char *name,
                       const char *what)
{
	char words[400];
	if (name[0] == '\0')
		snprintf(words, sizeof words, "unnamed prepared statement %s", what);
	else
		snprintf(words, sizeof words, "prepared statement \"%s\" %s", name, what);
	backend_error_words(backend, "ERROR", code, words);
	failed(backend);
}

static void portal_error(struct backend *backend)
{
	backend_error_words(backend, "ERROR", "34000", "portal \"\" does not exist");
	failed(backend);
}

static bool is_aborted(const struct backend *backend, const struct sql *statement)
{
	return backend->tx == 'E' && !verb_ends_transaction(statement->verb);
}

static void parse(struct backend *backend, struct cursor cursor)
{
	const char *name = cursor_text(&cursor);
	const char *text = cursor_text(&cursor);
	trace_words("hear", backend->pid, 'P', name, text);
	struct sql statements[STATEMENTS_MAX] = {0};
	uint32_t count = sql_read(text, statements);
	SIM_CHECK(!cursor.bad && count <= 1, "malformed Parse");
	SIM_CHECK(cursor_u16(&cursor) == 0 && !cursor.bad && cursor.at == cursor.end,
	          "malformed Parse");
	uint64_t nonce = statements[0].nonce;
	check_counts.parses++;
	claim(backend, nonce);
	if (name[0] == '\0')
		backend->unnamed.used = false;
	if (statements[0].verb == VERB_BAD) {
		extended_error(backend, "42601", nonce, "syntax error");
		return;
	}
	if (count > 0 && is_aborted(backend, &statements[0])) {
		extended_error(backend, "25P02", nonce, "current transaction is aborted");
		return;
	}
	if (prepared_find(backend, name) != NULL) {
		name_error(backend, "42P05", name, "already exists");
		return;
	}
	struct kept *kept = prepared_place(backend, name);
	*kept = (struct kept){.used = true, .empty = count == 0, .statement = statements[0]};
	snprintf(kept->name, sizeof kept->name, "%s", name);
	prepared_count(backend);
	talk_empty(&backend->talk, '1');
}

/* The nonce of the one parameter there may be, and how many there are. */
static uint64_t bind_nonce(struct cursor *cursor, uint16_t *count)
{
	uint64_t nonce = 0;
	for (uint16_t formats = cursor_u16(cursor); formats > 0; formats--)
		cursor_u16(cursor);
	*count = cursor_u16(cursor);
	for (uint16_t i = *count; i > 0; i--) {
		uint32_t size = cursor_u32(cursor);
		nonce = 0;
		for (uint32_t k = 0; k < size && !cursor->bad; k++) {
			char digit = (char)cursor_u8(cursor);
			if (k < 16)
				nonce = nonce << 4 | (uint64_t)strtol((char[]){digit, 0}, NULL, 16);
		}
	}
	SIM_CHECK(cursor_u16(cursor) == 0 && !cursor->bad && cursor->at == cursor->end,
	          "malformed Bind");
	return nonce;
}

static void bind_portal(struct backend *backend, struct cursor cursor)
{
	SIM_CHECK(cursor_text(&cursor)[0] == '\0', "another portal");
	const char *name = cursor_text(&cursor);
	trace_words("hear", backend->pid, 'B', name, "");
	const struct kept *kept = prepared_find(backend, name);
	uint16_t count;
	uint64_t nonce = bind_nonce(&cursor, &count);
	if (nonce == 0 && kept != NULL)
		nonce = kept->statement.nonce;
	claim(backend, nonce);
	if (kept == NULL) {
		name_error(backend, "26000", name, "does not exist");
		return;
	}
	if (count != (!kept->empty && sql_has_parameter(&kept->statement) ? 1 : 0)) {
		extended_error(backend, "08P01", nonce, "another number of parameters");
		return;
	}
	if (is_aborted(backend, &kept->statement)) {
		extended_error(backend, "25P02", nonce, "current transaction is aborted");
		return;
	}
	check_counts.binds++;
	backend->portal = kept->statement;
	backend->portal.nonce = nonce;
	backend->portal_open = true;
	backend->portal_empty = kept->empty;
	backend->portal_rows = 0;
	backend->portal_done = false;
	talk_empty(&backend->talk, '2');
}

static void describe_statement(struct backend *backend, const char *name)
{
	const struct kept *kept = prepared_find(backend, name);
	struct talk *talk = &backend->talk;
	trace_words("hear", backend->pid, 'D', name, "");
	if (kept == NULL) {
		name_error(backend, "26000", name, "does not exist");
		return;
	}
	const struct sql *statement = &kept->statement;
	claim(backend, statement->nonce);
	if (backend->tx == 'E' && verb_has_rows(statement->verb)) {
		extended_error(backend, "25P02", statement->nonce,
		               "current transaction is aborted");
		return;
	}
	bool has_parameter = !kept->empty && sql_has_parameter(statement);
	talk_begin(talk, 't');
	talk_u16(talk, has_parameter ? 1 : 0);
	if (has_parameter)
		talk_u32(talk, 25);
	talk_end(talk);
	if (verb_has_rows(statement->verb))
		backend_describe_rows(backend, statement);
	else
		talk_empty(talk, 'n');
}

static void describe(struct backend *backend, struct cursor cursor)
{
	bool is_portal = cursor_u8(&cursor) == 'P';
	const char *name = cursor_text(&cursor);
	SIM_CHECK(!cursor.bad && cursor.at == cursor.end, "malformed Describe");
	if (!is_portal) {
		describe_statement(backend, name);
		return;
	}
	if (!backend->portal_open) {
		portal_error(backend);
		return;
	}
	claim(backend, backend->portal.nonce);
	if (verb_has_rows(backend->portal.verb))
		backend_describe_rows(backend, &backend->portal);
	else
		talk_empty(&backend->talk, 'n');
}

static void execute(struct backend *backend, struct cursor cursor)
{
	SIM_CHECK(cursor_text(&cursor)[0] == '\0', "another portal");
	backend->rows_max = cursor_u32(&cursor);
	SIM_CHECK(!cursor.bad && cursor.at == cursor.end, "malformed Execute");
	if (!backend->portal_open) {
		portal_error(backend);
		return;
	}
	claim(backend, backend->portal.nonce);
	if (backend->portal_done) {
		backend_error_words(backend, "ERROR", "55000", "portal \"\" cannot be run");
		failed(backend);
		return;
	}
	if (backend->portal_empty) {
		talk_empty(&backend->talk, 'I');
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

static void close_thing(struct backend *backend, struct cursor cursor)
{
	bool is_portal = cursor_u8(&cursor) == 'P';
	const char *name = cursor_text(&cursor);
	trace_words("hear", backend->pid, 'C', name, is_portal ? "portal" : "");
	SIM_CHECK(!cursor.bad && cursor.at == cursor.end, "malformed Close");
	if (is_portal)
		backend->portal_open = false;
	else
		prepared_drop(backend, name);
	talk_empty(&backend->talk, '3');
}

void extended_message(struct backend *backend, const struct message *message)
{
	struct cursor cursor = cursor_of(message);
	backend->unclaimed |= backend->tx == 'I' && !backend->batch;
	switch (message->type) {
	case 'P': parse(backend, cursor); break;
	case 'B': bind_portal(backend, cursor); break;
	case 'D': describe(backend, cursor); break;
	case 'E': execute(backend, cursor); break;
	default: close_thing(backend, cursor); break;
	}
	backend->batch = true;
}
