/*
 * parameters.h - what a startup message asks for (pgbouncer.md 4.2 to 4.5).
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_AUTH_PARAMETERS_H
#define CORE_AUTH_PARAMETERS_H

#include <stdbool.h>
#include <stdint.h>

struct client;
struct config;
struct database;
struct startup;
struct user_entry;

/* Takes the names and the tracked parameters, negotiates the protocol.  False:
 * the client was refused. */
bool parameters_read(struct client *client, const struct startup *startup);

/* Clients of a database or user; UINT32_MAX: no limit.  `entry` may be NULL. */
uint32_t database_client_limit(const struct config *config, const struct database *database);
uint32_t user_client_limit(const struct config *config, const struct user_entry *entry);

#endif
