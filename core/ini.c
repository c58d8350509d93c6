/*
 * ini.c - cuts the text of a configuration file into its lines.
 *
 * Only white space separates, and a newline is white space, but a line's own
 * parts never reach over one.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/ini.h"

#include <stdbool.h>

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

static bool is_space(uint8_t c)
{
	return is_blank(c) || (c >= '\n' && c <= '\r');
}

static bool is_key(uint8_t c)
{
	uint8_t letter = c | 0x20;
	return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
	       c == '-' || c == '*';
}

static struct span between(const uint8_t *begin, const uint8_t *end)
{
	return span_of(begin, (size_t)(end - begin));
}

void ini_init(struct ini *ini, struct span text)
{
	*ini = (struct ini){.at = text.data, .end = text.data + text.size, .line = 1};
}

static void skip_blanks(struct ini *ini)
{
	while (ini->at < ini->end && is_blank(*ini->at))
		ini->at++;
}

static const uint8_t *line_end(const struct ini *ini)
{
	const uint8_t *end = ini->at;
	while (end < ini->end && *end != '\n')
		end++;
	return end;
}

/* To the first byte of the next line that is not empty and no comment. */
static bool skip_to_line(struct ini *ini)
{
	while (ini->at < ini->end) {
		if (*ini->at == ';' || *ini->at == '#') {
			ini->at = line_end(ini);
			continue;
		}
		if (!is_space(*ini->at))
			return true;
		ini->line += *ini->at++ == '\n';
	}
	return false;
}

/* What stands up to the byte `close`; false if the line ends before. */
static bool take_enclosed(struct ini *ini, uint8_t close, struct span *text)
{
	const uint8_t *begin = ++ini->at;
	while (ini->at < ini->end && *ini->at != close && *ini->at != '\n' && *ini->at != '\0')
		ini->at++;
	if (ini->at == ini->end || *ini->at != close)
		return false;
	*text = between(begin, ini->at++);
	return true;
}

static bool take_rest(struct ini *ini, struct span *text)
{
	skip_blanks(ini);
	const uint8_t *begin = ini->at, *end = line_end(ini);
	ini->at = end;
	while (end > begin && is_space(end[-1]))
		end--;
	*text = between(begin, end);
	return text->size == 0 || memchr(begin, '\0', text->size) == NULL;
}

static bool take_key(struct ini *ini, struct span *key)
{
	if (*ini->at == '\'' || *ini->at == '"') {
		if (!take_enclosed(ini, *ini->at, key))
			return false;
	} else {
		const uint8_t *begin = ini->at;
		while (ini->at < ini->end && is_key(*ini->at))
			ini->at++;
		*key = between(begin, ini->at);
	}
	return key->size > 0;
}

static bool take_include(struct ini *ini, struct span *path)
{
	static const char word[] = "%include";
	const size_t size = sizeof(word) - 1;
	if ((size_t)(ini->end - ini->at) <= size || memcmp(ini->at, word, size) != 0)
		return false;
	ini->at += size;
	return is_blank(*ini->at) && take_rest(ini, path) && path->size > 0;
}

enum ini_event ini_next(struct ini *ini, struct ini_line *line)
{
	*line = (struct ini_line){.number = ini->line};
	if (!skip_to_line(ini))
		return INI_END;
	line->number = ini->line;
	if (*ini->at == '[')
		return take_enclosed(ini, ']', &line->name) ? INI_SECTION : INI_BROKEN;
	if (*ini->at == '%')
		return take_include(ini, &line->value) ? INI_INCLUDE : INI_BROKEN;
	if (!take_key(ini, &line->name))
		return INI_BROKEN;
	skip_blanks(ini);
	if (ini->at == ini->end || *ini->at != '=')
		return INI_BROKEN;
	ini->at++;
	return take_rest(ini, &line->value) ? INI_PAIR : INI_BROKEN;
}
