/* First packets: every row whole, in every prefix, and with other bytes behind
 * it, always in a copy of the exact size, so that a read past it is seen. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/startup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/limits.h"

#define SSL_CODE    "\x04\xd2\x16\x2f"
#define GSSENC_CODE "\x04\xd2\x16\x30"
#define CANCEL_CODE "\x04\xd2\x16\x2e"

static const struct {
	const char *bytes;
	uint32_t size;
	enum startup_kind kind;
	uint32_t protocol;
	const char *parameters; /* as name=value, */
} rows[] = {
#define ROW(bytes, ...)                               \
	{                                             \
		bytes, sizeof(bytes) - 1, __VA_ARGS__ \
	}
	ROW("\0\0\0\x08" SSL_CODE, STARTUP_SSL, 0, ""),
	ROW("\0\0\0\x08" GSSENC_CODE, STARTUP_GSSENC, 0, ""),
	ROW("\0\0\0\x09" SSL_CODE "\0", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x0c" GSSENC_CODE "\0\0\0\0", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x08\x04\xd2\x16\x31", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x10" CANCEL_CODE "pid!key!", STARTUP_CANCEL, 0, ""),
	ROW("\0\0\0\x0f" CANCEL_CODE "pid!key", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x08" CANCEL_CODE, STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x2c" CANCEL_CODE "pid!0123456789abcdef0123456789ABCDEF", STARTUP_CANCEL, 0, ""),
	/* Lengths. */
	ROW("\0\0\0\0", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x04", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x07\0\3\0\0", STARTUP_BAD, 0, ""),
	ROW("\0\1\0\0\0\3\0\0", STARTUP_BAD, 0, ""),
	ROW("\x7f\xff\xff\xff\0\3\0\0", STARTUP_BAD, 0, ""),
	ROW("\x80\0\0\x08\0\3\0\0", STARTUP_BAD, 0, ""),
	ROW("\xff\xff\xff\xff\0\3\0\0", STARTUP_BAD, 0, ""),
	ROW("GET / HTTP/1.1\r\n", STARTUP_BAD, 0, ""),
	/* Versions. */
	ROW("\0\0\0\x08\0\0\0\0", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x08\0\1\0\0", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x0a\0\2\0\0xx", STARTUP_V2, 0x20000, ""),
	ROW("\0\0\0\x08\0\2\0\1", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x09\0\4\0\0\0", STARTUP_BAD, 0, ""),
	ROW("\0\0\0\x09\0\3\0\0\0", STARTUP_V3, 0x30000, ""),
	ROW("\0\0\0\x09\0\3\0\1\0", STARTUP_V3, 0x30001, ""),
	ROW("\0\0\0\x09\0\3\0\2\0", STARTUP_V3, 0x30002, ""),
	ROW("\0\0\0\x09\0\3\xff\xff\0", STARTUP_V3, 0x3ffff, ""),
	/* Parameters. */
	ROW("\0\0\0\x10\0\3\0\0user\0a\0\0", STARTUP_V3, 0x30000, "user=a,"),
	ROW("\0\0\0\x0f\0\3\0\0user\0\0\0", STARTUP_V3, 0x30000, "user=,"),
	ROW("\0\0\0\x1b\0\3\0\0user\0a\0database\0b\0\0", STARTUP_V3, 0x30000,
            "user=a,database=b,"),
	ROW("\0\0\0\x11\0\3\0\0k\0a\0k\0b\0\0", STARTUP_V3, 0x30000, "k=a,k=b,"),
	ROW("\0\0\0\x08\0\3\0\0", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x0f\0\3\0\0user\0a\0", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x0e\0\3\0\0user\0a", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x0d\0\3\0\0user\0", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x0e\0\3\0\0user\0\0", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x0c\0\3\0\0user", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x11\0\3\0\0user\0a\0\0\0", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x11\0\3\0\0user\0a\0\0x", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x0a\0\3\0\0\0\0", STARTUP_LAYOUT, 0x30000, ""),
	ROW("\0\0\0\x11\0\3\0\0\0user\0a\0\0", STARTUP_LAYOUT, 0x30000, ""),
#undef ROW
};

static uint8_t *copy_of(const void *data, uint32_t size)
{
	uint8_t *copy = malloc(size);
	cr_assert(copy != NULL || size == 0);
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

static void parameters_check(const struct startup *startup, const char *expected)
{
	char all[128] = "";
	const char *name;
	const char *value;
	for (uint32_t at = 0; startup_parameter(startup, &at, &name, &value);) {
		size_t used = strlen(all);
		snprintf(all + used, sizeof all - used, "%s=%s,", name, value);
	}
	cr_assert_str_eq(all, expected);
}

static bool is_refused(enum startup_kind kind)
{
	return kind == STARTUP_BAD || kind == STARTUP_LAYOUT;
}

/* The first `size` bytes of a row, and `extra` more behind the row. */
static void row_check(size_t row, uint32_t size, uint32_t extra)
{
	uint8_t *copy = malloc(size + extra);
	cr_assert(copy != NULL || size + extra == 0);
	if (size > 0)
		memcpy(copy, rows[row].bytes, size);
	if (extra > 0)
		memset(copy + size, 0x16, extra);
	struct startup startup = startup_read(span_of(copy, size + extra));
	if (size < rows[row].size && startup.kind != STARTUP_BAD) {
		cr_assert_eq(startup.kind, STARTUP_MORE, "row %zu size %u", row, size);
		cr_assert(rows[row].kind == STARTUP_BAD ||
		          startup.size == (size < 4 ? 0 : rows[row].size));
	} else {
		cr_assert_eq(startup.kind, rows[row].kind, "row %zu size %u", row, size);
	}
	if (startup.kind == STARTUP_CANCEL) {
		cr_assert_eq(startup.key.data, copy + 8);
		cr_assert_eq(startup.key.size, rows[row].size - 8);
	} else {
		cr_assert_eq(startup.key.size, 0);
	}
	if (size == rows[row].size) {
		cr_assert_eq(startup.protocol, rows[row].protocol);
		cr_assert_eq(startup.size, rows[row].kind == STARTUP_BAD ? 0 : rows[row].size);
		parameters_check(&startup, rows[row].parameters);
	}
	cr_assert(!is_refused(startup.kind) || startup.parameters.size == 0);
	free(copy);
}

Test(startup, first_packets)
{
	for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
		for (uint32_t size = 0; size <= rows[row].size; size++)
			row_check(row, size, 0);
		for (uint32_t extra = 1; extra < 10; extra++)
			row_check(row, rows[row].size, extra);
	}

	static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
	cr_assert_eq(startup_read(span_of(NULL, 0)).kind, STARTUP_MORE);
	for (uint32_t size = 1; size <= sizeof hello; size++) {
		uint8_t *copy = copy_of(hello, size);
		cr_assert_eq(startup_read(span_of(copy, size)).kind, STARTUP_TLS);
		free(copy);
	}
}

/* The value of the last parameter of this name, or NULL. */
static const char *value_of(const struct startup *startup, const char *wanted)
{
	const char *found = NULL;
	const char *name;
	const char *value;
	for (uint32_t at = 0; startup_parameter(startup, &at, &name, &value);)
		if (strcmp(name, wanted) == 0)
			found = value;
	return found;
}

/* Every length of a cancel request and of a startup packet around its bounds. */
Test(startup, lengths)
{
	static uint8_t packet[STARTUP_SIZE_MAX + 16];
	memcpy(packet + 4, CANCEL_CODE, 4);
	for (uint32_t size = 0; size < 512; size++) {
		write_u32(packet, size);
		struct startup startup = startup_read(span_of(packet, 512));
		bool good = size >= 16 && size <= 12 + 256;
		cr_assert_eq(startup.kind, good ? STARTUP_CANCEL : STARTUP_BAD, "%u", size);
		cr_assert_eq(startup.key.size, good ? size - 8 : 0);
	}

	memset(packet, 'x', sizeof packet);
	memcpy(packet + 4, "\0\3\0\0options\0", 12);
	for (uint32_t size = STARTUP_SIZE_MAX - 2; size < STARTUP_SIZE_MAX + 3; size++) {
		write_u32(packet, size);
		packet[size - 2] = packet[size - 1] = '\0';
		bool good = size <= STARTUP_SIZE_MAX;
		struct startup startup = startup_read(span_of(packet, sizeof packet));
		cr_assert_eq(startup.kind, good ? STARTUP_V3 : STARTUP_BAD);
		if (good)
			cr_assert_eq(strlen(value_of(&startup, "options")), size - 18);
		startup = startup_read(span_of(packet, size - 1));
		cr_assert_eq(startup.kind, good ? STARTUP_MORE : STARTUP_BAD);
		packet[size - 2] = packet[size - 1] = 'x';
	}
}

Test(startup, finds_parameters)
{
	static const char packet[] =
		"\0\0\0\x2b\0\3\0\0user\0a\0User\0b\0use\0c\0user\0d\0empty\0\0";
	struct startup startup = startup_read(span_of(packet, sizeof packet));
	cr_assert_eq(startup.kind, STARTUP_V3);
	cr_assert_str_eq(value_of(&startup, "user"), "d");
	cr_assert_str_eq(value_of(&startup, "User"), "b");
	cr_assert_str_eq(value_of(&startup, "empty"), "");
	cr_assert_null(value_of(&startup, "a"));
	cr_assert_null(value_of(&startup, ""));
	startup = startup_read(span_of("\0\0\0\x08" SSL_CODE, 8));
	cr_assert_null(value_of(&startup, "user"));
}

/* Settings as [name=value]; ! where the text is refused. */
static const char *const options[][2] = {
	{"", ""},
	{" \t\r\n\f\v", ""},
	{"-c a=b", "[a=b]"},
	{"-ca=b", "[a=b]"},
	{"--a=b", "[a=b]"},
	{"-c\ta=b ", "[a=b]"},
	{"-c   search_path=a,b", "[search_path=a,b]"},
	{"--search-path=a", "[search-path=a]"},
	{"-c a=1 -cb=2 --c=3", "[a=1][b=2][c=3]"},
	{"-c a=1 -c a=2", "[a=1][a=2]"},
	{"-c a=", "[a=]"},
	{"-c a==b=", "[a==b=]"},
	{"-c a.b=c\\ d", "[a.b=c d]"},
	{"-c a=\\\\", "[a=\\]"},
	{"-c a=\\b\\\\\\ c", "[a=b\\ c]"},
	{"-c a=\\\t\\\n -c b=2", "[a=\t\n][b=2]"},
	{"-c a=b\\", "[a=b]"},
	{"\\-c a=b", "[a=b]"},
	{"-\\c\\a=b", "[a=b]"},
	{"-c \\ =b", "[ =b]"},
	{"-c a='b c'", "[a='b]!"},
	{"-c a=\"b\"", "[a=\"b\"]"},
	{"-c", "!"},
	{"-c ", "!"},
	{"-c a", "!"},
	{"-c =b", "!"},
	{"-ca", "!"},
	{"--", "!"},
	{"--a", "!"},
	{"--=b", "!"},
	{"-d 5", "!"},
	{"-c a=b -d", "[a=b]!"},
	{"a=b", "!"},
	{"-", "!"},
	{"\\", "!"},
	{"-c -c", "!"},
	{"-C a=b", "!"},
};

static void options_check(const char *text, const char *expected)
{
	uint32_t room = (uint32_t)strlen(text) + 1;
	char *scratch = malloc(room);
	char *copy = malloc(room);
	cr_assert(scratch != NULL && copy != NULL);
	memcpy(copy, text, room);

	char all[2048] = "";
	struct option seen[8];
	uint32_t count = 0;
	enum option_status status;
	for (uint32_t at = 0; count < 8; count++) {
		status = startup_option(copy, &at, scratch, &seen[count]);
		if (status != OPTION_SET)
			break;
	}
	/* Printed at the end: earlier values stay while later ones are read. */
	for (uint32_t i = 0; i < count; i++) {
		size_t used = strlen(all);
		snprintf(all + used, sizeof all - used, "[%.100s=%.100s]", seen[i].name,
		         seen[i].value);
	}
	if (status == OPTION_BAD)
		strncat(all, "!", 2);
	cr_assert_str_eq(all, expected, "%s: %s", text, all);
	free(scratch);
	free(copy);
}

Test(startup, options)
{
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		options_check(options[i][0], options[i][1]);

	/* A name that does not fit is refused, never cut: it could be another. */
	char text[256];
	char scratch[256];
	struct option option;
	for (int size = 1; size < 140; size++) {
		snprintf(text, sizeof text, "-c %0*d=v", size, 0);
		uint32_t at = 0;
		enum option_status status = startup_option(text, &at, scratch, &option);
		cr_assert_eq(status, size <= 127 ? OPTION_SET : OPTION_BAD);
		if (status == OPTION_SET)
			cr_assert_eq(strlen(option.name), (size_t)size);
	}

	/* A value of 5 kB. */
	static char large[5200];
	static char room[sizeof large];
	memset(large, 'x', sizeof large - 1);
	memcpy(large, "--name=", 7);
	uint32_t at = 0;
	cr_assert_eq(startup_option(large, &at, room, &option), OPTION_SET);
	cr_assert_str_eq(option.value, large + 7);
	cr_assert_eq(startup_option(large, &at, room, &option), OPTION_END);
}
