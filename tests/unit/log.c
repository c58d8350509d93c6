/*
 * Lines for the operator: their form, levels, reopening, and that a full pipe
 * makes nobody wait.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/unit-log-XXXXXX";
static int file; /* the same one, to be cut short between two checks */
static char bytes[1 << 20];

static char *file_text(const char *name)
{
	int fd = open(name, O_RDONLY);
	cr_assert(fd >= 0);
	ssize_t size = read(fd, bytes, sizeof(bytes) - 1);
	cr_assert(size >= 0);
	bytes[size] = '\0';
	close(fd);
	return bytes;
}

static void file_open(int verbose)
{
	cr_assert(log_open(&(struct log_options){.logfile = path, .verbose = verbose}));
}

static bool matches(const char *text, const char *pattern)
{
	regex_t regex;
	cr_assert_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	bool result = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	return result;
}

static void *say_many(void *context)
{
	for (int i = 0; i < 500; i++)
		log_info("thread %s line %d", (const char *)context, i);
	return NULL;
}

static void form_check(void)
{
	char pattern[256];
	errno = EAGAIN;
	log_info("process up: %d", 7);
	cr_assert_eq(errno, EAGAIN, "errno stays as it was");
	snprintf(pattern, sizeof(pattern),
	         "^20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} UTC \\[%d\\] "
	         "LOG process up: 7\n$",
	         (int)getpid());
	cr_assert(matches(file_text(path), pattern), "%s", bytes);
}

/* levels */
static void levels_check(void)
{
	cr_assert_eq(ftruncate(file, 0), 0);
	log_fatal("a");
	log_error("b");
	log_warning("c");
	log_debug("not shown");
	log_set_verbose(1);
	log_debug("d");
	log_line(LOG_LEVEL_NOISE, "not shown");
	log_set_verbose(2);
	log_line(LOG_LEVEL_NOISE, "e");
	cr_assert(matches(file_text(path), "^[^\n]* FATAL a\n[^\n]* ERROR b\n[^\n]* WARNING c\n"
	                                   "[^\n]* DEBUG d\n[^\n]* NOISE e\n$"),
	          "%s", bytes);
	cr_assert(log_shows(LOG_LEVEL_NOISE));
	log_set_verbose(0);
	cr_assert(!log_shows(LOG_LEVEL_DEBUG) && log_shows(LOG_LEVEL_LOG));
}

/* newlines, and too much of everything */
static void size_check(void)
{
	char text[3000];
	cr_assert_eq(ftruncate(file, 0), 0);
	log_info("one\ntwo\n");
	cr_assert_str_eq(strstr(file_text(path), "LOG"), "LOG one\n\ttwo\n");
	cr_assert_eq(ftruncate(file, 0), 0);
	memset(text, '\n', sizeof(text) - 1);
	text[0] = text[sizeof(text) - 2] = 'x';
	text[sizeof(text) - 1] = '\0';
	log_info("%s", text);
	memset(text, 'y', sizeof(text) - 1);
	log_info("%s", text);
	file_text(path);
	cr_assert(strlen(bytes) > 2000 && strlen(bytes) < 5200);
	cr_assert_eq(bytes[strlen(bytes) - 1], '\n');
}

__attribute__((format(printf, 1, 2))) static void say_of(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	const struct log_session of = {
		"C-", (const void *)0x7f00abc0, "db", "us er", "[::1]:5",
	};
	log_session(LOG_LEVEL_WARNING, &of, format, arguments);
	va_end(arguments);
}

/* lines of sessions, and newlines where a line is cut */
static void session_check(void)
{
	char text[3000];
	cr_assert_eq(ftruncate(file, 0), 0);
	say_of("closing because: %s (age=%llus)", "it\nis", 7ULL);
	cr_assert_str_eq(
		strstr(file_text(path), "WARNING"),
		"WARNING C-0x7f00abc0: db/us er@[::1]:5 closing because: it\n\tis (age=7s)\n");
	/* a tab wherever a newline is, and never more than a line holds */
	for (int at = 2000; at < 2600; at += 7) {
		cr_assert_eq(ftruncate(file, 0), 0);
		memset(text, '\n', sizeof text);
		text[0] = 'x';
		text[at % 40 + 1] = 'y';
		text[at] = 'z';
		text[at + 1] = '\0';
		say_of("%s", text);
		file_text(path);
		size_t size = strlen(bytes);
		cr_assert(bytes[size - 1] == '\n' && size < 2560, "%d: %zu", at, size);
		for (size_t i = 0; i + 1 < size; i++)
			cr_assert(bytes[i] != '\n' || bytes[i + 1] == '\t', "%d: at %zu", at, i);
	}
}

/* rotation: the old file is renamed, the new one has what comes then */
static void rotation_check(void)
{
	char moved[64];
	snprintf(moved, sizeof(moved), "%s.1", path);
	cr_assert_eq(ftruncate(file, 0), 0);
	log_info("before");
	cr_assert_eq(rename(path, moved), 0);
	log_info("between");
	cr_assert(log_reopen());
	log_info("after");
	cr_assert(strstr(file_text(moved), "between") != NULL);
	cr_assert(strstr(bytes, "after") == NULL);
	cr_assert(matches(file_text(path), "^[^\n]*LOG after\n$"));
	cr_assert_eq(log_dropped(), 0);
	unlink(moved);

	/* a file that cannot be opened leaves the one there is */
	cr_assert(!log_open(&(struct log_options){.logfile = "/nowhere/x"}));
	log_info("still");
	cr_assert(strstr(file_text(path), "still") != NULL);
}

/* threads and a reopening in their midst: whole lines, none lost */
static void threads_check(void)
{
	pthread_t threads[3];
	static char names[3][2] = {"a", "b", "c"};
	cr_assert_eq(truncate(path, 0), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, say_many, names[i]), 0);
	for (int i = 0; i < 50; i++)
		cr_assert(log_reopen());
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	int count = 0;
	for (char *line = strtok(file_text(path), "\n"); line != NULL; line = strtok(NULL, "\n")) {
		cr_assert(matches(line, "^20.* LOG thread [abc] line [0-9]+$"), "%s", line);
		count++;
	}
	cr_assert_eq(count, 1500);
}

Test(log, lines)
{
	file = mkstemp(path);
	cr_assert(file >= 0);
	setenv("TZ", "UTC", 1);
	file_open(0);
	form_check();
	levels_check();
	size_check();
	session_check();
	rotation_check();
	threads_check();
	log_close();
	log_info("nobody hears it");
	cr_assert(strstr(file_text(path), "nobody") == NULL);
	close(file);
	unlink(path);
}

Test(log, pipe)
{
	int ends[2], saved = dup(STDERR_FILENO);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	cr_assert(log_open(&(struct log_options){.to_stderr = true}));
	log_warning("first");
	ssize_t size = read(ends[0], bytes, sizeof(bytes) - 1);
	cr_assert(size > 0);
	bytes[size] = '\0';
	cr_assert(matches(bytes, "WARNING first\n$"));
	cr_assert_eq(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0, "others' descriptor untouched");

	/* nobody reads: lines are dropped, and counted */
	for (int i = 0; i < 3000; i++)
		log_info("%0100d", i);
	cr_assert(log_dropped() > 0 && log_dropped() < 3000);
	uint64_t dropped = log_dropped();
	log_close();
	log_info("not counted");
	cr_assert_eq(log_dropped(), dropped);

	/* after log_close() only this test holds the pipe: its reader sees the end */
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	while ((size = read(ends[0], bytes, sizeof(bytes))) > 0)
		;
	cr_assert_eq(size, 0);
	close(ends[0]);
}
