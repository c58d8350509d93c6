/*
 * log.c - lines for the operator.
 *
 * A line is made on the stack of whoever says it and leaves by one write per
 * destination, so lines of several threads do not mix and nobody waits for a
 * lock.  The time's text changes once a second and is kept per thread.
 *
 * A destination keeps its descriptor for ever: another file is opened beside it
 * and put in its place by dup3(), a closed one is replaced by /dev/null.  A
 * pipe or terminal of ours is reached through a file description of our own,
 * because O_NONBLOCK on the one we inherited would reach into the shell that
 * started us; where the kernel does not open it anew, poll() asks first.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/text.h"

enum { MESSAGE_MAX = 2047, LINE_MAX_SIZE = 2560, DAY_MAX = 64, STAMP_MAX = 192 };

enum way {
	WAY_NONE,
	WAY_FILE,   /* write and wait: the line is on its way to the disk */
	WAY_OPENED, /* non-blocking by itself */
	WAY_ASKED,  /* poll, then write */
	WAY_SOCKET, /* send without waiting */
};

struct destination {
	_Atomic(enum way) way;
	atomic_int fd;
};

static struct destination to_stderr = {WAY_NONE, -1}, to_file = {WAY_NONE, -1};
static atomic_bool to_syslog;
static atomic_int verbosity;
static atomic_uint_least64_t dropped;
static char logfile[PATH_MAX];
static char syslog_idents[2][64]; /* syslog() may be reading the one before */

static const struct level {
	const char *word;
	int priority;
} levels[] = {
	[LOG_LEVEL_FATAL] = {"FATAL ", LOG_CRIT},        [LOG_LEVEL_ERROR] = {"ERROR ", LOG_ERR},
	[LOG_LEVEL_WARNING] = {"WARNING ", LOG_WARNING}, [LOG_LEVEL_LOG] = {"LOG ", LOG_INFO},
	[LOG_LEVEL_DEBUG] = {"DEBUG ", LOG_DEBUG},       [LOG_LEVEL_NOISE] = {"NOISE ", LOG_DEBUG},
};

/* ---- Destinations: changed by one thread at a time ---- */

static enum way way_of(int fd)
{
	struct stat stat;
	if (fstat(fd, &stat) != 0)
		return WAY_NONE;
	if (S_ISSOCK(stat.st_mode))
		return WAY_SOCKET;
	if (!S_ISFIFO(stat.st_mode) && !S_ISCHR(stat.st_mode))
		return WAY_FILE;
	return fcntl(fd, F_GETFL) & O_NONBLOCK ? WAY_OPENED : WAY_ASKED;
}

/* Puts `fd` into the destination's place; `fd` is gone afterwards. */
static bool destination_put(struct destination *to, int fd)
{
	int place = atomic_load(&to->fd);
	enum way way = way_of(fd);
	if (place < 0) {
		atomic_store(&to->fd, fd);
	} else {
		/* A writer that read the old way a moment ago must not wait on a pipe. */
		if (way != WAY_FILE)
			atomic_store(&to->way, way);
		int result = dup3(fd, place, O_CLOEXEC);
		close(fd);
		if (result < 0)
			return false;
	}
	atomic_store(&to->way, way);
	return true;
}

static void destination_stop(struct destination *to)
{
	atomic_store(&to->way, WAY_NONE);
	if (atomic_load(&to->fd) < 0)
		return;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && destination_put(to, fd))
		atomic_store(&to->way, WAY_NONE);
}

static bool stderr_open(void)
{
	int fd = -1;
	if (way_of(STDERR_FILENO) == WAY_ASKED)
		fd = open("/proc/self/fd/2",
		          O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return fd >= 0 && destination_put(&to_stderr, fd);
}

static bool file_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
	              0644);
	return fd >= 0 && destination_put(&to_file, fd);
}

static int facility_find(const char *word)
{
	static const struct facility {
		const char *word;
		int code;
	} facilities[] = {
		{"auth", LOG_AUTH},     {"authpriv", LOG_AUTHPRIV}, {"daemon", LOG_DAEMON},
		{"user", LOG_USER},     {"local0", LOG_LOCAL0},     {"local1", LOG_LOCAL1},
		{"local2", LOG_LOCAL2}, {"local3", LOG_LOCAL3},     {"local4", LOG_LOCAL4},
		{"local5", LOG_LOCAL5}, {"local6", LOG_LOCAL6},     {"local7", LOG_LOCAL7},
	};
	for (size_t i = 0; word != NULL && i < ARRAY_LEN(facilities); i++)
		if (strcasecmp(word, facilities[i].word) == 0)
			return facilities[i].code;
	return LOG_DAEMON; /* as PgBouncer does with words it does not know */
}

bool log_open(const struct log_options *options)
{
	const char *path = options->logfile == NULL ? "" : options->logfile;
	tzset();
	log_set_verbose(options->verbose);
	if (strlen(path) >= sizeof(logfile)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (path[0] != '\0' && !file_open(path))
		return false;
	if (path[0] == '\0')
		destination_stop(&to_file);
	snprintf(logfile, sizeof(logfile), "%s", path);
	if (!options->to_stderr)
		destination_stop(&to_stderr);
	else if (atomic_load(&to_stderr.way) == WAY_NONE)
		stderr_open(); /* none may be there: that is no reason not to run */
	atomic_store(&to_syslog, false);
	if (options->syslog) {
		static uint32_t turn;
		char *ident = syslog_idents[++turn % 2];
		snprintf(ident, sizeof(syslog_idents[0]), "%s",
		         options->syslog_ident == NULL ? "pgbouncer" : options->syslog_ident);
		openlog(ident, LOG_PID, facility_find(options->syslog_facility));
		atomic_store(&to_syslog, true);
	}
	return true;
}

bool log_reopen(void)
{
	return logfile[0] == '\0' || file_open(logfile);
}

void log_close(void)
{
	destination_stop(&to_stderr);
	destination_stop(&to_file);
	if (atomic_exchange(&to_syslog, false))
		closelog();
	logfile[0] = '\0';
}

void log_set_verbose(int verbose)
{
	atomic_store_explicit(&verbosity, verbose, memory_order_relaxed);
}

bool log_shows(enum log_level level)
{
	int verbose = atomic_load_explicit(&verbosity, memory_order_relaxed);
	return (int)level <= LOG_LEVEL_LOG + MAX(verbose, 0);
}

uint64_t log_dropped(void)
{
	return atomic_load_explicit(&dropped, memory_order_relaxed);
}

/* ---- A line: any thread ---- */

static void destination_write(struct destination *to, const char *line, size_t size)
{
	enum way way = atomic_load_explicit(&to->way, memory_order_acquire);
	int fd = atomic_load_explicit(&to->fd, memory_order_relaxed);
	if (way == WAY_NONE)
		return;
	struct pollfd asked = {.fd = fd, .events = POLLOUT};
	ssize_t written = -1;
	if (way != WAY_ASKED || poll(&asked, 1, 0) == 1) {
		do {
			written = way == WAY_SOCKET
			                  ? send(fd, line, size, MSG_DONTWAIT | MSG_NOSIGNAL)
			                  : write(fd, line, size);
		} while (written < 0 && errno == EINTR);
	}
	if (written != (ssize_t)size)
		atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
}

static atomic_int known_id; /* getpid() is a system call; 0: to be asked */

static void forget_id(void)
{
	atomic_store_explicit(&known_id, 0, memory_order_relaxed);
}

static int process_id(void)
{
	static atomic_flag watched = ATOMIC_FLAG_INIT;
	int id = atomic_load_explicit(&known_id, memory_order_relaxed);
	if (id != 0)
		return id;
	id = (int)getpid();
	/* a daemon's lines are those of the child */
	if (atomic_flag_test_and_set(&watched) || pthread_atfork(NULL, NULL, forget_id) == 0)
		atomic_store_explicit(&known_id, id, memory_order_relaxed);
	else
		atomic_flag_clear(&watched);
	return id;
}

/* "2026-07-10 12:00:00.123 UTC [4711] ", as of a second and a process. */
struct stamp {
	time_t second; /* 0: none yet */
	int process;
	size_t size, ms_at;
	char bytes[STAMP_MAX];
};

static void stamp_make(struct stamp *stamp, time_t second, int process)
{
	char day[DAY_MAX] = "", zone[DAY_MAX];
	struct tm parts;
	if (localtime_r(&second, &parts) == NULL ||
	    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &parts) == 0 ||
	    strftime(zone, sizeof zone, "%Z", &parts) == 0)
		text_set(zone, sizeof zone, "?");
	struct text text = {stamp->bytes, stamp->bytes + sizeof stamp->bytes};
	text_add_string(&text, day);
	stamp->ms_at = (size_t)(text.at - stamp->bytes) + 1;
	text_add(&text, ".000 ", 5);
	text_add_string(&text, zone);
	text_add(&text, " [", 2);
	text_add_number(&text, (uint64_t)process);
	text_add(&text, "] ", 2);
	stamp->size = (size_t)(text.at - stamp->bytes);
	stamp->second = second;
	stamp->process = process;
}

static void stamp_write(struct text *line)
{
	static _Thread_local struct stamp stamp;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int process = process_id();
	if (now.tv_sec != stamp.second || process != stamp.process)
		stamp_make(&stamp, now.tv_sec, process);
	unsigned ms = (unsigned)(now.tv_nsec / 1000000);
	char *digits = stamp.bytes + stamp.ms_at;
	digits[0] = (char)('0' + ms / 100);
	digits[1] = (char)('0' + ms / 10 % 10);
	digits[2] = (char)('0' + ms % 10);
	text_add(line, stamp.bytes, stamp.size);
}

/* The message at [from, line->at) gets a tab behind each newline inside of it, and loses
 * those at its end.  It ends with a zero byte that is not counted. */
static void message_indent(struct text *line, char *from)
{
	while (line->at > from && line->at[-1] == '\n')
		line->at--;
	char *at = from;
	while ((at = memchr(at, '\n', (size_t)(line->at - at))) != NULL && ++at < line->at) {
		line->at += line->at < line->end; /* else the last byte goes */
		memmove(at + 1, at, (size_t)(line->at - at) - 1);
		*at++ = '\t';
	}
	line->at -= line->at > from && line->at[-1] == '\n'; /* its tab did not fit */
	*line->at = '\0';
}

/* A line under way: the message begins at `message`. */
struct line {
	char bytes[LINE_MAX_SIZE];
	struct text text;
	char *message;
	enum log_level level;
};

static void line_begin(struct line *line, enum log_level level)
{
	line->level = level;
	/* behind the end there is room for the newline and the zero byte */
	line->text = (struct text){line->bytes, line->bytes + sizeof line->bytes - 2};
	stamp_write(&line->text);
	text_add_string(&line->text, levels[level].word);
	line->message = line->text.at;
}

__attribute__((format(printf, 2, 0))) static void line_end(struct line *line, const char *format,
                                                           va_list arguments)
{
	struct text *text = &line->text;
	size_t room = MIN((size_t)(text->end - text->at),
	                  MESSAGE_MAX - (size_t)(text->at - line->message));
	text->at += text_vformat(text->at, room + 1, format, arguments);
	message_indent(text, line->message);
	if (line->level <= LOG_LEVEL_LOG && atomic_load_explicit(&to_syslog, memory_order_relaxed))
		syslog(levels[line->level].priority, "%s", line->message);
	*text->at++ = '\n';
	size_t size = (size_t)(text->at - line->bytes);
	destination_write(&to_stderr, line->bytes, size);
	destination_write(&to_file, line->bytes, size);
}

void log_line(enum log_level level, const char *format, ...)
{
	if (!log_shows(level))
		return;
	int saved = errno;
	struct line line;
	va_list arguments;
	line_begin(&line, level);
	va_start(arguments, format);
	line_end(&line, format, arguments);
	va_end(arguments);
	errno = saved;
}

void log_session(enum log_level level, const struct log_session *of, const char *format,
                 va_list arguments)
{
	if (!log_shows(level))
		return;
	int saved = errno;
	struct line line;
	line_begin(&line, level);
	text_add_string(&line.text, of->kind);
	text_add_hex(&line.text, (uint64_t)(uintptr_t)of->what);
	text_add(&line.text, ": ", 2);
	text_add_string(&line.text, of->database);
	text_add(&line.text, "/", 1);
	text_add_string(&line.text, of->user);
	text_add(&line.text, "@", 1);
	text_add_string(&line.text, of->peer);
	text_add(&line.text, " ", 1);
	line_end(&line, format, arguments);
	errno = saved;
}
