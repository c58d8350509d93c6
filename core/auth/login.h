/*
 * login.h - from a client's first byte to its place in a pool.
 *
 * Order of checks as in pgbouncer.md 4.6.  Everything a login needs lies in
 * one struct that is freed with its end.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_AUTH_LOGIN_H
#define CORE_AUTH_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

struct client;

/* False without memory. */
bool login_begin(struct client *client);

/* Bytes of a client in STARTUP or AUTH. */
void login_bytes(struct client *client, const uint8_t *bytes, uint32_t size);

void login_free(struct client *client);

#endif
