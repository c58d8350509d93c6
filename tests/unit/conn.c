/*
 * conn.c - the life of one conn: every way to end it joins, with one on_closed
 * that never comes from inside a call; pausing loses nothing; the last words
 * arrive.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/conn.h"

#include "tests/unit/net_probe.h"

#include "core/base/limits.h"

static struct loop loop;

/* --------------------------------------------------------------------- closing */

static void queue_much(struct probe *probe)
{
	static uint8_t bytes[16384];
	stream_fill(bytes, sizeof bytes, 3, 0);
	while (!conn_is_full(&probe->conn))
		conn_send_copy(&probe->conn, bytes, sizeof bytes);
}

static void prepare_nothing(struct probe *probe, struct stranger *peer)
{
	(void)probe;
	(void)peer;
}

static void prepare_turn(struct probe *probe, struct stranger *peer)
{
	prepare_nothing(probe, peer);
	turns(&loop, 2);
}

static void prepare_queued(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	queue_much(probe);
}

static void prepare_stalled(struct probe *probe, struct stranger *peer)
{
	for (int i = 0; i < 20; i++) {
		prepare_queued(probe, peer);
		turns(&loop, 1);
	}
	cr_assert_gt(probe->conn.sending, 0);
}

static void prepare_copying(struct probe *probe, struct stranger *peer)
{
	prepare_stalled(probe, peer);
	probe->conn.borrowed++; /* pretends, or it would not need to */
	conn_copy_out(&probe->conn);
	probe->conn.borrowed--;
	cr_assert(probe->conn.copying);
}

static void prepare_paused_now(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	conn_pause(&probe->conn);
}

/* Nothing has come since: it is received from as before. */
static void prepare_paused_quiet(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	conn_pause_quietly(&probe->conn);
	turns(&loop, 2);
	cr_assert_eq(probe->conn.in_flight, 1U << OP_RECV);
}

static void pause_and_feed(struct probe *probe, struct stranger *peer)
{
	conn_pause_quietly(&probe->conn);
	stranger_write(peer, 1);
	turns(&loop, 3);
}

static void prepare_paused(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	pause_and_feed(probe, peer);
	cr_assert_eq(probe->conn.in_flight, 1U << OP_POLL);
}

static void prepare_resumed_now(struct probe *probe, struct stranger *peer)
{
	prepare_paused(probe, peer);
	conn_resume(&probe->conn);
}

static void prepare_detaching(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	conn_detach(&probe->conn);
}

static void prepare_detaching_stalled(struct probe *probe, struct stranger *peer)
{
	prepare_stalled(probe, peer);
	conn_detach(&probe->conn);
	turns(&loop, 3);
	cr_assert_eq(probe->told[DETACHED], 0);
}

static void prepare_detached(struct probe *probe, struct stranger *peer)
{
	prepare_detaching(probe, peer);
	turns_until(&loop, probe, DETACHED);
}

static void prepare_lingering(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	conn_finish(&probe->conn);
	conn_finish(&probe->conn);
	turns(&loop, 2);
	cr_assert(probe->conn.shut);
}

static void prepare_lingering_stalled(struct probe *probe, struct stranger *peer)
{
	prepare_stalled(probe, peer);
	conn_finish(&probe->conn);
	turns(&loop, 2);
	cr_assert_not(probe->conn.shut);
}

static void prepare_lingering_detached(struct probe *probe, struct stranger *peer)
{
	prepare_detached(probe, peer);
	conn_finish(&probe->conn);
}

static void prepare_ended(struct probe *probe, struct stranger *peer)
{
	shutdown(peer->fd, SHUT_WR);
	turns_until(&loop, probe, END);
	cr_assert_eq(probe->conn.in_flight, 0);
}

static void prepare_bytes_there(struct probe *probe, struct stranger *peer)
{
	prepare_turn(probe, peer);
	stranger_write(peer, 1000);
}

static const struct {
	const char *name;
	void (*prepare)(struct probe *probe, struct stranger *peer);
	bool finish; /* by conn_finish, after which the peer leaves */
} closings[] = {
	{"at once", prepare_nothing, false},
	{"receiving", prepare_turn, false},
	{"queued", prepare_queued, false},
	{"stalled", prepare_stalled, false},
	{"copying out", prepare_copying, false},
	{"being paused", prepare_paused_now, false},
	{"paused", prepare_paused, false},
	{"paused, quiet", prepare_paused_quiet, false},
	{"being resumed", prepare_resumed_now, false},
	{"detaching", prepare_detaching, false},
	{"detaching, stalled", prepare_detaching_stalled, false},
	{"detached", prepare_detached, false},
	{"lingering", prepare_lingering, false},
	{"lingering, stalled", prepare_lingering_stalled, false},
	{"lingering, was detached", prepare_lingering_detached, false},
	{"ended", prepare_ended, false},
	{"bytes are there", prepare_bytes_there, false},
	{"finish: at once", prepare_nothing, true},
	{"finish: receiving", prepare_turn, true},
	{"finish: being paused", prepare_paused_now, true},
	{"finish: paused", prepare_paused, true},
	{"finish: paused, quiet", prepare_paused_quiet, true},
	{"finish: detaching", prepare_detaching, true},
	{"finish: detached", prepare_detached, true},
	{"finish: ended", prepare_ended, true},
};

Test(conn, closes_from_everywhere)
{
	test_loop_open(&loop);
	for (size_t i = 0; i < 2 * ARRAY_LEN(closings); i++) {
		const char *name = closings[i / 2].name;
		static struct probe probe;
		struct stranger peer = probe_open_pair(&probe, &loop, i % 2 == 0, 4096);
		closings[i / 2].prepare(&probe, &peer);
		int fd = probe.conn.fd;
		probe.inside = true;
		if (closings[i / 2].finish) {
			conn_finish(&probe.conn);
		} else {
			conn_close(&probe.conn);
			conn_close(&probe.conn);
			conn_finish(&probe.conn);
			conn_pause(&probe.conn);
			conn_resume(&probe.conn);
			conn_detach(&probe.conn);
			conn_send_copy(&probe.conn, "x", 1);
		}
		probe.inside = false;
		if (closings[i / 2].finish) {
			turns(&loop, 3);
			cr_assert(probe.told[CLOSED] == 0 || probe.told[END] == 1,
			          "%s: did not wait for the peer", name);
			shutdown(peer.fd, SHUT_WR);
		}
		while (probe.told[CLOSED] == 0)
			loop_turn(&loop, -1); /* the loop knows that there is something to do */
		turns(&loop, 2);
		cr_assert_eq(probe.told[CLOSED], 1, "%s", name);
		cr_assert_eq(probe.error, 0, "%s: %s", name, strerror(-probe.error));
		cr_assert_eq(fcntl(fd, F_GETFD), -1, "%s: open", name);
		cr_assert_eq(loop.ops.used, 0, "%s", name);
		cr_assert_eq(loop.pieces.used, 0, "%s", name);
		cr_assert_eq(loop.gathers.used, 0, "%s", name);
		close(peer.fd);
	}
	cr_assert_eq(loop.late, 0);
	loop_close(&loop);
}

Test(conn, closes_from_events)
{
	test_loop_open(&loop);
	for (int event = OPENED; event < CLOSED; event++) {
		static struct probe probe;
		struct stranger peer = {.fd = -1, .seed = 1};
		struct addr addr;
		int listener = test_listen(&addr);
		probe = (struct probe){.seed = 1, .close_on = (enum event)event};
		cr_assert_eq(conn_connect(&probe.conn, &loop, &addr, RING_GROUP_SERVER,
		                          &probe_events),
		             0);
		cr_assert_eq(probe.told[OPENED], 0);
		turns_until(&loop, &probe, OPENED);
		peer.fd = accept(listener, NULL, NULL);
		close(listener);
		switch (event) {
		case BYTES: stranger_write(&peer, 10); break;
		case END: shutdown(peer.fd, SHUT_WR); break;
		case DETACHED: conn_detach(&probe.conn); break;
		case ROOM: queue_much(&probe); break;
		case HANGUP:
			pause_and_feed(&probe, &peer);
			shutdown(peer.fd, SHUT_WR);
			break;
		default: break;
		}
		while (event == ROOM && probe.told[ROOM] == 0) {
			turns(&loop, 1);
			stranger_read(&peer, 3, 0);
			static char sink[4096];
			while (recv(peer.fd, sink, sizeof sink, MSG_DONTWAIT) > 0)
				;
		}
		turns_until(&loop, &probe, CLOSED);
		cr_assert_eq(probe.told[event], 1);
		cr_assert_eq(probe.error, 0);
		close(peer.fd);
	}
	loop_close(&loop);
}

/* ---------------------------------------------------------------------- errors */

Test(conn, errors_come_as_on_closed)
{
	static struct probe probe;
	struct addr addr;
	test_loop_open(&loop);

	/* Nobody listens. */
	close(test_listen(&addr));
	probe = (struct probe){.seed = 1};
	cr_assert_eq(conn_connect(&probe.conn, &loop, &addr, RING_GROUP_SERVER, &probe_events), 0);
	turns_until(&loop, &probe, CLOSED);
	cr_assert_eq(probe.error, -ECONNREFUSED);
	cr_assert_eq(probe.told[OPENED], 0);

	/* Closed while it connects: no longer an error. */
	cr_assert_eq(conn_connect(&probe.conn, &loop, &addr, RING_GROUP_SERVER, &probe_events), 0);
	probe.told[CLOSED] = 0;
	conn_finish(&probe.conn);
	turns_until(&loop, &probe, CLOSED);
	cr_assert_eq(probe.error, 0);

	/* No such family of sockets: nothing is started. */
	addr.any.sa_family = AF_MAX + 1;
	cr_assert_eq(conn_connect(&probe.conn, &loop, &addr, RING_GROUP_SERVER, &probe_events),
	             -EAFNOSUPPORT);
	cr_assert_eq(loop.ops.used, 0);

	/* A reset while it receives, and behind bytes. */
	for (uint32_t bytes = 0; bytes < 2; bytes++) {
		struct linger reset = {.l_onoff = 1};
		struct stranger peer = probe_open_pair(&probe, &loop, true, 0);
		turns(&loop, 1);
		setsockopt(peer.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		if (bytes > 0)
			stranger_write(&peer, 100);
		turns(&loop, (int)bytes);
		close(peer.fd);
		turns_until(&loop, &probe, CLOSED);
		cr_assert_eq(probe.error, -ECONNRESET);
		cr_assert_eq(probe.got, bytes * 100);
		cr_assert_eq(probe.told[END], 0);
	}

	/* The peer is gone before we send. */
	struct stranger peer = probe_open_pair(&probe, &loop, false, 0);
	turns(&loop, 1);
	close(peer.fd);
	turns_until(&loop, &probe, END);
	conn_send_copy(&probe.conn, "late", 4);
	turns_until(&loop, &probe, CLOSED);
	cr_assert_eq(probe.error, -EPIPE);
	loop_close(&loop);
}

static void send_pieces(struct conn *conn, struct buf *buf)
{
	for (uint32_t i = 0; i < 10; i++) /* backwards: they are no neighbours */
		conn_send(conn, buf, 900 - i * 100, 1000 - i * 100);
}

Test(conn, without_memory)
{
	static struct probe probe;
	test_loop_open(&loop);
	struct buf *buf = buf_block(&loop.bufs, 1000);
	stream_fill(buf->data, 1000, 2, 0);
	buf->used = 1000;

	/* No gather: the pieces go one by one. */
	struct stranger peer = probe_open_pair(&probe, &loop, false, 0);
	void *gather = slab_acquire(&loop.gathers);
	loop.gathers.limit = 1;
	send_pieces(&probe.conn, buf);
	turns(&loop, 12);
	cr_assert(conn_is_flushed(&probe.conn));
	cr_assert_eq(loop.sends, 10);
	for (uint32_t i = 0; i < 10; i++) {
		uint8_t bytes[100];
		cr_assert_eq(recv(peer.fd, bytes, sizeof bytes, MSG_DONTWAIT), 100);
		cr_assert(stream_is(bytes, sizeof bytes, 2, 900 - i * 100));
	}
	loop.gathers.limit = 0;
	slab_release(&loop.gathers, gather);

	/* No piece, no block: the conn closes, from the turn. */
	for (int copy = 0; copy < 2; copy++) {
		if (copy == 0) {
			loop.pieces.limit = 3;
			send_pieces(&probe.conn, buf);
		} else {
			close(peer.fd);
			peer = probe_open_pair(&probe, &loop, false, 0);
			loop.bufs.blocks[0].limit = 1;
			loop.bufs.blocks[1].limit = 1;
			probe.inside = true;
			conn_send_copy(&probe.conn, buf->data, 1000);
			probe.inside = false;
		}
		turns_until(&loop, &probe, CLOSED);
		cr_assert_eq(probe.error, -ENOMEM);
		cr_assert_eq(loop.pieces.used, 0);
		loop.pieces.limit = 0;
	}
	close(peer.fd);
	buf_drop(&loop.bufs, buf);
	loop_close(&loop);
}

/* --------------------------------------------------------------------- pausing */

Test(conn, pausing_loses_nothing)
{
	enum { TOTAL = 300 * 1000 };
	test_loop_open(&loop);
	for (int tcp = 0; tcp < 2; tcp++) {
		static struct probe probe;
		uint64_t random = 3;
		struct stranger peer = probe_open_pair(&probe, &loop, tcp == 1, 0);
		while (probe.got < TOTAL) {
			stranger_write(&peer,
			               MIN(1 + test_random(&random) % 3000, TOTAL - peer.written));
			uint32_t changes = test_random(&random) % 6;
			for (uint32_t i = 0; i < changes; i++) {
				switch (test_random(&random) % 4) {
				case 0: conn_pause(&probe.conn); break;
				case 1: conn_pause_quietly(&probe.conn); break;
				default: conn_resume(&probe.conn);
				}
			}
			if (peer.written == TOTAL)
				conn_resume(&probe.conn);
			loop_turn(&loop, 0);
		}
		cr_assert_eq(probe.told[HANGUP], 0);

		/* What comes first while it is paused is told; then nothing is any more. */
		pause_and_feed(&probe, &peer);
		cr_assert_eq(probe.got, TOTAL + 1);
		int told = probe.told[BYTES];
		stranger_write(&peer, 100);
		turns(&loop, 3);
		cr_assert_eq(probe.told[BYTES], told);
		cr_assert_eq(probe.conn.in_flight, 1U << OP_POLL);

		/* A peer that leaves is noticed, once; its last words are not lost. */
		shutdown(peer.fd, SHUT_WR);
		turns_until(&loop, &probe, HANGUP);
		uint64_t completions = loop.completions;
		turns(&loop, 3);
		cr_assert_eq(loop.completions, completions);
		cr_assert_eq(probe.told[END], 0);
		conn_resume(&probe.conn);
		turns_until(&loop, &probe, END);
		cr_assert_eq(probe.got, TOTAL + 101);
		conn_pause(&probe.conn);
		turns(&loop, 3);
		cr_assert_eq(probe.told[HANGUP], 1);
		cr_assert_eq(probe.told[END], 1);
		conn_close(&probe.conn);
		turns_until(&loop, &probe, CLOSED);
		close(peer.fd);
	}
	loop_close(&loop);
}

/* One that says nothing while it is paused costs the kernel nothing. */
Test(conn, quiet_pauses_are_free)
{
	test_loop_open(&loop);
	static struct probe probe;
	struct stranger peer = probe_open_pair(&probe, &loop, true, 0);
	turns(&loop, 2);
	uint64_t completions = loop.completions;
	for (int i = 0; i < 5; i++) {
		conn_pause_quietly(&probe.conn);
		turns(&loop, 2);
		conn_resume(&probe.conn);
		turns(&loop, 2);
	}
	cr_assert_eq(loop.completions, completions);
	stranger_write(&peer, 7);
	turns_until(&loop, &probe, BYTES);
	cr_assert_eq(loop.completions, completions + 1);

	/* Its end is told at once, as nothing can follow. */
	conn_pause_quietly(&probe.conn);
	shutdown(peer.fd, SHUT_WR);
	turns_until(&loop, &probe, END);
	conn_resume(&probe.conn);
	turns(&loop, 3);
	cr_assert_eq(probe.told[END], 1);
	cr_assert_eq(probe.told[HANGUP], 0);
	conn_close(&probe.conn);
	turns_until(&loop, &probe, CLOSED);
	close(peer.fd);

	/* A pause that means it ends the receive, also of one that is paused quietly. */
	peer = probe_open_pair(&probe, &loop, true, 0);
	turns(&loop, 2);
	conn_pause_quietly(&probe.conn);
	conn_pause(&probe.conn);
	conn_pause_quietly(&probe.conn);
	turns(&loop, 2);
	cr_assert_eq(probe.conn.in_flight, 1U << OP_POLL);
	stranger_write(&peer, 7);
	turns(&loop, 3);
	cr_assert_eq(probe.told[BYTES], 0);
	conn_close(&probe.conn);
	turns_until(&loop, &probe, CLOSED);
	close(peer.fd);
	loop_close(&loop);
}

/* --------------------------------------------------------------------- sending */

Test(conn, queue_and_water_marks)
{
	static struct probe probe;
	test_loop_open(&loop);
	struct stranger peer = probe_open_pair(&probe, &loop, false, 8192);
	struct conn *conn = &probe.conn;
	struct buf *buf = buf_block(&loop.bufs, 4000);
	stream_fill(buf->data, 4000, 2, 0);
	buf->used = 4000;

	/* Neighbouring ranges of a buf are one piece; small copies share a block. */
	conn_send(conn, buf, 0, 10);
	conn_send(conn, buf, 10, 10);
	conn_send(conn, buf, 10, 1000);
	cr_assert_eq(loop.pieces.used, 0);
	for (uint32_t i = 1000; i < 1500; i += 5)
		conn_send_copy(conn, buf->data + i, 5);
	cr_assert_eq(loop.pieces.used, 1);
	conn_send(conn, buf, 1500, 4000);
	cr_assert_eq(loop.pieces.used, 2);
	cr_assert_eq(conn->queued, 4000);
	cr_assert_eq(buf->holders, 3);
	loop_turn(&loop, 1000);
	cr_assert_eq(loop.sends, 1);
	cr_assert(conn_is_flushed(conn));
	cr_assert_eq(conn->held, 0);
	cr_assert_eq(buf->holders, 1);
	stranger_read(&peer, 2, SIZE_MAX);
	cr_assert_eq(peer.read, 4000);

	/* A block that somebody else holds may grow elsewhere: nothing is added. */
	conn_send(conn, buf, 3990, 4000);
	conn_send_copy(conn, "x", 1);
	cr_assert_eq(buf->used, 4000);
	cr_assert_eq(loop.pieces.used, 1);
	loop_turn(&loop, 1000);

	/* Full above the high mark; room once, below the low one.  A byte counts for
	 * its whole buf, and a send takes SEND_PIECES_MAX of them. */
	struct buf *small = buf_block(&loop.bufs, 512);
	small->used = 10;
	while (!conn_is_full(conn))
		conn_send(conn, small, 7, 8);
	cr_assert_eq(conn->held, CONN_QUEUE_HIGH + small->capacity);
	while (conn->held > 0) {
		uint32_t before = conn->held;
		cr_assert_eq(conn_is_full(conn), before >= CONN_QUEUE_LOW);
		cr_assert_eq(probe.told[ROOM], before >= CONN_QUEUE_LOW ? 0 : 1);
		loop_turn(&loop, 1000);
		cr_assert_eq(before - conn->held, MIN(before, SEND_PIECES_MAX * small->capacity));
	}
	cr_assert_eq(probe.told[ROOM], 1);
	buf_drop(&loop.bufs, small);
	buf_drop(&loop.bufs, buf);
	conn_close(conn);
	turns_until(&loop, &probe, CLOSED);
	close(peer.fd);
	loop_close(&loop);
}

/* Our last words reach a peer that has sent what nobody read: to close at once
 * would reset the connection and take them away. */
Test(conn, last_words_arrive)
{
	test_loop_open(&loop);
	for (int leaves = 0; leaves < 2; leaves++) {
		static struct probe probe;
		static uint8_t bytes[100 * 1000];
		struct stranger peer = probe_open_pair(&probe, &loop, true, 0);
		pause_and_feed(&probe, &peer);
		for (int i = 0; i < 100; i++)
			stranger_write(&peer, 4096);
		stream_fill(bytes, sizeof bytes, 2, 0);
		conn_send_copy(&probe.conn, bytes, sizeof bytes);
		conn_finish(&probe.conn);
		uint64_t before = sys_clock_us();
		for (ssize_t got = 0; got >= 0;) {
			stranger_write(&peer, 4096);
			turns(&loop, 1);
			got = stranger_read(&peer, 2, 10 * 1000);
		}
		cr_assert_eq(peer.read, sizeof bytes);
		cr_assert_eq(probe.got, 1);
		/* One that does not leave is left. */
		if (leaves > 0)
			shutdown(peer.fd, SHUT_WR);
		while (probe.told[CLOSED] == 0)
			loop_turn(&loop, -1);
		uint64_t waited_ms = (sys_clock_us() - before) / 1000;
		cr_assert_eq(probe.error, 0);
		if (leaves == 0)
			cr_assert_geq(waited_ms, CONN_LINGER_MS - 200);
		else
			cr_assert_lt(waited_ms, CONN_LINGER_MS / 2);
		close(peer.fd);
	}
	loop_close(&loop);
}
