/*
 * base64.c - see base64.h.
 *
 * Ours and not the library's, because that skips white space and takes texts
 * that end early: what is compared or signed as text must have one form.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/base64.h"

static const char digits[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(const uint8_t *bytes, uint32_t size, char *text)
{
	for (; size > 0; text += 4) {
		uint32_t taken = size < 3 ? size : 3;
		uint32_t group = (uint32_t)bytes[0] << 16;
		if (taken > 1)
			group |= (uint32_t)bytes[1] << 8;
		if (taken > 2)
			group |= bytes[2];
		text[0] = digits[group >> 18];
		text[1] = digits[group >> 12 & 63];
		text[2] = '=';
		text[3] = '=';
		if (taken > 1)
			text[2] = digits[group >> 6 & 63];
		if (taken > 2)
			text[3] = digits[group & 63];
		bytes += taken;
		size -= taken;
	}
}

/* 64 if it is not a digit. */
static uint32_t digit_value(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26U;
	if (c >= '0' && c <= '9')
		return c - '0' + 52U;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : 64;
}

bool base64_read(struct span text, uint8_t *bytes, uint32_t room, uint32_t *size)
{
	*size = 0;
	if (text.size % 4 != 0)
		return false;
	for (uint32_t at = 0; at < text.size; at += 4) {
		const uint8_t *c = text.data + at;
		uint32_t count = 3;
		if (at == text.size - 4 && c[3] == '=')
			count = c[2] == '=' ? 1 : 2;
		uint32_t group = 0;
		for (uint32_t i = 0; i <= count; i++) {
			uint32_t value = digit_value(c[i]);
			if (value == 64)
				return false;
			group |= value << (18 - 6 * i);
		}
		/* bits that the padding cuts off must be zero */
		if ((group & 0xffffffU >> 8 * count) != 0 || room - *size < count)
			return false;
		for (uint32_t i = 0; i < count; i++)
			bytes[(*size)++] = (uint8_t)(group >> (16 - 8 * i));
	}
	return true;
}
