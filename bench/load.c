/*
 * load.c - threads, phases and the clock of a run of the load generator.
 *
 * The clients log in first, and the measurement begins when all are there
 * (or the timeout has passed): a login costs a hundred times what a query costs.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/check.h"

enum { RAMP_STEP_NS = 2 * NS_PER_MS };

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static void sleep_until(uint64_t when)
{
	struct timespec at = {(time_t)(when / NS_PER_S), (long)(when % NS_PER_S)};
	if (!stopped)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void client_init(struct client *client, struct thread *thread, uint32_t number)
{
	const struct options *options = &thread->load->options;
	client->endpoint = (struct endpoint){ENDPOINT_CLIENT, -1};
	client->thread = thread;
	client->number = number;
	client->variant = number % options->variants;
	client->slow = options->read_rate > 0 && number < options->slow;
	client->expected = memory_new(options->batches * sizeof *client->expected);
}

static void load_init(struct load *load)
{
	const struct options *options = &load->options;
	CHECK(getrandom(&load->run, sizeof load->run, 0) == (ssize_t)sizeof load->run);
	requests_make(load);
	load->threads = memory_new(options->threads * sizeof *load->threads);
	for (uint32_t i = 0; i < options->threads; i++) {
		struct thread *thread = &load->threads[i];
		thread->load = load;
		thread->epoll = epoll_create1(EPOLL_CLOEXEC);
		CHECK(thread->epoll >= 0);
		list_init(&thread->cancels);
		thread->read = memory_new(LOAD_READ_SIZE);
		thread->client_count = options->clients / options->threads +
		                       (i < options->clients % options->threads ? 1 : 0);
		thread->clients = memory_new(thread->client_count * sizeof *thread->clients);
		for (uint32_t k = 0; k < thread->client_count; k++)
			client_init(&thread->clients[k], thread, i + k * options->threads);
	}
}

static void load_fini(struct load *load)
{
	for (uint32_t i = 0; i < load->options.threads; i++) {
		struct thread *thread = &load->threads[i];
		for (uint32_t k = 0; k < thread->client_count; k++) {
			buffer_fini(&thread->clients[k].held);
			buffer_fini(&thread->clients[k].out);
			free(thread->clients[k].expected);
		}
		free(thread->clients);
		free(thread->read);
		timers_fini(&thread->timers);
		close(thread->epoll);
	}
	free(load->threads);
	requests_free(load);
}

static void phase_set(struct load *load, enum phase phase)
{
	__atomic_store_n(&load->phase, (int)phase, __ATOMIC_RELEASE);
}

static void load_ramp(struct load *load)
{
	uint64_t end = clock_now() + (uint64_t)(load->options.timeout * NS_PER_S);
	uint32_t ready = 0;
	while (!stopped && ready < load->options.clients && clock_now() < end) {
		sleep_until(clock_now() + RAMP_STEP_NS);
		ready = __atomic_load_n(&load->ready, __ATOMIC_RELAXED);
	}
	if (ready < load->options.clients)
		fprintf(stderr, "load: only %u of %u clients have logged in\n", ready,
		        load->options.clients);
}

static void load_measure(struct load *load, struct snapshot *first, struct snapshot *last)
{
	static struct snapshot before;
	const struct options *options = &load->options;
	sleep_until(clock_now() + (uint64_t)(options->warmup * NS_PER_S));
	snapshot_take(first, load);
	puts("measuring"); /* for who wants to look at other things at the same time */
	fflush(stdout);
	for (uint32_t i = 0; i < options->threads; i++)
		for (uint32_t k = 0; k < load->threads[i].client_count; k++) {
			struct client *client = &load->threads[i].clients[k];
			client->done_before = counter_read(&client->done);
		}
	before = *first;
	uint64_t end = first->at + (uint64_t)(options->seconds * NS_PER_S);
	uint64_t step = (uint64_t)(options->progress * NS_PER_S);
	do {
		sleep_until(step == 0 ? end : MIN(end, before.at + step));
		snapshot_take(last, load);
		if (step > 0)
			report_progress(load, &before, last);
		before = *last;
	} while (!stopped && last->at < end);
}

int main(int argc, char **argv)
{
	static struct load load;
	static struct snapshot first, last;
	options_read(&load.options, argc, argv);
	const struct options *options = &load.options;
	if (!socket_address_read(&load.address, options->host, options->port, options->unix_path)) {
		fprintf(stderr, "load: --host wants a numeric address\n");
		return 2;
	}
	files_allow_many();
	signal(SIGPIPE, SIG_IGN);
	struct sigaction action = {.sa_handler = on_signal};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	load_init(&load);
	for (uint32_t i = 0; i < options->threads; i++)
		CHECK(pthread_create(&load.threads[i].handle, NULL, thread_run, &load.threads[i]) ==
		      0);
	load_ramp(&load);
	counter_add(&load.run_began, clock_now());
	phase_set(&load, PHASE_RUN);
	load_measure(&load, &first, &last);
	phase_set(&load, PHASE_DRAIN);
	for (uint32_t i = 0; i < options->threads; i++)
		pthread_join(load.threads[i].handle, NULL);
	bool right = report_end(&load, &first, &last);
	bool idle = last.counts[COUNT_TRANSACTIONS] == 0;
	load_fini(&load);
	return right ? (idle ? 2 : 0) : 1;
}
