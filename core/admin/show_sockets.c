/*
 * show_sockets.c - SHOW CLIENTS, SERVERS, SOCKETS, ACTIVE_SOCKETS.
 *
 * One list over all workers: by database, user, and state, then by id, so that
 * the same sockets come in the same order whichever worker they are on.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/admin/collect.h"
#include "core/admin/show.h"
#include "core/base/check.h"
#include "core/config.h"

enum { SECOND_US = 1000 * 1000, DEFAULT_PORT = 5432 };

static const char *name_of(const char *name, const char *otherwise)
{
	return name != NULL ? name : otherwise;
}

static int socket_order(const void *left, const void *right)
{
	const struct socket_row *a = left, *b = right;
	/* Those that have no database yet come last. */
	if ((a->database == NULL) != (b->database == NULL))
		return a->database == NULL ? 1 : -1;
	int order = strcmp(name_of(a->database, ""), name_of(b->database, ""));
	if (order == 0)
		order = strcmp(name_of(a->user, ""), name_of(b->user, ""));
	if (order == 0 && a->kind != b->kind)
		order = a->kind < b->kind ? -1 : 1;
	if (order == 0 && a->id != b->id)
		order = a->id < b->id ? -1 : 1;
	return order;
}

static void sockets_sort(struct rows *rows)
{
	if (rows->sockets.count > 1)
		qsort(rows->sockets.rows, rows->sockets.count, sizeof(struct socket_row),
		      socket_order);
}

static bool is_server(const struct socket_row *row)
{
	return row->kind >= SOCKET_SERVER;
}

/* In SHOW CLIENTS and SERVERS; SHOW SOCKETS has names of its own. */
static const char *state_name(const struct socket_row *row, bool of_sockets)
{
	switch (row->kind) {
	case SOCKET_CLIENT: return of_sockets ? "cl_active" : row->link != 0 ? "active" : "idle";
	case SOCKET_CLIENT_WAITING: return of_sockets ? "cl_waiting" : "waiting";
	case SOCKET_CLIENT_CANCEL: return "active_cancel_req";
	case SOCKET_CLIENT_LOGIN: return "cl_login";
	case SOCKET_SERVER: return of_sockets ? "sv_active" : "active";
	case SOCKET_SERVER_IDLE: return of_sockets ? "sv_idle" : "idle";
	case SOCKET_SERVER_USED: return of_sockets ? "sv_used" : "used";
	case SOCKET_SERVER_TESTED: return of_sockets ? "sv_tested" : "tested";
	case SOCKET_SERVER_LOGIN: return of_sockets ? "sv_login" : "new";
	case SOCKET_SERVER_BEING_CANCELED: return "being_canceled";
	}
	return "";
}

static void cell_time(struct result *result, const struct show_input *input, uint64_t at_us)
{
	uint64_t ago_us = input->now_us > at_us ? input->now_us - at_us : 0;
	time_t second = (time_t)((input->wall_us - MIN(ago_us, input->wall_us)) / SECOND_US);
	struct tm parts;
	char text[64] = "";
	if (at_us != 0 && localtime_r(&second, &parts) != NULL)
		strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %Z", &parts);
	result_text(result, text);
}

/* 0: none. */
static void cell_pointer(struct result *result, uint64_t pointer)
{
	char text[24] = "";
	if (pointer != 0)
		snprintf(text, sizeof text, "0x%" PRIx64, pointer);
	result_text(result, text);
}

static uint32_t server_port(const struct show_input *input, const struct socket_row *row)
{
	const struct database_entry *entry = row->database != NULL
	                                             ? config_find_database(input->config,
	                                                                    row->database)
	                                             : NULL;
	if (entry == NULL)
		entry = input->config->autodb;
	return entry != NULL && entry->port > 0 ? (uint32_t)entry->port : DEFAULT_PORT;
}

static void cells_address(struct result *result, const struct show_input *input,
                          const struct socket_row *row)
{
	char text[ADDR_TEXT_MAX];
	uint32_t unix_port = is_server(row) ? server_port(input, row)
	                                    : (uint32_t)input->config->settings.listen_port;
	/* A unix socket has no name of its own, and no port. */
	bool is_unix = row->is_unix || row->peer.family == AF_UNIX;
	addr_host_text(&row->peer, text);
	result_text(result, is_unix ? "unix" : text);
	result_number(result, is_unix ? unix_port : row->peer.port);
	addr_host_text(&row->local, text);
	result_text(result, is_unix ? "unix" : text);
	result_number(result, is_unix ? unix_port : row->local.port);
}

static void row_write(struct result *result, const struct show_input *input,
                      const struct socket_row *row, bool of_sockets)
{
	result_row(result);
	result_text(result, is_server(row) ? "S" : "C");
	result_text(result, name_of(row->user, "(nouser)"));
	result_text(result, name_of(row->database, "(nodb)"));
	result_text(result, "none");
	result_text(result, state_name(row, of_sockets));
	cells_address(result, input, row);
	cell_time(result, input, row->connect_us);
	cell_time(result, input, row->request_us);
	result_number(result, row->wait_us / SECOND_US);
	result_number(result, row->wait_us % SECOND_US);
	result_number(result, row->close_needed);
	cell_pointer(result, row->pointer);
	cell_pointer(result, row->link);
	result_number(result, row->remote_pid);
	result_text(result, ""); /* no TLS */
	result_text(result, row->application_name);
	if (of_sockets) {
		result_number(result, 0);
		result_number(result, 0);
		result_number(result, 0);
		result_number(result, 0);
		result_number(result, 0);
		result_number(result, row->bytes_in);
		result_number(result, row->bytes_out);
	}
	result_number(result, row->statements);
	result_number(result, row->id);
	result_row_end(result);
}

struct choice {
	bool servers, clients;
	bool of_sockets; /* with the columns of SHOW SOCKETS */
	bool only_busy;
};

static void sockets_write(struct result *result, const struct show_input *input,
                          struct choice choice)
{
	struct rows *rows = input->rows;
	sockets_sort(rows);
	for (uint32_t i = 0; i < rows->sockets.count; i++) {
		const struct socket_row *row = ROW(rows, socket_row, sockets, i);
		bool is_busy = row->bytes_in > 0 || row->bytes_out > 0;
		bool is_chosen = is_server(row) ? choice.servers : choice.clients;
		if (is_chosen && (is_busy || !choice.only_busy))
			row_write(result, input, row, choice.of_sockets);
	}
}

void show_clients(struct result *result, const struct show_input *input)
{
	sockets_write(result, input, (struct choice){.clients = true});
}

void show_servers(struct result *result, const struct show_input *input)
{
	sockets_write(result, input, (struct choice){.servers = true});
}

void show_sockets(struct result *result, const struct show_input *input)
{
	struct choice all = {.servers = true, .clients = true, .of_sockets = true};
	sockets_write(result, input, all);
}

void show_active_sockets(struct result *result, const struct show_input *input)
{
	struct choice busy = {true, true, .of_sockets = true, .only_busy = true};
	sockets_write(result, input, busy);
}
