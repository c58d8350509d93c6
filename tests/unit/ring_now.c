/*
 * ring_now.c - sends that do not wait, against the kernel of this machine: what
 * is silent is sent, what is not sent is told in the same turn, and the memory
 * is ours again at once.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "net/ring.h"
#include "net/sys.h"

static struct ring *ring_of(uint32_t entries, uint32_t completions)
{
	struct ring_options options = {.entries = entries, .completions = completions};
	struct ring_failure failure = {{0}};
	struct ring *ring = ring_open(&options, &failure);
	cr_assert_not_null(ring, "%s", failure.text);
	cr_assert(ring_sends_now(ring));
	return ring;
}

struct stream {
	int pair[2];
	uint32_t sent, read;
	uint32_t size; /* under way */
	uint8_t bytes[5000];
};

static void stream_open(struct stream *stream)
{
	int least = 1;
	memset(stream, 0, sizeof *stream);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream->pair), 0);
	setsockopt(stream->pair[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
}

static void stream_close(struct stream *stream)
{
	close(stream->pair[0]);
	close(stream->pair[1]);
}

static uint8_t byte_at(uint32_t at)
{
	return (uint8_t)(at * 2654435761U >> 24);
}

/* Sends the next `size` bytes, in two pieces if they are many. */
static void stream_send(struct ring *ring, struct stream *stream, uint64_t user_data, uint32_t size)
{
	static struct iovec pieces[64][2];
	static struct msghdr messages[64];
	for (uint32_t i = 0; i < size; i++)
		stream->bytes[i] = byte_at(stream->sent + i);
	stream->size = size;
	if (size < 100) {
		ring_send_now(ring, user_data, stream->pair[0], stream->bytes, size);
		return;
	}
	struct iovec *two = pieces[user_data % 64];
	two[0] = (struct iovec){stream->bytes, 99};
	two[1] = (struct iovec){stream->bytes + 99, size - 99};
	messages[user_data % 64] = (struct msghdr){.msg_iov = two, .msg_iovlen = 2};
	ring_sendmsg_now(ring, user_data, stream->pair[0], &messages[user_data % 64]);
}

/* Reads up to `most` bytes: each must be the next of the stream. */
static void stream_read(struct stream *stream, size_t most)
{
	uint8_t bytes[6000];
	ssize_t got = recv(stream->pair[1], bytes, MIN(most, sizeof bytes), MSG_DONTWAIT);
	for (ssize_t i = 0; i < got; i++)
		cr_assert_eq(bytes[i], byte_at(stream->read++));
}

/* Many streams whose readers are slow, more sends than entries: every part is
 * told, and nothing that is written into the memory afterwards goes out. */
Test(ring_now, streams)
{
	enum { STREAMS = 48, ROUNDS = 2000 };
	static struct stream streams[STREAMS];
	struct ring *ring = ring_of(16, 256);
	uint32_t parts = 0, fulls = 0, silent = 0;
	uint64_t state = 1;
	for (int i = 0; i < STREAMS; i++)
		stream_open(&streams[i]);
	for (int round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < STREAMS; i++) {
			state = state * 6364136223846793005ULL + 1442695040888963407ULL;
			stream_send(ring, &streams[i], i, 1 + (uint32_t)(state >> 40) % 4000);
			if (state >> 33 & 1)
				stream_read(&streams[i], (uint32_t)(state >> 50) % 6000);
		}
		uint32_t count = ring_turn(ring, 0);
		cr_assert(ring_is_settled(ring));
		for (uint32_t i = 0; i < count; i++) {
			const struct completion *told = ring_completion(ring, i);
			struct stream *stream = &streams[told->user_data];
			cr_assert(!told->more && told->result < (int32_t)stream->size);
			cr_assert(told->result > 0 || told->result == -EAGAIN);
			parts += told->result > 0;
			fulls += told->result < 0;
			stream->sent += told->result > 0 ? (uint32_t)told->result : 0;
			stream->size = 0;
		}
		for (uint32_t i = 0; i < STREAMS; i++) {
			silent += streams[i].size > 0;
			streams[i].sent += streams[i].size;
			memset(streams[i].bytes, 0xee, sizeof streams[i].bytes);
		}
	}
	for (int i = 0; i < STREAMS; i++) {
		while (streams[i].read < streams[i].sent)
			stream_read(&streams[i], 6000);
		stream_close(&streams[i]);
	}
	cr_assert(parts > 100 && fulls > 100 && silent > 100, "%u %u %u", parts, fulls, silent);
	ring_close(ring);
}

/* What is no success is told, whatever else happens in the turn. */
Test(ring_now, failures)
{
	static struct stream stream;
	struct ring *ring = ring_of(16, 64);
	stream_open(&stream);
	struct {
		int fd, error;
	} rows[] = {{-1, -EBADF}, {STDIN_FILENO, -ENOTSOCK}, {stream.pair[0], -EPIPE}};
	close(stream.pair[1]);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ring_send_now(ring, 7, rows[i].fd, "x", 1);
		cr_assert_eq(ring_turn(ring, 0), 1);
		const struct completion *told = ring_completion(ring, 0);
		cr_assert_eq(told->user_data, 7);
		cr_assert_eq(told->result, rows[i].error, "row %zu: %d", i, told->result);
		cr_assert(ring_is_settled(ring));
	}
	close(stream.pair[0]);
	ring_close(ring);
}

/* With more to tell than there is room for, silence is no answer yet. */
Test(ring_now, overflow)
{
	enum { MANY = 100 };
	struct ring *ring = ring_of(16, 32);
	uint32_t told = 0;
	for (uint64_t i = 0; i < MANY; i++)
		ring_send_now(ring, i, -1, "x", 1);
	for (int turn = 0; turn < 20 && told < MANY; turn++) {
		told += ring_turn(ring, 0);
		if (told < MANY && turn == 0)
			cr_assert_not(ring_is_settled(ring));
	}
	cr_assert_eq(told, MANY);
	ring_turn(ring, 0);
	cr_assert(ring_is_settled(ring));
	ring_close(ring);
}
