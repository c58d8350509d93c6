/* Secrets that PostgreSQL 15 stored, and the answer to a challenge. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/md5.h"

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/check.h"

Test(md5, secrets)
{
	static const struct {
		const char *user, *password, *secret;
	} cases[] = {
		{"m1", "pencil", "md57474753e4b2f9e23953d5977773aabb0"},
		{"M 2", "secret", "md56cf944c26f124e8c5ac268fb541f78bc"},
		{"", "", "md5d41d8cd98f00b204e9800998ecf8427e"},
	};
	char secret[MD5_SECRET_SIZE];
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		md5_secret_make(cases[i].password, cases[i].user, secret);
		cr_assert_str_eq(secret, cases[i].secret);
		cr_assert(md5_is_secret(secret));
	}
	char password[301];
	memset(password, 'x', sizeof password - 1);
	password[sizeof password - 1] = '\0';
	md5_secret_make(password, "m3", secret);
	cr_assert_str_eq(secret, "md57419d67fc4d89a4f097599f5b73b03b5");
}

Test(md5, answer)
{
	static const uint8_t salt[MD5_SALT_SIZE] = {0x00, 0xff, 0x0a, 0x7f};
	char answer[MD5_SECRET_SIZE];
	md5_answer_make("md57474753e4b2f9e23953d5977773aabb0", salt, answer);
	cr_assert_str_eq(answer, "md50d7fab9b6701def74b6c1a5e1a53ab5c");
}

Test(md5, shape)
{
	static const char *const others[] = {
		"",
		"md5",
		"pencil",
		"md57474753e4b2f9e23953d5977773aabb",
		"md57474753e4b2f9e23953d5977773aabb00",
		"md57474753E4b2f9e23953d5977773aabb0",
		"md57474753e4b2f9e23953d5977773aabbg",
		"md47474753e4b2f9e23953d5977773aabb0",
		"MD57474753e4b2f9e23953d5977773aabb0",
		" md5474753e4b2f9e23953d5977773aabb0",
	};
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		cr_assert_not(md5_is_secret(others[i]), "%s", others[i]);
}
