/*
 * The console without a network: what its grammar takes, what each right may
 * do, and that every SHOW is a well-formed result, in text and in binary.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/admin/admin.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/admin/collect.h"
#include "core/admin/result.h"
#include "core/admin/show.h"
#include "core/admin/stats.h"
#include "core/base/check.h"
#include "core/config.h"
#include "core/process.h"
#include "proto/read.h"

/* ---- The grammar ---- */

#define X15  "xxxxxxxxxxxxxxx"
#define X63  X15 X15 X15 X15 "xxx"
#define X255 X63 X63 X63 X63 "xxx"

struct parse_case {
	const char *text;
	enum admin_status status;
	const char *word, *argument, *value; /* of a good one; NULL: none */
};

static const struct parse_case parse_cases[] = {
	{"SHOW POOLS", ADMIN_GOOD, "SHOW", "POOLS", ""},
	{"show  pools ;", ADMIN_GOOD, "SHOW", "pools", ""},
	{" \t\r\n\v\fShow\nPools\t;\n", ADMIN_GOOD, "SHOW", "Pools", ""},
	{"SHOW POOLS;", ADMIN_GOOD, "SHOW", "POOLS", ""},
	{"show \"POOLS\"", ADMIN_GOOD, "SHOW", "POOLS", ""},
	{"\"show\" pools", ADMIN_GOOD, "SHOW", "pools", ""},
	{"select version", ADMIN_GOOD, "SELECT", "version", ""},
	{"RELOAD", ADMIN_GOOD, "RELOAD", NULL, ""},
	{"RELOAD ;", ADMIN_GOOD, "RELOAD", NULL, ""},
	{"PAUSE", ADMIN_GOOD, "PAUSE", NULL, ""},
	{"PAUSE Db_1", ADMIN_GOOD, "PAUSE", "Db_1", ""},
	{"PAUSE \"my-db\"", ADMIN_GOOD, "PAUSE", "my-db", ""},
	{"PAUSE \"a\"\"b\"", ADMIN_GOOD, "PAUSE", "a\"b", ""},
	{"PAUSE \"\"", ADMIN_GOOD, "PAUSE", "", ""},
	{"PAUSE \"x;y z\" ;", ADMIN_GOOD, "PAUSE", "x;y z", ""},
	{"PAUSE \xc3\xa4", ADMIN_INVALID, NULL, NULL, NULL},
	{"PAUSE \"\xc3\xa4\"", ADMIN_GOOD, "PAUSE", "\xc3\xa4", ""},
	{"KILL_CLIENT 17", ADMIN_GOOD, "KILL_CLIENT", "17", ""},
	{"SHUTDOWN WAIT_FOR_SERVERS", ADMIN_GOOD, "SHUTDOWN", "WAIT_FOR_SERVERS", ""},
	{"PAUSE " X63, ADMIN_GOOD, "PAUSE", X63, ""},
	{"PAUSE \"" X63 "\"", ADMIN_GOOD, "PAUSE", X63, ""},

	{"SET a = b", ADMIN_GOOD, "SET", "a", "b"},
	{"set a=b", ADMIN_GOOD, "SET", "a", "b"},
	{"SET a='b'", ADMIN_GOOD, "SET", "a", "b"},
	{"SET a = 'it''s' ; ", ADMIN_GOOD, "SET", "a", "it's"},
	{"SET a = ''", ADMIN_GOOD, "SET", "a", ""},
	{"SET a TO b", ADMIN_GOOD, "SET", "a", "b"},
	{"SET a to'b'", ADMIN_GOOD, "SET", "a", "b"},
	{"SET a = \"b c\"", ADMIN_GOOD, "SET", "a", "b c"},
	{"SET \"a\" = b", ADMIN_GOOD, "SET", "a", "b"},
	{"SET to = to", ADMIN_GOOD, "SET", "to", "to"},
	{"SET a = '" X255 "'", ADMIN_GOOD, "SET", "a", X255},

	{"", ADMIN_INVALID, NULL, NULL, NULL},
	{" ", ADMIN_INVALID, NULL, NULL, NULL},
	{";", ADMIN_INVALID, NULL, NULL, NULL},
	{";;;;", ADMIN_INVALID, NULL, NULL, NULL},
	{"''", ADMIN_INVALID, NULL, NULL, NULL},
	{"\"\"", ADMIN_INVALID, NULL, NULL, NULL},
	{"\"", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW ;", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW \"", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW \"pools", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW POOLS;;", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW POOLS x", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW POOLS; SHOW POOLS", ADMIN_INVALID, NULL, NULL, NULL},
	{"KILL x; RELOAD", ADMIN_INVALID, NULL, NULL, NULL},
	{"-- SHOW POOLS", ADMIN_INVALID, NULL, NULL, NULL},
	{"SHOW POOLS -- x", ADMIN_INVALID, NULL, NULL, NULL},
	{"PAUSE my-db", ADMIN_INVALID, NULL, NULL, NULL},
	{"PAUSE\"x\"", ADMIN_INVALID, NULL, NULL, NULL},
	{"PAUSE 'x'", ADMIN_INVALID, NULL, NULL, NULL},
	{"RELOAD x", ADMIN_INVALID, NULL, NULL, NULL},
	{"SUSPEND x", ADMIN_INVALID, NULL, NULL, NULL},
	{"FETCH x", ADMIN_INVALID, NULL, NULL, NULL},
	{"BEGIN", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET a", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET a =", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET a = b c", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET a = 'b", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET a = b; SET c = d", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET ato b", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET a tob", ADMIN_INVALID, NULL, NULL, NULL},
	{"SET\"a\"=b", ADMIN_INVALID, NULL, NULL, NULL},

	{X15 "x", ADMIN_TOO_LONG, NULL, NULL, NULL},
	{X15, ADMIN_INVALID, NULL, NULL, NULL},
	{"PAUSE " X63 "x", ADMIN_TOO_LONG, NULL, NULL, NULL},
	{"PAUSE \"" X63 "x\"", ADMIN_TOO_LONG, NULL, NULL, NULL},
	{"SET " X63 "x = b", ADMIN_TOO_LONG, NULL, NULL, NULL},
	{"SET a = '" X255 "x'", ADMIN_TOO_LONG, NULL, NULL, NULL},
	{"PAUSE " X63 "x; RELOAD", ADMIN_INVALID, NULL, NULL, NULL},
};

Test(admin, grammar)
{
	for (size_t i = 0; i < ARRAY_LEN(parse_cases); i++) {
		const struct parse_case *c = &parse_cases[i];
		struct admin_request request;
		enum admin_status status = admin_parse(c->text, &request);
		cr_assert_eq(status, c->status, "%s", c->text);
		if (status != ADMIN_GOOD)
			continue;
		cr_assert_str_eq(request.command->word, c->word, "%s", c->text);
		cr_assert_eq(request.has_argument, c->argument != NULL, "%s", c->text);
		if (c->argument != NULL)
			cr_assert_str_eq(request.argument, c->argument, "%s", c->text);
		cr_assert_str_eq(request.value, c->value, "%s", c->text);
	}
	const char *value;
	cr_assert_str_eq(admin_fake_setting("DateStyle", &value), "datestyle");
	cr_assert_str_eq(value, "ISO");
	cr_assert_null(admin_fake_setting("pools", &value));
	cr_assert_null(admin_fake_setting("", &value));
}

Test(admin, rights)
{
	bool seen[VERB_COUNT] = {false};
	for (size_t i = 0; i < admin_command_count; i++) {
		const struct admin_command *command = &admin_commands[i];
		enum admin_right needed = command->verb == VERB_SHOW ? RIGHT_STATS : RIGHT_ADMIN;
		cr_assert_eq(command->right, needed, "%s", command->word);
		cr_assert_leq(strlen(command->word), ADMIN_COMMAND_MAX, "%s", command->word);
		seen[command->verb] = true;
	}
	for (int i = 0; i < VERB_COUNT; i++)
		cr_assert(seen[i], "verb %d has no command", i);
	const struct show *show;
	for (uint32_t i = 0; (show = show_at(i)) != NULL; i++) {
		bool is_secret = strcmp(show->name, "FDS") == 0;
		cr_assert_eq(show->right, is_secret ? RIGHT_ADMIN : RIGHT_STATS, "%s", show->name);
		cr_assert_eq(show_find(show->name), show);
	}
	cr_assert_null(show_find("nothing"));
}

/* ---- Results ---- */

static const uint32_t oids[] = {
	[COLUMN_TEXT] = 25, [COLUMN_INT4] = 23, [COLUMN_INT8] = 20, [COLUMN_NUMERIC] = 1700};

/* Reads a RowDescription as strictly as a client may. */
static void check_columns(struct reader *in, const struct column *columns, uint32_t count,
                          uint32_t binary)
{
	cr_assert_eq(reader_u16(in), count);
	for (uint32_t i = 0; i < count; i++) {
		cr_assert_str_eq(reader_text(in), columns[i].name);
		cr_assert_eq(reader_u32(in), 0);
		cr_assert_eq(reader_u16(in), 0);
		cr_assert_eq(reader_u32(in), oids[columns[i].type]);
		uint16_t size = reader_u16(in);
		cr_assert_eq(size, columns[i].type == COLUMN_INT4   ? 4
		                   : columns[i].type == COLUMN_INT8 ? 8
		                                                    : UINT16_MAX);
		cr_assert_eq(reader_u32(in), UINT32_MAX);
		cr_assert_eq(reader_u16(in), binary >> i & 1);
	}
}

static void check_cell(struct span cell, enum column_type type, bool is_binary)
{
	if (type == COLUMN_TEXT)
		return;
	if (!is_binary) {
		cr_assert(cell.size > 0 && cell.size <= 20);
		for (uint32_t i = 0; i < cell.size; i++)
			cr_assert(cell.data[i] >= '0' && cell.data[i] <= '9');
		return;
	}
	if (type == COLUMN_INT4) {
		cr_assert_eq(cell.size, 4);
	} else if (type == COLUMN_INT8) {
		cr_assert_eq(cell.size, 8);
	} else {
		struct reader in = reader_of(cell);
		uint32_t digits = reader_u16(&in);
		reader_bytes(&in, 6);
		for (uint32_t i = 0; i < digits; i++)
			cr_assert_lt(reader_u16(&in), 10000);
		cr_assert(reader_done(&in));
	}
}

static void check_row(struct reader *in, const struct column *columns, uint32_t count,
                      uint32_t binary)
{
	cr_assert_eq(reader_u16(in), count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t size = reader_u32(in);
		if (size != UINT32_MAX)
			check_cell(reader_bytes(in, size), columns[i].type, binary >> i & 1);
	}
}

static void check_notice(struct span body)
{
	cr_assert_eq(body.data[body.size - 1], 0);
	cr_assert_str_eq(error_field(body, 'S'), "NOTICE");
	cr_assert_str_eq(error_field(body, 'C'), "00000");
	cr_assert_str_eq(error_field(body, 'M'), "Console usage");
	const char *detail = error_field(body, 'D');
	cr_assert_eq(detail[0], '\n');
	cr_assert_not_null(strstr(detail, "\n\tWAIT_CLOSE [<db>]"));
}

/* The number of rows. */
static uint32_t check_result(const char *bytes, uint32_t size, const struct show *show,
                             uint32_t binary)
{
	struct reader in = reader_of(span_of(bytes, size));
	uint32_t rows = 0;
	bool is_ended = false, is_described = false;
	while (reader_left(&in) > 0) {
		cr_assert_not(is_ended, "%s: bytes behind the end", show->name);
		uint8_t type = reader_u8(&in);
		uint32_t length = reader_u32(&in);
		cr_assert_geq(length, 4);
		struct span span = reader_bytes(&in, length - 4);
		cr_assert_not(in.failed);
		struct reader body = reader_of(span);
		if (type == 'T') {
			check_columns(&body, show->columns, show->column_count, binary);
			is_described = true;
		} else if (type == 'D') {
			cr_assert(is_described);
			check_row(&body, show->columns, show->column_count, binary);
			rows++;
		} else if (type == 'C') {
			cr_assert_str_eq(reader_text(&body), "SHOW");
			is_ended = true;
		} else if (type == 'N') {
			check_notice(span);
			continue;
		} else {
			cr_assert_eq(type, 'E');
			cr_assert_str_eq(show->name, "FDS");
			return 0;
		}
		cr_assert(reader_done(&body), "%s: message %c", show->name, type);
	}
	cr_assert(is_ended);
	return rows;
}

struct world {
	struct process process;
	struct config *config;
	struct rows rows;
	struct stats stats;
	struct database *database;
	struct user *user;
};

static void world_pool(struct world *world, uint32_t id, const char *database)
{
	struct pool_row *row = row_add(&world->rows.pools, sizeof *row);
	row->id = id;
	row->database = database;
	row->user = world->user->name;
	row->mode = POOL_TRANSACTION;
	row->clients_active = 3;
	row->wait_us = 1500000;
	row->counters.xact_count = UINT64_MAX;
	row->counters.client_bytes = 123456789;
}

static void world_socket(struct world *world, enum socket_kind kind, uint64_t id)
{
	struct socket_row *row = row_add(&world->rows.sockets, sizeof *row);
	row->kind = kind;
	row->id = id;
	row->pointer = 0x1000 + id;
	row->connect_us = 1000000;
	row->request_us = kind == SOCKET_SERVER ? 0 : 2000000;
	row->wait_us = 2500001;
	row->peer.family = id % 2 == 0 ? AF_INET : AF_UNIX;
	if (kind == SOCKET_CLIENT_LOGIN)
		return; /* its names are not known */
	row->database = world->database->name;
	row->user = world->user->name;
	row->bytes_in = 5;
	memcpy(row->application_name, "psql", 5);
}

static void world_open(struct world *world)
{
	bool made_auto;
	struct database_entry entry;
	struct user_entry user;
	memset(world, 0, sizeof *world);
	world->config = config_default();
	database_entry_init(&entry, "shop");
	entry.host = "a,b";
	config_add_database(world->config, &entry);
	database_entry_init(&entry, "unused");
	entry.user = "forced";
	config_add_database(world->config, &entry);
	user_entry_init(&user, "alice");
	user.pool_size = 7;
	config_add_user(world->config, &user);
	registry_init(&world->process.registry, 2, 1);
	struct registry *registry = &world->process.registry;
	world->database = registry_database(registry, world->config, "shop", &made_auto);
	world->user = registry_user(registry, world->config, "bob");
	world_pool(world, 0, "shop");
	world_pool(world, POOL_ROW_CONSOLE, "pgbouncer");
	for (int kind = 0; kind <= SOCKET_SERVER_BEING_CANCELED; kind++)
		world_socket(world, (enum socket_kind)kind, (uint64_t)kind + 1);
	struct worker_row *worker = row_add(&world->rows.workers, sizeof *worker);
	worker->index = 1;
	worker->cpu = 3;
	worker = row_add(&world->rows.workers, sizeof *worker);
	worker->cpu = -1;
	struct memory_row *memory = row_add(&world->rows.memories, sizeof *memory);
	memory->name = "client_cache";
	stats_init(&world->stats, 0);
}

static void world_close(struct world *world)
{
	rows_fini(&world->rows);
	stats_fini(&world->stats);
	registry_fini(&world->process.registry);
	config_drop(world->config);
}

static char *world_show(struct world *world, const struct show *show, uint32_t binary,
                        uint32_t *size)
{
	const struct show_input input = {
		.process = &world->process,
		.config = world->config,
		.rows = &world->rows,
		.stats = &world->stats,
		.now_us = 10000000,
		.wall_us = 1700000000000000,
	};
	struct result result;
	result_init(&result, binary);
	show_write(&result, show, &input);
	return result_take(&result, size);
}

static const struct {
	const char *name;
	uint32_t rows;
} row_counts[] = {
	{"CLIENTS", 4},        {"SERVERS", 6},      {"SOCKETS", 10},
	{"ACTIVE_SOCKETS", 9}, {"POOLS", 2},        {"DATABASES", 3},
	{"USERS", 3},          {"LISTS", 14},       {"VERSION", 1},
	{"STATE", 3},          {"MEM", 1},          {"STATS", 2},
	{"WORKERS", 2},        {"STATS_TOTALS", 2}, {"STATS_AVERAGES", 2},
	{"TOTALS", 24},        {"PEERS", 0},        {"PEER_POOLS", 0},
	{"DNS_HOSTS", 0},      {"DNS_ZONES", 0},
};

Test(admin, shows)
{
	static const uint32_t binaries[] = {0, UINT32_MAX, 0x55555555};
	struct world world;
	const struct show *show;
	world_open(&world);
	for (uint32_t i = 0; (show = show_at(i)) != NULL; i++) {
		for (size_t k = 0; k < ARRAY_LEN(binaries); k++) {
			uint32_t size;
			char *bytes = world_show(&world, show, binaries[k], &size);
			cr_assert_not_null(bytes);
			uint32_t rows = check_result(bytes, size, show, binaries[k]);
			for (size_t n = 0; n < ARRAY_LEN(row_counts); n++)
				if (strcmp(row_counts[n].name, show->name) == 0)
					cr_assert_eq(rows, row_counts[n].rows, "%s: %u rows",
					             show->name, rows);
			free(bytes);
		}
	}
	world_close(&world);
}

/* The cells of one row, each ended by a bar; NULL is ~. */
static void row_text(const char *bytes, uint32_t size, uint32_t wanted, char *text, size_t room)
{
	struct reader in = reader_of(span_of(bytes, size));
	size_t at = 0;
	text[0] = '\0';
	while (reader_left(&in) > 0) {
		uint8_t type = reader_u8(&in);
		struct reader body = reader_of(reader_bytes(&in, reader_u32(&in) - 4));
		if (type != 'D' || wanted-- > 0)
			continue;
		uint32_t count = reader_u16(&body);
		for (uint32_t i = 0; i < count; i++) {
			uint32_t length = reader_u32(&body);
			struct span cell = reader_bytes(&body, length == UINT32_MAX ? 0 : length);
			at += (size_t)snprintf(text + at, room - at, "%.*s%s|", (int)cell.size,
			                       (const char *)cell.data,
			                       length == UINT32_MAX ? "~" : "");
		}
		return;
	}
}

Test(admin, cells)
{
	static const struct {
		const char *show;
		uint32_t row;
		const char *text;
	} cases[] = {
		{"POOLS", 0, "pgbouncer|bob|3|0|0|0|0|0|0|0|0|0|0|1|500000|transaction|~|"},
		{"POOLS", 1, "shop|bob|3|0|0|0|0|0|0|0|0|0|0|1|500000|transaction|round-robin|"},
		{"DATABASES", 0,
	         "pgbouncer|~|6432|pgbouncer|pgbouncer|2|0|0|3600|statement|~|0|0|0|0|0|0|"},
		{"DATABASES", 1, "shop|a,b|5432|shop|~|20|0|0|3600|~|round-robin|0|0|0|0|0|0|"},
		{"DATABASES", 2, "unused|~|5432|unused|forced|20|0|0|3600|~|~|0|0|0|0|0|0|"},
		{"USERS", 0, "alice|        7||~|0|0|0|0|"},
		{"USERS", 1, "bob|||~|0|0|0|0|"},
		{"USERS", 2, "pgbouncer|||~|0|0|0|0|"},
		{"STATE", 1, "paused|no|"},
		{"WORKERS", 0, "0|~|0|0|0|0|0|0|0|0|0|0|0|"},
		{"WORKERS", 1, "1|3|0|0|0|0|0|0|0|0|0|0|0|"},
		{"CLIENTS", 0,
	         "C|bob|shop|none|idle|unix|6432|unix|6432|2023-11-14 22:13:11 UTC|"
	         "2023-11-14 22:13:12 UTC|2|500001|0|0x1001||0||psql|0|1|"},
	};
	struct world world;
	setenv("TZ", "UTC", 1);
	world_open(&world);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[1024];
		uint32_t size;
		char *bytes = world_show(&world, show_find(cases[i].show), 0, &size);
		row_text(bytes, size, cases[i].row, text, sizeof text);
		cr_assert_str_eq(text, cases[i].text, "%s: %s", cases[i].show, text);
		free(bytes);
	}
	world_close(&world);
}

Test(admin, describe)
{
	static const struct {
		const char *text;
		char type; /* 0: refused */
	} cases[] = {
		{"SHOW POOLS", 'T'},
		{"select version;", 'T'},
		{"SHOW timezone", 'T'},
		{"SHOW HELP", 'n'},
		{"RELOAD", 'n'},
		{"SET a = b", 'n'},
		{"PAUSE x", 'n'},
		{"SHOW FDS", 'n'},
		{"SHOW nothing", 0},
		{"SELECT 1; x", 0},
		{"", 0},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct result result;
		uint32_t size;
		result_init(&result, 0);
		bool is_good = show_describe(&result, cases[i].text);
		char *bytes = result_take(&result, &size);
		cr_assert_eq(is_good, cases[i].type != 0, "%s", cases[i].text);
		cr_assert_eq(size > 0, is_good);
		if (is_good)
			cr_assert_eq(bytes[0], cases[i].type, "%s", cases[i].text);
		free(bytes);
	}
}

/* Numbers in binary: what a client decodes from them. */
Test(admin, numbers)
{
	static const struct column columns[] = {{"i", COLUMN_INT4},
	                                        {"q", COLUMN_INT8},
	                                        {"n", COLUMN_NUMERIC}};
	static const struct {
		uint64_t value;
		int32_t i;
		int64_t q;
		uint16_t digits[6]; /* count, then weight, then some */
	} cases[] = {
		{0, 0, 0, {0, 0}},
		{7, 7, 7, {1, 0, 7}},
		{10000, 10000, 10000, {2, 1, 1, 0}},
		{123456789, 123456789, 123456789, {3, 2, 1, 2345, 6789}},
		{UINT64_MAX, INT32_MAX, INT64_MAX, {5, 4, 1844, 6744, 737, 955}},
	};
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		struct result result;
		uint32_t size;
		result_init(&result, UINT32_MAX);
		result_columns(&result, columns, 3);
		uint32_t from = result.out.size;
		result_row(&result);
		for (int i = 0; i < 3; i++)
			result_number(&result, cases[k].value);
		result_row_end(&result);
		char *bytes = result_take(&result, &size);
		struct reader in = reader_of(span_of(bytes + from + 7, size - from - 7));
		cr_assert_eq(reader_u32(&in), 4);
		cr_assert_eq((int32_t)reader_u32(&in), cases[k].i);
		cr_assert_eq(reader_u32(&in), 8);
		uint64_t high = reader_u32(&in);
		cr_assert_eq((int64_t)(high << 32 | reader_u32(&in)), cases[k].q);
		reader_u32(&in);
		uint16_t count = cases[k].digits[0];
		cr_assert_eq(reader_u16(&in), count);
		cr_assert_eq(reader_u16(&in), cases[k].digits[1]);
		cr_assert_eq(reader_u32(&in), 0);
		for (uint16_t i = 0; i < MIN(count, 4); i++)
			cr_assert_eq(reader_u16(&in), cases[k].digits[2 + i]);
		free(bytes);
	}
}
