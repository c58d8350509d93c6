/* The vectors of RFC 4648, and what only a lax reader takes. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/base64.h"

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/check.h"

static const struct {
	const char *bytes, *text;
} pairs[] = {
	{"", ""},
	{"f", "Zg=="},
	{"fo", "Zm8="},
	{"foo", "Zm9v"},
	{"foob", "Zm9vYg=="},
	{"fooba", "Zm9vYmE="},
	{"foobar", "Zm9vYmFy"},
	{"n,,", "biws"},
	{"y,,", "eSws"},
	{"\xff\xef\xbe\xfb", "/++++w=="},
};

static const char *const refused[] = {
	"Z",    "Zg",    "Zg=",    "Zg===", "=",        "====",     "Z===", "Zg=g", "Zh==",
	"Zm9=", "Zm 8=", "Zm9v\n", "Zm9v=", "Zg==Zg==", "Zm8=Zm9v", "Zm9-", "Zm9_", "Zm\x80v",
};

Test(base64, both_ways)
{
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		uint32_t size = (uint32_t)strlen(pairs[i].bytes);
		char text[16] = "";
		uint8_t bytes[16];
		uint32_t got;
		base64_write((const uint8_t *)pairs[i].bytes, size, text);
		cr_assert_str_eq(text, pairs[i].text);
		cr_assert_eq(BASE64_SIZE(size), strlen(text));
		cr_assert(base64_read(span_text(text), bytes, size, &got), "%s", text);
		cr_assert_eq(got, size);
		cr_assert_arr_eq(bytes, pairs[i].bytes, size);
		if (size > 0)
			cr_assert_not(base64_read(span_text(text), bytes, size - 1, &got));
	}
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		uint8_t bytes[16];
		uint32_t got;
		cr_assert_not(base64_read(span_text(refused[i]), bytes, sizeof bytes, &got), "%s",
		              refused[i]);
	}
}

/* Each value of three bytes' worth of digits comes back as it was. */
Test(base64, every_digit)
{
	for (uint32_t i = 0; i < 1 << 24; i += 61) {
		uint8_t in[3] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
		uint8_t out[3];
		char text[4];
		uint32_t got;
		base64_write(in, 3, text);
		cr_assert(base64_read(span_of(text, 4), out, 3, &got));
		cr_assert(got == 3 && memcmp(in, out, 3) == 0);
	}
}
