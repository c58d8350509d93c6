/*
 * Whatever a console is told: the parser ends inside of the text, a request it
 * calls good is whole and means the same when it is written out again, and what
 * is described is one message.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/admin.h"

#include <stdlib.h>
#include <string.h>

#include "core/admin/show.h"
#include "core/base/bytes.h"
#include "core/base/check.h"

/* `text` between quotes, with quotes in it doubled. */
static size_t quote(char *to, const char *text, char mark)
{
	size_t size = 0;
	to[size++] = mark;
	for (; *text != '\0'; text++) {
		if (*text == mark)
			to[size++] = mark;
		to[size++] = *text;
	}
	to[size++] = mark;
	return size;
}

static void check_again(const struct admin_request *request)
{
	char text[1024];
	size_t at = strlen(request->command->word);
	memcpy(text, request->command->word, at);
	text[at++] = ' ';
	if (request->has_argument)
		at += quote(text + at, request->argument, '"');
	if (request->command->verb == VERB_SET) {
		text[at++] = '=';
		at += quote(text + at, request->value, '\'');
	}
	text[at] = '\0';
	struct admin_request again;
	CHECK(admin_parse(text, &again) == ADMIN_GOOD);
	CHECK(again.command == request->command);
	CHECK(again.has_argument == request->has_argument);
	CHECK(strcmp(again.argument, request->argument) == 0);
	CHECK(strcmp(again.value, request->value) == 0);
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1); /* of its size: the sanitizer sees its end */
	CHECK(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	struct admin_request request;
	enum admin_status status = admin_parse(text, &request);
	if (status == ADMIN_GOOD) {
		CHECK(request.command != NULL);
		CHECK(strlen(request.argument) <= ADMIN_ARGUMENT_MAX);
		CHECK(strlen(request.value) <= ADMIN_VALUE_MAX);
		check_again(&request);
	}
	struct result result;
	result_init(&result, (uint32_t)size);
	bool is_good = show_describe(&result, text);
	uint32_t length;
	char *bytes = result_take(&result, &length);
	CHECK(!is_good || status == ADMIN_GOOD);
	if (is_good)
		CHECK(length > 4 && read_u32((const uint8_t *)bytes + 1) == length - 1);
	free(bytes);
	free(text);
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
