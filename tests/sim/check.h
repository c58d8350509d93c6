/*
 * check.h - the contract, as seen from outside of the pooler.
 *
 *	I1 each reply goes to the client that caused it: model.c, by nonce
 *	I2 no statement runs twice, none is answered that did not run
 *	I3 a server is handed on only when clean: postgres.c, by holder
 *	I4 limits are never exceeded: postgres.c, at every login
 *	I5 what is under way to a client is bounded: here
 *
 * A session of a sim client has a number of its own, which is in its nonces.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct check_counts {
	uint64_t sessions, batches, statements, answered, failed, canceled;
	uint64_t cancels, vanished, killed, server_logins, died, copies, own_queries;
	uint64_t parses, binds, prepared_most;
};

extern struct check_counts check_counts;

void check_open(uint32_t under_way_max);
void check_close(void);

/* What a session logs in as; its server must be of the same kind and name. */
struct session_names {
	char user[8], database[8], application_name[8];
};

uint32_t check_session_new(const struct session_names *names);
const struct session_names *check_session_names(uint32_t session);
void check_session_end(uint32_t session);

/* I2. */
void check_ran(uint64_t nonce);
void check_answered(uint64_t nonce);

/* Cancels: asked by this session; one has hit a server that works for it. */
void check_cancel_asked(uint32_t session);
bool check_cancel_was_asked(uint32_t session);

/* I5: bytes towards a session. */
void check_sent(uint32_t session, uint64_t bytes);
void check_received(uint32_t session, uint64_t bytes);

#endif
