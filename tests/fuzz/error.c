/*
 * The fields of an error must be those that a slow reader finds: it first
 * judges the whole body, then searches it.  Every answer is a text with its
 * end inside of the body, or one of our own constants.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/check.h"
#include "proto/read.h"

/* Where the value of field `code` starts, the last one; 0 if there is none,
 * -1 if the body is malformed. */
static long field_slowly(const uint8_t *body, size_t size, uint8_t code)
{
	long found = 0;
	bool in_text = false;
	for (size_t i = 0; i < size; i++) {
		if (in_text) {
			in_text = body[i] != 0;
			continue;
		}
		if (body[i] == 0)
			return i == size - 1 ? found : -1;
		if (body[i] == code)
			found = (long)i + 1;
		in_text = true;
	}
	return -1;
}

static void field_check(struct span body, uint8_t code)
{
	const char *text = error_field(body, (char)code);
	long place = field_slowly(body.data, body.size, code);
	CHECK(text != NULL);
	size_t length = strlen(text); /* the sanitizer follows it to its end */
	if (code == 0 || place <= 0) {
		CHECK(length == 0);
		return;
	}
	CHECK(text == (const char *)body.data + place);
	CHECK(length < body.size - (size_t)place);
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t codes[] = "SVCMDHPpqWstcdnFLR"; /* and 0 */
	struct span body = span_of(data, size);
	for (size_t i = 0; i < sizeof codes; i++)
		field_check(body, codes[i]);
	if (size > 0)
		field_check(body, data[size / 2]);

	const char *sqlstate = error_sqlstate(body);
	CHECK(strlen(sqlstate) == 5);
	const char *code = error_field(body, 'C');
	CHECK(strcmp(sqlstate, strlen(code) == 5 ? code : "XX000") == 0);
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
