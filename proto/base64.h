/*
 * base64.h - base64 as SCRAM uses it (RFC 4648, section 4): padded, nothing
 * between the characters, and one text only for each sequence of bytes.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_BASE64_H
#define PROTO_BASE64_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

#define BASE64_SIZE(bytes) (((bytes) + 2) / 3 * 4)

/* Writes BASE64_SIZE(size) characters and no end mark. */
void base64_write(const uint8_t *bytes, uint32_t size, char *text);

/* False if the text is not base64 or stands for more than `room` bytes. */
bool base64_read(struct span text, uint8_t *bytes, uint32_t room, uint32_t *size);

#endif
