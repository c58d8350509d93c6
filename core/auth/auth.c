/*
 * auth.c - see auth.h.
 *
 * All comparisons of secrets take the same time wherever they differ.  A
 * verifier made of a plaintext secret costs milliseconds (PBKDF2), so it is
 * made once per user and secret and kept by the registry.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/auth/auth.h"

#include <stdlib.h>
#include <string.h>

#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/client.h"
#include "core/log.h"
#include "core/process.h"
#include "core/worker.h"
#include "net/sys.h"
#include "proto/md5.h"
#include "proto/read.h"
#include "proto/scram.h"
#include "proto/write.h"

enum { SALT_SIZE = 16 };

static const char mechanism[] = "SCRAM-SHA-256";

static enum auth_step any_begin(struct client *client, struct writer *out)
{
	(void)out;
	return client->login->is_mock ? AUTH_FAILED : AUTH_OK;
}

static bool text_equal_secret(const char *a, const char *b)
{
	size_t size = strlen(a);
	return strlen(b) == size && bytes_equal_secret(a, b, size);
}

static bool verifier_matches(const struct scram_verifier *verifier, const char *password)
{
	struct scram_verifier own;
	scram_verifier_make(password, verifier->salt, verifier->salt_size, verifier->iterations,
	                    &own);
	bool same = bytes_equal_secret(own.stored_key, verifier->stored_key, sizeof own.stored_key);
	bytes_wipe(&own, sizeof own);
	return same;
}

static enum auth_step plain_begin(struct client *client, struct writer *out)
{
	(void)client;
	write_authentication(out, 3, span_of(NULL, 0));
	return AUTH_MORE;
}

static bool plain_matches(const struct login *login, const char *password)
{
	struct scram_verifier verifier;
	char secret[MD5_SECRET_SIZE];
	if (login->is_mock || login->secret == NULL || *login->secret == '\0')
		return false;
	switch (login->secret_kind) {
	case SECRET_PLAIN: return text_equal_secret(login->secret, password);
	case SECRET_MD5:
		md5_secret_make(password, login->user, secret);
		return text_equal_secret(login->secret, secret);
	case SECRET_SCRAM:
		return scram_verifier_read(login->secret, &verifier) &&
		       verifier_matches(&verifier, password);
	case SECRET_NONE: break;
	}
	return false;
}

static enum auth_step plain_step(struct client *client, struct span answer, struct writer *out,
                                 const char **failure)
{
	(void)out;
	struct reader in = reader_of(answer);
	const char *password = reader_text(&in);
	if (!reader_done(&in))
		return AUTH_FAILED;
	if (*password == '\0') {
		*failure = "empty password returned by client";
		return AUTH_FAILED;
	}
	if (strlen(password) > PASSWORD_MAX)
		return AUTH_FAILED;
	return plain_matches(client->login, password) ? AUTH_OK : AUTH_FAILED;
}

static enum auth_step md5_begin(struct client *client, struct writer *out)
{
	struct login *login = client->login;
	sys_random(login->salt, sizeof login->salt);
	write_authentication(out, 5, span_of(login->salt, sizeof login->salt));
	return AUTH_MORE;
}

static enum auth_step md5_step(struct client *client, struct span answer, struct writer *out,
                               const char **failure)
{
	(void)out;
	const struct login *login = client->login;
	struct reader in = reader_of(answer);
	const char *given = reader_text(&in);
	char secret[MD5_SECRET_SIZE];
	char expected[MD5_SECRET_SIZE];
	if (!reader_done(&in))
		return AUTH_FAILED;
	if (*given == '\0') {
		*failure = "empty password returned by client";
		return AUTH_FAILED;
	}
	if (login->is_mock || login->secret == NULL || *login->secret == '\0')
		return AUTH_FAILED;
	if (login->secret_kind == SECRET_MD5)
		memcpy(secret, login->secret, sizeof secret);
	else
		md5_secret_make(login->secret, login->user, secret);
	md5_answer_make(secret, login->salt, expected);
	return text_equal_secret(expected, given) ? AUTH_OK : AUTH_FAILED;
}

/* The verifier of a plaintext secret, made once. */
static const struct scram_verifier *derived_verifier(struct client *client)
{
	struct user *user = client->user;
	const char *secret = client->login->secret;
	uint64_t hash = bytes_hash(secret, strlen(secret), client->worker->process->seed);
	struct derived *newest = atomic_load_explicit(&user->derived, memory_order_acquire);
	for (struct derived *d = newest; d != NULL; d = d->older)
		if (d->secret_hash == hash)
			return &d->verifier;
	struct derived *made = calloc(1, sizeof *made);
	if (made == NULL)
		return NULL;
	uint8_t salt[SALT_SIZE];
	sys_random(salt, sizeof salt);
	uint32_t iterations = (uint32_t)client->worker->config->settings.scram_iterations;
	scram_verifier_make(secret, salt, sizeof salt, iterations, &made->verifier);
	made->secret_hash = hash;
	made->older = newest;
	while (!atomic_compare_exchange_weak(&user->derived, &made->older, made))
		;
	return &made->verifier;
}

static bool scram_prepare(struct client *client)
{
	struct login *login = client->login;
	login->verifier = calloc(1, sizeof *login->verifier);
	login->scram = calloc(1, sizeof *login->scram);
	if (login->verifier == NULL || login->scram == NULL)
		return false;
	const struct scram_verifier *derived;
	bool usable = !login->is_mock && login->secret != NULL && *login->secret != '\0';
	if (usable && login->secret_kind == SECRET_SCRAM &&
	    scram_verifier_read(login->secret, login->verifier))
		return true;
	if (usable && login->secret_kind == SECRET_PLAIN && client->user != NULL &&
	    (derived = derived_verifier(client)) != NULL) {
		*login->verifier = *derived;
		return true;
	}
	if (usable && login->secret_kind == SECRET_MD5)
		client_log(client, LOG_ERROR_, "SCRAM authentication failed: user has MD5 secret");
	login->is_mock = true;
	scram_verifier_mock(login->user, client->worker->process->secret,
	                    (uint32_t)client->worker->config->settings.scram_iterations,
	                    login->verifier);
	return true;
}

static enum auth_step scram_begin(struct client *client, struct writer *out)
{
	static const uint8_t mechanisms[] = "SCRAM-SHA-256\0";
	if (!scram_prepare(client))
		return AUTH_FAILED;
	write_authentication(out, 10, span_of(mechanisms, sizeof mechanisms));
	return AUTH_MORE;
}

static enum auth_step scram_first(struct client *client, struct span answer, struct writer *out,
                                  const char **failure)
{
	struct login *login = client->login;
	struct reader in = reader_of(answer);
	const char *name = reader_text(&in);
	uint32_t size = reader_u32(&in);
	struct span text = reader_bytes(&in, size);
	uint8_t random[SCRAM_RANDOM_SIZE];
	if (strcmp(name, mechanism) != 0) {
		*failure = "client selected an invalid SASL authentication mechanism";
		return AUTH_FAILED;
	}
	if (!reader_done(&in))
		return AUTH_FAILED;
	sys_random(random, sizeof random);
	enum scram_status status = scram_server_first(login->scram, text, login->verifier, random);
	if (status != SCRAM_OK) {
		client_log(client, LOG_ERROR_, "malformed SCRAM message (client-first-message)");
		return AUTH_FAILED;
	}
	write_authentication(out, 11, span_text(login->scram->server_first));
	return AUTH_MORE;
}

static enum auth_step scram_step(struct client *client, struct span answer, struct writer *out,
                                 const char **failure)
{
	struct login *login = client->login;
	char final[256];
	if (login->scram->server_first[0] == '\0')
		return scram_first(client, answer, out, failure);
	enum scram_status status = scram_server_final(login->scram, answer, login->verifier, final,
	                                              sizeof final, &login->keys);
	if (status != SCRAM_OK || login->is_mock)
		return AUTH_FAILED;
	login->has_keys = login->secret_kind == SECRET_SCRAM;
	write_authentication(out, 12, span_text(final));
	return AUTH_OK;
}

static const struct auth_method any_method = {"authentication failed", any_begin, NULL};
static const struct auth_method trust_method = {"\"trust\" authentication failed", any_begin, NULL};
static const struct auth_method plain_method = {"password authentication failed", plain_begin,
                                                plain_step};
static const struct auth_method md5_method = {"password authentication failed", md5_begin,
                                              md5_step};
static const struct auth_method scram_method = {"SASL authentication failed", scram_begin,
                                                scram_step};

const struct auth_method *auth_method(enum auth_type type, enum secret_kind secret)
{
	switch (type) {
	case AUTH_ANY: return &any_method;
	case AUTH_TRUST: return &trust_method;
	case AUTH_PLAIN: return &plain_method;
	case AUTH_MD5: return secret == SECRET_SCRAM ? &scram_method : &md5_method;
	case AUTH_SCRAM: return &scram_method;
	case AUTH_CERT:
	case AUTH_HBA:
	case AUTH_LDAP:
	case AUTH_PAM: break;
	}
	return NULL;
}
