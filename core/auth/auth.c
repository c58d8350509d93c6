/*
 * auth.c - see auth.h.
 *
 * All comparisons of secrets take the same time wherever they differ.  A
 * verifier costs milliseconds (PBKDF2), in the helper: that of a plaintext
 * secret is made once per user and secret and kept by the registry; that of a
 * password which must match a SCRAM secret is made for every guess, one at a
 * time per client.  For a user that does not exist nothing is derived.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/auth/auth.h"

#include <stdlib.h>
#include <string.h>

#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/client.h"
#include "core/derive.h"
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

/* A password, whose verifier is to be made. */
struct auth_job {
	struct derive_job job;
	struct user *user; /* whose secret it is; NULL: it is a guess */
	uint64_t secret_hash;
	struct scram_verifier verifier; /* salt and iterations come with it */
	char password[];
};

static struct auth_job *auth_job_new(const char *password)
{
	size_t size = strlen(password) + 1;
	struct auth_job *job = derive_new(sizeof *job + size);
	if (job != NULL)
		memcpy(job->password, password, size);
	return job;
}

/* If the queue is full the client hears no more of it than of a wrong password:
 * it would tell whether the user exists. */
static enum auth_step auth_wait(struct client *client, struct auth_job *job,
                                void (*run)(struct derive_job *job))
{
	job->job.owner = client;
	job->job.run = run;
	job->job.done = login_derived;
	job->job.iterations = job->verifier.iterations;
	if (!derive_submit(client->worker, DERIVE_CLIENT, &job->job)) {
		client_log(client, LOG_LEVEL_WARNING, "too many logins wait for keys");
		return AUTH_FAILED;
	}
	client->login->job = &job->job;
	return AUTH_WAIT;
}

static void verifier_make(struct auth_job *job)
{
	const struct scram_verifier salted = job->verifier;
	scram_verifier_make(job->password, salted.salt, salted.salt_size, salted.iterations,
	                    &job->verifier);
}

static enum auth_step plain_begin(struct client *client, struct writer *out)
{
	(void)client;
	write_authentication(out, 3, span_of(NULL, 0));
	return AUTH_MORE;
}

static void guess_run(struct derive_job *job)
{
	verifier_make(CONTAINER(struct auth_job, job, job));
}

static enum auth_step scram_secret_guess(struct client *client, const char *password)
{
	struct auth_job *job = auth_job_new(password);
	if (job == NULL)
		return AUTH_FAILED;
	if (scram_verifier_read(client->login->secret, &job->verifier) &&
	    job->verifier.iterations <= DERIVE_ITERATIONS_MAX)
		return auth_wait(client, job, guess_run);
	client_log(client, LOG_LEVEL_ERROR,
	           "SCRAM secret has too many iterations for plain passwords");
	derive_free(&job->job);
	return AUTH_FAILED;
}

static enum auth_step plain_derived(struct client *client, struct derive_job *job,
                                    struct writer *out)
{
	(void)out;
	const struct auth_job *made = CONTAINER(struct auth_job, job, job);
	struct scram_verifier stored;
	if (!scram_verifier_read(client->login->secret, &stored))
		return AUTH_FAILED;
	return bytes_equal_secret(made->verifier.stored_key, stored.stored_key,
	                          sizeof stored.stored_key)
	               ? AUTH_OK
	               : AUTH_FAILED;
}

static enum auth_step plain_guess(struct client *client, const char *password)
{
	const struct login *login = client->login;
	char secret[MD5_SECRET_SIZE];
	bool same = false;
	if (login->is_mock || login->secret == NULL || *login->secret == '\0')
		return AUTH_FAILED;
	switch (login->secret_kind) {
	case SECRET_PLAIN: same = text_equal_secret(login->secret, password); break;
	case SECRET_MD5:
		md5_secret_make(password, login->user, secret);
		same = text_equal_secret(login->secret, secret);
		break;
	case SECRET_SCRAM: return scram_secret_guess(client, password);
	case SECRET_NONE: break;
	}
	return same ? AUTH_OK : AUTH_FAILED;
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
	return plain_guess(client, password);
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

static const struct derived *derived_find(struct user *user, uint64_t hash)
{
	struct derived *d = atomic_load_explicit(&user->derived, memory_order_acquire);
	while (d != NULL && d->secret_hash != hash)
		d = d->older;
	return d;
}

/* Of several clients that came for the same verifier the first makes it for
 * all. */
static void secret_run(struct derive_job *job)
{
	struct auth_job *wanted = CONTAINER(struct auth_job, job, job);
	struct user *user = wanted->user;
	const struct derived *known = derived_find(user, wanted->secret_hash);
	if (known != NULL) {
		wanted->verifier = known->verifier;
		return;
	}
	verifier_make(wanted);
	struct derived *made = calloc(1, sizeof *made);
	if (made == NULL)
		return;
	made->verifier = wanted->verifier;
	made->secret_hash = wanted->secret_hash;
	made->older = atomic_load_explicit(&user->derived, memory_order_acquire);
	while (!atomic_compare_exchange_weak(&user->derived, &made->older, made))
		;
}

static enum auth_step scram_request(struct writer *out)
{
	static const uint8_t mechanisms[] = "SCRAM-SHA-256\0";
	write_authentication(out, 10, span_of(mechanisms, sizeof mechanisms));
	return AUTH_MORE;
}

/* Of a plaintext secret: known, or to be made. */
static enum auth_step secret_verifier(struct client *client, struct writer *out)
{
	struct login *login = client->login;
	uint64_t hash = bytes_hash(login->secret, strlen(login->secret),
	                           client->worker->process->seed);
	const struct derived *known = derived_find(client->user, hash);
	if (known != NULL) {
		*login->verifier = known->verifier;
		return scram_request(out);
	}
	struct auth_job *job = auth_job_new(login->secret);
	if (job == NULL)
		return AUTH_FAILED;
	job->user = client->user;
	job->secret_hash = hash;
	job->verifier.salt_size = SALT_SIZE;
	sys_random(job->verifier.salt, SALT_SIZE);
	job->verifier.iterations = (uint32_t)client->worker->config->settings.scram_iterations;
	return auth_wait(client, job, secret_run);
}

static enum auth_step scram_derived(struct client *client, struct derive_job *job,
                                    struct writer *out)
{
	*client->login->verifier = CONTAINER(struct auth_job, job, job)->verifier;
	return scram_request(out);
}

static enum auth_step scram_begin(struct client *client, struct writer *out)
{
	struct login *login = client->login;
	login->verifier = calloc(1, sizeof *login->verifier);
	login->scram = calloc(1, sizeof *login->scram);
	if (login->verifier == NULL || login->scram == NULL)
		return AUTH_FAILED;
	bool usable = !login->is_mock && login->secret != NULL && *login->secret != '\0';
	if (usable && login->secret_kind == SECRET_SCRAM &&
	    scram_verifier_read(login->secret, login->verifier))
		return scram_request(out);
	if (usable && login->secret_kind == SECRET_PLAIN && client->user != NULL)
		return secret_verifier(client, out);
	if (usable && login->secret_kind == SECRET_MD5)
		client_log(client, LOG_LEVEL_ERROR,
		           "SCRAM authentication failed: user has MD5 secret");
	login->is_mock = true;
	scram_verifier_mock(login->user, client->worker->process->secret,
	                    (uint32_t)client->worker->config->settings.scram_iterations,
	                    login->verifier);
	return scram_request(out);
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
		client_log(client, LOG_LEVEL_ERROR,
		           "malformed SCRAM message (client-first-message)");
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

static const struct auth_method any_method = {"authentication failed", any_begin, NULL, NULL};
static const struct auth_method trust_method = {"\"trust\" authentication failed", any_begin, NULL,
                                                NULL};
static const struct auth_method plain_method = {"password authentication failed", plain_begin,
                                                plain_step, plain_derived};
static const struct auth_method md5_method = {"password authentication failed", md5_begin, md5_step,
                                              NULL};
static const struct auth_method scram_method = {"SASL authentication failed", scram_begin,
                                                scram_step, scram_derived};

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
