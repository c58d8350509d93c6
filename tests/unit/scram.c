/* Both roles: the example of RFC 7677, secrets that PostgreSQL 15 stored, each
 * role against the other, and each message with one thing wrong at a time. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/scram.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

/* RFC 7677, section 3. */
#define RFC_NONCE  "rOprNGfwEbeRWgbNEkqO"
#define RFC_BOTH   RFC_NONCE "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define RFC_BARE   "n=user,r=" RFC_NONCE
#define RFC_SERVER "r=" RFC_BOTH ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
#define RFC_FINAL  "c=biws,r=" RFC_BOTH ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define RFC_ANSWER "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

static const uint8_t rfc_salt[16] = {0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e,
                                     0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81};
static const uint8_t random_bytes[SCRAM_RANDOM_SIZE] = "seventeen and one";

static struct scram_client rfc_client(void)
{
	return (struct scram_client){.nonce = RFC_NONCE, .first_bare = RFC_BARE};
}

static const struct scram_server rfc_server = {.first_bare = RFC_BARE,
                                               .server_first = RFC_SERVER,
                                               .gs2 = "n,,"};

Test(scram, example_of_the_rfc)
{
	struct scram_client client = rfc_client();
	struct scram_keys keys;
	struct scram_keys recovered;
	struct scram_verifier verifier;
	struct span server_first = span_text(RFC_SERVER);
	uint8_t salt[SCRAM_SALT_MAX];
	uint32_t salt_size;
	uint32_t iterations;
	char text[512];

	cr_assert_eq(scram_client_challenge(&client, server_first, salt, &salt_size, &iterations),
	             SCRAM_OK);
	cr_assert(salt_size == 16 && iterations == 4096);
	cr_assert_arr_eq(salt, rfc_salt, 16);
	scram_keys_make("pencil", salt, salt_size, iterations, &keys);
	cr_assert_eq(scram_client_final(&client, server_first, &keys, text, sizeof text), SCRAM_OK);
	cr_assert_str_eq(text, RFC_FINAL);

	scram_verifier_make("pencil", salt, salt_size, iterations, &verifier);
	cr_assert_eq(scram_server_final(&rfc_server, span_text(RFC_FINAL), &verifier, text,
	                                sizeof text, &recovered),
	             SCRAM_OK);
	cr_assert_str_eq(text, RFC_ANSWER);
	cr_assert_arr_eq(recovered.client_key, keys.client_key, SCRAM_KEY_SIZE);
	cr_assert_arr_eq(recovered.server_key, keys.server_key, SCRAM_KEY_SIZE);
	cr_assert_eq(scram_client_verify(&client, span_text(text)), SCRAM_OK);

	scram_verifier_make("pencil ", salt, salt_size, iterations, &verifier);
	cr_assert_eq(scram_server_final(&rfc_server, span_text(RFC_FINAL), &verifier, text,
	                                sizeof text, NULL),
	             SCRAM_MISMATCH);
}

#define STORED "$gTbFGNdEsSbba3vR4MCOrA27ROk1SHI8EmLPqCXvh/I="
#define SERVER ":8a/y2EUII0o3hny3aSxW9DUmRz7EQss6dVure16FZGc="
#define SALT   "az5YhIaw4ojbztnUNK1RAQ=="

Test(scram, stored_secrets)
{
	static const struct {
		const char *password, *secret;
	} stored[] = {
		{"pencil", "SCRAM-SHA-256$4096:IvXOWW6dOOIcUvHlXOwX+g==$"
	                   "+KKgEiyF8daJQiDYO2ZQeAhwNVqwoAkE14pWcOdwmwM=:"
	                   "SFMB9XlFQx/CkjNDWlFjL8XKhW57R0EjhgycR7ZKsgo="},
		{"x", "SCRAM-SHA-256$4096:" SALT STORED SERVER},
	};
	static const char *const others[] = {
		"",
		"pencil",
		"SCRAM-SHA-256",
		"SCRAM-SHA-256$",
		"SCRAM-SHA-256$4096",
		"SCRAM-SHA-256$4096:",
		"SCRAM-SHA-256$4096:" SALT,
		"SCRAM-SHA-256$4096:" SALT "$",
		"SCRAM-SHA-256$4096:" SALT STORED,
		"SCRAM-SHA-256$4096:" SALT STORED ":",
		"SCRAM-SHA-256$4096:" SALT STORED SERVER "x",
		"SCRAM-SHA-256$4096:" SALT STORED SERVER ":",
		"SCRAM-SHA-1$4096:" SALT STORED SERVER,
		"scram-sha-256$4096:" SALT STORED SERVER,
		"SCRAM-SHA-256$:" SALT STORED SERVER,
		"SCRAM-SHA-256$0:" SALT STORED SERVER,
		"SCRAM-SHA-256$04096:" SALT STORED SERVER,
		"SCRAM-SHA-256$-1:" SALT STORED SERVER,
		"SCRAM-SHA-256$4096x:" SALT STORED SERVER,
		"SCRAM-SHA-256$10000001:" SALT STORED SERVER,
		"SCRAM-SHA-256$4294971392:" SALT STORED SERVER,
		"SCRAM-SHA-256$4096:" STORED SERVER,
		"SCRAM-SHA-256$4096:a?" STORED SERVER,
		"SCRAM-SHA-256$4096:" SALT "$AAAA" SERVER,
		"SCRAM-SHA-256$4096:" SALT STORED ":AAAA",
	};
	struct scram_verifier read;
	struct scram_verifier made;
	for (size_t i = 0; i < ARRAY_LEN(stored); i++) {
		cr_assert(scram_verifier_read(stored[i].secret, &read));
		scram_verifier_make(stored[i].password, read.salt, read.salt_size, read.iterations,
		                    &made);
		cr_assert_eq(read.salt_size, 16);
		cr_assert_arr_eq(read.stored_key, made.stored_key, SCRAM_KEY_SIZE);
		cr_assert_arr_eq(read.server_key, made.server_key, SCRAM_KEY_SIZE);
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		cr_assert_not(scram_verifier_read(others[i], &read), "%s", others[i]);
}

/* One login, with the client's and the server's own idea of the password. */
static enum scram_status log_in(const struct scram_verifier *verifier, const char *password)
{
	struct scram_client client;
	static struct scram_server server;
	struct scram_keys keys;
	static char text[SCRAM_TEXT_MAX];
	uint8_t salt[SCRAM_SALT_MAX];
	uint32_t salt_size;
	uint32_t iterations;

	cr_assert_eq(scram_client_first(&client, random_bytes, text, sizeof text), SCRAM_OK);
	cr_assert_eq(scram_server_first(&server, span_text(text), verifier, random_bytes),
	             SCRAM_OK);
	struct span server_first = span_text(server.server_first);
	cr_assert_eq(scram_client_challenge(&client, server_first, salt, &salt_size, &iterations),
	             SCRAM_OK);
	scram_keys_make(password, salt, salt_size, iterations, &keys);
	cr_assert_eq(scram_client_final(&client, server_first, &keys, text, sizeof text), SCRAM_OK);
	struct span final = span_text(text);
	char answer[64];
	enum scram_status status = scram_server_final(&server, final, verifier, answer,
	                                              sizeof answer, NULL);
	if (status != SCRAM_OK)
		return status;
	cr_assert_eq(scram_server_final(&server, final, verifier, answer, 46, NULL),
	             SCRAM_TOO_LONG);
	cr_assert_eq(scram_server_final(&server, final, verifier, answer, 47, NULL), SCRAM_OK);
	return scram_client_verify(&client, span_text(answer));
}

Test(scram, against_each_other)
{
	static const char *const passwords[] = {"", "pencil", "Pencil", "pencil ", "p\xc3\xa4ss"};
	struct scram_verifier verifier;
	uint8_t salt[SCRAM_SALT_MAX] = "salt";
	for (size_t i = 0; i < ARRAY_LEN(passwords); i++) {
		scram_verifier_make(passwords[i], salt, 1 + 255 * (uint32_t)i, 7, &verifier);
		for (size_t j = 0; j < ARRAY_LEN(passwords); j++)
			cr_assert_eq(log_in(&verifier, passwords[j]),
			             i == j ? SCRAM_OK : SCRAM_MISMATCH);
	}
	scram_verifier_make("pencil", salt, SCRAM_SALT_MAX, 1, &verifier);
	cr_assert_eq(log_in(&verifier, "pencil"), SCRAM_OK);

	struct scram_verifier mock;
	struct scram_verifier again;
	static const uint8_t secret[SCRAM_KEY_SIZE] = "of the process";
	scram_verifier_mock("nobody", secret, 4096, &mock);
	scram_verifier_mock("nobody", secret, 4096, &again);
	cr_assert_eq(log_in(&mock, "pencil"), SCRAM_MISMATCH);
	cr_assert(mock.salt_size == 16 && memcmp(mock.salt, again.salt, 16) == 0);
	scram_verifier_mock("nobody else", secret, 4096, &again);
	cr_assert_neq(memcmp(mock.salt, again.salt, 16), 0);
}

Test(scram, client_first)
{
	static const struct {
		const char *text;
		uint32_t size; /* 0: up to the end mark */
		enum scram_status status;
	} cases[] = {
		{"n,,n=,r=abc", 0, SCRAM_OK},
		{"y,,n=,r=abc", 0, SCRAM_OK},
		{"n,,n=somebody else,r=abc", 0, SCRAM_OK},
		{"n,,n=\xc3\xa4=2C=3D,r=!~", 0, SCRAM_OK},
		{"n,,n=,r=abc,x=,y=1=2", 0, SCRAM_OK},
		{"p=tls-server-end-point,,n=,r=abc", 0, SCRAM_BINDING},
		{"p", 0, SCRAM_BINDING},
		{"", 0, SCRAM_MALFORMED},
		{"n", 0, SCRAM_MALFORMED},
		{"n,", 0, SCRAM_MALFORMED},
		{"n,,", 0, SCRAM_MALFORMED},
		{"n,,n=", 0, SCRAM_MALFORMED},
		{"n,,n=,", 0, SCRAM_MALFORMED},
		{"n,,n=,r", 0, SCRAM_MALFORMED},
		{"n,,n=,r=", 0, SCRAM_MALFORMED},
		{"n,,n=,r=,x=y", 0, SCRAM_MALFORMED},
		{"n,,r=abc", 0, SCRAM_MALFORMED},
		{"n,,r=abc,n=", 0, SCRAM_MALFORMED},
		{"n,,n=,x=y,r=abc", 0, SCRAM_MALFORMED},
		{"n,,m=must,n=,r=abc", 0, SCRAM_MALFORMED},
		{"n,a=admin,n=,r=abc", 0, SCRAM_MALFORMED},
		{"y,x,n=,r=abc", 0, SCRAM_MALFORMED},
		{"nn,n=,r=abc", 0, SCRAM_MALFORMED},
		{"Y,,n=,r=abc", 0, SCRAM_MALFORMED},
		{"N,,n=,r=abc", 0, SCRAM_MALFORMED},
		{"n,,n=,r=a bc", 0, SCRAM_MALFORMED},
		{"n,,n=,r=a\x7f", 0, SCRAM_MALFORMED},
		{"n,,n=,r=a\xc3\xa4", 0, SCRAM_MALFORMED},
		{"n,,n=,r=abc,", 0, SCRAM_MALFORMED},
		{"n,,n=,r=abc,x", 0, SCRAM_MALFORMED},
		{"n,,n=,r=abc,1=x", 0, SCRAM_MALFORMED},
		{"n,,n=,r=abc,,x=y", 0, SCRAM_MALFORMED},
		{"n,,n=,r=abc\0", 12, SCRAM_MALFORMED},
		{"n,,n=a\0b,r=abc", 15, SCRAM_MALFORMED},
	};
	struct scram_verifier verifier = {.iterations = 4096, .salt_size = 3, .salt = "abc"};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		static struct scram_server server;
		struct span text = span_text(cases[i].text);
		if (cases[i].size > 0)
			text.size = cases[i].size;
		cr_assert_eq(scram_server_first(&server, text, &verifier, random_bytes),
		             cases[i].status, "%s", cases[i].text);
	}
}

/* Each cut and each changed byte of a good client-final is refused; so is all
 * that is put at its end.  What stands between nonce and proof is signed too. */
Test(scram, client_final)
{
	static const struct {
		const char *text;
		enum scram_status status;
	} cases[] = {
		{"", SCRAM_MALFORMED},
		{"c=eSws,r=" RFC_BOTH ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
	         SCRAM_BINDING},
		{"c=,r=" RFC_BOTH ",p=", SCRAM_BINDING},
		{"c=biwsbiws,r=" RFC_BOTH ",p=", SCRAM_BINDING},
		{"r=" RFC_BOTH ",c=biws,p=", SCRAM_MALFORMED},
		{"c=biws,r=" RFC_NONCE ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
	         SCRAM_MISMATCH},
		{"c=biws,r=" RFC_BOTH "x,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
	         SCRAM_MISMATCH},
		{"c=biws,r=" RFC_BOTH, SCRAM_MALFORMED},
		{"c=biws,r=" RFC_BOTH ",x=y", SCRAM_MALFORMED},
		{"c=biws,r=" RFC_BOTH ",p=", SCRAM_MALFORMED},
		{"c=biws,r=" RFC_BOTH ",p=AAAA", SCRAM_MALFORMED},
		{"c=biws,r=" RFC_BOTH ",x=y,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
	         SCRAM_MISMATCH},
		{RFC_FINAL ",x=y", SCRAM_MALFORMED},
		{RFC_FINAL ",", SCRAM_MALFORMED},
		{RFC_FINAL "=", SCRAM_MALFORMED},
		{RFC_FINAL, SCRAM_OK},
	};
	struct scram_verifier verifier;
	char answer[64];
	scram_verifier_make("pencil", rfc_salt, sizeof rfc_salt, 4096, &verifier);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		cr_assert_eq(scram_server_final(&rfc_server, span_text(cases[i].text), &verifier,
		                                answer, sizeof answer, NULL),
		             cases[i].status, "%s", cases[i].text);

	uint32_t size = sizeof RFC_FINAL - 1;
	for (uint32_t i = 0; i < size; i++) {
		char text[] = RFC_FINAL;
		cr_assert_neq(scram_server_final(&rfc_server, span_of(text, i), &verifier, answer,
		                                 sizeof answer, NULL),
		              SCRAM_OK);
		for (uint32_t bit = 1; bit < 256; bit *= 2) {
			text[i] = (char)(RFC_FINAL[i] ^ (char)bit);
			cr_assert_neq(scram_server_final(&rfc_server, span_of(text, size),
			                                 &verifier, answer, sizeof answer, NULL),
			              SCRAM_OK);
		}
	}
}

Test(scram, server_messages)
{
	static const struct {
		const char *text;
		enum scram_status status;
	} firsts[] = {
		{RFC_SERVER, SCRAM_OK},
		{RFC_SERVER ",x=y", SCRAM_OK},
		{"r=" RFC_BOTH ",s=AAAA,i=1", SCRAM_OK},
		{"r=" RFC_BOTH ",s=AAAA,i=10000000", SCRAM_OK},
		{"r=" RFC_BOTH ",s=AAAA,i=10000001", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAAA,i=99999999999999999999", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAAA,i=0", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAAA,i=-1", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAAA,i=", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAAA,i=1,", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAAA", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=,i=1", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",s=AAA,i=1", SCRAM_MALFORMED},
		{"r=" RFC_BOTH ",i=1,s=AAAA", SCRAM_MALFORMED},
		{"m=x,r=" RFC_BOTH ",s=AAAA,i=1", SCRAM_MALFORMED},
		{"r=" RFC_NONCE ",s=AAAA,i=1", SCRAM_MALFORMED},
		{"r=rOprNGfwEbeRWgbNEkqP%abc,s=AAAA,i=1", SCRAM_MALFORMED},
		{"r=rOpr,s=AAAA,i=1", SCRAM_MALFORMED},
		{"r=" RFC_NONCE " x,s=AAAA,i=1", SCRAM_MALFORMED},
		{"r=,s=AAAA,i=1", SCRAM_MALFORMED},
		{"e=other-error", SCRAM_MALFORMED},
		{"", SCRAM_MALFORMED},
	};
	static const struct {
		const char *text;
		enum scram_status status;
	} finals[] = {
		{RFC_ANSWER, SCRAM_OK},
		{RFC_ANSWER ",x=y", SCRAM_OK},
		{RFC_ANSWER "=", SCRAM_MALFORMED},
		{RFC_ANSWER ",x", SCRAM_MALFORMED},
		{"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", SCRAM_MALFORMED},
		{"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95Gw=", SCRAM_MISMATCH},
		{"v=AAAA", SCRAM_MALFORMED},
		{"v=", SCRAM_MALFORMED},
		{"x=y", SCRAM_MALFORMED},
		{"e=invalid-proof", SCRAM_MISMATCH},
		{"", SCRAM_MALFORMED},
	};
	struct scram_client client = rfc_client();
	struct scram_keys keys;
	uint8_t salt[SCRAM_SALT_MAX];
	uint32_t salt_size;
	uint32_t iterations;
	char text[512];
	scram_keys_make("pencil", rfc_salt, sizeof rfc_salt, 4096, &keys);
	for (size_t i = 0; i < ARRAY_LEN(firsts); i++)
		cr_assert_eq(scram_client_challenge(&client, span_text(firsts[i].text), salt,
		                                    &salt_size, &iterations),
		             firsts[i].status, "%s", firsts[i].text);
	cr_assert_eq(scram_client_final(&client, span_text(RFC_SERVER), &keys, text, sizeof text),
	             SCRAM_OK);
	for (size_t i = 0; i < ARRAY_LEN(finals); i++)
		cr_assert_eq(scram_client_verify(&client, span_text(finals[i].text)),
		             finals[i].status, "%s", finals[i].text);
}

/* "<before><count times c><after>", in memory that ends where the text does. */
static struct span long_text(const char *before, uint32_t count, char c, const char *after)
{
	size_t front = strlen(before);
	size_t back = strlen(after);
	char *text = malloc(front + count + back + 1);
	cr_assert_not_null(text);
	memcpy(text, before, front);
	memset(text + front, c, count);
	memcpy(text + front + count, after, back);
	return span_of(text, front + count + back);
}

/* Nonces, salts, names and extensions of any length are taken or refused. */
Test(scram, lengths)
{
	static const uint32_t counts[] = {0,    1,    63,   64,   1000, 1003, 1004, 1005,
	                                  1023, 1024, 1025, 1364, 1368, 1372, 4000, 4082,
	                                  4083, 4084, 4095, 4096, 4097, 70000};
	struct scram_verifier verifier = {.iterations = 10000000, .salt_size = SCRAM_SALT_MAX};
	struct scram_keys keys = {.client_key = "client"};
	uint8_t salt[SCRAM_SALT_MAX];
	uint32_t salt_size;
	uint32_t iterations;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		static struct scram_server server;
		struct scram_client client = rfc_client();
		uint32_t n = counts[i];
		struct span in = long_text("n,,n=,r=", n, 'x', "");
		cr_assert_eq(scram_server_first(&server, in, &verifier, random_bytes),
		             n >= 1 && n <= SCRAM_NONCE_MAX ? SCRAM_OK : SCRAM_MALFORMED);
		free((void *)(uintptr_t)in.data);
		in = long_text("n,,n=,r=a,x=", n, 'x', "");
		cr_assert_eq(scram_server_first(&server, in, &verifier, random_bytes),
		             n < SCRAM_TEXT_MAX - 9 ? SCRAM_OK : SCRAM_MALFORMED);
		free((void *)(uintptr_t)in.data);

		in = long_text("r=" RFC_NONCE, n, 'x', ",s=AAAA,i=1");
		bool fits = n > 0 && n <= SCRAM_NONCE_MAX - 20;
		enum scram_status status = scram_client_challenge(&client, in, salt, &salt_size,
		                                                  &iterations);
		cr_assert_eq(status, fits ? SCRAM_OK : SCRAM_MALFORMED);
		for (uint32_t room = 0; room < 128; room++) {
			char *answer = malloc(room + 1) /* malloc(0) may be NULL */;
			status = scram_client_final(&client, in, &keys, answer, room);
			bool enough = room > 9 + 20 + n + 3 + 44;
			cr_assert_eq(status, !fits    ? SCRAM_MALFORMED
			                     : enough ? SCRAM_OK
			                              : SCRAM_TOO_LONG);
			free(answer);
		}
		free((void *)(uintptr_t)in.data);

		in = long_text("r=" RFC_NONCE "x,s=", n, 'A', ",i=1");
		cr_assert_eq(scram_client_challenge(&client, in, salt, &salt_size, &iterations),
		             n > 0 && n % 4 == 0 && n / 4 * 3 <= SCRAM_SALT_MAX ? SCRAM_OK
		                                                                : SCRAM_MALFORMED);
		free((void *)(uintptr_t)in.data);
	}
}
