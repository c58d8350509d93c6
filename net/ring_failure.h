/*
 * ring_failure.h - why io_uring cannot be used here, in words for the operator.
 *
 * Each text is one line: the cause, then the remedy.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_RING_FAILURE_H
#define NET_RING_FAILURE_H

struct ring_failure;

/* `call` returned `error` (-errno). */
void ring_failure_explain(struct ring_failure *failure, const char *call, int error);

/* The kernel has io_uring, but not this part of it. */
void ring_failure_missing(struct ring_failure *failure, const char *part);

#endif
