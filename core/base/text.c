/*
 * text.c - see text.h.
 *
 * A conversion that is not known here makes printf do the whole text.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/text.h"

#include <stdio.h>
#include <string.h>

#include "core/base/check.h"

void text_add_cut(struct text *text, const char *bytes)
{
	size_t left = (size_t)(text->end - text->at);
	memcpy(text->at, bytes, left);
	text->at += left;
}

const char *text_of_error(int error)
{
	const char *text = strerrordesc_np(error);
	return text != NULL ? text : "unknown error";
}

void text_add_string(struct text *text, const char *string)
{
	text_add(text, string, strlen(string));
}

/* Not in its caller: an array costs whoever has one a check of the stack. */
__attribute__((noinline)) static void large_add(struct text *text, uint64_t number)
{
	char digits[20];
	size_t at = sizeof digits;
	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number != 0);
	text_add(text, digits + at, sizeof digits - at);
}

void text_add_number(struct text *text, uint64_t number)
{
	if (number >= 1000 || text->end - text->at < 3) {
		large_add(text, number);
		return;
	}
	/* parts of addresses: most numbers */
	unsigned small = (unsigned)number;
	char *at = text->at;
	if (small >= 100)
		*at++ = (char)('0' + small / 100);
	if (small >= 10)
		*at++ = (char)('0' + small / 10 % 10);
	*at++ = (char)('0' + small % 10);
	text->at = at;
}

void text_add_hex(struct text *text, uint64_t number)
{
	char digits[18];
	size_t at = sizeof digits;
	bool prefixed = number != 0;
	do {
		digits[--at] = "0123456789abcdef"[number & 15];
		number >>= 4;
	} while (number != 0);
	if (prefixed) {
		digits[--at] = 'x';
		digits[--at] = '0';
	}
	text_add(text, digits + at, sizeof digits - at);
}

static void text_fill(struct text *text, char byte, size_t count)
{
	while (count-- > 0 && text->at < text->end)
		*text->at++ = byte;
}

/* What stands between % and the letter of a conversion. */
struct conversion {
	bool prefixed, zeros; /* # 0 */
	size_t width;
	size_t precision; /* SIZE_MAX: none */
	int longs;        /* l: 1, ll: 2, z: 3 */
	char letter;
};

static size_t number_read(const char **format)
{
	size_t number = 0;
	while (**format >= '0' && **format <= '9' && number < 10000)
		number = number * 10 + (size_t)(*(*format)++ - '0');
	return number;
}

static struct conversion conversion_read(const char **format, va_list *arguments)
{
	struct conversion it = {.precision = SIZE_MAX};
	for (; **format == '#' || **format == '0'; (*format)++) {
		it.prefixed |= **format == '#';
		it.zeros |= **format == '0';
	}
	it.width = number_read(format);
	if (**format == '.') {
		(*format)++;
		if (**format == '*') {
			int precision = va_arg(*arguments, int);
			it.precision = precision < 0 ? SIZE_MAX : (size_t)precision;
			(*format)++;
		} else {
			it.precision = number_read(format);
		}
	}
	for (; **format == 'l' && it.longs < 2; (*format)++)
		it.longs++;
	if (**format == 'z') {
		it.longs = 3;
		(*format)++;
	}
	it.letter = **format;
	*format += it.letter != '\0';
	return it;
}

static uint64_t argument_number(const struct conversion *it, va_list *arguments, bool is_signed)
{
	switch (it->longs) {
	case 1: return va_arg(*arguments, unsigned long);
	case 2: return va_arg(*arguments, unsigned long long);
	case 3: return va_arg(*arguments, size_t);
	default: break;
	}
	if (is_signed)
		return (uint64_t)(int64_t)va_arg(*arguments, int);
	return va_arg(*arguments, unsigned);
}

static void out_number(struct text *out, const struct conversion *it, uint64_t number)
{
	static const char hex[] = "0123456789abcdef";
	bool is_hex = it->letter == 'x';
	bool minus = !is_hex && it->letter != 'u' && number > INT64_MAX;
	uint64_t rest = minus ? 0 - number : number;
	char digits[24];
	size_t at = sizeof digits;
	do {
		uint64_t base = is_hex ? 16 : 10;
		digits[--at] = hex[rest % base];
		rest /= base;
	} while (rest != 0);
	bool prefixed = is_hex && it->prefixed && number != 0;
	size_t size = sizeof digits - at + minus + 2U * prefixed;
	size_t fill = it->width > size ? it->width - size : 0;
	if (!it->zeros)
		text_fill(out, ' ', fill);
	if (minus)
		text_add(out, "-", 1);
	if (prefixed)
		text_add(out, "0x", 2);
	if (it->zeros)
		text_fill(out, '0', fill);
	text_add(out, digits + at, sizeof digits - at);
}

/* False: printf must do it. */
static bool out_conversion(struct text *out, const struct conversion *it, va_list *arguments)
{
	bool plain = it->precision == SIZE_MAX && it->width == 0;
	switch (it->letter) {
	case 's': {
		const char *text = va_arg(*arguments, const char *);
		if (text == NULL || it->width != 0 || it->longs != 0)
			return false;
		text_add(out, text, strnlen(text, it->precision));
		return true;
	}
	case 'c': {
		char byte = (char)va_arg(*arguments, int);
		text_add(out, &byte, 1);
		return plain;
	}
	case 'd':
	case 'i':
	case 'u':
	case 'x':
		out_number(out, it, argument_number(it, arguments, it->letter < 'u'));
		return it->precision == SIZE_MAX;
	case '%': text_add(out, "%", 1); return plain;
	default: return false;
	}
}

static bool out_format(struct text *out, const char *format, va_list *arguments)
{
	for (;;) {
		size_t size = (size_t)(strchrnul(format, '%') - format);
		text_add(out, format, size);
		format += size;
		if (*format++ == '\0')
			return true;
		if (*format == 's') { /* nearly all of them */
			const char *text = va_arg(*arguments, const char *);
			if (text == NULL)
				return false;
			text_add_string(out, text);
			format++;
			continue;
		}
		struct conversion it = conversion_read(&format, arguments);
		if (!out_conversion(out, &it, arguments))
			return false;
	}
}

size_t text_vformat(char *to, size_t room, const char *format, va_list arguments)
{
	CHECK(room > 0);
	struct text out = {to, to + room - 1};
	va_list copy;
	va_copy(copy, arguments);
	bool known = out_format(&out, format, &copy);
	va_end(copy);
	*out.at = '\0';
	if (known)
		return (size_t)(out.at - to);
	int size = vsnprintf(to, room, format, arguments);
	CHECK(size >= 0);
	return MIN((size_t)size, room - 1);
}

size_t text_format(char *to, size_t room, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	size_t size = text_vformat(to, room, format, arguments);
	va_end(arguments);
	return size;
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
