/*
 * show.c - see show.h: the tables.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/show.h"

#include <string.h>
#include <strings.h>

#include "core/admin/collect.h"
#include "core/base/check.h"
#include "proto/sqlstate.h"

/* clang-format off */
#define T(name) {name, COLUMN_TEXT}
#define I(name) {name, COLUMN_INT4}
#define Q(name) {name, COLUMN_INT8}
#define N(name) {name, COLUMN_NUMERIC}

#define SOCKET_COLUMNS                                                            \
	T("type"), T("user"), T("database"), T("replication"), T("state"), T("addr"), \
	I("port"), T("local_addr"), I("local_port"), T("connect_time"),               \
	T("request_time"), I("wait"), I("wait_us"), I("close_needed"), T("ptr"),      \
	T("link"), I("remote_pid"), T("tls")

static const struct column clients_columns[] = {
	SOCKET_COLUMNS, T("application_name"), I("prepared_statements"), I("id"),
};

static const struct column sockets_columns[] = {
	SOCKET_COLUMNS, T("application_name"), I("recv_pos"), I("pkt_pos"), I("pkt_remain"),
	I("send_pos"), I("send_remain"), I("pkt_avail"), I("send_avail"),
	I("prepared_statements"), I("id"),
};

static const struct column pools_columns[] = {
	T("database"), T("user"), I("cl_active"), I("cl_waiting"), I("cl_active_cancel_req"),
	I("cl_waiting_cancel_req"), I("sv_active"), I("sv_active_cancel"),
	I("sv_being_canceled"), I("sv_idle"), I("sv_used"), I("sv_tested"), I("sv_login"),
	I("maxwait"), I("maxwait_us"), T("pool_mode"), T("load_balance_hosts"),
};

static const struct column peer_pools_columns[] = {
	I("peer_id"), I("cl_active_cancel_req"), I("cl_waiting_cancel_req"),
	I("sv_active_cancel"), I("sv_login"),
};

static const struct column databases_columns[] = {
	T("name"), T("host"), I("port"), T("database"), T("force_user"), I("pool_size"),
	I("min_pool_size"), I("reserve_pool_size"), I("server_lifetime"), T("pool_mode"),
	T("load_balance_hosts"), I("max_connections"), I("current_connections"),
	I("max_client_connections"), I("current_client_connections"), I("paused"),
	I("disabled"),
};

static const struct column peers_columns[] = {
	I("peer_id"), T("host"), I("port"), I("pool_size"),
};

static const struct column users_columns[] = {
	T("name"), T("pool_size"), T("reserve_pool_size"), T("pool_mode"),
	I("max_user_connections"), I("current_connections"), I("max_user_client_connections"),
	I("current_client_connections"),
};

static const struct column lists_columns[] = {T("list"), I("items")};
static const struct column config_columns[] = {
	T("key"), T("value"), T("default"), T("changeable"),
};
static const struct column version_columns[] = {T("version")};
static const struct column state_columns[] = {T("key"), T("value")};
static const struct column mem_columns[] = {
	T("name"), I("size"), I("used"), I("free"), I("memtotal"),
};
static const struct column dns_hosts_columns[] = {T("hostname"), Q("ttl"), T("addrs")};
static const struct column dns_zones_columns[] = {T("zonename"), Q("serial"), I("count")};

static const struct column stats_columns[] = {
	T("database"), N("total_server_assignment_count"), N("total_xact_count"),
	N("total_query_count"), N("total_received"), N("total_sent"), N("total_xact_time"),
	N("total_query_time"), N("total_wait_time"), N("total_client_parse_count"),
	N("total_server_parse_count"), N("total_bind_count"), N("total_client_login_count"),
	N("avg_server_assignment_count"), N("avg_xact_count"), N("avg_query_count"),
	N("avg_recv"), N("avg_sent"), N("avg_xact_time"), N("avg_query_time"),
	N("avg_wait_time"), N("avg_client_parse_count"), N("avg_server_parse_count"),
	N("avg_bind_count"), N("avg_client_login_count"),
};

static const struct column stats_totals_columns[] = {
	T("database"), N("server_assignment_count"), N("xact_count"), N("query_count"),
	N("bytes_received"), N("bytes_sent"), N("xact_time"), N("query_time"), N("wait_time"),
	N("client_parse_count"), N("server_parse_count"), N("bind_count"),
	N("client_login_count"),
};

static const struct column stats_averages_columns[] = {
	T("database"), N("server_assignment_count"), N("xact_count"), N("query_count"),
	N("bytes_received"), N("bytes_sent"), N("xact_time"), N("query_time"), N("wait_time"),
	N("avg_client_parse_count"), N("avg_server_parse_count"), N("avg_bind_count"),
	N("avg_client_login_count"),
};

static const struct column totals_columns[] = {T("name"), N("value")};

/* `busy`: percent of the time since the process started. */
static const struct column workers_columns[] = {
	I("worker"), I("cpu"), I("clients"), I("servers_idle"), I("servers_busy"), Q("lent"),
	Q("borrowed"), Q("moved"), Q("turns"), Q("syscalls"), Q("transactions"), I("busy"),
	Q("longest_turn_us"),
};

#define SHOW(name, right, collect, columns, rows) \
	{name, RIGHT_##right, collect, columns, ARRAY_LEN(columns), rows}
#define NO_ROWS NULL

static const struct show shows[] = {
	SHOW("CLIENTS", STATS, COLLECT_CLIENTS, clients_columns, show_clients),
	SHOW("SERVERS", STATS, COLLECT_SERVERS, clients_columns, show_servers),
	SHOW("SOCKETS", STATS, COLLECT_CLIENTS | COLLECT_SERVERS | COLLECT_LOGINS,
	     sockets_columns, show_sockets),
	SHOW("ACTIVE_SOCKETS", STATS, COLLECT_CLIENTS | COLLECT_SERVERS | COLLECT_LOGINS,
	     sockets_columns, show_active_sockets),
	SHOW("POOLS", STATS, COLLECT_POOLS, pools_columns, show_pools),
	SHOW("PEER_POOLS", STATS, 0, peer_pools_columns, NO_ROWS),
	SHOW("DATABASES", STATS, COLLECT_POOLS, databases_columns, show_databases),
	SHOW("PEERS", STATS, 0, peers_columns, show_peers),
	SHOW("USERS", STATS, 0, users_columns, show_users),
	SHOW("LISTS", STATS, COLLECT_WORKER | COLLECT_POOLS, lists_columns, show_lists),
	SHOW("CONFIG", STATS, 0, config_columns, show_config),
	SHOW("VERSION", STATS, 0, version_columns, show_version),
	SHOW("STATE", STATS, 0, state_columns, show_state),
	SHOW("MEM", STATS, COLLECT_MEMORY, mem_columns, show_mem),
	SHOW("DNS_HOSTS", STATS, 0, dns_hosts_columns, NO_ROWS),
	SHOW("DNS_ZONES", STATS, 0, dns_zones_columns, NO_ROWS),
	SHOW("STATS", STATS, COLLECT_POOLS, stats_columns, show_stats),
	SHOW("STATS_TOTALS", STATS, COLLECT_POOLS, stats_totals_columns, show_stats_totals),
	SHOW("STATS_AVERAGES", STATS, COLLECT_POOLS, stats_averages_columns,
	     show_stats_averages),
	SHOW("TOTALS", STATS, COLLECT_POOLS, totals_columns, show_totals),
	SHOW("WORKERS", STATS, COLLECT_WORKER, workers_columns, show_workers),
	{"HELP", RIGHT_STATS, 0, NULL, 0, NULL},
	{"FDS", RIGHT_ADMIN, 0, NULL, 0, NULL},
};

static const char help[] =
	"\n\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION"
	"\n\tSHOW PEERS|PEER_POOLS"
	"\n\tSHOW FDS|SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE"
	"\n\tSHOW DNS_HOSTS|DNS_ZONES"
	"\n\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS"
	"\n\tSHOW WORKERS"
	"\n\tSET key = arg"
	"\n\tRELOAD"
	"\n\tPAUSE [<db>]"
	"\n\tRESUME [<db>]"
	"\n\tDISABLE <db>"
	"\n\tENABLE <db>"
	"\n\tRECONNECT [<db>]"
	"\n\tKILL [<db>]"
	"\n\tKILL_CLIENT <client_id>"
	"\n\tSUSPEND"
	"\n\tSHUTDOWN"
	"\n\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS"
	"\n\tWAIT_CLOSE [<db>]";
/* clang-format on */

const struct show *show_at(uint32_t index)
{
	return index < ARRAY_LEN(shows) ? &shows[index] : NULL;
}

const struct show *show_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(shows); i++)
		if (strcasecmp(shows[i].name, name) == 0)
			return &shows[i];
	return NULL;
}

void show_write(struct result *result, const struct show *show, const struct show_input *input)
{
	if (show->column_count > 0) {
		result_columns(result, show->columns, show->column_count);
		if (show->rows != NULL)
			show->rows(result, input);
	} else if (strcmp(show->name, "HELP") == 0) {
		result_notice(result, "Console usage", help);
	} else {
		result_error(result, SQLSTATE_FEATURE_NOT_SUPPORTED,
		             "descriptors cannot be handed over by this version");
		return;
	}
	result_tag(result, "SHOW");
}

static struct column fake_column(const char *name)
{
	return (struct column){name, COLUMN_TEXT};
}

void show_fake(struct result *result, const char *name, const char *value)
{
	struct column column = fake_column(name);
	result_columns(result, &column, 1);
	result_row(result);
	result_text(result, value);
	result_row_end(result);
	result_tag(result, "SHOW");
	result->columns = NULL;
}

bool show_describe(struct result *result, const char *text)
{
	struct admin_request request;
	const char *value;
	if (admin_parse(text, &request) != ADMIN_GOOD)
		return false;
	if (request.command->verb == VERB_SHOW) {
		const char *fake = admin_fake_setting(request.argument, &value);
		const struct show *show = show_find(request.argument);
		struct column column = fake_column(fake);
		if (fake == NULL && show == NULL)
			return false;
		if (fake != NULL || show->column_count > 0) {
			result_columns(result, fake != NULL ? &column : show->columns,
			               fake != NULL ? 1 : show->column_count);
			result->columns = NULL;
			return true;
		}
	}
	result_no_data(result);
	return true;
}
