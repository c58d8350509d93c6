/*
 * say.h - messages of a client: each goes into the model, and what it does to
 * names into the client's book, as it is queued.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_SAY_H
#define TESTS_SIM_SAY_H

#include "tests/sim/client.h"

#include <stdint.h>

void say_query(struct client *client, const struct sql *statements, uint32_t count);

/* NULL: an empty text. */
void say_parse(struct client *client, const char *name, const struct sql *sql);

/* One parameter, the nonce with that much behind it; nonce 0: none. */
void say_bind(struct client *client, const char *name, uint64_t nonce, uint32_t padding);

/* What the portal should be; NULL: nobody knows.  rows 0: all. */
void say_execute(struct client *client, const struct sql *sql, uint32_t rows);
void say_describe(struct client *client, const char *name);
void say_close(struct client *client, const char *name);

/* 'D', 'C' */
void say_of_portal(struct client *client, char type);
void say_sync(struct client *client);
void say_flush(struct client *client);

#endif
