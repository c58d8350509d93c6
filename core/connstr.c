/*
 * connstr.c - cuts the pairs of an entry; see the header for the grammar.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/connstr.h"

static const char *skip_spaces(const char *at)
{
	return at + strspn(at, " ");
}

/* `at` is behind the opening quote; returns the closing one, or the end of the text. */
static const char *quote_end(const char *at)
{
	for (;; at += 2) {
		at += strcspn(at, "'");
		if (at[0] == '\0' || at[1] != '\'')
			return at;
	}
}

enum connstr_event connstr_next(const char **text, struct connstr_pair *pair)
{
	const char *at = *text = skip_spaces(*text);
	if (*at == '\0')
		return CONNSTR_END;
	pair->key = span_of(at, strcspn(at, "= "));
	at = skip_spaces(at + pair->key.size);
	if (pair->key.size == 0 || *at != '=')
		return CONNSTR_BROKEN;
	at = skip_spaces(at + 1);
	pair->is_quoted = *at == '\'';
	if (pair->is_quoted) {
		const char *end = quote_end(++at);
		if (*end == '\0' || (end[1] != ' ' && end[1] != '\0'))
			return CONNSTR_BROKEN;
		pair->value = span_of(at, (size_t)(end - at));
		at = end + 1;
	} else {
		pair->value = span_of(at, strcspn(at, " "));
		at += pair->value.size;
	}
	if (pair->value.size == 0)
		return CONNSTR_BROKEN;
	*text = at;
	return CONNSTR_PAIR;
}

void connstr_value(const struct connstr_pair *pair, char *to)
{
	for (uint32_t i = 0; i < pair->value.size; i++) {
		*to++ = (char)pair->value.data[i];
		/* inside quotes a quote is always one of two */
		if (pair->is_quoted && pair->value.data[i] == '\'')
			i++;
	}
	*to = '\0';
}
