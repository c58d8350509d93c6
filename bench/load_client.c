/*
 * load_client.c - a connection of the load generator.
 *
 * Level-triggered: one recv for each event, which fetches all that lies
 * there, and one send for each step.  Handling a message may end this
 * connection and begin the next; `incarnation` tells.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"

enum {
	RECONNECT_NS = 100 * NS_PER_MS,
	SLOW_STEP_NS = 20 * NS_PER_MS, /* a slow reader reads this often */
	SLOW_BUFFER_SIZE = 16 * 1024,
};

static void client_watch(struct client *client, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = client};
	if (client->events == events || client->endpoint.fd < 0)
		return;
	client->events = events;
	epoll_ctl(client->thread->epoll, EPOLL_CTL_MOD, client->endpoint.fd, &event);
}

void client_connect(struct client *client)
{
	struct thread *thread = client->thread;
	const struct load *load = thread->load;
	const struct socket_address *address = &load->address;
	CHECK(client->endpoint.fd < 0);
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	client->endpoint.fd = fd;
	client->incarnation++;
	client->state = CLIENT_CONNECTING;
	client->since = thread->now;
	client->scan = (struct scan){0};
	client->fatal = client->prepared = false;
	if (fd >= 0 && load->options.unix_path == NULL)
		socket_no_delay(fd);
	int small = SLOW_BUFFER_SIZE;
	if (fd >= 0 && client->slow)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
	if (fd < 0 || (connect(fd, &address->any, address->size) < 0 && errno != EINPROGRESS)) {
		client_fail(client, "CONN");
		return;
	}
	client->events = EPOLLOUT;
	struct epoll_event event = {.events = EPOLLOUT, .data.ptr = client};
	CHECK(epoll_ctl(thread->epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

void client_leave(struct client *client, enum leave how)
{
	int fd = client->endpoint.fd;
	if (fd >= 0 && how == LEAVE_TERMINATE) {
		uint8_t bytes[8];
		struct writer out = writer_over(bytes, sizeof bytes);
		write_terminate(&out);
		(void)!send(fd, bytes, out.size, MSG_NOSIGNAL);
	}
	struct linger linger = {.l_onoff = 1, .l_linger = 0};
	if (fd >= 0 && how == LEAVE_RST)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
	if (fd >= 0)
		close(fd);
	client->endpoint.fd = -1;
	client->state = CLIENT_CLOSED;
	client->expected_count = 0;
	buffer_clear(&client->out);
	buffer_clear(&client->held);
	timers_clear(&client->thread->timers, &client->timer);
	timers_clear(&client->thread->timers, &client->read_timer);
}

/* NULL: it was counted before. */
void client_fail(struct client *client, const char *state)
{
	struct thread *thread = client->thread;
	if (state != NULL)
		thread_error(thread, state);
	client_leave(client, LEAVE_FIN);
	timers_set(&thread->timers, &client->timer, thread->now + RECONNECT_NS);
}

void client_complain(struct client *client, enum count count, const char *format, ...)
{
	static const char *const names[COUNTS] = {
		[COUNT_WRONG] = "wrong", [COUNT_LOST] = "lost", [COUNT_DOUBLE] = "double"};
	struct thread *thread = client->thread;
	thread_count(thread, count, 1);
	if (__atomic_add_fetch(&thread->load->complaints, 1, __ATOMIC_RELAXED) <= COMPLAINTS_MAX) {
		char text[512];
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(text, sizeof text, format, arguments);
		va_end(arguments);
		fprintf(stderr, "load: %s: client %06x: %s\n", names[count], client->number, text);
	}
	client_fail(client, NULL);
}

void client_flush(struct client *client)
{
	int fd = client->endpoint.fd;
	while (buffer_size(&client->out) > 0) {
		ssize_t sent = send(fd, buffer_front(&client->out), buffer_size(&client->out),
		                    MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN) {
			client_watch(client, client->events | EPOLLOUT);
			return;
		}
		if (sent < 0) {
			/* What the peer said before it left may still be there to read. */
			buffer_clear(&client->out);
			break;
		}
		buffer_take(&client->out, (size_t)sent);
	}
	client_watch(client, client->events & ~(uint32_t)EPOLLOUT);
}

static void client_message(struct client *client, uint8_t type, struct span body)
{
	if (client->state == CLIENT_LOGIN)
		login_message(client, type, body);
	else
		answer_message(client, type, body);
}

static void client_bytes(struct client *client, struct span in)
{
	struct piece piece;
	uint32_t incarnation = client->incarnation;
	while (client->endpoint.fd >= 0 && client->incarnation == incarnation) {
		enum scan_status status = scan_next(&client->scan, &in, LOAD_MESSAGE_MAX, &piece);
		if (status == SCAN_MORE)
			return;
		if (status == SCAN_BAD) {
			client_complain(client, COUNT_WRONG, "a message of impossible length");
			return;
		}
		struct span message = piece.bytes;
		if (!piece.first || !piece.last) {
			if (piece.first)
				buffer_clear(&client->held);
			buffer_add(&client->held, piece.bytes.data, piece.bytes.size);
			if (!piece.last)
				continue;
			message = span_of(buffer_front(&client->held), buffer_size(&client->held));
		}
		client_message(client, piece.type,
		               span_of(message.data + SCAN_HEADER_SIZE,
		                       message.size - SCAN_HEADER_SIZE));
	}
}

/* How much a slow reader may read now; if nothing, it sleeps a step. */
static size_t slow_room(struct client *client)
{
	struct thread *thread = client->thread;
	double rate = (double)thread->load->options.read_rate;
	double most = MAX(rate * SLOW_STEP_NS / NS_PER_S * 2, 1.0);
	client->read_allowed += rate * (double)(thread->now - client->read_at) / NS_PER_S;
	client->read_allowed = MIN(client->read_allowed, most);
	client->read_at = thread->now;
	if (client->read_allowed >= 1)
		return (size_t)client->read_allowed;
	client_watch(client, client->events & ~(uint32_t)EPOLLIN);
	timers_set(&thread->timers, &client->read_timer,
	           thread->now + MAX((uint64_t)SLOW_STEP_NS, (uint64_t)(NS_PER_S / rate)));
	return 0;
}

void client_read_more(struct client *client)
{
	client_watch(client, client->events | EPOLLIN);
}

static void client_read(struct client *client)
{
	struct thread *thread = client->thread;
	size_t room = LOAD_READ_SIZE;
	if (client->slow) {
		room = MIN(room, slow_room(client));
		if (room == 0)
			return;
	}
	ssize_t size = recv(client->endpoint.fd, thread->read, room, 0);
	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (size <= 0) {
		const char *state = size < 0 ? "RST" : "EOF";
		client_fail(client, client->fatal ? NULL : state);
		return;
	}
	if (client->slow)
		client->read_allowed -= (double)size;
	client->since = thread->now;
	thread_count(thread, COUNT_BYTES, (uint64_t)size);
	client_bytes(client, span_of(thread->read, (size_t)size));
}

void client_event(struct client *client, uint32_t events)
{
	if (client->endpoint.fd < 0)
		return;
	if (client->state == CLIENT_CONNECTING) {
		int error = 0;
		socklen_t size = sizeof error;
		getsockopt(client->endpoint.fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (error != 0) {
			client_fail(client, "CONN");
			return;
		}
		client_watch(client, EPOLLIN);
		login_start(client);
		return;
	}
	if ((events & EPOLLOUT) != 0)
		client_flush(client);
	if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0)
		client_read(client);
}
