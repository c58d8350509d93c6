/*
 * report.c - see report.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/report.h"

#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_KEPT = 64, LINES_KEPT = 12, LINE_MAX_SIZE = 200 };

struct trace_event {
	uint64_t at_us;
	const char *what;
	uint64_t a, b;
};

static struct {
	uint64_t hash, count;
	bool aloud;
	struct trace_event kept[EVENTS_KEPT];
	char lines[LINES_KEPT][LINE_MAX_SIZE];
	uint64_t line_count;
	char replay[200];
} report;

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15U;
	return hash ^ hash >> 29;
}

static void event_print(FILE *out, const struct trace_event *event)
{
	fprintf(out, "  %12" PRIu64 " %-8s %" PRIu64 " %" PRId64 "\n", event->at_us, event->what,
	        event->a, (int64_t)event->b);
}

void trace(const char *what, uint64_t a, uint64_t b)
{
	uint64_t hash = mix(report.hash, world.now_us);
	for (const char *p = what; *p != '\0'; p++)
		hash = mix(hash, (uint64_t)(unsigned char)*p);
	report.hash = mix(mix(hash, a), b);
	struct trace_event *event = &report.kept[report.count++ % EVENTS_KEPT];
	*event = (struct trace_event){world.now_us, what, a, b};
	if (report.aloud)
		event_print(stdout, event);
}

void trace_words(const char *what, uint64_t a, char type, const char *name, const char *text)
{
	if (report.aloud)
		printf("  %12" PRIu64 " %-8s %" PRIu64 " %c \"%.40s\" %.60s\n", world.now_us, what,
		       a, type, name, text);
}

uint64_t trace_hash(void)
{
	return report.hash;
}

uint64_t trace_count(void)
{
	return report.count;
}

void trace_aloud(bool aloud)
{
	report.aloud = aloud;
}

void report_open(const char *replay)
{
	memset(&report, 0, sizeof report);
	snprintf(report.replay, sizeof report.replay, "%s", replay);
}

void report_log(const char *line)
{
	char *kept = report.lines[report.line_count++ % LINES_KEPT];
	snprintf(kept, LINE_MAX_SIZE, "%12" PRIu64 " %.180s", world.now_us, line);
	if (report.aloud)
		printf("%s\n", kept);
}

void sim_fail(const char *format, ...)
{
	va_list args;
	fflush(stdout);
	uint64_t from = report.count > EVENTS_KEPT ? report.count - EVENTS_KEPT : 0;
	for (uint64_t i = from; i < report.count; i++)
		event_print(stderr, &report.kept[i % EVENTS_KEPT]);
	from = report.line_count > LINES_KEPT ? report.line_count - LINES_KEPT : 0;
	for (uint64_t i = from; i < report.line_count; i++)
		fprintf(stderr, "  log %s\n", report.lines[i % LINES_KEPT]);
	fprintf(stderr, "FAILED at %" PRIu64 " us: ", world.now_us);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nagain: sim %s\n", report.replay);
	fflush(stderr);
	abort();
}
