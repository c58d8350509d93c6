/*
 * lend.h - a server moves to another core.
 *
 * By value: its receive is ended, nothing of it is in the kernel's hands, and
 * what it is (descriptor, key, parameters, deadlines) goes by mail into a new
 * slot there.  The sender keeps it as LENDING until the receiver acknowledges,
 * so it is counted once.  Credits are the pool's, they do not move.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_LEND_H
#define CORE_LEND_H

#include <stdint.h>

struct pool;
struct post;
struct server;
struct worker;

/* An idle, clean server of this worker goes to worker `to`. */
void lend_server(struct server *server, uint32_t to);

/* Its last operation has come back. */
void lend_detached(struct server *server);

/* It is closed before it could leave: the home must not count on it. */
void lend_broken(struct server *server);

void lend_receive(struct worker *worker, struct post *post);
void lend_acknowledged(struct worker *worker, struct post *post);

#endif
