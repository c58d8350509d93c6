/*
 * post.h - what threads say to each other.
 *
 * One fixed size for all.  The sender allocates (post_new), the receiver frees
 * after its handler has run; what a post points to changes hands with it.
 * A post to oneself goes the same way, one turn later.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_POST_H
#define CORE_POST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "net/mail.h"

struct config;
struct derive_job;
struct lent_server;
struct moved_client;
struct pool_record;
struct process;
struct server;
struct server_lookup;

enum post_kind {
	POST_CLIENT, /* accepted, or logged in (core/place.h): .client */
	/* worker -> home of .pool */
	POST_DEMAND, /* how it stands, nothing else */
	POST_OPENED, /* a login has succeeded */
	POST_FAILED, /* .failed */
	POST_CREDIT, /* a server has ended, its credit is free again */
	POST_GAVE,   /* .give: the answer to POST_GIVE or a hand-over by POST_REMOTE */
	/* home -> worker, about .pool */
	POST_OPEN,        /* .open */
	POST_GIVE,        /* .give: hand an idle server to .give.to */
	POST_REMOTE,      /* .demand: somebody there waits; ticket 0: no more */
	POST_EVICT,       /* close an idle server, the one unused longest */
	POST_POOL_FAILED, /* .failed: waiters hear it */
	POST_POOL_WORKS,  /* logins succeed again; welcome data may be there */
	/* worker -> worker */
	POST_LEND,      /* .lend */
	POST_LEND_DONE, /* .lend.sender is free again */
	POST_CANCEL,    /* .cancel */
	POST_CANCEL_DONE,
	/* helper -> worker */
	POST_RESOLVED, /* .resolved */
	POST_DERIVED,  /* .derived */
	/* control -> worker; each is answered by POST_DONE to control */
	POST_CONFIG,  /* .config */
	POST_COMMAND, /* .command */
	POST_COLLECT, /* .collect */
	/* worker -> control */
	POST_DONE,    /* .command or .collect, as it came */
	POST_CONSOLE, /* a console client has sent a command: .console */
	/* control -> worker */
	POST_REPLY, /* bytes for a console client: .console */
	POST_KIND_COUNT,
};

/* What control has a worker do (POST_COMMAND). */
enum command_kind {
	COMMAND_PAUSE,       /* close what nobody uses; of .pool_database or all */
	COMMAND_RESUME,      /* serve the queues again */
	COMMAND_RECONNECT,   /* epochs have moved on: close what nobody uses */
	COMMAND_KILL,        /* all clients and servers of .database or all */
	COMMAND_KILL_CLIENT, /* .id */
	COMMAND_BUSY,        /* how many servers are in use: .result */
	COMMAND_OLD,         /* how many servers are marked to be closed: .result */
	COMMAND_SHUTDOWN,    /* the mode has changed: listeners close */
	COMMAND_STOP,        /* close everything and leave the thread */
};

struct database;
struct rows;

struct post {
	struct mail mail;
	uint16_t kind;   /* enum post_kind */
	uint16_t from;   /* worker; WORKERS_MAX: control or a helper */
	uint32_t serial; /* of control's question, comes back in POST_DONE */
	struct pool_record *pool;

	/* Every post from a worker to the home of a pool says how it stands there. */
	struct {
		uint64_t ticket; /* of the oldest waiter, us; 0: none waits */
		uint32_t waiting;
		uint32_t received; /* servers that have come, or failed to, so far */
		uint32_t worker;   /* POST_REMOTE: who waits */
		uint32_t servers;  /* POST_REMOTE: there, or on their way */
		uint32_t mark;     /* POST_REMOTE: number of it */
		uint64_t wait_us;  /* POST_REMOTE: for so long; 0: since `ticket`, and longer */
		bool login;        /* some wait for the welcome */
		bool probe;        /* a client was refused since logins fail: try one */
	} demand;
	union {
		struct {
			struct moved_client *moved; /* NULL: just accepted */
			int fd;
			bool is_unix;
		} client;
		struct {
			bool quiet; /* waiters stay: 57P03, connect failures */
			char sqlstate[6];
			char text[REASON_MAX + 1];
			uint64_t began_us;
		} failed;
		struct {
			uint32_t host_turn;
		} open;
		struct {
			uint32_t to;
			bool done;
			bool asked;    /* in answer to POST_GIVE */
			bool lost;     /* said to be on its way before, but it broke */
			uint32_t mark; /* the last one known to the giver */
		} give;
		struct {
			struct lent_server *server;
			struct server *sender; /* LENDING there until it is acknowledged */
		} lend;
		struct {
			uint8_t key[CANCEL_KEY_SHORT + CANCEL_KEY_LONG];
			uint8_t key_size, hops;
			uint32_t slot, generation; /* of the client asked about */
			uint32_t requester_worker, requester_slot, requester_generation;
		} cancel;
		struct {
			struct server_lookup *lookup;
		} resolved;
		struct {
			struct derive_job *job;
		} derived;
		struct {
			struct config *config;
		} config;
		struct {
			uint32_t command;          /* enum command_kind */
			struct database *database; /* NULL: all */
			uint64_t id;
			uint64_t result;
		} command;
		struct {
			uint32_t what; /* core/admin/collect.h */
			struct rows *rows;
		} collect;
		struct {
			uint32_t slot, generation; /* of the client */
			bool is_admin, is_stats, is_unix;
			bool close;      /* reply: then close */
			bool extended;   /* the command came by the extended protocol */
			uint32_t binary; /* columns wanted in binary, a bit each */
			char *bytes;     /* malloc: the command, or the reply's bytes */
			uint32_t size;
		} console;
	};
};

/* Zeroed but for kind and from; never NULL (no memory for a mail ends the
 * process: nothing could be kept consistent). */
struct post *post_new(enum post_kind kind, uint32_t from);
void post_free(struct post *post);

/* Gives the post to a worker, or to control. */
void post_send(struct process *process, uint32_t to, struct post *post);
void post_control(struct process *process, struct post *post);

#endif
