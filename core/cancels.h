/*
 * cancels.h - cancel requests: from a key to a running query (DESIGN "Cancel").
 *
 * Whoever accepts a CancelRequest looks its key up and mails the owner of the
 * client.  The owner opens a connection to the very address of the client's
 * server, holds the server back from the pool until that has ended, and then
 * tells the requester's worker to close the requester.  A client still queued
 * is answered at once.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CANCELS_H
#define CORE_CANCELS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/list.h"
#include "net/conn.h"
#include "net/wheel.h"

struct client;
struct post;
struct server;
struct worker;

struct cancel_job {
	struct conn conn;
	struct link link; /* in worker->cancel_jobs */
	struct worker *worker;
	struct server *server; /* aimed at; NULL once that is gone */
	struct timer timer;
	uint32_t requesters; /* mails to answer, in requester_* */
	struct {
		uint32_t worker, slot, generation;
	} requester[8];
	uint8_t key[8];
	bool sent;
	bool again;  /* asked for once more meanwhile */
	bool failed; /* no connection could be had */
};

/* The client has sent a CancelRequest with this key. */
void cancel_requested(struct client *client, struct span key);

/* POST_CANCEL at the owner, POST_CANCEL_DONE at the requester's worker. */
void cancel_owner(struct worker *worker, struct post *post);
void cancel_done(struct worker *worker, struct post *post);

/* The server has become free: a cancel that is not yet sent is dropped.  True:
 * one is under way, the server has to wait for its end. */
bool cancel_holds(struct server *server);

/* The server is going: its job, if any, forgets it. */
void cancel_forget_server(struct server *server);

#endif
