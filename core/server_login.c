/*
 * server_login.c - see server_login.h.
 *
 * The server is no more trusted than a client: every message is bounded, and
 * read with the sticky reader.  Messages of a login are small and are always
 * read whole.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/server_login.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config.h"
#include "core/home.h"
#include "core/log.h"
#include "core/post.h"
#include "core/process.h"
#include "core/relay.h"
#include "core/server.h"
#include "core/server_keys.h"
#include "core/worker.h"
#include "net/buf.h"
#include "net/sys.h"
#include "proto/md5.h"
#include "proto/read.h"
#include "proto/scram.h"
#include "proto/sqlstate.h"
#include "proto/write.h"

enum { PACKET_MAX = 4096, PAIRS_MAX = 16384, REQUESTS_MAX = 16 };

struct server_login {
	struct config *config; /* held: the secret lies in it */
	struct scram_client scram;
	bool scram_begun, scram_verified, scram_final;
	bool authenticated;
	bool has_key;
	uint32_t requests; /* for authentication */
	const char *secret;
	enum secret_kind kind;
	struct server_keys *keys; /* with the helper */
	uint32_t pairs_size, pairs_count;
	char pairs[PAIRS_MAX]; /* name\0value\0 of what is not tracked */
};

static const struct database_entry *entry_of(const struct server *server)
{
	return config_entry_for(server->worker->config, server->pool->record->database->name);
}

bool server_login_new(struct server *server)
{
	server->login = calloc(1, sizeof *server->login);
	return server->login != NULL;
}

void server_login_free(struct server *server)
{
	if (server->login == NULL)
		return;
	if (server->login->config != NULL)
		config_drop(server->login->config);
	if (server->login->keys != NULL)
		derive_drop(&server->login->keys->job);
	bytes_wipe(server->login, sizeof *server->login);
	free(server->login);
	server->login = NULL;
}

void server_login_tell(struct server *server, const char *sqlstate, const char *text, bool quiet)
{
	struct worker *worker = server->worker;
	if (server->login_told)
		return;
	server->login_told = true;
	server->pool->received++;
	struct post *post = home_report(server->pool, POST_FAILED);
	post->failed.quiet = quiet;
	post->failed.began_us = server->connect_us;
	text_set(post->failed.sqlstate, sizeof post->failed.sqlstate, sqlstate);
	text_set(post->failed.text, sizeof post->failed.text, text);
	post_send(worker->process, server->pool->record->home, post);
}

/* Without an SQLSTATE it was no word of the server: clients keep waiting. */
void server_login_failed(struct server *server, const char *sqlstate, const char *text,
                         const char *reason)
{
	bool quiet = *sqlstate == '\0' || strcmp(sqlstate, SQLSTATE_CANNOT_CONNECT_NOW) == 0;
	server_login_tell(server, sqlstate, text, quiet);
	server_close(server, reason);
}

/* Our own trouble with the secret: clients hear of it (pgbouncer.md 3.11). */
static void login_refused(struct server *server, const char *log, const char *text)
{
	server_log(server, LOG_LEVEL_ERROR, "%s", log);
	server_login_failed(server, SQLSTATE_PROTOCOL_VIOLATION, text, "failed to answer authreq");
}

static bool is_scram_secret(const char *secret)
{
	struct scram_verifier verifier;
	return scram_verifier_read(secret, &verifier);
}

static void secret_find(struct server *server)
{
	const struct database_entry *entry = entry_of(server);
	struct config *config = server->worker->config;
	struct server_login *login = server->login;
	config_hold(config);
	login->config = config;
	if (entry != NULL && entry->user != NULL && entry->password != NULL) {
		login->secret = entry->password;
		server->forced = true;
	} else {
		const struct user_entry *user = config_find_user(config,
		                                                 server->pool->record->user->name);
		login->secret = user != NULL ? user->secret : NULL;
	}
	if (login->secret == NULL || *login->secret == '\0')
		login->kind = SECRET_NONE;
	else if (md5_is_secret(login->secret))
		login->kind = SECRET_MD5;
	else if (is_scram_secret(login->secret))
		login->kind = SECRET_SCRAM;
	else
		login->kind = SECRET_PLAIN;
}

static void parameter_write(struct writer *out, const char *name, const char *value)
{
	if (value == NULL)
		return;
	writer_text(out, name);
	writer_text(out, value);
}

void server_login_begin(struct server *server)
{
	const struct database_entry *entry = entry_of(server);
	uint8_t packet[PACKET_MAX];
	struct writer out = writer_over(packet, sizeof packet);
	if (entry == NULL) { /* nothing may be made up from names */
		server_close(server, "database removed");
		return;
	}
	secret_find(server);
	writer_begin(&out, 0);
	writer_u32(&out, 0x30000);
	parameter_write(&out, "database",
	                entry->dbname != NULL ? entry->dbname
	                                      : server->pool->record->database->name);
	parameter_write(&out, "client_encoding", entry->client_encoding);
	parameter_write(&out, "datestyle", entry->datestyle);
	parameter_write(&out, "timezone", entry->timezone);
	parameter_write(&out, "application_name", entry->application_name);
	parameter_write(&out, "user", server->pool->record->user->name);
	writer_u8(&out, 0);
	writer_end(&out);
	if (out.failed)
		server_login_failed(server, "", "startup packet too long", "connect failed");
	else
		conn_send_copy(&server->conn, packet, out.size);
}

static void password_send(struct server *server, const void *bytes, uint32_t size, bool text)
{
	uint8_t *packet = malloc((size_t)size + 16);
	if (packet == NULL) {
		server_login_failed(server, "", "out of memory", "out of memory");
		return;
	}
	struct writer out = writer_over(packet, size + 16);
	writer_begin(&out, 'p');
	writer_bytes(&out, bytes, size);
	if (text)
		writer_u8(&out, 0);
	writer_end(&out);
	conn_send_copy(&server->conn, packet, out.size);
	bytes_wipe(packet, size);
	free(packet);
}

static void md5_answer(struct server *server, struct reader *in)
{
	struct server_login *login = server->login;
	char secret[MD5_SECRET_SIZE];
	char answer[MD5_SECRET_SIZE];
	struct span salt = reader_bytes(in, MD5_SALT_SIZE);
	if (in->failed || login->kind == SECRET_SCRAM) {
		login_refused(server, "cannot do MD5 authentication: wrong password type",
		              "server login failed: wrong password type");
		return;
	}
	CHECK(login->kind != SECRET_MD5 || login->secret != NULL);
	if (login->kind == SECRET_MD5)
		memcpy(secret, login->secret, sizeof secret);
	else
		md5_secret_make(login->secret != NULL ? login->secret : "",
		                server->pool->record->user->name, secret);
	md5_answer_make(secret, salt.data, answer);
	password_send(server, answer, MD5_SECRET_SIZE - 1, true);
}

/* SASLInitialResponse, if the server offers what we speak. */
static void scram_begin(struct server *server, struct reader *in)
{
	static const char mechanism[] = "SCRAM-SHA-256";
	struct server_login *login = server->login;
	char first[256];
	uint8_t packet[512];
	uint8_t random[SCRAM_RANDOM_SIZE];
	bool offered = false;
	const char *name = reader_text(in);
	for (; *name != '\0'; name = reader_text(in))
		offered = offered || strcmp(name, mechanism) == 0;
	if (!offered) {
		login_refused(server, "no SASL mechanism of the server is supported",
		              "server login failed: none of the server's SASL authentication "
		              "mechanisms are supported");
		return;
	}
	sys_random(random, sizeof random);
	if (login->scram_begun ||
	    scram_client_first(&login->scram, random, first, sizeof first) != SCRAM_OK) {
		login_refused(server, "cannot begin SCRAM authentication",
		              "server login failed: wrong password type");
		return;
	}
	login->scram_begun = true;
	struct writer out = writer_over(packet, sizeof packet);
	writer_text(&out, mechanism);
	writer_u32(&out, (uint32_t)strlen(first));
	writer_bytes(&out, first, (uint32_t)strlen(first));
	password_send(server, packet, out.size, false);
}

/* Client-final, from the keys. */
static void scram_answer(struct server *server, struct span server_first,
                         const struct scram_keys *keys)
{
	struct server_login *login = server->login;
	char final[SCRAM_TEXT_MAX / 2];
	if (scram_client_final(&login->scram, server_first, keys, final, sizeof final) !=
	    SCRAM_OK) {
		login_refused(server, "malformed SCRAM message (server-first-message)",
		              "server login failed: wrong password type");
		return;
	}
	login->scram_final = true;
	password_send(server, final, (uint32_t)strlen(final), false);
}

/* The helper is done with them. */
static void keys_came(void *owner, struct derive_job *job)
{
	struct server *server = owner;
	const struct server_keys *made = CONTAINER(struct server_keys, job, job);
	server->login->keys = NULL;
	if (server->state != SERVER_LOGIN)
		return;
	if (job->failed)
		server_login_failed(server, "", "shutting down", "shutting down");
	else
		scram_answer(server, made->server_first, &made->keys);
}

/* Of a plaintext password: known, or to be derived. */
static void keys_find(struct server *server, struct server_keys *wanted)
{
	if (server_keys_known(wanted)) {
		scram_answer(server, wanted->server_first, &wanted->keys);
		derive_free(&wanted->job);
		return;
	}
	wanted->job.iterations = wanted->iterations;
	wanted->job.done = keys_came;
	if (derive_submit(server->worker, DERIVE_SERVER, &wanted->job))
		server->login->keys = wanted;
	else
		server_login_failed(server, "", "too many logins wait for keys",
		                    "too many logins wait for keys");
}

static void scram_plaintext(struct server *server, struct span server_first)
{
	struct server_login *login = server->login;
	struct server_keys *wanted = server_keys_new(server, login->secret, server_first);
	char text[REASON_MAX + 1];
	if (wanted == NULL) {
		server_login_failed(server, "", "out of memory", "out of memory");
		return;
	}
	if (scram_client_challenge(&login->scram, server_first, wanted->salt, &wanted->salt_size,
	                           &wanted->iterations) != SCRAM_OK) {
		login_refused(server, "malformed SCRAM message (server-first-message)",
		              "server login failed: wrong password type");
	} else if (wanted->iterations > DERIVE_ITERATIONS_MAX) {
		text_format(text, sizeof text,
		            "server asks for %u SCRAM iterations, at most %u are allowed",
		            wanted->iterations, (unsigned)DERIVE_ITERATIONS_MAX);
		login_refused(server, text, "server login failed: too many SCRAM iterations");
	} else {
		keys_find(server, wanted);
		return;
	}
	derive_free(&wanted->job);
}

/* With the keys that a client has proved to have. */
static void scram_pass_through(struct server *server, struct span server_first)
{
	struct server_login *login = server->login;
	struct pool_record *record = server->pool->record;
	struct scram_keys keys;
	CHECK(login->secret != NULL);
	pthread_mutex_lock(&record->mutex);
	bool found = record->has_keys && strcmp(record->keys_secret, login->secret) == 0;
	keys = record->keys;
	pthread_mutex_unlock(&record->mutex);
	if (found)
		scram_answer(server, server_first, &keys);
	else
		login_refused(server,
		              "cannot do SCRAM authentication: password is SCRAM secret "
		              "but client authentication did not provide SCRAM keys",
		              "server login failed: wrong password type");
	bytes_wipe(&keys, sizeof keys);
}

static void scram_continue(struct server *server, struct span server_first)
{
	struct server_login *login = server->login;
	if (!login->scram_begun || login->scram_final)
		login_refused(server, "SCRAM message out of order",
		              "server login failed: wrong password type");
	else if (login->kind == SECRET_PLAIN)
		scram_plaintext(server, server_first);
	else if (login->kind == SECRET_SCRAM)
		scram_pass_through(server, server_first);
	else
		login_refused(server, "cannot do SCRAM authentication: wrong password type",
		              "server login failed: wrong password type");
}

static void scram_end(struct server *server, struct span server_final)
{
	struct server_login *login = server->login;
	if (!login->scram_final || scram_client_verify(&login->scram, server_final) != SCRAM_OK)
		login_refused(server, "invalid server signature",
		              "server login failed: invalid server signature");
	else
		login->scram_verified = true;
}

static void authentication(struct server *server, struct span body)
{
	struct server_login *login = server->login;
	struct reader in = reader_of(body);
	uint32_t code = reader_u32(&in);
	const char *secret = login->secret != NULL ? login->secret : "";
	if (++login->requests > REQUESTS_MAX) {
		server_login_failed(server, "", "login without end", "bad packet");
		return;
	}
	if (login->keys != NULL) { /* it is our turn to speak */
		login_refused(server, "authentication request out of order",
		              "server login failed: authentication request out of order");
		return;
	}
	switch (in.failed ? UINT32_MAX : code) {
	case 0:
		/* a SCRAM server that leaves out its proof is not the one we know */
		if (login->scram_begun && !login->scram_verified)
			login_refused(server, "server skipped its signature",
			              "server login failed: failed to verify server signature");
		else
			login->authenticated = true;
		return;
	case 3: password_send(server, secret, (uint32_t)strlen(secret), true); return;
	case 5: md5_answer(server, &in); return;
	case 10: scram_begin(server, &in); return;
	case 11: scram_continue(server, reader_bytes(&in, reader_left(&in))); return;
	case 12: scram_end(server, reader_bytes(&in, reader_left(&in))); return;
	default: break;
	}
	server_log(server, LOG_LEVEL_ERROR, "unknown/unsupported auth method: %u", code);
	server_login_failed(server, SQLSTATE_PROTOCOL_VIOLATION,
	                    "server login failed: wrong password type", "failed to answer authreq");
}

static void parameter(struct server *server, struct span body)
{
	struct server_login *login = server->login;
	struct reader in = reader_of(body);
	const char *name = reader_text(&in);
	const char *value = reader_text(&in);
	if (!reader_done(&in)) {
		server_login_failed(server, "", "broken ParameterStatus", "bad packet");
		return;
	}
	server_parameter(server, name, value);
	size_t size = strlen(name) + strlen(value) + 2;
	if (vars_index(name) >= 0 || size > PAIRS_MAX - login->pairs_size)
		return;
	memcpy(login->pairs + login->pairs_size, name, strlen(name) + 1);
	memcpy(login->pairs + login->pairs_size + strlen(name) + 1, value, strlen(value) + 1);
	login->pairs_size += (uint32_t)size;
	login->pairs_count++;
}

static void login_error(struct server *server, struct span body)
{
	char text[REASON_MAX + 1];
	const char *said = error_field(body, 'M');
	text_set(text, sizeof text, *said != '\0' ? said : "server login failed");
	server_log(server, LOG_LEVEL_WARNING, "server login failed: %s %s", error_field(body, 'S'),
	           text);
	server_login_failed(server, error_sqlstate(body), text, text);
}

static void welcome_publish(struct server *server)
{
	struct server_login *login = server->login;
	struct pool_record *record = server->pool->record;
	uint32_t size = 1 + login->pairs_size;
	if (atomic_load_explicit(&record->welcome, memory_order_acquire) != NULL ||
	    server->epoch != atomic_load(&record->epoch))
		return;
	for (uint32_t i = 0; i < VARS_MAX; i++)
		if (server->vars.values[i] != NULL)
			size += server->vars.values[i]->size + 1U;
	struct welcome *welcome = calloc(1, sizeof *welcome + size);
	CHECK(welcome != NULL);
	welcome->size = size;
	welcome->untracked_count = login->pairs_count;
	memcpy(welcome->text + 1, login->pairs, login->pairs_size);
	uint32_t at = 1 + login->pairs_size;
	for (uint32_t i = 0; i < VARS_MAX; i++) {
		const struct word *word = server->vars.values[i];
		if (word == NULL)
			continue;
		welcome->tracked_at[i] = at;
		memcpy(welcome->text + at, word->text, word->size + 1U);
		at += word->size + 1U;
	}
	registry_welcome(&server->worker->process->registry, record, welcome);
}

void server_login_done(struct server *server)
{
	struct worker *worker = server->worker;
	/* a connect_query that left a transaction open; a parameter too large to keep */
	if (!server_is_clean(server) || server->close_needed) {
		server_login_failed(server, "", "server was not ready after login",
		                    "server was not ready after login");
		return;
	}
	struct pool *pool = server->pool;
	wheel_disarm(&worker->loop.wheel, &server->timer);
	welcome_publish(server);
	server_login_free(server);
	server->login_told = true;
	pool->received++;
	if (atomic_load(&pool->record->epoch) != server->epoch)
		server_close(server, "connect string changed");
	else
		pool_offer(pool, server);
	home_tell(pool, POST_OPENED);
}

static void ready(struct server *server, struct span body)
{
	const struct database_entry *entry = entry_of(server);
	bool sound = server->login->authenticated && server->login->has_key && body.size == 1;
	if (!sound || track_reply(&server->track, 'Z', (char)body.data[0]) != VERDICT_FORWARD) {
		server_login_failed(server, "", "login out of order", "bad packet");
		return;
	}
	server->logged_in = true;
	vars_copy(&server->worker->words, &server->login_vars, &server->vars);
	if (entry != NULL && entry->connect_query != NULL && *entry->connect_query != '\0')
		server_query_own(server, entry->connect_query);
	else
		server_login_done(server);
}

static void login_message(struct server *server, uint8_t type, struct span body)
{
	switch (type) {
	case 'R': authentication(server, body); return;
	case 'S': parameter(server, body); return;
	case 'K':
		if (body.size < sizeof server->key) {
			server_login_failed(server, "", "bad cancel key", "bad cancel key");
			return;
		}
		memcpy(server->key, body.data, sizeof server->key);
		server->login->has_key = true;
		return;
	case 'Z': ready(server, body); return;
	case 'E': login_error(server, body); return;
	case 'N': return;
	default: server_login_failed(server, "", "unknown pkt", "unknown pkt");
	}
}

void server_login_bytes(struct server *server, struct buf *buf, uint32_t from, uint32_t to)
{
	struct span in = span_of(buf->data + from, to - from);
	struct piece piece;
	enum scan_status status = SCAN_MORE;
	while (server->state == SERVER_LOGIN && !server->logged_in &&
	       (status = scan_next(&server->scan, &in, HELD_MESSAGE_MAX, &piece)) == SCAN_PIECE) {
		if (!part_append(&server->part, piece.bytes, HELD_MESSAGE_MAX)) {
			status = SCAN_BAD;
			break;
		}
		if (!piece.last)
			continue;
		struct part message = server->part;
		server->part = (struct part){0};
		login_message(server, message.bytes[0],
		              span_of(message.bytes + SCAN_HEADER_SIZE,
		                      message.size - SCAN_HEADER_SIZE));
		part_fini(&message);
	}
	if (status == SCAN_BAD && server->state == SERVER_LOGIN)
		server_login_failed(server, "", "bad pkt header", "bad pkt header");
	else if (server->logged_in && in.size > 0 && server->state != SERVER_CLOSING)
		relay_down(server, buf, to - in.size, to);
}
