/* client.c - see client.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/client.h"

#include "tests/sim/check.h"
#include "tests/sim/report.h"
#include "tests/sim/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"

enum {
	CODE_CANCEL = 80877102,
	CODE_SSL = 80877103,
	CONNECT_TIMEOUT_US = 10000000,
	LOGIN_TIMEOUT_US = 150000000,
	ASKS_AT_ONCE = 40, /* of ASKS_MAX: no new batch above it */
};

static void client_begin(struct alarm *alarm);
static void client_act(struct alarm *alarm);
static void login_timeout(struct alarm *alarm);

static void act_in(struct client *client, uint32_t us)
{
	alarm_set(&client->act, world.now_us + us, client_act);
}

/* The session is over; the next one begins after a while. */
static void session_end(struct client *client, bool reset)
{
	trace("session-", client->session, reset);
	check_session_end(client->session);
	alarm_clear(&client->leave);
	alarm_clear(&client->cancel);
	alarm_clear(&client->wake);
	talk_close(&client->talk, reset);
	client->progress_us = world.now_us;
	if (client->operations_left <= 0) {
		client->state = CLIENT_DONE;
		client->clients->done++;
		alarm_clear(&client->act);
		return;
	}
	client->state = CLIENT_AWAY;
	alarm_set(&client->act, world.now_us + rng_below(&client->rng, 5000), client_begin);
}

static void session_lost(struct client *client, const char *why)
{
	SIM_CHECK(client->clients->tolerant, "session %u lost its connection: %s", client->session,
	          why);
	check_counts.killed++;
	/* a pooler in trouble must not make the run endless */
	client->operations_left--;
	session_end(client, false);
}

static void startup_send(struct client *client)
{
	struct talk *talk = &client->talk;
	talk_begin(talk, 0);
	talk_u32(talk, 3 << 16);
	const char *const words[] = {"user",
	                             client->names.user,
	                             "database",
	                             client->names.database,
	                             "application_name",
	                             client->names.application_name};
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		talk_text(talk, words[i]);
	talk_u8(talk, 0);
	talk_end(talk);
	talk_flush(talk);
	client->state = CLIENT_LOGIN;
}

static void connected(struct client *client)
{
	alarm_set(&client->wake, world.now_us + LOGIN_TIMEOUT_US, login_timeout);
	if (rng_below(&client->rng, 3) > 0) {
		startup_send(client);
		return;
	}
	talk_begin(&client->talk, 0);
	talk_u32(&client->talk, CODE_SSL);
	talk_end(&client->talk);
	talk_flush(&client->talk);
	client->state = CLIENT_SSL;
}

static void login_message(struct client *client, const struct message *message)
{
	struct cursor cursor = cursor_of(message);
	switch (message->type) {
	case 'R':
		SIM_CHECK(cursor_u32(&cursor) == 0, "session %u is asked for a password",
		          client->session);
		break;
	case 'S':
	case 'N': break;
	case 'K':
		client->pid = cursor_u32(&cursor);
		client->secret = cursor_u32(&cursor);
		SIM_CHECK(!cursor.bad && cursor.at == cursor.end, "BackendKeyData of %u bytes",
		          message->size);
		client->keyed = true;
		break;
	case 'Z':
		SIM_CHECK(client->keyed && message->size == 1 && message->body[0] == 'I',
		          "session %u: ReadyForQuery '%c' at login", client->session,
		          message->body[0]);
		client->state = CLIENT_READY;
		alarm_clear(&client->wake);
		act_in(client, rng_below(&client->rng, 2) == 0 ? 0 : rng_below(&client->rng, 3000));
		break;
	case 'E':
		SIM_CHECK(client->clients->tolerant, "session %u: login fails: %s", client->session,
		          message_field(message, 'M'));
		break;
	default: sim_fail("session %u got '%c' at login", client->session, message->type);
	}
}

/* What a reply means for what is to be sent. */
static void react(struct client *client, enum reply reply)
{
	struct copy_task *copy = &client->copy;
	client->progress_us = world.now_us;
	switch (reply) {
	case REPLY_COPY:
		/* it may be of the COPY before, whose data has been said already */
		if (copy->open && model_at_hand(&client->model) == copy->statement.nonce)
			copy->go = true;
		act_in(client, rng_below(&client->rng, 500));
		break;
	case REPLY_ERROR:
		if (client->model.sync_lost)
			client->must_leave = true;
		if (copy->open && !model_awaits(&client->model, copy->statement.nonce)) {
			/* a batch wants its Sync, unless that went early and COPY did not
			 * begin; else the rest is said or not */
			if (copy->early)
				copy->open = copy->go;
			else
				copy->go = copy->extended || rng_below(&client->rng, 2) == 0;
			copy->open = copy->go;
		}
		act_in(client, rng_below(&client->rng, 300));
		break;
	case REPLY_READY: {
		/* drivers differ in how long they think */
		uint32_t think = rng_below(&client->rng, 3) == 0 ? rng_below(&client->rng, 2000)
		                                                 : 0;
		act_in(client, think);
		break;
	}
	case REPLY_MORE:
	case REPLY_FATAL: break;
	}
}

static void client_read(struct client *client)
{
	struct message message;
	uint64_t before = client->talk.sock->received;
	talk_receive(&client->talk);
	check_received(client->session, client->talk.sock->received - before);
	if (client->state == CLIENT_SSL) {
		uint8_t answer;
		if (!talk_next_byte(&client->talk, &answer))
			return;
		SIM_CHECK(answer == 'N' || client->clients->tolerant,
		          "session %u: SSLRequest answered by %d", client->session, answer);
		if (answer == 'N')
			startup_send(client);
	}
	while (talk_next(&client->talk, true, &message)) {
		if (client->state == CLIENT_LOGIN)
			login_message(client, &message);
		else if (!client->must_leave) /* else what comes is not ours to judge */
			react(client, model_reply(&client->model, &message));
	}
}

static void client_wake(struct sock *sock)
{
	struct client *client = sock->owner;
	if (client->state == CLIENT_CONNECTING) {
		if (sock->state == SOCK_OPEN)
			connected(client);
		else if (sock->state == SOCK_FAILED)
			session_lost(client, "refused");
		return;
	}
	if (sock->eof) /* what a server still says is for nobody, and is dropped */
		check_session_end(client->session);
	talk_send(&client->talk);
	if (client->stalled && !sock->reset)
		return;
	client_read(client);
	if (sock->reset) {
		session_lost(client, "reset");
		return;
	}
	if (sock->eof && sock->arrived == 0) {
		if (client->terminated)
			session_end(client, false);
		else
			session_lost(client, "end of file");
	}
}

/* Cancels: an actor that lives as long as its connection. */

struct canceler {
	struct talk talk;
	struct clients *clients;
	uint32_t pid, secret, session;
	struct alarm timeout;
	bool sent;
};

static void canceler_end(struct canceler *canceler)
{
	canceler->clients->cancelers--;
	alarm_clear(&canceler->timeout);
	talk_close(&canceler->talk, false);
	talk_fini(&canceler->talk);
	free(canceler);
}

static void canceler_timeout(struct alarm *alarm)
{
	struct canceler *canceler = CONTAINER(struct canceler, timeout, alarm);
	SIM_CHECK(canceler->clients->tolerant || world.faults.server_vanish > 0,
	          "the cancel of session %u does not end", canceler->session);
	canceler_end(canceler);
}

static void canceler_wake(struct sock *sock)
{
	struct canceler *canceler = sock->owner;
	struct talk *talk = &canceler->talk;
	if (sock->state == SOCK_FAILED) {
		SIM_CHECK(canceler->clients->tolerant, "a cancel was refused");
		canceler_end(canceler);
		return;
	}
	if (sock->state == SOCK_OPEN && !canceler->sent) {
		canceler->sent = true;
		talk_begin(talk, 0);
		talk_u32(talk, CODE_CANCEL);
		talk_u32(talk, canceler->pid);
		talk_u32(talk, canceler->secret);
		talk_end(talk);
		talk_flush(talk);
	}
	talk_send(talk);
	SIM_CHECK(sock->arrived == 0, "a cancel was answered");
	if (sock->eof || sock->reset)
		canceler_end(canceler);
}

static void client_cancel(struct alarm *alarm)
{
	struct client *client = CONTAINER(struct client, cancel, alarm);
	if (client->state != CLIENT_READY)
		return;
	struct canceler *canceler = calloc(1, sizeof *canceler);
	SIM_CHECK(canceler != NULL, "no memory");
	canceler->clients = client->clients;
	canceler->clients->cancelers++;
	canceler->pid = client->pid;
	canceler->secret = client->secret;
	canceler->session = client->session;
	check_cancel_asked(client->session);
	trace("cancel?", client->session, 0);
	struct sock *sock = sock_open();
	talk_open(&canceler->talk, sock);
	sock_own(sock, canceler_wake, canceler);
	sock_connect(sock, &client->clients->addr);
	alarm_set(&canceler->timeout, world.now_us + 3 * CONNECT_TIMEOUT_US, canceler_timeout);
}

/* Life. */

static void client_vanish(struct alarm *alarm)
{
	struct client *client = CONTAINER(struct client, leave, alarm);
	if (client->talk.sock == NULL)
		return;
	check_counts.vanished++;
	if (client->state == CLIENT_READY && rng_below(&client->rng, 3) == 0) {
		talk_bytes(&client->talk, "Q\0\0\0\50sel", 8); /* half a message */
		talk_flush(&client->talk);
	}
	session_end(client, rng_below(&client->rng, 2) == 0);
}

static void client_resume(struct alarm *alarm)
{
	struct client *client = CONTAINER(struct client, wake, alarm);
	client->stalled = false;
	client->progress_us = world.now_us;
	if (client->talk.sock != NULL)
		client_wake(client->talk.sock);
}

static void login_timeout(struct alarm *alarm)
{
	struct client *client = CONTAINER(struct client, wake, alarm);
	if (client->state != CLIENT_READY)
		session_lost(client, "login timed out");
}

static void client_terminate(struct client *client)
{
	talk_begin(&client->talk, 'X');
	talk_end(&client->talk);
	talk_flush(&client->talk);
	if (rng_below(&client->rng, 2) == 0 && talk_unsent(&client->talk) == 0) {
		session_end(client, false);
		return;
	}
	client->terminated = true; /* waits for the end of file */
}

static void mishaps_plan(struct client *client)
{
	if (fault(world.faults.client_vanish))
		alarm_set(&client->leave, world.now_us + rng_below(&client->rng, 4000),
		          client_vanish);
	if (fault(world.faults.client_cancel))
		alarm_set(&client->cancel, world.now_us + rng_below(&client->rng, 6000),
		          client_cancel);
	bool stall = world.faults.client_stall > 0 && client->wants_stall;
	client->wants_stall = false;
	if (!client->stalled && (stall || fault(world.faults.client_stall))) {
		client->stalled = true;
		alarm_set(&client->wake, world.now_us + rng_between(&client->rng, 5000, 300000),
		          client_resume);
	}
}

static void client_act(struct alarm *alarm)
{
	struct client *client = CONTAINER(struct client, act, alarm);
	if (client->state != CLIENT_READY || client->terminated)
		return;
	if (client->must_leave) {
		client_terminate(client);
		talk_flush(&client->talk);
		return;
	}
	bool idle = client->model.count == 0 && !client->copy.open && !client->owes_sync;
	if (client->copy.open) {
		if (!client->copy.go)
			return; /* CopyInResponse is the sign */
		batch_copy(client);
		if (client->copy.open)
			act_in(client, rng_below(&client->rng, 300));
	} else if (client->owes_sync) {
		uint32_t dice = rng_below(&client->rng, 4);
		if (client->model.count > 0 && (dice > 0 || client->wants_all)) {
			act_in(client, 500);
			return;
		}
		if (dice == 1 && client->model.count < ASKS_AT_ONCE)
			batch_extended(client);
		else
			say_sync(client);
	} else if (client->operations_left <= 0 || client->batches_left == 0) {
		if (idle && client->model.tx == 'I') {
			client_terminate(client);
			return;
		}
		if (!idle)
			return;
		client->batches_left++;
		batch_send(client);
	} else if (client->model.count < ASKS_AT_ONCE &&
	           (idle || rng_below(&client->rng, 3) == 0)) {
		client->batches_left--;
		batch_send(client);
		mishaps_plan(client);
		if (!client->copy.open && rng_below(&client->rng, 3) == 0)
			act_in(client, rng_below(&client->rng, 800));
	}
	if (client->owes_sync)
		act_in(client, 500 + rng_below(&client->rng, 2000));
	else if (client->model.count == 0 && !client->copy.open)
		act_in(client, 1 + rng_below(&client->rng, 300)); /* no reply will wake us */
	talk_flush(&client->talk);
}

static void client_begin(struct alarm *alarm)
{
	struct client *client = CONTAINER(struct client, act, alarm);
	snprintf(client->names.user, sizeof client->names.user, "u%u",
	         rng_below(&client->rng, client->clients->users));
	snprintf(client->names.database, sizeof client->names.database, "d%u",
	         rng_below(&client->rng, client->clients->databases));
	snprintf(client->names.application_name, sizeof client->names.application_name, "a%u",
	         rng_below(&client->rng, 3));
	client->session = check_session_new(&client->names);
	client->nonces = 0;
	client->keyed = client->terminated = client->stalled = client->owes_sync = false;
	client->must_leave = client->wants_stall = client->wants_all = client->bound = false;
	client->book = (struct book){0};
	client->marks = 0;
	client->careful = world.faults.named && rng_below(&client->rng, 2) == 0;
	client->copy = (struct copy_task){0};
	client->batches_left = 1 +
	                       rng_below(&client->rng, rng_below(&client->rng, 4) == 0 ? 60 : 8);
	client->progress_us = world.now_us;
	model_init(&client->model, client->session, client->clients->tolerant,
	           client->clients->pooled);
	struct sock *sock = sock_open();
	talk_open(&client->talk, sock);
	sock_own(sock, client_wake, client);
	client->state = CLIENT_CONNECTING;
	alarm_set(&client->wake, world.now_us + CONNECT_TIMEOUT_US, login_timeout);
	trace("session+", client->session, sock->id);
	sock_connect(sock, &client->clients->addr);
	/* some leave in the middle of their login */
	if (fault(world.faults.client_vanish))
		alarm_set(&client->leave, world.now_us + rng_below(&client->rng, 3000),
		          client_vanish);
}

void clients_open(struct clients *clients, uint32_t count, const struct addr *addr, uint64_t seed,
                  int32_t operations)
{
	clients->count = count;
	clients->addr = *addr;
	clients->tolerant = world.faults.op_error > 0 || world.faults.server_vanish > 0 ||
	                    world.faults.refuse > 0;
	for (uint32_t i = 0; i < count; i++) {
		struct client *client = &clients->list[i];
		client->clients = clients;
		client->rng = rng_make(seed, 100 + i);
		client->operations_left = operations / (int32_t)count;
		client->progress_us = world.now_us;
		alarm_set(&client->act, world.now_us + rng_below(&client->rng, 20000),
		          client_begin);
	}
}

void clients_close(struct clients *clients)
{
	for (uint32_t i = 0; i < clients->count; i++) {
		talk_close(&clients->list[i].talk, false);
		talk_fini(&clients->list[i].talk);
	}
}

uint64_t clients_slowest_us(const struct clients *clients)
{
	uint64_t slowest = 0;
	for (uint32_t i = 0; i < clients->count; i++) {
		const struct client *client = &clients->list[i];
		uint64_t since = world.now_us - client->progress_us;
		if (client->state != CLIENT_DONE && client->state != CLIENT_AWAY &&
		    !client->stalled && since > slowest)
			slowest = since;
	}
	return slowest;
}

void clients_print(const struct clients *clients)
{
	for (uint32_t i = 0; i < clients->count; i++) {
		const struct client *client = &clients->list[i];
		if (client->state == CLIENT_DONE)
			continue;
		const struct ask *ask = &client->model.asks[client->model.head];
		fprintf(stderr,
		        "  client %u session %u state %d asks %u head %c tx %c copy %d%d sync %d"
		        " left %d stalled %d\n",
		        i, client->session, (int)client->state, client->model.count,
		        client->model.count == 0 ? '-' : ask->type, client->model.tx,
		        client->copy.open, client->copy.go, client->owes_sync,
		        client->operations_left, client->stalled);
	}
}
