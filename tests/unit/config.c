/*
 * Loading a configuration: each kind of value and its limits, entries, users
 * from three sources, reload, SET, what is not there yet.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/config.h"

#include "tests/unit/config_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/config_parts.h"

static const char *shown(const struct config *config, const char *key)
{
	static struct setting_row row;
	for (uint32_t i = 0; config_setting_row(config, i, &row); i++)
		if (strcmp(row.key, key) == 0)
			return row.value_is_null ? "NULL" : row.value;
	return "no such row";
}

static void values_check(void)
{
	/* key, text, as shown; NULL: refused */
	static const char *const rows[][3] = {
		{"default_pool_size", "0", "0"},
		{"default_pool_size", "2147483647", "2147483647"},
		{"default_pool_size", "0x1f", "31"},
		{"default_pool_size", "+7", "7"},
		{"default_pool_size", "2147483648", NULL},
		{"default_pool_size", "99999999999999999999", NULL},
		{"default_pool_size", "-1", NULL},
		{"default_pool_size", "12k", NULL},
		{"default_pool_size", "", NULL},
		{"listen_backlog", "-1", "-1"},
		{"listen_port", "65536", NULL},
		{"unix_socket_mode", "0777", "511"},
		{"max_packet_size", "4294967295", "4294967295"},
		{"max_packet_size", "4294967296", NULL},
		{"log_stats", "0", "0"},
		{"log_stats", "2", "1"},
		{"log_stats", "on", NULL},
		{"log_stats", "", NULL},
		{"server_lifetime", "0.5", "0.5"},
		{"server_lifetime", "3600", "3600"},
		{"server_lifetime", "1e3", "1000"},
		{"server_lifetime", "1.5s", NULL},
		{"server_lifetime", "-1", NULL},
		{"server_lifetime", "nan", NULL},
		{"server_lifetime", "inf", NULL},
		{"server_lifetime", "", NULL},
		{"pool_mode", "TransAction", "transaction"},
		{"pool_mode", "tx", NULL},
		{"auth_type", "scram-sha-256", "scram-sha-256"},
		{"client_tls_sslmode", "verify-ca", "verify-ca"},
		{"server_check_query", "", ""},
		{"server_check_query", "<empty>", "<empty>"},
		{"admin_users", "a, b", "a, b"},
		{"auth_user", "'x'", "'x'"},
		{"auth_dbname", "pgbouncer", NULL},
		{"cpu_list", "0-3,8", "0-3,8"},
		{"cpu_list", "3-1", NULL},
		{"workers", "256", "256"},
		{"workers", "257", NULL},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256];
		snprintf(text, sizeof(text), "[pgbouncer]\n%s = %s\n", rows[i][0], rows[i][1]);
		struct config *config = load(text, NULL);
		if (rows[i][2] == NULL) {
			snprintf(text, sizeof(text),
			         "invalid value \"%s\" for parameter %s in configuration (f:2)\n",
			         rows[i][1], rows[i][0]);
			cr_assert_null(config, "row %zu", i);
			cr_assert_not_null(strstr(told, text), "row %zu: %s", i, told);
			cr_assert_not_null(strstr(told, "expected") != NULL
			                           ? told
			                           : strstr(told, "auth_dbname"),
			                   "row %zu: %s", i, told);
			continue;
		}
		cr_assert_not_null(config, "row %zu: %s", i, told);
		cr_assert_str_eq(told, "", "row %zu: %s", i, told);
		cr_assert_str_eq(shown(config, rows[i][0]), rows[i][2], "row %zu", i);
		cr_assert(config_is_set(config, rows[i][0]));
		config_drop(config);
	}
}

static void defaults_check(void)
{
	struct config *config = config_default();
	const struct settings *settings = &config->settings;
	cr_assert_eq(settings->default_pool_size, 20);
	cr_assert_eq(settings->server_idle_timeout, 600u * 1000000);
	cr_assert_eq(settings->auth_type, AUTH_MD5);
	cr_assert_eq(settings->pool_mode, POOL_SESSION);
	cr_assert_eq(settings->server_tls_sslmode, SSL_PREFER);
	cr_assert_eq(settings->unix_socket_mode, 0777);
	cr_assert_str_eq(settings->server_reset_query, "DISCARD ALL");
	cr_assert_null(settings->auth_file);
	cr_assert(settings->log_connections && !config_is_set(config, "log_connections"));

	struct setting_row row;
	uint32_t count = 0;
	for (; config_setting_row(config, count, &row); count++) {
		cr_assert(row.initial_is_null || strlen(row.initial) < sizeof(row.initial) - 1);
		cr_assert_gt(strlen(setting_table[count].help), 10);
	}
	/* the settings of PgBouncer on Linux, and ours */
	cr_assert_eq(count, 100 + 7);
	cr_assert(config_setting_row(config, 0, &row));
	cr_assert_str_eq(row.key, "admin_users");
	cr_assert(!config_setting_row(config, count, &row));

	/* entries of tests: in order, the last of a name counts */
	struct database_entry database;
	struct user_entry user;
	static const char *const names[] = {"m", "z", "*", "a", "m"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		database_entry_init(&database, names[i]);
		database.pool_size = (int32_t)i;
		config_add_database(config, &database);
		user_entry_init(&user, names[i]);
		user.pool_size = (int32_t)i;
		config_add_user(config, &user);
	}
	cr_assert_eq(config->database_count, 3);
	cr_assert_eq(config_find_database(config, "m")->pool_size, 4);
	cr_assert_eq(config_find_database(config, "z")->pool_size, 1);
	cr_assert_str_eq(config_find_database(config, "z")->dbname, "z");
	cr_assert_null(config_find_database(config, "*"));
	cr_assert_null(config_find_database(config, "b"));
	cr_assert_eq(config->autodb->pool_size, 2);
	cr_assert_null(config->autodb->dbname);
	cr_assert_eq(config_find_user(config, "m")->pool_size, 4);
	cr_assert_null(config_find_user(config, ""));
	config_hold(config);
	config_drop(config);
	config_drop(config);
}

Test(config, settings)
{
	directory_enter();
	defaults_check();
	values_check();

	static const struct list_row {
		const char *list, *word;
		bool has;
	} lists[] = {
		{NULL, "a", false},      {"", "a", false},     {"a", "a", true},
		{"ab, c", "a", false},   {"ab, c", "c", true}, {"ab c", "ab", true},
		{"x,\ta\n,", "a", true}, {"a,b", "", false},   {"a,b", "a,b", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		cr_assert_eq(config_list_has(lists[i].list, lists[i].word), lists[i].has, "row %zu",
		             i);

	uint16_t cpus[4];
	uint32_t count;
	cr_assert(config_cpu_list("5, 0-1", cpus, ARRAY_LEN(cpus), &count));
	cr_assert(count == 3 && cpus[0] == 5 && cpus[1] == 0 && cpus[2] == 1);
	cr_assert(config_cpu_list("0-65535", cpus, ARRAY_LEN(cpus), &count));
	cr_assert_eq(count, 4);
	cr_assert(config_cpu_list("", cpus, ARRAY_LEN(cpus), &count) && count == 0);
	static const char *const bad[] = {"a", "1-", "-1", "1-2-3", "0x1", "70000", "1;2"};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		cr_assert(!config_cpu_list(bad[i], cpus, ARRAY_LEN(cpus), &count), "%s", bad[i]);
	directory_leave();
}

static void entries_check(void)
{
	struct config *config = load_good(
		"[pgbouncer]\n[databases]\n"
		"full = dbname=d host='h,i' port=1 user=u password='p''p' auth_user=au "
		"auth_query='q $1' auth_dbname=ad pool_size=2 min_pool_size=3 reserve_pool=4 "
		"connect_query='select 1' pool_mode=Statement query_wait_timeout=5 "
		"load_balance_hosts=disable max_db_connections=6 max_db_client_connections=7 "
		"server_lifetime=8 client_encoding=e datestyle=s timezone=z application_name=n\n"
		"zero = pool_size=0 reserve_pool_size=-5 max_db_connections=0 server_lifetime=0 "
		"query_wait_timeout=-1\n"
		"'my db' =\n"
		"zero2 = host=first\n* = host=/tmp\nzero2 = port=2\n"
		"[users]\nu = pool_mode=session pool_size=1 reserve_pool_size=2 "
		"max_user_connections=3 max_user_client_connections=0 query_timeout=0 "
		"idle_transaction_timeout=4 transaction_timeout=5 client_idle_timeout=6 "
		"query_wait_timeout=0\n"
		"[peers]\n7 = host=x\n3 = host=/run port=9 pool_size=2\n7 = host=y\n");
	cr_assert_str_eq(told, "");
	const struct database_entry *full = config_find_database(config, "full");
	cr_assert_str_eq(full->dbname, "d");
	cr_assert_str_eq(full->host, "h,i");
	cr_assert_str_eq(full->user, "u");
	cr_assert_str_eq(full->password, "p'p");
	cr_assert_str_eq(full->auth_user, "au");
	cr_assert_str_eq(full->auth_query, "q $1");
	cr_assert_str_eq(full->auth_dbname, "ad");
	cr_assert_str_eq(full->connect_query, "select 1");
	cr_assert_str_eq(full->client_encoding, "e");
	cr_assert_str_eq(full->datestyle, "s");
	cr_assert_str_eq(full->timezone, "z");
	cr_assert_str_eq(full->application_name, "n");
	cr_assert(full->port == 1 && full->pool_size == 2 && full->min_pool_size == 3);
	cr_assert(full->reserve_pool_size == 4 && full->pool_mode == POOL_STATEMENT);
	cr_assert(full->query_wait_timeout == 5000000 && full->server_lifetime == 8000000);
	cr_assert(full->load_balance_hosts == LOAD_BALANCE_DISABLE);
	cr_assert(full->max_db_connections == 6 && full->max_db_client_connections == 7);
	const struct database_entry *zero = config_find_database(config, "zero");
	cr_assert(zero->pool_size == 0 && zero->reserve_pool_size == -1);
	cr_assert(zero->max_db_connections == -1 && zero->server_lifetime == -1);
	cr_assert_eq(zero->query_wait_timeout, 0);
	cr_assert_str_eq(config_find_database(config, "my db")->dbname, "my db");
	zero = config_find_database(config, "zero2");
	cr_assert(zero->host == NULL && zero->port == 2, "the last one counts, whole");
	cr_assert_eq(config->database_count, 4);
	cr_assert_str_eq(config->autodb->host, "/tmp");

	const struct user_entry *user = config_find_user(config, "u");
	cr_assert(user->pool_mode == POOL_SESSION && user->pool_size == 1);
	cr_assert(user->reserve_pool_size == 2 && user->max_user_connections == 3);
	cr_assert(user->max_user_client_connections == -1 && user->query_timeout == -1);
	cr_assert(user->idle_transaction_timeout == 4000000);
	cr_assert(user->transaction_timeout == 5000000 && user->client_idle_timeout == 6000000);
	cr_assert(user->query_wait_timeout == 0 && !user->in_auth_file);
	cr_assert_eq(config->peer_count, 2);
	cr_assert(config->peers[0].id == 3 && config->peers[0].port == 9);
	cr_assert(config->peers[1].id == 7 && config->peers[1].port == 6432);
	cr_assert_str_eq(config->peers[1].host, "y");
	config_drop(config);
}

/* The three sources of users. */
static void sources_check(void)
{
	static const char scram[] = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$"
				    "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=:"
				    "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
	static const struct row {
		const char *name;
		enum secret_kind kind;
		bool in_file;
	} rows[] = {
		{"plain", SECRET_PLAIN, true},      {"md5", SECRET_MD5, true},
		{"upper", SECRET_PLAIN, true},      {"scram", SECRET_SCRAM, true},
		{"scramlike", SECRET_PLAIN, true},  {"empty", SECRET_NONE, true},
		{"listed", SECRET_NONE, false},     {"forced", SECRET_NONE, false},
		{"autoforced", SECRET_NONE, false},
	};
	static const char main_file[] = "[users]\nlisted = max_user_connections=4\n"
					"plain = max_user_connections=5\n[databases]\n"
					"x = user=forced\ny = user=forced\nz = user=plain\n"
					"* = user=autoforced\n[pgbouncer]\nauth_file = users\n";
	char text[1024];
	snprintf(text, sizeof(text),
	         "\"plain\" \"old\"\n\"md5\" \"md5%032d\"\n\"upper\" \"md5%031dF\"\n"
	         "\"scram\" \"%s\"\n\"scramlike\" \"SCRAM-SHA-256$x\"\n\"empty\" \"\"\n"
	         "\"plain\" \"new\"\n",
	         0, 0, scram);
	file_write("users", text);
	struct config *config = load_good(main_file);
	cr_assert_str_eq(told, "");
	cr_assert_eq(config->user_count, ARRAY_LEN(rows));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct user_entry *user = config_find_user(config, rows[i].name);
		cr_assert_not_null(user, "row %zu", i);
		cr_assert_eq(user->secret_kind, rows[i].kind, "row %zu", i);
		cr_assert_eq(user->in_auth_file, rows[i].in_file, "row %zu", i);
		cr_assert_eq(user->secret == NULL, rows[i].kind == SECRET_NONE, "row %zu", i);
	}
	const struct user_entry *plain = config_find_user(config, "plain");
	cr_assert_str_eq(plain->secret, "new");
	cr_assert_eq(plain->max_user_connections, 5);

	/* a broken line: what stands before it counts, and the load goes on */
	file_write("users", "\"plain\" \"p\"\nbroken\n\"md5\" \"x\"\n");
	struct config *next = load(main_file, config);
	cr_assert_str_eq(told, "E broken auth file (users:2)\n");
	cr_assert_str_eq(config_find_user(next, "plain")->secret, "p");
	cr_assert_null(config_find_user(next, "md5"));
	config_drop(next);

	/* no file: at start told only, at reload the users stay */
	unlink("users");
	next = load(main_file, config);
	config_drop(config);
	cr_assert_str_eq(told, "E could not open auth_file users: No such file or directory\n");
	cr_assert_str_eq(config_find_user(next, "plain")->secret, "new");
	cr_assert_eq(config_find_user(next, "plain")->max_user_connections, 5);
	cr_assert_eq(next->user_count, ARRAY_LEN(rows));
	config_drop(next);
	config = load_good(main_file);
	cr_assert_str_eq(told, "E could not open auth_file users: No such file or directory\n");
	cr_assert_null(config_find_user(config, "md5"));
	config_drop(config);
	config = load_good("[pgbouncer]\nauth_file = users\nauth_type = any\n");
	cr_assert_str_eq(told, "", "not read for auth_type any");
	config_drop(config);
}

Test(config, entries)
{
	directory_enter();
	entries_check();
	sources_check();

	/* a header met again resets nothing, a key given again counts last */
	struct config *config = load_good("[pgbouncer]\ndefault_pool_size=1\nmin_pool_size=2\n"
	                                  "[databases]\n[pgbouncer]\nmin_pool_size=3\n");
	cr_assert_eq(config->settings.default_pool_size, 1);
	cr_assert_eq(config->settings.min_pool_size, 3);
	config_drop(config);
	directory_leave();
}

Test(config, changes)
{
	directory_enter();
	struct config *config = load_good("[pgbouncer]\nlisten_port=7000\ndefault_pool_size=5\n"
	                                  "auth_user=x\n[databases]\na = host=b\n");
	cr_assert_str_eq(config->path, "f");
	cr_assert_str_eq(config->settings.conffile, "f");

	/* RELOAD: from clean defaults, but for what only a restart changes */
	struct config *next = load("[pgbouncer]\nlisten_port=7001\n", config);
	cr_assert_str_eq(told,
	                 "W listen_port changes at a restart only; it stays \"7000\" (f:2)\n");
	cr_assert_eq(next->settings.listen_port, 7000);
	cr_assert_eq(next->settings.default_pool_size, 20);
	cr_assert_null(next->settings.auth_user);
	cr_assert_eq(next->database_count, 0);
	config_drop(next);
	cr_assert_null(load("[pgbouncer]\ndefault_pool_size=6\nfoo=1\n", config));
	cr_assert_eq(config->settings.default_pool_size, 5);

	/* SET: a copy each, and the one below may go first */
	const char *reason = NULL;
	next = config_with(config, "default_pool_size", "9", &reason);
	cr_assert_eq(config->settings.default_pool_size, 5);
	struct config *last = config_with(next, "login_notify_message", "hello", &reason);
	config_drop(config);
	config_drop(next);
	cr_assert_eq(last->settings.default_pool_size, 9);
	cr_assert_str_eq(last->settings.login_notify_message, "hello");
	cr_assert_str_eq(last->settings.auth_user, "x");
	cr_assert_str_eq(config_find_database(last, "a")->host, "b");
	cr_assert_str_eq(last->path, "f");
	next = config_with(last, "listen_port", "1", &reason);
	cr_assert_eq(next->settings.listen_port, 7000, "a restart only");
	config_drop(next);
	static const char *const refused[][3] = {
		{"foo", "1", "unknown parameter: pgbouncer/foo"},
		{"default_pool_size", "-1",
	         "default_pool_size: out of range; expected 0..2147483647"},
		{"auth_dbname", "pgbouncer",
	         "cannot use the reserved \"pgbouncer\" database as an auth_dbname"},
		{"auth_type", "pam",
	         "auth_type: this way to log in is not there yet in this version"},
	};
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		cr_assert_null(config_with(last, refused[i][0], refused[i][1], &reason));
		cr_assert_str_eq(reason, refused[i][2]);
	}
	config_drop(last);
	directory_leave();
}

Test(config, supported)
{
	/* settings, what is told, whether it may start */
	static const struct row {
		const char *text, *told;
		bool is_good;
	} rows[] = {
		{"", "", true},
		{"auth_type = trust\nworkers = 2\n", "", true},
		{"client_tls_sslmode = disable\nserver_tls_sslmode = disable\npeer_id = 0\n", "",
	         true},
		{"max_prepared_statements = 200\nprepare_unnamed = 1\n", "", true},
		{"server_tls_sslmode = prefer\n",
	         "W server_tls_sslmode is not in effect yet in this version (f:2)\n", true},
		{"auth_user = x\n", "W auth_user is not in effect yet in this version (f:2)\n",
	         true},
		{"[databases]\na = auth_user=x\n",
	         "W auth_query is not in effect yet in this version (database a)\n", true},
		{"[peers]\n1 = host=a\n", "W [peers] is not in effect yet in this version\n", true},
		{"server_tls_sslmode = require\n", "E server_tls_sslmode = require: TLS is not ",
	         false},
		{"client_tls_sslmode = verify-full\n",
	         "E client_tls_sslmode = verify-full: ", false},
		{"auth_type = hba\n", "E auth_type = hba: this way to log in is not there yet",
	         false},
		{"auth_type = cert\n", "E auth_type = cert: ", false},
		{"auth_type = ldap\n", "E auth_type = ldap: ", false},
		{"auth_type = pam\n", "E auth_type = pam: ", false},
	};
	directory_enter();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[256];
		snprintf(text, sizeof(text), "[pgbouncer]\n%s", rows[i].text);
		struct config *config = load_good(text);
		cr_assert_str_eq(told, "");
		cr_assert_eq(config_check_supported(config, &report), rows[i].is_good, "row %zu",
		             i);
		if (rows[i].is_good)
			cr_assert_str_eq(told, rows[i].told, "row %zu: %s", i, told);
		else
			cr_assert_eq(strncmp(told, rows[i].told, strlen(rows[i].told)), 0,
			             "row %zu: %s", i, told);
		config_drop(config);
	}
	directory_leave();
}
