/*
 * main.c - runs of the simulator.
 *
 *	sim --seeds N [--first S]   N seeds from S on, each in a process of its own
 *	sim --total N               N seeds over all profiles
 *	sim --seed S                one seed, here; --aloud prints every event
 *	    --profile NAME          which faults (default: all in turn)
 *	    --drive self|relay|core what is tested
 *	    --ops N --clients N --workers N --pool N
 *	    --twice                 each seed twice: the hashes must be equal
 *
 * A seed decides everything.  The first failure ends the run and prints how to
 * see it again.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/client.h"
#include "tests/sim/drive.h"
#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/limits.h"

/* clang-format off */
static const struct faults profiles[] = {
	{.name = "none", .latency_us = 300, .window = 65536},
	{.name = "partial", .latency_us = 4000, .window = 4096, .cut = 400000, .delay = 200000,
	 .delay_us = 3000, .early_end = 50000, .buffers = 12, .client_stall = 10000},
	{.name = "errors", .latency_us = 1000, .window = 32768, .cut = 50000, .delay = 50000,
	 .delay_us = 2000, .early_end = 10000, .op_error = 3000, .refuse = 5000},
	{.name = "vanish", .latency_us = 1000, .window = 16384, .cut = 50000, .delay = 50000,
	 .delay_us = 1000, .client_vanish = 60000, .server_vanish = 4000, .refuse = 5000},
	{.name = "leave", .latency_us = 1000, .window = 16384, .cut = 50000, .delay = 50000,
	 .delay_us = 1000, .client_vanish = 80000, .client_stall = 5000},
	{.name = "cancel", .latency_us = 1000, .window = 32768, .cut = 20000, .delay = 50000,
	 .delay_us = 2000, .client_cancel = 250000},
	{.name = "mail", .latency_us = 500, .window = 32768, .delay = 100000, .delay_us = 1000,
	 .client_vanish = 5000, .client_cancel = 30000, .uneven = true},
	{.name = "storm", .latency_us = 3000, .window = 8192, .cut = 200000, .delay = 100000,
	 .delay_us = 3000, .early_end = 20000, .op_error = 1000, .refuse = 3000, .buffers = 24,
	 .client_vanish = 20000, .server_vanish = 1000, .client_cancel = 50000,
	 .client_stall = 5000, .uneven = true},
	{.name = "prepared", .latency_us = 1000, .window = 16384, .cut = 200000, .delay = 50000,
	 .delay_us = 1000, .early_end = 5000, .client_vanish = 3000, .client_cancel = 10000,
	 .named = true},
};
/* clang-format on */

static const struct drive *const drives[] = {
	&drive_self,
	&drive_relay,
#ifdef SIM_CORE
	&drive_core,
#endif
};

struct options {
	struct plan plan;
	const char *profile;
	uint64_t first, seeds;
	bool one, aloud, twice;
};

struct outcome {
	uint64_t hash, events, virtual_us;
	struct check_counts counts;
};

enum {
	STILL_MAX_US = 200 * 1000000, /* no client waits longer for a sign of life */
	RUN_MAX_US = 2000 * 1000000,
	WATCHDOG_S = 120,             /* of real time, for a seed */
	UNDER_WAY_SLACK = 160 * 1024, /* receive buffers of a turn, a cancel under way */

	/* Where operations fail: what servers still send to a client whose conn has failed,
	 * until its receive is canceled, which may be delayed.  It is dropped, not kept. */
	FAILED_SLACK = 512 * 1024,
};

static struct addr addr_of(uint32_t ip, uint16_t port)
{
	struct addr addr = {.size = sizeof addr.v4};
	addr.v4.sin_family = AF_INET;
	addr.v4.sin_addr.s_addr = htonl(ip);
	addr.v4.sin_port = htons(port);
	return addr;
}

static struct postgres postgres;
static struct clients clients;

static void stuck(const struct drive *drive, const char *why)
{
	clients_print(&clients);
	postgres_print(&postgres);
	drive->print();
	sim_fail("liveness: %s, %u of %u clients done", why, clients.done, clients.count);
}

static void clients_run(const struct drive *drive)
{
	while (clients.done < clients.count || clients.cancelers > 0) {
		bool any = world_run();
		any |= drive->step();
		if (!any) {
			uint64_t next = MIN(world_next_us(), drive->next_us());
			if (next == UINT64_MAX)
				stuck(drive, "nothing will ever happen again");
			world_advance(MAX(next, world.now_us + 1));
		}
		if (clients_slowest_us(&clients) > STILL_MAX_US)
			stuck(drive, "a client waits too long");
		if (world.now_us - world.start_us > RUN_MAX_US)
			stuck(drive, "the run does not end");
	}
}

static const struct drive *drive_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(drives); i++)
		if (strcmp(drives[i]->name, name) == 0)
			return drives[i];
	fprintf(stderr, "no drive %s\n", name);
	exit(2);
}

static void run(const struct plan *plan, bool aloud, struct outcome *outcome)
{
	const struct drive *drive = drive_find(plan->drive);
	bool is_direct = drive == &drive_self;
	char replay[200];
	snprintf(replay, sizeof replay,
	         "--drive %s --profile %s --seed %" PRIu64
	         " --ops %u --clients %u --workers %u --pool %u",
	         plan->drive, plan->faults->name, plan->seed, plan->operations, plan->clients,
	         plan->workers, plan->pool_size);
	struct addr front = addr_of(0x0a000001, 6432);
	struct addr back = addr_of(0x0a000002, 5432);
	report_open(replay);
	trace_aloud(aloud);
	world_open(plan->seed, plan->faults);
	check_open(2 * plan->faults->window + CONN_QUEUE_HIGH + UNDER_WAY_SLACK +
	           (plan->faults->op_error > 0 ? FAILED_SLACK : 0));
	postgres_open(&postgres, &back, plan->seed);
	memset(&clients, 0, sizeof clients);
	drive->open(plan, &front, &back);
	if (strcmp(plan->drive, "core") == 0) {
		postgres.limit_pool = plan->pool_size + plan->reserve;
		postgres.limit_user = plan->limit_user;
		postgres.limit_database = plan->limit_database;
		postgres.wants_reset = plan->session_mode;
		postgres.limit_prepared = plan->session_mode ? 0 : plan->prepared;
		clients.pooled = !plan->session_mode;
		postgres.strict = plan->faults->op_error == 0 && plan->faults->server_vanish == 0;
	}
	clients.users = plan->users;
	clients.databases = plan->databases;
	clients_open(&clients, plan->clients, is_direct ? &back : &front, plan->seed,
	             (int32_t)plan->operations);
	clients_run(drive);
	world.calm = true;
	drive->settle(&postgres);
	drive->close();
	clients_close(&clients);
	postgres_close(&postgres);
	world_run();
	SIM_CHECK(world.wires_open == 0 || plan->faults->refuse > 0, "%u wires left",
	          world.wires_open);
	*outcome = (struct outcome){trace_hash(), trace_count(), world.now_us - world.start_us,
	                            check_counts};
	world_close();
	check_close();
}

/* In a child, so that a crash, a leak or an endless loop has a seed. */
static bool run_apart(const struct plan *plan, struct outcome *outcome)
{
	int ends[2];
	if (pipe(ends) != 0)
		return false;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		alarm(WATCHDOG_S);
		run(plan, false, outcome);
		ssize_t written = write(ends[1], outcome, sizeof *outcome);
		exit(written == (ssize_t)sizeof *outcome ? 0 : 3);
	}
	close(ends[1]);
	ssize_t got = read(ends[0], outcome, sizeof *outcome);
	close(ends[0]);
	int status = 0;
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == (ssize_t)sizeof *outcome)
		return true;
	fprintf(stderr, "seed %" PRIu64 " of %s %s: %s %d\n", plan->seed, plan->drive,
	        plan->faults->name, WIFSIGNALED(status) ? "signal" : "exit",
	        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	fprintf(stderr,
	        "sim --drive %s --profile %s --seed %" PRIu64
	        " --ops %u --clients %u --workers %u --pool %u\n",
	        plan->drive, plan->faults->name, plan->seed, plan->operations, plan->clients,
	        plan->workers, plan->pool_size);
	return false;
}

static void counts_add(struct check_counts *sum, const struct check_counts *counts)
{
	uint64_t most = sum->prepared_most > counts->prepared_most ? sum->prepared_most
	                                                           : counts->prepared_most;
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)counts;
	for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
		to[i] += from[i];
	sum->prepared_most = most;
}

static void outcome_print(const struct outcome *outcome)
{
	const struct check_counts *counts = &outcome->counts;
	printf("  %" PRIu64 " events, %.1f virtual s, hash %016" PRIx64 "\n", outcome->events,
	       (double)outcome->virtual_us / 1e6, outcome->hash);
	printf("  sessions %" PRIu64 " vanished %" PRIu64 " lost %" PRIu64 ", batches %" PRIu64
	       ", statements %" PRIu64 " answered %" PRIu64 " errors %" PRIu64 "\n",
	       counts->sessions, counts->vanished, counts->killed, counts->batches,
	       counts->statements, counts->answered, counts->failed);
	printf("  parses %" PRIu64 " binds %" PRIu64 " prepared at most %" PRIu64 "\n",
	       counts->parses, counts->binds, counts->prepared_most);
	printf("  cancels %" PRIu64 " hit %" PRIu64 ", copies %" PRIu64 ", servers %" PRIu64
	       " died %" PRIu64 ", own queries %" PRIu64 "\n",
	       counts->cancels, counts->canceled, counts->copies, counts->server_logins,
	       counts->died, counts->own_queries);
}

/* Several workers that lend each other few servers, on which there is place for
 * few statements; every fourth run has servers that die. */
static void named_plan(const struct options *options, struct plan *plan, struct rng *rng)
{
	static struct faults faults;
	faults = *plan->faults;
	uint32_t workers = 2 + rng_below(rng, 3);
	uint32_t pool_size = 1 + rng_below(rng, 4);
	uint32_t count = pool_size + 2 + rng_below(rng, 16);
	plan->workers = options->plan.workers != 0 ? options->plan.workers : workers;
	plan->pool_size = options->plan.pool_size != 0 ? options->plan.pool_size : pool_size;
	plan->clients = options->plan.clients != 0 ? options->plan.clients : count;
	plan->session_mode = rng_below(rng, 12) == 0;
	plan->prepared = 1 + rng_below(rng, 8);
	plan->prepare_unnamed = rng_below(rng, 3) == 0;
	if (rng_below(rng, 4) == 0)
		faults.server_vanish = 500;
	if (rng_below(rng, 3) == 0)
		faults.cut = faults.early_end = faults.delay = 0;
	plan->faults = &faults;
}

/* Numbers that a run does not set come from its seed. */
static struct plan plan_of(const struct options *options, const struct faults *faults,
                           uint64_t seed)
{
	struct plan plan = options->plan;
	struct rng rng = rng_make(seed, 7);
	plan.faults = faults;
	plan.postgres = &postgres;
	plan.seed = seed;
	/* drawn in any case, so that setting one does not change the others */
	uint32_t workers = 1 + rng_below(&rng, 4);
	uint32_t pool_size = 1 + rng_below(&rng, rng_below(&rng, 2) == 0 ? 3 : 12);
	uint32_t count = 1 + rng_below(&rng, 30);
	plan.workers = plan.workers != 0 ? plan.workers : workers;
	plan.pool_size = plan.pool_size != 0 ? plan.pool_size : pool_size;
	plan.clients = plan.clients != 0 ? plan.clients : count;
	plan.users = 1 + rng_below(&rng, 4) / 3;
	plan.databases = 1 + rng_below(&rng, 3) / 2;
	if (rng_below(&rng, 3) == 0)
		plan.limit_user = 1 + rng_below(&rng, plan.pool_size + 2);
	if (rng_below(&rng, 3) == 0)
		plan.limit_database = 1 + rng_below(&rng, plan.pool_size + 2);
	if (rng_below(&rng, 4) == 0)
		plan.reserve = 1 + rng_below(&rng, 2);
	plan.session_mode = rng_below(&rng, 5) == 0;
	if (faults->named)
		named_plan(options, &plan, &rng);
	return plan;
}

static bool profile_run(const struct options *options, const struct faults *faults)
{
	struct outcome sum = {0};
	for (uint64_t i = 0; i < options->seeds; i++) {
		struct plan plan = plan_of(options, faults, options->first + i);
		struct outcome outcome = {0}, again = {0};
		/* twice: both in a process of their own, the first leaves nothing behind */
		if (options->one && !options->twice)
			run(&plan, options->aloud, &outcome);
		else if (!run_apart(&plan, &outcome))
			return false;
		if (options->twice && (!run_apart(&plan, &again) || again.hash != outcome.hash)) {
			fprintf(stderr, "seed %" PRIu64 " of %s %s: two runs differ\n", plan.seed,
			        plan.drive, faults->name);
			return false;
		}
		sum.events += outcome.events;
		sum.virtual_us += outcome.virtual_us;
		sum.hash ^= outcome.hash;
		counts_add(&sum.counts, &outcome.counts);
	}
	printf("%s %s: %" PRIu64 " seeds from %" PRIu64 "\n", options->plan.drive, faults->name,
	       options->seeds, options->first);
	outcome_print(&sum);
	return true;
}

static void options_read(struct options *options, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *key = argv[i];
		if (strcmp(key, "--aloud") == 0) {
			options->aloud = true;
			continue;
		}
		if (strcmp(key, "--twice") == 0) {
			options->twice = true;
			continue;
		}
		const char *value = i + 1 < argc ? argv[++i] : "";
		uint64_t number = strtoull(value, NULL, 10);
		if (strcmp(key, "--seeds") == 0) {
			options->seeds = number;
		} else if (strcmp(key, "--total") == 0) {
			options->seeds = (number + ARRAY_LEN(profiles) - 1) / ARRAY_LEN(profiles);
		} else if (strcmp(key, "--first") == 0) {
			options->first = number;
		} else if (strcmp(key, "--seed") == 0) {
			options->first = number;
			options->seeds = 1;
			options->one = true;
		} else if (strcmp(key, "--profile") == 0) {
			options->profile = value;
		} else if (strcmp(key, "--drive") == 0) {
			options->plan.drive = value;
		} else if (strcmp(key, "--ops") == 0) {
			options->plan.operations = (uint32_t)number;
		} else if (strcmp(key, "--clients") == 0) {
			options->plan.clients = (uint32_t)number;
		} else if (strcmp(key, "--workers") == 0) {
			options->plan.workers = (uint32_t)number;
		} else if (strcmp(key, "--pool") == 0) {
			options->plan.pool_size = (uint32_t)number;
		} else {
			fprintf(stderr, "unknown option %s\n", key);
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = {
		.plan = {.drive = "self", .operations = 2000},
		.first = 1,
		.seeds = 20,
	};
	options_read(&options, argc, argv);
	bool found = false;
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		if (options.profile != NULL && strcmp(options.profile, profiles[i].name) != 0)
			continue;
		found = true;
		if (!profile_run(&options, &profiles[i]))
			return 1;
	}
	if (!found)
		fprintf(stderr, "no profile %s\n", options.profile);
	return found ? 0 : 2;
}
