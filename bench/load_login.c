/*
 * load_login.c - startup and authentication of a client of the load generator.
 *
 * Whatever the server asks for is answered.  The keys of SCRAM cost
 * milliseconds to derive, so a thread keeps them as long as the salt stays
 * the same: churn measures the server's logins, not ours.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <string.h>
#include <sys/random.h>

#include "core/base/check.h"
#include "proto/md5.h"
#include "proto/read.h"
#include "proto/startup.h"

void login_start(struct client *client)
{
	const struct options *options = &client->thread->load->options;
	struct writer out = buffer_writer(&client->out, 1024);
	writer_begin(&out, '\0');
	writer_u32(&out, PROTOCOL_3_0);
	writer_text(&out, "user");
	writer_text(&out, options->user);
	writer_text(&out, "database");
	writer_text(&out, options->database);
	writer_text(&out, "application_name");
	writer_text(&out, "load");
	writer_u8(&out, 0);
	writer_end(&out);
	buffer_wrote(&client->out, &out);
	client->state = CLIENT_LOGIN;
	client_flush(client);
}

static void password_send(struct client *client, const void *bytes, size_t size)
{
	struct writer out = buffer_writer(&client->out, (uint32_t)size + 5);
	writer_begin(&out, 'p');
	writer_bytes(&out, bytes, (uint32_t)size);
	writer_end(&out);
	buffer_wrote(&client->out, &out);
	client_flush(client);
}

static void md5_send(struct client *client, struct span salt)
{
	const struct options *options = &client->thread->load->options;
	char secret[MD5_SECRET_SIZE], answer[MD5_SECRET_SIZE];
	if (salt.size != MD5_SALT_SIZE) {
		client_fail(client, "AUTH");
		return;
	}
	md5_secret_make(options->password, options->user, secret);
	md5_answer_make(secret, salt.data, answer);
	password_send(client, answer, sizeof answer);
}

static void sasl_start(struct client *client)
{
	uint8_t random[SCRAM_RANDOM_SIZE], bytes[512];
	char first[256];
	CHECK(getrandom(random, sizeof random, 0) == (ssize_t)sizeof random);
	if (scram_client_first(&client->scram, random, first, sizeof first) != SCRAM_OK) {
		client_fail(client, "AUTH");
		return;
	}
	struct writer out = writer_over(bytes, sizeof bytes);
	writer_text(&out, "SCRAM-SHA-256");
	writer_u32(&out, (uint32_t)strlen(first));
	writer_bytes(&out, first, (uint32_t)strlen(first));
	password_send(client, bytes, writer_span(&out).size);
}

/* The keys for this challenge: those of last time, or made anew. */
static bool keys_find(struct client *client, struct span challenge)
{
	struct thread *thread = client->thread;
	uint8_t salt[SCRAM_SALT_MAX];
	uint32_t size, iterations;
	if (scram_client_challenge(&client->scram, challenge, salt, &size, &iterations) != SCRAM_OK)
		return false;
	if (size == thread->salt_size && iterations == thread->iterations &&
	    memcmp(salt, thread->salt, size) == 0)
		return true;
	scram_keys_make(thread->load->options.password, salt, size, iterations, &thread->keys);
	memcpy(thread->salt, salt, size);
	thread->salt_size = size;
	thread->iterations = iterations;
	return true;
}

static void sasl_continue(struct client *client, struct span challenge)
{
	char final[2048];
	if (keys_find(client, challenge) &&
	    scram_client_final(&client->scram, challenge, &client->thread->keys, final,
	                       sizeof final) == SCRAM_OK)
		password_send(client, final, strlen(final));
	else
		client_fail(client, "AUTH");
}

static void authentication(struct client *client, struct span body)
{
	const char *password = client->thread->load->options.password;
	struct reader in = reader_of(body);
	uint32_t code = reader_u32(&in);
	struct span rest = reader_bytes(&in, reader_left(&in));
	switch (code) {
	case 0: return;
	case 3: password_send(client, password, strlen(password) + 1); return;
	case 5: md5_send(client, rest); return;
	case 10: sasl_start(client); return;
	case 11: sasl_continue(client, rest); return;
	case 12:
		if (scram_client_verify(&client->scram, rest) == SCRAM_OK)
			return;
		break;
	default: break;
	}
	client_fail(client, "AUTH");
}

void login_message(struct client *client, uint8_t type, struct span body)
{
	switch (type) {
	case 'R': authentication(client, body); return;
	case 'K':
		if (body.size <= sizeof client->key && body.size >= 8) {
			memcpy(client->key, body.data, body.size);
			client->key_size = (uint8_t)MIN(body.size, 255U);
		}
		return;
	case 'E': client_fail(client, error_sqlstate(body)); return;
	case 'Z':
		client->status = 'I';
		client->state = CLIENT_IDLE;
		thread_count(client->thread, COUNT_CONNECTS, 1);
		client_next(client);
		return;
	case 'S':
	case 'N':
	case 'v': return;
	default: client_complain(client, COUNT_WRONG, "message '%c' during login", type);
	}
}
