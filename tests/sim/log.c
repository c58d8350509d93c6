/*
 * log.c - core/log.h for the simulator: lines are kept in memory for the
 * report of a failure (report.h), nothing is written.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/log.h"

#include "tests/sim/report.h"

#include <stdarg.h>
#include <stdio.h>

static int log_verbose;

bool log_open(const struct log_options *options)
{
	log_verbose = options->verbose;
	return true;
}

bool log_reopen(void)
{
	return true;
}

void log_close(void)
{
}

void log_set_verbose(int verbose)
{
	log_verbose = verbose;
}

bool log_shows(enum log_level level)
{
	return (int)level <= (int)LOG_LEVEL_LOG + log_verbose;
}

__attribute__((format(printf, 3, 0))) static void say(enum log_level level, const char *before,
                                                      const char *format, va_list args)
{
	static const char *const names[] = {"FATAL", "ERROR", "WARNING", "LOG", "DEBUG", "NOISE"};
	char line[560];
	char text[300];
	vsnprintf(text, sizeof text, format, args);
	snprintf(line, sizeof line, "%s %s%s", names[level], before, text);
	report_log(line);
}

void log_line(enum log_level level, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say(level, "", format, args);
	va_end(args);
}

void log_session(enum log_level level, const struct log_session *of, const char *format,
                 va_list arguments)
{
	char before[240];
	snprintf(before, sizeof before, "%s%p: %s/%s@%s ", of->kind, of->what, of->database,
	         of->user, of->peer);
	say(level, before, format, arguments);
}

uint64_t log_dropped(void)
{
	return 0;
}
