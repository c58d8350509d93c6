/*
 * model.h - what a client may be answered, given what it has asked.
 *
 * A queue of what was asked and the transaction state as of the replies seen.
 * Each reply must be one that the head of the queue allows, with its nonce: a
 * reply of somebody else, a lost one, one too many and a wrong order all end
 * the run.  An error that was not asked for is allowed only where a cancel was
 * sent or the fault plan breaks servers.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "tests/sim/sql.h"
#include "tests/sim/talk.h"

#include <stdbool.h>
#include <stdint.h>

enum { ASKS_MAX = 256 };

struct ask {
	char type; /* Q P B D E C S */
	struct sql statements[STATEMENTS_MAX];
	uint32_t count, at;
	uint32_t rows, rows_max;
	uint8_t stage;  /* replies seen of the statement at hand */
	bool failed;    /* Q: an error was seen, Z follows */
	bool copyfail;  /* CopyFail was sent */
	bool of_portal; /* D */
	bool early;     /* S: sent before the data of the COPY in front of it */
	bool swallowed; /* E of a COPY: the Sync behind it */
};

enum reply {
	REPLY_MORE,
	REPLY_READY, /* ReadyForQuery */
	REPLY_COPY,  /* send COPY data */
	REPLY_ERROR,
	REPLY_FATAL, /* the connection is about to end */
};

struct model {
	uint32_t session;
	bool tolerant; /* servers may break */
	struct ask asks[ASKS_MAX];
	uint32_t head, count;
	char tx;
	bool skipping;
	bool sync_lost; /* nobody can tell whether a Sync will be answered */
	uint32_t portal_rows;
};

void model_init(struct model *model, uint32_t session, bool tolerant);
void model_ask(struct model *model, const struct ask *ask);

/* CopyFail is on its way for this COPY. */
void model_copyfail(struct model *model, uint64_t nonce);

/* The nonce of what is answered now; 0: nothing. */
uint64_t model_at_hand(const struct model *model);

/* Whether a statement is still to be answered. */
bool model_awaits(const struct model *model, uint64_t nonce);

enum reply model_reply(struct model *model, const struct message *message);

#endif
