/*
 * scram.c - see scram.h.
 *
 * A message is a list of `x=value` with commas between.  It is cut by
 * attribute_take() alone, which never looks behind the span; what may stand
 * where, and how long it may be, is said once for each of the four messages.
 * What is built goes through a struct text, which refuses what does not fit
 * and remembers it.
 *
 * With  AuthMessage = client-first-bare , server-first , client-final without proof:
 *	StoredKey   = H(ClientKey)
 *	ClientProof = ClientKey xor HMAC(StoredKey, AuthMessage)
 *	signature of the server = HMAC(ServerKey, AuthMessage)
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/scram.h"

#include <string.h>
#include <wolfssl/options.h>
#include <wolfssl/wolfcrypt/hmac.h>
#include <wolfssl/wolfcrypt/pwdbased.h>
#include <wolfssl/wolfcrypt/sha256.h>

#include "core/base/check.h"
#include "proto/base64.h"

static const char prefix[] = "SCRAM-SHA-256$";
static const char gs2_ours[] = "n,,";

enum { MOCK_SALT_SIZE = 16, NONCE_TEXT_SIZE = BASE64_SIZE(SCRAM_RANDOM_SIZE) };

_Static_assert(NONCE_TEXT_SIZE < sizeof((struct scram_client *)0)->nonce, "our nonce fits");
_Static_assert(SCRAM_NONCE_MAX + NONCE_TEXT_SIZE + BASE64_SIZE(SCRAM_SALT_MAX) + 32 <
                       SCRAM_TEXT_MAX,
               "server-first fits");

/* ------------------------------------------------------------------ hashes */

/* HMAC-SHA-256 of up to five parts.  The library refuses nothing here but bad
 * arguments of ours. */
static void hmac(const uint8_t key[SCRAM_KEY_SIZE], const struct span *parts, uint32_t count,
                 uint8_t out[SCRAM_KEY_SIZE])
{
	Hmac state;
	CHECK(wc_HmacInit(&state, NULL, INVALID_DEVID) == 0);
	CHECK(wc_HmacSetKey(&state, WC_SHA256, key, SCRAM_KEY_SIZE) == 0);
	for (uint32_t i = 0; i < count; i++)
		CHECK(wc_HmacUpdate(&state, parts[i].data, parts[i].size) == 0);
	CHECK(wc_HmacFinal(&state, out) == 0);
	wc_HmacFree(&state);
	bytes_wipe(&state, sizeof state);
}

static void hmac_text(const uint8_t key[SCRAM_KEY_SIZE], const char *text,
                      uint8_t out[SCRAM_KEY_SIZE])
{
	struct span part = span_text(text);
	hmac(key, &part, 1, out);
}

/* HMAC of AuthMessage. */
static void sign(const uint8_t key[SCRAM_KEY_SIZE], struct span first_bare,
                 struct span server_first, struct span without_proof, uint8_t out[SCRAM_KEY_SIZE])
{
	struct span comma = span_text(",");
	struct span parts[] = {first_bare, comma, server_first, comma, without_proof};
	hmac(key, parts, ARRAY_LEN(parts), out);
}

static void hash_key(const uint8_t key[SCRAM_KEY_SIZE], uint8_t out[SCRAM_KEY_SIZE])
{
	wc_Sha256 state;
	CHECK(wc_InitSha256(&state) == 0);
	CHECK(wc_Sha256Update(&state, key, SCRAM_KEY_SIZE) == 0);
	CHECK(wc_Sha256Final(&state, out) == 0);
	wc_Sha256Free(&state);
	bytes_wipe(&state, sizeof state);
}

static void mix(uint8_t key[SCRAM_KEY_SIZE], const uint8_t with[SCRAM_KEY_SIZE])
{
	for (uint32_t i = 0; i < SCRAM_KEY_SIZE; i++)
		key[i] = (uint8_t)(key[i] ^ with[i]);
}

/* ------------------------------------------------------------------- texts */

struct text {
	char *start;
	uint32_t room, size;
	bool failed; /* something did not fit */
};

static void text_add(struct text *text, struct span bytes)
{
	/* one byte is kept for the end mark */
	if (text->failed || text->room == 0 || bytes.size >= text->room - text->size) {
		text->failed = true;
		return;
	}
	if (bytes.size > 0)
		memcpy(text->start + text->size, bytes.data, bytes.size);
	text->size += bytes.size;
	text->start[text->size] = '\0';
}

static void text_put(struct text *text, const char *string)
{
	text_add(text, span_text(string));
}

static void text_base64(struct text *text, const uint8_t *bytes, uint32_t size)
{
	char encoded[BASE64_SIZE(SCRAM_SALT_MAX)];
	CHECK(size <= SCRAM_SALT_MAX);
	base64_write(bytes, size, encoded);
	text_add(text, span_of(encoded, BASE64_SIZE(size)));
	bytes_wipe(encoded, sizeof encoded);
}

static void text_number(struct text *text, uint32_t number)
{
	char reversed[10];
	uint32_t size = 0;
	do {
		reversed[size++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (size > 0)
		text_add(text, span_of(&reversed[--size], 1));
}

static enum scram_status text_status(const struct text *text)
{
	return text->failed ? SCRAM_TOO_LONG : SCRAM_OK;
}

/* ----------------------------------------------------------------- parsing */

static bool has_zero(struct span bytes)
{
	return bytes.size > 0 && memchr(bytes.data, 0, bytes.size) != NULL;
}

static bool is_same(struct span a, struct span b)
{
	return a.size == b.size && bytes_equal_secret(a.data, b.data, a.size);
}

static void skip(struct span *in, uint32_t size)
{
	in->data += size;
	in->size -= size;
}

/* Takes `x=value` off the front, and the comma behind it, which must lead to
 * another attribute.  Returns x, or 0 if there is none. */
static uint8_t attribute_take(struct span *in, struct span *value)
{
	*value = (struct span){NULL, 0};
	if (in->size < 2 || in->data[1] != '=')
		return 0;
	uint8_t name = in->data[0];
	if ((name < 'a' || name > 'z') && (name < 'A' || name > 'Z'))
		return 0;
	skip(in, 2);
	const uint8_t *comma = in->size > 0 ? memchr(in->data, ',', in->size) : NULL;
	value->data = in->data;
	value->size = comma == NULL ? in->size : (uint32_t)(comma - in->data);
	skip(in, value->size);
	if (comma == NULL)
		return name;
	skip(in, 1);
	return in->size > 0 ? name : 0;
}

static bool attribute_is(struct span *in, char name, struct span *value)
{
	return attribute_take(in, value) == (uint8_t)name;
}

/* Extensions that nobody has to know. */
static bool extensions_ignore(struct span in)
{
	struct span value;
	while (in.size > 0)
		if (attribute_take(&in, &value) == 0)
			return false;
	return true;
}

static bool is_nonce(struct span value)
{
	if (value.size == 0 || value.size > SCRAM_NONCE_MAX)
		return false;
	for (uint32_t i = 0; i < value.size; i++)
		if (value.data[i] < 0x21 || value.data[i] > 0x7e)
			return false;
	return true;
}

/* A number without sign and leading zeros, 1 to SCRAM_ITERATIONS_MAX; else 0. */
static uint32_t iterations_read(struct span value)
{
	uint32_t number = 0;
	if (value.size == 0 || value.data[0] == '0')
		return 0;
	for (uint32_t i = 0; i < value.size; i++) {
		if (value.data[i] < '0' || value.data[i] > '9')
			return 0;
		number = number * 10 + (value.data[i] - '0');
		if (number > SCRAM_ITERATIONS_MAX)
			return 0;
	}
	return number;
}

static bool key_read(struct span value, uint8_t key[SCRAM_KEY_SIZE])
{
	uint32_t size;
	return base64_read(value, key, SCRAM_KEY_SIZE, &size) && size == SCRAM_KEY_SIZE;
}

static bool salt_read(struct span value, uint8_t *salt, uint32_t *size)
{
	return base64_read(value, salt, SCRAM_SALT_MAX, size) && *size > 0;
}

/* ---------------------------------------------------------- stored secrets */

/* What stands in front of `end`, and takes both off. */
static struct span part_take(struct span *in, char end)
{
	const uint8_t *at = in->size > 0 ? memchr(in->data, end, in->size) : NULL;
	if (at == NULL)
		return (struct span){NULL, 0};
	struct span part = {in->data, (uint32_t)(at - in->data)};
	skip(in, part.size + 1);
	return part;
}

bool scram_verifier_read(const char *secret, struct scram_verifier *verifier)
{
	if (strncmp(secret, prefix, sizeof prefix - 1) != 0)
		return false;
	struct span in = span_text(secret + sizeof prefix - 1);
	struct span iterations = part_take(&in, ':');
	struct span salt = part_take(&in, '$');
	struct span stored_key = part_take(&in, ':');
	verifier->iterations = iterations_read(iterations);
	return verifier->iterations > 0 && salt_read(salt, verifier->salt, &verifier->salt_size) &&
	       key_read(stored_key, verifier->stored_key) && key_read(in, verifier->server_key);
}

void scram_keys_make(const char *password, const uint8_t *salt, uint32_t salt_size,
                     uint32_t iterations, struct scram_keys *keys)
{
	uint8_t salted[SCRAM_KEY_SIZE];
	struct span key = span_text(password);
	CHECK(key.size <= PASSWORD_MAX && salt_size <= SCRAM_SALT_MAX);
	CHECK(iterations > 0 && iterations <= SCRAM_ITERATIONS_MAX);
	CHECK(wc_PBKDF2(salted, key.data, (int)key.size, salt, (int)salt_size, (int)iterations,
	                SCRAM_KEY_SIZE, WC_SHA256) == 0);
	hmac_text(salted, "Client Key", keys->client_key);
	hmac_text(salted, "Server Key", keys->server_key);
	bytes_wipe(salted, sizeof salted);
}

void scram_verifier_make(const char *password, const uint8_t *salt, uint32_t salt_size,
                         uint32_t iterations, struct scram_verifier *verifier)
{
	struct scram_keys keys;
	scram_keys_make(password, salt, salt_size, iterations, &keys);
	verifier->iterations = iterations;
	verifier->salt_size = salt_size;
	memmove(verifier->salt, salt, salt_size);
	hash_key(keys.client_key, verifier->stored_key);
	memcpy(verifier->server_key, keys.server_key, SCRAM_KEY_SIZE);
	bytes_wipe(&keys, sizeof keys);
}

/* Nobody knows a ClientKey whose hash is the StoredKey made here. */
void scram_verifier_mock(const char *user, const uint8_t secret[SCRAM_KEY_SIZE],
                         uint32_t iterations, struct scram_verifier *verifier)
{
	uint8_t of_user[SCRAM_KEY_SIZE];
	uint8_t salt[SCRAM_KEY_SIZE];
	hmac_text(secret, user, of_user);
	hmac_text(of_user, "salt", salt);
	hmac_text(of_user, "stored key", verifier->stored_key);
	hmac_text(of_user, "server key", verifier->server_key);
	verifier->iterations = iterations;
	verifier->salt_size = MOCK_SALT_SIZE;
	memcpy(verifier->salt, salt, MOCK_SALT_SIZE);
	bytes_wipe(of_user, sizeof of_user);
}

/* ------------------------------------------------------------- server role */

/* "n,," or "y,," in front; no authorization identity. */
static enum scram_status gs2_take(struct span *in, char gs2[4])
{
	if (in->size > 0 && in->data[0] == 'p')
		return SCRAM_BINDING;
	if (in->size < 3 || (in->data[0] != 'n' && in->data[0] != 'y'))
		return SCRAM_MALFORMED;
	if (in->data[1] != ',' || in->data[2] != ',')
		return SCRAM_MALFORMED;
	memcpy(gs2, in->data, 3);
	gs2[3] = '\0';
	skip(in, 3);
	return SCRAM_OK;
}

enum scram_status scram_server_first(struct scram_server *state, struct span client_first,
                                     const struct scram_verifier *verifier,
                                     const uint8_t random[SCRAM_RANDOM_SIZE])
{
	struct span in = client_first;
	struct span value;
	if (has_zero(in))
		return SCRAM_MALFORMED;
	enum scram_status status = gs2_take(&in, state->gs2);
	if (status != SCRAM_OK)
		return status;

	struct text bare = {.start = state->first_bare, .room = sizeof state->first_bare};
	text_add(&bare, in);
	/* the name in `n` is ignored: the startup packet has said who it is; `m`,
	 * an extension that must be understood, is not `n` and thus refused */
	if (bare.failed || !attribute_is(&in, 'n', &value) || !attribute_is(&in, 'r', &value))
		return SCRAM_MALFORMED;
	if (!is_nonce(value) || !extensions_ignore(in))
		return SCRAM_MALFORMED;

	struct text text = {.start = state->server_first, .room = sizeof state->server_first};
	text_put(&text, "r=");
	text_add(&text, value);
	text_base64(&text, random, SCRAM_RANDOM_SIZE);
	text_put(&text, ",s=");
	text_base64(&text, verifier->salt, verifier->salt_size);
	text_put(&text, ",i=");
	text_number(&text, verifier->iterations);
	return text_status(&text);
}

/* Checks all but the proof itself; finds what the proof signs. */
static enum scram_status client_final_read(const struct scram_server *state, struct span in,
                                           struct span *without_proof,
                                           uint8_t proof[SCRAM_KEY_SIZE])
{
	char encoded[4];
	struct span ours = span_text(state->server_first);
	struct span whole = in;
	struct span nonce;
	struct span value;
	CHECK(attribute_is(&ours, 'r', &nonce));
	base64_write((const uint8_t *)state->gs2, 3, encoded);

	if (has_zero(in) || !attribute_is(&in, 'c', &value))
		return SCRAM_MALFORMED;
	if (!is_same(value, span_of(encoded, sizeof encoded)))
		return SCRAM_BINDING;
	if (!attribute_is(&in, 'r', &value))
		return SCRAM_MALFORMED;
	if (!is_same(value, nonce))
		return SCRAM_MISMATCH;

	uint8_t name;
	do {
		*without_proof = (struct span){whole.data, whole.size - in.size - 1};
		name = attribute_take(&in, &value);
		if (name == 0)
			return SCRAM_MALFORMED;
	} while (name != 'p');
	return in.size == 0 && key_read(value, proof) ? SCRAM_OK : SCRAM_MALFORMED;
}

/* NOLINTBEGIN(readability-non-const-parameter): written through struct text */
/* NOLINTNEXTLINE(readability-function-size): six parameters, none goes with another */
enum scram_status scram_server_final(const struct scram_server *state, struct span client_final,
                                     const struct scram_verifier *verifier, char *answer,
                                     uint32_t room, struct scram_keys *keys)
{
	struct span bare = span_text(state->first_bare);
	struct span first = span_text(state->server_first);
	struct span signed_part;
	uint8_t client_key[SCRAM_KEY_SIZE]; /* the proof, until the signature is taken off */
	uint8_t signature[SCRAM_KEY_SIZE];
	uint8_t stored_key[SCRAM_KEY_SIZE];
	enum scram_status status = client_final_read(state, client_final, &signed_part, client_key);
	if (status != SCRAM_OK)
		return status;

	sign(verifier->stored_key, bare, first, signed_part, signature);
	mix(client_key, signature);
	hash_key(client_key, stored_key);
	if (bytes_equal_secret(stored_key, verifier->stored_key, SCRAM_KEY_SIZE)) {
		struct text text = {.start = answer, .room = room};
		sign(verifier->server_key, bare, first, signed_part, signature);
		text_put(&text, "v=");
		text_base64(&text, signature, SCRAM_KEY_SIZE);
		status = text_status(&text);
	} else {
		status = SCRAM_MISMATCH;
	}
	if (status == SCRAM_OK && keys != NULL) {
		memcpy(keys->client_key, client_key, SCRAM_KEY_SIZE);
		memcpy(keys->server_key, verifier->server_key, SCRAM_KEY_SIZE);
	}
	bytes_wipe(client_key, sizeof client_key);
	return status;
}

/* ------------------------------------------------------------- client role */

enum scram_status scram_client_first(struct scram_client *state,
                                     const uint8_t random[SCRAM_RANDOM_SIZE], char *answer,
                                     uint32_t room)
{
	struct text nonce = {.start = state->nonce, .room = sizeof state->nonce};
	struct text bare = {.start = state->first_bare, .room = sizeof state->first_bare};
	struct text text = {.start = answer, .room = room};
	text_base64(&nonce, random, SCRAM_RANDOM_SIZE);
	text_put(&bare, "n=,r=");
	text_put(&bare, state->nonce);
	CHECK(!nonce.failed && !bare.failed);
	text_put(&text, gs2_ours);
	text_put(&text, state->first_bare);
	return text_status(&text);
}
/* NOLINTEND(readability-non-const-parameter) */

struct challenge {
	struct span nonce;
	struct span salt; /* encoded */
	uint32_t iterations;
};

/* A server that sends our nonce back with nothing added, or anything else, is
 * replaying. */
static bool server_first_read(const struct scram_client *state, struct span in,
                              struct challenge *challenge)
{
	struct span ours = span_text(state->nonce);
	struct span iterations;
	CHECK(ours.size > 0);
	if (has_zero(in) || !attribute_is(&in, 'r', &challenge->nonce) ||
	    !attribute_is(&in, 's', &challenge->salt) || !attribute_is(&in, 'i', &iterations) ||
	    !extensions_ignore(in))
		return false;
	challenge->iterations = iterations_read(iterations);
	return challenge->iterations > 0 && is_nonce(challenge->nonce) &&
	       challenge->nonce.size > ours.size &&
	       bytes_equal_secret(challenge->nonce.data, ours.data, ours.size);
}

enum scram_status scram_client_challenge(const struct scram_client *state, struct span server_first,
                                         uint8_t *salt, uint32_t *salt_size, uint32_t *iterations)
{
	struct challenge challenge;
	if (!server_first_read(state, server_first, &challenge) ||
	    !salt_read(challenge.salt, salt, salt_size))
		return SCRAM_MALFORMED;
	*iterations = challenge.iterations;
	return SCRAM_OK;
}

enum scram_status scram_client_final(struct scram_client *state, struct span server_first,
                                     const struct scram_keys *keys, char *answer, uint32_t room)
{
	struct challenge challenge;
	if (!server_first_read(state, server_first, &challenge))
		return SCRAM_MALFORMED;
	struct text text = {.start = answer, .room = room};
	text_put(&text, "c=");
	text_base64(&text, (const uint8_t *)gs2_ours, sizeof gs2_ours - 1);
	text_put(&text, ",r=");
	text_add(&text, challenge.nonce);
	if (text.failed)
		return SCRAM_TOO_LONG;

	struct span bare = span_text(state->first_bare);
	struct span signed_part = span_of(answer, text.size);
	uint8_t stored_key[SCRAM_KEY_SIZE];
	uint8_t proof[SCRAM_KEY_SIZE];
	hash_key(keys->client_key, stored_key);
	sign(stored_key, bare, server_first, signed_part, proof);
	mix(proof, keys->client_key);
	sign(keys->server_key, bare, server_first, signed_part, state->server_signature);
	text_put(&text, ",p=");
	text_base64(&text, proof, SCRAM_KEY_SIZE);
	bytes_wipe(stored_key, sizeof stored_key);
	return text_status(&text);
}

enum scram_status scram_client_verify(const struct scram_client *state, struct span server_final)
{
	struct span in = server_final;
	struct span value;
	uint8_t signature[SCRAM_KEY_SIZE];
	uint8_t name = attribute_take(&in, &value);
	if ((name != 'v' && name != 'e') || !extensions_ignore(in))
		return SCRAM_MALFORMED;
	if (name == 'e') /* the server's own word that it failed */
		return SCRAM_MISMATCH;
	if (!key_read(value, signature))
		return SCRAM_MALFORMED;
	return bytes_equal_secret(signature, state->server_signature, SCRAM_KEY_SIZE)
	               ? SCRAM_OK
	               : SCRAM_MISMATCH;
}
