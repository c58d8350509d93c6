/*
 * service.h - the service manager: sockets it hands in, states it is told.
 *
 * The protocol of systemd (sd_notify, LISTEN_FDS), spoken without its library:
 * a datagram to the socket named in the environment, descriptors from 3 on.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_SERVICE_H
#define CORE_SERVICE_H

#include <stdint.h>

enum { SERVICE_FD_FIRST = 3 };

/* Sockets handed in, from SERVICE_FD_FIRST on; 0: none. */
uint32_t service_sockets(void);

/* "READY=1"; nothing if there is no service manager. */
void service_tell(const char *state);

/* A reload begins. */
void service_tell_reloading(void);

#endif
