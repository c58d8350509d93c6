/*
 * core.c - the pooler itself between the actors, with all its workers stepped
 * in one thread.
 *
 * What main and control would do is done here: a snapshot, the shared part, a
 * listener per worker.  At the end everything must be back: the clients' things
 * five seconds after they have left, the servers' when they have idled out.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/drive.h"

#ifdef SIM_CORE

#include "tests/sim/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cancel/table.h"
#include "core/base/check.h"
#include "core/client.h"
#include "core/config.h"
#include "core/log.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/registry.h"
#include "core/server.h"
#include "core/vars.h"
#include "core/worker.h"
#include "net/sys.h"

enum { SERVER_IDLE_US = 20 * 1000000, CANCEL_KEYS = 1024 };

static struct process process;
static struct worker *workers;
static const struct postgres *backends;
static bool waits_long; /* some connects hang by the plan */

static struct config *config_make(const struct plan *plan)
{
	struct config *config = config_default();
	struct settings *settings = &config->settings;
	struct rng rng = rng_make(plan->seed, 20);
	settings->auth_type = AUTH_TRUST;
	settings->pool_mode = plan->session_mode ? POOL_SESSION : POOL_TRANSACTION;
	settings->default_pool_size = (int32_t)plan->pool_size;
	settings->reserve_pool_size = (int32_t)plan->reserve;
	settings->reserve_pool_timeout = rng_between(&rng, 1000, 3000000);
	settings->max_db_connections = (int32_t)plan->limit_database;
	settings->max_user_connections = (int32_t)plan->limit_user;
	settings->max_client_conn = 1000;
	if (plan->prepared > 0)
		settings->max_prepared_statements = (int32_t)plan->prepared;
	settings->prepare_unnamed = plan->prepare_unnamed;
	settings->server_idle_timeout = SERVER_IDLE_US;
	settings->server_lifetime = rng_below(&rng, 2) == 0 ? 3600000000U : 1000000;
	settings->server_login_retry = rng_between(&rng, 10000, 2000000);
	settings->server_check_delay = rng_below(&rng, 2) == 0 ? 30000000 : 1000;
	/* half of the runs have servers follow clients, the others clients follow servers */
	settings->servers_per_worker = MAX((int32_t)rng_below(&rng, 4) - 1, 0);
	static const char *const names[] = {"d0", "d1", "u0", "u1"};
	for (uint32_t i = 0; i < plan->databases; i++) {
		struct database_entry entry;
		database_entry_init(&entry, names[i]);
		entry.dbname = names[i];
		entry.host = "10.0.0.2";
		entry.port = 5432;
		config_add_database(config, &entry);
	}
	for (uint32_t i = 0; i < plan->users; i++) {
		struct user_entry entry;
		user_entry_init(&entry, names[2 + i]);
		entry.in_auth_file = true;
		config_add_user(config, &entry);
	}
	return config;
}

static void process_make(const struct plan *plan)
{
	static bool named;
	memset(&process, 0, sizeof process);
	if (!named)
		vars_names_init(NULL);
	named = true;
	sys_random(&process.seed, sizeof process.seed);
	sys_random(process.secret, sizeof process.secret);
	sys_random(process.statement_secret, sizeof process.statement_secret);
	process.config = config_make(plan);
	process.worker_count = plan->workers;
	process.next_id = 1;
	size_t size = cancel_table_size(CANCEL_KEYS);
	process.cancels = cancel_table_init(sys_shared_pages("cancels", size), size, process.seed);
	registry_init(&process.registry, plan->workers, process.seed);
	registry_configure(&process.registry, process.config);
}

static void core_open(const struct plan *plan, const struct addr *front, const struct addr *back)
{
	(void)back;
	backends = plan->postgres;
	world.calm = true; /* no faults while it starts */
	waits_long = plan->faults->refuse > 0;
	log_open(&(struct log_options){.verbose = 2});
	process_make(plan);
	workers = calloc(plan->workers, sizeof *workers);
	SIM_CHECK(workers != NULL, "no memory");
	for (uint32_t i = 0; i < plan->workers; i++) {
		process.workers[i] = &workers[i];
		SIM_CHECK(mailbox_open(&workers[i].mailbox) == 0, "no mailbox");
	}
	for (uint32_t i = 0; i < plan->workers; i++) {
		struct ring_failure failure = {0};
		const char *failed = "";
		SIM_CHECK(worker_open(&workers[i], &process, i, &failure), "%s", failure.text);
		int fd = sys_listen(front, &(struct sys_listen){.backlog = 128}, &failed);
		SIM_CHECK(fd >= 0 && worker_listen(&workers[i], fd, false), "no listener");
	}
	world.calm = false;
}

/* What a server that rests has prepared is what its worker believes. */
static void prepared_is_known(const struct server *server)
{
	uint32_t pid = read_u32(server->key);
	uint32_t count = postgres_prepared(backends, pid);
	if (server->close_needed || count == UINT32_MAX)
		return;
	SIM_CHECK(server->journal.count == 0, "backend %u rests, %u notes are left", pid,
	          server->journal.count);
	SIM_CHECK(count == server->cache.lru.count,
	          "backend %u has %u prepared statements, its worker believes in %u", pid, count,
	          server->cache.lru.count);
	list_each (struct prepared, prepared, link, &server->cache.lru)
		SIM_CHECK(postgres_has_prepared(backends, pid, prepared->statement->name),
		          "backend %u does not have %s", pid, prepared->statement->name);
}

static void core_turn(uint32_t index)
{
	struct worker *worker = &workers[index];
	worker_turn(worker, -1);
	worker_each_pool (worker, pool) {
		if (pool->limits.statements == 0)
			continue;
		list_each (struct server, server, link, &pool->servers[SERVER_IDLE])
			prepared_is_known(server);
	}
}

/* A worker that sleeps has been woken for every mail: a lost ring of the bell is
 * not for the next timer to make good. */
static void nobody_sleeps_over_mail(void)
{
	for (uint32_t i = 0; i < process.worker_count; i++) {
		const struct ring *ring = world.rings[i];
		SIM_CHECK(mailbox_is_empty(&workers[i].mailbox) || ring_is_ready(ring) ||
		                  ring_is_late(ring),
		          "worker %u sleeps over mail", i);
	}
}

static bool core_step(void)
{
	if (drive_step_rings(core_turn))
		return true;
	nobody_sleeps_over_mail();
	return false;
}

static void command_send(enum command_kind kind)
{
	for (uint32_t i = 0; i < process.worker_count; i++) {
		struct post *post = post_new(POST_COMMAND, WORKERS_MAX);
		post->command.command = (uint32_t)kind;
		post_send(&process, i, post);
	}
}

static void pool_print(const struct pool *pool)
{
	fprintf(stderr, "  worker %u %s/%s demanding %d remote %llu\n", pool->worker->index,
	        pool->record->database->name, pool->record->user->name, pool->demanding,
	        (unsigned long long)pool->remote_ticket);
	const struct list *lists[] = {&pool->active, &pool->waiting};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		list_each (struct client, client, link, lists[i])
			fprintf(stderr,
			        "  %s client %llu from port %u: state %d, server %d,"
			        " wait since %llu, conn state %d paused %d ended %d"
			        " flying %x, held %d\n",
			        i == 0 ? "active" : "waiting", (unsigned long long)client->id,
			        client->address.port, client->state, client->server != NULL,
			        (unsigned long long)client->wait_us, client->conn.state,
			        client->conn.paused, client->conn.ended,
			        (unsigned)client->conn.in_flight, client->held_first != NULL);
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		list_each (struct server, server, link, &pool->servers[i])
			fprintf(stderr,
			        "  server %llu: state %d, logged in %d, login %d, conn state %d"
			        " paused %d flying %x, closed %d, credit %d, owed %u, %s\n",
			        (unsigned long long)server->id, i, server->logged_in,
			        server->login != NULL, server->conn.state, server->conn.paused,
			        (unsigned)server->conn.in_flight, server->closed,
			        server->has_credit, server->track.count, server->reason);
}

/* No client is left, and nothing of any. */
static void clients_are_gone(struct worker *worker)
{
	uint32_t i = worker->index;
	if (worker->clients.used > 0)
		worker_each_pool (worker, pool)
			pool_print(pool);
	SIM_CHECK(worker->clients.used == 0,
	          "worker %u: %u clients left: %u in login, %u in cancel, %u closing", i,
	          worker->clients.used, worker->logins.count, worker->cancels.count,
	          worker->closing.count);
	SIM_CHECK(worker->helds.used == 0, "worker %u: %u held pieces left", i, worker->helds.used);
	SIM_CHECK(worker->jobs.used == 0, "worker %u: %u cancels left", i, worker->jobs.used);
	SIM_CHECK(atomic_load(&worker->client_count) == 0, "worker %u counts %u clients", i,
	          atomic_load(&worker->client_count));
	for (int group = 0; group < RING_GROUP_COUNT; group++)
		SIM_CHECK(worker->loop.bufs.lent[group] == 0,
		          "worker %u: %u buffers of group %d lent", i,
		          worker->loop.bufs.lent[group], group);
	SIM_CHECK(ring_lent(world.rings[i]) == 0, "worker %u: the ring misses %u buffers", i,
	          ring_lent(world.rings[i]));
	worker_each_pool (worker, pool) {
		SIM_CHECK(pool->waiting.count == 0 && pool->active.count == 0,
		          "worker %u: clients left in a pool", i);
		SIM_CHECK(pool->remote_ticket == 0, "worker %u believes that somebody waits", i);
		uint32_t resting = pool->servers[SERVER_IDLE].count +
		                   pool->servers[SERVER_USED].count;
		SIM_CHECK(waits_long || resting == pool_server_count(pool),
		          "worker %u: %u servers, of which %u rest", i, pool_server_count(pool),
		          resting);
	}
}

/* No client and no server is left, and no statement of any. */
static void statements_are_gone(void)
{
	for (uint32_t i = 0; i < process.worker_count; i++) {
		const struct statements *all = &workers[i].statements;
		uint64_t memory = all->room * sizeof all->buckets[0];
		SIM_CHECK(all->count == 0, "worker %u: %u statements left", i, all->count);
		SIM_CHECK(all->memory == memory, "worker %u: %llu bytes of statements left", i,
		          (unsigned long long)(all->memory - memory));
	}
}

static uint32_t servers_there_are(void)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < process.worker_count; i++)
		count += workers[i].servers.used;
	return count;
}

static uint32_t credits_taken(void)
{
	uint32_t count, sum = 0;
	struct pool_record **pools = registry_pools(&process.registry, &count);
	for (uint32_t i = 0; i < count; i++) {
		sum += account_used(&pools[i]->account);
	}
	free((void *)pools);
	return sum;
}

static void accounts_are_zero(void)
{
	SIM_CHECK(credits_taken() == 0, "%u credits of pools are lost", credits_taken());
	for (struct database *database = process.registry.databases; database != NULL;
	     database = database->next) {
		SIM_CHECK(account_used(&database->account) == 0,
		          "%u credits of database %s are lost", account_used(&database->account),
		          database->name);
		SIM_CHECK(database->clients == 0, "database %s counts %u clients", database->name,
		          database->clients);
	}
	for (struct user *user = process.registry.users; user != NULL; user = user->next) {
		SIM_CHECK(account_used(&user->account) == 0, "%u credits of user %s are lost",
		          account_used(&user->account), user->name);
		SIM_CHECK(user->clients == 0, "user %s counts %u clients", user->name,
		          user->clients);
	}
	SIM_CHECK(process.clients == 0, "%u clients counted", process.clients);
}

static bool all_is_quiet(void)
{
	bool quiet = files_open(FILE_SOCK) == servers_there_are();
	for (uint32_t i = 0; i < process.worker_count; i++)
		quiet = quiet && workers[i].clients.used == 0;
	return quiet;
}

static void core_print(void)
{
	for (uint32_t i = 0; i < process.worker_count; i++)
		worker_each_pool (&workers[i], pool)
			pool_print(pool);
}

static void core_settle(struct postgres *postgres)
{
	drive_run_for(&drive_core, waits_long ? 200000000 : 5000000);
	if (!all_is_quiet())
		core_print();
	for (uint32_t i = 0; i < process.worker_count; i++)
		clients_are_gone(&workers[i]);
	SIM_CHECK(credits_taken() == servers_there_are(), "%u credits for %u servers",
	          credits_taken(), servers_there_are());
	SIM_CHECK(files_open(FILE_SOCK) == servers_there_are(), "%u sockets for %u servers",
	          files_open(FILE_SOCK), servers_there_are());
	drive_run_for(&drive_core, 2 * (uint64_t)SERVER_IDLE_US);
	SIM_CHECK(servers_there_are() == 0, "%u servers do not idle out", servers_there_are());
	SIM_CHECK(postgres_backends(postgres) == 0, "%u backends left",
	          postgres_backends(postgres));
	accounts_are_zero();
	statements_are_gone();
	command_send(COMMAND_STOP);
	drive_run_for(&drive_core, 2000000);
}

static void core_close(void)
{
	for (uint32_t i = 0; i < process.worker_count; i++) {
		SIM_CHECK(workers[i].stopped, "worker %u does not stop", i);
		worker_close(&workers[i]);
		mailbox_close(&workers[i].mailbox);
	}
	SIM_CHECK(files_open(FILE_SOCK) + files_open(FILE_DOOR) + files_open(FILE_BELL) == 0,
	          "descriptors left");
	registry_fini(&process.registry);
	sys_pages_free(process.cancels, cancel_table_size(CANCEL_KEYS));
	config_drop(process.config);
	free(workers);
}

const struct drive drive_core = {
	"core", core_open, core_step, drive_next_us, core_settle, core_close, core_print,
};

#endif
