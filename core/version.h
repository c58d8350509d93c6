/* version.h - who we say we are: which PgBouncer we are compatible with, and our own version. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_VERSION_H
#define CORE_VERSION_H

#ifndef RINGBOUNCER_VERSION
#define RINGBOUNCER_VERSION "0.1.0"
#endif

#define COMPATIBLE_VERSION "1.25.2"

/* First line of --version, and the answer of SHOW VERSION. */
#define VERSION_TEXT "PgBouncer " COMPATIBLE_VERSION " (ringbouncer " RINGBOUNCER_VERSION ")"

#endif
