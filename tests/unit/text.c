/*
 * text.c - text_format() and what appends against printf, cut at every size.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/text.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ROW(...)                                                                             \
	do {                                                                                 \
		char whole[256];                                                             \
		int size = snprintf(whole, sizeof whole, __VA_ARGS__);                       \
		for (size_t room = 1; room <= (size_t)size + 2; room++) {                    \
			char text[256];                                                      \
			memset(text, '#', sizeof text);                                      \
			size_t written = text_format(text, room, __VA_ARGS__);               \
			size_t wanted = (size_t)size < room ? (size_t)size : room - 1;       \
			cr_assert_eq(written, wanted);                                       \
			cr_assert_eq(memcmp(text, whole, wanted), 0, "%s: %s", whole, text); \
			cr_assert_eq(text[written], '\0');                                   \
			cr_assert_eq(text[room], '#');                                       \
		}                                                                            \
	} while (0)

Test(text, as_printf)
{
	static const int ints[] = {0, 1, -1, 9, 10, -10, 4711, INT_MAX, INT_MIN};
	for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
		int n = ints[i];
		ROW("%d|%i|%u|%x|%#x", n, n, (unsigned)n, (unsigned)n, (unsigned)n);
		ROW("%02d|%03ld|%5d|%02x|%#010x", n, (long)n, n, (unsigned)n, (unsigned)n);
		ROW("%lu|%lx", (unsigned long)n, (unsigned long)n);
		ROW("%lld|%llu|%#llx|%zu", (long long)n, (unsigned long long)n,
		    (unsigned long long)n, (size_t)n);
	}
	ROW("%llu|%lld|%lld|%zu", ULLONG_MAX, LLONG_MAX, LLONG_MIN, SIZE_MAX);
	ROW("plain");
	ROW("%%|100%%|%c|%c", 'x', '%');
	ROW("%s|%.3s|%.*s|%.*s|%.0s", "text", "text", 2, "text", -1, "text", "text");
	ROW("%s%s", "", "\xc3\xa4\n");
	/* left to printf, whole */
	ROW("%d %5s|%-5s|%.2f|%+d|%5c|%.3d|%hu|%%", 7, "ab", "ab", 1.5, 3, 'c', 4,
	    (unsigned short)9);
	ROW("%s %p", "a pointer", (const void *)"x");
}

Test(text, appended)
{
	static const uint64_t numbers[] = {0,          1,         9,         10,   11,   99,
	                                   100,        101,       255,       989,  999,  1000,
	                                   4711,       65535,     0xf,       0x10, 0xff, 100000,
	                                   UINT32_MAX, INT64_MAX, UINT64_MAX};
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		char whole[128];
		unsigned long long n = numbers[i];
		size_t size = (size_t)snprintf(whole, sizeof whole, "%llu.%#llx/text", n, n);
		for (size_t room = 0; room <= size + 2; room++) {
			char bytes[128];
			memset(bytes, '#', sizeof bytes);
			struct text text = {bytes, bytes + room};
			text_add_number(&text, n);
			text_add(&text, ".", 1);
			text_add_hex(&text, n);
			text_add(&text, "/", 1);
			text_add_string(&text, "text");
			size_t wanted = room < size ? room : size;
			cr_assert_eq(text.at, bytes + wanted);
			cr_assert_eq(memcmp(bytes, whole, wanted), 0, "%s, %zu", whole, room);
			cr_assert_eq(bytes[room], '#');
		}
	}
}
