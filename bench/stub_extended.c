/*
 * stub_extended.c - the extended query protocol of the stub.
 *
 * The unnamed statement and portal lie in the session and keep their memory;
 * named ones come from the heap.  A portal copies the text of its statement,
 * so that it outlives it, as a portal of PostgreSQL does.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/stub.h"

#include <stdlib.h>

#include "core/base/check.h"
#include "proto/read.h"

enum { TEXT_TYPE = 25 };

static void extended_fail(struct session *session, const char *sqlstate, const char *message)
{
	session->run.extended = true;
	session_error(session, sqlstate, message);
}

static void buffer_set(struct buffer *buffer, struct span bytes)
{
	buffer_clear(buffer);
	buffer_add(buffer, bytes.data, bytes.size);
}

/* Without the zero byte. */
static struct span buffer_span(const struct buffer *buffer)
{
	return span_of(buffer_front(buffer), buffer_size(buffer) - 1);
}

static struct span span_with_end(const char *text)
{
	return span_of(text, strlen(text) + 1);
}

/* --------------------------------------------------------------- statements */

static struct statement **statement_place(struct session *session, const char *name)
{
	struct span text = span_text(name);
	uint64_t hash = bytes_hash(text.data, text.size, 0);
	if (session->named == NULL)
		session->named = memory_new(STUB_BUCKETS * sizeof(struct statement *));
	struct statement **place = &session->named[hash % STUB_BUCKETS];
	while (*place != NULL &&
	       ((*place)->hash != hash || !span_equal(buffer_span(&(*place)->name), text)))
		place = &(*place)->next;
	return place;
}

/* NULL if there is none of that name. */
static struct statement *statement_find(struct session *session, const char *name)
{
	if (*name != '\0')
		return *statement_place(session, name);
	return buffer_size(&session->unnamed.text) > 0 ? &session->unnamed : NULL;
}

static void statement_remove(struct statement **place)
{
	struct statement *statement = *place;
	if (statement == NULL)
		return;
	*place = statement->next;
	buffer_fini(&statement->name);
	buffer_fini(&statement->text);
	free(statement);
}

static struct statement *statement_add(struct session *session, const char *name)
{
	if (*name == '\0')
		return &session->unnamed;
	struct statement **place = statement_place(session, name);
	if (*place != NULL)
		return NULL;
	*place = memory_new(sizeof **place);
	(*place)->hash = bytes_hash(name, strlen(name), 0);
	buffer_set(&(*place)->name, span_with_end(name));
	return *place;
}

void extended_parse(struct session *session, struct span body)
{
	struct reader in = reader_of(body);
	struct plan plan;
	const char *name = reader_text(&in);
	const char *sql = reader_text(&in);
	uint32_t count = reader_u16(&in);
	struct span types = reader_bytes(&in, count * 4);
	if (!reader_done(&in)) {
		session_fatal(session, "08P01", "invalid message format");
		return;
	}
	if (count > PLAN_PARAMETERS_MAX) {
		extended_fail(session, "54000", "too many parameters");
		return;
	}
	struct statement *statement = statement_add(session, name);
	if (statement == NULL) {
		extended_fail(session, "42P05", "prepared statement already exists");
		return;
	}
	struct span text = span_text(sql);
	plan_read(&text, &plan);
	buffer_set(&statement->text, span_with_end(sql));
	statement->parameters = MAX(plan.parameters, count);
	for (uint32_t i = 0; i < statement->parameters; i++) {
		uint32_t type = i < count ? read_u32(types.data + (size_t)i * 4) : 0;
		statement->types[i] = type == 0 ? TEXT_TYPE : type;
	}
	session_message(session, '1', NULL, 0);
}

/* ------------------------------------------------------------------ portals */

static struct portal *portal_find(struct session *session, const char *name)
{
	if (*name == '\0')
		return session->portal.exists ? &session->portal : NULL;
	struct portal *portal = session->portals;
	while (portal != NULL && !span_is(buffer_span(&portal->name), name))
		portal = portal->next;
	return portal;
}

static void portal_free(struct portal *portal)
{
	buffer_fini(&portal->name);
	buffer_fini(&portal->bytes);
	free(portal);
}

void extended_forget_portals(struct session *session)
{
	session->portal.exists = false;
	while (session->portals != NULL) {
		struct portal *portal = session->portals;
		session->portals = portal->next;
		portal_free(portal);
	}
}

void extended_forget(struct session *session)
{
	extended_forget_portals(session);
	for (uint32_t i = 0; session->named != NULL && i < STUB_BUCKETS; i++)
		while (session->named[i] != NULL)
			statement_remove(&session->named[i]);
}

static struct portal *portal_add(struct session *session, const char *name)
{
	struct portal *portal = portal_find(session, name);
	if (*name == '\0') {
		portal = &session->portal;
	} else {
		if (portal != NULL)
			return NULL;
		portal = memory_new(sizeof *portal);
		buffer_set(&portal->name, span_with_end(name));
		portal->next = session->portals;
		session->portals = portal;
	}
	portal->exists = true;
	portal->row = 0;
	portal->value_count = 0;
	return portal;
}

/* Reads the parameters of a Bind; the values point into the message. */
static bool bind_read(struct reader *in, struct span *values, uint32_t *count)
{
	uint32_t format_count = reader_u16(in);
	reader_bytes(in, format_count * 2);
	*count = reader_u16(in);
	for (uint32_t i = 0; i < *count && !in->failed; i++) {
		uint32_t size = reader_u32(in);
		struct span value = {NULL, 0};
		if (size <= INT32_MAX)
			value = reader_bytes(in, size);
		if (i < PLAN_PARAMETERS_MAX)
			values[i] = value;
	}
	uint32_t result_count = reader_u16(in);
	reader_bytes(in, result_count * 2);
	return reader_done(in);
}

/* Copies text and values into the portal, and lets it point to them. */
static void portal_fill(struct portal *portal, const struct statement *statement,
                        const struct span *values, uint32_t count)
{
	size_t size = buffer_size(&statement->text);
	for (uint32_t i = 0; i < count; i++)
		size += values[i].size;
	buffer_clear(&portal->bytes);
	uint8_t *to = buffer_room(&portal->bytes, size);
	portal->bytes.end = size;
	portal->text = buffer_span(&statement->text);
	memcpy(to, portal->text.data, portal->text.size);
	portal->text.data = to;
	to += portal->text.size;
	for (uint32_t i = 0; i < count; i++) {
		portal->values[i] = values[i];
		if (values[i].data == NULL)
			continue;
		memcpy(to, values[i].data, values[i].size);
		portal->values[i].data = to;
		to += values[i].size;
	}
	portal->value_count = count;
}

void extended_bind(struct session *session, struct span body)
{
	struct span values[PLAN_PARAMETERS_MAX];
	uint32_t count;
	struct reader in = reader_of(body);
	const char *portal_name = reader_text(&in);
	const char *name = reader_text(&in);
	if (!bind_read(&in, values, &count)) {
		session_fatal(session, "08P01", "invalid message format");
		return;
	}
	struct statement *statement = statement_find(session, name);
	if (statement == NULL) {
		extended_fail(session, "26000", "prepared statement does not exist");
		return;
	}
	if (count != statement->parameters) {
		extended_fail(session, "08P01", "wrong number of parameters in bind message");
		return;
	}
	struct portal *portal = portal_add(session, portal_name);
	if (portal == NULL) {
		extended_fail(session, "42P03", "portal already exists");
		return;
	}
	portal_fill(portal, statement, values, count);
	session_message(session, '2', NULL, 0);
}

/* -------------------------------------------------- Describe, Execute, Close */

static void describe_rows(struct session *session, struct span text)
{
	struct plan plan;
	plan_read(&text, &plan);
	if (plan.kind == PLAN_ROWS)
		run_describe(session, &plan);
	else
		session_message(session, 'n', NULL, 0);
}

static void describe_statement(struct session *session, const char *name)
{
	const struct statement *statement = statement_find(session, name);
	if (statement == NULL) {
		extended_fail(session, "26000", "prepared statement does not exist");
		return;
	}
	struct writer out = buffer_writer(&session->out, PLAN_PARAMETERS_MAX * 4 + 16);
	writer_begin(&out, 't');
	writer_u16(&out, (uint16_t)statement->parameters);
	for (uint32_t i = 0; i < statement->parameters; i++)
		writer_u32(&out, statement->types[i]);
	writer_end(&out);
	buffer_wrote(&session->out, &out);
	describe_rows(session, buffer_span(&statement->text));
}

void extended_describe(struct session *session, struct span body)
{
	struct reader in = reader_of(body);
	uint8_t kind = reader_u8(&in);
	const char *name = reader_text(&in);
	if (!reader_done(&in)) {
		session_fatal(session, "08P01", "invalid message format");
		return;
	}
	if (kind == 'S') {
		describe_statement(session, name);
		return;
	}
	const struct portal *portal = portal_find(session, name);
	if (portal == NULL)
		extended_fail(session, "34000", "portal does not exist");
	else
		describe_rows(session, portal->text);
}

void extended_execute(struct session *session, struct span body)
{
	struct reader in = reader_of(body);
	const char *name = reader_text(&in);
	uint32_t row_limit = reader_u32(&in);
	if (!reader_done(&in)) {
		session_fatal(session, "08P01", "invalid message format");
		return;
	}
	struct portal *portal = portal_find(session, name);
	if (portal == NULL)
		extended_fail(session, "34000", "portal does not exist");
	else
		run_portal(session, portal, row_limit);
}

void extended_close(struct session *session, struct span body)
{
	struct reader in = reader_of(body);
	uint8_t kind = reader_u8(&in);
	const char *name = reader_text(&in);
	if (!reader_done(&in)) {
		session_fatal(session, "08P01", "invalid message format");
		return;
	}
	if (kind == 'S' && *name != '\0') {
		statement_remove(statement_place(session, name));
	} else if (kind == 'S') {
		buffer_clear(&session->unnamed.text);
	} else if (*name == '\0') {
		session->portal.exists = false;
	} else {
		struct portal **place = &session->portals;
		while (*place != NULL && !span_is(buffer_span(&(*place)->name), name))
			place = &(*place)->next;
		struct portal *portal = *place;
		if (portal != NULL) {
			*place = portal->next;
			portal_free(portal);
		}
	}
	session_message(session, '3', NULL, 0);
}
