/*
 * console_extended.c - the console by the extended protocol.
 *
 * Some drivers know no other.  There are no parameters, and of statements and
 * portals only the last one made is kept: a driver that asks for an older one
 * gets an error and prepares again.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admin/console.h"
#include "core/admin/show.h"
#include "core/base/check.h"
#include "core/client.h"
#include "net/conn.h"
#include "proto/read.h"
#include "proto/sqlstate.h"
#include "proto/write.h"

static void extended_error(struct client *client, const char *sqlstate, const char *text)
{
	console_error(client, sqlstate, text);
	client->console->skipping = true;
}

static void send_empty(struct client *client, char type)
{
	uint8_t packet[8];
	struct writer out = writer_over(packet, sizeof packet);
	writer_begin(&out, type);
	writer_end(&out);
	conn_send_copy(&client->conn, packet, out.size);
}

/* False: an error was sent. */
static bool text_keep(struct client *client, struct console_text *kept, const char *name,
                      const char *text)
{
	if (strlen(name) > CONSOLE_NAME_MAX) {
		extended_error(client, SQLSTATE_PROTOCOL_VIOLATION, "name too long");
		return false;
	}
	char *copy = strdup(text);
	if (copy == NULL) {
		extended_error(client, "53200", "out of memory");
		return false;
	}
	free(kept->text);
	kept->text = copy;
	memcpy(kept->name, name, strlen(name) + 1);
	return true;
}

static bool text_is(const struct console_text *kept, const char *name)
{
	return kept->text != NULL && strcmp(kept->name, name) == 0;
}

static void on_parse(struct client *client, struct reader *in)
{
	const char *name = reader_text(in);
	const char *text = reader_text(in);
	/* Types may be named for parameters that are not there. */
	reader_bytes(in, reader_u16(in) * 4U);
	if (!reader_done(in))
		client_fail(client, NULL, "bad packet");
	else if (text_keep(client, &client->console->statement, name, text))
		send_empty(client, '1');
}

/* A bit per column: no code, none; one code, it is that of all. */
static uint32_t read_formats(struct reader *in)
{
	uint32_t count = reader_u16(in), bits = 0;
	for (uint32_t i = 0; i < count && !in->failed; i++)
		if (reader_u16(in) != 0)
			bits |= count == 1 ? UINT32_MAX : i < 32 ? 1U << i : 0;
	return bits;
}

static void on_bind(struct client *client, struct reader *in)
{
	struct console *console = client->console;
	const char *portal = reader_text(in);
	const char *statement = reader_text(in);
	read_formats(in);
	uint32_t parameters = reader_u16(in);
	for (uint32_t i = 0; i < parameters && !in->failed; i++) {
		uint32_t size = reader_u32(in);
		reader_bytes(in, size == UINT32_MAX ? 0 : size);
	}
	uint32_t binary = read_formats(in);
	if (!reader_done(in))
		client_fail(client, NULL, "bad packet");
	else if (parameters > 0)
		extended_error(client, SQLSTATE_PROTOCOL_VIOLATION,
		               "commands of the admin console have no parameters");
	else if (!text_is(&console->statement, statement))
		extended_error(client, "26000", "prepared statement does not exist");
	else if (text_keep(client, &console->portal, portal, console->statement.text)) {
		console->binary = binary;
		send_empty(client, '2');
	}
}

static void on_describe(struct client *client, struct reader *in)
{
	struct console *console = client->console;
	bool is_statement = reader_u8(in) == 'S';
	const struct console_text *kept = is_statement ? &console->statement : &console->portal;
	const char *name = reader_text(in);
	if (!reader_done(in)) {
		client_fail(client, NULL, "bad packet");
		return;
	}
	if (!text_is(kept, name)) {
		extended_error(client, is_statement ? "26000" : "34000",
		               is_statement ? "prepared statement does not exist"
		                            : "portal does not exist");
		return;
	}
	struct result result;
	result_init(&result, is_statement ? 0 : console->binary);
	bool is_good = show_describe(&result, kept->text);
	uint32_t size;
	char *bytes = result_take(&result, &size);
	if (!is_good) {
		console_invalid(client, kept->text);
		console->skipping = true;
	} else if (bytes == NULL) {
		client_fail(client, "53200", "out of memory");
	} else {
		static const uint8_t no_parameters[] = {'t', 0, 0, 0, 6, 0, 0};
		if (is_statement)
			conn_send_copy(&client->conn, no_parameters, sizeof no_parameters);
		conn_send_copy(&client->conn, bytes, size);
	}
	free(bytes);
}

static void on_execute(struct client *client, struct reader *in)
{
	struct console *console = client->console;
	const char *name = reader_text(in);
	reader_u32(in); /* the limit of rows: all are sent, the tables are short */
	if (!reader_done(in))
		client_fail(client, NULL, "bad packet");
	else if (!text_is(&console->portal, name))
		extended_error(client, "34000", "portal does not exist");
	else
		console_send(client, console->portal.text, (uint32_t)strlen(console->portal.text),
		             true);
}

static void on_close(struct client *client, struct reader *in)
{
	struct console *console = client->console;
	struct console_text *kept = reader_u8(in) == 'S' ? &console->statement : &console->portal;
	const char *name = reader_text(in);
	if (!reader_done(in)) {
		client_fail(client, NULL, "bad packet");
		return;
	}
	if (text_is(kept, name)) {
		free(kept->text);
		kept->text = NULL;
	}
	send_empty(client, '3');
}

static void on_sync(struct client *client)
{
	uint8_t packet[8];
	struct writer out = writer_over(packet, sizeof packet);
	client->console->skipping = false;
	write_ready(&out, 'I');
	conn_send_copy(&client->conn, packet, out.size);
}

void console_extended(struct client *client, uint8_t type, struct span body)
{
	struct reader in = reader_of(body);
	if (type == 'S')
		on_sync(client);
	else if (client->console->skipping)
		return;
	else if (type == 'P')
		on_parse(client, &in);
	else if (type == 'B')
		on_bind(client, &in);
	else if (type == 'D')
		on_describe(client, &in);
	else if (type == 'E')
		on_execute(client, &in);
	else if (type == 'C')
		on_close(client, &in);
	/* Flush: nothing is held back */
}

/* The same reply without its RowDescription, which Describe has given. */
void console_extended_reply(struct client *client, struct span reply)
{
	struct reader in = reader_of(reply);
	while (reader_left(&in) > 0) {
		const uint8_t *message = in.at;
		uint8_t type = reader_u8(&in);
		uint32_t length = reader_u32(&in);
		CHECK(length >= 4);
		reader_bytes(&in, length - 4);
		CHECK(!in.failed); /* we have made it ourselves */
		if (type != 'T') {
			/* from here on there is no other RowDescription */
			conn_send_copy(&client->conn, message, (uint32_t)(in.end - message));
			client->console->skipping = type == 'E';
			return;
		}
	}
}
