/*
 * config.h - an immutable snapshot of everything an operator configures.
 *
 * config_load() builds a whole snapshot from clean defaults: the main file with
 * its includes, [databases], [users], [peers], and the auth_file.  It is
 * checked whole; on any error there is no snapshot and nothing has changed.
 * The one in force is published by control and switched to by each worker
 * between two turns; it lives as long as somebody holds it.
 *
 * A setting is one row of settings.def: member, default, range, whether RELOAD
 * changes it, SET, SHOW CONFIG and the manual come from the row.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CONFIG_H
#define CORE_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum pool_mode { POOL_MODE_UNSET = -1, POOL_SESSION, POOL_TRANSACTION, POOL_STATEMENT };

enum auth_type {
	AUTH_ANY,
	AUTH_TRUST,
	AUTH_PLAIN,
	AUTH_MD5,
	AUTH_CERT,
	AUTH_HBA,
	AUTH_LDAP,
	AUTH_PAM,
	AUTH_SCRAM,
};

enum ssl_mode {
	SSL_DISABLE,
	SSL_ALLOW,
	SSL_PREFER,
	SSL_REQUIRE,
	SSL_VERIFY_CA,
	SSL_VERIFY_FULL,
};

/* Values of settings, by kind: INT int32_t, UINT uint32_t, BOOL bool, TIME
 * uint64_t in microseconds, ENUM int, TEXT and LIST const char * (NULL: unset,
 * shown as SQL NULL). */
struct settings {
#define SETTING_INT(name, ...)   int32_t name;
#define SETTING_UINT(name, ...)  uint32_t name;
#define SETTING_BOOL(name, ...)  bool name;
#define SETTING_TIME(name, ...)  uint64_t name;
#define SETTING_ENUM(name, ...)  int name;
#define SETTING_TEXT(name, ...)  const char *name;
#define SETTING(kind, name, ...) SETTING_##kind(name)
#include "core/settings.def"
#undef SETTING_INT
#undef SETTING_UINT
#undef SETTING_BOOL
#undef SETTING_TIME
#undef SETTING_ENUM
#undef SETTING_TEXT
};

enum load_balance { LOAD_BALANCE_ROUND_ROBIN, LOAD_BALANCE_DISABLE };

/* One entry of [databases]; texts are NULL and numbers -1 where not given. */
struct database_entry {
	const char *name;
	const char *dbname; /* never NULL, but in `*`: there NULL means the name asked for */
	const char *host;   /* NULL: unix socket in unix_socket_dir */
	int32_t port;
	const char *user, *password;
	const char *auth_user, *auth_query, *auth_dbname;
	int32_t pool_size, min_pool_size, reserve_pool_size;
	const char *connect_query;
	enum pool_mode pool_mode;
	int64_t query_wait_timeout; /* us; -1 not given */
	enum load_balance load_balance_hosts;
	int32_t max_db_connections, max_db_client_connections;
	int64_t server_lifetime; /* us; -1 not given */
	const char *client_encoding, *datestyle, *timezone, *application_name;
};

enum secret_kind { SECRET_NONE, SECRET_PLAIN, SECRET_MD5, SECRET_SCRAM };

/* What is known of one name from [users] and the auth_file together. */
struct user_entry {
	const char *name;
	const char *secret; /* NULL: none */
	enum secret_kind secret_kind;
	bool in_auth_file;
	enum pool_mode pool_mode;
	int32_t pool_size, reserve_pool_size;
	int32_t max_user_connections, max_user_client_connections;
	/* microseconds; -1 not given */
	int64_t query_timeout, idle_transaction_timeout, transaction_timeout;
	int64_t client_idle_timeout, query_wait_timeout;
};

struct peer_entry {
	int32_t id;
	const char *host;
	int32_t port, pool_size;
};

struct config {
	struct settings settings;
	const char *path; /* of the main file */

	/* Sorted by name in byte order; `*` is not among them. */
	struct database_entry *databases;
	uint32_t database_count;
	const struct database_entry *autodb; /* the `*` entry, or NULL */
	struct user_entry *users;
	uint32_t user_count;
	struct peer_entry *peers;
	uint32_t peer_count;

	atomic_uint holders;
	struct config_memory *memory; /* all texts and arrays */
};

/* Lines for the operator, in order: "file:line: reason" wherever there is a
 * place.  What PgBouncer's users grep for is kept (pgbouncer.md 2.3). */
struct config_report {
	void (*line)(void *context, bool is_error, const char *text);
	void *context;
};

/* NULL on error; errors and warnings were reported.  `previous` (may be NULL)
 * supplies the values of settings that RELOAD may not change; each that differs
 * in the file is warned about once. */
struct config *config_load(const char *path, const struct config *previous,
                           const struct config_report *report);

/* A snapshot of defaults only, for tests and the simulator; texts that are set
 * in it must outlive it. */
struct config *config_default(void);

/* Adds an entry to a config_default() snapshot, by copy of the struct. */
void config_add_database(struct config *config, const struct database_entry *entry);
void config_add_user(struct config *config, const struct user_entry *entry);

/* All fields as not given. */
void database_entry_init(struct database_entry *entry, const char *name);
void user_entry_init(struct user_entry *entry, const char *name);

void config_hold(struct config *config);
void config_drop(struct config *config);

/* NULL if there is none. */
const struct database_entry *config_find_database(const struct config *config, const char *name);
/* The entry that serves a database name: its own or that of `*`; NULL: none. */
const struct database_entry *config_entry_for(const struct config *config, const char *name);
const struct user_entry *config_find_user(const struct config *config, const char *name);

/* Whether a comma or space separated list names `word` (pgbouncer.md 2.2). */
bool config_list_has(const char *list, const char *word);

/* Whether the file or SET gave the setting a value; `key` must exist. */
bool config_is_set(const struct config *config, const char *key);

/* The CPUs of a cpu_list, in its order; `room` of them at most.  False: malformed. */
bool config_cpu_list(const char *list, uint16_t *cpus, uint32_t room, uint32_t *count);

/* A copy of `config` with one setting changed, as SET does; NULL: unknown key or
 * bad value, *reason says which.  A setting that only a restart changes keeps
 * its value, and the call succeeds. */
struct config *config_with(const struct config *config, const char *key, const char *value,
                           const char **reason);

/* The row of SHOW CONFIG number `index`, in the order of pgbouncer.md 2.4 with
 * ours behind; false past the end.  value and initial are NULL where unset. */
struct setting_row {
	const char *key;
	char value[512];
	char initial[512];
	bool value_is_null, initial_is_null;
	bool changeable;
};
bool config_setting_row(const struct config *config, uint32_t index, struct setting_row *row);

/* What this build does not do although the file asks for it: a line per setting,
 * once at start.  False if one of them would weaken security if ignored (TLS
 * modes require and verify-*, auth types not there): then start is refused. */
bool config_check_supported(const struct config *config, const struct config_report *report);

#endif
