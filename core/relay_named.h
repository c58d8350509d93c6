/*
 * relay_named.h - prepared statements of clients, on servers that they share.
 *
 * In transaction and statement mode a client meets another server each time, and
 * a server other clients.  So what a client calls `s1` has a name on servers that
 * comes of its text (core/statements.h): Parse, Bind, Describe and Close are
 * rewritten on their way, a server that does not have the statement is told to
 * prepare it first, and a Parse of what it has, and any Close, are answered
 * here, in their place.
 *
 *   relay_named.c    from clients: what becomes of each message
 *   named_unnamed.c  the same without name, and for SQL that forgets names
 *   named_said.c     how it is told to the server
 *   named_ask.c      the messages of our own that go ahead of it
 *   named_reply.c    from servers: what came of it
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_RELAY_NAMED_H
#define CORE_RELAY_NAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/client.h"
#include "core/relay_parts.h"
#include "core/server.h"
#include "core/statements.h"
#include "proto/scan.h"
#include "proto/statement.h"
#include "proto/track.h"

/* Of a client that uses names, or a statement without name in an unusual way. */
struct extended {
	struct names names;
	struct statement
		*unnamed; /* to be parsed again on another server; NULL: none, or unknown */
	uint32_t unnamed_position; /* of its Parse */
	bool unnamed_pending;      /* on the server that is attached still */
	bool unnamed_named;        /* it is served by the named one (prepare_unnamed) */
	uint8_t unnamed_effect;    /* enum sql_effect of the text without name */
	uint8_t portal_effect;     /* and of `portal`, once it is bound to that */
	char target[STATEMENT_NAME_MAX + 1];
	char portal[STATEMENT_NAME_MAX + 1];
};

/* Frees it; no server is attached. */
void extended_free(struct client *client);

/* Whether names are looked after in the client's pool. */
bool named_is_on(const struct client *client);

/* Whether the message that begins with `piece` must be looked into.  Of a Query
 * that need not, what follows of it is done. */
bool named_concerns(struct client *client, const struct piece *piece);

/* There are no names that a Query could forget. */
static inline bool named_are_none(const struct client *client)
{
	const struct server *server = client->server;
	return client->extended == NULL && (server == NULL || server->cache.lru.count == 0);
}

/* Of such a type nothing is looked into now: Sync, and nearly always Execute. */
static inline bool named_ignores(const struct client *client, uint8_t type)
{
	const struct extended *extended = client->extended;
	return type == 'S' ||
	       (type == 'E' && (extended == NULL || extended->portal_effect == SQL_NONE));
}

/* The same as named_concerns() for a message that is there whole, in place, when the client has a
 * server: true is that nothing more needs to be looked into, and what follows of it
 * is done.  For P, B, D, C, E and, if named_concerns() says no, Q. */
bool named_passes(struct client *client, struct run *run, struct span message);

/* Such a message that does not pass (no Q), at `at` of the run's buffer:
 *	HOLD     cannot go on now, nothing was done
 *	FORWARD  done
 *	DROP     done, or the client has been closed */
enum verdict named_whole(struct client *client, struct run *run, struct span message, uint32_t at);

/* A piece of such a message, which is [from, to) of the run's buffer:
 *	REPLACE  more of it must come
 *	HOLD     cannot go on now; if what is there of it was collected, that is in
 *	         client->part
 *	FORWARD  done; what is still to come of it goes to the server as it is
 *	DROP     done; and that is dropped, or the client has been closed */
enum verdict named_piece(struct client *client, struct run *run, const struct piece *piece,
                         uint32_t from, uint32_t to);

/* The rest of the buffer will not be here any more. */
void named_leave(struct client *client, struct run *run);

/* --- named_ask.c ------------------------------------------------------------ */

/* Each false: the client has been closed for want of memory. */
bool named_prepare(struct client *client, struct statement *statement);
bool named_close(struct client *client, struct statement *statement);
bool named_make_room(struct client *client, const struct statement *statement);
void named_close_unnamed(struct client *client);
void named_parse_unnamed(struct client *client, const struct statement *statement);

/* A statement that may be deallocated is made under that name. */
#define SACRIFICED "rb_gone"
void named_sacrifice(struct client *client);

/* A Parse; not tracked. */
void named_send_parse(struct server *server, const char *name, struct span body);

/* --- named_reply.c ---------------------------------------------------------- */

/* Whether this message of the server is to be seen whole. */
bool named_reads(const struct server *server, const struct piece *piece);

/* Before the track sees it: the tag of a CommandComplete. */
void named_tag(struct server *server, struct span tag);

/* Before the track sees it: an ErrorResponse, whole.  Returns the size of what
 * the client gets instead, in `instead`; 0: what is there. */
enum { NAMED_ERROR_MAX = 4096 };
uint32_t named_error(struct server *server, struct span message,
                     uint8_t instead[NAMED_ERROR_MAX + 256]);

/* A transaction that changed the schema is over. */
void named_committed(struct server *server);

/* After the track has seen a reply. */
void named_replied(struct server *server, uint8_t type);

/* Nothing hangs on replies other than an error: named_replied() would do nothing. */
static inline bool named_has_no_notes(const struct server *server)
{
	return server->journal.count == 0 && !server->clashes && !server->forgets;
}

/* By the request that is asked next, the server has that statement without name
 * (client->unnamed, which becomes it too), or none that counts (0). */
void named_unnamed_is(struct server *server, uint64_t which);

/* The client has one that no server has under no name: it was answered here. */
void named_unnamed_here(struct client *client);

/* Requests that are answered here and have come to their turn are. */
void named_answer(struct server *server);

/* The pair parts. */
void named_drop_notes(struct client *client, struct server *server);
static inline void named_part(struct client *client, struct server *server)
{
	if (client->extended != NULL)
		client->extended->unnamed_pending = false;
	if (server->journal.count > 0)
		named_drop_notes(client, server);
}

#endif
