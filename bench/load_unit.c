/*
 * load_unit.c - what a client asks for, and when.
 *
 * Closed loop: the next unit starts when the last one is done.  Open loop:
 * each client has fixed times, staggered over all clients; a unit that comes
 * too late starts at once, and its latency counts from when it should have
 * begun.  Otherwise a stall would hide the very units that it delayed.
 *
 * A unit may have a fate: its client is gone in the middle, or asks for a
 * cancel.  Such units are checked like others but not in the histogram.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include "core/base/check.h"

enum { FATE_DELAY_NS = 30 * NS_PER_MS };

static const struct options *client_options(const struct client *client)
{
	return &client->thread->load->options;
}

static uint32_t unit_steps(const struct client *client)
{
	return client_options(client)->mode == MODE_TRANSACTION ? TRANSACTION_STEPS : 1;
}

static struct unit unit_make(struct client *client, uint64_t intended)
{
	const struct options *options = client_options(client);
	struct thread *thread = client->thread;
	struct unit unit = {.intended = intended};
	bool transaction = options->mode == MODE_TRANSACTION;
	if (thread_chance(thread, options->vanish)) {
		unit.fate = (enum fate)(FATE_HALF + thread_random(thread, 3));
		unit.sleepy = thread_random(thread, 2) == 0;
		unit.fate_step = (uint32_t)thread_random(thread, unit_steps(client));
	} else if (thread_chance(thread, options->cancel)) {
		bool now = thread_random(thread, 4) == 0;
		unit.fate = now ? FATE_CANCEL_NOW : FATE_CANCEL;
		unit.sleepy = !now || thread_random(thread, 2) == 0;
		unit.fate_step = transaction ? 1 + (uint32_t)thread_random(thread, 3) : 0;
	}
	return unit;
}

/* Gone without a word; comes back as a new client. */
static void unit_vanish(struct client *client)
{
	struct thread *thread = client->thread;
	thread_count(thread, COUNT_VANISHED, 1);
	client_leave(client, thread_random(thread, 2) == 0 ? LEAVE_FIN : LEAVE_RST);
	if (thread_phase(thread) != PHASE_RUN)
		return;
	if (client_options(client)->mode == MODE_CHURN)
		client_next(client);
	else
		client_connect(client);
}

static enum request_kind query_kind(const struct client *client)
{
	static const uint8_t kinds[] = {
		[MODE_SIMPLE] = REQUEST_SIMPLE,     [MODE_EXTENDED] = REQUEST_EXTENDED,
		[MODE_PREPARED] = REQUEST_BOUND,    [MODE_TRANSACTION] = REQUEST_SIMPLE,
		[MODE_PIPELINE] = REQUEST_EXTENDED, [MODE_CHURN] = REQUEST_SIMPLE,
		[MODE_BULK] = REQUEST_BULK,
	};
	return (enum request_kind)kinds[client_options(client)->mode];
}

static void step_request(struct client *client)
{
	const struct options *options = client_options(client);
	const struct unit *unit = &client->unit;
	bool sleepy = unit->sleepy && unit->step == unit->fate_step;
	if (options->mode == MODE_TRANSACTION && unit->step == 0) {
		request_send(client, REQUEST_BEGIN);
	} else if (options->mode == MODE_TRANSACTION && unit->step == TRANSACTION_STEPS - 1) {
		request_send(client, REQUEST_COMMIT);
	} else if (options->mode == MODE_PIPELINE) {
		uint64_t place = sleepy ? thread_random(client->thread, options->batches)
		                        : options->batches;
		for (uint32_t i = 0; i < options->batches; i++)
			request_send(client, i == place ? REQUEST_SLEEP : REQUEST_EXTENDED);
	} else {
		request_send(client, sleepy ? REQUEST_SLEEP : query_kind(client));
	}
}

static void unit_send(struct client *client)
{
	struct thread *thread = client->thread;
	const struct unit *unit = &client->unit;
	bool fateful = unit->step == unit->fate_step && !unit->failed;
	uint32_t incarnation = client->incarnation;
	client->state = CLIENT_BUSY;
	client->since = thread->now;
	step_request(client);
	if (fateful && unit->fate == FATE_HALF)
		client->out.end -= buffer_size(&client->out) / 2;
	client_flush(client);
	if (!fateful || client->state != CLIENT_BUSY || client->incarnation != incarnation)
		return;
	switch (unit->fate) {
	case FATE_NONE: break;
	case FATE_HALF:
	case FATE_SENT: unit_vanish(client); break;
	case FATE_LATER:
	case FATE_CANCEL:
		timers_set(&thread->timers, &client->timer,
		           thread->now + thread_random(thread, FATE_DELAY_NS));
		break;
	case FATE_CANCEL_NOW: cancel_start(client); break;
	}
}

void unit_start(struct client *client, uint64_t intended)
{
	client->unit = unit_make(client, intended);
	if (client_options(client)->mode == MODE_CHURN)
		client_connect(client);
	else
		unit_send(client);
}

static void unit_end(struct client *client, bool done)
{
	struct thread *thread = client->thread;
	const struct unit *unit = &client->unit;
	bool waiting = client->timer.place != 0;
	timers_clear(&thread->timers, &client->timer);
	if (done) {
		thread_count(thread, COUNT_TRANSACTIONS, 1);
		counter_add(&client->done, 1);
		if (unit->fate == FATE_NONE)
			histogram_add(&thread->latency, thread->now - unit->intended);
	}
	if (waiting && unit->fate == FATE_LATER) {
		unit_vanish(client);
		return;
	}
	/* As near to the next unit as can be: the hardest place for a pooler. */
	if (waiting && unit->fate == FATE_CANCEL)
		cancel_start(client);
	client->state = CLIENT_IDLE;
	if (client_options(client)->mode == MODE_CHURN)
		client_leave(client, LEAVE_TERMINATE);
	client_next(client);
}

void unit_step_done(struct client *client)
{
	struct unit *unit = &client->unit;
	if (unit->prepare) {
		client->state = CLIENT_IDLE;
		unit->prepare = false;
		client_next(client);
		return;
	}
	uint32_t last = unit_steps(client) - 1;
	if (unit->failed && client->status != 'I' && unit->step == last) {
		client_complain(client, COUNT_WRONG, "the status stays '%c' after the end",
		                client->status);
	} else if (unit->failed && client->status == 'I') {
		unit_end(client, false);
	} else if (unit->step == last) {
		unit_end(client, true);
	} else {
		unit->step = unit->failed ? last : unit->step + 1;
		unit_send(client);
	}
}

static void client_prepare(struct client *client)
{
	client->prepared = true;
	client->unit = (struct unit){.prepare = true};
	client->state = CLIENT_BUSY;
	client->since = client->thread->now;
	request_send(client, REQUEST_PREPARE);
	client_flush(client);
}

void client_next(struct client *client)
{
	struct thread *thread = client->thread;
	const struct options *options = client_options(client);
	if (options->mode == MODE_PREPARED && !client->prepared) {
		client_prepare(client);
		return;
	}
	if (options->mode == MODE_CHURN && client->state == CLIENT_IDLE) {
		unit_send(client); /* the visit began with its connection */
		return;
	}
	if (!client->was_ready) {
		client->was_ready = true;
		__atomic_add_fetch(&thread->load->ready, 1, __ATOMIC_RELAXED);
	}
	if (thread_phase(thread) != PHASE_RUN)
		return;
	if (options->rate == 0) {
		unit_start(client, thread->now);
		return;
	}
	double interval = (double)NS_PER_S / options->rate;
	if (client->intended == 0)
		client->intended = counter_read(&thread->load->run_began) +
		                   (uint64_t)(client->number * interval);
	if (client->intended > thread->now) {
		timers_set(&thread->timers, &client->timer, client->intended);
		return;
	}
	uint64_t intended = client->intended;
	client->intended += (uint64_t)(interval * options->clients);
	unit_start(client, intended);
}

void client_timer(struct client *client)
{
	bool running = thread_phase(client->thread) != PHASE_DRAIN;
	switch (client->state) {
	case CLIENT_CLOSED:
		if (running && client_options(client)->mode == MODE_CHURN)
			client_next(client);
		else if (running)
			client_connect(client);
		break;
	case CLIENT_IDLE:
		if (running)
			client_next(client);
		break;
	case CLIENT_BUSY:
		if (client->unit.fate == FATE_LATER)
			unit_vanish(client);
		else
			cancel_start(client);
		break;
	case CLIENT_CONNECTING:
	case CLIENT_LOGIN: break;
	}
}
