/*
 * load_cancel.c - cancel requests.
 *
 * A connection of its own for each, as libpq does it: connect, send the key,
 * wait for the end.  It outlives the unit it was meant for, and sometimes the
 * client's connection: a cancel that comes too late must do no harm.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct cancel {
	struct endpoint endpoint; /* first */
	struct link link;
	struct client *client;
	uint64_t began;
	bool sent;
	uint8_t size;
	uint8_t key[CANCEL_KEY_MAX + 4];
};

static void cancel_end(struct cancel *cancel)
{
	struct client *client = cancel->client;
	client->cancels_open--;
	client->cancel_at = client->thread->now;
	list_remove(&client->thread->cancels, &cancel->link);
	close(cancel->endpoint.fd);
	free(cancel);
}

void cancel_start(struct client *client)
{
	struct thread *thread = client->thread;
	const struct socket_address *address = &thread->load->address;
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || (connect(fd, &address->any, address->size) < 0 && errno != EINPROGRESS)) {
		thread_error(thread, "CONN");
		if (fd >= 0)
			close(fd);
		return;
	}
	struct cancel *cancel = memory_new(sizeof *cancel);
	cancel->endpoint = (struct endpoint){ENDPOINT_CANCEL, fd};
	cancel->client = client;
	cancel->began = thread->now;
	cancel->size = client->key_size;
	memcpy(cancel->key, client->key, client->key_size);
	client->cancels_open++;
	list_append(&thread->cancels, &cancel->link);
	thread_count(thread, COUNT_CANCELS, 1);
	struct epoll_event event = {.events = EPOLLOUT, .data.ptr = cancel};
	if (epoll_ctl(thread->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		cancel_end(cancel);
}

void cancel_event(struct endpoint *endpoint)
{
	struct cancel *cancel = (struct cancel *)(void *)endpoint;
	struct thread *thread = cancel->client->thread;
	uint8_t bytes[CANCEL_KEY_MAX + 16];
	if (cancel->sent) {
		cancel_end(cancel); /* there is nothing to read but the end */
		return;
	}
	struct writer out = writer_over(bytes, sizeof bytes);
	write_cancel_request(&out, span_of(cancel->key, cancel->size));
	struct span request = writer_span(&out);
	if (send(endpoint->fd, request.data, request.size, MSG_NOSIGNAL) != (ssize_t)request.size) {
		thread_error(thread, "CONN");
		cancel_end(cancel);
		return;
	}
	cancel->sent = true;
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = cancel};
	epoll_ctl(thread->epoll, EPOLL_CTL_MOD, endpoint->fd, &event);
}

void cancels_end(struct thread *thread, uint64_t age_ns)
{
	list_each_safe (struct cancel, cancel, link, &thread->cancels) {
		if (thread->now - cancel->began < age_ns)
			continue;
		thread_error(thread, "CTIME");
		cancel_end(cancel);
	}
}
