/*
 * process.h - what all threads share, and nothing else.
 *
 * Built by main before the workers start.  Members are immutable after that,
 * or say who may touch them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_PROCESS_H
#define CORE_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "core/registry.h"
#include "core/statements.h"
#include "net/mail.h"

struct cancel_table;
struct config;
struct worker;

/* How far the process is on its way out (pgbouncer.md 1.6). */
enum shutdown_mode { SHUTDOWN_NONE, SHUTDOWN_WAIT_SERVERS, SHUTDOWN_WAIT_CLIENTS, SHUTDOWN_NOW };

struct process {
	struct registry registry;
	struct cancel_table *cancels;
	struct config *config;  /* at start; each worker holds its own later */
	struct mailbox control; /* of the control thread */
	bool has_control;       /* false in the simulator: nobody reads it */
	uint32_t worker_count;
	struct worker *workers[WORKERS_MAX];

	uint64_t seed;                                   /* of hashes over what strangers choose */
	uint8_t secret[32];                              /* of mock authentication */
	uint8_t statement_secret[STATEMENT_SECRET_SIZE]; /* of the names of statements */

	_Atomic uint64_t next_id; /* of clients and servers, one counter, from 1 */
	_Atomic uint32_t clients; /* client sockets of all kinds (max_client_conn) */

	/* Written by control, read relaxed where a decision is made; the mail that
	 * goes with a change makes it known everywhere. */
	_Atomic bool paused;
	_Atomic int shutdown; /* enum shutdown_mode */
};

#endif
