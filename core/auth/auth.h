/*
 * auth.h - how a client proves who it is.
 *
 * A method is a row: begin() writes the first request, step() reads each
 * answer (the body of a 'p' message).  Both only see the login and a writer,
 * so a method is tested by calling it.  What takes a CPU for long goes to the
 * helper (core/derive.h): AUTH_WAIT, and derived() goes on from there; what the
 * client says meanwhile waits.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_AUTH_AUTH_H
#define CORE_AUTH_AUTH_H

#include <stdint.h>

#include "core/base/bytes.h"
#include "core/config.h"

struct client;
struct derive_job;
struct writer;

enum auth_step { AUTH_MORE, AUTH_WAIT, AUTH_OK, AUTH_FAILED };

struct auth_method {
	const char *failure; /* what the client is told (pgbouncer.md 3.3) */
	enum auth_step (*begin)(struct client *client, struct writer *out);
	/* *failure may be replaced by a more exact text. */
	enum auth_step (*step)(struct client *client, struct span answer, struct writer *out,
	                       const char **failure);
	/* login->job has come back from the helper. */
	enum auth_step (*derived)(struct client *client, struct derive_job *job,
	                          struct writer *out);
};

/* The method for a type and the kind of secret the user has; NULL: a type that
 * is not there. */
const struct auth_method *auth_method(enum auth_type type, enum secret_kind secret);

#endif
