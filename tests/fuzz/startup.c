/*
 * The set of accepted first packets must be that of a second, slow parser that
 * shares no code with the first; no prefix of a packet may be taken for
 * anything else than unfinished or refused; and the `options` of a startup
 * must split as the slow splitter, which makes all words first, splits them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/startup.h"

#include <stdlib.h>

#include "core/base/check.h"

static uint64_t number_at(const uint8_t *data, size_t at)
{
	uint64_t number = 0;
	for (size_t i = at; i < at + 4; i++)
		number = number * 256 + data[i];
	return number;
}

/* Cuts the body at its zero bytes and looks at the list of texts. */
static bool layout_slowly(const uint8_t *body, size_t size)
{
	size_t texts = 0;
	size_t length = 0; /* of the text under way */
	bool nameless = false;
	if (size == 0 || body[size - 1] != 0)
		return false;
	for (size_t i = 0; i < size - 1; i++) {
		if (body[i] != 0) {
			length++;
			continue;
		}
		nameless = nameless || (texts % 2 == 0 && length == 0);
		texts++;
		length = 0;
	}
	return length == 0 && texts % 2 == 0 && !nameless;
}

static enum startup_kind kind_slowly(const uint8_t *data, size_t size)
{
	if (size >= 1 && data[0] == 0x16)
		return STARTUP_TLS;
	if (size < 4)
		return STARTUP_MORE;
	uint64_t length = number_at(data, 0);
	if (length < 8 || length > 65535)
		return STARTUP_BAD;
	if (size < 8)
		return STARTUP_MORE;

	uint64_t code = number_at(data, 4);
	bool whole = size >= length;
	if (code == 1234ULL * 65536 + 5679 || code == 1234ULL * 65536 + 5680) {
		if (length != 8)
			return STARTUP_BAD;
		return code % 2 == 1 ? STARTUP_SSL : STARTUP_GSSENC;
	}
	if (code == 1234ULL * 65536 + 5678) {
		if (length < 16 || length > 268)
			return STARTUP_BAD;
		return whole ? STARTUP_CANCEL : STARTUP_MORE;
	}
	if (code == 2ULL * 65536)
		return whole ? STARTUP_V2 : STARTUP_MORE;
	if (code / 65536 != 3)
		return STARTUP_BAD;
	if (!whole)
		return STARTUP_MORE;
	return layout_slowly(data + 8, (size_t)length - 8) ? STARTUP_V3 : STARTUP_LAYOUT;
}

struct words {
	char *texts[64];
	uint32_t count;
};

/* All words of a text, unescaped, each in memory of its own. */
static void words_split(const char *text, struct words *words)
{
	char *word = NULL;
	size_t used = 0;
	bool escaped = false;
	for (const char *c = text;; c++) {
		bool space = !escaped && *c != '\0' && strchr(" \t\n\v\f\r", *c) != NULL;
		if (*c == '\0' || space) {
			if (word != NULL)
				words->texts[words->count++] = word;
			word = NULL;
			used = 0;
			if (*c == '\0' || words->count == ARRAY_LEN(words->texts))
				return;
			continue;
		}
		if (word == NULL)
			word = calloc(1, strlen(text) + 1);
		CHECK(word != NULL);
		if (*c == '\\' && !escaped) {
			escaped = true;
			continue;
		}
		escaped = false;
		word[used++] = *c;
	}
}

/* The next setting of the words from *at, as "name=value", or NULL. */
static const char *setting_next(const struct words *words, uint32_t *at)
{
	const char *word = words->texts[(*at)++];
	if (word[0] != '-' || (word[1] != 'c' && word[1] != '-'))
		return NULL;
	if (word[1] == '-' || word[2] != '\0')
		return word + 2;
	return *at < words->count ? words->texts[(*at)++] : NULL;
}

static void options_check(const char *text)
{
	size_t room = strlen(text) + 1;
	char *scratch = malloc(room);
	struct words words = {.count = 0};
	struct option option;
	CHECK(scratch != NULL);
	words_split(text, &words);
	uint32_t at = 0;
	for (uint32_t word = 0; word < words.count;) {
		const char *setting = setting_next(&words, &word);
		/* The splitter stops at its limit; a last -c may want more. */
		if (setting == NULL && words.count == ARRAY_LEN(words.texts))
			break;
		const char *equals = setting == NULL ? NULL : strchr(setting, '=');
		enum option_status status = startup_option(text, &at, scratch, &option);
		if (equals == NULL || equals == setting || equals - setting > 127) {
			CHECK(status == OPTION_BAD);
			break;
		}
		CHECK(status == OPTION_SET);
		CHECK(strlen(option.name) == (size_t)(equals - setting));
		CHECK(memcmp(option.name, setting, strlen(option.name)) == 0);
		CHECK(strcmp(option.value, equals + 1) == 0);
		if (word == words.count && words.count < ARRAY_LEN(words.texts))
			CHECK(startup_option(text, &at, scratch, &option) == OPTION_END);
	}
	for (uint32_t i = 0; i < words.count; i++)
		free(words.texts[i]);
	free(scratch);
}

/* The parameters are the body, in order and without gaps. */
static void parameters_check(const struct startup *startup, const uint8_t *body)
{
	const char *name;
	const char *value;
	const uint8_t *expected = body;
	for (uint32_t at = 0; startup_parameter(startup, &at, &name, &value);) {
		CHECK(name == (const char *)expected && *name != '\0');
		CHECK(value == name + strlen(name) + 1);
		expected = (const uint8_t *)value + strlen(value) + 1;
		options_check(value);
	}
	CHECK(expected == body + startup->parameters.size && *expected == '\0');
}

static struct startup prefix_read(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size);
	CHECK(copy != NULL);
	memcpy(copy, data, size);
	struct startup startup = startup_read(span_of(copy, size));
	CHECK(startup.kind == kind_slowly(data, size));
	if (startup.kind == STARTUP_CANCEL)
		CHECK(startup.key.data == copy + 8 && startup.key.size == startup.size - 8);
	if (startup.kind == STARTUP_V3)
		parameters_check(&startup, copy + 8);
	else
		CHECK(startup.parameters.size == 0);
	free(copy);
	return startup;
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct startup whole = prefix_read(data, size);
	CHECK(whole.size == 0 || whole.kind == STARTUP_MORE || whole.size <= size);
	size_t end = whole.kind == STARTUP_MORE || whole.size == 0 ? size : whole.size;
	size_t step = 1 + end / 64;
	for (size_t cut = 1; cut < end; cut += step) {
		struct startup part = prefix_read(data, cut);
		CHECK(part.kind == STARTUP_MORE || part.kind == whole.kind);
		CHECK(part.kind != STARTUP_MORE || part.size == 0 ||
		      part.size == (uint32_t)number_at(data, 0));
	}
	/* Bytes behind the packet change nothing. */
	CHECK(prefix_read(data, end).kind == whole.kind);

	char *text = malloc(size + 1);
	CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	options_check(text);
	free(text);
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
