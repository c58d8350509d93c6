/*
 * relay.c - net alone between the actors: each client gets a connection to the
 * server of its own, bytes go both ways, back-pressure by pause and resume.
 *
 * Now and then a conn is detached in mid-stream and started again with the same
 * descriptor, as core does when a server changes hands; what the other side
 * still delivers meanwhile waits in a stash.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/drive.h"
#include "tests/sim/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/list.h"
#include "net/conn.h"
#include "net/listen.h"
#include "net/loop.h"
#include "net/sys.h"

enum { STASH_MAX = 256 };

struct stashed {
	struct buf *buf;
	uint32_t from, to;
};

struct end {
	struct conn conn;
	struct pair *pair;
	bool gone;                       /* on_closed has come, or it never was */
	bool moving;                     /* detached, to be started again */
	bool finish;                     /* once it has moved */
	struct stashed stash[STASH_MAX]; /* to be sent when it has moved */
	uint32_t stashed;
};

struct pair {
	struct end client, server;
	int client_fd; /* until the server is there */
	struct pair *next, *previous;
};

static struct {
	struct loop loop;
	struct listener listener;
	bool listening;
	struct addr back;
	struct pair *pairs;
	uint32_t count;
	uint64_t moves;
} relay;

static struct end *end_of(struct conn *conn)
{
	return CONTAINER(struct end, conn, conn);
}

static struct end *other_of(struct end *end)
{
	return end == &end->pair->client ? &end->pair->server : &end->pair->client;
}

static void pair_free_if_done(struct pair *pair)
{
	if (!pair->client.gone || !pair->server.gone)
		return;
	if (pair->next != NULL)
		pair->next->previous = pair->previous;
	if (pair->previous != NULL)
		pair->previous->next = pair->next;
	else
		relay.pairs = pair->next;
	relay.count--;
	free(pair);
}

static void stash_drop(struct end *end)
{
	for (uint32_t i = 0; i < end->stashed; i++)
		buf_drop(&relay.loop.bufs, end->stash[i].buf);
	end->stashed = 0;
}

static void end_pass(struct end *from, struct end *to, struct buf *buf, uint32_t start,
                     uint32_t stop)
{
	if (to->gone)
		return;
	if (to->moving) {
		SIM_CHECK(to->stashed < STASH_MAX, "a paused conn goes on receiving");
		buf_hold(buf);
		to->stash[to->stashed++] = (struct stashed){buf, start, stop};
		conn_pause(&from->conn);
		return;
	}
	conn_send(&to->conn, buf, start, stop);
	if (conn_is_full(&to->conn))
		conn_pause(&from->conn);
}

static void end_move(struct end *end)
{
	if (end->gone || end->moving || end->finish || !conn_is_flushed(&end->conn) ||
	    end->conn.state != CONN_OPEN)
		return;
	end->moving = true;
	relay.moves++;
	conn_pause(&other_of(end)->conn);
	conn_detach(&end->conn);
}

static void on_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct end *end = end_of(conn);
	trace("relayed", end == &end->pair->client, to - from);
	end_pass(end, other_of(end), buf, from, to);
	if (rng_chance(&world.net, 20000))
		end_move(rng_below(&world.net, 2) == 0 ? end : other_of(end));
}

static void end_finish(struct end *end)
{
	if (end->gone)
		return;
	if (end->moving)
		end->finish = true;
	else
		conn_finish(&end->conn);
}

static void on_eof(struct conn *conn)
{
	struct end *end = end_of(conn);
	end_finish(other_of(end));
	end_finish(end);
}

static void on_room(struct conn *conn)
{
	struct end *other = other_of(end_of(conn));
	if (!other->gone && !other->moving)
		conn_resume(&other->conn);
}

static void on_hangup(struct conn *conn)
{
	trace("hangup", end_of(conn) == &end_of(conn)->pair->client, 0);
}

static void on_closed(struct conn *conn, int error)
{
	struct end *end = end_of(conn);
	struct end *other = other_of(end);
	trace("closed", end == &end->pair->client, (uint64_t)error);
	SIM_CHECK(conn->in_flight == 0, "closed with operations in flight");
	end->gone = true;
	end->moving = false;
	stash_drop(end);
	if (end == &end->pair->server && end->pair->client_fd >= 0) {
		sys_close(end->pair->client_fd);
		end->pair->client_fd = -1;
	}
	if (!other->gone)
		conn_close(&other->conn);
	pair_free_if_done(end->pair);
}

static const struct conn_events client_events, server_events;

static void on_detached(struct conn *conn)
{
	struct end *end = end_of(conn);
	struct end *other = other_of(end);
	bool is_client = end == &end->pair->client;
	if (rng_below(&world.net, 2) == 0) {
		conn_reattach(conn);
	} else {
		int fd = conn_release(conn);
		memset(conn, 0, sizeof *conn);
		bool started = conn_accept(conn, &relay.loop, fd,
		                           is_client ? RING_GROUP_CLIENT : RING_GROUP_SERVER,
		                           is_client ? &client_events : &server_events, false);
		SIM_CHECK(started, "no memory");
	}
	end->moving = false;
	for (uint32_t i = 0; i < end->stashed; i++)
		conn_send(conn, end->stash[i].buf, end->stash[i].from, end->stash[i].to);
	stash_drop(end);
	if (!other->gone && !conn_is_full(conn))
		conn_resume(&other->conn);
	/* what was told meanwhile: on_room of the other, or that it is full */
	if (!other->gone && (other->moving || conn_is_full(&other->conn)))
		conn_pause(conn);
	else
		conn_resume(conn);
	if (end->finish)
		conn_finish(conn);
}

static void on_server_open(struct conn *conn)
{
	struct pair *pair = end_of(conn)->pair;
	int fd = pair->client_fd;
	pair->client_fd = -1;
	pair->client.gone = false;
	bool started = conn_accept(&pair->client.conn, &relay.loop, fd, RING_GROUP_CLIENT,
	                           &client_events, false);
	SIM_CHECK(started, "no memory");
}

static const struct conn_events client_events = {
	.on_bytes = on_bytes,
	.on_eof = on_eof,
	.on_room = on_room,
	.on_hangup = on_hangup,
	.on_detached = on_detached,
	.on_closed = on_closed,
};

static const struct conn_events server_events = {
	.on_open = on_server_open,
	.on_bytes = on_bytes,
	.on_eof = on_eof,
	.on_room = on_room,
	.on_hangup = on_hangup,
	.on_detached = on_detached,
	.on_closed = on_closed,
};

static void on_accept(struct listener *listener, int fd)
{
	(void)listener;
	struct pair *pair = calloc(1, sizeof *pair);
	SIM_CHECK(pair != NULL, "no memory");
	pair->client.pair = pair->server.pair = pair;
	pair->client.gone = true;
	pair->client_fd = fd;
	int error = conn_connect(&pair->server.conn, &relay.loop, &relay.back, RING_GROUP_SERVER,
	                         &server_events);
	if (error < 0) {
		sys_close(fd);
		free(pair);
		return;
	}
	pair->next = relay.pairs;
	if (relay.pairs != NULL)
		relay.pairs->previous = pair;
	relay.pairs = pair;
	relay.count++;
}

static void on_trouble(struct listener *listener, int error)
{
	(void)listener;
	trace("trouble", 0, (uint64_t)error);
}

static void on_listener_closed(struct listener *listener)
{
	(void)listener;
	relay.listening = false;
}

static const struct listener_events listener_events = {
	.on_accept = on_accept,
	.on_trouble = on_trouble,
	.on_closed = on_listener_closed,
};

static void relay_open(const struct plan *plan, const struct addr *front, const struct addr *back)
{
	(void)plan;
	memset(&relay, 0, sizeof relay);
	relay.back = *back;
	struct ring_failure failure = {0};
	struct sys_listen options = {.backlog = 128};
	const char *failed = NULL;
	world.calm = true; /* no faults while it starts */
	int fd = sys_listen(front, &options, &failed);
	SIM_CHECK(loop_open(&relay.loop, &failure), "%s", failure.text);
	SIM_CHECK(listener_open(&relay.listener, &relay.loop, fd, &listener_events), "no listener");
	world.calm = false;
	relay.listening = true;
}

static void relay_turn(uint32_t index)
{
	(void)index;
	loop_turn(&relay.loop, -1);
}

static bool relay_step(void)
{
	return drive_step_rings(relay_turn);
}

static void relay_settle(struct postgres *postgres)
{
	for (struct pair *pair = relay.pairs; pair != NULL; pair = pair->next) {
		/* connects that hang by the plan */
		if (!pair->server.gone && pair->server.conn.state == CONN_OPENING)
			conn_close(&pair->server.conn);
	}
	drive_run_for(&drive_relay, 5000000);
	SIM_CHECK(relay.count == 0, "%u pairs left", relay.count);
	SIM_CHECK(postgres_backends(postgres) == 0, "%u backends left",
	          postgres_backends(postgres));
	SIM_CHECK(files_open(FILE_SOCK) == 0, "%u sockets left", files_open(FILE_SOCK));
	for (int i = 0; i < RING_GROUP_COUNT; i++)
		SIM_CHECK(relay.loop.bufs.lent[i] == 0, "%u buffers of group %d lent",
		          relay.loop.bufs.lent[i], i);
	SIM_CHECK(ring_lent(world.rings[0]) == 0, "%u buffers left", ring_lent(world.rings[0]));
	listener_close(&relay.listener);
	drive_run_for(&drive_relay, 1000000);
	SIM_CHECK(!relay.listening, "the listener does not close");
	SIM_CHECK(ring_operations(world.rings[0]) == 0, "%u operations left",
	          ring_operations(world.rings[0]));
}

static void relay_close(void)
{
	loop_close(&relay.loop);
}

static void end_print(const struct end *end, const char *name)
{
	const struct conn *conn = &end->conn;
	fprintf(stderr,
	        "  %s gone %d moving %d stashed %u: state %d flying %x paused %d full %d ended %d"
	        " canceling %d starved %d queued %u held %u\n",
	        name, end->gone, end->moving, end->stashed, conn->state, (unsigned)conn->in_flight,
	        conn->paused, conn->full, conn->ended, conn->canceling,
	        link_is_in(&conn->starved_link), conn->queued, conn->held);
}

static void relay_print(void)
{
	for (const struct pair *pair = relay.pairs; pair != NULL; pair = pair->next) {
		end_print(&pair->client, "client");
		end_print(&pair->server, "server");
	}
	for (int i = 0; i < RING_GROUP_COUNT; i++)
		fprintf(stderr, "  group %d: %u lent\n", i, relay.loop.bufs.lent[i]);
}

const struct drive drive_relay = {
	"relay", relay_open, relay_step, drive_next_us, relay_settle, relay_close, relay_print,
};
