/*
 * server_keys.h - SCRAM keys of a plaintext password, for a login to a server.
 *
 * The server chooses the salt and the number of rounds, so they are derived by
 * the helper (core/derive.h), and kept with the pool for the next login.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_SERVER_KEYS_H
#define CORE_SERVER_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/limits.h"
#include "core/derive.h"
#include "proto/scram.h"

struct server;

struct server_keys {
	struct derive_job job;
	struct pool_record *record;
	uint64_t secret_hash;
	uint32_t iterations, salt_size;
	uint8_t salt[SCRAM_SALT_MAX];
	struct scram_keys keys;
	struct span server_first; /* its message, kept for the answer */
	char text[];              /* the secret, then server_first */
};

/* NULL without memory. */
struct server_keys *server_keys_new(struct server *server, const char *secret,
                                    struct span server_first);

/* True: they were derived before, and are filled in. */
bool server_keys_known(struct server_keys *wanted);

/* run() of the job. */
void server_keys_derive(struct derive_job *job);

#endif
