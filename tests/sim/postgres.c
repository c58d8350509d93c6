/*
 * postgres.c - backends: their coming and going, and the messages of a session.
 *
 * A backend does one thing at a time: it reads a message only when what runs
 * has ended and its output is not backed up, as a real one does.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/postgres.h"

#include "tests/sim/check.h"
#include "tests/sim/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"

enum { CODE_CANCEL = 80877102, CODE_SSL = 80877103, CODE_GSS = 80877104, OUT_HIGH = 16384 };

static void backend_wake(struct sock *sock);

static bool backend_is_clean(const struct backend *backend)
{
	return backend->tx == 'I' && !backend->skipping && !backend->batch && !backend->running;
}

/* I3.  Session 0 is the pooler itself. */
void backend_claim(struct backend *backend, uint32_t session)
{
	bool unclaimed = backend->unclaimed;
	backend->unclaimed = backend->anonymous = false;
	if (backend->holder == session)
		return;
	SIM_CHECK(unclaimed || backend_is_clean(backend),
	          "I3: session %u on backend %u, which session %u left as %c%s%s", session,
	          backend->pid, backend->holder, backend->tx, backend->skipping ? " skipping" : "",
	          backend->batch ? " without Sync" : "");
	if (session != 0) {
		const struct session_names *names = check_session_names(session);
		SIM_CHECK(strcmp(names->user, backend->user) == 0 &&
		                  strcmp(names->database, backend->database) == 0,
		          "I3: session %u of %s/%s on a backend of %s/%s", session, names->user,
		          names->database, backend->user, backend->database);
		SIM_CHECK(strcmp(names->application_name, backend->application_name) == 0,
		          "I3: session %u has application_name %s, its backend %s", session,
		          names->application_name, backend->application_name);
		SIM_CHECK(!backend->postgres->wants_reset || backend->holder == 0,
		          "I3: no reset between sessions %u and %u", backend->holder, session);
	}
	backend->holder = session;
}

static void backend_end(struct backend *backend, bool reset)
{
	trace("backend-", backend->pid, reset);
	struct postgres *postgres = backend->postgres;
	if (backend->state == BACKEND_READY)
		postgres->ready--;
	alarm_clear(&backend->alarm);
	talk_close(&backend->talk, reset);
	talk_fini(&backend->talk);
	for (int i = 0; i < BACKENDS_MAX; i++)
		if (postgres->backends[i] == backend)
			postgres->backends[i] = NULL;
	free(backend);
}

void backend_parameter(struct backend *backend, const char *name, const char *value)
{
	struct talk *talk = &backend->talk;
	talk_begin(talk, 'S');
	talk_text(talk, name);
	talk_text(talk, value);
	talk_end(talk);
}

void backend_ready(struct backend *backend)
{
	talk_begin(&backend->talk, 'Z');
	talk_u8(&backend->talk, (uint8_t)backend->tx);
	talk_end(&backend->talk);
	talk_flush(&backend->talk);
}

void backend_error_words(struct backend *backend, const char *severity, const char *code,
                         const char *words)
{
	struct talk *talk = &backend->talk;
	talk_begin(talk, 'E');
	const char *const fields[] = {"S", severity, "V", severity, "C", code, "M", words};
	for (size_t i = 0; i < ARRAY_LEN(fields); i += 2) {
		talk_u8(talk, (uint8_t)fields[i][0]);
		talk_text(talk, fields[i + 1]);
	}
	talk_u8(talk, 0);
	talk_end(talk);
	talk_flush(talk);
	if (backend->tx == 'T')
		backend->tx = 'E';
}

void backend_error(struct backend *backend, const char *severity, const char *code, uint64_t nonce,
                   const char *text)
{
	char words[160];
	snprintf(words, sizeof words, "%" PRIx64 " %s", nonce, text);
	backend_error_words(backend, severity, code, words);
}

/* Login. */

/* Backends logged in under these names; NULL: any. */
static uint32_t live_backends(const struct postgres *postgres, const char *user,
                              const char *database)
{
	uint32_t count = 0;
	for (int i = 0; i < BACKENDS_MAX; i++) {
		const struct backend *backend = postgres->backends[i];
		if (backend == NULL || backend->state != BACKEND_READY)
			continue;
		if ((user != NULL && strcmp(user, backend->user) != 0) ||
		    (database != NULL && strcmp(database, backend->database) != 0))
			continue;
		const struct sock *sock = backend->talk.sock;
		const struct sock *peer = sock->is_first ? sock + 1 : sock - 1;
		count += postgres->strict || !peer->closed;
	}
	return count;
}

static void limit_check(uint32_t live, uint32_t limit, const char *what)
{
	SIM_CHECK(limit == 0 || live <= limit, "I4: %u backends of a %s where %u are allowed", live,
	          what, limit);
}

static void limits_check(struct postgres *postgres, const struct backend *backend)
{
	uint32_t live = live_backends(postgres, NULL, NULL);
	if (live > postgres->most)
		postgres->most = live;
	limit_check(live_backends(postgres, backend->user, backend->database), postgres->limit_pool,
	            "pool");
	limit_check(live_backends(postgres, backend->user, NULL), postgres->limit_user, "user");
	limit_check(live_backends(postgres, NULL, backend->database), postgres->limit_database,
	            "database");
}

static void login(struct backend *backend, struct cursor cursor)
{
	struct postgres *postgres = backend->postgres;
	for (;;) {
		const char *name = cursor_text(&cursor);
		if (*name == '\0')
			break;
		const char *value = cursor_text(&cursor);
		if (strcmp(name, "user") == 0)
			snprintf(backend->user, sizeof backend->user, "%s", value);
		else if (strcmp(name, "database") == 0)
			snprintf(backend->database, sizeof backend->database, "%s", value);
		else if (strcmp(name, "application_name") == 0)
			snprintf(backend->application_name, sizeof backend->application_name, "%s",
			         value);
	}
	SIM_CHECK(!cursor.bad && backend->user[0] != '\0', "malformed startup packet");
	backend->state = BACKEND_READY;
	backend->tx = 'I';
	postgres->ready++;
	check_counts.server_logins++;
	limits_check(postgres, backend);

	struct talk *talk = &backend->talk;
	talk_begin(talk, 'R');
	talk_u32(talk, 0);
	talk_end(talk);
	backend_parameter(backend, "server_version", "15.20");
	backend_parameter(backend, "client_encoding", "UTF8");
	backend_parameter(backend, "DateStyle", "ISO, MDY");
	backend_parameter(backend, "TimeZone", "Etc/UTC");
	backend_parameter(backend, "standard_conforming_strings", "on");
	backend_parameter(backend, "application_name", backend->application_name);
	talk_begin(talk, 'K');
	talk_u32(talk, backend->pid);
	talk_u32(talk, backend->secret);
	talk_end(talk);
	backend_ready(backend);
}

/* True if the backend is still there. */
static bool first_packet(struct backend *backend, const struct message *message)
{
	struct cursor cursor = cursor_of(message);
	uint32_t code = cursor_u32(&cursor);
	if (code == CODE_SSL || code == CODE_GSS) {
		talk_u8(&backend->talk, 'N');
		talk_flush(&backend->talk);
		return true;
	}
	if (code == CODE_CANCEL) {
		backend->state = BACKEND_CANCEL;
		backend->cancel_pid = cursor_u32(&cursor);
		backend->cancel_secret = cursor_u32(&cursor);
		SIM_CHECK(!cursor.bad, "malformed cancel request");
		return true;
	}
	SIM_CHECK(code >> 16 == 3, "startup packet of version %u", code);
	if (fault(backend->postgres->is_down ? 1000000 : world.faults.server_vanish)) {
		check_counts.died++;
		backend_error(backend, "FATAL", "57P03", 0, "the database system is starting up");
		backend_end(backend, false);
		return false;
	}
	login(backend, cursor);
	return true;
}

/* A signal to the backend with that key, after the way it takes. */
static void cancel_fire(struct alarm *alarm)
{
	struct backend *canceler = CONTAINER(struct backend, alarm, alarm);
	struct postgres *postgres = canceler->postgres;
	for (int i = 0; i < BACKENDS_MAX; i++) {
		struct backend *backend = postgres->backends[i];
		if (backend == NULL || backend->state != BACKEND_READY ||
		    backend->pid != canceler->cancel_pid ||
		    backend->secret != canceler->cancel_secret)
			continue;
		trace("cancel", backend->pid, backend->holder);
		if (!backend->running)
			break;
		SIM_CHECK(backend->holder == 0 || backend->anonymous ||
		                  check_cancel_was_asked(backend->holder),
		          "I1: a cancel hits session %u, which asked for none", backend->holder);
		if (run_cancel(backend)) {
			check_counts.canceled++;
			backend_pump(backend);
		}
		break;
	}
	backend_end(canceler, false);
}

/* Messages of a session. */

/* What the pooler says for itself: a SET changes the one parameter that matters
 * here and is reported before its end. */
static void own_query(struct backend *backend, const char *text)
{
	static const char set[] = "SET application_name=";
	trace("own", backend->pid, strlen(text));
	check_counts.own_queries++;
	if (backend->statements[0].verb == VERB_DISCARD_ALL)
		prepared_drop_all(backend);
	const char *at = strstr(text, set);
	if (at == NULL)
		return;
	char value[64] = "";
	SIM_CHECK(sscanf(at + sizeof set - 1, "'%63[^']'", value) <= 1, "bad SET");
	memcpy(backend->application_name, value, sizeof value);
	backend_parameter(backend, "application_name", value);
}

/* Of whom, nobody can tell: the pooler says it for a client whose own name it was. */
static bool is_sacrifice(const char *text)
{
	return strcmp(text, "DEALLOCATE " PREPARED_SACRIFICED) == 0;
}

static void query(struct backend *backend, const struct message *message)
{
	struct cursor cursor = cursor_of(message);
	const char *text = cursor_text(&cursor);
	SIM_CHECK(!cursor.bad && cursor.at == cursor.end, "malformed Query");
	trace_words("hear", backend->pid, 'Q', "", text);
	uint32_t count = sql_read(text, backend->statements);
	const struct sql *first = &backend->statements[0];
	bool is_deallocate = first->verb == VERB_DEALLOCATE || first->verb == VERB_DEALLOCATE_ALL;
	if (count > 0 && (first->nonce != 0 || !is_deallocate))
		backend_claim(backend, nonce_client(first->nonce));
	if (is_sacrifice(text))
		backend->anonymous = true;
	if (count == 1 && first->nonce == 0 && !is_deallocate)
		own_query(backend, text);
	backend->unnamed.used = false;
	backend->batch = backend->unclaimed = false; /* it is answered by a ReadyForQuery too */
	backend->statement_count = count;
	backend->portal_open = false;
	run_start(backend, false);
}

static bool sudden_death(struct backend *backend)
{
	if (!fault(world.faults.server_vanish))
		return false;
	check_counts.died++;
	trace("die", backend->pid, 0);
	switch (rng_below(&backend->postgres->rng, 4)) {
	case 0: backend_end(backend, true); break;
	case 1:
		backend_error(backend, "FATAL", "57P01", 0, "terminating connection");
		backend_end(backend, false);
		break;
	case 2: /* in the middle of a message */
		talk_begin(&backend->talk, 'D');
		talk_bytes(&backend->talk, "abcdefgh", 8);
		talk_end(&backend->talk);
		backend->talk.out.size -= 3;
		talk_flush(&backend->talk);
		backend_end(backend, false);
		break;
	default: backend_end(backend, false); break;
	}
	return true;
}

/* True if the backend is still there. */
static bool session_message(struct backend *backend, const struct message *message)
{
	trace("ask", backend->pid, message->type);
	if (sudden_death(backend))
		return false;
	switch (message->type) {
	case 'X': backend_end(backend, false); return false;
	case 'Q':
		SIM_CHECK(!backend->skipping, "Query while the server skips to Sync");
		query(backend, message);
		break;
	case 'S':
		backend->skipping = backend->batch = backend->unclaimed = false;
		if (backend->tx == 'I')
			backend->portal_open = false;
		backend_ready(backend);
		break;
	case 'H': talk_flush(&backend->talk); break;
	case 'd':
	case 'c':
	case 'f': break; /* late ones, after an error */
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
		if (!backend->skipping)
			extended_message(backend, message);
		break;
	default: sim_fail("backend %u was sent a message '%c'", backend->pid, message->type);
	}
	return true;
}

static void told(struct backend *backend)
{
	uint64_t handed = backend->talk.handed;
	if (backend->holder != 0 && handed > backend->counted)
		check_sent(backend->holder, handed - backend->counted);
	backend->counted = handed;
}

void backend_pump(struct backend *backend)
{
	struct message message;
	for (;;) {
		talk_send(&backend->talk);
		told(backend);
		if (backend->state == BACKEND_CANCEL || backend->waiting)
			return;
		if (talk_unsent(&backend->talk) > OUT_HIGH)
			return;
		if (backend->running && !backend->copying) {
			run_step(backend);
			if (talk_held(&backend->talk) >= 8192)
				talk_flush(&backend->talk);
			continue;
		}
		if (!talk_next(&backend->talk, backend->state == BACKEND_READY, &message)) {
			if (backend->talk.sock->eof && backend->talk.sock->arrived == 0)
				backend_end(backend, false);
			return;
		}
		if (backend->state == BACKEND_STARTUP) {
			if (!first_packet(backend, &message))
				return;
			if (backend->state == BACKEND_CANCEL)
				alarm_set(&backend->alarm,
				          world.now_us + rng_below(&backend->postgres->rng, 3000),
				          cancel_fire);
		} else if (backend->copying) {
			if (sudden_death(backend))
				return;
			run_copy_message(backend, &message);
		} else if (!session_message(backend, &message)) {
			return;
		}
	}
}

static void backend_wake(struct sock *sock)
{
	struct backend *backend = sock->owner;
	talk_receive(&backend->talk);
	if (backend->state == BACKEND_CANCEL)
		return;
	if (sock->reset) {
		backend_end(backend, true);
		return;
	}
	/* An end of file is seen when the backend reads again. */
	backend_pump(backend);
}

static bool backend_accept(struct door *door, struct sock *sock)
{
	struct postgres *postgres = door->owner;
	for (int i = 0; i < BACKENDS_MAX; i++) {
		if (postgres->backends[i] != NULL)
			continue;
		struct backend *backend = calloc(1, sizeof *backend);
		SIM_CHECK(backend != NULL, "no memory");
		postgres->backends[i] = backend;
		backend->postgres = postgres;
		backend->state = BACKEND_STARTUP;
		backend->pid = 100 + sock->id;
		backend->secret = (uint32_t)rng_next(&postgres->rng);
		talk_open(&backend->talk, sock);
		sock_own(sock, backend_wake, backend);
		trace("backend+", backend->pid, (uint64_t)i);
		return true;
	}
	sim_fail("more than %d backends", BACKENDS_MAX);
}

void postgres_open(struct postgres *postgres, const struct addr *addr, uint64_t seed)
{
	memset(postgres, 0, sizeof *postgres);
	postgres->rng = rng_make(seed, 10);
	postgres->door = door_open(addr);
	postgres->door->on_accept = backend_accept;
	postgres->door->owner = postgres;
}

void postgres_close(struct postgres *postgres)
{
	door_close(postgres->door);
	for (int i = 0; i < BACKENDS_MAX; i++)
		if (postgres->backends[i] != NULL)
			backend_end(postgres->backends[i], false);
}

static const struct backend *backend_of(const struct postgres *postgres, uint32_t pid)
{
	for (int i = 0; i < BACKENDS_MAX; i++)
		if (postgres->backends[i] != NULL && postgres->backends[i]->pid == pid)
			return postgres->backends[i];
	return NULL;
}

uint32_t postgres_prepared(const struct postgres *postgres, uint32_t pid)
{
	const struct backend *backend = backend_of(postgres, pid);
	uint32_t count = 0;
	if (backend == NULL || !backend_is_clean(backend) || backend->talk.sock->eof ||
	    backend->talk.sock->count > 0)
		return UINT32_MAX;
	for (int i = 0; i < PREPARED_MAX; i++)
		count += backend->prepared[i].used &&
		         strcmp(backend->prepared[i].name, PREPARED_SACRIFICED) != 0;
	return count;
}

bool postgres_has_prepared(const struct postgres *postgres, uint32_t pid, const char *name)
{
	const struct backend *backend = backend_of(postgres, pid);
	for (int i = 0; backend != NULL && i < PREPARED_MAX; i++)
		if (backend->prepared[i].used && strcmp(backend->prepared[i].name, name) == 0)
			return true;
	return false;
}

uint32_t postgres_backends(const struct postgres *postgres)
{
	uint32_t count = 0;
	for (int i = 0; i < BACKENDS_MAX; i++)
		count += postgres->backends[i] != NULL;
	return count;
}

void postgres_print(const struct postgres *postgres)
{
	for (int i = 0; i < BACKENDS_MAX; i++) {
		const struct backend *backend = postgres->backends[i];
		if (backend == NULL)
			continue;
		fprintf(stderr,
		        "  backend %u of %s/%s state %d tx %c holder %u: running %d copying %d"
		        " waiting %d skipping %d, unread %u, unsent %u of which held %u, room %u\n",
		        backend->pid, backend->user, backend->database, (int)backend->state,
		        backend->tx == 0 ? '-' : backend->tx, backend->holder, backend->running,
		        backend->copying, backend->waiting, backend->skipping,
		        backend->talk.in.size - backend->talk.in.head, talk_unsent(&backend->talk),
		        talk_held(&backend->talk), sock_room(backend->talk.sock));
	}
}
