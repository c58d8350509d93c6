/*
 * batch.c - the work that a client makes up: what is sent together.
 *
 * Everything that is asked goes into the model as it is sent.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/client.h"
#include "tests/sim/say.h"

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

/* Parse to Execute of one statement, with the trimmings that drivers use. */
static void extended_send(struct client *client, const struct sql *statement)
{
	/* where texts are bound again, none may say what runs once */
	bool parameter = (world.faults.named || pick(client, 2) == 0) &&
	                 statement->verb != VERB_BAD;
	struct sql text = *statement;
	if (parameter)
		text.nonce &= ~(uint64_t)UINT32_MAX;
	say_parse(client, "", &text);
	if (pick(client, 6) == 0)
		say_describe(client, "");
	say_bind(client, "", parameter ? statement->nonce : 0, 0);
	if (pick(client, 2) == 0)
		say_of_portal(client, 'D');
	if (statement->verb == VERB_ROWS && statement->a > 1 && pick(client, 3) == 0)
		say_execute(client, statement, 1 + pick(client, statement->a - 1));
	say_execute(client, statement, 0);
	if (pick(client, 10) == 0 && statement->verb != VERB_COPYIN)
		say_of_portal(client, 'C');
}

static void simple_batch(struct client *client)
{
	struct sql statements[STATEMENTS_MAX];
	uint32_t count = pick(client, 20) == 0 ? 0 : pick(client, 4) == 0 ? 1 + pick(client, 3) : 1;
	for (uint32_t i = 0; i < count; i++)
		statements[i] = statement_pick(client);
	say_query(client, statements, count);
	client->operations_left -= count == 0 ? 1 : (int32_t)count;
}

void batch_extended(struct client *client)
{
	if (world.faults.named && pick(client, 2) == 0) {
		named_steps(client);
		say_sync(client);
		return;
	}
	uint32_t count = 1 + (pick(client, 3) == 0 ? pick(client, 3) : 0);
	for (uint32_t i = 0; i < count; i++) {
		struct sql statement = statement_pick(client);
		extended_send(client, &statement);
		client->operations_left--;
	}
	if (pick(client, 8) == 0) {
		say_flush(client);
		client->owes_sync = true; /* and may say more before it */
	} else {
		say_sync(client);
	}
}

/* Several Syncs in one send. */
static void pipeline_batch(struct client *client)
{
	for (uint32_t i = 2 + pick(client, 4); i > 0; i--) {
		struct sql statement = statement_pick(client);
		extended_send(client, &statement);
		say_sync(client);
		client->operations_left--;
	}
}

static void verb_batch(struct client *client, enum verb verb)
{
	struct sql statements[2] = {statement_of(client, verb)};
	client->operations_left--;
	if (pick(client, 2) == 0) {
		extended_send(client, &statements[0]);
		say_sync(client);
		return;
	}
	uint32_t count = 1;
	if (pick(client, 4) == 0) {
		statements[1] = statement_pick(client);
		count = 2;
	}
	say_query(client, statements, count);
}

static void copy_batch(struct client *client)
{
	struct copy_task *copy = &client->copy;
	*copy = (struct copy_task){.open = true, .statement = statement_of(client, VERB_COPYIN)};
	copy->statement.a = pick(client, 30);
	if (pick(client, 4) == 0 && copy->statement.a > 0)
		copy->statement.b = 1 + pick(client, copy->statement.a);
	/* a text that is bound again must not want data */
	copy->extended = pick(client, 2) == 0 && !world.faults.named;
	copy->fail = pick(client, 6) == 0;
	copy->go = pick(client, 4) == 0;
	copy->early = copy->extended && !copy->go && pick(client, 2) == 0;
	client->operations_left--;
	if (copy->extended)
		extended_send(client, &copy->statement);
	else
		say_query(client, &copy->statement, 1);
	if (copy->early) {
		struct ask ask = {.type = 'S', .early = true};
		talk_empty(&client->talk, 'S');
		model_ask(&client->model, &ask);
	} else if (copy->extended && !copy->go) {
		say_flush(client);
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
		say_sync(client);
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
	if (world.faults.named && pick(client, 100) < 70)
		named_batch(client);
	else if (dice < 55)
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
