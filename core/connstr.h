/*
 * connstr.h - cuts `key=value key = 'it''s'` into its pairs.
 *
 * The grammar of entries in [databases], [users] and [peers].  Only spaces
 * separate, and may stand around `=`.  In single quotes '' is one quote.  An
 * empty value is an error, quoted or not.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CONNSTR_H
#define CORE_CONNSTR_H

#include <stdbool.h>

#include "core/base/bytes.h"

struct connstr_pair {
	struct span key;
	struct span value; /* as it stands there, without the quotes around it */
	bool is_quoted;
};

enum connstr_event { CONNSTR_END, CONNSTR_PAIR, CONNSTR_BROKEN };

/* Moves *text behind the pair; on CONNSTR_BROKEN it stays where the pair began. */
enum connstr_event connstr_next(const char **text, struct connstr_pair *pair);

/* The value itself into `to`, which has room for value.size + 1 bytes. */
void connstr_value(const struct connstr_pair *pair, char *to);

#endif
