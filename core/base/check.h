/*
 * check.h - assertions, and the few macros the language lacks.
 *
 * core/base/ is the floor: every folder may include it, it includes no other.
 *
 * CHECK() states what a bug in our own code would break, stays on in release
 * builds, and stops the process at the spot.  CHECK_SLOW() is for invariants
 * that cost more than a compare (walking a list); only debug builds pay.
 * Neither is for what a peer, the kernel or the config can do: that is an
 * error, and errors are returned.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_CHECK_H
#define CORE_BASE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#define LIKELY(x)    __builtin_expect(!!(x), 1)
#define UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define COLD         __attribute__((cold, noinline)) /* out of the way of what is not */
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

_Noreturn void check_failed(const char *file, int line, const char *what);

#define CHECK(cond)                                              \
	do {                                                     \
		if (UNLIKELY(!(cond)))                           \
			check_failed(__FILE__, __LINE__, #cond); \
	} while (0)

#ifdef NDEBUG
#define CHECK_SLOW(cond) ((void)0)
#else
#define CHECK_SLOW(cond) CHECK(cond)
#endif

#endif
