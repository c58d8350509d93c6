/*
 * micro.h - what single steps of a transaction cost, in nanoseconds and
 * instructions.
 *
 *	micro.c        options, timing, the table
 *	micro_rows.c   what is measured: to add a row, write it there
 *	micro_steps.c  counts instructions
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef BENCH_MICRO_H
#define BENCH_MICRO_H

#include <stddef.h>
#include <stdint.h>

struct micro_row {
	const char *name;
	const char *unit;    /* what the figures are for: one `message`, `look-up` ... */
	uint32_t units;      /* of them in one round: many, where they differ */
	void (*open)(void);  /* once, before the first round; or NULL */
	void (*close)(void); /* once, after the last; or NULL */
	/* A round must leave everything as it found it, and check what it got. */
	void (*run)(uint32_t rounds);
};

/* micro_rows.c */
extern const struct micro_row micro_rows[];
extern const size_t micro_row_count;

/* micro_steps.c */
/* Instructions of one round; negative where they cannot be counted. */
double micro_steps(const struct micro_row *row);

#endif
