/*
 * startup.c - see startup.h.
 *
 * The length is judged as soon as it is there and the code as soon as it is
 * there, so that no stranger makes us wait for, or keep, a packet that we
 * would refuse anyway.  All else waits until the packet is whole: the caller
 * answers, and an answer with half the packet unread is lost in a reset.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/startup.h"

#include "core/base/limits.h"
#include "proto/read.h"

enum {
	TLS_HANDSHAKE = 0x16, /* content type of a TLS record, RFC 8446 5.1 */
	HEADER_SIZE = 8,      /* length and code */
	PROTOCOL_2_0 = 0x20000,

	/* Behind the code of a CancelRequest: four bytes of pid and 4 to 256 of
	 * secret (protocol 3.2; always 4 in 3.0). */
	KEY_SIZE_MIN = 4 + 4,
	KEY_SIZE_MAX = 4 + 256,
};

/* Whether the parameters are pairs of texts, the names not empty, and behind
 * them exactly one zero byte. */
static bool layout_is_good(struct span body)
{
	struct reader in = reader_of(body);
	while (*reader_text(&in) != '\0')
		reader_text(&in);
	return reader_done(&in);
}

/* What a packet of this length and code is, layout of parameters aside. */
static enum startup_kind kind_of(uint32_t size, uint32_t code)
{
	switch (code) {
	case CODE_SSL: return size == HEADER_SIZE ? STARTUP_SSL : STARTUP_BAD;
	case CODE_GSSENC: return size == HEADER_SIZE ? STARTUP_GSSENC : STARTUP_BAD;
	case CODE_CANCEL:
		if (size < HEADER_SIZE + KEY_SIZE_MIN || size > HEADER_SIZE + KEY_SIZE_MAX)
			return STARTUP_BAD;
		return STARTUP_CANCEL;
	case PROTOCOL_2_0: return STARTUP_V2;
	default: return code >> 16 == PROTOCOL_3_0 >> 16 ? STARTUP_V3 : STARTUP_BAD;
	}
}

static struct startup packet_read(struct span packet, enum startup_kind kind)
{
	struct startup startup = {.kind = kind, .size = packet.size};
	struct span body = {packet.data + HEADER_SIZE, packet.size - HEADER_SIZE};
	if (kind == STARTUP_CANCEL)
		startup.key = body;
	if (kind == STARTUP_V2 || kind == STARTUP_V3)
		startup.protocol = read_u32(packet.data + 4);
	if (kind == STARTUP_V3 && !layout_is_good(body))
		startup.kind = STARTUP_LAYOUT;
	if (startup.kind == STARTUP_V3)
		startup.parameters = (struct span){body.data, body.size - 1};
	return startup;
}

struct startup startup_read(struct span in)
{
	if (in.size == 0)
		return (struct startup){.kind = STARTUP_MORE};
	if (in.data[0] == TLS_HANDSHAKE)
		return (struct startup){.kind = STARTUP_TLS};
	if (in.size < 4)
		return (struct startup){.kind = STARTUP_MORE};

	uint32_t size = read_u32(in.data);
	if (size < HEADER_SIZE || size > STARTUP_SIZE_MAX)
		return (struct startup){.kind = STARTUP_BAD};
	if (in.size < HEADER_SIZE)
		return (struct startup){.kind = STARTUP_MORE, .size = size};

	enum startup_kind kind = kind_of(size, read_u32(in.data + 4));
	if (kind == STARTUP_BAD)
		return (struct startup){.kind = STARTUP_BAD};
	if (in.size < size)
		return (struct startup){.kind = STARTUP_MORE, .size = size};
	return packet_read((struct span){in.data, size}, kind);
}

bool startup_parameter(const struct startup *startup, uint32_t *at, const char **name,
                       const char **value)
{
	struct span all = startup->parameters;
	if (*at >= all.size)
		return false;
	struct reader in = reader_of((struct span){all.data + *at, all.size - *at});
	*name = reader_text(&in);
	*value = reader_text(&in);
	*at = all.size - reader_left(&in);
	return !in.failed;
}

/* As isspace() of the C locale; PostgreSQL splits `options` at these. */
static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * Unescapes the next word into scratch, at the offset it has in text: no word
 * grows, so words do not overlap and earlier ones stay.  NULL at the end.
 */
static char *word_next(const char *text, uint32_t *at, char *scratch)
{
	uint32_t from = *at;
	while (is_space(text[from]))
		from++;
	uint32_t to = from;
	uint32_t out = from;
	while (text[to] != '\0' && !is_space(text[to])) {
		/* A backslash at the very end stands for nothing. */
		if (text[to] == '\\' && text[++to] == '\0')
			break;
		scratch[out++] = text[to++];
	}
	*at = to;
	if (to == from)
		return NULL;
	scratch[out] = '\0';
	return scratch + from;
}

enum option_status startup_option(const char *text, uint32_t *at, char *scratch,
                                  struct option *option)
{
	const char *pair = word_next(text, at, scratch);
	if (pair == NULL)
		return OPTION_END;
	if (strcmp(pair, "-c") == 0)
		pair = word_next(text, at, scratch);
	else if (strncmp(pair, "-c", 2) == 0 || strncmp(pair, "--", 2) == 0)
		pair += 2;
	else
		return OPTION_BAD;

	const char *equals = pair == NULL ? NULL : strchr(pair, '=');
	if (equals == NULL || equals == pair)
		return OPTION_BAD;
	size_t size = (size_t)(equals - pair);
	if (size >= sizeof option->name)
		return OPTION_BAD;
	memcpy(option->name, pair, size);
	option->name[size] = '\0';
	option->value = equals + 1;
	return OPTION_SET;
}
