/*
 * crew.h - the workers as threads: how they start, and how they leave.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CREW_H
#define CORE_CREW_H

#include <stdbool.h>
#include <stdint.h>

struct crew;
struct process;
struct settings;
struct sockets;

/* How many workers, and on which CPUs; false: a FATAL line was logged.  To be
 * called first: process->worker_count and process->workers are made here. */
struct crew *crew_new(struct process *process, const struct settings *settings);

/* Starts all and waits until each has its ring and its listeners.  False: a
 * FATAL line was logged; there is no going on from there. */
bool crew_start(struct crew *crew, struct sockets *sockets);

/* Waits until all have left after COMMAND_STOP, and frees them.  False: some
 * have not within the time. */
bool crew_join(struct crew *crew, uint64_t timeout_us);

#endif
