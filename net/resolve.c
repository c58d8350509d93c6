/*
 * resolve.c - see resolve.h: a queue behind a mutex, and one thread.
 *
 * A lock is right here: a request costs a look-up of milliseconds, and nobody
 * who serves clients waits for it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <string.h>

#include "core/base/check.h"
#include "net/sys.h"

/* A name server that does not answer takes one of them. */
enum { HELPERS = 4 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct resolve_request *first, *last;
	bool stopping;
	struct sys_thread *threads[HELPERS];
	uint32_t count;
} helper = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Unless it is none of ours, or one we have: a file of hosts may name an
 * address twice. */
static void address_add(struct resolve_request *request, const struct addrinfo *info)
{
	struct addr addr = {.size = info->ai_addrlen};
	if (info->ai_addrlen > sizeof addr.local || request->count == RESOLVE_ADDRESSES_MAX)
		return;
	memcpy(&addr.local, info->ai_addr, info->ai_addrlen);
	if (addr.any.sa_family == AF_INET)
		addr.v4.sin_port = htons(request->port);
	else if (addr.any.sa_family == AF_INET6)
		addr.v6.sin6_port = htons(request->port);
	else
		return;
	for (uint32_t i = 0; i < request->count; i++)
		if (addr_equal(&request->addresses[i], &addr))
			return;
	request->addresses[request->count++] = addr;
}

static void request_serve(struct resolve_request *request)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	request->count = 0;
	request->result = getaddrinfo(request->host, NULL, &hints, &list);
	if (request->result != 0)
		return;
	for (const struct addrinfo *info = list; info != NULL; info = info->ai_next)
		address_add(request, info);
	freeaddrinfo(list);
	if (request->count == 0)
		request->result = EAI_NONAME;
}

/* The oldest request, or NULL when it is time to go. */
static struct resolve_request *request_take(bool *canceled)
{
	pthread_mutex_lock(&helper.lock);
	while (helper.first == NULL && !helper.stopping)
		pthread_cond_wait(&helper.changed, &helper.lock);
	struct resolve_request *request = helper.first;
	if (request != NULL)
		helper.first = request->next;
	*canceled = helper.stopping;
	pthread_mutex_unlock(&helper.lock);
	return request;
}

static void helper_run(void *argument)
{
	(void)argument;
	struct resolve_request *request;
	bool canceled;
	while ((request = request_take(&canceled)) != NULL) {
		if (canceled) {
			request->count = 0;
			request->result = EAI_CANCELED;
		} else {
			request_serve(request);
		}
		request->on_done(request); /* it may be gone after this */
	}
}

int resolve_start(void)
{
	CHECK(helper.count == 0);
	helper.stopping = false;
	while (helper.count < HELPERS) {
		int error = sys_thread_start(&helper.threads[helper.count], "resolve", -1,
		                             helper_run, NULL);
		if (error != 0)
			return helper.count > 0 ? 0 : error; /* fewer will do */
		helper.count++;
	}
	return 0;
}

/* What is queued is answered with EAI_CANCELED; what is being looked up is
 * waited for. */
void resolve_stop(void)
{
	CHECK(helper.count > 0);
	pthread_mutex_lock(&helper.lock);
	helper.stopping = true;
	pthread_cond_broadcast(&helper.changed);
	pthread_mutex_unlock(&helper.lock);
	while (helper.count > 0)
		sys_thread_join(helper.threads[--helper.count]);
}

void resolve_submit(struct resolve_request *request)
{
	pthread_mutex_lock(&helper.lock);
	request->next = NULL;
	if (helper.first == NULL)
		helper.first = request;
	else
		helper.last->next = request;
	helper.last = request;
	pthread_cond_signal(&helper.changed);
	pthread_mutex_unlock(&helper.lock);
}
