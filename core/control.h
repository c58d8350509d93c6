/*
 * control.h - the thread that is asked: signals, the console, the clock.
 *
 * It has no part in any query.  It sleeps in poll(2) on signals, its mail and
 * the next thing that is due.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

struct process;

struct control_options {
	bool to_stderr; /* log lines */
	int verbose;    /* -v so often; the setting wins */
};

enum control_end {
	CONTROL_LEAVE, /* nobody is left: the workers may be stopped in order */
	CONTROL_NOW,   /* at once */
};

/* The signals that control takes; to be blocked in every thread. */
int control_signals(void);

/* Runs until the process has to end.  process->config is what control has
 * published last, and its to keep. */
enum control_end control_run(struct process *process, const struct control_options *options,
                             int signals);

/* Where log lines go, by a snapshot; false: the file cannot be opened. */
bool control_log_open(const struct process *process, const struct control_options *options);

/* Has all workers close everything and leave. */
void control_stop_workers(struct process *process);

/* Frees mail that nobody will read any more. */
void control_drain(struct process *process);

#endif
