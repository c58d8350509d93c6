/*
 * loop_echo.c - many streams at once, of any size in pieces of any size, arrive
 * whole and in order, there and back.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/net_pair.h"

#include "core/base/limits.h"
#include "net/loop.h"

/* One end.  The client writes a stream in pieces of random size and
 * checks what comes back; the server sends back what it receives. */
struct echo {
	struct conn conn;
	uint64_t random;
	uint32_t seed;
	uint64_t total, sent, got;
	int closed, *open;
};

static void echo_close(struct conn *conn, int error)
{
	struct echo *echo = CONTAINER(struct echo, conn, conn);
	cr_assert_eq(error, 0, "%s", strerror(-error));
	cr_assert_eq(++echo->closed, 1);
	cr_assert_eq(echo->got, echo->total);
	--*echo->open;
}

static void echo_finish(struct conn *conn)
{
	conn_finish(conn);
}

static void server_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct echo *echo = CONTAINER(struct echo, conn, conn);
	uint32_t middle = from + test_random(&echo->random) % (to - from + 1);
	echo->got += to - from;
	conn_send(conn, buf, from, middle);
	if (test_random(&echo->random) % 4 == 0) /* tear the range */
		conn_send_copy(conn, buf->data + middle, to - middle);
	else
		conn_send(conn, buf, middle, to);
	if (conn_is_full(conn))
		conn_pause(conn);
}

static void server_room(struct conn *conn)
{
	conn_resume(conn);
}

static void client_feed(struct echo *echo)
{
	static uint8_t bytes[70000];
	while (echo->sent < echo->total && !conn_is_full(&echo->conn)) {
		uint32_t most = test_random(&echo->random) % 8 == 0 ? 70000 : 300;
		uint32_t size = 1 + test_random(&echo->random) % most;
		size = (uint32_t)MIN(size, echo->total - echo->sent);
		stream_fill(bytes, size, echo->seed, echo->sent);
		conn_send_copy(&echo->conn, bytes, size);
		echo->sent += size;
	}
}

static void client_room(struct conn *conn)
{
	client_feed(CONTAINER(struct echo, conn, conn));
}

static void client_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	struct echo *echo = CONTAINER(struct echo, conn, conn);
	cr_assert(stream_is(buf->data + from, to - from, echo->seed, echo->got));
	echo->got += to - from;
	if (echo->got == echo->total)
		conn_finish(conn);
}

/* The client has all, but our last send may not have been told yet. */
static void server_hangup(struct conn *conn)
{
	cr_assert(conn->paused);
}

static const struct conn_events echo_server = {
	.on_bytes = server_bytes,
	.on_hangup = server_hangup,
	.on_room = server_room,
	.on_eof = echo_finish,
	.on_closed = echo_close,
};

static const struct conn_events echo_client = {
	.on_bytes = client_bytes,
	.on_room = client_room,
	.on_eof = echo_finish,
	.on_closed = echo_close,
};

static void echo_run(uint32_t pairs, bool tcp, int buffer, uint64_t biggest)
{
	static struct loop loop;
	struct echo *echoes = calloc(pairs * 2, sizeof echoes[0]);
	int open = (int)pairs * 2;
	test_loop_open(&loop);
	for (uint32_t i = 0; i < pairs * 2; i += 2) {
		uint64_t random = i * 77;
		uint64_t total = 1 + test_random(&random) % (i % 16 == 0 ? 100000 : 3000);
		int fds[2];
		test_pair(fds, tcp, buffer);
		if (i == 0)
			total = biggest;
		for (uint32_t j = i; j < i + 2; j++) {
			echoes[j].random = j;
			echoes[j].seed = i;
			echoes[j].total = total;
			echoes[j].open = &open;
			cr_assert(conn_accept(&echoes[j].conn, &loop, fds[j - i], (uint8_t)(j - i),
			                      j == i ? &echo_client : &echo_server, false));
		}
		client_feed(&echoes[i]);
	}
	while (open > 0)
		loop_turn(&loop, 5000 * 1000);
	cr_assert_eq(loop.late, 0);
	loop_close(&loop);
	free(echoes);
}

Test(loop_echo, many)
{
	echo_run(1, true, 0, 1);
	echo_run(1, false, 0, 10 * 1000 * 1000);
	echo_run(200, true, 0, 10 * 1000 * 1000);
	echo_run(50, false, 0, 1000 * 1000);
	echo_run(20, true, 4096, 500 * 1000);
}
