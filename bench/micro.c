/*
 * micro.c - options, timing and the table; see micro.h.
 *
 * A sample is as many rounds as take half a millisecond of CPU time: reading
 * the clock does not count in it, and some samples pass without an interrupt.
 * The best is what the code costs; the median tells how much else there was.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/micro.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/check.h"

enum { SAMPLES = 40, SAMPLES_MAX = 1000, SAMPLE_NS = 500 * 1000, NS_PER_SECOND = 1000000000 };

struct options {
	const char *only, *json;
	uint32_t samples;
	bool instructions;
};

struct result {
	double best, median; /* ns for a unit */
	double instructions; /* negative: not counted */
};

static uint64_t cpu_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t rounds_ns(const struct micro_row *row, uint32_t rounds)
{
	uint64_t before = cpu_ns();
	row->run(rounds);
	return cpu_ns() - before;
}

static uint32_t rounds_find(const struct micro_row *row)
{
	uint32_t rounds = 1;
	while (rounds < UINT32_MAX / 2 && rounds_ns(row, rounds) < SAMPLE_NS)
		rounds *= 2;
	return rounds;
}

static int compare(const void *left, const void *right)
{
	double a, b;
	memcpy(&a, left, sizeof a);
	memcpy(&b, right, sizeof b);
	return (a > b) - (a < b);
}

static struct result measure(const struct micro_row *row, const struct options *options)
{
	static double samples[SAMPLES_MAX];
	if (row->open != NULL)
		row->open();
	uint32_t rounds = rounds_find(row);
	for (uint32_t i = 0; i < options->samples; i++)
		samples[i] = (double)rounds_ns(row, rounds) / rounds / row->units;
	qsort(samples, options->samples, sizeof samples[0], compare);
	double steps = options->instructions ? micro_steps(row) : -1;
	if (row->close != NULL)
		row->close();
	return (struct result){samples[0], samples[options->samples / 2], steps / row->units};
}

static void result_print(const struct micro_row *row, const struct result *result)
{
	printf("%-44s %9.2f %8.0f%%", row->name, result->best,
	       100 * (result->median / result->best - 1));
	if (result->instructions < 0)
		printf(" %12s", "-");
	else
		printf(" %12.1f", result->instructions);
	printf("   %s\n", row->unit);
	fflush(stdout);
}

static void result_write(FILE *file, const struct micro_row *row, const struct result *result,
                         bool first)
{
	fprintf(file,
	        "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"ns\": %.3f, \"ns_median\": %.3f, "
	        "\"instructions\": ",
	        first ? "" : ",", row->name, row->unit, result->best, result->median);
	if (result->instructions < 0)
		fputs("null}", file);
	else
		fprintf(file, "%.2f}", result->instructions);
}

static void measure_all(const struct options *options, FILE *file)
{
	bool first = true;
	printf("%-44s %9s %9s %12s   %s\n", "", "ns, best", "median", "instructions", "each");
	for (size_t i = 0; i < micro_row_count; i++) {
		const struct micro_row *row = &micro_rows[i];
		if (fnmatch(options->only, row->name, 0) != 0)
			continue;
		struct result result = measure(row, options);
		result_print(row, &result);
		if (file != NULL)
			result_write(file, row, &result, first);
		first = false;
	}
}

static const char usage_text[] =
	"micro: what single steps of a transaction cost\n\n"
	"  --only PATTERN      rows whose name matches (*)\n"
	"  --samples N         of each row; the best one counts (40)\n"
	"  --no-instructions   do not count them: that takes a second for each row\n"
	"  --json FILE         the same for programs\n\n"
	"`median` is how far the median of all samples lies above the best.\n";

_Noreturn static void usage(int code)
{
	fputs(usage_text, code == 0 ? stdout : stderr);
	exit(code);
}

static struct options options_read(int argc, char **argv)
{
	static const struct option known[] = {
		{"only", required_argument, NULL, 'o'},
		{"samples", required_argument, NULL, 's'},
		{"no-instructions", no_argument, NULL, 'n'},
		{"json", required_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct options options = {.only = "*", .samples = SAMPLES, .instructions = true};
	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'o': options.only = optarg; break;
		case 's': options.samples = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'n': options.instructions = false; break;
		case 'j': options.json = optarg; break;
		default: usage(option == 'h' ? 0 : 2);
		}
	}
	if (optind < argc || options.samples == 0 || options.samples > SAMPLES_MAX)
		usage(2);
	return options;
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	FILE *file = NULL;
	if (options.json != NULL && (file = fopen(options.json, "w")) == NULL) {
		fprintf(stderr, "micro: %s: %s\n", options.json, strerror(errno));
		return 1;
	}
	if (file != NULL)
		fputs("{\"rows\": [", file);
	measure_all(&options, file);
	if (file != NULL) {
		fputs("\n]}\n", file);
		fclose(file);
	}
	return 0;
}
