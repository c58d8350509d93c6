/*
 * conn_storm.c - everything at any time, also from inside events.
 *
 * What must hold: one on_closed each, no event from inside a call, bytes in
 * order, and nothing left behind.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/net_probe.h"

#include "net/conn.h"

static struct loop loop;

struct storm {
	struct probe probe;
	struct stranger peer;
};

enum { STORMS = 24, CONNS = 1500 };

static uint64_t storm_random = 1;

static void storm_act(struct storm *storm)
{
	static const uint8_t bytes[5000];
	struct conn *conn = &storm->probe.conn;
	storm->probe.inside = true;
	switch (test_random(&storm_random) % 16) {
	case 0: conn_pause(conn); break;
	case 1: conn_pause_quietly(conn); break;
	case 2:
	case 3:
	case 4: conn_resume(conn); break;
	case 5:
	case 6:
	case 7: conn_send_copy(conn, bytes, test_random(&storm_random) % sizeof bytes); break;
	case 8:
		if (conn->state == CONN_OPEN)
			conn_detach(conn);
		break;
	case 9:
		if (test_random(&storm_random) % 8 == 0)
			conn_close(conn);
		break;
	case 10:
		if (test_random(&storm_random) % 8 == 0)
			conn_finish(conn);
		break;
	case 11: conn_copy_out(conn); break;
	default: break;
	}
	storm->probe.inside = false;
}

static void storm_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct storm *storm = CONTAINER(struct storm, probe.conn, conn);
	probe_bytes(conn, buf, from, to);
	conn_send(conn, buf, from, to);
	storm_act(storm);
}

static void storm_end(struct conn *conn)
{
	probe_end(conn);
	if (test_random(&storm_random) % 2 == 0)
		conn_finish(conn);
	storm_act(CONTAINER(struct storm, probe.conn, conn));
}

static void storm_detached(struct conn *conn)
{
	probe_detached(conn);
	if (test_random(&storm_random) % 8 == 0)
		conn_finish(conn);
	else
		conn_reattach(conn);
	storm_act(CONTAINER(struct storm, probe.conn, conn));
}

static const struct conn_events storm_events = {
	.on_bytes = storm_bytes,
	.on_eof = storm_end,
	.on_room = probe_room,
	.on_hangup = probe_hangup,
	.on_detached = storm_detached,
	.on_closed = probe_closed,
};

/* What the peer does; true when it has gone. */
static bool peer_act(struct stranger *peer)
{
	static const struct linger reset = {.l_onoff = 1};
	static char sink[10000];
	switch (test_random(&storm_random) % 12) {
	case 0:
	case 1:
	case 2: stranger_write(peer, 1 + test_random(&storm_random) % 4000); break;
	case 3:
	case 4:
	case 5: (void)recv(peer->fd, sink, sizeof sink, MSG_DONTWAIT); break;
	case 6:
		if (test_random(&storm_random) % 16 == 0)
			shutdown(peer->fd, SHUT_WR);
		break;
	case 7:
		if (test_random(&storm_random) % 32 != 0)
			break;
		if (test_random(&storm_random) % 2 == 0)
			setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		close(peer->fd);
		peer->fd = -1;
		return true;
	default: break;
	}
	return false;
}

/* What the counts and lists of a conn say about its queue. */
static void conn_is_sound(const struct conn *conn)
{
	uint32_t queued = 0;
	uint32_t held = 0;
	uint32_t borrowed = 0;
	const struct conn_piece *last = NULL;
	for (const struct conn_piece *piece = conn->queue.first; piece != NULL;
	     piece = piece->next) {
		cr_assert_lt(piece->from, piece->to);
		cr_assert_leq(piece->to, piece->buf->used);
		queued += piece->to - piece->from;
		held += piece->buf->capacity;
		borrowed += piece->buf->origin != BUF_BLOCK;
		last = piece;
	}
	bool flies = (conn->in_flight & 1U << OP_SEND) != 0;
	cr_assert_eq(conn->queue.last, last);
	cr_assert_eq(conn->queued, queued);
	cr_assert_eq(conn->held, held);
	cr_assert_eq(conn->borrowed, borrowed);
	cr_assert_eq(conn->sending > 0, flies);
	if (conn->state == CONN_OPEN)
		cr_assert_eq(link_is_in(&conn->send_link), flies ? borrowed > 0 : queued > 0);
}

static void storm_begin(struct storm *storm)
{
	int fds[2];
	test_pair(fds, test_random(&storm_random) % 2 == 0, 4096);
	*storm = (struct storm){.probe.seed = 1, .peer = {.fd = fds[1], .seed = 1}};
	cr_assert(conn_accept(&storm->probe.conn, &loop, fds[0], RING_GROUP_CLIENT, &storm_events,
	                      false));
}

Test(conn, storm)
{
	static struct storm storms[STORMS];
	int begun = 0;
	int left = 0;
	test_loop_open(&loop);
	for (int round = 0; begun < CONNS || left > 0; round++) {
		cr_assert_lt(round, 1000 * 1000);
		for (int i = 0; i < STORMS; i++) {
			struct storm *storm = &storms[i];
			bool is_new = storm->probe.conn.loop == NULL;
			if (storm->probe.told[CLOSED] > 0) {
				left--;
				if (storm->peer.fd >= 0)
					close(storm->peer.fd);
				*storm = (struct storm){0};
				is_new = true;
			}
			if (is_new && begun < CONNS) {
				storm_begin(storm);
				begun++;
				left++;
			} else if (is_new) {
				continue;
			}
			storm_act(storm);
			conn_is_sound(&storm->probe.conn);
			if (storm->peer.fd >= 0 && peer_act(&storm->peer))
				conn_resume(&storm->probe.conn);
			if (begun == CONNS && round % 50 == 0)
				conn_finish(&storm->probe.conn);
		}
		loop_turn(&loop, test_random(&storm_random) % 8 == 0 ? 300 : 0);
	}
	turns(&loop, 2);
	cr_assert_eq(loop.ops.used, 0);
	cr_assert_eq(loop.pieces.used, 0);
	cr_assert_eq(loop.late, 0);
	loop_close(&loop);
}
