/*
 * client.h - actors that are clients: sessions of random work, each reply
 * checked by a model.
 *
 * A client runs sessions one after the other until its share of operations is
 * used up: it logs in, sends batches (batch.c), some before the last one is
 * answered, and leaves by Terminate, or vanishes by close or reset at a random
 * moment.  Cancels come from canceler actors of their own.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_CLIENT_H
#define TESTS_SIM_CLIENT_H

#include "tests/sim/book.h"
#include "tests/sim/check.h"
#include "tests/sim/model.h"
#include "tests/sim/talk.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLIENTS_MAX = 256 };

enum client_state {
	CLIENT_AWAY,
	CLIENT_CONNECTING,
	CLIENT_SSL,
	CLIENT_LOGIN,
	CLIENT_READY,
	CLIENT_DONE
};

/* COPY IN under way: nothing else may be sent. */
struct copy_task {
	bool open;
	bool go;       /* need not wait for CopyInResponse */
	bool extended; /* ends with Sync */
	bool fail;     /* by CopyFail */
	bool early;    /* its Sync went before the data, as libpq has it */
	struct sql statement;
	uint32_t sent;
};

struct client {
	struct clients *clients;
	enum client_state state;
	struct rng rng;
	struct talk talk;
	struct model model;
	uint32_t session, nonces;
	uint32_t pid, secret;
	int32_t operations_left;
	uint32_t batches_left; /* of the session */
	bool keyed, terminated, stalled, must_leave;
	bool owes_sync;   /* a batch was left open with Flush */
	bool wants_all;   /* and nothing is said before all is answered */
	bool wants_stall; /* has asked for much, to read it late */
	struct copy_task copy;
	struct book book; /* what should be there when all that was sent has been done */
	uint32_t marks;
	bool careful; /* asks for few errors in this session */
	bool bound;   /* the portal, and not executed */
	struct sql bound_to;
	struct session_names names;
	struct alarm act, leave, cancel, wake;
	uint64_t progress_us;
};

struct clients {
	struct client list[CLIENTS_MAX];
	uint32_t count, done;
	uint32_t cancelers; /* under way */
	struct addr addr;
	bool tolerant;
	bool pooled; /* by transaction */
	uint32_t users, databases;
};

/* `clients` is zeroed but for users and databases, of which there are this many. */
void clients_open(struct clients *clients, uint32_t count, const struct addr *addr, uint64_t seed,
                  int32_t operations);
void clients_close(struct clients *clients);

/* The longest that a client has gone without an answer, in virtual time. */
uint64_t clients_slowest_us(const struct clients *clients);
void clients_print(const struct clients *clients);

/* batch.c: sends one batch of work, or goes on with a COPY. */
void batch_send(struct client *client);
void batch_copy(struct client *client);
void batch_extended(struct client *client);

/* named.c: the same with prepared statements, and some steps without a Sync. */
void named_batch(struct client *client);
void named_steps(struct client *client);

#endif
