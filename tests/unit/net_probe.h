/*
 * net_probe.h - a conn that counts what it is told and checks the rules that
 * hold for every conn: no event from inside a call, none after on_closed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_UNIT_NET_PROBE_H
#define TESTS_UNIT_NET_PROBE_H

#include "tests/unit/net_pair.h"

#include "core/base/limits.h"

enum event { NONE, OPENED, BYTES, END, ROOM, HANGUP, DETACHED, CLOSED, EVENT_COUNT };

/* A conn that counts what it is told, and may close from inside an event. */
struct probe {
	struct conn conn;
	int told[EVENT_COUNT];
	enum event close_on;
	int error;
	uint32_t seed;
	uint64_t got;
	bool inside; /* of a conn_*() call, where no event may come */
	bool finish_on_end;
};

static inline void probe_tell(struct conn *conn, enum event event)
{
	struct probe *probe = CONTAINER(struct probe, conn, conn);
	cr_assert_not(probe->inside);
	cr_assert_eq(probe->told[CLOSED], 0, "event %d after on_closed", (int)event);
	probe->told[event]++;
	if (event == probe->close_on) {
		probe->inside = true;
		conn_close(conn);
		conn_close(conn);
		probe->inside = false;
	}
}

static inline void probe_open(struct conn *conn)
{
	probe_tell(conn, OPENED);
}

static inline void probe_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct probe *probe = CONTAINER(struct probe, conn, conn);
	cr_assert(stream_is(buf->data + from, to - from, probe->seed, probe->got));
	cr_assert_eq(probe->told[END], 0);
	probe->got += to - from;
	probe_tell(conn, BYTES);
}

static inline void probe_end(struct conn *conn)
{
	probe_tell(conn, END);
	if (CONTAINER(struct probe, conn, conn)->finish_on_end)
		conn_finish(conn);
}

static inline void probe_room(struct conn *conn)
{
	cr_assert_lt(conn->held, CONN_QUEUE_LOW);
	probe_tell(conn, ROOM);
}

static inline void probe_hangup(struct conn *conn)
{
	cr_assert(conn->paused);
	probe_tell(conn, HANGUP);
}

static inline void probe_detached(struct conn *conn)
{
	cr_assert_eq(conn->in_flight, 0);
	cr_assert(conn_is_flushed(conn));
	probe_tell(conn, DETACHED);
}

static inline void probe_closed(struct conn *conn, int error)
{
	struct probe *probe = CONTAINER(struct probe, conn, conn);
	probe_tell(conn, CLOSED);
	cr_assert_eq(conn->state, CONN_CLOSED);
	cr_assert_eq(conn->in_flight, 0);
	probe->error = error;
}

static const struct conn_events probe_events __attribute__((unused)) = {
	.on_open = probe_open,
	.on_bytes = probe_bytes,
	.on_eof = probe_end,
	.on_room = probe_room,
	.on_hangup = probe_hangup,
	.on_detached = probe_detached,
	.on_closed = probe_closed,
};

/* A probe on one end of a pair; the other end is returned. */
static inline struct stranger probe_open_pair(struct probe *probe, struct loop *loop, bool tcp,
                                              int buffer)
{
	int fds[2];
	test_pair(fds, tcp, buffer);
	*probe = (struct probe){.seed = 1};
	cr_assert(conn_accept(&probe->conn, loop, fds[0], RING_GROUP_CLIENT, &probe_events, false));
	return (struct stranger){.fd = fds[1], .seed = 1};
}

static inline void turns(struct loop *loop, int count)
{
	for (int i = 0; i < count; i++)
		loop_turn(loop, 1000);
}

static inline void turns_until(struct loop *loop, const struct probe *probe, enum event event)
{
	for (int i = 0; probe->told[event] == 0; i++) {
		cr_assert_lt(i, 3000, "event %d did not come", (int)event);
		loop_turn(loop, 1000);
	}
}

#endif
