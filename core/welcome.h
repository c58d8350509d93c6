/*
 * welcome.h - what a client is told when it has logged in.
 *
 * AuthenticationOk, the parameters as the pool's servers report them, or as the client
 * has asked for them, BackendKeyData and ReadyForQuery.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_WELCOME_H
#define CORE_WELCOME_H

struct client;
struct greeting;
struct welcome;
struct worker;

/* Sends the welcome of its pool, and the client goes READY. */
void client_welcome(struct client *client, const struct welcome *welcome);

/* What a pool keeps of it; NULL is fine. */
void greeting_free(struct worker *worker, struct greeting *greeting);

#endif
