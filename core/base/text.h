/*
 * text.h - texts that may be cut.
 *
 * For reasons, names in messages and the like, where the limit is part of the
 * contract and a cut text is right.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "core/base/bytes.h"

/* As printf would; always ends with a zero byte, and what does not fit is left
 * out.  Returns the bytes written.  The conversions of log lines (s c d i u x, with
 * l ll z, a precision of s, # 0 and a width) cost a tenth of printf's. */
__attribute__((format(printf, 3, 4))) size_t text_format(char *to, size_t room, const char *format,
                                                         ...);
__attribute__((format(printf, 3, 0))) size_t text_vformat(char *to, size_t room, const char *format,
                                                          va_list arguments);
void text_set(char *to, size_t room, const char *from);

/* Appends, without a zero byte; what does not fit is left out. */
struct text {
	char *at, *end;
};

/* As much of them as there is room for. */
void text_add_cut(struct text *text, const char *bytes);

/* A size known to the compiler is a move or two. */
static inline void text_add(struct text *text, const char *bytes, size_t size)
{
	if (size > (size_t)(text->end - text->at)) {
		text_add_cut(text, bytes);
		return;
	}
	memcpy(text->at, bytes, size);
	text->at += size;
}

void text_add_string(struct text *text, const char *string);
void text_add_number(struct text *text, uint64_t number);
void text_add_hex(struct text *text, uint64_t number); /* 0x..., or 0 */

/* What an errno means: a constant, where strerror() may use memory that threads share. */
const char *text_of_error(int error);

void text_set_span(char *to, size_t room, struct span from);

#endif
