/*
 * resolve.h - names to addresses in helper threads, since getaddrinfo blocks.
 *
 * A request is the caller's memory until on_done, which runs in the helper:
 * it is expected to push a mail.  Requests are begun in order, a few at a time.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_RESOLVE_H
#define NET_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

enum { RESOLVE_ADDRESSES_MAX = 16 };

struct resolve_request {
	struct resolve_request *next;
	char host[256];
	uint16_t port;
	int result; /* 0, or a getaddrinfo error */
	uint32_t count;
	struct addr addresses[RESOLVE_ADDRESSES_MAX];
	void (*on_done)(struct resolve_request *request);
};

/* Once per process; 0 or -errno. */
int resolve_start(void);
void resolve_stop(void);
void resolve_submit(struct resolve_request *request);

#endif
