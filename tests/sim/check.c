/* check.c - see check.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"

#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct session_account {
	bool alive, cancel_asked;
	uint64_t sent, received;
	struct session_names names;
};

struct check_counts check_counts;

static struct {
	uint64_t *nonces; /* that have run; open addressing, 0: free */
	uint32_t nonce_count, nonce_room;
	struct session_account *sessions;
	uint32_t session_count, session_room;
	uint32_t under_way_max;
} check;

void check_open(uint32_t under_way_max)
{
	memset(&check, 0, sizeof check);
	memset(&check_counts, 0, sizeof check_counts);
	check.under_way_max = under_way_max;
	check.session_count = 1; /* session 0: nobody */
	check.session_room = 64;
	check.sessions = calloc(check.session_room, sizeof check.sessions[0]);
	check.nonce_room = 1024;
	check.nonces = calloc(check.nonce_room, sizeof check.nonces[0]);
	SIM_CHECK(check.sessions != NULL && check.nonces != NULL, "no memory");
}

void check_close(void)
{
	free(check.nonces);
	free(check.sessions);
	memset(&check, 0, sizeof check);
}

uint32_t check_session_new(const struct session_names *names)
{
	if (check.session_count == check.session_room) {
		check.session_room *= 2;
		check.sessions = realloc(check.sessions,
		                         check.session_room * sizeof check.sessions[0]);
		SIM_CHECK(check.sessions != NULL, "no memory");
	}
	check.sessions[check.session_count] = (struct session_account){.alive = true,
	                                                               .names = *names};
	check_counts.sessions++;
	return check.session_count++;
}

static struct session_account *session_get(uint32_t session)
{
	SIM_CHECK(session > 0 && session < check.session_count, "session %u does not exist",
	          session);
	return &check.sessions[session];
}

const struct session_names *check_session_names(uint32_t session)
{
	return &session_get(session)->names;
}

void check_session_end(uint32_t session)
{
	session_get(session)->alive = false;
}

/* The place of a nonce, or the free one where it belongs. */
static uint64_t *nonce_place(uint64_t nonce)
{
	uint32_t at = (uint32_t)((nonce * 0x9e3779b97f4a7c15U) >> 32);
	for (;; at++) {
		uint64_t *place = &check.nonces[at & (check.nonce_room - 1)];
		if (*place == 0 || *place == nonce)
			return place;
	}
}

static void nonces_grow(void)
{
	uint64_t *old = check.nonces;
	uint32_t old_room = check.nonce_room;
	check.nonce_room *= 2;
	check.nonces = calloc(check.nonce_room, sizeof check.nonces[0]);
	SIM_CHECK(check.nonces != NULL, "no memory");
	for (uint32_t i = 0; i < old_room; i++)
		if (old[i] != 0)
			*nonce_place(old[i]) = old[i];
	free(old);
}

void check_ran(uint64_t nonce)
{
	SIM_CHECK(nonce != 0, "a statement without nonce");
	uint64_t *place = nonce_place(nonce);
	SIM_CHECK(*place == 0, "I2: statement %" PRIx64 " runs twice", nonce);
	*place = nonce;
	if (++check.nonce_count > check.nonce_room / 2)
		nonces_grow();
	check_counts.statements++;
}

void check_answered(uint64_t nonce)
{
	SIM_CHECK(*nonce_place(nonce) == nonce, "I2: statement %" PRIx64 " answered, never run",
	          nonce);
	check_counts.answered++;
}

void check_cancel_asked(uint32_t session)
{
	session_get(session)->cancel_asked = true;
	check_counts.cancels++;
}

bool check_cancel_was_asked(uint32_t session)
{
	return session_get(session)->cancel_asked;
}

void check_sent(uint32_t session, uint64_t bytes)
{
	struct session_account *account = session_get(session);
	account->sent += bytes;
	SIM_CHECK(!account->alive || account->sent <= account->received + check.under_way_max,
	          "I5: %" PRIu64 " bytes under way to session %u",
	          account->sent - account->received, session);
}

void check_received(uint32_t session, uint64_t bytes)
{
	session_get(session)->received += bytes;
}
