/*
 * Names that every machine can look up without a name server.  on_done runs in
 * a helper, several at once, so the test waits on a bell.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/resolve.h"

#include <criterion/criterion.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/check.h"
#include "net/sys.h"

enum { REQUESTS = 50 };

static int bell;
static atomic_uint done_count;
static struct resolve_request requests[REQUESTS];
static atomic_uint done_times[REQUESTS];

static void note_done(struct resolve_request *request)
{
	atomic_fetch_add(&done_times[request - requests], 1);
	atomic_fetch_add(&done_count, 1);
	sys_bell_ring(bell);
}

static void wait_done(unsigned count)
{
	while (atomic_load(&done_count) < count) {
		struct pollfd poll_bell = {.fd = bell, .events = POLLIN};
		uint64_t rings;
		cr_assert_eq(poll(&poll_bell, 1, 20 * 1000), 1);
		cr_assert_eq(read(bell, &rings, sizeof rings), sizeof rings);
	}
}

Test(resolve, answers_each_once)
{
	static const struct {
		const char *host;
		int family; /* of all addresses; 0: not found, -1: any */
	} cases[] = {
		{"127.0.0.1", AF_INET},
		{"::1", AF_INET6},
		{"localhost", -1},
		{"", 0},
		{"a..b", 0},
		{"a-label-may-have-63-bytes-and-this-one-has-65-bytes-which-is-more", 0},
	};
	bell = sys_bell_open();
	cr_assert_eq(resolve_start(), 0);
	for (size_t i = 0; i < REQUESTS; i++) {
		struct resolve_request *request = &requests[i];
		snprintf(request->host, sizeof request->host, "%s",
		         cases[i % ARRAY_LEN(cases)].host);
		request->port = (uint16_t)(1000 + i);
		request->on_done = note_done;
		resolve_submit(request);
		if (i % 7 == 0) /* now and then the helper has gone to sleep */
			wait_done((unsigned)i + 1);
	}
	wait_done(REQUESTS);
	for (size_t i = 0; i < REQUESTS; i++) {
		const struct resolve_request *request = &requests[i];
		int family = cases[i % ARRAY_LEN(cases)].family;
		cr_assert_eq(atomic_load(&done_times[i]), 1);
		cr_assert_eq(request->result == 0, family != 0, "%s", request->host);
		cr_assert_eq(request->count > 0, family != 0);
		for (uint32_t k = 0; k < request->count; k++) {
			const struct addr *addr = &request->addresses[k];
			cr_assert(family < 0 || addr->any.sa_family == family);
			cr_assert_eq(addr_shorten(addr).port, 1000 + i);
			for (uint32_t before = 0; before < k; before++)
				cr_assert_not(addr_equal(addr, &request->addresses[before]));
		}
	}
	resolve_stop();
	sys_close(bell);
}

/* Every request is answered, also those that stand in the queue at the end;
 * and the helper can be had again. */
Test(resolve, stop_answers_all)
{
	bell = sys_bell_open();
	for (int round = 0; round < 3; round++) {
		atomic_store(&done_count, 0);
		for (size_t i = 0; i < REQUESTS; i++)
			atomic_store(&done_times[i], 0);
		cr_assert_eq(resolve_start(), 0);
		for (size_t i = 0; i < REQUESTS; i++) {
			requests[i] = (struct resolve_request){.host = "localhost",
			                                       .on_done = note_done};
			resolve_submit(&requests[i]);
		}
		resolve_stop();
		cr_assert_eq(atomic_load(&done_count), REQUESTS);
		for (size_t i = 0; i < REQUESTS; i++) {
			bool canceled = requests[i].result == EAI_CANCELED;
			cr_assert_eq(atomic_load(&done_times[i]), 1);
			cr_assert_eq(requests[i].count == 0, canceled);
		}
	}
	sys_close(bell);
}
