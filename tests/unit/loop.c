/*
 * loop.c - conns that share a loop: a slow reader slows only who feeds it, who
 * finds no buffer waits without spinning, and a conn moves in midstream.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/loop.h"

#include "tests/unit/net_pair.h"

#include <pthread.h>

#include "core/base/limits.h"

/* ----------------------------------------------------------------------- relay */

/* What comes in at one conn goes out at the other, as a pooler does it; behind
 * each is a stranger. */
struct relay {
	struct conn in, out;
	struct stranger writer, reader;
	uint32_t held_most;
	int closed;
};

static void in_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct relay *relay = CONTAINER(struct relay, in, conn);
	conn_send(&relay->out, buf, from, to);
	relay->held_most = MAX(relay->held_most, relay->out.held);
	if (conn_is_full(&relay->out))
		conn_pause(conn);
}

static void in_eof(struct conn *conn)
{
	struct relay *relay = CONTAINER(struct relay, in, conn);
	conn_finish(&relay->out);
	conn_finish(&relay->in);
}

static void in_closed(struct conn *conn, int error)
{
	cr_assert_eq(error, 0);
	CONTAINER(struct relay, in, conn)->closed++;
}

static void out_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	cr_assert(false, "nobody writes here: %p %p %u %u", (void *)conn, (void *)buf, from, to);
}

static void out_eof(struct conn *conn)
{
	conn_finish(conn);
}

static void out_room(struct conn *conn)
{
	conn_resume(&CONTAINER(struct relay, out, conn)->in);
}

static void out_closed(struct conn *conn, int error)
{
	cr_assert_eq(error, 0);
	CONTAINER(struct relay, out, conn)->closed++;
}

/* The writer may leave while the reader is slow: what it wrote still arrives. */
static void in_hangup(struct conn *conn)
{
	cr_assert(conn->paused);
}

static const struct conn_events relay_in = {
	.on_bytes = in_bytes,
	.on_hangup = in_hangup,
	.on_eof = in_eof,
	.on_closed = in_closed,
};

static const struct conn_events relay_out = {
	.on_bytes = out_bytes,
	.on_eof = out_eof,
	.on_room = out_room,
	.on_closed = out_closed,
};

static void relay_open(struct relay *relay, struct loop *loop, uint32_t seed, int in_buffer,
                       int out_buffer)
{
	int in[2];
	int out[2];
	test_pair(in, true, in_buffer);
	test_pair(out, true, out_buffer);
	*relay = (struct relay){
		.writer = {.fd = in[1], .seed = seed},
		.reader = {.fd = out[1]},
	};
	cr_assert(conn_accept(&relay->in, loop, in[0], RING_GROUP_CLIENT, &relay_in, false));
	cr_assert(conn_accept(&relay->out, loop, out[0], RING_GROUP_SERVER, &relay_out, false));
}

/* Reads what is there, checks it, and closes behind the end of the stream. */
static void relay_read(struct relay *relay, size_t size)
{
	ssize_t got = 1;
	while (relay->reader.fd >= 0 && got > 0 && size > 0) {
		got = stranger_read(&relay->reader, relay->writer.seed, size);
		size -= got > 0 ? (size_t)got : 0;
	}
	if (got < 0 && relay->reader.fd >= 0) {
		close(relay->reader.fd);
		relay->reader.fd = -1;
	}
}

static void relay_end_writer(struct relay *relay)
{
	close(relay->writer.fd);
	relay->writer.fd = -1;
}

static void relay_drain(struct relay *relay, struct loop *loop)
{
	if (relay->writer.fd >= 0)
		relay_end_writer(relay);
	while (relay->closed < 2) {
		relay_read(relay, SIZE_MAX);
		loop_turn(loop, 1000);
	}
	cr_assert_eq(relay->reader.read, relay->writer.written);
}

/* A reader as slow as this stops its writer, not the memory. */
Test(loop, slow_reader)
{
	static struct loop loop;
	static struct relay relay;
	enum { TOTAL = 3 * 1000 * 1000, BURST = 40 };
	uint64_t random = 1;
	bool paused = false;
	test_loop_open(&loop);
	relay_open(&relay, &loop, 5, 16 * 1024, 16 * 1024);
	while (relay.writer.written < TOTAL) {
		for (int i = 0; i < 100; i++)
			stranger_write(&relay.writer, 4096);
		relay_read(&relay, 20 * 1000);
		if (test_random(&random) % 8 == 0)
			conn_copy_out(&relay.out);
		loop_turn(&loop, 100);
		paused |= relay.in.paused;
		cr_assert_leq(relay.out.held, CONN_QUEUE_HIGH + BURST * CLIENT_BUFFER_SIZE);
		cr_assert_leq(loop.bufs.lent[RING_GROUP_CLIENT],
		              CONN_QUEUE_HIGH / CLIENT_BUFFER_SIZE + BURST);
	}
	cr_assert(paused);
	relay_drain(&relay, &loop);
	loop_close(&loop);
}

/* Forty who do not read could hold all buffers twice over. */
Test(loop, stalled_do_not_starve_others)
{
	enum { STALLED = 40, TOTAL = 2 * 1000 * 1000 };
	static struct loop loop;
	static struct relay stalled[STALLED];
	static struct relay quick;
	static struct relay late;
	test_loop_open(&loop);
	for (uint32_t i = 0; i < STALLED; i++)
		relay_open(&stalled[i], &loop, i, 8 * 1024, 8 * 1024);
	relay_open(&quick, &loop, 99, 0, 0);
	for (uint32_t round = 0; quick.writer.written < TOTAL; round++) {
		for (uint32_t i = 0; i < STALLED; i++)
			while (stranger_write(&stalled[i].writer, 4096))
				;
		stranger_write(&quick.writer, 4096);
		relay_read(&quick, SIZE_MAX);
		loop_turn(&loop, 1000);
		cr_assert_lt(round, 20 * 1000);
	}
	cr_assert_gt(loop.bufs.blocks[BUF_BLOCK_SIZES - 1].used, 0, "nothing was copied out");
	relay_open(&late, &loop, 100, 0, 0);
	for (int i = 0; i < 200; i++)
		stranger_write(&late.writer, 1000);
	relay_drain(&late, &loop);
	relay_drain(&quick, &loop);
	for (uint32_t i = 0; i < STALLED; i++)
		relay_drain(&stalled[i], &loop);
	cr_assert_eq(loop.bufs.lent[RING_GROUP_CLIENT], 0);
	loop_close(&loop);
}

/* -------------------------------------------------------------------- starving */

/* Keeps every buffer it is given. */
struct hoard {
	struct conn conn;
	struct buf *bufs[2 * CLIENT_BUFFERS];
	uint32_t kept;
	uint64_t got;
	bool closed;
};

static void hoard_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct hoard *hoard = CONTAINER(struct hoard, conn, conn);
	cr_assert(stream_is(buf->data + from, to - from, 4, hoard->got));
	hoard->got += to - from;
	buf_hold(buf);
	hoard->bufs[hoard->kept++] = buf;
}

static void hoard_eof(struct conn *conn)
{
	conn_close(conn);
}

static void hoard_closed(struct conn *conn, int error)
{
	cr_assert_eq(error, 0);
	CONTAINER(struct hoard, conn, conn)->closed = true;
}

static const struct conn_events hoard_events = {
	.on_bytes = hoard_bytes,
	.on_eof = hoard_eof,
	.on_closed = hoard_closed,
};

static uint64_t hoard_write(struct stranger *peers, uint32_t count)
{
	uint64_t written = 0;
	for (uint32_t i = 0; i < count; i++) {
		stranger_write(&peers[i], 3000);
		written += peers[i].written;
	}
	return written;
}

/* With all buffers out, receives wait for one to come back and do not spin. */
Test(loop, starved_receives)
{
	enum { HOARDS = 10 };
	static struct loop loop;
	static struct hoard hoards[HOARDS];
	struct stranger peers[HOARDS];
	test_loop_open(&loop);
	for (int i = 0; i < HOARDS; i++) {
		int fds[2];
		test_pair(fds, false, 0);
		peers[i] = (struct stranger){.fd = fds[1], .seed = 4};
		cr_assert(conn_accept(&hoards[i].conn, &loop, fds[0], RING_GROUP_CLIENT,
		                      &hoard_events, false));
	}
	while (loop.starved[RING_GROUP_CLIENT].count < HOARDS) {
		hoard_write(peers, HOARDS);
		loop_turn(&loop, 1000);
	}
	cr_assert_eq(loop.bufs.lent[RING_GROUP_CLIENT], CLIENT_BUFFERS);
	uint64_t turns = loop.turns;
	for (uint64_t before = sys_clock_us(); sys_clock_us() - before < 20 * 1000;)
		loop_turn(&loop, 5000);
	cr_assert_leq(loop.turns - turns, 8);

	/* One may leave meanwhile, another is paused and resumed. */
	conn_close(&hoards[0].conn);
	conn_pause(&hoards[1].conn);
	loop_turn(&loop, 1000);
	cr_assert(hoards[0].closed);
	cr_assert_eq(loop.starved[RING_GROUP_CLIENT].count, HOARDS - 2);
	conn_resume(&hoards[1].conn);
	uint64_t written = hoard_write(peers + 1, HOARDS - 1);
	for (uint64_t got = 0; got < written;) {
		got = 0;
		for (int i = 0; i < HOARDS; i++) {
			got += i > 0 ? hoards[i].got : 0;
			if (hoards[i].kept > 0)
				buf_drop(&loop.bufs, hoards[i].bufs[--hoards[i].kept]);
		}
		loop_turn(&loop, 100);
	}
	for (int i = 0; i < HOARDS; i++) {
		while (hoards[i].kept > 0)
			buf_drop(&loop.bufs, hoards[i].bufs[--hoards[i].kept]);
		close(peers[i].fd);
		while (!hoards[i].closed)
			loop_turn(&loop, 1000);
	}
	loop_close(&loop);
}

/* When buffers are short, a loop with nothing else to do still wakes up to free
 * those that lie behind a slow reader. */
Test(loop, wakes_for_the_stalled)
{
	static struct loop loop;
	static struct hoard hoard;
	static struct relay relay;
	int fds[2];
	test_loop_open(&loop);
	test_pair(fds, false, 0);
	struct stranger peer = {.fd = fds[1], .seed = 4};
	cr_assert(conn_accept(&hoard.conn, &loop, fds[0], RING_GROUP_CLIENT, &hoard_events, false));
	while (!buf_pool_is_short(&loop.bufs, RING_GROUP_CLIENT)) {
		stranger_write(&peer, 1000);
		loop_turn(&loop, 1000);
	}
	relay_open(&relay, &loop, 1, 0, 4096);
	while (relay.writer.written < 100 * 1000)
		stranger_write(&relay.writer, 4096);
	while (relay.out.sending < 50 * 1000)
		loop_turn(&loop, 0);
	cr_assert_gt(relay.out.borrowed, 0);
	while (relay.out.borrowed > 0)
		loop_turn(&loop, -1);
	cr_assert_geq(relay.out.queued, 50 * 1000);
	relay_drain(&relay, &loop);
	while (hoard.kept > 0)
		buf_drop(&loop.bufs, hoard.bufs[--hoard.kept]);
	conn_close(&hoard.conn);
	loop_turn(&loop, 1000);
	cr_assert(hoard.closed);
	close(peer.fd);
	loop_close(&loop);
}

/* ---------------------------------------------------------------------- moving */

/* An echo that changes its loop again and again while bytes are under way. */
struct mover {
	struct conn conn;
	struct loop *here, *there;
	uint64_t random;
	uint8_t late[1024 * 1024]; /* what came after conn_detach */
	uint32_t late_size;
	uint32_t moves, stays;
	int closed;
};

static void mover_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct mover *mover = CONTAINER(struct mover, conn, conn);
	if (conn->state == CONN_DETACHING) {
		cr_assert_leq(to - from, sizeof mover->late - mover->late_size);
		memcpy(mover->late + mover->late_size, buf->data + from, to - from);
		mover->late_size += to - from;
		return;
	}
	conn_send(conn, buf, from, to);
	if (test_random(&mover->random) % 3 == 0)
		conn_detach(conn);
}

static void mover_eof(struct conn *conn)
{
	conn_finish(conn);
}

static void mover_room(struct conn *conn)
{
	cr_assert_leq(conn->held, CONN_QUEUE_LOW);
}

static void mover_closed(struct conn *conn, int error)
{
	cr_assert_eq(error, 0);
	CONTAINER(struct mover, conn, conn)->closed++;
}

static void mover_detached(struct conn *conn);

static const struct conn_events mover_events = {
	.on_bytes = mover_bytes,
	.on_eof = mover_eof,
	.on_room = mover_room,
	.on_detached = mover_detached,
	.on_closed = mover_closed,
};

static void mover_detached(struct conn *conn)
{
	struct mover *mover = CONTAINER(struct mover, conn, conn);
	cr_assert(conn_is_flushed(conn));
	if (test_random(&mover->random) % 4 == 0) {
		conn_reattach(conn);
		mover->stays++;
	} else {
		int fd = conn_release(conn);
		struct loop *there = mover->there;
		mover->there = mover->here;
		mover->here = there;
		cr_assert(conn_accept(conn, there, fd, RING_GROUP_CLIENT, &mover_events, false));
		mover->moves++;
	}
	conn_send_copy(conn, mover->late, mover->late_size);
	mover->late_size = 0;
}

Test(loop, moves_in_midstream)
{
	enum { TOTAL = 2 * 1000 * 1000 };
	static struct loop loops[2];
	static struct mover mover = {.here = &loops[0], .there = &loops[1], .random = 1};
	int fds[2];
	test_loop_open(&loops[0]);
	test_loop_open(&loops[1]);
	test_pair(fds, true, 0);
	struct stranger stranger = {.fd = fds[1], .seed = 7};
	cr_assert(conn_accept(&mover.conn, &loops[0], fds[0], RING_GROUP_CLIENT, &mover_events,
	                      false));
	while (stranger.read < TOTAL) {
		for (uint32_t i = 0; i < 4 && stranger.written < TOTAL; i++)
			stranger_write(&stranger, MIN(TOTAL - stranger.written, 1 + i * 1300));
		stranger_read(&stranger, 7, SIZE_MAX);
		loop_turn(&loops[0], 100);
		loop_turn(&loops[1], 100);
	}
	shutdown(stranger.fd, SHUT_WR);
	while (mover.closed == 0) {
		loop_turn(&loops[0], 1000);
		loop_turn(&loops[1], 1000);
	}
	cr_assert_gt(mover.moves, 20);
	cr_assert_gt(mover.stays, 5);
	close(stranger.fd);
	loop_close(&loops[0]);
	loop_close(&loops[1]);
}

/* ----------------------------------------------------------------------- bells */

struct counted_bell {
	struct bell bell;
	uint64_t rung; /* several rings may be heard as one */
};

static void bell_count(struct bell *bell)
{
	CONTAINER(struct counted_bell, bell, bell)->rung += bell->value;
}

static void *ring_thrice(void *argument)
{
	for (int i = 0; i < 3; i++) {
		usleep(2000);
		sys_bell_ring(*(int *)argument);
	}
	return NULL;
}

Test(loop, bell_wakes)
{
	static struct loop loop;
	struct counted_bell counted = {0};
	pthread_t thread;
	int fd = sys_bell_open();
	test_loop_open(&loop);
	cr_assert(bell_open(&counted.bell, &loop, fd, bell_count));
	pthread_create(&thread, NULL, ring_thrice, &fd);
	while (counted.rung < 3)
		loop_turn(&loop, -1);
	pthread_join(thread, NULL);
	sys_bell_ring(fd); /* before the loop waits */
	loop_turn(&loop, -1);
	cr_assert_eq(counted.rung, 4);
	uint64_t before = sys_clock_us();
	loop_turn(&loop, 3000); /* nothing comes */
	cr_assert_geq(sys_clock_us() - before, 2900);
	bell_close(&counted.bell);
	bell_close(&counted.bell);
	loop_close(&loop);
	close(fd);
}
