/*
 * scram.h - SCRAM-SHA-256 (RFC 5802, RFC 7677) in both roles, pure.
 *
 * Random bytes come in as arguments.  Fields of a peer are bounded by
 * SCRAM_NONCE_MAX, SCRAM_SALT_MAX, SCRAM_ITERATIONS_MAX; every builder says
 * whether its text fitted.  No channel binding.
 *
 * Server role (we check a client):      Client role (we log in to a server):
 *   scram_server_first <- client-first    scram_client_first -> client-first
 *   (send the text it made)               scram_client_final <- server-first
 *   scram_server_final <- client-final    (send the text it made)
 *   (send the text it made)               scram_client_verify <- server-final
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_SCRAM_H
#define PROTO_SCRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/limits.h"

enum { SCRAM_KEY_SIZE = 32, SCRAM_TEXT_MAX = 4096, SCRAM_RANDOM_SIZE = 18 };

/* What a server stores: "SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>". */
struct scram_verifier {
	uint32_t iterations;
	uint32_t salt_size;
	uint8_t salt[SCRAM_SALT_MAX];
	uint8_t stored_key[SCRAM_KEY_SIZE];
	uint8_t server_key[SCRAM_KEY_SIZE];
};

/* What a client needs to log in: from a password, or recovered from a proof
 * (pass-through; then the server must hold the same verifier). */
struct scram_keys {
	uint8_t client_key[SCRAM_KEY_SIZE];
	uint8_t server_key[SCRAM_KEY_SIZE];
};

bool scram_verifier_read(const char *secret, struct scram_verifier *verifier);

/* PBKDF2: milliseconds.  Not on the turn of a worker without a cache.
 * SASLprep is applied by PostgreSQL only to non-ASCII passwords; we
 * pass bytes as they are (README, known limits). */
void scram_verifier_make(const char *password, const uint8_t *salt, uint32_t salt_size,
                         uint32_t iterations, struct scram_verifier *verifier);
void scram_keys_make(const char *password, const uint8_t *salt, uint32_t salt_size,
                     uint32_t iterations, struct scram_keys *keys);

/* A verifier that no password matches, for users that do not exist: the salt
 * is derived from the name and a secret of the process, so that it repeats. */
void scram_verifier_mock(const char *user, const uint8_t secret[SCRAM_KEY_SIZE],
                         uint32_t iterations, struct scram_verifier *verifier);

enum scram_status {
	SCRAM_OK,
	SCRAM_MALFORMED, /* the text breaks the grammar or a limit */
	SCRAM_BINDING,   /* asks for channel binding that was not offered, or c= does not match */
	SCRAM_MISMATCH,  /* well-formed, but the proof or signature is wrong */
	SCRAM_TOO_LONG,  /* the answer does not fit */
};

struct scram_server {
	char first_bare[SCRAM_TEXT_MAX];   /* client-first-message-bare */
	char server_first[SCRAM_TEXT_MAX]; /* what we sent */
	char gs2[4];                       /* "n,," or "y,," */
};

/* Reads client-first, makes server-first into state->server_first. */
enum scram_status scram_server_first(struct scram_server *state, struct span client_first,
                                     const struct scram_verifier *verifier,
                                     const uint8_t random[SCRAM_RANDOM_SIZE]);

/* Checks client-final against the verifier.  On SCRAM_OK `answer` holds
 * server-final and `keys` (may be NULL) the ClientKey of the proof and the
 * ServerKey, for pass-through.  Compares in constant time. */
enum scram_status scram_server_final(const struct scram_server *state, struct span client_final,
                                     const struct scram_verifier *verifier, char *answer,
                                     uint32_t room, struct scram_keys *keys);

struct scram_client {
	char nonce[64];
	char first_bare[128];
	uint8_t server_signature[SCRAM_KEY_SIZE];
};

/* Makes client-first ("n,,n=,r=...") into `answer`. */
enum scram_status scram_client_first(struct scram_client *state,
                                     const uint8_t random[SCRAM_RANDOM_SIZE], char *answer,
                                     uint32_t room);

/* What server-first asks for: salt and iterations, to make or look up keys. */
enum scram_status scram_client_challenge(const struct scram_client *state, struct span server_first,
                                         uint8_t *salt, uint32_t *salt_size, uint32_t *iterations);

/* Makes client-final from the keys. */
enum scram_status scram_client_final(struct scram_client *state, struct span server_first,
                                     const struct scram_keys *keys, char *answer, uint32_t room);

enum scram_status scram_client_verify(const struct scram_client *state, struct span server_final);

#endif
