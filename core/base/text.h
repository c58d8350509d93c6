/*
 * text.h - texts that may be cut.
 *
 * For reasons, names in messages and the like, where the limit is part of the
 * contract and a cut text is right.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_TEXT_H
#define CORE_BASE_TEXT_H

#include <stddef.h>

#include "core/base/bytes.h"

/* Always ends with a zero byte; what does not fit is left out. */
__attribute__((format(printf, 3, 4))) void text_format(char *to, size_t room, const char *format,
                                                       ...);
void text_set(char *to, size_t room, const char *from);
void text_set_span(char *to, size_t room, struct span from);

#endif
