/*
 * statement.c - see statement.h.
 *
 * Names are found by memchr() where they lie; a head is a few compares.
 *
 * SQL is cut into the few tokens that such statements are made of.  All that
 * is not one of them is TOKEN_OTHER, which no statement of ours holds, so the
 * server will call the text a syntax error, or it is another statement.
 * PostgreSQL parses the whole text before it runs any of it: one syntax error
 * means that nothing is forgotten.
 *
 * Texts of several statements are not cut at their semicolons, for which
 * literals, dollar quotes and BEGIN ATOMIC would have to be known.  If one of the two
 * words is anywhere in such a text, that is unclear.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/statement.h"

#include "core/base/check.h"
#include "proto/scan.h"

enum {
	EXECUTE_TAIL_SIZE = 4, /* how many rows */
};

/* --- names in messages ------------------------------------------------------ */

/* Takes a text and its zero byte off the front, if that is there.  Most are empty. */
static inline bool name_take(struct span *rest, struct span *name)
{
	if (rest->size > 0 && rest->data[0] == '\0') {
		*name = span_of(rest->data, 0);
		*rest = span_of(rest->data + 1, rest->size - 1);
		return true;
	}
	const uint8_t *zero = rest->size > 0 ? memchr(rest->data, '\0', rest->size) : NULL;
	if (zero == NULL)
		return false;
	uint32_t size = (uint32_t)(zero - rest->data);
	*name = span_of(rest->data, size);
	*rest = span_of(zero + 1, rest->size - size - 1);
	return true;
}

enum head_status head_read(struct head *head, struct span bytes, uint32_t length)
{
	bytes.size = MIN(bytes.size, length);
	enum head_status missing = bytes.size < length ? HEAD_MORE : HEAD_BROKEN;
	*head = (struct head){0};
	if (bytes.size <= SCAN_HEADER_SIZE)
		return missing;
	struct span rest = span_of(bytes.data + SCAN_HEADER_SIZE, bytes.size - SCAN_HEADER_SIZE);
	uint8_t type = bytes.data[0];
	if (type == 'D' || type == 'C') {
		head->kind = rest.data[0];
		if (head->kind != 'S' && head->kind != 'P')
			return HEAD_BROKEN;
		rest = span_of(rest.data + 1, rest.size - 1);
	} else if (type != 'P' && type != 'B' && type != 'E') {
		return HEAD_BROKEN;
	}

	bool has_portal = type == 'B' || type == 'E' || head->kind == 'P';
	bool has_name = type == 'P' || type == 'B' || head->kind == 'S';
	if (has_portal && !name_take(&rest, &head->portal))
		return missing;
	if (has_name && !name_take(&rest, &head->name))
		return missing;
	head->size = (uint32_t)(rest.data - bytes.data);
	uint32_t behind = length - head->size;
	if ((head->kind != 0 && behind != 0) || (type == 'E' && behind != EXECUTE_TAIL_SIZE))
		return HEAD_BROKEN;
	return HEAD_OK;
}

/* --- bytes of SQL ----------------------------------------------------------- */

static uint8_t byte_fold(uint8_t byte)
{
	return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 'a' - 'A') : byte;
}

static bool is_letter(uint8_t byte)
{
	return byte_fold(byte) >= 'a' && byte_fold(byte) <= 'z';
}

/* '\v' is one of them since PostgreSQL 16. */
static bool is_space(uint8_t byte)
{
	return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static bool is_word_start(uint8_t byte)
{
	return is_letter(byte) || byte == '_' || byte >= 0x80;
}

static bool is_word(uint8_t byte)
{
	return is_word_start(byte) || (byte >= '0' && byte <= '9') || byte == '$';
}

static void span_skip(struct span *span, uint32_t size)
{
	CHECK(size <= span->size);
	*span = span_of(span->data + size, span->size - size);
}

/* `text` is in lower case. */
static bool begins_with(struct span span, const char *text, uint32_t size)
{
	if (span.size < size)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		if (byte_fold(span.data[i]) != (uint8_t)text[i])
			return false;
	}
	return true;
}

static bool has_pair(struct span span, const char *pair)
{
	return begins_with(span, pair, 2);
}

/* --- tokens ----------------------------------------------------------------- */

enum token_kind {
	TOKEN_END,
	TOKEN_SEMICOLON,
	TOKEN_WORD,    /* a keyword, or a name as it is */
	TOKEN_QUOTED,  /* a name; the text is what its quotes enclose */
	TOKEN_ESCAPED, /* U&", which starts a name that we do not decode */
	TOKEN_OTHER,   /* also what lacks its end */
};

struct token {
	enum token_kind kind;
	struct span text;
};

/* Comments nest.  False: it has no end. */
static bool comment_skip(struct span *rest)
{
	uint32_t depth = 0;
	do {
		uint32_t size = 2;
		if (has_pair(*rest, "/*"))
			depth++;
		else if (has_pair(*rest, "*/"))
			depth--;
		else
			size = 1;
		if (size > rest->size)
			return false;
		span_skip(rest, size);
	} while (depth > 0);
	return true;
}

static void line_skip(struct span *rest)
{
	while (rest->size > 0 && rest->data[0] != '\n' && rest->data[0] != '\r')
		span_skip(rest, 1);
}

/* White space and comments.  False: a comment has no end. */
static bool blank_skip(struct span *rest)
{
	while (rest->size > 0) {
		if (is_space(rest->data[0])) {
			span_skip(rest, 1);
		} else if (has_pair(*rest, "--")) {
			line_skip(rest);
		} else if (has_pair(*rest, "/*")) {
			if (!comment_skip(rest))
				return false;
		} else {
			break;
		}
	}
	return true;
}

static struct token word_take(struct span *rest)
{
	uint32_t size = 1;
	while (size < rest->size && is_word(rest->data[size]))
		size++;
	struct token token = {TOKEN_WORD, span_of(rest->data, size)};
	span_skip(rest, size);
	return token;
}

/* Behind its first quote. */
static struct token quoted_take(struct span *rest)
{
	const uint8_t *from = rest->data;
	while (rest->size > 0 && (rest->data[0] != '"' || has_pair(*rest, "\"\"")))
		span_skip(rest, rest->data[0] == '"' ? 2 : 1);
	struct span text = span_of(from, (size_t)(rest->data - from));
	if (rest->size == 0)
		return (struct token){TOKEN_OTHER, text};
	span_skip(rest, 1);
	/* PostgreSQL has no empty names. */
	return (struct token){text.size > 0 ? TOKEN_QUOTED : TOKEN_OTHER, text};
}

static struct token token_take(struct span *rest)
{
	if (!blank_skip(rest))
		return (struct token){.kind = TOKEN_OTHER};
	if (rest->size == 0)
		return (struct token){.kind = TOKEN_END};
	if (begins_with(*rest, "u&\"", 3))
		return (struct token){.kind = TOKEN_ESCAPED};
	if (is_word_start(rest->data[0]))
		return word_take(rest);
	struct token token = {TOKEN_OTHER, span_of(rest->data, 1)};
	span_skip(rest, 1);
	if (token.text.data[0] == '"')
		return quoted_take(rest);
	if (token.text.data[0] == ';')
		token.kind = TOKEN_SEMICOLON;
	return token;
}

static bool token_is(struct token token, const char *word)
{
	uint32_t size = (uint32_t)strlen(word);
	return token.kind == TOKEN_WORD && token.text.size == size &&
	       begins_with(token.text, word, size);
}

/* --- names in SQL ----------------------------------------------------------- */

/* Words that are no names unless quoted, in all versions of PostgreSQL: kinds R and T
 * of pg_get_keywords(), but `all`. */
static const char reserved[] =
	" analyse analyze and any array as asc asymmetric authorization binary both case cast check"
	" collate collation column concurrently constraint create cross current_catalog"
	" current_date current_role current_schema current_time current_timestamp current_user"
	" default deferrable desc distinct do else end except false fetch for foreign freeze from"
	" full grant group having ilike in initially inner intersect into is isnull join lateral"
	" leading left like limit localtime localtimestamp natural not notnull null offset on only"
	" or order outer overlaps placing primary references returning right select session_user"
	" similar some symmetric table tablesample then to trailing true union unique user using"
	" variadic verbose when where window with ";

static bool is_reserved(const char *name)
{
	size_t size = strlen(name);
	for (const char *at = reserved; (at = strstr(at, name)) != NULL; at++) {
		if (at[-1] == ' ' && at[size] == ' ')
			return true;
	}
	return false;
}

static bool is_name(struct token token)
{
	return token.kind == TOKEN_WORD || token.kind == TOKEN_QUOTED;
}

/* Folded or unquoted, and cut.  A character in UTF-8 is not cut in two. */
static void name_copy(char name_of[STATEMENT_NAME_MAX + 1], struct token token)
{
	bool is_quoted = token.kind == TOKEN_QUOTED;
	uint32_t size = 0;
	for (uint32_t i = 0; i < token.text.size && size <= STATEMENT_NAME_MAX; i++) {
		uint8_t byte = token.text.data[i];
		name_of[size++] = (char)(is_quoted ? byte : byte_fold(byte));
		i += is_quoted && byte == '"'; /* the second of two */
	}
	if (size > STATEMENT_NAME_MAX) {
		/* The byte behind the cut is there to tell whether it begins a character. */
		size = STATEMENT_NAME_MAX;
		while (size > STATEMENT_NAME_MAX - 3 && ((uint8_t)name_of[size] & 0xc0) == 0x80)
			size--;
	}
	name_of[size] = '\0';
}

/* --- statements ------------------------------------------------------------- */

/* Behind DEALLOCATE: [PREPARE] name or ALL, where PREPARE is a name as well. */
static enum sql_effect deallocate_take(struct span *rest, char name_of[STATEMENT_NAME_MAX + 1])
{
	struct token token = token_take(rest);
	if (token_is(token, "prepare")) {
		struct span behind = *rest;
		struct token next = token_take(&behind);
		if (is_name(next) || next.kind == TOKEN_ESCAPED) {
			token = next;
			*rest = behind;
		}
	}
	if (token.kind == TOKEN_ESCAPED)
		return SQL_UNCLEAR;
	if (token_is(token, "all"))
		return SQL_DEALLOCATE_ALL;
	if (!is_name(token))
		return SQL_NONE;
	name_copy(name_of, token);
	if (token.kind == TOKEN_WORD && is_reserved(name_of))
		return SQL_NONE;
	return SQL_DEALLOCATE;
}

static bool ends(struct span rest)
{
	struct token token;
	do
		token = token_take(&rest);
	while (token.kind == TOKEN_SEMICOLON);
	return token.kind == TOKEN_END;
}

/* A semicolon with more than white space and semicolons behind it; it may lie in
 * a literal. */
static bool may_be_several(struct span text)
{
	uint32_t size = text.size;
	while (size > 0 && (text.data[size - 1] == ';' || is_space(text.data[size - 1])))
		size--;
	return size > 0 && memchr(text.data, ';', size) != NULL;
}

/* Anywhere, also within a longer word: `E'\ndiscard all'` may be what a DO runs. */
static bool mentions(struct span text)
{
	for (; text.size > 0; span_skip(&text, 1)) {
		if (byte_fold(text.data[0]) == 'd' &&
		    (begins_with(text, "deallocate", 10) || begins_with(text, "discard", 7)))
			return true;
	}
	return false;
}

enum sql_effect sql_effect(struct span text, char name_of[STATEMENT_NAME_MAX + 1])
{
	struct span from, rest = text;
	struct token token;
	do {
		if (!blank_skip(&rest))
			return SQL_NONE;
		from = rest;
		token = token_take(&rest);
	} while (token.kind == TOKEN_SEMICOLON);

	enum sql_effect effect = SQL_NONE;
	if (token_is(token, "deallocate"))
		effect = deallocate_take(&rest, name_of);
	else if (token_is(token, "discard") && token_is(token_take(&rest), "all"))
		effect = SQL_DISCARD_ALL;
	if (effect == SQL_UNCLEAR || (effect != SQL_NONE && ends(rest)))
		return effect;
	return may_be_several(from) && mentions(from) ? SQL_UNCLEAR : SQL_NONE;
}

bool sql_may_forget(struct span text)
{
	if (text.size == 0)
		return false;
	uint8_t first = byte_fold(text.data[0]);
	return !is_letter(first) || first == 'd' || may_be_several(text);
}
