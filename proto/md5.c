/* md5.c - see md5.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/md5.h"

#include <string.h>
#include <wolfssl/options.h>
#include <wolfssl/wolfcrypt/md5.h>

#include "core/base/bytes.h"
#include "core/base/check.h"

enum { PREFIX = 3 };

bool md5_is_secret(const char *secret)
{
	return strncmp(secret, "md5", PREFIX) == 0 && strlen(secret) == MD5_SECRET_SIZE - 1 &&
	       strspn(secret + PREFIX, "0123456789abcdef") == MD5_SECRET_SIZE - 1 - PREFIX;
}

/* "md5" and the digest of both, one after the other.  The hash refuses nothing
 * but pointers of ours, so a failure is our bug. */
static void digest_pair(struct span first, struct span second, char text[MD5_SECRET_SIZE])
{
	static const char hex[16] = "0123456789abcdef";
	wc_Md5 md5;
	uint8_t digest[WC_MD5_DIGEST_SIZE];
	CHECK(wc_InitMd5(&md5) == 0);
	CHECK(wc_Md5Update(&md5, first.data, first.size) == 0);
	CHECK(wc_Md5Update(&md5, second.data, second.size) == 0);
	CHECK(wc_Md5Final(&md5, digest) == 0);
	wc_Md5Free(&md5);

	memcpy(text, "md5", PREFIX);
	for (uint32_t i = 0; i < sizeof digest; i++) {
		text[PREFIX + 2 * i] = hex[digest[i] >> 4];
		text[PREFIX + 2 * i + 1] = hex[digest[i] & 15];
	}
	text[MD5_SECRET_SIZE - 1] = '\0';
	bytes_wipe(&md5, sizeof md5);
	bytes_wipe(digest, sizeof digest);
}

void md5_secret_make(const char *password, const char *user, char secret[MD5_SECRET_SIZE])
{
	digest_pair(span_text(password), span_text(user), secret);
}

void md5_answer_make(const char secret[MD5_SECRET_SIZE], const uint8_t salt[MD5_SALT_SIZE],
                     char answer[MD5_SECRET_SIZE])
{
	struct span hex = span_of(secret + PREFIX, MD5_SECRET_SIZE - 1 - PREFIX);
	digest_pair(hex, span_of(salt, MD5_SALT_SIZE), answer);
}
