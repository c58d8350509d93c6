/*
 * named.c - work with prepared statements: names from a small set, texts that
 * are the client's own or shared by several, in any order that the protocol
 * allows, and SQL that forgets them.
 *
 * What is sent mostly fits what the client believes to be there, so that most of
 * it succeeds; errors come of what is sprinkled in, and then belief is wrong for
 * a while, as it is for drivers.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/client.h"
#include "tests/sim/say.h"

#include <stddef.h>

#include "core/base/check.h"

enum { SHARED_TEXTS = 14, SHARED_MARK = 1000 };

static uint32_t pick(struct client *client, uint32_t limit)
{
	return rng_below(&client->rng, limit);
}

static uint64_t nonce_new(struct client *client)
{
	return (uint64_t)client->session << 32 | ++client->nonces;
}

/* The last two differ where PostgreSQL does not look any more. */
static const char *name_pick(struct client *client)
{
	static const char *const names[] = {
		"s1",
		"s2",
		"s3",
		"S four",
		"rb_",
		NAME_LIKE_OURS,
		"a name of more than sixty-three bytes is cut by PostgreSQL, 64 1",
		"a name of more than sixty-three bytes is cut by PostgreSQL, 64 2",
	};
	bool usual = pick(client, 10) < 7;
	return names[pick(client, usual ? 3 : (uint32_t)ARRAY_LEN(names))];
}

static struct sql shared_text(uint32_t which)
{
	struct sql sql = {.verb = VERB_ROWS,
	                  .a = 1 + which % 3,
	                  .b = which * 7,
	                  .mark = SHARED_MARK + which};
	switch (which) {
	case 9: sql.verb = VERB_FAIL; break;
	case 10: sql.verb = VERB_NOTE; break;
	case 11: sql.verb = VERB_ALTER; break;
	case 12: sql.verb = VERB_COMMIT; break;
	case 13: sql.verb = VERB_ROLLBACK; break;
	default: break;
	}
	return sql;
}

static struct sql private_text(struct client *client)
{
	static const enum verb verbs[] = {
		VERB_FAIL, VERB_FAIL,  VERB_NOTE,   VERB_SLEEP,    VERB_ALTER,
		VERB_BAD,  VERB_BEGIN, VERB_COMMIT, VERB_ROLLBACK,
	};
	struct sql sql = {
		.verb = VERB_ROWS,
		.nonce = (uint64_t)client->session << 32,
		.a = pick(client, 4),
		.b = pick(client, 60),
		.mark = client->session * 4096 + ++client->marks,
	};
	uint32_t dice = pick(client, 30);
	if (dice < ARRAY_LEN(verbs))
		sql.verb = verbs[dice];
	if (dice == 29)
		sql.b = pick(client, 20000);
	return sql;
}

/* False: an empty one. */
static bool text_pick(struct client *client, struct sql *sql)
{
	uint32_t dice = pick(client, 100);
	if (dice < 45)
		*sql = shared_text(pick(client, SHARED_TEXTS));
	else
		*sql = private_text(client);
	if (dice >= 96) {
		*sql = (struct sql){.verb = dice == 96 ? VERB_DISCARD_ALL : VERB_DEALLOCATE_ALL,
		                    .nonce = nonce_new(client)};
	}
	return dice < 94 || dice > 95;
}

static void parse(struct client *client, const char *name)
{
	struct sql sql;
	bool taken = name[0] != '\0' && book_find(&client->book, name) != NULL;
	if (taken && (client->careful || pick(client, 4) > 0))
		say_close(client, name);
	bool any = text_pick(client, &sql);
	bool fails = any && (sql.verb == VERB_FAIL || sql.verb == VERB_BAD);
	if (fails && client->careful)
		sql.verb = VERB_ROWS;
	say_parse(client, name, any ? &sql : NULL);
}

static void execute(struct client *client, const struct sql *sql)
{
	if (sql != NULL && sql->verb == VERB_ROWS && sql->a > 1 && pick(client, 4) == 0)
		say_execute(client, sql, 1 + pick(client, sql->a - 1));
	say_execute(client, sql, 0);
}

static void use(struct client *client, const char *name)
{
	const struct book_entry *entry = book_find(&client->book, name);
	if (entry == NULL && (client->careful || pick(client, 6) > 0)) {
		parse(client, name);
		entry = book_find(&client->book, name);
	}
	struct sql sql = entry != NULL ? entry->sql : (struct sql){0};
	bool parameter = entry != NULL && !entry->empty && sql_has_parameter(&sql);
	if (!client->careful && pick(client, 30) == 0)
		parameter = !parameter;
	if (parameter)
		sql.nonce = nonce_new(client);
	say_bind(client, name, parameter ? sql.nonce : 0,
	         pick(client, 16) == 0 ? pick(client, 20000) : 0);
	if (pick(client, 4) == 0)
		say_of_portal(client, 'D');
	if (pick(client, 12) == 0) {
		client->bound = true; /* to be executed later, perhaps */
		client->bound_to = sql;
	} else {
		execute(client, entry != NULL ? &sql : NULL);
	}
	if (pick(client, 12) == 0)
		say_of_portal(client, 'C');
}

/* By Parse, Bind and Execute. */
static void deallocate(struct client *client)
{
	struct sql sql = {.verb = VERB_DEALLOCATE, .nonce = nonce_new(client)};
	const char *name = name_pick(client);
	if (client->careful && book_find(&client->book, name) == NULL)
		parse(client, name);
	for (int i = 0; i < SQL_NAME_MAX && name[i] != '\0'; i++)
		sql.target[i] = name[i];
	say_parse(client, "", &sql);
	if (pick(client, 3) == 0)
		say_describe(client, "");
	say_bind(client, "", 0, 0);
	say_execute(client, &sql, 0);
}

static void step(struct client *client)
{
	uint32_t dice = pick(client, 100);
	const char *name = pick(client, 5) == 0 ? "" : name_pick(client);
	client->operations_left--;
	if (client->bound && dice < 30)
		execute(client, &client->bound_to);
	else if (dice < 45)
		use(client, name);
	else if (dice < 70)
		parse(client, name);
	else if (dice < 80 && client->careful && book_find(&client->book, name) == NULL)
		parse(client, name);
	else if (dice < 80)
		say_describe(client, name);
	else if (dice < 92)
		say_close(client, name);
	else if (dice < 97)
		deallocate(client);
	else
		use(client, "");
}

/* Without its Sync. */
void named_steps(struct client *client)
{
	for (uint32_t i = 1 + pick(client, pick(client, 3) == 0 ? 6 : 2); i > 0; i--)
		step(client);
}

static void query(struct client *client)
{
	struct sql statements[3];
	uint32_t count = pick(client, 8) == 0 ? 3 : 1;
	struct sql *sql = &statements[count / 2];
	for (uint32_t i = 0; i < count; i++) {
		statements[i] = (struct sql){.verb = VERB_ROWS, .nonce = nonce_new(client), .a = 1};
		client->operations_left--;
	}
	uint32_t dice = pick(client, 10);
	sql->verb = dice == 0               ? VERB_DISCARD_ALL
	            : dice < 3 || count > 1 ? VERB_DEALLOCATE_ALL
	                                    : VERB_DEALLOCATE;
	const char *name = name_pick(client);
	for (int i = 0; sql->verb == VERB_DEALLOCATE && i < SQL_NAME_MAX && name[i] != '\0'; i++)
		sql->target[i] = name[i];
	say_query(client, statements, count);
}

void named_batch(struct client *client)
{
	if (pick(client, 12) == 0) {
		query(client);
		return;
	}
	for (uint32_t i = pick(client, 4) == 0 ? 1 + pick(client, 4) : 1; i > 0; i--) {
		named_steps(client);
		if (i == 1 && pick(client, 8) == 0) {
			say_flush(client);
			client->owes_sync = true;
			client->wants_all = pick(client, 2) == 0;
		} else {
			say_sync(client);
		}
	}
}
