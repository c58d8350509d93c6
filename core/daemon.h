/*
 * daemon.h - what a process does to the system around it at start: whose it
 * is, that it is alone, where it runs, how many files it may open.
 *
 * Each returns false after it has logged a FATAL line.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_DAEMON_H
#define CORE_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

struct config;

/* Becomes `user` (NULL or "": stays), and refuses to be root. */
bool daemon_become(const char *user);

/* That no other instance has our unix socket or our pidfile. */
bool daemon_check_alone(const struct config *config);

/* To the background; the parent does not return. */
bool daemon_detach(void);

/* Raises the limit on descriptors as far as it goes, and says whether it is
 * enough. */
void daemon_raise_files(const struct config *config);

bool daemon_write_pidfile(const char *path);

#endif
