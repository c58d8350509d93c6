/* say.c - see say.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/say.h"

#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void forget(struct book *book, const struct sql *sql)
{
	if (sql->verb == VERB_DEALLOCATE)
		book_drop(book, sql->target);
	else if (verb_forgets(sql->verb))
		book_drop_named(book);
}

void say_query(struct client *client, const struct sql *statements, uint32_t count)
{
	struct ask ask = {.type = 'Q', .count = count};
	char text[SQL_MAX];
	book_drop(&client->book, "");
	client->bound = false;
	for (uint32_t i = 0; i < count; i++) {
		ask.statements[i] = statements[i];
		forget(&client->book, &statements[i]);
	}
	sql_write(statements, count, text);
	trace_words("say", client->session, 'Q', "", text);
	talk_begin(&client->talk, 'Q');
	talk_text(&client->talk, text);
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

static struct ask ask_of(char type, const char *name)
{
	struct ask ask = {.type = type};
	SIM_CHECK(strlen(name) < sizeof ask.name, "a long name");
	memcpy(ask.name, name, strlen(name));
	return ask;
}

static void padding_put(struct talk *talk, uint32_t size, char with)
{
	char bytes[256];
	memset(bytes, with, sizeof bytes);
	for (uint32_t part; size > 0; size -= part) {
		part = size < sizeof bytes ? size : sizeof bytes;
		talk_bytes(talk, bytes, part);
	}
}

void say_parse(struct client *client, const char *name, const struct sql *sql)
{
	struct talk *talk = &client->talk;
	struct ask ask = ask_of('P', name);
	char text[SQL_MAX] = "";
	ask.count = sql != NULL;
	ask.empty = sql == NULL;
	if (sql != NULL) {
		ask.statements[0] = *sql;
		sql_write(sql, 1, text);
	}
	trace_words("say", client->session, 'P', name, text);
	talk_begin(talk, 'P');
	talk_text(talk, name);
	talk_bytes(talk, text, (uint32_t)strlen(text));
	if (sql != NULL)
		padding_put(talk, sql_padding(sql), ' ');
	talk_u8(talk, 0);
	talk_u16(talk, 0);
	talk_end(talk);
	model_ask(&client->model, &ask);
	if (name[0] == '\0')
		book_drop(&client->book, name);
	bool fails = sql != NULL && sql->verb == VERB_BAD;
	if (!fails && book_find(&client->book, name) == NULL)
		book_set(&client->book, name, &ask.statements[0], sql == NULL);
}

void say_bind(struct client *client, const char *name, uint64_t nonce, uint32_t padding)
{
	struct talk *talk = &client->talk;
	struct ask ask = ask_of('B', name);
	char text[20];
	ask.nonce = nonce;
	ask.parameters = nonce != 0;
	trace_words("say", client->session, 'B', name, nonce == 0 ? "" : "1");
	talk_begin(talk, 'B');
	talk_text(talk, "");
	talk_text(talk, name);
	talk_u16(talk, 0);
	talk_u16(talk, (uint16_t)ask.parameters);
	if (nonce != 0) {
		uint32_t size = (uint32_t)snprintf(text, sizeof text, "%016" PRIx64, nonce);
		talk_u32(talk, size + padding);
		talk_bytes(talk, text, size);
		padding_put(talk, padding, 'f');
	}
	talk_u16(talk, 0);
	talk_end(talk);
	model_ask(&client->model, &ask);
	client->bound = false;
}

void say_execute(struct client *client, const struct sql *sql, uint32_t rows)
{
	struct ask ask = {.type = 'E', .count = 1, .rows_max = rows};
	if (sql != NULL) {
		ask.statements[0] = *sql;
		forget(&client->book, sql);
	}
	trace_words("say", client->session, 'E', "", "");
	talk_begin(&client->talk, 'E');
	talk_text(&client->talk, "");
	talk_u32(&client->talk, rows);
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
	client->bound = false;
}

static void of_statement(struct client *client, char type, const char *name)
{
	struct ask ask = ask_of(type, name);
	trace_words("say", client->session, type, name, "");
	talk_begin(&client->talk, type);
	talk_u8(&client->talk, 'S');
	talk_text(&client->talk, name);
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

void say_describe(struct client *client, const char *name)
{
	of_statement(client, 'D', name);
}

void say_close(struct client *client, const char *name)
{
	of_statement(client, 'C', name);
	book_drop(&client->book, name);
}

void say_of_portal(struct client *client, char type)
{
	struct ask ask = {.type = type, .of_portal = true};
	trace_words("say", client->session, type, "portal", "");
	talk_begin(&client->talk, type);
	talk_u8(&client->talk, 'P');
	talk_text(&client->talk, "");
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

void say_sync(struct client *client)
{
	struct ask ask = {.type = 'S'};
	trace_words("say", client->session, 'S', "", "");
	talk_empty(&client->talk, 'S');
	model_ask(&client->model, &ask);
	client->owes_sync = false;
}

void say_flush(struct client *client)
{
	trace_words("say", client->session, 'H', "", "");
	talk_empty(&client->talk, 'H');
}
