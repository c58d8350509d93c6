/*
 * model.h - what a client may be answered, given what it has asked.
 *
 * A queue of what was asked and the transaction state as of the replies seen.
 * Each reply must be one that the head of the queue allows, with its nonce: a
 * reply of somebody else, a lost one, one too many and a wrong order all end
 * the run.  An error that was not asked for is allowed only where a cancel was
 * sent; a FATAL one where the fault plan breaks servers.
 *
 * What a name or the portal means is looked up when its message comes to the
 * head: by then all before it has been done.  A pooler may differ from a private
 * PostgreSQL in this only (`pooled`):
 *
 *   - in a failed transaction it may have to prepare what Bind or Describe
 *     name: 25P02 where another error, or none, is due
 *   - a statement without name that was bound before anything was answered, or
 *     is very large, or that a skipped Parse or Close would have ended, may be gone
 *     once the server may have changed (`is_weak`)
 *   - DEALLOCATE of one name without a name of its own is good for one Bind, in
 *     the batch of its Parse (`is_vague`)
 *   - a name as servers have them is not told back (NAME_LIKE_OURS), one that is
 *     taken is told back as far as PostgreSQL looks
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_MODEL_H
#define TESTS_SIM_MODEL_H

#include "tests/sim/book.h"
#include "tests/sim/sql.h"
#include "tests/sim/talk.h"

#include <stdbool.h>
#include <stdint.h>

enum { ASKS_MAX = 256, ASK_NAME_MAX = 80 };

#define NAME_LIKE_OURS "rb_0123456789abcdef0123456789abcdef"

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

	char name[ASK_NAME_MAX]; /* P, B, D and C of a statement */
	bool empty;              /* P: a text without statement */
	uint64_t nonce;          /* B: its parameter */
	uint32_t parameters;     /* B: how many */
	uint32_t epoch;          /* when it was sent: the last time nothing was owed */
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
	bool pooled;   /* by transaction */
	struct ask asks[ASKS_MAX];
	uint32_t head, count;
	char tx;
	bool skipping;
	bool sync_lost; /* nobody can tell whether a Sync will be answered */

	struct book book;
	uint32_t epoch;
	uint32_t stay;          /* counts how often the server may have changed */
	uint32_t unnamed_epoch; /* of the Parse without name */
	uint32_t unnamed_stay;  /* when that statement was seen last */
	uint32_t unnamed_binds;
	bool is_weak, is_vague;

	struct sql portal;
	bool portal_open, portal_empty, portal_done;
	uint32_t portal_rows;
};

void model_init(struct model *model, uint32_t session, bool tolerant, bool pooled);
void model_ask(struct model *model, const struct ask *ask);

/* CopyFail is on its way for this COPY. */
void model_copyfail(struct model *model, uint64_t nonce);

/* The nonce of what is answered now; 0: nothing. */
uint64_t model_at_hand(const struct model *model);

/* Whether a statement is still to be answered. */
bool model_awaits(const struct model *model, uint64_t nonce);

enum reply model_reply(struct model *model, const struct message *message);

#endif
