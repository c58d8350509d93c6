/*
 * login.c - see login.h.
 *
 * STARTUP: first packets, until a startup message has come whole.  AUTH: 'p'
 * messages, each given to the method.  Nothing that a client sends before it
 * is logged in is kept beyond STARTUP_SIZE_MAX or LOGIN_MESSAGE_MAX bytes.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/auth/login.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/admin/console.h"
#include "core/auth/auth.h"
#include "core/auth/parameters.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/cancels.h"
#include "core/client.h"
#include "core/derive.h"
#include "core/log.h"
#include "core/place.h"
#include "core/pool.h"
#include "core/process.h"
#include "core/welcome.h"
#include "core/worker.h"
#include "net/conn.h"
#include "net/sys.h"
#include "proto/scan.h"
#include "proto/startup.h"
#include "proto/write.h"

enum { ANSWER_MAX = 4096 + 64, REQUEST_MAX = 128 };

bool login_begin(struct client *client)
{
	/* not calloc(), which goes past the thread's cache */
	client->login = malloc(sizeof *client->login);
	if (client->login == NULL)
		return false;
	*client->login = (struct login){0};
	return true;
}

void login_free(struct client *client)
{
	struct login *login = client->login;
	if (login == NULL)
		return;
	client->login = NULL;
	if (login->bytes != NULL)
		bytes_wipe(login->bytes, login->room);
	free(login->bytes);
	if (login->config != NULL)
		config_drop(login->config);
	if (login->job != NULL)
		derive_drop(login->job);
	free(login->verifier);
	free(login->scram);
	bytes_wipe(login, sizeof *login);
	free(login);
}

const char *login_user(const struct client *client)
{
	return client->login != NULL && client->login->user[0] ? client->login->user : NULL;
}

const char *login_database(const struct client *client)
{
	return client->login != NULL && client->login->database[0] ? client->login->database : NULL;
}

bool login_is_silent(const struct client *client)
{
	return client->login != NULL && client->login->size == 0 && !client->login->saw_ssl;
}

/* True: the connection may go on.  `entry` is of its user, if that is known. */
static bool check_limits(struct client *client, const struct user_entry *entry)
{
	struct process *process = client->worker->process;
	const struct config *config = client->worker->config;
	const struct login *login = client->login;
	bool is_console = client->database != NULL && client->database->is_console;
	uint32_t clients = atomic_load_explicit(&process->clients, memory_order_relaxed);
	if (!is_console && clients > (uint32_t)MAX(config->settings.max_client_conn, 0)) {
		client_fail(client, NULL, "no more connections allowed (max_client_conn)");
		return false;
	}
	bool exempt = is_console && config_list_has(config->settings.admin_users, login->user);
	if (client->database != NULL) {
		uint32_t limit = database_client_limit(config, client->database);
		client->counted_database = true;
		if (atomic_fetch_add(&client->database->clients, 1) >= limit && !exempt) {
			client_fail(client, NULL,
			            "client connections exceeded (max_db_client_connections)");
			return false;
		}
	}
	if (client->user != NULL) {
		uint32_t limit = user_client_limit(config, entry);
		client->counted_user = true;
		if (atomic_fetch_add(&client->user->clients, 1) >= limit && !exempt) {
			client_fail(client, NULL,
			            "client connections exceeded (max_user_client_connections)");
			return false;
		}
	}
	return true;
}

/* Who may use the console at all (pgbouncer.md 3.12); false: was refused. */
static bool check_console(struct client *client)
{
	const struct settings *settings = &client->worker->config->settings;
	struct login *login = client->login;
	uid_t uid;
	pid_t pid;
	if (client->database == NULL || !client->database->is_console)
		return true;
	if (client->is_unix && strcmp(login->user, "pgbouncer") == 0 &&
	    sys_peer_process(client->conn.fd, &uid, &pid) == 0 && uid == getuid()) {
		client_log(client, LOG_LEVEL_LOG, "pgbouncer access from unix socket");
		client->is_admin = login->trusted = true;
		return true;
	}
	client->is_admin = config_list_has(settings->admin_users, login->user);
	client->is_stats = config_list_has(settings->stats_users, login->user);
	if (settings->auth_type == AUTH_ANY && !client->is_admin)
		client->is_stats = true;
	if (!client->is_admin && !client->is_stats) {
		client_fail(client, NULL, "not allowed");
		return false;
	}
	return true;
}

/* To this worker's snapshot, as what a client gets (user, limits, servers) comes of its
 * entry there.  The registry is ahead of it while a RELOAD is under way. */
static bool is_known(const struct client *client, const char *database)
{
	bool is_console = client->database != NULL && client->database->is_console;
	return is_console || config_entry_for(client->worker->config, database) != NULL;
}

/* Nothing is made here that a stranger could make us keep: a database from `*`
 * comes into being when somebody has logged in.  Returns the user's entry, or NULL. */
static const struct user_entry *find_names(struct client *client)
{
	struct worker *worker = client->worker;
	struct registry *registry = &worker->process->registry;
	struct config *config = worker->config;
	struct login *login = client->login;
	bool made;
	client->database = registry_find_database(registry, login->database);
	if (client->database == NULL && config_find_database(config, login->database) != NULL)
		client->database = registry_database(registry, config, login->database, &made);
	login->knows_database = is_known(client, login->database);
	const struct user_entry *entry = config_find_user(config, login->user);
	bool any = config->settings.auth_type == AUTH_ANY;
	bool known = entry != NULL && (entry->in_auth_file || entry->secret != NULL);
	if (known)
		client->user = registry_user(registry, config, login->user);
	if (known) {
		config_hold(config);
		login->config = config;
		login->secret = entry->secret;
		login->secret_kind = entry->secret_kind;
	}
	login->is_mock = !known && !any;
	return entry;
}

static void auth_answer(struct client *client, enum auth_step step, const struct writer *out,
                        const char *failure)
{
	if (out->failed) {
		client_fail(client, NULL, failure);
		return;
	}
	if (step == AUTH_FAILED) {
		client_fail(client, NULL, failure);
		return;
	}
	if (out->size > 0)
		conn_send_copy(&client->conn, out->data, out->size);
	if (step == AUTH_OK)
		login_succeeded(client);
}

static void auth_begin(struct client *client)
{
	struct login *login = client->login;
	uint8_t packet[ANSWER_MAX];
	struct writer out = writer_over(packet, sizeof packet);
	client_move(client, CLIENT_AUTH);
	if (login->trusted) {
		login_succeeded(client);
		return;
	}
	enum auth_type type = (enum auth_type)client->worker->config->settings.auth_type;
	login->method = auth_method(type, login->secret_kind);
	if (login->method == NULL) {
		client_fail(client, NULL, "bouncer config error");
		return;
	}
	enum auth_step step = login->method->begin(client, &out);
	auth_answer(client, step, &out, login->method->failure);
}

/* The startup message is understood: the checks in their order. */
static void startup_done(struct client *client)
{
	const struct settings *settings = &client->worker->config->settings;
	struct login *login = client->login;
	const struct user_entry *entry = find_names(client);
	if (settings->log_connections)
		client_log(client, LOG_LEVEL_LOG,
		           "login attempt: db=%s user=%s tls=no replication=no", login->database,
		           login->user);
	if (!check_limits(client, entry) || !check_console(client))
		return;
	auth_begin(client);
}

/* SSLRequest or GSSENCRequest: there is neither, and nothing may lie behind it
 * that was sent in the hope of encryption. */
static void refuse_encryption(struct client *client, bool *seen, const char *text)
{
	struct login *login = client->login;
	if (login->size > 8) {
		client_fail(client, NULL, text);
		return;
	}
	if (*seen) {
		client_fail_header(client, span_of(client->login->bytes, client->login->size));
		return;
	}
	*seen = true;
	login->size = 0;
	conn_send_copy(&client->conn, "N", 1);
}

static void startup_step(struct client *client)
{
	struct login *login = client->login;
	struct startup startup = startup_read(span_of(login->bytes, login->size));
	switch (startup.kind) {
	case STARTUP_MORE: return;
	case STARTUP_SSL:
		refuse_encryption(client, &login->saw_ssl,
		                  "received unencrypted data after SSL request");
		return;
	case STARTUP_GSSENC:
		refuse_encryption(client, &login->saw_gss,
		                  "received unencrypted data after GSSAPI encryption request");
		return;
	case STARTUP_CANCEL: cancel_requested(client, startup.key); return;
	case STARTUP_V2: client_fail(client, NULL, "old V2 protocol not supported"); return;
	case STARTUP_LAYOUT:
		client_fail(client, NULL,
		            "invalid startup packet layout: expected terminator as last byte");
		return;
	case STARTUP_V3: break;
	case STARTUP_TLS:
	case STARTUP_BAD:
		client_fail_header(client, span_of(client->login->bytes, client->login->size));
		return;
	}
	if (!parameters_read(client, &startup))
		return; /* refused */
	uint32_t rest = login->size - startup.size;
	memmove(login->bytes, login->bytes + startup.size, rest);
	login->size = rest;
	startup_done(client);
}

/* One message of the exchange, if it is whole.  False: wait, or it is over. */
static bool auth_message(struct client *client)
{
	struct login *login = client->login;
	if (login->job != NULL || login->size < SCAN_HEADER_SIZE)
		return false;
	uint32_t length = read_u32(login->bytes + 1);
	if (login->bytes[0] != 'p' || length < 4 || length > LOGIN_MESSAGE_MAX) {
		client_close(client, "bad packet");
		return false;
	}
	if (login->size - 1 < length)
		return false;
	uint8_t packet[ANSWER_MAX];
	struct writer out = writer_over(packet, sizeof packet);
	const char *failure = login->method->failure;
	struct span answer = span_of(login->bytes + SCAN_HEADER_SIZE, length - 4);
	enum auth_step step = login->method->step(client, answer, &out, &failure);
	uint32_t rest = login->size - 1 - length;
	bytes_wipe(login->bytes, 1 + length);
	memmove(login->bytes, login->bytes + 1 + length, rest);
	login->size = rest;
	auth_answer(client, step, &out, failure);
	return client->state == CLIENT_AUTH;
}

void login_derived(void *owner, struct derive_job *job)
{
	struct client *client = owner;
	struct login *login = client->login;
	uint8_t packet[REQUEST_MAX];
	struct writer out = writer_over(packet, sizeof packet);
	login->job = NULL;
	if (client->state != CLIENT_AUTH)
		return;
	enum auth_step step = job->failed ? AUTH_FAILED : login->method->derived(client, job, &out);
	auth_answer(client, step, &out, login->method->failure);
	while (client->state == CLIENT_AUTH && auth_message(client))
		;
}

static bool login_keep(struct login *login, const uint8_t *bytes, uint32_t size)
{
	if (size > login->room - login->size) {
		uint32_t room = MAX(256U, (login->size + size) * 2);
		uint8_t *more = malloc(room);
		if (more == NULL)
			return false;
		if (login->size > 0) {
			memcpy(more, login->bytes, login->size);
			bytes_wipe(login->bytes, login->size);
		}
		free(login->bytes);
		login->bytes = more;
		login->room = room;
	}
	memcpy(login->bytes + login->size, bytes, size);
	login->size += size;
	return true;
}

void login_bytes(struct client *client, const uint8_t *bytes, uint32_t size)
{
	if (client->state == CLIENT_WELCOME) {
		client_hold(client, bytes, size);
		return;
	}
	struct login *login = client->login;
	if (size > LOGIN_MESSAGE_MAX + SCAN_HEADER_SIZE - MIN(login->size, LOGIN_MESSAGE_MAX)) {
		client_close(client, "bad packet");
		return;
	}
	if (!login_keep(login, bytes, size)) {
		client_fail(client, "53200", "out of memory");
		return;
	}
	if (client->state == CLIENT_STARTUP)
		startup_step(client);
	while (client->state == CLIENT_AUTH && auth_message(client))
		;
}

/* Which user's servers serve this client: the forced one, or itself. */
static struct user *pool_user(struct client *client)
{
	struct worker *worker = client->worker;
	const struct database_entry *entry = config_entry_for(worker->config,
	                                                      client->database->name);
	bool is_forced = entry != NULL && entry->user != NULL;
	if (is_forced && strcmp(entry->user, client->user->name) != 0)
		return registry_user(&worker->process->registry, worker->config, entry->user);
	return is_forced || worker->config->settings.auth_type != AUTH_ANY ? client->user : NULL;
}

/* What find_names() left out.  False: there are too many already. */
static bool find_late(struct client *client)
{
	struct worker *worker = client->worker;
	struct registry *registry = &worker->process->registry;
	struct login *login = client->login;
	bool made = false;
	if (client->user == NULL) {
		client->user = registry_user(registry, worker->config, login->user);
		client->counted_user = client->user != NULL;
		if (client->counted_user)
			atomic_fetch_add(&client->user->clients, 1);
	}
	if (client->database == NULL) {
		client->database = registry_database(registry, worker->config, login->database,
		                                     &made);
		client->counted_database = client->database != NULL;
		if (client->counted_database)
			atomic_fetch_add(&client->database->clients, 1);
	}
	if (made)
		client_log(client, LOG_LEVEL_LOG, "registered new auto-database: %s",
		           login->database);
	return client->user != NULL && client->database != NULL;
}

static void keep_keys(struct client *client, struct pool_record *record)
{
	struct login *login = client->login;
	if (!login->has_keys || record->user != client->user ||
	    strlen(login->secret) >= sizeof record->keys_secret)
		return;
	pthread_mutex_lock(&record->mutex);
	record->keys = login->keys;
	record->has_keys = true;
	memcpy(record->keys_secret, login->secret, strlen(login->secret) + 1);
	pthread_mutex_unlock(&record->mutex);
}

void login_succeeded(struct client *client)
{
	struct worker *worker = client->worker;
	struct login *login = client->login;
	char text[REASON_MAX + 1];
	if (!login->knows_database || !is_known(client, login->database)) {
		text_format(text, sizeof text, "no such database: %s", login->database);
		client_log(client, LOG_LEVEL_LOG, "login failed: db=%s user=%s", login->database,
		           login->user);
		client_fail(client, NULL, text);
		return;
	}
	if (!find_late(client)) {
		client_fail(client, NULL, "bouncer config error");
		return;
	}
	if (client->database->is_console) {
		console_begin(client);
		return;
	}
	if (atomic_load(&client->database->disabled)) {
		text_format(text, sizeof text, "database \"%s\" is disabled",
		            client->database->name);
		client_fail(client, NULL, text);
		return;
	}
	if (atomic_load(&worker->process->shutdown) != SHUTDOWN_NONE) {
		client_fail(client, NULL, "pooler is shutting down");
		return;
	}
	struct user *user = pool_user(client);
	if (user == NULL)
		client_log(client, LOG_LEVEL_ERROR, "auth_type=any requires forced user");
	struct pool_record *record = user == NULL ? NULL
	                                          : registry_pool(&worker->process->registry,
	                                                          worker->config, client->database,
	                                                          user);
	if (record == NULL) {
		client_fail(client, NULL, "bouncer config error");
		return;
	}
	keep_keys(client, record);
	uint32_t place = place_find(worker, record);
	if (place != worker->index) {
		place_move(client, record, place);
		return;
	}
	place_take(record, place);
	login_enter(client, record);
}

void login_enter(struct client *client, struct pool_record *record)
{
	client->pool = pool_get(client->worker, record);
	if (client->pool == NULL) {
		place_leave(record, client->worker->index);
		client_fail(client, NULL, "bouncer config error");
		return;
	}
	if (pool_is_removed(client->pool)) { /* while it was on its way here */
		client_fail(client, NULL, "database removed");
		return;
	}
	client->pool->counters.client_login_count++;
	client_move(client, CLIENT_WELCOME);
	/* it was quick: what it says from now on is held behind that */
	client_hold(client, client->login->bytes, client->login->size);
	if (client->state == CLIENT_CLOSING)
		return;
	const struct welcome *welcome = atomic_load_explicit(&record->welcome,
	                                                     memory_order_acquire);
	if (welcome != NULL)
		client_welcome(client, welcome);
	else
		pool_wait_welcome(client->pool, client);
}
