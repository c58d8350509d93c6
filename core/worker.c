/*
 * worker.c - see worker.h.
 *
 * A turn is: the loop (submit, wait, completions, timers), then the mail that
 * has come.  Mail is looked at every turn, so the bell only has to wake a
 * worker that sleeps.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/worker.h"

#include <stdlib.h>
#include <string.h>

#include "core/admin/collect.h"
#include "core/admin/console.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/cancels.h"
#include "core/client.h"
#include "core/command.h"
#include "core/config.h"
#include "core/derive.h"
#include "core/home.h"
#include "core/lend.h"
#include "core/log.h"
#include "core/place.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/server.h"
#include "core/sockets.h"
#include "net/sys.h"

enum {
	CLIENTS_PER_CHUNK = 256,
	SERVERS_PER_CHUNK = 32,
	HELDS_PER_CHUNK = 256,
	JOBS_PER_CHUNK = 16,
	JANITOR_US = 333 * 1000,
	BALANCE_SLACK = 2,
	SWEEP_EVERY = 6, /* runs of the janitor: two seconds */
};

static void on_bell(struct bell *bell)
{
	(void)bell; /* the turn goes on to the mail */
}

static uint32_t least_loaded(const struct process *process, uint32_t *mean)
{
	uint32_t best = 0;
	uint32_t least = UINT32_MAX;
	uint64_t sum = 0;
	CHECK(process->worker_count > 0);
	for (uint32_t i = 0; i < process->worker_count; i++) {
		uint32_t load = atomic_load_explicit(&process->workers[i]->client_count,
		                                     memory_order_relaxed);
		sum += load;
		if (load < least) {
			least = load;
			best = i;
		}
	}
	*mean = (uint32_t)(sum / process->worker_count);
	return best;
}

/* A worker with more clients than the mean plus two passes new ones on, before
 * a byte is read; all clients of a unix socket are spread from one worker. */
static void on_accept(struct listener *listener, int fd)
{
	struct worker *worker = CONTAINER(struct worker, listeners, listener - listener->index);
	uint32_t mean;
	uint32_t best = least_loaded(worker->process, &mean);
	uint32_t own = atomic_load_explicit(&worker->client_count, memory_order_relaxed);
	uint32_t slack = listener->is_unix ? 0 : BALANCE_SLACK;
	if (best == worker->index || own <= mean + slack) {
		client_open(worker, fd, listener->is_unix);
		return;
	}
	struct post *post = post_new(POST_CLIENT, worker->index);
	post->client.fd = fd;
	post->client.is_unix = listener->is_unix;
	/* counted there already, so that a burst does not all go to one worker */
	atomic_fetch_add_explicit(&worker->process->workers[best]->client_count, 1,
	                          memory_order_relaxed);
	post_send(worker->process, best, post);
}

static void on_trouble(struct listener *listener, int error)
{
	(void)listener;
	log_error("accept() failed: %s", text_of_error(-error));
}

static void on_listener_closed(struct listener *listener)
{
	struct worker *worker = CONTAINER(struct worker, listeners, listener - listener->index);
	CHECK(worker->listening > 0);
	worker->listening--;
}

static const struct listener_events listener_events = {
	.on_accept = on_accept,
	.on_trouble = on_trouble,
	.on_closed = on_listener_closed,
};

/* Pools of forced users fill up to min_pool_size without any client. */
static void forced_pools(struct worker *worker)
{
	struct registry *registry = &worker->process->registry;
	const struct config *config = worker->config;
	for (uint32_t i = 0; i < config->database_count; i++) {
		const struct database_entry *entry = &config->databases[i];
		bool own_min = entry->min_pool_size > 0;
		bool any_min = entry->min_pool_size < 0 && config->settings.min_pool_size > 0;
		if (entry->user == NULL || !(own_min || any_min))
			continue;
		bool made;
		struct database *database = registry_database(registry, config, entry->name, &made);
		struct user *user = registry_user(registry, config, entry->user);
		struct pool_record *record = database != NULL && user != NULL
		                                     ? registry_pool(registry, config, database,
		                                                     user)
		                                     : NULL;
		if (record != NULL && record->home == worker->index)
			(void)pool_get(worker, record);
	}
}

static void janitor_run(struct timer *timer)
{
	struct worker *worker = CONTAINER(struct worker, janitor, timer);
	worker_each_pool (worker, pool)
		pool_janitor(pool);
	client_janitor(worker);
	if (++worker->janitor_runs % SWEEP_EVERY == 0)
		loop_sweep(&worker->loop);
	wheel_arm(&worker->loop.wheel, timer, worker->loop.now_us + JANITOR_US);
}

bool worker_open(struct worker *worker, struct process *process, uint32_t index,
                 struct ring_failure *failure)
{
	worker->process = process;
	worker->index = index;
	worker->config = process->config;
	config_hold(worker->config);
	uint64_t seed;
	sys_random(&seed, sizeof seed);
	if (!loop_open(&worker->loop, failure))
		return false;
	ring_spin(worker->loop.ring, (uint32_t)worker->config->settings.spin_us);
	if (!statements_init(&worker->statements, process->statement_secret) ||
	    !words_init(&worker->words, seed) ||
	    !bell_open(&worker->bell, &worker->loop, worker->mailbox.bell, on_bell)) {
		static const char text[] = "out of memory";
		memcpy(failure->text, text, sizeof text);
		return false;
	}
	slab_init(&worker->clients, sizeof(struct client), CLIENTS_PER_CHUNK, 0);
	slab_init(&worker->servers, sizeof(struct server), SERVERS_PER_CHUNK, 0);
	slab_init(&worker->helds, sizeof(struct held), HELDS_PER_CHUNK, 0);
	slab_init(&worker->jobs, sizeof(struct cancel_job), JOBS_PER_CHUNK, 0);
	list_init(&worker->logins);
	list_init(&worker->consoles);
	list_init(&worker->cancels);
	list_init(&worker->closing);
	list_init(&worker->cancel_jobs);
	forced_pools(worker);
	worker->janitor.fire = janitor_run;
	wheel_arm(&worker->loop.wheel, &worker->janitor, worker->loop.now_us + JANITOR_US);
	return true;
}

bool worker_listen(struct worker *worker, int fd, bool is_unix)
{
	if (worker->listener_count == WORKER_LISTENERS_MAX)
		return false;
	uint32_t index = worker->listener_count;
	struct listener *listener = &worker->listeners[index];
	if (!listener_open(listener, &worker->loop, fd, &listener_events))
		return false;
	listener->is_unix = is_unix;
	listener->index = index;
	worker->listener_count++;
	worker->listening++;
	return true;
}

static void client_arrives(struct worker *worker, struct post *post)
{
	if (post->client.moved != NULL) {
		place_arrive(worker, post->client.moved);
		return;
	}
	/* client_open() counts it anew */
	atomic_fetch_sub_explicit(&worker->client_count, 1, memory_order_relaxed);
	client_open(worker, post->client.fd, post->client.is_unix);
}

/* Sockets that are open already stay as they are; new clients' are as their listener. */
static void listeners_configure(struct worker *worker)
{
	const struct settings *settings = &worker->config->settings;
	struct sys_tcp tcp = sockets_tcp(settings);
	for (uint32_t i = 0; i < worker->listener_count; i++) {
		int fd = worker->listeners[i].fd;
		if (fd < 0 || worker->listeners[i].closing)
			continue;
		sys_tcp_options(fd, &tcp);
		sys_defer_accept(fd, settings->tcp_defer_accept);
	}
}

static void config_switch(struct worker *worker, struct post *post)
{
	struct config *old = worker->config;
	worker->config = post->config.config;
	worker_each_pool (worker, pool) {
		pool_configure(pool);
		if (pool_is_removed(pool))
			pool_end(pool);
	}
	forced_pools(worker);
	listeners_configure(worker);
	ring_spin(worker->loop.ring, (uint32_t)worker->config->settings.spin_us);
	config_drop(old);
	post->kind = POST_DONE;
	post_control(worker->process, post);
}

/* True: the post goes on living (it was passed on or answered). */
static bool post_to_home(struct worker *worker, struct post *post)
{
	struct pool *pool = pool_get(worker, post->pool);
	if (pool != NULL)
		home_post(pool, post);
	return false;
}

static bool post_to_pool(struct worker *worker, struct post *post)
{
	struct pool *pool = pool_get(worker, post->pool);
	struct pool_record *record = post->pool;
	if (pool != NULL)
		pool_post(pool, post);
	else if (post->kind == POST_OPEN) /* without memory: nothing will use the credit */
		ledger_give(&record->user->account, &record->database->account, &record->account);
	return false;
}

static bool post_handle(struct worker *worker, struct post *post)
{
	switch ((enum post_kind)post->kind) {
	case POST_CLIENT: client_arrives(worker, post); return false;
	case POST_DEMAND:
	case POST_OPENED:
	case POST_FAILED:
	case POST_CREDIT:
	case POST_GAVE: return post_to_home(worker, post);
	case POST_OPEN:
	case POST_GIVE:
	case POST_REMOTE:
	case POST_EVICT:
	case POST_POOL_FAILED:
	case POST_POOL_WORKS: return post_to_pool(worker, post);
	case POST_LEND: lend_receive(worker, post); return false;
	case POST_LEND_DONE: lend_acknowledged(worker, post); return false;
	case POST_CANCEL: cancel_owner(worker, post); return false;
	case POST_CANCEL_DONE: cancel_done(worker, post); return false;
	case POST_RESOLVED: server_resolved(worker, post); return false;
	case POST_DERIVED: derive_came(worker, post); return false;
	case POST_CONFIG: config_switch(worker, post); return true;
	case POST_COMMAND: command_run(worker, post); return true;
	case POST_COLLECT: collect_run(worker, post); return true;
	case POST_REPLY: console_reply(worker, post); return false;
	case POST_DONE:
	case POST_CONSOLE:
	case POST_KIND_COUNT: break;
	}
	CHECK(false);
	return false;
}

void worker_turn(struct worker *worker, int64_t max_wait_us)
{
	loop_turn(&worker->loop, max_wait_us);
	struct mail *mail = mailbox_take(&worker->mailbox);
	while (mail != NULL) {
		struct post *post = CONTAINER(struct post, mail, mail);
		mail = mail->next;
		if (!post_handle(worker, post))
			post_free(post);
	}
	if (worker->stopping)
		worker->stopped = command_is_stopped(worker);
}

void worker_close(struct worker *worker)
{
	CHECK(worker->stopped);
	wheel_disarm(&worker->loop.wheel, &worker->janitor);
	for (uint32_t i = 0; i < worker->pool_room; i++)
		if (worker->pools[i] != NULL)
			pool_free(worker->pools[i]);
	free((void *)worker->pools);
	bell_close(&worker->bell);
	while (worker->bell.reading)
		loop_turn(&worker->loop, 1000);
	words_fini(&worker->words);
	statements_fini(&worker->statements);
	slab_fini(&worker->clients);
	slab_fini(&worker->servers);
	slab_fini(&worker->helds);
	slab_fini(&worker->jobs);
	loop_close(&worker->loop);
	config_drop(worker->config);
}

struct client *worker_find_client(struct worker *worker, uint32_t slot, uint32_t generation)
{
	enum op_kind kind;
	struct op_owner *owner = op_find(&worker->loop.ops, op_name(slot, generation), &kind);
	return owner != NULL ? CONTAINER(struct client, conn.owner, owner) : NULL;
}
