/* load_options.c - the command line of the load generator. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

static const char *const mode_names[] = {"simple",   "extended", "prepared", "transaction",
                                         "pipeline", "churn",    "bulk"};

const char *mode_name(enum load_mode mode)
{
	return mode_names[mode];
}

static const char usage_text[] =
	"load: makes load for a PostgreSQL server or pooler, and checks every answer\n\n"
	"  --host A --port N    where to connect (127.0.0.1, 6432); --unix PATH instead\n"
	"  --user --database --password TEXT        (bench, bench, stub)\n"
	"  --mode MODE          simple, extended, prepared (a named statement per client),\n"
	"                       transaction (BEGIN, 3 queries, COMMIT), pipeline, churn,\n"
	"                       bulk\n"
	"  --clients N          (8)\n"
	"  --threads N          (1)\n"
	"  --seconds S          (5); --warmup S before it, not measured (0)\n"
	"  --rate N             units/s of all clients together, at fixed times; latency\n"
	"                       counts from the time a unit should have begun (closed loop)\n"
	"  --batches K          of a pipeline in one write (10)\n"
	"  --variants N         different texts under the name of the prepared statement (1)\n"
	"  --size B --rows N    of a bulk answer (1000, 1000)\n"
	"  --read-rate B/S      clients read no faster; --slow N: only N of them (all)\n"
	"  --vanish PERCENT     of units: the client is gone in the middle, by FIN or RST\n"
	"  --cancel PERCENT     of units: a cancel request on another connection\n"
	"  --timeout S          an answer that takes longer is lost (10)\n"
	"  --pid PID            measure the CPU time of this process, too\n"
	"  --progress S         time between two lines, 0: none (1)\n"
	"  --seed N             of all random choices (1)\n"
	"  --json FILE          the summary for programs\n\n"
	"Exit code 1: an answer was wrong, lost or double.  2: nothing was measured.\n";

_Noreturn static void usage(int code)
{
	fputs(usage_text, code == 0 ? stdout : stderr);
	exit(code);
}

/* A number from `least` on, whole where `out` is. */
static double number(const char *name, const char *text, double least, double most)
{
	char *end;
	errno = 0;
	double value = strtod(text, &end);
	if (errno != 0 || end == text || *end != '\0' || !(value >= least && value <= most)) {
		fprintf(stderr, "load: --%s wants a number from %g to %g\n", name, least, most);
		exit(2);
	}
	return value;
}

static uint32_t whole(const char *name, const char *text, uint32_t least)
{
	return (uint32_t)number(name, text, least, INT32_MAX);
}

static enum load_mode mode_read(const char *text)
{
	for (uint32_t i = 0; i < ARRAY_LEN(mode_names); i++)
		if (strcmp(text, mode_names[i]) == 0)
			return (enum load_mode)i;
	usage(2);
}

static const struct option known[] = {
	{"host", required_argument, NULL, 'h'},
	{"port", required_argument, NULL, 'p'},
	{"unix", required_argument, NULL, 'u'},
	{"user", required_argument, NULL, 'U'},
	{"database", required_argument, NULL, 'd'},
	{"password", required_argument, NULL, 'w'},
	{"mode", required_argument, NULL, 'm'},
	{"clients", required_argument, NULL, 'c'},
	{"threads", required_argument, NULL, 't'},
	{"seconds", required_argument, NULL, 's'},
	{"warmup", required_argument, NULL, 'W'},
	{"rate", required_argument, NULL, 'r'},
	{"batches", required_argument, NULL, 'k'},
	{"variants", required_argument, NULL, 'V'},
	{"size", required_argument, NULL, 'z'},
	{"rows", required_argument, NULL, 'n'},
	{"read-rate", required_argument, NULL, 'R'},
	{"slow", required_argument, NULL, 'S'},
	{"vanish", required_argument, NULL, 'v'},
	{"cancel", required_argument, NULL, 'C'},
	{"timeout", required_argument, NULL, 'T'},
	{"pid", required_argument, NULL, 'i'},
	{"progress", required_argument, NULL, 'g'},
	{"seed", required_argument, NULL, 'e'},
	{"json", required_argument, NULL, 'j'},
	{"help", no_argument, NULL, '?'},
	{NULL, 0, NULL, 0},
};

static void option_set(struct options *options, int option, const char *name, const char *value)
{
	switch (option) {
	case 'h': options->host = value; break;
	case 'u': options->unix_path = value; break;
	case 'U': options->user = value; break;
	case 'd': options->database = value; break;
	case 'w': options->password = value; break;
	case 'j': options->json = value; break;
	case 'm': options->mode = mode_read(value); break;
	case 'p': options->port = (uint32_t)number(name, value, 1, UINT16_MAX); break;
	case 'c': options->clients = (uint32_t)number(name, value, 1, 0xffffff); break;
	case 't': options->threads = (uint32_t)number(name, value, 1, 1024); break;
	case 'k': options->batches = (uint32_t)number(name, value, 1, 10000); break;
	case 'V': options->variants = (uint32_t)number(name, value, 1, 1000000); break;
	case 'z': options->size = whole(name, value, 0); break;
	case 'n': options->rows = whole(name, value, 0); break;
	case 'S': options->slow = whole(name, value, 0); break;
	case 'i': options->pid = (int)whole(name, value, 0); break;
	case 's': options->seconds = number(name, value, 0.01, 1e6); break;
	case 'W': options->warmup = number(name, value, 0, 1e6); break;
	case 'r': options->rate = number(name, value, 0, 1e9); break;
	case 'R': options->read_rate = (uint64_t)number(name, value, 1, 1e12); break;
	case 'v': options->vanish = number(name, value, 0, 100); break;
	case 'C': options->cancel = number(name, value, 0, 100); break;
	case 'T': options->timeout = number(name, value, 0.01, 1e6); break;
	case 'g': options->progress = number(name, value, 0, 1e6); break;
	case 'e': options->seed = (uint64_t)number(name, value, 0, 1e15); break;
	default: usage(optopt == 0 ? 0 : 2);
	}
}

void options_read(struct options *options, int argc, char **argv)
{
	*options = (struct options){
		.host = "127.0.0.1",
		.port = 6432,
		.user = "bench",
		.database = "bench",
		.password = "stub",
		.clients = 8,
		.threads = 1,
		.batches = 10,
		.variants = 1,
		.size = 1000,
		.rows = 1000,
		.slow = UINT32_MAX,
		.seconds = 5,
		.timeout = 10,
		.progress = 1,
		.seed = 1,
	};
	int index = 0;
	for (int option; (option = getopt_long(argc, argv, "", known, &index)) != -1;)
		option_set(options, option, known[index].name, optarg);
	if (optind < argc)
		usage(2);
	options->threads = MIN(options->threads, options->clients);
}
