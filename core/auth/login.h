/*
 * login.h - from a client's first byte to its place in a pool.
 *
 * Order of checks as in pgbouncer.md 4.6.  Everything a login needs lies in
 * one struct that is freed with its end.  A database or user that does not
 * exist goes through the same steps with a secret that nothing matches, so
 * that a stranger cannot tell (pgbouncer.md 3.3, mock authentication).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_AUTH_LOGIN_H
#define CORE_AUTH_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/config.h"
#include "proto/md5.h"
#include "proto/scram.h"

struct auth_method;
struct client;
struct derive_job;
struct pool_record;

struct login {
	uint8_t *bytes; /* what has come and is not yet understood */
	uint32_t size, room;
	bool saw_ssl, saw_gss;
	bool knows_database;
	bool is_mock; /* nobody can succeed */
	bool trusted; /* the process's own user on a unix socket */
	char user[USER_NAME_MAX + 1];
	char database[DATABASE_NAME_MAX + 1];
	const struct auth_method *method;
	struct config *config; /* held: the secret lies in it */
	const char *secret;    /* of the user entry, NULL if none */
	enum secret_kind secret_kind;
	uint8_t salt[MD5_SALT_SIZE];
	struct scram_verifier *verifier;
	struct scram_server *scram;
	struct derive_job *job; /* with the helper: the exchange waits */
	struct scram_keys keys; /* recovered from a proof */
	bool has_keys;
};

/* False without memory. */
bool login_begin(struct client *client);

/* Bytes of a client in STARTUP, AUTH or WELCOME. */
void login_bytes(struct client *client, const uint8_t *bytes, uint32_t size);

/* The names it asked for, for log lines; NULL if unknown. */
const char *login_user(const struct client *client);
const char *login_database(const struct client *client);

/* Not one byte has come. */
bool login_is_silent(const struct client *client);

/* done() of a job of the client. */
void login_derived(void *owner, struct derive_job *job);

/* Authentication has succeeded: on to the pool or the console. */
void login_succeeded(struct client *client);

/* Into the pool, on the worker that place_take() has counted it at. */
void login_enter(struct client *client, struct pool_record *record);

void login_free(struct client *client);

#endif
