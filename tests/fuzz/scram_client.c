/*
 * Our side of a login to a server.  The input is both messages of a server
 * that does not know the key, and must never be believed; the harness then
 * gives the right signature, which must be, and changes one bit of it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "proto/base64.h"
#include "proto/scram.h"

static struct span exact(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + (size == 0));
	CHECK(copy != NULL);
	memcpy(copy, data, size);
	return span_of(copy, size);
}

static void forget(struct span span)
{
	free((void *)(uintptr_t)span.data);
}

/* What the right server would say, with one bit changed if `wrong`. */
static enum scram_status verify(const struct scram_client *client, uint32_t wrong)
{
	uint8_t signature[SCRAM_KEY_SIZE];
	char text[2 + BASE64_SIZE(SCRAM_KEY_SIZE)] = "v=";
	memcpy(signature, client->server_signature, SCRAM_KEY_SIZE);
	if (wrong > 0)
		signature[wrong % SCRAM_KEY_SIZE] ^= (uint8_t)(1U << wrong / SCRAM_KEY_SIZE % 8);
	base64_write(signature, SCRAM_KEY_SIZE, text + 2);
	return scram_client_verify(client, span_of(text, sizeof text));
}

/* The server's first message as it is, or with our nonce put into it. */
static struct span server_first(const struct scram_client *client, struct span bytes, bool honest)
{
	if (!honest)
		return exact(bytes.data, bytes.size);
	uint8_t text[4096] = "r=";
	uint32_t size = 2 + (uint32_t)strlen(client->nonce);
	memcpy(text + 2, client->nonce, strlen(client->nonce));
	uint32_t more = MIN(bytes.size, (uint32_t)sizeof text - size);
	memcpy(text + size, bytes.data, more);
	return exact(text, size + more);
}

static void log_in(struct scram_client *client, struct span first, struct span final,
                   uint8_t choice)
{
	static const struct scram_keys keys = {.client_key = "client", .server_key = "server"};
	uint8_t *salt = malloc(SCRAM_SALT_MAX);
	uint32_t salt_size;
	uint32_t iterations;
	CHECK(salt != NULL);
	enum scram_status asked = scram_client_challenge(client, first, salt, &salt_size,
	                                                 &iterations);
	free(salt);
	if (asked == SCRAM_OK)
		CHECK(salt_size > 0 && salt_size <= SCRAM_SALT_MAX && iterations > 0 &&
		      iterations <= SCRAM_ITERATIONS_MAX);

	uint32_t room = choice % 2 == 0 ? 1200 : choice;
	char *answer = malloc(room);
	CHECK(answer != NULL);
	enum scram_status status = scram_client_final(client, first, &keys, answer, room);
	CHECK(asked != SCRAM_OK || status == SCRAM_OK || status == SCRAM_TOO_LONG);
	if (status == SCRAM_OK) {
		CHECK(strlen(answer) < room);
		CHECK(scram_client_verify(client, final) != SCRAM_OK);
		CHECK(verify(client, 0) == SCRAM_OK);
		CHECK(verify(client, choice + 1U) == SCRAM_MISMATCH);
	}
	free(answer);
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t random[SCRAM_RANDOM_SIZE] = "always the same 1";
	struct scram_client client;
	char text[64];
	if (size < 5)
		return 0;
	CHECK(scram_client_first(&client, random, text, data[4] % 32) == SCRAM_TOO_LONG);
	CHECK(scram_client_first(&client, random, text, sizeof text) == SCRAM_OK);
	uint32_t cut = MIN((uint32_t)size - 5, (uint32_t)data[1] << 8 | data[2]);
	struct span first = server_first(&client, span_of(data + 5, cut), data[0] % 4 != 0);
	struct span final = exact(data + 5 + cut, size - 5 - cut);
	log_in(&client, first, final, data[3]);
	forget(first);
	forget(final);
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
