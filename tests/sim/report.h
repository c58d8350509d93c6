/*
 * report.h - the trace of a run, and how a run fails.
 *
 * Every event of the virtual world goes through trace(): two runs of a seed
 * are the same run iff their hashes are equal.  The last events and the last
 * log lines of the product are kept for the report of a failure.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_REPORT_H
#define TESTS_SIM_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* `what` is a literal; a and b must not depend on addresses of memory. */
void trace(const char *what, uint64_t a, uint64_t b);
uint64_t trace_hash(void);
uint64_t trace_count(void);

/* Prints events as they come, too. */
void trace_aloud(bool aloud);

/* For whoever reads that: names and texts, of which only the front is printed. */
void trace_words(const char *what, uint64_t a, char type, const char *name, const char *text);

/* Words printed with every failure: how to run this again. */
void report_open(const char *replay);

/* The last log lines of the product (tests/sim/log.c). */
void report_log(const char *line);

/* Prints the reason, the last events and log lines, and ends the process. */
__attribute__((format(printf, 1, 2))) _Noreturn void sim_fail(const char *format, ...);

#define SIM_CHECK(cond, ...)                   \
	do {                                   \
		if (!(cond))                   \
			sim_fail(__VA_ARGS__); \
	} while (0)

#endif
