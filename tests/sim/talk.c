/* talk.c - see talk.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/talk.h"

#include "tests/sim/report.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"

enum { MESSAGE_MAX = 1 << 24 };

void talk_open(struct talk *talk, struct sock *sock)
{
	talk->sock = sock;
	talk->in.head = talk->in.size = talk->out.head = talk->out.size = 0;
	talk->ready = talk->open = 0;
	talk->handed = 0;
	talk->failed = false;
}

void talk_close(struct talk *talk, bool reset)
{
	if (talk->sock == NULL)
		return;
	struct sock *sock = talk->sock;
	talk->sock = NULL;
	if (reset)
		sock_reset(sock);
	else
		sock_close(sock);
}

void talk_fini(struct talk *talk)
{
	free(talk->in.bytes);
	free(talk->out.bytes);
	talk->in = talk->out = (struct talk_queue){0};
}

/* Room for `size` more bytes behind the queue; offsets from head stay. */
static uint8_t *queue_room(struct talk_queue *queue, uint32_t size)
{
	if (queue->head > 0 && queue->head == queue->size)
		queue->head = queue->size = 0;
	if (size > queue->room - queue->size) {
		uint32_t used = queue->size - queue->head;
		uint32_t room = queue->room == 0 ? 512 : queue->room;
		while (room - used < size)
			room *= 2;
		uint8_t *bytes = malloc(room);
		SIM_CHECK(bytes != NULL, "no memory");
		if (used > 0)
			memcpy(bytes, queue->bytes + queue->head, used);
		free(queue->bytes);
		*queue = (struct talk_queue){bytes, 0, used, room};
	}
	return queue->bytes + queue->size;
}

static void out_put(struct talk *talk, const void *bytes, uint32_t size)
{
	if (size == 0)
		return;
	memcpy(queue_room(&talk->out, size), bytes, size);
	talk->out.size += size;
}

/* `open` counts from the head of the queue, which may move. */
void talk_begin(struct talk *talk, char type)
{
	if (type != 0)
		out_put(talk, &type, 1);
	talk->open = talk->out.size - talk->out.head;
	out_put(talk, "\0\0\0\0", 4);
}

void talk_u8(struct talk *talk, uint8_t value)
{
	out_put(talk, &value, 1);
}

void talk_u16(struct talk *talk, uint16_t value)
{
	uint8_t bytes[2];
	write_u16(bytes, value);
	out_put(talk, bytes, 2);
}

void talk_u32(struct talk *talk, uint32_t value)
{
	uint8_t bytes[4];
	write_u32(bytes, value);
	out_put(talk, bytes, 4);
}

void talk_bytes(struct talk *talk, const void *bytes, uint32_t size)
{
	out_put(talk, bytes, size);
}

void talk_text(struct talk *talk, const char *text)
{
	out_put(talk, text, (uint32_t)strlen(text) + 1);
}

void talk_end(struct talk *talk)
{
	uint8_t *length = talk->out.bytes + talk->out.head + talk->open;
	write_u32(length, talk->out.size - talk->out.head - talk->open);
}

void talk_empty(struct talk *talk, char type)
{
	talk_begin(talk, type);
	talk_end(talk);
}

void talk_flush(struct talk *talk)
{
	talk->ready = talk->out.size - talk->out.head;
	talk_send(talk);
}

void talk_send(struct talk *talk)
{
	while (talk->sock != NULL && talk->ready > 0) {
		int32_t sent = sock_write(talk->sock, talk->out.bytes + talk->out.head,
		                          talk->ready);
		if (sent < 0) {
			talk->failed = true;
			talk->out.head = talk->out.size = 0;
			talk->ready = 0;
			return;
		}
		if (sent == 0)
			return;
		talk->out.head += (uint32_t)sent;
		talk->ready -= (uint32_t)sent;
		talk->handed += (uint32_t)sent;
	}
}

uint32_t talk_unsent(const struct talk *talk)
{
	return talk->out.size - talk->out.head;
}

uint32_t talk_held(const struct talk *talk)
{
	return talk_unsent(talk) - talk->ready;
}

void talk_receive(struct talk *talk)
{
	if (talk->sock == NULL || talk->sock->arrived == 0)
		return;
	uint32_t size = talk->sock->arrived;
	uint8_t *to = queue_room(&talk->in, size);
	talk->in.size += sock_read(talk->sock, to, size);
}

/* What stood before and after the place, for whoever has to find out why. */
_Noreturn static void framing_lost(const struct talk *talk, bool typed)
{
	uint32_t from = talk->in.head > 160 ? talk->in.head - 160 : 0;
	uint32_t to = talk->in.size - talk->in.head > 80 ? talk->in.head + 80 : talk->in.size;
	char text[260] = "";
	for (uint32_t i = from; i < to; i++)
		text[i - from] = (char)(talk->in.bytes[i] >= ' ' && talk->in.bytes[i] < 127
		                                ? talk->in.bytes[i]
		                                : '.');
	sim_fail("the stream is lost at byte %u of: %s%s", talk->in.head - from, text,
	         typed ? "" : " (a first packet)");
}

bool talk_next(struct talk *talk, bool typed, struct message *message)
{
	uint32_t header = typed ? 5 : 4;
	uint32_t have = talk->in.size - talk->in.head;
	if (have < header)
		return false;
	const uint8_t *at = talk->in.bytes + talk->in.head;
	uint32_t length = read_u32(at + header - 4);
	if (length < 4 || length >= MESSAGE_MAX)
		framing_lost(talk, typed);
	uint32_t whole = length + header - 4;
	if (have < whole)
		return false;
	*message = (struct message){typed ? at[0] : 0, at + header, length - 4};
	talk->in.head += whole;
	return true;
}

bool talk_next_byte(struct talk *talk, uint8_t *byte)
{
	if (talk_is_empty(talk))
		return false;
	*byte = talk->in.bytes[talk->in.head++];
	return true;
}

bool talk_is_empty(const struct talk *talk)
{
	return talk->in.head == talk->in.size;
}

struct cursor cursor_of(const struct message *message)
{
	return (struct cursor){message->body, message->body + message->size, false};
}

static const uint8_t *cursor_take(struct cursor *cursor, uint32_t size)
{
	static const uint8_t none[4];
	if (cursor->bad || size > (size_t)(cursor->end - cursor->at)) {
		cursor->bad = true;
		return none;
	}
	const uint8_t *at = cursor->at;
	cursor->at += size;
	return at;
}

uint8_t cursor_u8(struct cursor *cursor)
{
	return *cursor_take(cursor, 1);
}

uint16_t cursor_u16(struct cursor *cursor)
{
	return read_u16(cursor_take(cursor, 2));
}

uint32_t cursor_u32(struct cursor *cursor)
{
	return read_u32(cursor_take(cursor, 4));
}

const char *cursor_text(struct cursor *cursor)
{
	const uint8_t *end = memchr(cursor->at, 0, (size_t)(cursor->end - cursor->at));
	if (cursor->bad || end == NULL) {
		cursor->bad = true;
		return "";
	}
	const char *text = (const char *)cursor->at;
	cursor->at = end + 1;
	return text;
}

const char *message_field(const struct message *message, char code)
{
	struct cursor cursor = cursor_of(message);
	for (;;) {
		char field = (char)cursor_u8(&cursor);
		if (field == 0)
			return "";
		const char *text = cursor_text(&cursor);
		if (field == code)
			return text;
	}
}
