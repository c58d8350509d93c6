/* check.c - the end of the road for a broken invariant. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
	abort();
}
