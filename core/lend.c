/*
 * lend.c - see lend.h.
 *
 * The home is told that the server is on its way when it leaves the idle list;
 * should it break before its last operation has come back, that is taken back.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/lend.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/home.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/server.h"
#include "core/worker.h"
#include "net/sys.h"

struct lent_server {
	int fd;
	uint32_t epoch;
	uint64_t id, connect_us, request_us;
	struct addr address;
	struct addr_short local;
	uint8_t key[CANCEL_KEY_SHORT];
	bool forced;
	char *values[VARS_MAX], *login_values[VARS_MAX];
	struct lent_statement *statements; /* the least recently used first */
};

/* A text that is prepared on it; known anew by the receiver. */
struct lent_statement {
	struct lent_statement *next;
	uint32_t fresh, size;
	uint8_t body[];
};

/* What is prepared goes along.  False without memory. */
static bool statements_lend(struct server *server, struct lent_server *lent)
{
	struct lent_statement **end = &lent->statements;
	list_each (struct prepared, prepared, link, &server->cache.lru) {
		const struct statement *statement = prepared->statement;
		struct lent_statement *one = malloc(sizeof *one + statement->size);
		if (one == NULL)
			return false;
		*one = (struct lent_statement){.fresh = prepared->fresh, .size = statement->size};
		memcpy(one->body, statement->body, statement->size);
		*end = one;
		end = &one->next;
	}
	return true;
}

static bool statements_revive(struct server *server, const struct lent_server *lent)
{
	struct statements *all = &server->worker->statements;
	for (const struct lent_statement *one = lent->statements; one != NULL; one = one->next) {
		struct statement *statement = statement_acquire(all, span_of(one->body, one->size));
		if (statement == NULL)
			return false;
		bool set = cache_set(all, &server->cache, &server->journal, statement, true, 0);
		if (set)
			cache_find(&server->cache, statement)->fresh = one->fresh;
		statement_release(all, statement);
		if (!set)
			return false;
	}
	journal_commit(all, &server->journal, NULL, &server->cache, 1);
	return true;
}

static void lent_free(struct lent_server *lent)
{
	for (uint32_t i = 0; i < VARS_MAX; i++) {
		free(lent->values[i]);
		free(lent->login_values[i]);
	}
	while (lent->statements != NULL) {
		struct lent_statement *one = lent->statements;
		lent->statements = one->next;
		free(one);
	}
	free(lent);
}

void lend_server(struct server *server, uint32_t to)
{
	struct pool *pool = server->pool;
	CHECK(server->state == SERVER_IDLE && to != pool->worker->index);
	server_move(server, SERVER_LENDING);
	server->lent_to = to;
	conn_detach(&server->conn);
}

void lend_detached(struct server *server)
{
	struct worker *worker = server->worker;
	if (server->state != SERVER_LENDING) {
		conn_reattach(&server->conn);
		return;
	}
	struct lent_server *lent = calloc(1, sizeof *lent);
	CHECK(lent != NULL);
	bool fit = !server->close_needed && server_is_fit(server) && statements_lend(server, lent);
	if (!fit) {
		lent_free(lent);
		conn_reattach(&server->conn);
		server_close(server, "idle server got dirty");
		return;
	}
	lent->epoch = server->epoch;
	lent->id = server->id;
	lent->connect_us = server->connect_us;
	lent->request_us = server->request_us;
	lent->address = server->address;
	lent->local = server->local;
	lent->forced = server->forced;
	memcpy(lent->key, server->key, sizeof lent->key);
	for (uint32_t i = 0; i < VARS_MAX; i++) {
		if (server->vars.values[i] != NULL)
			lent->values[i] = strdup(server->vars.values[i]->text);
		if (server->login_vars.values[i] != NULL)
			lent->login_values[i] = strdup(server->login_vars.values[i]->text);
	}
	lent->fd = conn_release(&server->conn);
	worker->lent++;
	struct post *post = post_new(POST_LEND, worker->index);
	post->pool = server->pool->record;
	post->lend.server = lent;
	post->lend.sender = server;
	post_send(worker->process, server->lent_to, post);
}

void lend_broken(struct server *server)
{
	struct post *post = home_report(server->pool, POST_GAVE);
	post->give.to = server->lent_to;
	post->give.lost = true;
	post_send(server->worker->process, server->pool->record->home, post);
}

static struct server *lent_revive(struct worker *worker, struct pool *pool,
                                  struct lent_server *lent)
{
	struct server *server = server_new(pool);
	if (server == NULL)
		return NULL;
	server->id = lent->id;
	server->connect_us = lent->connect_us;
	server->request_us = lent->request_us;
	server->epoch = lent->epoch;
	server->address = lent->address;
	server->local = lent->local;
	server->forced = lent->forced;
	memcpy(server->key, lent->key, sizeof server->key);
	server->logged_in = server->login_told = true;
	CHECK(track_reply(&server->track, 'Z', 'I') == VERDICT_FORWARD);
	for (uint32_t i = 0; i < VARS_MAX; i++) {
		if (lent->values[i] != NULL)
			vars_set(&worker->words, &server->vars, i, lent->values[i]);
		if (server->vars.values[i] != NULL)
			server->vars.values[i]->proven |= 1U << i;
		if (lent->login_values[i] != NULL)
			vars_set(&worker->words, &server->login_vars, i, lent->login_values[i]);
	}
	if (!conn_accept(&server->conn, &worker->loop, lent->fd, RING_GROUP_SERVER, &server_events,
	                 false)) {
		server->closed = true;
		server_close(server, "out of memory");
		return NULL;
	}
	server->has_credit = true;
	if (!statements_revive(server, lent))
		server->close_needed = true; /* it has more than is known */
	return server;
}

void lend_receive(struct worker *worker, struct post *post)
{
	struct pool_record *record = post->pool;
	struct lent_server *lent = post->lend.server;
	struct pool *pool = pool_get(worker, record);
	if (pool != NULL)
		pool->received++;
	struct server *server = pool != NULL ? lent_revive(worker, pool, lent) : NULL;
	struct post *done = post_new(POST_LEND_DONE, worker->index);
	done->lend.sender = post->lend.sender;
	post_send(worker->process, post->from, done);
	if (server == NULL) {
		sys_close(lent->fd);
		ledger_give(&record->user->account, &record->database->account, &record->account);
	}
	lent_free(lent);
	if (server == NULL)
		return;
	worker->borrowed++;
	if (worker->stopping)
		server_close(server, "shutdown");
	else if (server->close_needed)
		server_close(server, "out of memory");
	else
		pool_offer(pool, server);
	home_demand(pool); /* whoever waits now has a later ticket */
}

void lend_acknowledged(struct worker *worker, struct post *post)
{
	struct server *server = post->lend.sender;
	CHECK(server->worker == worker && server->state == SERVER_LENDING);
	server->has_credit = false; /* it went along */
	server->closed = true;
	server_move(server, SERVER_CLOSING);
	server_ended(server);
}
