/*
 * floor_epoll.c - the bare relay over level-triggered epoll.
 *
 * One wait for all, then a recv and a send for each side that has something.
 * What the peer does not take at once is copied to its queue, and EPOLLOUT asked
 * for until it is gone; what epoll is asked for changes only then and when a
 * side must not be read for a while.
 *
 * A side that hangs up is read even while it should not be: epoll goes on about
 * it, and what is left cannot be more than a socket holds.  Pairs that end are
 * freed after the events of the turn, of which one may still point to them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/floor.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_MAX = 256, READ_SIZE = 64 * 1024 };

struct side {
	int fd; /* -1: closed */
	bool connecting;
	bool paused;     /* its peer has enough */
	uint32_t events; /* that epoll is asked for */
	struct side *peer;
	struct pair *pair;
	uint8_t *queue; /* bytes that it has not taken yet: from start to end */
	size_t start, end, room;
};

struct pair {
	struct side client, server;
	bool dead;
	struct pair *next; /* dead or free ones */
	struct pair *before;
};

static struct {
	const struct relay *relay;
	int epoll;
	struct pair *dead, *pairs, *all;
	uint8_t bytes[READ_SIZE];
} self;

static size_t queued(const struct side *side)
{
	return side->end - side->start;
}

static void pair_close(struct pair *pair)
{
	if (pair->dead)
		return;
	if (pair->client.fd >= 0)
		close(pair->client.fd);
	if (pair->server.fd >= 0)
		close(pair->server.fd);
	pair->client.fd = pair->server.fd = -1;
	pair->dead = true;
	pair->next = self.dead;
	self.dead = pair;
}

/* Asks epoll for what is wanted of a side now, if that has changed. */
static void side_watch(struct side *side)
{
	if (side->fd < 0)
		return;
	bool output = side->connecting || queued(side) > 0;
	bool input = !side->connecting && !side->paused && side->peer->fd >= 0;
	struct epoll_event event = {
		.events = (output ? (uint32_t)EPOLLOUT : 0) | (input ? (uint32_t)EPOLLIN : 0),
		.data.ptr = side,
	};
	if (event.events == side->events)
		return;
	side->events = event.events;
	if (epoll_ctl(self.epoll, EPOLL_CTL_MOD, side->fd, &event) < 0)
		floor_fail("epoll_ctl", errno);
}

static void side_add(struct side *side, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = side};
	side->events = events;
	if (epoll_ctl(self.epoll, EPOLL_CTL_ADD, side->fd, &event) < 0)
		floor_fail("epoll_ctl", errno);
}

static void queue_append(struct side *side, const uint8_t *bytes, size_t size)
{
	if (size > side->room - side->end && side->start > 0) {
		memmove(side->queue, side->queue + side->start, queued(side));
		side->end -= side->start;
		side->start = 0;
	}
	if (size > side->room - side->end) {
		side->room = side->end + size + READ_SIZE;
		side->queue = realloc(side->queue, side->room);
		if (side->queue == NULL)
			floor_fail("realloc", ENOMEM);
	}
	memcpy(side->queue + side->end, bytes, size);
	side->end += size;
}

/* What the side takes at once; 0 also if the pair is gone. */
static size_t side_send(struct side *side, const uint8_t *bytes, size_t size)
{
	ssize_t result = send(side->fd, bytes, size, MSG_NOSIGNAL);
	if (result >= 0)
		return (size_t)result;
	if (errno != EAGAIN && errno != EINTR)
		pair_close(side->pair);
	return 0;
}

static void side_forward(struct side *side, const uint8_t *bytes, size_t size)
{
	size_t taken = queued(side) == 0 ? side_send(side, bytes, size) : 0;
	if (taken == size || side->fd < 0)
		return;
	queue_append(side, bytes + taken, size - taken);
	if (queued(side) > FLOOR_QUEUE_HIGH) {
		side->peer->paused = true;
		side_watch(side->peer);
	}
	side_watch(side);
}

static void side_read(struct side *side)
{
	struct side *peer = side->peer;
	ssize_t size = recv(side->fd, self.bytes, sizeof self.bytes, 0);
	if (size > 0) {
		side_forward(peer, self.bytes, (size_t)size);
	} else if (size == 0 && queued(peer) > 0) {
		close(side->fd);
		side->fd = -1;
		side_watch(peer);
	} else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
		pair_close(side->pair);
	}
}

static void side_flush(struct side *side)
{
	side->start += side_send(side, side->queue + side->start, queued(side));
	if (side->fd < 0)
		return;
	if (queued(side) == 0) {
		side->start = side->end = 0;
		if (side->peer->fd < 0) {
			pair_close(side->pair);
			return;
		}
	}
	if (side->peer->paused && queued(side) < FLOOR_QUEUE_LOW) {
		side->peer->paused = false;
		side_watch(side->peer);
	}
	side_watch(side);
}

static void side_connected(struct side *side)
{
	int error = 0;
	socklen_t size = sizeof error;
	if (getsockopt(side->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0) {
		pair_close(side->pair);
		return;
	}
	side->connecting = false;
	side_watch(side);
	side_add(side->peer, EPOLLIN);
}

static void side_event(struct side *side, uint32_t events)
{
	const uint32_t hung_up = EPOLLHUP | EPOLLERR;
	if (side->fd < 0)
		return;
	if (side->connecting) {
		side_connected(side);
		return;
	}
	if ((events & EPOLLOUT) != 0 && queued(side) > 0)
		side_flush(side);
	if (side->fd < 0 || (events & (EPOLLIN | hung_up)) == 0)
		return;
	if (side->peer->fd >= 0)
		side_read(side);
	else if ((events & hung_up) != 0)
		pair_close(side->pair);
}

/* ---------------------------------------------------------- accept and connect */

static void side_init(struct side *side, struct pair *pair, struct side *peer, int fd)
{
	*side = (struct side){
		.fd = fd,
		.pair = pair,
		.peer = peer,
		.queue = side->queue,
		.room = side->room,
	};
}

static struct pair *pair_get(void)
{
	struct pair *pair = self.pairs;
	if (pair != NULL) {
		self.pairs = pair->next;
	} else {
		pair = calloc(1, sizeof *pair);
		if (pair == NULL)
			floor_fail("calloc", ENOMEM);
		pair->before = self.all;
		self.all = pair;
	}
	pair->dead = false;
	return pair;
}

static void pair_open(void)
{
	const struct relay *relay = self.relay;
	int fd = accept4(relay->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			floor_fail("accept", errno);
		return;
	}
	struct pair *pair = pair_get();
	struct side *server = &pair->server;
	side_init(&pair->client, pair, server, fd);
	side_init(server, pair, &pair->client, floor_socket(relay, SOCK_NONBLOCK));
	int result = connect(server->fd, (const struct sockaddr *)&relay->server,
	                     relay->server_size);
	if (result == 0) {
		side_add(server, EPOLLIN);
		side_add(&pair->client, EPOLLIN);
	} else if (errno == EINPROGRESS) {
		server->connecting = true;
		side_add(server, EPOLLOUT);
	} else {
		pair_close(pair);
	}
}

static void dead_free(void)
{
	while (self.dead != NULL) {
		struct pair *pair = self.dead;
		self.dead = pair->next;
		pair->next = self.pairs;
		self.pairs = pair;
	}
}

static void descriptor_add(int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
	if (epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		floor_fail("epoll_ctl", errno);
}

void floor_epoll(const struct relay *relay)
{
	struct epoll_event events[EVENTS_MAX];
	self.relay = relay;
	self.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (self.epoll < 0)
		floor_fail("epoll_create1", errno);
	descriptor_add(relay->listener, NULL);
	descriptor_add(relay->signals, &self);
	for (;;) {
		int count = epoll_wait(self.epoll, events, EVENTS_MAX, -1);
		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == &self)
				return;
			if (events[i].data.ptr == NULL)
				pair_open();
			else
				side_event(events[i].data.ptr, events[i].events);
		}
		dead_free();
	}
}
