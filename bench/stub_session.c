/*
 * stub_session.c - a session of the stub from its first packet to its end.
 *
 * What comes in is cut in place in the one read buffer of the program.  A
 * message that is not whole is gathered in `held`; data of a COPY passes in
 * pieces.  When a statement gets stuck, the rest of the input goes to
 * `backlog` and is fed again later.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/stub.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "proto/md5.h"
#include "proto/read.h"
#include "proto/startup.h"

/* What PostgreSQL 15 reports after login, in its order. */
static const struct {
	const char *name, *value;
	bool settable;
} parameters[STUB_PARAMETERS] = {
	{"in_hot_standby", "off", false},
	{"integer_datetimes", "on", false},
	{"TimeZone", "Etc/UTC", true},
	{"IntervalStyle", "postgres", true},
	{"is_superuser", "on", false},
	{"application_name", "", true},
	{"default_transaction_read_only", "off", true},
	{"DateStyle", "ISO, MDY", true},
	{"standard_conforming_strings", "on", true},
	{"session_authorization", "postgres", false},
	{"client_encoding", "UTF8", true},
	{"server_version", "15.14 (stub)", false},
	{"server_encoding", "UTF8", false},
};

enum { SESSION_AUTHORIZATION = 9 };

void session_message(struct session *session, char type, const void *body, uint32_t size)
{
	struct writer out = buffer_writer(&session->out, size + 5);
	writer_begin(&out, type);
	writer_bytes(&out, body, size);
	writer_end(&out);
	buffer_wrote(&session->out, &out);
}

static void error_add(struct session *session, const char *severity, const char *sqlstate,
                      const char *message)
{
	struct writer out = buffer_writer(&session->out, (uint32_t)strlen(message) + 64);
	write_error(&out, severity, sqlstate, message);
	buffer_wrote(&session->out, &out);
}

void session_error(struct session *session, const char *sqlstate, const char *message)
{
	error_add(session, "ERROR", sqlstate, message);
	if (session->status == 'T')
		session->status = 'E';
	/* Only an extended batch is skipped up to its Sync. */
	session->skipping = session->run.extended;
}

void session_fatal(struct session *session, const char *sqlstate, const char *message)
{
	error_add(session, "FATAL", sqlstate, message);
	session->ending = true;
}

/* --------------------------------------------------------------- parameters */

static void value_set(struct session *session, uint32_t i, struct span value)
{
	struct span now = span_text(session->values[i]);
	uint32_t size = MIN(value.size, (uint32_t)STUB_VALUE_MAX - 1);
	value.size = size;
	if (span_equal(now, value))
		return;
	memcpy(session->values[i], value.data, size);
	session->values[i][size] = '\0';
	session->reports |= 1U << i;
}

void session_set(struct session *session, struct span name, struct span value)
{
	for (uint32_t i = 0; i < STUB_PARAMETERS; i++) {
		if (!parameters[i].settable || strlen(parameters[i].name) != name.size ||
		    strncasecmp(parameters[i].name, (const char *)name.data, name.size) != 0)
			continue;
		value_set(session, i, value.data == NULL ? span_text(parameters[i].value) : value);
	}
}

void session_reset(struct session *session)
{
	for (uint32_t i = 0; i < STUB_PARAMETERS; i++)
		if (parameters[i].settable)
			value_set(session, i, span_text(parameters[i].value));
}

static void reports_add(struct session *session)
{
	for (uint32_t i = 0; i < STUB_PARAMETERS; i++) {
		if ((session->reports & 1U << i) == 0)
			continue;
		struct writer out = buffer_writer(&session->out, STUB_VALUE_MAX + 64);
		write_parameter_status(&out, parameters[i].name, session->values[i]);
		buffer_wrote(&session->out, &out);
	}
	session->reports = 0;
}

void session_ready(struct session *session)
{
	reports_add(session);
	if (session->status == 'I')
		extended_forget_portals(session);
	struct writer out = buffer_writer(&session->out, 8);
	write_ready(&out, session->status);
	buffer_wrote(&session->out, &out);
}

/* -------------------------------------------------------------------- login */

static void authentication_add(struct session *session, uint32_t code, struct span extra)
{
	struct writer out = buffer_writer(&session->out, extra.size + 16);
	write_authentication(&out, code, extra);
	buffer_wrote(&session->out, &out);
}

static void login_welcome(struct session *session)
{
	uint8_t key[8];
	struct writer out;
	authentication_add(session, 0, span_of(NULL, 0));
	session->reports = (1U << STUB_PARAMETERS) - 1;
	reports_add(session);
	out = buffer_writer(&session->out, 128);
	write_u32(key, session->slot + 1);
	write_u32(key + 4, session->secret);
	write_backend_key(&out, span_of(key, sizeof key));
	buffer_wrote(&session->out, &out);
	session->phase = PHASE_READY;
	session->status = 'I';
	session->stub->logins++;
	session_ready(session);
}

static void login_refuse(struct session *session)
{
	session_fatal(session, "28P01", "password authentication failed");
}

static void login_challenge(struct session *session)
{
	static const char mechanisms[] = "SCRAM-SHA-256\0";
	switch (session->stub->auth) {
	case STUB_TRUST: login_welcome(session); return;
	case STUB_MD5:
		session->phase = PHASE_PASSWORD;
		CHECK(getrandom(session->salt, sizeof session->salt, 0) ==
		      (ssize_t)sizeof session->salt);
		authentication_add(session, 5, span_of(session->salt, sizeof session->salt));
		return;
	case STUB_SCRAM:
		session->phase = PHASE_SASL_FIRST;
		authentication_add(session, 10, span_of(mechanisms, sizeof mechanisms));
		return;
	}
}

static void login_md5(struct session *session, struct span body)
{
	char secret[MD5_SECRET_SIZE], answer[MD5_SECRET_SIZE];
	md5_secret_make(session->stub->password, session->user, secret);
	md5_answer_make(secret, session->salt, answer);
	if (body.size == MD5_SECRET_SIZE && bytes_equal_secret(body.data, answer, body.size))
		login_welcome(session);
	else
		login_refuse(session);
}

static void login_sasl_first(struct session *session, struct span body)
{
	uint8_t random[SCRAM_RANDOM_SIZE];
	struct reader in = reader_of(body);
	const char *mechanism = reader_text(&in);
	uint32_t size = reader_u32(&in);
	struct span first = reader_bytes(&in, size);
	CHECK(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
	session->scram = memory_new(sizeof *session->scram);
	if (!reader_done(&in) || strcmp(mechanism, "SCRAM-SHA-256") != 0 ||
	    scram_server_first(session->scram, first, &session->stub->verifier, random) !=
	            SCRAM_OK) {
		login_refuse(session);
		return;
	}
	session->phase = PHASE_SASL_FINAL;
	authentication_add(session, 11, span_text(session->scram->server_first));
}

static void login_sasl_final(struct session *session, struct span body)
{
	char answer[256];
	if (scram_server_final(session->scram, body, &session->stub->verifier, answer,
	                       sizeof answer, NULL) != SCRAM_OK) {
		login_refuse(session);
		return;
	}
	authentication_add(session, 12, span_text(answer));
	login_welcome(session);
}

/* ------------------------------------------------------------- first packets */

static void cancel_request(struct stub *stub, struct span key)
{
	stub->cancels++;
	if (key.size != 8)
		return;
	uint32_t slot = read_u32(key.data) - 1;
	struct session *target = slot < stub->slot_count ? stub->sessions[slot] : NULL;
	if (target != NULL && target->fd >= 0 && target->phase == PHASE_READY &&
	    target->secret == read_u32(key.data + 4))
		run_cancel(target);
}

static void session_start(struct session *session, const struct startup *startup)
{
	struct stub *stub = session->stub;
	const char *name, *value;
	for (uint32_t at = 0; startup_parameter(startup, &at, &name, &value);) {
		if (strcmp(name, "user") == 0)
			text_set(session->user, sizeof session->user, value);
		session_set(session, span_text(name), span_text(value));
	}
	value_set(session, SESSION_AUTHORIZATION, span_text(session->user));
	if (stub->max > 0 && stub->open >= stub->max) {
		stub->refused++;
		session_fatal(session, "53300", "sorry, too many clients already");
		return;
	}
	session->counted = true;
	stub->open++;
	stub->open_most = MAX(stub->open_most, stub->open);
	if (startup->protocol != PROTOCOL_3_0) {
		struct writer out = buffer_writer(&session->out, 32);
		write_negotiate(&out, PROTOCOL_3_0, NULL, 0);
		buffer_wrote(&session->out, &out);
	}
	login_challenge(session);
}

/* Takes a first packet off `in`; false if it is not whole or the session ended. */
static bool session_first(struct session *session, struct span *in)
{
	struct startup startup = startup_read(*in);
	switch (startup.kind) {
	case STARTUP_MORE: return false;
	case STARTUP_SSL:
	case STARTUP_GSSENC: buffer_add(&session->out, "N", 1); break;
	case STARTUP_V3: session_start(session, &startup); break;
	case STARTUP_CANCEL:
		cancel_request(session->stub, startup.key);
		session_close(session);
		return false;
	case STARTUP_BAD:
	case STARTUP_TLS:
	case STARTUP_V2:
	case STARTUP_LAYOUT: session_close(session); return false;
	}
	in->data += startup.size;
	in->size -= startup.size;
	return !session->ending;
}

/* ----------------------------------------------------------------- messages */

static void query_message(struct session *session, struct span body)
{
	struct reader in = reader_of(body);
	const char *text = reader_text(&in);
	if (!reader_done(&in)) {
		session_fatal(session, "08P01", "invalid message format");
		return;
	}
	run_query(session, span_text(text));
}

static void message_whole(struct session *session, uint8_t type, struct span body)
{
	if (session->phase != PHASE_READY) {
		if (type != 'p')
			session_fatal(session, "08P01", "expected password response");
		else if (session->phase == PHASE_PASSWORD)
			login_md5(session, body);
		else if (session->phase == PHASE_SASL_FIRST)
			login_sasl_first(session, body);
		else
			login_sasl_final(session, body);
		return;
	}
	if (type == 'X') {
		session_close(session);
	} else if (type == 'S') {
		session->skipping = false;
		session_ready(session);
	} else if (session->skipping || type == 'H' || type == 'c' || type == 'f') {
		return; /* what is written is sent at the end of each read anyway */
	} else if (type == 'Q') {
		query_message(session, body);
	} else if (type == 'P') {
		extended_parse(session, body);
	} else if (type == 'B') {
		extended_bind(session, body);
	} else if (type == 'D') {
		extended_describe(session, body);
	} else if (type == 'E') {
		extended_execute(session, body);
	} else if (type == 'C') {
		extended_close(session, body);
	} else if (type == 'F') {
		session->run.extended = false;
		session_error(session, "0A000", "the stub has no functions to call");
		session_ready(session);
	} else {
		session_fatal(session, "08P01", "invalid frontend message type");
	}
}

bool session_takes(const struct session *session)
{
	return session->fd >= 0 && !session->ending &&
	       (session->run.step == RUN_IDLE || session->run.step == RUN_COPY_IN);
}

static void session_piece(struct session *session, const struct piece *piece)
{
	uint32_t header = piece->first ? SCAN_HEADER_SIZE : 0;
	if (session->phase == PHASE_READY && session->run.step == RUN_COPY_IN) {
		if (piece->type == 'X' && piece->last)
			session_close(session);
		else if (strchr("dcfHSX", piece->type) == NULL)
			session_fatal(session, "08P01", "unexpected message type during COPY");
		else
			run_copy_message(session, piece->type,
			                 span_of(piece->bytes.data + header,
			                         piece->bytes.size - header),
			                 piece->last);
		return;
	}
	if (piece->type == 'd' && session->phase == PHASE_READY)
		return; /* late data of a COPY that failed */
	if (piece->first && piece->last) {
		message_whole(session, piece->type,
		              span_of(piece->bytes.data + header, piece->bytes.size - header));
		return;
	}
	if (piece->first)
		buffer_clear(&session->held);
	buffer_add(&session->held, piece->bytes.data, piece->bytes.size);
	if (piece->last)
		message_whole(session, piece->type,
		              span_of(buffer_front(&session->held) + SCAN_HEADER_SIZE,
		                      buffer_size(&session->held) - SCAN_HEADER_SIZE));
}

/* Works through input as far as it goes; the rest stays in `in`. */
static void session_input(struct session *session, struct span *in)
{
	struct piece piece;
	while (session->fd >= 0 && session->phase == PHASE_STARTUP && in->size > 0)
		if (!session_first(session, in))
			return;
	while (session_takes(session)) {
		enum scan_status status = scan_next(&session->scan, in, STUB_MESSAGE_MAX, &piece);
		if (status == SCAN_MORE)
			return;
		if (status == SCAN_BAD) {
			session_fatal(session, "08P01", "invalid message length");
			return;
		}
		session_piece(session, &piece);
	}
}

static void session_feed_backlog(struct session *session)
{
	size_t size = buffer_size(&session->backlog);
	if (size == 0)
		return;
	struct span in = span_of(buffer_front(&session->backlog), size);
	session_input(session, &in);
	if (session->fd >= 0)
		buffer_take(&session->backlog, size - in.size);
}

void session_resume(struct session *session)
{
	if (session->run.step == RUN_DELAYED && session->timer.place == 0)
		session->run.step = RUN_HEAD;
	run_go(session);
	if (session_takes(session))
		session_feed_backlog(session);
	session_flush(session);
	session_watch(session, false);
}

void session_readable(struct session *session)
{
	struct stub *stub = session->stub;
	ssize_t size = recv(session->fd, stub->read, sizeof stub->read, 0);
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		session_close(session);
		return;
	}
	struct span in = span_of(stub->read, (size_t)size);
	if (buffer_size(&session->backlog) > 0) {
		buffer_add(&session->backlog, in.data, in.size);
		session_feed_backlog(session);
	} else {
		session_input(session, &in);
		if (session->fd >= 0 && in.size > 0)
			buffer_add(&session->backlog, in.data, in.size);
	}
	if (session->fd >= 0)
		session_flush(session);
}

void session_init(struct session *session)
{
	session->status = 'I';
	for (uint32_t i = 0; i < STUB_PARAMETERS; i++)
		text_set(session->values[i], STUB_VALUE_MAX, parameters[i].value);
}

void session_fini(struct session *session)
{
	extended_forget(session);
	buffer_fini(&session->backlog);
	buffer_fini(&session->held);
	buffer_fini(&session->out);
	buffer_fini(&session->run.copy);
	buffer_fini(&session->unnamed.name);
	buffer_fini(&session->unnamed.text);
	buffer_fini(&session->portal.name);
	buffer_fini(&session->portal.bytes);
	free(session->scram);
	free(session->named);
}
