/*
 * resolve.c - net/resolve.h for the simulator: there are no names in its world.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/resolve.h"

#include <netdb.h>

int resolve_start(void)
{
	return 0;
}

void resolve_stop(void)
{
}

void resolve_submit(struct resolve_request *request)
{
	request->count = 0;
	request->result = EAI_NONAME;
	request->on_done(request);
}
