/*
 * ini.h - cuts the text of a configuration file into its lines.
 *
 *	; a comment, as with #
 *	[section]                  what follows on the line is a line of its own
 *	key = the value, to the end of the line without white space around it
 *	'any key' = value          "any key" too; nothing escapes inside
 *	%include file
 *
 * No memory, no files: whoever reads opens the files.  Spans point into the
 * text; none holds a zero byte or a newline.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_INI_H
#define CORE_INI_H

#include <stdint.h>

#include "core/base/bytes.h"

struct ini {
	const uint8_t *at, *end;
	uint32_t line; /* of `at`, from 1 */
};

enum ini_event {
	INI_END,
	INI_SECTION, /* name */
	INI_PAIR,    /* name, value */
	INI_INCLUDE, /* value */
	INI_BROKEN,  /* line is no line of this grammar; do not go on */
};

struct ini_line {
	struct span name, value;
	uint32_t number;
};

void ini_init(struct ini *ini, struct span text);
enum ini_event ini_next(struct ini *ini, struct ini_line *line);

#endif
