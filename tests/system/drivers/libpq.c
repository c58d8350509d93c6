/*
 * libpq: simple queries, prepared statements by name, pipelines with one Sync and with several,
 * COPY, cursors, cancel requests, large objects.  scenarios.py tells what each line shows.
 *
 * An answer is text: the first value of a result, or the SQLSTATE of what failed.  Answers lie in a
 * few buffers that are used in turn, so that several of them can stand in one call.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <libpq-fe.h>
#include <libpq/libpq-fs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 1024, TEXTS = 64, STATEMENTS_MAX = 64 };

static char **args;
static PGconn *db;
static const char *schema;
static char notice[TEXT_SIZE];
static char statements[STATEMENTS_MAX][TEXT_SIZE]; /* prepared under their position here */
static int statements_count;

static char *text_next(void)
{
	static char texts[TEXTS][TEXT_SIZE];
	static int at;

	at = (at + 1) % TEXTS;
	return texts[at];
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
	char *made = text_next();
	va_list list;

	va_start(list, format);
	vsnprintf(made, TEXT_SIZE, format, list);
	va_end(list);
	return made;
}

/* Takes a result away; the first value in it or the SQLSTATE. */
static char *answer(PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	char *made = "";

	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
		made = text("%s", PQgetvalue(result, 0, 0));
	else if (state)
		made = text("%s", state);
	else if (PQresultStatus(result) == PGRES_FATAL_ERROR)
		made = "error";
	PQclear(result);
	return made;
}

static char *run(const char *sql)
{
	return answer(PQexec(db, sql));
}

static char *count(const char *table)
{
	return run(text("select count(*) from %s.%s", schema, table));
}

/* Prepares a text the first time it comes.  An error of Parse is the answer. */
static char *prepared(const char *sql, const char *value)
{
	int at = 0, parameters = strstr(sql, "$1") ? 1 : 0;
	char *state;

	while (at < statements_count && strcmp(statements[at], sql))
		at++;
	if (at == statements_count) {
		state = answer(PQprepare(db, text("s%d", at), sql, 0, NULL));
		if (*state)
			return state;
		snprintf(statements[statements_count++], TEXT_SIZE, "%s", sql);
	}
	return answer(PQexecPrepared(db, text("s%d", at), parameters, &value, NULL, NULL, 0));
}

static void notice_keep(void *unused, const PGresult *result)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	(void)unused;
	snprintf(notice, sizeof(notice), "%s", message ? message : "none");
}

static void open_db(void)
{
	const char *const keys[] = {"host", "port", "user", "password", "dbname", "sslmode", NULL};
	const char *const values[] = {args[1], args[2], args[3], args[4], args[5], "disable", NULL};

	db = PQconnectdbParams(keys, values, 0);
	if (PQstatus(db) != CONNECTION_OK) {
		printf("connect: failed %s", PQerrorMessage(db));
		exit(1);
	}
	statements_count = 0;
	PQsetNoticeReceiver(db, notice_keep, NULL);
}

static void transactions(void)
{
	char *a, *b;

	run("begin");
	run(text("insert into %s.t values (1, 'a'), (2, 'b')", schema));
	run("commit");
	printf("transaction commit: %s\n", count("t"));
	run("begin");
	run(text("delete from %s.t", schema));
	a = count("t");
	run("rollback");
	printf("transaction rollback: %s %s\n", a, count("t"));
	run("begin");
	run("set local work_mem = '123kB'");
	a = run("show work_mem");
	run("commit");
	printf("transaction settings: %s %s\n", a, run("show work_mem"));
	run("begin");
	a = run("select 1/0");
	b = run("select 1");
	run("rollback");
	printf("transaction failed: %s %s %s\n", a, b, run("select 1"));
}

static void prepares(void)
{
	char *a, *b, *c;
	long sum = 0;

	for (int i = 1; i <= 20; i++)
		sum += strtol(prepared("select $1::int * 2", text("%d", i)), NULL, 10);
	printf("prepared repeated: %ld\n", sum);
	sum = 0;
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 10; k++)
			sum += strtol(prepared(text("select $1::int + %d", k), text("%d", i)), NULL,
			              10);
	printf("prepared texts: %ld\n", sum);
	a = prepared("select 10 / $1::int", "5");
	b = prepared("select 10 / $1::int", "0");
	printf("prepared error: %s %s %s\n", a, b, prepared("select 10 / $1::int", "2"));
	c = text("select count(*) from %s.later where v = $1::int", schema);
	a = prepared(c, "1");
	run(text("create table %s.later as select 1 as v", schema));
	printf("prepared parse error: %s %s\n", a, prepared(c, "1"));
	answer(PQprepare(db, "again", "select $1::int", 0, NULL));
	c = "7";
	a = answer(PQexecPrepared(db, "again", 1, (const char *const *)&c, NULL, NULL, 0));
	run("deallocate again");
	answer(PQprepare(db, "again", "select $1::int", 0, NULL));
	b = answer(PQexecPrepared(db, "again", 1, (const char *const *)&c, NULL, NULL, 0));
	printf("prepared again: %s %s\n", a, b);
	run("begin");
	for (int i = 3; i < 13; i++)
		prepared(text("insert into %s.t values ($1::int, 'x')", schema), text("%d", i));
	a = count("t");
	run("rollback");
	printf("prepared in transaction: %s %s\n", a, count("t"));
}

/* Reads a pipeline to its end: the answers of its steps, the Syncs counted. */
static char *pipeline_read(int syncs)
{
	char *all = text_next(), *one;
	PGresult *result;

	all[0] = '\0';
	while (syncs) {
		result = PQgetResult(db);
		if (!result)
			continue;
		if (PQresultStatus(result) == PGRES_PIPELINE_SYNC)
			syncs--;
		if (PQresultStatus(result) == PGRES_PIPELINE_SYNC ||
		    PQresultStatus(result) == PGRES_PIPELINE_ABORTED) {
			PQclear(result);
			continue;
		}
		one = answer(result);
		if (*one)
			snprintf(all + strlen(all), TEXT_SIZE - strlen(all), " %s", one);
	}
	return all;
}

static void pipeline_send(const char *sql, const char *value)
{
	PQsendQueryParams(db, sql, 1, NULL, &value, NULL, NULL, 0);
}

static void batches(void)
{
	char *a, *insert = text("insert into %s.t values ($1::int, 'x')", schema);

	PQenterPipelineMode(db);
	PQsendPrepare(db, "square", "select $1::int * $1::int", 0, NULL);
	for (int i = 1; i <= 10; i++) {
		const char *value = text("%d", i);
		PQsendQueryPrepared(db, "square", 1, &value, NULL, NULL, 0);
	}
	PQpipelineSync(db);
	printf("batch:%s\n", pipeline_read(1));
	pipeline_send(insert, "100");
	pipeline_send(insert, "101");
	pipeline_send("select 1 / $1::int", "0");
	pipeline_send(insert, "102");
	PQpipelineSync(db);
	a = pipeline_read(1);
	PQexitPipelineMode(db);
	printf("batch error:%s %s %s\n", a,
	       run(text("select count(*) from %s.t where id >= 100", schema)), run("select 7"));
	PQenterPipelineMode(db);
	pipeline_send("select 1 / $1::int", "0");
	PQpipelineSync(db);
	pipeline_send("select 1 / $1::int", "1");
	PQpipelineSync(db);
	printf("batch segments:%s\n", pipeline_read(2));
	PQexitPipelineMode(db);
}

/* Copies lines in; with `why`, gives up after them. */
static char *copy_in(const char *lines, const char *why)
{
	answer(PQexec(db, text("copy %s.c from stdin", schema)));
	PQputCopyData(db, lines, (int)strlen(lines));
	PQputCopyEnd(db, why);
	char *state = answer(PQgetResult(db));
	PQclear(PQgetResult(db));
	return state;
}

static void copies(void)
{
	static char lines[32768];
	size_t size = 0;
	char *line, *a;
	long sum = 0;
	int lines_count = 0;

	run(text("create table %s.c (id int primary key, v text)", schema));
	for (int i = 1; i <= 1000; i++)
		size += (size_t)snprintf(lines + size, sizeof(lines) - size, "%d\tv%d\n", i, i);
	copy_in(lines, NULL);
	printf("copy in: %s %s\n", count("c"), run(text("select sum(id) from %s.c", schema)));
	answer(PQexec(db, text("copy (select id, v from %s.c order by id) to stdout", schema)));
	while (PQgetCopyData(db, &line, 0) > 0) {
		sum += strtol(line, NULL, 10);
		lines_count++;
		PQfreemem(line);
	}
	answer(PQgetResult(db));
	PQclear(PQgetResult(db));
	printf("copy out: %d %ld\n", lines_count, sum);
	a = copy_in("5000\ta\n1\tb\n", NULL);
	printf("copy error: %s %s\n", a, count("c"));
	a = copy_in("5000\ta\n", "no");
	printf("copy given up: %s %s\n", a, count("c"));
}

/* Fetches from a cursor: how many rows, and their sum. */
static int fetch(const char *name, int rows, long *sum, char *list)
{
	PGresult *result = PQexec(db, text("fetch %d from %s", rows, name));
	int got = PQntuples(result);

	for (int i = 0; i < got; i++) {
		*sum += strtol(PQgetvalue(result, i, 0), NULL, 10);
		if (list)
			snprintf(list + strlen(list), TEXT_SIZE - strlen(list), " %s",
			         PQgetvalue(result, i, 0));
	}
	PQclear(result);
	return got;
}

static void cursors(void)
{
	char *list = text_next();
	long sum = 0;
	int parts[3];

	list[0] = '\0';
	run("begin");
	run("declare a cursor for select generate_series(1, 250)");
	for (int i = 0; i < 3; i++)
		parts[i] = fetch("a", 100, &sum, NULL);
	run("commit");
	printf("cursor: %d %d %d %ld\n", parts[0], parts[1], parts[2], sum);
	run("begin");
	run("declare a cursor for select generate_series(1, 250)");
	run("declare b cursor for select generate_series(1001, 1250)");
	fetch("a", 3, &sum, list);
	fetch("b", 3, &sum, list);
	fetch("a", 3, &sum, list);
	run("commit");
	printf("cursors:%s\n", list);
}

static void *cancel_soon(void *cancel)
{
	char error[256];

	usleep(500000);
	PQcancel(cancel, error, sizeof(error));
	return NULL;
}

static void cancels(void)
{
	PGcancel *cancel = PQgetCancel(db);
	pthread_t thread;
	char *a;

	run("begin");
	run("select 1");
	pthread_create(&thread, NULL, cancel_soon, cancel);
	a = run("select pg_sleep(10)");
	pthread_join(thread, NULL);
	PQfreeCancel(cancel);
	run("rollback");
	printf("cancel: %s %s\n", a, run("select 1"));
}

static void savepoints(void)
{
	char *a;

	run("begin");
	run(text("insert into %s.t values (3, 'c')", schema));
	run("savepoint s");
	a = run(text("insert into %s.t values (3, 'c')", schema));
	run("rollback to savepoint s");
	run(text("insert into %s.t values (4, 'd')", schema));
	run("release savepoint s");
	run("commit");
	printf("savepoint: %s %s\n", a, count("t"));
}

static void large_objects(void)
{
	static char data[100000];
	unsigned char part[10] = {0};
	int file, size;
	Oid oid;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i % 251);
	run("begin");
	oid = lo_creat(db, INV_READ | INV_WRITE);
	file = lo_open(db, oid, INV_READ | INV_WRITE);
	lo_write(db, file, data, sizeof(data));
	lo_lseek(db, file, 50000, SEEK_SET);
	lo_read(db, file, (char *)part, sizeof(part));
	size = lo_lseek(db, file, 0, SEEK_END);
	lo_close(db, file);
	lo_unlink(db, oid);
	run("commit");
	printf("large object: %d ", size);
	for (size_t i = 0; i < sizeof(part); i++)
		printf("%02x", part[i]);
	printf("\n");
}

static void times(void)
{
	char *a, *counts[3];

	run("begin");
	run("set local statement_timeout = 100");
	a = run("select pg_sleep(10)");
	run("rollback");
	printf("timeout: %s %s\n", a, run("show statement_timeout"));
	for (int i = 0; i < 3; i++) {
		PQfinish(db);
		open_db();
		counts[i] = count("t");
	}
	printf("reconnect: %s %s %s\n", counts[0], counts[1], counts[2]);
	run("select pg_terminate_backend(pg_backend_pid())");
	a = *run("select 1") == '1' ? "no error" : "error";
	PQfinish(db);
	open_db();
	printf("killed: %s %s\n", a, run("select 1"));
}

/* Sends a value as text or in binary, as a parameter of the type, and gets it back in text. */
static void type(const char *name, const char *kind, const char *shown, const char *value,
                 size_t size)
{
	char *sql = text("select $1::%s, %s", kind, shown);
	int binary = size > 0, length = (int)size;
	PGresult *result = PQexecParams(db, sql, 1, NULL, &value, &length, &binary, binary);
	int same = PQntuples(result) == 1;

	if (same && !value)
		same = PQgetisnull(result, 0, 0);
	else if (same && binary)
		same = PQgetlength(result, 0, 0) == length &&
		       !memcmp(PQgetvalue(result, 0, 0), value, size);
	else if (same)
		same = !strcmp(PQgetvalue(result, 0, 0), value);
	printf("type %s: %s %s\n", name, PQntuples(result) ? PQgetvalue(result, 0, 1) : "failed",
	       same ? "same" : "differs");
	PQclear(result);
}

static void types(void)
{
	static char bytes[256];
	const char *time =
		"to_char($1::timestamptz at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')";

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	type("int2", "int2", "$1::int2::text", "-32768", 0);
	type("int4", "int4", "$1::int4::text", "2147483647", 0);
	type("int8", "int8", "$1::int8::text", "-9223372036854775808", 0);
	type("numeric", "numeric", "$1::numeric::text", "12345678901234567890.123456789", 0);
	type("text", "text", "encode(convert_to($1, 'UTF8'), 'hex')",
	     "'a\"bc\\d%e$?:x;--/* \u00e4\u20ac\U0001f600\t\n{}~", 0);
	type("bytea", "bytea", "md5($1)", bytes, sizeof(bytes));
	type("int array", "int[]", "$1::int[]::text", "{1,-2,3}", 0);
	type("text array", "text[]", "$1::text[]::text", "{a,\"b\\\"c\",\"d,e\",\"\",NULL}", 0);
	type("jsonb", "jsonb", "$1::jsonb::text", "{\"a\": [1, 2, {\"b\": null}]}", 0);
	type("uuid", "uuid", "$1::uuid::text", "00112233-4455-6677-8899-aabbccddeeff", 0);
	run("begin");
	run("set local timezone = 'UTC'");
	type("timestamptz", "timestamptz", time, "2024-02-29 12:34:56.789012+00", 0);
	run("commit");
	type("bool", "bool", "$1::bool::text", "t", 0);
	type("float max", "float8", "$1::float8::text", "1.7976931348623157e+308", 0);
	type("float min", "float8", "$1::float8::text", "5e-324", 0);
	type("float infinity", "float8", "$1::float8::text", "-Infinity", 0);
	type("null", "text", "coalesce($1, 'null')", NULL, 0);
}

static void errors(void)
{
	PGresult *result;

	printf("error unique: %s\n", run(text("insert into %s.t values (1, 'a')", schema)));
	printf("error syntax: %s\n", run("selekt 1"));
	printf("error division: %s\n", prepared("select 1 / $1::int", "0"));
	result = PQexec(db, "do $$ begin raise exception 'message' using detail = 'detail', "
	                    "hint = 'hint'; end $$");
	printf("error raised: %s", PQresultErrorField(result, PG_DIAG_SQLSTATE));
	printf(" %s", PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
	printf(" %s", PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL));
	printf(" %s\n", PQresultErrorField(result, PG_DIAG_MESSAGE_HINT));
	PQclear(result);
	run("do $$ begin raise notice 'hello'; end $$");
	printf("notice: %s\n", notice);
}

/* What was prepared is gone afterwards, and can be prepared under its name again. */
static void discard(const char *command, const char *value)
{
	char *sql = text("select $1::int + 0 * %s", value), *a, *b;

	a = prepared(sql, value);
	run(command);
	b = prepared(sql, value);
	statements_count = 0;
	printf("%s: %s %s %s\n", command, a, b, prepared(sql, value));
}

static void large(void)
{
	static char value[1000001];
	const char *parameter = value, *rows = "5000";
	const char *sql = "select g, repeat('x', 1000) from generate_series(1, $1::int) g";
	PGresult *result = PQexecParams(db, sql, 1, NULL, &rows, NULL, NULL, 0);
	long size = 0;

	for (int i = 0; i < PQntuples(result); i++)
		size += PQgetlength(result, i, 1);
	printf("large result: %d %ld\n", PQntuples(result), size);
	PQclear(result);
	memset(value, 'x', sizeof(value) - 1);
	sql = "select length($1) || ' ' || md5($1)";
	printf("large parameter: %s\n",
	       answer(PQexecParams(db, sql, 1, NULL, &parameter, NULL, NULL, 0)));
	printf("several statements:");
	PQsendQuery(db, "select 1; select 2");
	for (result = PQgetResult(db); result; result = PQgetResult(db))
		printf(" %s", answer(result));
	printf("\n");
}

int main(int count_of_args, char **values)
{
	static void (*const scenarios[])(void) = {transactions, prepares, batches,    copies,
	                                          cursors,      cancels,  savepoints, large_objects,
	                                          times,        types,    errors};

	if (count_of_args < 7)
		return 2;
	args = values;
	schema = args[6];
	open_db();
	run(text("drop schema if exists %s cascade", schema));
	run(text("create schema %s", schema));
	run(text("create table %s.t (id int primary key, v text)", schema));
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		scenarios[i]();
		fflush(stdout);
	}
	discard("deallocate all", "21");
	discard("discard all", "22");
	large();
	run(text("drop schema %s cascade", schema));
	PQfinish(db);
	return 0;
}
