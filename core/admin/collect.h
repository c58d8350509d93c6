/*
 * collect.h - what SHOW shows, copied by each worker in its own turn.
 *
 * Control mails POST_COLLECT with what it wants (a bit each); the worker fills
 * `struct rows` with plain copies and mails it back as POST_DONE; control
 * merges those of all workers.  Texts in rows belong to records of the
 * registry, which live as long as the process, or are constants; only what may
 * go away is copied.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_ADMIN_COLLECT_H
#define CORE_ADMIN_COLLECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/pool.h"
#include "net/addr.h"

struct post;
struct worker;

enum {
	COLLECT_POOLS = 1,
	COLLECT_CLIENTS = 2, /* logged in, and those that ask for a cancel */
	COLLECT_SERVERS = 4,
	COLLECT_LOGINS = 8,
	COLLECT_WORKER = 16,
	COLLECT_MEMORY = 32,
};

/* The pool of the console has no record, but this id. */
#define POOL_ROW_CONSOLE UINT32_MAX

struct pool_row {
	uint32_t id;
	const char *database, *user;
	enum pool_mode mode;
	uint32_t clients_active, clients_waiting, cancel_requests;
	uint32_t servers[SERVER_STATE_COUNT]; /* LENDING is counted as IDLE */
	uint32_t servers_canceling;
	uint64_t wait_us; /* of the oldest that is queued */
	struct counters counters;
};

enum socket_kind { /* in the order of SHOW, within a pool */
	           SOCKET_CLIENT,
	           SOCKET_CLIENT_WAITING,
	           SOCKET_CLIENT_CANCEL,
	           SOCKET_CLIENT_LOGIN,
	           SOCKET_SERVER,
	           SOCKET_SERVER_IDLE,
	           SOCKET_SERVER_USED,
	           SOCKET_SERVER_TESTED,
	           SOCKET_SERVER_LOGIN,
	           SOCKET_SERVER_BEING_CANCELED,
};

struct socket_row {
	const char *database, *user; /* NULL: not known */
	enum socket_kind kind;
	bool close_needed, is_unix;
	uint64_t id, pointer, link;
	uint64_t connect_us, request_us;
	uint64_t wait_us; /* how long; 0: nothing under way */
	struct addr_short peer, local;
	uint32_t remote_pid;
	uint32_t bytes_in, bytes_out; /* kept by us */
	uint32_t statements;          /* prepared: names of a client, or on a server */
	char application_name[64];
};

struct worker_row {
	uint32_t index;
	int cpu;
	uint32_t client_sockets, logins, client_room;
	uint32_t server_sockets, server_room; /* also those that are closing */
	uint32_t servers_idle, servers_busy;
	uint64_t lent, borrowed, moved, turns, enters, transactions;
	uint64_t busy_us, longest_turn_us, now_us;
};

struct memory_row {
	const char *name;
	uint64_t size, used, free, memory;
};

struct row_array {
	void *rows;
	uint32_t count, room;
};

struct rows {
	struct row_array pools, sockets, workers, memories;
	bool failed; /* some did not fit into memory */
};

/* POST_COLLECT; sends it back to control as POST_DONE. */
void collect_run(struct worker *worker, struct post *post);

/* One more row at the end, zeroed; NULL without memory. */
void *row_add(struct row_array *array, size_t size);

/* Adds `from` to `to` and frees it (NULL: nothing); rows of one pool are summed. */
void rows_merge(struct rows *to, struct rows *from);
void rows_fini(struct rows *rows);

#define ROW(from, type, array, index) (&((struct type *)(from)->array.rows)[index])

#endif
