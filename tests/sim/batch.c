/*
 * batch.c - the work that a client makes up: what is sent together.
 *
 * Everything that is asked goes into the model as it is sent.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/client.h"
#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t pick(struct client *client, uint32_t limit)
{
	return rng_below(&client->rng, limit);
}

static struct sql statement_of(struct client *client, enum verb verb)
{
	return (struct sql){
		.verb = verb,
		.nonce = (uint64_t)client->session << 32 | ++client->nonces,
	};
}

static struct sql statement_pick(struct client *client)
{
	uint32_t dice = pick(client, 100);
	struct sql statement = statement_of(client, VERB_ROWS);
	statement.a = pick(client, 5);
	statement.b = pick(client, 60);
	if (dice < 6) {
		statement.verb = VERB_FAIL;
	} else if (dice < 9) {
		statement.verb = VERB_BAD;
	} else if (dice < 16) {
		statement.verb = VERB_SLEEP;
		statement.a = pick(client, 6000);
	} else if (dice < 21) {
		statement.verb = VERB_COPYOUT;
		statement.a = pick(client, 40);
	} else if (dice < 25) {
		statement.verb = VERB_NOTE;
	} else if (dice < 30) {
		statement.a = 1 + pick(client, 3);
		statement.b = pick(client, 20000);
	} else if (dice == 30) {
		statement.a = pick(client, 300);
		statement.b = pick(client, 3000);
		client->wants_stall = pick(client, 8) == 0;
		if (client->wants_stall)
			statement.a = 1000;
	} else if (dice == 31) {
		statement.a = 1;
		statement.b = pick(client, ROW_FILLER_MAX);
	}
	return statement;
}

static void query_send(struct client *client, const struct sql *statements, uint32_t count)
{
	struct ask ask = {.type = 'Q', .count = count};
	char text[SQL_MAX];
	for (uint32_t i = 0; i < count; i++)
		ask.statements[i] = statements[i];
	sql_write(statements, count, text);
	talk_begin(&client->talk, 'Q');
	talk_text(&client->talk, text);
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

static void ask_one(struct client *client, char type, const struct sql *statement)
{
	struct ask ask = {.type = type, .count = statement != NULL};
	if (statement != NULL)
		ask.statements[0] = *statement;
	model_ask(&client->model, &ask);
}

static void parse_send(struct client *client, const struct sql *statement, bool parameter)
{
	char text[SQL_MAX];
	struct sql written = *statement;
	if (parameter)
		written.nonce = statement->nonce & ~(uint64_t)UINT32_MAX;
	sql_write(&written, 1, text);
	struct sql asked = written;
	talk_begin(&client->talk, 'P');
	talk_text(&client->talk, "");
	talk_text(&client->talk, text);
	talk_u16(&client->talk, 0);
	talk_end(&client->talk);
	ask_one(client, 'P', &asked);
}

static void bind_send(struct client *client, const struct sql *statement, bool parameter)
{
	struct talk *talk = &client->talk;
	char text[20];
	talk_begin(talk, 'B');
	talk_text(talk, "");
	talk_text(talk, "");
	talk_u16(talk, 0);
	talk_u16(talk, parameter ? 1 : 0);
	if (parameter) {
		int size = snprintf(text, sizeof text, "%" PRIx64, statement->nonce);
		talk_u32(talk, (uint32_t)size);
		talk_bytes(talk, text, (uint32_t)size);
	}
	talk_u16(talk, 0);
	talk_end(talk);
	ask_one(client, 'B', statement);
}

static void execute_send(struct client *client, const struct sql *statement, uint32_t rows)
{
	struct ask ask = {.type = 'E', .count = 1, .rows_max = rows};
	ask.statements[0] = *statement;
	talk_begin(&client->talk, 'E');
	talk_text(&client->talk, "");
	talk_u32(&client->talk, rows);
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

static void portal_send(struct client *client, char type, const struct sql *statement)
{
	struct ask ask = {.type = type, .count = 1, .of_portal = true};
	ask.statements[0] = *statement;
	talk_begin(&client->talk, type);
	talk_u8(&client->talk, 'P');
	talk_text(&client->talk, "");
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

static void describe_statement_send(struct client *client, const struct sql *statement)
{
	struct ask ask = {.type = 'D', .count = 1};
	ask.statements[0] = *statement;
	talk_begin(&client->talk, 'D');
	talk_u8(&client->talk, 'S');
	talk_text(&client->talk, "");
	talk_end(&client->talk);
	model_ask(&client->model, &ask);
}

void batch_sync(struct client *client)
{
	talk_begin(&client->talk, 'S');
	talk_end(&client->talk);
	ask_one(client, 'S', NULL);
	client->owes_sync = false;
}

/* Parse to Execute of one statement, with the trimmings that drivers use. */
static void extended_send(struct client *client, const struct sql *statement)
{
	bool parameter = pick(client, 2) == 0 && statement->verb != VERB_BAD;
	parse_send(client, statement, parameter);
	if (pick(client, 6) == 0)
		describe_statement_send(client, statement);
	bind_send(client, statement, parameter);
	if (pick(client, 2) == 0)
		portal_send(client, 'D', statement);
	if (statement->verb == VERB_ROWS && statement->a > 1 && pick(client, 3) == 0)
		execute_send(client, statement, 1 + pick(client, statement->a - 1));
	execute_send(client, statement, 0);
	if (pick(client, 10) == 0 && statement->verb != VERB_COPYIN)
		portal_send(client, 'C', statement);
}

static void simple_batch(struct client *client)
{
	struct sql statements[STATEMENTS_MAX];
	uint32_t count = pick(client, 20) == 0 ? 0 : pick(client, 4) == 0 ? 1 + pick(client, 3) : 1;
	for (uint32_t i = 0; i < count; i++)
		statements[i] = statement_pick(client);
	query_send(client, statements, count);
	client->operations_left -= count == 0 ? 1 : (int32_t)count;
}

void batch_extended(struct client *client)
{
	uint32_t count = 1 + (pick(client, 3) == 0 ? pick(client, 3) : 0);
	for (uint32_t i = 0; i < count; i++) {
		struct sql statement = statement_pick(client);
		extended_send(client, &statement);
		client->operations_left--;
	}
	if (pick(client, 8) == 0) {
		talk_begin(&client->talk, 'H');
		talk_end(&client->talk);
		client->owes_sync = true; /* and may say more before it */
	} else {
		batch_sync(client);
	}
}

/* Several Syncs in one send. */
static void pipeline_batch(struct client *client)
{
	for (uint32_t i = 2 + pick(client, 4); i > 0; i--) {
		struct sql statement = statement_pick(client);
		extended_send(client, &statement);
		batch_sync(client);
		client->operations_left--;
	}
}

static void verb_batch(struct client *client, enum verb verb)
{
	struct sql statements[2] = {statement_of(client, verb)};
	client->operations_left--;
	if (pick(client, 2) == 0) {
		extended_send(client, &statements[0]);
		batch_sync(client);
		return;
	}
	uint32_t count = 1;
	if (pick(client, 4) == 0) {
		statements[1] = statement_pick(client);
		count = 2;
	}
	query_send(client, statements, count);
}

static void copy_batch(struct client *client)
{
	struct copy_task *copy = &client->copy;
	*copy = (struct copy_task){.open = true, .statement = statement_of(client, VERB_COPYIN)};
	copy->statement.a = pick(client, 30);
	if (pick(client, 4) == 0 && copy->statement.a > 0)
		copy->statement.b = 1 + pick(client, copy->statement.a);
	copy->extended = pick(client, 2) == 0;
	copy->fail = pick(client, 6) == 0;
	copy->go = pick(client, 4) == 0;
	copy->early = copy->extended && !copy->go && pick(client, 2) == 0;
	client->operations_left--;
	if (copy->extended)
		extended_send(client, &copy->statement);
	else
		query_send(client, &copy->statement, 1);
	if (copy->early) {
		struct ask ask = {.type = 'S', .early = true};
		talk_begin(&client->talk, 'S');
		talk_end(&client->talk);
		model_ask(&client->model, &ask);
	} else if (copy->extended && !copy->go) {
		talk_begin(&client->talk, 'H');
		talk_end(&client->talk);
	}
	batch_copy(client);
}

void batch_copy(struct client *client)
{
	static char row[256];
	struct copy_task *copy = &client->copy;
	struct talk *talk = &client->talk;
	if (!copy->open || !copy->go)
		return;
	for (; copy->sent < copy->statement.a; copy->sent++) {
		if (pick(client, 30) == 0)
			return; /* goes on with the next act */
		uint32_t size = sql_row(&copy->statement, copy->sent, row);
		talk_begin(talk, 'd');
		talk_bytes(talk, row, size);
		talk_end(talk);
	}
	talk_begin(talk, copy->fail ? 'f' : 'c');
	if (copy->fail) {
		talk_text(talk, "changed my mind");
		model_copyfail(&client->model, copy->statement.nonce);
	}
	talk_end(talk);
	copy->open = false;
	if (copy->extended)
		batch_sync(client);
}

void batch_send(struct client *client)
{
	uint32_t dice = pick(client, 100);
	bool idle = client->model.count == 0;
	check_counts.batches++;
	if (idle && client->model.tx != 'I' && dice < 40) {
		verb_batch(client, pick(client, 3) == 0 ? VERB_ROLLBACK : VERB_COMMIT);
		return;
	}
	if (dice < 55)
		simple_batch(client);
	else if (dice < 72)
		batch_extended(client);
	else if (dice < 80)
		pipeline_batch(client);
	else if (dice < 86)
		copy_batch(client);
	else if (dice < 97 || !idle)
		verb_batch(client, client->model.tx == 'I' ? VERB_BEGIN : VERB_COMMIT);
	else
		verb_batch(client, VERB_BEGIN);
}
