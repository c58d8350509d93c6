/*
 * log.h - lines for the operator, in PgBouncer's format.
 *
 *	2026-07-10 12:00:00.123 UTC [4711] LOG process up: ...
 *
 * One write(2) per line and destination, before the client can see the effect.
 * Any thread.  A pipe or terminal is written non-blocking: a line it does not
 * take is dropped and counted.  Reopening dups onto the same descriptor, so a
 * writer in another thread never meets a closed one.  Never per query, and
 * never a secret.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_LOG_H
#define CORE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_FATAL,
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_LOG,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_NOISE
};

/* "" or NULL logfile: none.  False: the file could not be opened. */
struct log_options {
	bool to_stderr;
	const char *logfile;
	bool syslog;
	const char *syslog_facility, *syslog_ident;
	int verbose; /* 0: up to LOG, 1 DEBUG, 2 and more NOISE */
};
bool log_open(const struct log_options *options);
bool log_reopen(void);
void log_close(void);
void log_set_verbose(int verbose);
bool log_shows(enum log_level level);

/* A newline inside a message is followed by a tab. */
__attribute__((format(printf, 2, 3))) void log_line(enum log_level level, const char *format, ...);

/* The same of a client or server: "C-0x7f...: database/user@peer message". */
struct log_session {
	const char *kind; /* "C-", "S-" */
	const void *what;
	const char *database, *user, *peer;
};
__attribute__((format(printf, 3, 0))) void log_session(enum log_level level,
                                                       const struct log_session *of,
                                                       const char *format, va_list arguments);

/* Lines dropped so far. */
uint64_t log_dropped(void);

#define log_fatal(...)   log_line(LOG_LEVEL_FATAL, __VA_ARGS__)
#define log_error(...)   log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_LEVEL_LOG, __VA_ARGS__)
#define log_debug(...)                                          \
	do {                                                    \
		if (log_shows(LOG_LEVEL_DEBUG))                 \
			log_line(LOG_LEVEL_DEBUG, __VA_ARGS__); \
	} while (0)

#endif
