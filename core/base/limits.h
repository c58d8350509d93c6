/*
 * limits.h - every fixed limit of the process, each with its reason.
 *
 * Limits that an operator sets are settings (core/settings.def); these are
 * ours.  How they relate is asserted at the end.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_LIMITS_H
#define CORE_BASE_LIMITS_H

enum {
	/* Workers in one process; mail and tables are sized by it. */
	WORKERS_MAX = 256,

	/* Submission and completion entries of a ring: one enter brings at most
	 * about 20 pieces of work with at most 33 buffers each. */
	RING_ENTRIES = 256,
	RING_COMPLETIONS = 4096,

	/* Receive buffers of a worker, by side (number, bytes each; powers of
	 * two).  The whole group is touched in turn: small is fast. */
	CLIENT_BUFFERS = 512,
	CLIENT_BUFFER_SIZE = 4096,
	SERVER_BUFFERS = 256,
	SERVER_BUFFER_SIZE = 16384,

	/* Memory of buffers that a conn may have queued for its peer before it
	 * counts as full, and below which it has room again. */
	CONN_QUEUE_HIGH = 128 * 1024,
	CONN_QUEUE_LOW = 32 * 1024,

	/* Pieces in one gathered send. */
	SEND_PIECES_MAX = 64,

	/* How long a conn that says goodbye may take to get its last bytes out. */
	CONN_LINGER_MS = 1000,

	/* First packets: PostgreSQL allows 10,000 bytes, PgBouncer 65,535. */
	STARTUP_SIZE_MAX = 65535,

	/* Longest message of the login exchange from either side. */
	LOGIN_MESSAGE_MAX = 65536 + 64,

	/* A message that must be read whole on its way (ParameterStatus,
	 * ReadyForQuery, ErrorResponse during login). */
	HELD_MESSAGE_MAX = 65536,

	/* Replies a server may owe at once.  PostgreSQL sends what it has when
	 * its 8 KiB of output are full, at most 1,639 replies of 5 bytes, so
	 * pausing a client here can not stop the replies from coming. */
	OWED_MAX = 8192,

	/* Databases made from `*`, and users known by name: what strangers can make
	 * the registry remember. */
	REGISTRY_NAMES_MAX = 65536,

	/* Names and secrets (PgBouncer's limits). */
	DATABASE_NAME_MAX = 63,
	USER_NAME_MAX = 127,
	PASSWORD_MAX = 65530,

	/* SCRAM fields from a peer. */
	SCRAM_NONCE_MAX = 1024,
	SCRAM_SALT_MAX = 1024,
	SCRAM_ITERATIONS_MAX = 10 * 1000 * 1000,

	/* Rounds of PBKDF2 that others may have us do (two seconds of a CPU), and
	 * jobs of either side that may wait for the one helper. */
	DERIVE_ITERATIONS_MAX = 2 * 1000 * 1000,
	DERIVE_QUEUE_MAX = 1024,

	/* Cancel keys: protocol 3.0 and what we give to 3.2 clients. */
	CANCEL_KEY_SHORT = 8,
	CANCEL_KEY_LONG = 32,
	CANCEL_KEY_MAX = 256,

	/* Text of an error we make ourselves, and of its reason (PgBouncer). */
	ERROR_PACKET_MAX = 512,
	REASON_MAX = 127,

	/* Logins of one pool under way at once while the last one succeeded. */
	POOL_LOGINS_MAX = 8,
};

_Static_assert(CONN_QUEUE_LOW < CONN_QUEUE_HIGH, "hysteresis");
_Static_assert((CLIENT_BUFFERS & (CLIENT_BUFFERS - 1)) == 0, "power of two");
_Static_assert((SERVER_BUFFERS & (SERVER_BUFFERS - 1)) == 0, "power of two");
_Static_assert(OWED_MAX > 8192 / 5, "a pause must not stop the replies");

#endif
