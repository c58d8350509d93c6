/*
 * server_open.c - where a server connection leads to.
 *
 * One host of the entry's list per connection, in turn (the home counts).  A
 * literal address or a unix socket is used as it is; a name goes to the helper
 * thread, since looking it up blocks.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/client.h"
#include "core/config.h"
#include "core/home.h"
#include "core/log.h"
#include "core/post.h"
#include "core/process.h"
#include "core/server.h"
#include "core/server_login.h"
#include "core/sockets.h"
#include "core/worker.h"
#include "net/resolve.h"
#include "net/sys.h"

/* A look-up under way; the server is not freed before it has come back. */
struct server_lookup {
	struct resolve_request request;
	struct process *process;
	struct server *server;
	uint32_t worker;
	uint32_t turn;
};

static void login_timeout(struct timer *timer)
{
	struct server *server = CONTAINER(struct server, timer, timer);
	bool connecting = server->local.family == 0;
	server_login_failed(server, "", connecting ? "connect failed" : "connect timeout",
	                    connecting ? "connect failed" : "connect timeout");
}

static void server_connect(struct server *server)
{
	int result = conn_connect(&server->conn, &server->worker->loop, &server->address,
	                          RING_GROUP_SERVER, &server_events);
	if (result < 0) {
		server_log(server, LOG_LEVEL_ERROR, "no socket: %s", text_of_error(-result));
		server_login_failed(server, "", "connect failed", "connect failed");
		return;
	}
	struct sys_tcp tcp = sockets_tcp(&server->worker->config->settings);
	sys_tcp_options(server->conn.fd, &tcp);
}

/* In the helper thread. */
static void lookup_done(struct resolve_request *request)
{
	struct server_lookup *lookup = CONTAINER(struct server_lookup, request, request);
	struct post *post = post_new(POST_RESOLVED, WORKERS_MAX);
	post->resolved.lookup = lookup;
	post_send(lookup->process, lookup->worker, post);
}

static void server_look_up(struct server *server, const char *host, uint16_t port, uint32_t turn)
{
	struct server_lookup *lookup = calloc(1, sizeof *lookup);
	if (lookup == NULL || strlen(host) >= sizeof lookup->request.host) {
		free(lookup);
		server_login_failed(server, "", "server DNS lookup failed",
		                    "server DNS lookup failed");
		return;
	}
	memcpy(lookup->request.host, host, strlen(host) + 1);
	lookup->request.port = port;
	lookup->request.on_done = lookup_done;
	lookup->process = server->worker->process;
	lookup->server = server;
	lookup->worker = server->worker->index;
	lookup->turn = turn;
	server->resolving = true;
	resolve_submit(&lookup->request);
}

void server_resolved(struct worker *worker, struct post *post)
{
	struct server_lookup *lookup = post->resolved.lookup;
	struct server *server = lookup->server;
	CHECK(server->worker == worker && server->resolving);
	server->resolving = false;
	if (server->state == SERVER_CLOSING) {
		server_ended(server);
	} else if (lookup->request.result != 0 || lookup->request.count == 0) {
		server_log(server, LOG_LEVEL_WARNING, "DNS lookup failed: %s: result=%d",
		           lookup->request.host, lookup->request.result);
		server_login_failed(server, "", "server DNS lookup failed",
		                    "server DNS lookup failed");
	} else {
		server->address = lookup->request.addresses[lookup->turn % lookup->request.count];
		server_connect(server);
	}
	free(lookup);
}

/* Element number `turn` of a comma-separated list. */
static void host_choose(const char *list, uint32_t turn, char *host, size_t room)
{
	uint32_t count = 1;
	for (const char *c = list; *c != '\0'; c++)
		count += *c == ',';
	for (uint32_t skip = turn % count; skip > 0; skip--)
		list += strcspn(list, ",") + 1;
	list += strspn(list, " ");
	size_t size = strcspn(list, ", ");
	text_format(host, room, "%.*s", (int)size, list);
}

static void server_find_way(struct server *server, uint32_t turn)
{
	const struct config *config = server->worker->config;
	const struct database_entry *entry = config_entry_for(config,
	                                                      server->pool->record->database->name);
	if (entry == NULL) { /* not a failure of the server */
		server_close(server, "database removed");
		return;
	}
	char host[256];
	const char *list = entry->host != NULL ? entry->host : config->settings.unix_socket_dir;
	host_choose(list != NULL && *list != '\0' ? list : "/tmp", turn, host, sizeof host);
	uint16_t port = (uint16_t)entry->port;
	bool is_unix = host[0] == '/' || host[0] == '@';
	if (is_unix ? addr_unix(&server->address, host, port)
	            : addr_literal(&server->address, host, port))
		server_connect(server);
	else if (is_unix)
		server_login_failed(server, "", "connect failed", "unix socket path too long");
	else
		server_look_up(server, host, port, turn);
}

void server_open(struct pool *pool, uint32_t host_turn)
{
	struct worker *worker = pool->worker;
	struct pool_record *record = pool->record;
	struct server *server = worker->stopping ? NULL : server_new(pool);
	if (server == NULL || !server_login_new(server)) {
		if (server != NULL) {
			server->closed = true;
			server_close(server, "out of memory");
		}
		ledger_give(&record->user->account, &record->database->account, &record->account);
		pool->received++;
		home_tell(pool, POST_FAILED);
		return;
	}
	server->has_credit = true;
	server->id = atomic_fetch_add(&worker->process->next_id, 1) + 1;
	server->timer.fire = login_timeout;
	uint64_t limit = worker->config->settings.server_connect_timeout;
	if (limit != 0)
		wheel_arm(&worker->loop.wheel, &server->timer, worker->loop.now_us + limit);
	server_find_way(server, host_turn);
}
