/*
 * Our side of a client's login.  The first byte chooses: the input is both
 * messages of a client that knows nothing, which must never be let in; or the
 * input is the client's first message, and the harness, which knows the key,
 * adds a good final with the next bytes as extension: taken as it is, refused
 * with any byte changed.  Inputs and answers lie in memory of their exact size.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>
#include <wolfssl/options.h>
#include <wolfssl/wolfcrypt/hmac.h>
#include <wolfssl/wolfcrypt/sha256.h>

#include "core/base/check.h"
#include "proto/base64.h"
#include "proto/scram.h"

static const uint8_t client_key[SCRAM_KEY_SIZE] = "the key of the client";

struct text {
	uint8_t bytes[3 * SCRAM_TEXT_MAX];
	uint32_t size;
};

static void add(struct text *text, const void *bytes, size_t size)
{
	CHECK(size <= sizeof text->bytes - text->size);
	memcpy(text->bytes + text->size, bytes, size);
	text->size += (uint32_t)size;
}

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

static enum scram_status finish(const struct scram_server *server, struct span final,
                                const struct scram_verifier *verifier, uint32_t room)
{
	struct scram_keys keys;
	char *answer = malloc(room + (room == 0));
	CHECK(answer != NULL);
	enum scram_status status = scram_server_final(server, final, verifier, answer, room, &keys);
	if (status == SCRAM_OK) {
		CHECK(strlen(answer) == 2 + BASE64_SIZE(SCRAM_KEY_SIZE) && room > strlen(answer));
		CHECK(bytes_equal_secret(keys.client_key, client_key, SCRAM_KEY_SIZE));
	}
	free(answer);
	return status;
}

/* The slow way to a good client-final. */
static void final_make(const struct scram_server *server, const struct scram_verifier *verifier,
                       struct span extension, struct text *final)
{
	struct text whole = {.size = 0};
	const char *nonce = server->server_first;
	char encoded[4];
	base64_write((const uint8_t *)server->gs2, 3, encoded);
	add(final, "c=", 2);
	add(final, encoded, 4);
	add(final, ",", 1);
	add(final, nonce, strcspn(nonce, ","));
	if (extension.size > 0) {
		add(final, ",x=", 3);
		add(final, extension.data, extension.size);
	}
	add(&whole, server->first_bare, strlen(server->first_bare));
	add(&whole, ",", 1);
	add(&whole, server->server_first, strlen(server->server_first));
	add(&whole, ",", 1);
	add(&whole, final->bytes, final->size);

	Hmac hmac;
	uint8_t proof[SCRAM_KEY_SIZE];
	CHECK(wc_HmacInit(&hmac, NULL, INVALID_DEVID) == 0);
	CHECK(wc_HmacSetKey(&hmac, WC_SHA256, verifier->stored_key, SCRAM_KEY_SIZE) == 0);
	CHECK(wc_HmacUpdate(&hmac, whole.bytes, whole.size) == 0);
	CHECK(wc_HmacFinal(&hmac, proof) == 0);
	wc_HmacFree(&hmac);
	for (uint32_t i = 0; i < SCRAM_KEY_SIZE; i++)
		proof[i] = (uint8_t)(proof[i] ^ client_key[i]);
	char text[BASE64_SIZE(SCRAM_KEY_SIZE)];
	base64_write(proof, SCRAM_KEY_SIZE, text);
	add(final, ",p=", 3);
	add(final, text, sizeof text);
}

static void log_in(const struct scram_server *server, const struct scram_verifier *verifier,
                   struct span bytes, uint8_t choice)
{
	struct text final = {.size = 0};
	struct span extension = {bytes.data, bytes.size % 64};
	for (uint32_t i = 0; i < extension.size; i++)
		if (extension.data[i] == ',' || extension.data[i] == 0)
			extension.size = i;
	final_make(server, verifier, extension, &final);
	struct span good = exact(final.bytes, final.size);
	CHECK(finish(server, good, verifier, 47) == SCRAM_OK);
	CHECK(finish(server, good, verifier, choice % 47) == SCRAM_TOO_LONG);
	CHECK(finish(server, span_of(good.data, choice % good.size), verifier, 64) != SCRAM_OK);
	final.bytes[(choice * 7U) % final.size] ^= (uint8_t)(1U << choice % 8);
	CHECK(finish(server, span_of(final.bytes, final.size), verifier, 64) != SCRAM_OK);
	forget(good);
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t random[SCRAM_RANDOM_SIZE] = "always the same 1";
	struct scram_verifier verifier = {.iterations = 4096, .salt_size = 16, .salt = "salt"};
	struct scram_server server;
	if (size < 4)
		return 0;
	wc_Sha256 sha;
	CHECK(wc_InitSha256(&sha) == 0);
	CHECK(wc_Sha256Update(&sha, client_key, SCRAM_KEY_SIZE) == 0);
	CHECK(wc_Sha256Final(&sha, verifier.stored_key) == 0);

	uint32_t cut = MIN((uint32_t)size - 4, (uint32_t)data[1] << 8 | data[2]);
	struct span first = exact(data + 4, cut);
	struct span rest = exact(data + 4 + cut, size - 4 - cut);
	if (scram_server_first(&server, first, &verifier, random) == SCRAM_OK) {
		CHECK(first.size > 3 && first.size - 3 == strlen(server.first_bare));
		if (data[0] % 2 == 0)
			CHECK(finish(&server, rest, &verifier, data[3]) != SCRAM_OK);
		else
			log_in(&server, &verifier, rest, data[3]);
	}
	forget(first);
	forget(rest);
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
