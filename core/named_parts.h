/*
 * named_parts.h - what the files of relay_named share.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_NAMED_PARTS_H
#define CORE_NAMED_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/relay_named.h"
#include "core/relay_parts.h"
#include "core/statements.h"
#include "proto/statement.h"
#include "proto/track.h"

struct client;
struct server;

/* A longer statement without name is not kept for another server. */
enum { UNNAMED_KEEP_MAX = 65536 };

/* A message of a client, or its front. */
struct said {
	struct span bytes;
	uint32_t length; /* of all of it */
	uint32_t at;     /* where bytes lie in the run's buffer, if in place */
	uint8_t type;
	bool in_place;
	struct head head;
};

/* --- named_said.c: what is there, and what goes on to the server ----------- */

struct statements *statements_of(const struct client *client);
struct extended *extended_of(struct client *client); /* made if needed; NULL without memory */
struct name *name_find(const struct client *client, struct span name);
enum verdict named_no_memory(struct client *client);

/* Text of a Parse, from its body. */
struct span body_text(struct span body);

/* Whether what is known of it hangs on replies to an earlier batch; NULL: no.  A
 * server in COPY answers nothing until it has been told more, so then nobody
 * waits. */
bool name_waits(const struct server *server, const struct name *name);
bool prepared_waits(const struct server *server, const struct prepared *prepared);
bool journal_waits(const struct server *server);

/* There is room for one statement more, or can be made. */
bool is_full_for(const struct server *server, const struct statement *statement);
bool may_prepare(const struct server *server, const struct statement *statement);

/* How often the schema of its database may have changed. */
uint32_t schema_changes(const struct server *server);

/* As it is, from `offset` of what is there. */
void said_rest(struct client *client, struct run *run, const struct said *said, uint32_t offset);

/* As it is, and tracked. */
enum verdict said_raw(struct client *client, struct run *run, const struct said *said);

/* With another statement name; not tracked. */
void said_renamed(struct client *client, struct run *run, const struct said *said,
                  const char name[STATEMENT_SERVER_NAME_SIZE + 1], uint32_t name_size);

/* --- relay_named.c ----------------------------------------------------------- */

/* A Bind or Describe of that statement. */
enum verdict use_renamed(struct client *client, struct run *run, const struct said *said,
                         struct statement *statement);

/* What its portal would do to names, when it is executed (enum sql_effect). */
void bind_effect(struct client *client, const struct said *said, uint8_t effect);

/* --- named_unnamed.c: without name, and SQL that forgets names --------------- */

enum verdict parse_unnamed(struct client *client, struct run *run, const struct said *said);
enum verdict use_unnamed(struct client *client, struct run *run, const struct said *said);

/* For named_passes(): a Bind without names finds the client's statement; the body
 * behind the name of a Parse without one forgets no names, and may go as it is. */
bool bind_passes(const struct client *client);
bool parse_passes(struct client *client, struct run *run, struct span body);
void forget_unnamed(struct client *client);

/* Its text is not kept any more. */
void unnamed_drop(struct client *client);

enum verdict named_query(struct client *client, struct run *run, const struct said *said);
enum verdict named_execute(struct client *client, struct run *run, const struct said *said);

#endif
