/*
 * console.c - see console.h: the simple protocol, and what both share.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/auth/login.h"
#include "core/base/check.h"
#include "core/client.h"
#include "core/config.h"
#include "core/post.h"
#include "core/version.h"
#include "core/worker.h"
#include "net/conn.h"
#include "net/sys.h"
#include "proto/read.h"
#include "proto/scan.h"
#include "proto/sqlstate.h"
#include "proto/write.h"

enum { ROOM_FIRST = 512, ERROR_ROOM = 1024, TEXT_SHOWN_MAX = 512, WELCOME_FIXED = 1024 };

void console_free(struct client *client)
{
	struct console *console = client->console;
	if (console == NULL)
		return;
	client->console = NULL;
	free(console->statement.text);
	free(console->portal.text);
	free(console->in);
	free(console);
}

static size_t welcome_size(const struct client *client)
{
	const char *notice = client->worker->config->settings.login_notify_message;
	size_t size = WELCOME_FIXED + (notice != NULL ? strlen(notice) : 0);
	for (uint32_t i = 0; i < vars_count(); i++)
		if (client->vars.values[i] != NULL)
			size += 64 + strlen(vars_name(i)) + client->vars.values[i]->size;
	return size;
}

static void welcome_write(struct client *client, struct writer *out)
{
	static const char *const parameters[][2] = {
		{"server_version", COMPATIBLE_VERSION "/bouncer"},
		{"client_encoding", "UTF8"},
		{"server_encoding", "UTF8"},
		{"DateStyle", "ISO"},
		{"TimeZone", "GMT"},
		{"standard_conforming_strings", "on"},
		{"is_superuser", "on"},
	};
	uint8_t key[CANCEL_KEY_SHORT]; /* of nothing: no command is cancelled by key */
	const char *notice = client->worker->config->settings.login_notify_message;
	write_authentication(out, 0, span_of(NULL, 0));
	for (size_t i = 0; i < ARRAY_LEN(parameters); i++)
		write_parameter_status(out, parameters[i][0], parameters[i][1]);
	for (uint32_t i = 0; i < vars_count(); i++)
		if (client->vars.values[i] != NULL)
			write_parameter_status(out, vars_name(i), client->vars.values[i]->text);
	sys_random(key, sizeof key);
	write_backend_key(out, span_of(key, sizeof key));
	if (notice != NULL && *notice != '\0')
		write_notice(out, notice, NULL);
	write_ready(out, 'I');
}

void console_begin(struct client *client)
{
	size_t room = welcome_size(client);
	uint8_t *welcome = malloc(room);
	struct login *login = client->login;
	client->console = calloc(1, sizeof *client->console);
	if (client->console == NULL || welcome == NULL) {
		free(welcome);
		client_fail(client, "53200", "out of memory");
		return;
	}
	struct writer out = writer_over(welcome, (uint32_t)room);
	welcome_write(client, &out);
	CHECK(!out.failed);
	client->worker->console_logins++;
	client_move(client, CLIENT_CONSOLE);
	conn_send_copy(&client->conn, welcome, out.size);
	free(welcome);
	/* What it has said behind its password is already the console's. */
	uint8_t *rest = login->bytes;
	uint32_t size = login->size;
	login->bytes = NULL;
	login->size = login->room = 0;
	login_free(client);
	if (size > 0)
		console_bytes(client, rest, size);
	free(rest);
}

void console_error(struct client *client, const char *sqlstate, const char *text)
{
	uint8_t packet[ERROR_ROOM];
	struct writer out = writer_over(packet, sizeof packet);
	write_error(&out, "ERROR", sqlstate, text);
	CHECK(!out.failed);
	conn_send_copy(&client->conn, packet, out.size);
}

void console_invalid(struct client *client, const char *text)
{
	char said[TEXT_SHOWN_MAX + 64];
	snprintf(said, sizeof said, "invalid command '%.*s', use SHOW HELP;", TEXT_SHOWN_MAX, text);
	console_error(client, SQLSTATE_PROTOCOL_VIOLATION, said);
}

void console_send(struct client *client, const char *text, uint32_t size, bool extended)
{
	struct worker *worker = client->worker;
	struct console *console = client->console;
	struct post *post = post_new(POST_CONSOLE, worker->index);
	post->console.slot = op_slot_of(&client->conn.owner);
	post->console.generation = op_generation_of(&client->conn.owner);
	post->console.is_admin = client->is_admin;
	post->console.is_stats = client->is_stats;
	post->console.is_unix = client->is_unix;
	post->console.extended = extended;
	post->console.binary = extended ? console->binary : 0;
	post->console.bytes = malloc((size_t)size + 1);
	post->console.size = size;
	if (post->console.bytes == NULL) {
		post_free(post);
		client_fail(client, "53200", "out of memory");
		return;
	}
	memcpy(post->console.bytes, text, size);
	post->console.bytes[size] = '\0';
	console->extended = extended;
	client->console_busy = true;
	if (!console->counted)
		worker->console_queries++;
	console->counted = true;
	post_control(worker->process, post);
}

static void message_handle(struct client *client, uint8_t type, struct span body)
{
	char text[64];
	struct reader in = reader_of(body);
	const char *sql;
	switch (type) {
	case 'Q':
		sql = reader_text(&in);
		if (!reader_done(&in)) {
			client_fail(client, NULL, "bad packet");
			return;
		}
		console_send(client, sql, (uint32_t)strlen(sql), false);
		return;
	case 'X': client_close(client, "close req"); return;
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
	case 'H':
	case 'S': console_extended(client, type, body); return;
	default:
		snprintf(text, sizeof text, "unsupported packet type for admin console: %u", type);
		console_error(client, SQLSTATE_PROTOCOL_VIOLATION, text);
		client_fail(client, NULL, "bad packet");
	}
}

/* Acts on what has come, until a command is under way. */
static void console_step(struct client *client)
{
	struct console *console = client->console;
	uint32_t at = 0;
	while (client->state == CLIENT_CONSOLE && !client->console_busy &&
	       console->size - at >= SCAN_HEADER_SIZE) {
		uint32_t length = read_u32(console->in + at + 1);
		if (length < 4 || length >= CONSOLE_INPUT_MAX) {
			client_fail(client, NULL, "bad packet");
			return;
		}
		if (console->size - at - 1 < length)
			break;
		client->worker->console_bytes += length + 1;
		message_handle(client, console->in[at],
		               span_of(console->in + at + SCAN_HEADER_SIZE, length - 4));
		at += length + 1;
	}
	console->size -= at;
	memmove(console->in, console->in + at, console->size);
}

static bool console_keep(struct console *console, const uint8_t *bytes, uint32_t size)
{
	if (size > console->room - console->size) {
		uint32_t room = MAX((uint32_t)ROOM_FIRST, (console->size + size) * 2);
		uint8_t *more = realloc(console->in, room);
		if (more == NULL)
			return false;
		console->in = more;
		console->room = room;
	}
	memcpy(console->in + console->size, bytes, size);
	console->size += size;
	return true;
}

void console_bytes(struct client *client, const uint8_t *bytes, uint32_t size)
{
	struct console *console = client->console;
	while (size > 0 && client->state == CLIENT_CONSOLE) {
		/* In parts: what is whole makes room for what follows. */
		uint32_t part = MIN(size, CONSOLE_INPUT_MAX - console->size);
		if (part == 0) {
			client_fail(client, NULL, "bad packet");
			return;
		}
		if (!console_keep(console, bytes, part)) {
			client_fail(client, "53200", "out of memory");
			return;
		}
		bytes += part;
		size -= part;
		console_step(client);
	}
}

static void simple_reply(struct client *client, struct span reply)
{
	uint8_t packet[8];
	struct writer out = writer_over(packet, sizeof packet);
	write_ready(&out, 'I');
	conn_send_copy(&client->conn, reply.data, reply.size);
	conn_send_copy(&client->conn, packet, out.size);
}

void console_reply(struct worker *worker, struct post *post)
{
	struct client *client = worker_find_client(worker, post->console.slot,
	                                           post->console.generation);
	char *bytes = post->console.bytes;
	if (client == NULL || client->state != CLIENT_CONSOLE) {
		free(bytes); /* it has left meanwhile */
		return;
	}
	CHECK(client->console_busy);
	client->console_busy = false;
	struct span reply = span_of(bytes, post->console.size);
	if (bytes == NULL)
		client_fail(client, "53200", "out of memory");
	else if (client->console->extended)
		console_extended_reply(client, reply);
	else
		simple_reply(client, reply);
	free(bytes);
	if (post->console.close)
		client_close(client, "close req");
	console_step(client);
}
