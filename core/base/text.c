/* text.c - see text.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"

void text_format(char *to, size_t room, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int size = vsnprintf(to, room, format, arguments);
	va_end(arguments);
	CHECK(size >= 0);
}

void text_set(char *to, size_t room, const char *from)
{
	CHECK(room > 0);
	size_t size = strnlen(from, room - 1);
	memcpy(to, from, size);
	to[size] = '\0';
}

void text_set_span(char *to, size_t room, struct span from)
{
	size_t size = from.size < room ? from.size : room - 1;
	memcpy(to, from.data, size);
	to[size] = '\0';
}
