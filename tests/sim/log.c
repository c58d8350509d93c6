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
	return (int)level <= (int)LOG_LOG_ + log_verbose;
}

void log_line(enum log_level level, const char *format, ...)
{
	static const char *const names[] = {"FATAL", "ERROR", "WARNING", "LOG", "DEBUG", "NOISE"};
	char text[300];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	char line[320];
	snprintf(line, sizeof line, "%s %s", names[level], text);
	report_log(line);
}

uint64_t log_dropped(void)
{
	return 0;
}
