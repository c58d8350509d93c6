/*
 * md5.h - PostgreSQL's MD5 authentication (protocol chapter, "Message Flow").
 *
 * A stored secret is "md5" and 32 lower-case hex digits of md5(password user).
 * The answer to a challenge is "md5" and the hex of md5(that hex, salt).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_MD5_H
#define PROTO_MD5_H

#include <stdbool.h>
#include <stdint.h>

enum { MD5_SECRET_SIZE = 36, MD5_SALT_SIZE = 4 };

/* "md5" and 32 lower-case hex digits, nothing more. */
bool md5_is_secret(const char *secret);

void md5_secret_make(const char *password, const char *user, char secret[MD5_SECRET_SIZE]);
void md5_answer_make(const char secret[MD5_SECRET_SIZE], const uint8_t salt[MD5_SALT_SIZE],
                     char answer[MD5_SECRET_SIZE]);

#endif
