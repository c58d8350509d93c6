/*
 * stub.c - options, sockets and the loop of the stand-in for PostgreSQL.
 *
 * Level-triggered epoll: one wait for all, then one recv and one send for
 * each request.  What epoll is asked for changes only when it must: a session
 * that sleeps goes on being watched until something really comes.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/stub.h"

#include "bench/socket.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/list.h"

enum { EVENTS_MAX = 256, BACKLOG = 4096, SCRAM_ITERATIONS = 4096 };

/* ----------------------------------------------------------------- sessions */

void session_watch(struct session *session, bool early)
{
	if (session->fd < 0)
		return;
	const struct run *run = &session->run;
	bool full = buffer_size(&session->out) > STUB_OUT_HIGH;
	bool input = session_takes(session) && !full;
	/* A session that has just begun to sleep is watched as before. */
	if (run->step == RUN_DELAYED && (session->events & EPOLLIN) != 0)
		input = !early;
	bool output = buffer_size(&session->out) > 0 || run->step == RUN_ROWS;
	struct epoll_event event = {.data.ptr = session};
	event.events = (input ? (uint32_t)EPOLLIN : 0) | (output ? (uint32_t)EPOLLOUT : 0);
	if (session->events != event.events)
		epoll_ctl(session->stub->epoll, EPOLL_CTL_MOD, session->fd, &event);
	session->events = event.events;
}

void session_close(struct session *session)
{
	struct stub *stub = session->stub;
	if (session->fd < 0)
		return;
	close(session->fd);
	session->fd = -1;
	timers_clear(&stub->timers, &session->timer);
	if (session->counted)
		stub->open--;
	stub->sessions[session->slot] = NULL;
	session->next_dead = stub->dead;
	stub->dead = session;
}

bool session_flush(struct session *session)
{
	while (session->fd >= 0 && buffer_size(&session->out) > 0) {
		ssize_t sent = send(session->fd, buffer_front(&session->out),
		                    buffer_size(&session->out), MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			return false;
		if (sent < 0) {
			session_close(session);
			return false;
		}
		buffer_take(&session->out, (size_t)sent);
	}
	if (session->fd >= 0 && session->ending)
		session_close(session);
	return session->fd >= 0;
}

static uint32_t session_slot(struct stub *stub)
{
	for (uint32_t i = 0; i < stub->slot_count; i++)
		if (stub->sessions[i] == NULL)
			return i;
	uint32_t slot = stub->slot_count;
	stub->slot_count = slot == 0 ? 64 : slot * 2;
	stub->sessions = memory_grow(stub->sessions, stub->slot_count * sizeof(struct session *));
	memset(stub->sessions + slot, 0, (stub->slot_count - slot) * sizeof(struct session *));
	return slot;
}

static void session_open(struct stub *stub, int fd)
{
	struct session *session = memory_new(sizeof *session);
	session->stub = stub;
	session->fd = fd;
	session->slot = session_slot(stub);
	session->events = EPOLLIN;
	CHECK(getrandom(&session->secret, sizeof session->secret, 0) ==
	      (ssize_t)sizeof session->secret);
	session_init(session);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = session};
	stub->sessions[session->slot] = session;
	if (epoll_ctl(stub->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		session_close(session);
}

static void stub_accept(struct stub *stub, int listener)
{
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if (stub->unix_path == NULL)
			socket_no_delay(fd);
		session_open(stub, fd);
	}
}

static void session_event(struct session *session, uint32_t events)
{
	if (session->fd < 0)
		return;
	if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
		session_close(session);
		return;
	}
	bool early = false;
	if ((events & EPOLLOUT) != 0 && session_flush(session)) {
		session_resume(session);
	} else if ((events & EPOLLIN) != 0 && session->fd >= 0) {
		early = !session_takes(session);
		if (!early)
			session_readable(session);
	}
	session_watch(session, early);
}

static void stub_bury(struct stub *stub)
{
	while (stub->dead != NULL) {
		struct session *session = stub->dead;
		stub->dead = session->next_dead;
		session_fini(session);
		free(session);
	}
}

/* --------------------------------------------------------------------- loop */

static void stub_timers(struct stub *stub)
{
	if (stub->timers.count == 0)
		return;
	struct timer *timer;
	uint64_t now = clock_now();
	while ((timer = timers_pop(&stub->timers, now)) != NULL) {
		struct session *session =
			(struct session *)(void *)((char *)timer - offsetof(struct session, timer));
		session_resume(session);
	}
}

static void stub_run(struct stub *stub, int listener)
{
	struct epoll_event events[EVENTS_MAX];
	struct timespec wait;
	for (;;) {
		uint64_t now = stub->timers.count > 0 ? clock_now() : 0;
		int count = epoll_pwait2(stub->epoll, events, EVENTS_MAX,
		                         timers_wait(&stub->timers, now, &wait), NULL);
		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == stub)
				return;
			if (events[i].data.ptr == NULL)
				stub_accept(stub, listener);
			else
				session_event(events[i].data.ptr, events[i].events);
		}
		stub_timers(stub);
		stub_bury(stub);
	}
}

/* ------------------------------------------------------------------- options */

static const char usage_text[] =
	"stub: answers like a PostgreSQL server, without one\n\n"
	"  --host ADDRESS     where to listen (127.0.0.1)\n"
	"  --port N           (5433)\n"
	"  --unix PATH        listen on this socket instead\n"
	"  --max N            refuse sessions above N with 53300; exit code 1 if it had to\n"
	"  --auth METHOD      trust, md5 or scram (trust)\n"
	"  --password TEXT    of every user (stub)\n"
	"  --spoil N          spoil every n-th answer: another row, none, twice, never\n"
	"  --quiet            no summary at the end\n\n"
	"Ends by SIGINT or SIGTERM.  What queries do: bench/stub_plan.h.\n";

_Noreturn static void usage(int code)
{
	fputs(usage_text, code == 0 ? stdout : stderr);
	exit(code);
}

static void options_read(struct stub *stub, int argc, char **argv)
{
	static const struct option known[] = {
		{"host", required_argument, NULL, 'h'},  {"port", required_argument, NULL, 'p'},
		{"unix", required_argument, NULL, 'u'},  {"max", required_argument, NULL, 'm'},
		{"auth", required_argument, NULL, 'a'},  {"password", required_argument, NULL, 'w'},
		{"spoil", required_argument, NULL, 's'}, {"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, '?'},        {NULL, 0, NULL, 0},
	};
	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		switch (option) {
		case 'h': stub->host = optarg; break;
		case 'p': stub->port = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'u': stub->unix_path = optarg; break;
		case 'm': stub->max = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 's': stub->spoil = (uint32_t)strtoul(optarg, NULL, 10); break;
		case 'w': stub->password = optarg; break;
		case 'q': stub->quiet = true; break;
		case 'a':
			if (strcmp(optarg, "md5") == 0)
				stub->auth = STUB_MD5;
			else if (strcmp(optarg, "scram") == 0)
				stub->auth = STUB_SCRAM;
			else if (strcmp(optarg, "trust") != 0)
				usage(2);
			break;
		default: usage(optopt == 0 ? 0 : 2);
		}
	}
	if (optind < argc || stub->port == 0 || stub->port > UINT16_MAX)
		usage(2);
}

static int stub_signals(struct stub *stub)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = stub};
	CHECK(fd >= 0 && epoll_ctl(stub->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	return fd;
}

static int stub_listen(const struct stub *stub)
{
	struct socket_address address;
	if (!socket_address_read(&address, stub->host, stub->port, stub->unix_path))
		return -1;
	int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (stub->unix_path != NULL)
		unlink(stub->unix_path);
	if (bind(fd, &address.any, address.size) < 0 || listen(fd, BACKLOG) < 0) {
		close(fd);
		return -1;
	}
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	CHECK(epoll_ctl(stub->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
	return fd;
}

static void stub_end(struct stub *stub)
{
	if (!stub->quiet || stub->max > 0)
		printf("stub: %" PRIu64 " logins, %" PRIu32 " sessions at most at once, %" PRIu64
		       " refused, %" PRIu64 " queries, %" PRIu64 " cancel requests (%" PRIu64
		       " hit)\n",
		       stub->logins, stub->open_most, stub->refused, stub->queries, stub->cancels,
		       stub->cancels_hit);
	for (uint32_t i = 0; i < stub->slot_count; i++)
		if (stub->sessions[i] != NULL)
			session_close(stub->sessions[i]);
	stub_bury(stub);
	free(stub->sessions);
	timers_fini(&stub->timers);
	if (stub->unix_path != NULL)
		unlink(stub->unix_path);
}

int main(int argc, char **argv)
{
	static struct stub stub = {.host = "127.0.0.1", .port = 5433, .password = "stub"};
	uint8_t salt[16];
	options_read(&stub, argc, argv);
	files_allow_many();
	stub.epoll = epoll_create1(EPOLL_CLOEXEC);
	CHECK(stub.epoll >= 0 && getrandom(salt, sizeof salt, 0) == (ssize_t)sizeof salt);
	if (stub.auth == STUB_SCRAM)
		scram_verifier_make(stub.password, salt, sizeof salt, SCRAM_ITERATIONS,
		                    &stub.verifier);
	int signals = stub_signals(&stub);
	int listener = stub_listen(&stub);
	if (listener < 0) {
		perror("stub: cannot listen");
		return 2;
	}
	stub_run(&stub, listener);
	bool refused = stub.refused > 0;
	stub_end(&stub);
	close(listener);
	close(signals);
	close(stub.epoll);
	return refused ? 1 : 0;
}
