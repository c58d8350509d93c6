/*
 * socket.c - virtual stream sockets (world.h).
 *
 * A write makes a segment that arrives after a latency, never before the one
 * in front of it.  An end of file and a reset are segments without bytes, so
 * they keep their place in the stream.  A wire is freed when both sides are
 * closed and nothing is under way.
 *
 * Actors are woken through an alarm, never from inside a call of theirs.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/report.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/list.h"

static void arrival_fire(struct alarm *alarm);
static void room_fire(struct alarm *alarm);

static struct wire *wire_of(struct sock *sock)
{
	return sock->is_first ? CONTAINER(struct wire, ends[0], sock)
	                      : CONTAINER(struct wire, ends[1], sock);
}

static struct sock *other(struct sock *sock)
{
	return sock->is_first ? sock + 1 : sock - 1;
}

static void sock_init(struct sock *sock, bool is_first)
{
	sock->id = ++world.socks_made;
	sock->is_first = is_first;
	sock->window = rng_between(&world.net, 1 + world.faults.window / 2, world.faults.window);
	sock->bytes = malloc(sock->window);
	SIM_CHECK(sock->bytes != NULL, "no memory");
}

/* A first end; the second comes to life when it is connected. */
struct sock *sock_open(void)
{
	struct wire *wire = calloc(1, sizeof *wire);
	SIM_CHECK(wire != NULL, "no memory");
	sock_init(&wire->ends[0], true);
	wire->ends[1].closed = true;
	wire->next = world.wires;
	if (world.wires != NULL)
		world.wires->previous = wire;
	world.wires = wire;
	world.wires_open++;
	return &wire->ends[0];
}

static void wire_free_if_done(struct sock *sock)
{
	struct wire *wire = wire_of(sock);
	for (int i = 0; i < 2; i++)
		if (!wire->ends[i].closed || wire->ends[i].segment_count > 0)
			return;
	for (int i = 0; i < 2; i++) {
		alarm_clear(&wire->ends[i].arrival);
		alarm_clear(&wire->ends[i].room);
		free(wire->ends[i].bytes);
		free(wire->ends[i].segments);
	}
	if (wire->next != NULL)
		wire->next->previous = wire->previous;
	if (wire->previous != NULL)
		wire->previous->next = wire->next;
	else
		world.wires = wire->next;
	world.wires_open--;
	free(wire);
}

/* Tells whoever is on this side that something has changed. */
static void sock_notify(struct sock *sock)
{
	if (sock->closed)
		return;
	if (sock->is_ringed && sock->owner != NULL)
		ring_wake(sock->owner);
	else if (sock->wake != NULL)
		sock->wake(sock);
}

static void sock_notify_soon(struct sock *sock)
{
	if (sock->closed)
		return;
	if (sock->is_ringed)
		sock_notify(sock);
	else if (sock->room.place == 0)
		alarm_set(&sock->room, world.now_us, room_fire);
}

void sock_own(struct sock *sock, void (*wake)(struct sock *sock), void *owner)
{
	sock->wake = wake;
	sock->owner = owner;
	sock->is_ringed = wake == NULL;
}

static uint64_t latency(void)
{
	uint32_t most = world.calm ? 100 : world.faults.latency_us;
	/* mostly short: a uniform latency would hide the races of neighbours */
	return rng_chance(&world.net, 800000) ? rng_between(&world.net, 1, 1 + most / 20)
	                                      : rng_between(&world.net, 1, most);
}

static void segment_push(struct sock *to, uint32_t size, bool reset)
{
	if (to->segment_count == to->segment_room) {
		uint32_t room = to->segment_room == 0 ? 8 : to->segment_room * 2;
		struct segment *segments = malloc(room * sizeof *segments);
		SIM_CHECK(segments != NULL, "no memory");
		for (uint32_t i = 0; i < to->segment_count; i++)
			segments[i] = to->segments[(to->segment_head + i) & (to->segment_room - 1)];
		free(to->segments);
		to->segments = segments;
		to->segment_room = room;
		to->segment_head = 0;
	}
	uint64_t at_us = world.now_us + latency();
	if (at_us < to->last_at_us)
		at_us = to->last_at_us;
	to->last_at_us = at_us;
	to->segments[(to->segment_head + to->segment_count++) & (to->segment_room - 1)] =
		(struct segment){at_us, size, reset};
	if (to->arrival.place == 0)
		alarm_set(&to->arrival, at_us, arrival_fire);
}

/* The bytes that have not arrived are lost, and what was to follow them. */
static void flight_drop(struct sock *to)
{
	to->segment_count = 0;
	to->count = to->arrived;
	alarm_clear(&to->arrival);
	to->last_at_us = world.now_us;
}

static void reset_send(struct sock *to)
{
	if (rng_chance(&world.net, 500000))
		flight_drop(to);
	segment_push(to, 0, true);
}

static void arrival_of(struct sock *sock, struct segment segment)
{
	trace(segment.reset ? "reset" : "arrive", sock->id, segment.size);
	if (segment.reset) {
		sock->reset = true;
		return;
	}
	if (segment.size == 0) {
		sock->eof = true;
		return;
	}
	sock->arrived += segment.size;
	if (sock->closed) {
		sock->arrived = sock->count = 0;
		struct sock *sender = other(sock);
		flight_drop(sock);
		if (!sender->closed && !sender->reset)
			segment_push(sender, 0, true);
	}
}

static void arrival_fire(struct alarm *alarm)
{
	struct sock *sock = CONTAINER(struct sock, arrival, alarm);
	while (sock->segment_count > 0) {
		struct segment segment = sock->segments[sock->segment_head];
		if (segment.at_us > world.now_us)
			break;
		sock->segment_head = (sock->segment_head + 1) & (sock->segment_room - 1);
		sock->segment_count--;
		arrival_of(sock, segment);
	}
	if (sock->segment_count > 0)
		alarm_set(&sock->arrival, sock->segments[sock->segment_head].at_us, arrival_fire);
	if (sock->closed)
		wire_free_if_done(sock);
	else
		sock_notify(sock);
}

static void room_fire(struct alarm *alarm)
{
	sock_notify(CONTAINER(struct sock, room, alarm));
}

/* Several doors may share an address (SO_REUSEPORT): the seed picks one. */
static struct door *door_find(const struct addr *addr)
{
	uint32_t count = 0;
	struct door *found = NULL;
	for (struct door *door = world.doors; door != NULL; door = door->next) {
		if (!door->open || door->addr.size != addr->size ||
		    memcmp(&door->addr.any, &addr->any, addr->size) != 0)
			continue;
		if (rng_below(&world.net, ++count) == 0)
			found = door;
	}
	return found;
}

static bool door_enter(struct door *door, struct sock *sock)
{
	if (!door->is_ringed)
		return door->on_accept(door, sock);
	if (door->queued == sizeof door->queue / sizeof door->queue[0])
		return false;
	sock_own(sock, NULL, NULL);
	door->queue[door->queued++] = sock;
	if (door->owner != NULL)
		ring_wake(door->owner);
	return true;
}

static void sock_fail(struct sock *sock, int error)
{
	sock->state = SOCK_FAILED;
	sock->error = error;
	trace("refused", sock->id, (uint64_t)error);
	sock_notify(sock);
}

static void connect_fire(struct alarm *alarm)
{
	struct sock *sock = CONTAINER(struct sock, arrival, alarm);
	struct door *door = door_find(&sock->target);
	if (door == NULL || fault(world.faults.refuse / 2)) {
		sock_fail(sock, -ECONNREFUSED);
		return;
	}
	struct sock *peer = other(sock);
	*peer = (struct sock){0};
	sock_init(peer, false);
	peer->state = SOCK_OPEN;
	peer->own = sock->target;
	peer->target = sock->own;
	sock->state = SOCK_OPEN;
	trace("connect", sock->id, peer->id);
	if (!door_enter(door, peer)) {
		peer->closed = true;
		sock_fail(sock, -ECONNREFUSED);
		return;
	}
	sock_notify(sock);
}

void sock_connect(struct sock *sock, const struct addr *target)
{
	SIM_CHECK(sock->state == SOCK_NEW, "connect of a sock in use");
	sock->state = SOCK_CONNECTING;
	sock->target = *target;
	sock->own = (struct addr){.size = sizeof sock->own.v4};
	sock->own.v4.sin_family = AF_INET;
	sock->own.v4.sin_addr.s_addr = htonl(0x7f000000U | sock->id);
	sock->own.v4.sin_port = htons((uint16_t)(1024 + sock->id % 60000));
	if (!fault(world.faults.refuse / 2)) /* else it hangs */
		alarm_set(&sock->arrival, world.now_us + latency(), connect_fire);
}

uint32_t sock_read(struct sock *sock, void *bytes, uint32_t size)
{
	uint32_t take = size < sock->arrived ? size : sock->arrived;
	uint8_t *to = bytes;
	for (uint32_t done = 0; done < take;) {
		uint32_t run = sock->window - sock->head;
		if (run > take - done)
			run = take - done;
		memcpy(to + done, sock->bytes + sock->head, run);
		sock->head = (sock->head + run) % sock->window;
		done += run;
	}
	sock->arrived -= take;
	sock->count -= take;
	sock->received += take;
	if (take > 0)
		sock_notify_soon(other(sock));
	return take;
}

uint32_t sock_room(const struct sock *sock)
{
	const struct sock *to = sock->is_first ? sock + 1 : sock - 1;
	return to->window - to->count;
}

int32_t sock_write(struct sock *sock, const void *bytes, uint32_t size)
{
	struct sock *to = other(sock);
	if (sock->reset) {
		bool told = sock->told;
		sock->told = true;
		return told ? -EPIPE : -ECONNRESET;
	}
	if (sock->state != SOCK_OPEN || sock->end_sent)
		return -EPIPE;
	uint32_t room = to->window - to->count;
	uint32_t take = size < room ? size : room;
	if (take > 1 && fault(world.faults.cut))
		take = rng_between(&world.chance, 1, take);
	if (take == 0)
		return 0;
	const uint8_t *from = bytes;
	uint32_t at = (to->head + to->count) % to->window;
	for (uint32_t done = 0; done < take;) {
		uint32_t run = to->window - at;
		if (run > take - done)
			run = take - done;
		memcpy(to->bytes + at, from + done, run);
		at = (at + run) % to->window;
		done += run;
	}
	to->count += take;
	sock->sent += take;
	uint32_t first = take > 1 && fault(world.faults.cut) ? rng_between(&world.chance, 1, take)
	                                                     : take;
	segment_push(to, first, false);
	if (first < take)
		segment_push(to, take - first, false);
	return (int32_t)take;
}

void sock_end(struct sock *sock)
{
	if (sock->end_sent || sock->state != SOCK_OPEN || sock->reset)
		return;
	sock->end_sent = true;
	segment_push(other(sock), 0, false);
}

static void sock_leave(struct sock *sock, bool reset)
{
	trace(reset ? "abort" : "close", sock->id, 0);
	SIM_CHECK(!sock->closed, "sock %u closed twice", sock->id);
	struct sock *peer = other(sock);
	bool told = sock->reset || peer->reset;
	sock->closed = true;
	if (sock->state == SOCK_CONNECTING)
		alarm_clear(&sock->arrival);
	alarm_clear(&sock->room);
	if (sock->state == SOCK_OPEN && !told && !peer->closed) {
		if (reset || sock->arrived > 0)
			reset_send(peer);
		else
			sock_end(sock);
	}
	sock->arrived = 0;
	if (sock->segment_count == 0)
		sock->count = 0;
	wire_free_if_done(sock);
}

void sock_close(struct sock *sock)
{
	sock_leave(sock, false);
}

void sock_reset(struct sock *sock)
{
	sock_leave(sock, true);
}

void sock_break(struct sock *sock)
{
	struct sock *peer = other(sock);
	if (sock->state != SOCK_OPEN || sock->reset)
		return;
	trace("break", sock->id, 0);
	flight_drop(sock);
	sock->reset = true;
	if (!peer->closed)
		reset_send(peer);
	sock_notify_soon(sock);
}

struct door *door_open(const struct addr *addr)
{
	struct door *door = calloc(1, sizeof *door);
	SIM_CHECK(door != NULL, "no memory");
	door->addr = *addr;
	door->open = true;
	door->next = world.doors;
	world.doors = door;
	return door;
}

struct sock *door_take(struct door *door)
{
	if (door->queued == 0)
		return NULL;
	struct sock *sock = door->queue[0];
	memmove((void *)door->queue, (void *)(door->queue + 1),
	        --door->queued * sizeof door->queue[0]);
	return sock;
}

void door_close(struct door *door)
{
	door->open = false;
	for (struct sock *sock; (sock = door_take(door)) != NULL;)
		sock_reset(sock);
}
