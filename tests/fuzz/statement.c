/*
 * The first byte says how much of a message is yet to come, the rest is what is
 * there of it, and a text of SQL.  A head must be what a slow reader finds, and no
 * prefix may say anything else than that or unfinished.  The quick look at SQL
 * must not pass what the other one would not; a statement that is found must be
 * found again when written out anew, with white space, comments and empty
 * statements around it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/statement.h"

#include <stdlib.h>

#include "core/base/check.h"

/* Behind the text that begins at `at`; 0: it has no end. */
static size_t text_end(const uint8_t *data, size_t at, size_t size)
{
	while (at < size && data[at] != 0)
		at++;
	return at < size ? at + 1 : 0;
}

/* Of a whole message. */
static enum head_status head_slowly(struct head *head, const uint8_t *data, size_t size)
{
	*head = (struct head){0};
	if (size < 6 || memchr("PBDCE", data[0], 5) == NULL)
		return HEAD_BROKEN;
	bool is_target = data[0] == 'D' || data[0] == 'C';
	size_t from = is_target ? 6 : 5;
	size_t end = text_end(data, from, size);
	if (end == 0 || (is_target && memchr("SP", data[5], 2) == NULL))
		return HEAD_BROKEN;
	struct span first = span_of(data + from, end - from - 1);
	if (is_target) {
		head->kind = data[5];
		*(data[5] == 'S' ? &head->name : &head->portal) = first;
		head->size = (uint32_t)size;
		return end == size ? HEAD_OK : HEAD_BROKEN;
	}
	if (data[0] == 'P') {
		head->name = first;
	} else {
		head->portal = first;
		from = end;
	}
	if (data[0] == 'B') {
		end = text_end(data, from, size);
		if (end == 0)
			return HEAD_BROKEN;
		head->name = span_of(data + from, end - from - 1);
	}
	head->size = (uint32_t)end;
	return data[0] == 'E' && size - end != 4 ? HEAD_BROKEN : HEAD_OK;
}

static void heads_check(struct span bytes, uint32_t extra)
{
	/* What is yet to come are zero bytes. */
	uint32_t length = bytes.size + extra;
	uint8_t *whole = calloc(1, length + 1);
	CHECK(whole != NULL);
	if (bytes.size > 0)
		memcpy(whole, bytes.data, bytes.size);
	struct head slow;
	enum head_status expected = head_slowly(&slow, whole, length);
	uint32_t least = length > 1024 ? length - 1024 : 0;
	for (uint32_t there = length; there + 1 > least; there--) {
		uint8_t *copy = malloc(there);
		CHECK(copy != NULL || there == 0);
		if (there > 0)
			memcpy(copy, whole, there);
		struct head head;
		enum head_status status = head_read(&head, span_of(copy, there), length);
		CHECK(status == expected || (status == HEAD_MORE && there < length));
		/* Known as soon as it can be. */
		CHECK(status != HEAD_MORE || expected != HEAD_OK || there < slow.size);
		if (status == HEAD_OK) {
			CHECK(head.kind == slow.kind && head.size == slow.size);
			CHECK(head.size <= there);
			CHECK(span_equal(head.name, slow.name));
			CHECK(span_equal(head.portal, slow.portal));
		}
		free(copy);
		if (there == 0)
			break;
	}
	free(whole);
}

static void append(char *to, size_t *size, const char *text)
{
	memcpy(to + *size, text, strlen(text));
	*size += strlen(text);
}

/* The effect once more, written in another way. */
static void again_check(enum sql_effect effect, const char *name)
{
	char text[512];
	size_t size = 0;
	append(text, &size, ";/*;/**/*/-- x\r;");
	append(text, &size, effect == SQL_DISCARD_ALL ? "DisCard/**/" : "dealLOCATE/**/");
	if (effect == SQL_DEALLOCATE) {
		append(text, &size, "\"");
		for (; *name != '\0'; name++) {
			text[size++] = *name;
			if (*name == '"')
				text[size++] = '"';
		}
		append(text, &size, "\"");
	} else {
		append(text, &size, "aLL");
	}
	append(text, &size, "--\n;;/***/;\t--");
	char name_of[STATEMENT_NAME_MAX + 1] = "";
	CHECK(sql_effect(span_of(text, size), name_of) == effect);
	CHECK(sql_may_forget(span_of(text, size)));
}

static void sql_check(struct span text)
{
	char name_of[STATEMENT_NAME_MAX + 1];
	memset(name_of, 'x', sizeof name_of);
	enum sql_effect effect = sql_effect(text, name_of);
	CHECK(effect == SQL_NONE || sql_may_forget(text));
	if (effect == SQL_DEALLOCATE)
		CHECK(memchr(name_of, '\0', sizeof name_of) != NULL);
	/* A name with a zero byte, which no text on the wire can hold, ends at it. */
	if (effect == SQL_DEALLOCATE && name_of[0] == '\0')
		return;
	if (effect != SQL_NONE && effect != SQL_UNCLEAR)
		again_check(effect, name_of);
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 1 << 16)
		return 0;
	uint8_t *copy = malloc(size - 1); /* of its size: the sanitizer sees its end */
	CHECK(copy != NULL || size == 1);
	if (size > 1)
		memcpy(copy, data + 1, size - 1);
	struct span bytes = span_of(copy, size - 1);
	heads_check(bytes, data[0]);
	sql_check(bytes);
	free(copy);
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
