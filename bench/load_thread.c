/*
 * load_thread.c - the loop of a thread of the load generator.
 *
 * A thread owns every n-th client and shares nothing with others but the
 * phase of the run: RAMP until all are logged in, RUN, and DRAIN, in which
 * nothing new starts and what is still owed must come.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/text.h"

enum {
	EVENTS_MAX = 256,
	TURN_NS = 20 * NS_PER_MS,     /* a phase is seen this soon */
	SCAN_NS = 200 * NS_PER_MS,    /* between looks for what is late */
	DRAIN_NS = 50 * NS_PER_MS,    /* in which a double answer may still come */
	CANCEL_NS = 2000 * NS_PER_MS, /* a cancel request that takes longer is an error */
};

/* xorshift64*: good enough for dice. */
uint64_t thread_random(struct thread *thread, uint64_t below)
{
	uint64_t x = thread->random;
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	thread->random = x;
	return (x * 0x2545F4914F6CDD1DULL >> 16) % below;
}

bool thread_chance(struct thread *thread, double percent)
{
	return percent > 0 && (double)thread_random(thread, 1000000) < percent * 10000;
}

void thread_count(struct thread *thread, enum count count, uint64_t add)
{
	counter_add(&thread->counts[count], add);
}

/* Read by others only when the thread has ended. */
void thread_error(struct thread *thread, const char *state)
{
	thread_count(thread, COUNT_ERRORS, 1);
	uint32_t i = 0;
	while (i < ERROR_KINDS_MAX - 1 && thread->errors[i].count > 0 &&
	       strcmp(thread->errors[i].state, state) != 0)
		i++;
	if (thread->errors[i].count++ == 0)
		text_set(thread->errors[i].state, sizeof thread->errors[i].state, state);
}

enum phase thread_phase(const struct thread *thread)
{
	return (enum phase)__atomic_load_n(&thread->load->phase, __ATOMIC_ACQUIRE);
}

static void thread_see_phase(struct thread *thread)
{
	enum phase phase = thread_phase(thread);
	if ((int)phase == thread->phase)
		return;
	thread->phase = (int)phase;
	if (phase == PHASE_DRAIN)
		thread->drain_began = thread->now;
	if (phase != PHASE_RUN)
		return;
	bool churn = thread->load->options.mode == MODE_CHURN;
	for (uint32_t i = 0; i < thread->client_count; i++)
		if (thread->clients[i].state == (churn ? CLIENT_CLOSED : CLIENT_IDLE))
			client_next(&thread->clients[i]);
}

/* Answers that took too long, and whether anything is still under way. */
static bool thread_scan(struct thread *thread)
{
	bool quiet = true;
	uint64_t timeout = (uint64_t)(thread->load->options.timeout * NS_PER_S);
	thread->scanned = thread->now;
	for (uint32_t i = 0; i < thread->client_count; i++) {
		struct client *client = &thread->clients[i];
		if (client->state == CLIENT_CLOSED || client->state == CLIENT_IDLE)
			continue;
		if (thread->now - client->since < timeout)
			quiet = quiet && client->state != CLIENT_BUSY;
		else if (client->state == CLIENT_BUSY)
			client_complain(client, COUNT_LOST,
			                "no answer to query %08x and %u behind it in %g s",
			                (uint32_t)client->expected[client->expected_head].sequence,
			                client->expected_count - 1, thread->load->options.timeout);
		else
			client_fail(client, "TIME");
	}
	cancels_end(thread, CANCEL_NS);
	return quiet && list_is_empty(&thread->cancels);
}

static void thread_timers(struct thread *thread)
{
	struct timer *timer;
	while ((timer = timers_pop(&thread->timers, thread->now)) != NULL) {
		/* Which of a client's two timers is it? */
		size_t place = (size_t)((char *)timer - (char *)thread->clients);
		struct client *client = &thread->clients[place / sizeof *thread->clients];
		if (timer == &client->timer)
			client_timer(client);
		else
			client_read_more(client);
	}
}

static bool thread_turn(struct thread *thread)
{
	struct epoll_event events[EVENTS_MAX];
	struct timespec wait = {.tv_nsec = TURN_NS}, first;
	const struct timespec *due = timers_wait(&thread->timers, thread->now, &first);
	if (due != NULL && due->tv_sec == 0 && due->tv_nsec < wait.tv_nsec)
		wait = *due;
	int count = epoll_pwait2(thread->epoll, events, EVENTS_MAX, &wait, NULL);
	for (int i = 0; i < count; i++) {
		struct endpoint *endpoint = events[i].data.ptr;
		thread->now = clock_now();
		if (endpoint->kind == ENDPOINT_CANCEL)
			cancel_event(endpoint);
		else
			client_event((struct client *)(void *)endpoint, events[i].events);
	}
	thread->now = clock_now();
	thread_timers(thread);
	thread_see_phase(thread);
	bool draining = thread->phase == PHASE_DRAIN;
	if (!draining && thread->now - thread->scanned < SCAN_NS)
		return true;
	bool quiet = thread_scan(thread);
	return !draining || !quiet || thread->now - thread->drain_began < DRAIN_NS;
}

void *thread_run(void *argument)
{
	struct thread *thread = argument;
	const struct options *options = &thread->load->options;
	thread->now = thread->scanned = clock_now();
	thread->random = (options->seed + 1) * 0x9E3779B97F4A7C15ULL +
	                 (uint64_t)(thread - thread->load->threads) * 0xD1B54A32D192ED03ULL;
	if (thread->random == 0)
		thread->random = 1;
	for (uint32_t i = 0; i < thread->client_count; i++) {
		if (options->mode == MODE_CHURN)
			client_next(&thread->clients[i]); /* only says that it is ready */
		else
			client_connect(&thread->clients[i]);
	}
	while (thread_turn(thread))
		continue;
	for (uint32_t i = 0; i < thread->client_count; i++)
		client_leave(&thread->clients[i], LEAVE_TERMINATE);
	cancels_end(thread, 0);
	return NULL;
}
