# SPDX-License-Identifier: GPL-2.0-or-later
"""The list of scenarios for the drivers in Python.  The program of a driver is a subclass of Driver
that does each step as users of that driver do it, and this file's run().

A program gets: host, port, user, password, database, a schema that it may make, and its mode.
It prints `scenario: result`, the same each time it runs, for each line of expected.txt.  A result is
a value or the SQLSTATE of an error; `failed` with a text is what should not have happened.

In the SQL here {0} and {1} are parameters; NAME is the schema.
"""
import datetime
import decimal
import sys
import uuid

UNABLE = "not in this driver"
TEXT = "'a\"bc\\d%e$?:x;--/* ä€😀\t\n{}~"
BYTES = bytes(range(256))
TIME = datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc)
# Name, type in SQL, how the server shows it, value
TYPES = [
    ("int2", "int2", "{0}::text", -32768),
    ("int4", "int4", "{0}::text", 2147483647),
    ("int8", "int8", "{0}::text", -9223372036854775808),
    ("numeric", "numeric", "{0}::text", decimal.Decimal("12345678901234567890.123456789")),
    ("text", "text", "encode(convert_to({0}, 'UTF8'), 'hex')", TEXT),
    ("bytea", "bytea", "md5({0})", BYTES),
    ("int array", "int[]", "{0}::text", [1, -2, 3]),
    ("text array", "text[]", "{0}::text", ["a", 'b"c', "d,e", "", None]),
    ("jsonb", "jsonb", "{0}::text", {"a": [1, 2, {"b": None}]}),
    ("uuid", "uuid", "{0}::text", uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")),
    ("timestamptz", "timestamptz",
     "to_char({0} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", TIME),
    ("bool", "bool", "{0}::text", True),
    ("float max", "float8", "{0}::text", 1.7976931348623157e308),
    ("float min", "float8", "{0}::text", 5e-324),
    ("float infinity", "float8", "{0}::text", float("-inf")),
    ("null", "text", "coalesce({0}, 'null')", None),
]
RAISE = "do $$ begin raise exception 'message' using detail = 'detail', hint = 'hint'; end $$"
NOTICE = "do $$ begin raise notice 'hello'; end $$"


class Unable(Exception):
    """The driver has nothing like it."""


class Driver:
    """What a driver must bring; `execute` gives rows outside a transaction, unless begin() came."""

    error = Exception

    def __init__(self, arguments):
        self.host, self.port, self.user, self.password, self.database, self.schema = arguments[:6]
        self.port = int(self.port)
        self.mode = arguments[6] if len(arguments) > 6 else ""

    def sqlstate(self, error):
        return error.sqlstate

    def pyformat(self, sql, values):
        """{0} is %(p0)s; text without parameters stays as it is."""
        sql = sql.replace("NAME", self.schema)
        for number in range(len(values)):
            sql = sql.replace("{%d}" % number, f"%(p{number})s")
        return sql, {f"p{i}": v for i, v in enumerate(values)} or None

    def large_object(self, data, at, count):
        """By the server's functions, where a driver has none."""
        oid = self.value("select lo_from_bytea(0, {0}::bytea)", data)
        part = self.value("select lo_get({0}::oid, {1}::bigint, %d)" % count, oid, at)
        size = self.value("select length(lo_get({0}::oid))", oid)
        self.execute("select lo_unlink({0}::oid)", oid)
        return size, part

    def unable(self, *_, **__):
        raise Unable

    batch = segments = copy_in = copy_out = give_up = cursor = cancel = several = unable
    prepare_again = None

    def raised(self, error):
        """Message, detail and hint."""
        return error.diag.message_primary, error.diag.message_detail, error.diag.message_hint

    def adapt(self, value):
        """What is bound for a value of TYPES."""
        return value

    # what is made of these

    def value(self, sql, *values):
        """The first value, or the SQLSTATE."""
        try:
            return self.execute(sql, *values)[0][0]
        except self.error as error:
            return self.sqlstate(error)

    def states(self, action, *values):
        """The SQLSTATE, which must be there."""
        try:
            action(*values)
        except self.error as error:
            return self.sqlstate(error)
        return "no error"

    def count(self, table="t"):
        return self.value(f"select count(*)::int from NAME.{table}")


def transactions(db):
    db.begin()
    db.execute("insert into NAME.t values (1, 'a'), (2, 'b')")
    db.commit()
    yield "transaction commit", db.count()
    db.begin()
    db.execute("delete from NAME.t")
    inside = db.count()
    db.rollback()
    yield "transaction rollback", inside, db.count()
    db.begin()
    db.execute("set local work_mem = '123kB'")
    inside = db.value("show work_mem")
    db.commit()
    yield "transaction settings", inside, db.value("show work_mem")
    db.begin()
    inside = db.value("select 1/0"), db.value("select 1")
    db.rollback()
    yield "transaction failed", *inside, db.value("select 1")


def prepared(db):
    yield "prepared repeated", sum(db.value("select {0}::int * 2", i) for i in range(1, 21))
    yield "prepared texts", sum(db.value(f"select {{0}}::int + {k}", i)
                                for i in range(3) for k in range(10))
    yield "prepared error", *(db.value("select 10 / {0}::int", i) for i in (5, 0, 2))
    missing = db.value("select count(*)::int from NAME.later where v = {0}::int", 1)
    db.execute("create table NAME.later as select 1 as v")
    yield "prepared parse error", missing, db.value(
        "select count(*)::int from NAME.later where v = {0}::int", 1)
    if db.prepare_again:
        yield "prepared again", *db.prepare_again("select {0}::int", 7)
    else:
        yield "prepared again", UNABLE
    db.begin()
    for i in range(3, 13):
        db.execute("insert into NAME.t values ({0}, {1})", i, "x")
    inside = db.count()
    db.rollback()
    yield "prepared in transaction", inside, db.count()


def batches(db):
    yield "batch", *db.batch([("select {0}::int * {0}::int", i) for i in range(1, 11)])
    state = db.states(db.batch, [
        ("insert into NAME.t values ({0}, 'x')", 100), ("insert into NAME.t values ({0}, 'x')", 101),
        ("select 1 / {0}::int", 0), ("insert into NAME.t values ({0}, 'x')", 102)])
    yield "batch error", state, db.value("select count(*)::int from NAME.t where id >= 100"), \
        db.value("select 7")


def segments(db):
    yield "batch segments", *db.segments("select 1 / {0}::int", 0, 1)


def copies(db):
    db.execute("create table NAME.c (id int primary key, v text)")
    db.copy_in("c", [(i, "v%d" % i) for i in range(1, 1001)])
    yield "copy in", db.count("c"), db.value("select sum(id)::int from NAME.c")
    lines = db.copy_out("select id, v from NAME.c order by id").decode().splitlines()
    yield "copy out", len(lines), sum(int(line.partition("\t")[0]) for line in lines)
    yield "copy error", db.states(db.copy_in, "c", [(5000, "a"), (1, "b")]), db.count("c")


def copy_given_up(db):
    yield "copy given up", db.give_up("c", (5000, "a")), db.count("c")


def cursors(db):
    db.begin()
    fetch = db.cursor("select generate_series(1, 250)")
    parts = [fetch(100), fetch(100), fetch(100)]
    db.commit()
    yield "cursor", *map(len, parts), sum(row[0] for part in parts for row in part)
    db.begin()
    a, b = db.cursor("select generate_series(1, 250)"), db.cursor("select generate_series(1001, 1250)")
    rows = a(3) + b(3) + a(3)
    db.commit()
    yield "cursors", *(row[0] for row in rows)


def cancels(db):
    db.begin()
    db.execute("select 1")
    try:
        state = db.states(db.cancel)
    finally:
        db.rollback()
    yield "cancel", state, db.value("select 1")


def savepoints(db):
    db.begin()
    db.execute("insert into NAME.t values (3, 'c')")
    db.execute("savepoint s")
    state = db.states(db.execute, "insert into NAME.t values (3, 'c')")
    db.execute("rollback to savepoint s")
    db.execute("insert into NAME.t values (4, 'd')")
    db.execute("release savepoint s")
    db.commit()
    yield "savepoint", state, db.count()


def large_objects(db):
    db.begin()
    size, part = db.large_object(bytes(i % 251 for i in range(100000)), 50000, 10)
    db.commit()
    yield "large object", size, part.hex()


def timeouts(db):
    db.begin()
    db.execute("set local statement_timeout = 100")
    state = db.states(db.execute, "select pg_sleep(10)")
    db.rollback()
    yield "timeout", state, db.value("show statement_timeout")


def reconnects(db):
    counts = []
    for _ in range(3):
        db.close()
        db.connect()
        counts.append(db.count())
    yield "reconnect", *counts
    try:
        db.execute("select pg_terminate_backend(pg_backend_pid())")
        db.execute("select 1")
        state = "no error"
    except Exception:
        state = "error"
    try:
        db.close()
    except Exception:
        pass
    db.connect()
    yield "killed", state, db.value("select 1")


def types(db):
    for name, kind, shown, value in TYPES:
        try:
            shown = shown.replace("{0}", "({0})::" + kind)
            back, text = db.execute(f"select ({{0}})::{kind}, {shown}", db.adapt(value))[0]
            yield "type " + name, text, "same" if back == value else f"differs: {back!r}"
        except db.error as error:
            yield "type " + name, f"failed {error!r}"


def errors(db):
    yield "error unique", db.states(db.execute, "insert into NAME.t values (1, 'a')")
    yield "error syntax", db.states(db.execute, "selekt 1")
    yield "error division", db.states(db.execute, "select 1 / {0}::int", 0)
    try:
        db.execute(RAISE)
        yield "error raised", "no error"
    except db.error as error:
        yield "error raised", db.sqlstate(error), *db.raised(error)
    yield "notice", *(text.strip() for text in db.notices(NOTICE))


def discards(db):
    for command, number in (("deallocate all", 21), ("discard all", 22)):
        sql = f"select {{0}}::int + 0 * {number}"
        before = [db.value(sql, number) for _ in range(6)]
        db.execute(command)
        yield command, before[5], db.value(sql, number)


def large(db):
    db.begin()
    rows = db.execute("select g, repeat('x', 1000) from generate_series(1, {0}::int) g", 5000)
    db.commit()
    yield "large result", len(rows), sum(len(row[1]) for row in rows)
    yield "large parameter", *db.execute("select length({0}::text), md5({0}::text)", "x" * 1000000)[0]


def several(db):
    yield "several statements", *db.several("select 1; select 2")


# With the names of the lines that a driver cannot print.
SCENARIOS = [
    (transactions,), (prepared,), (batches, "batch", "batch error"), (segments, "batch segments"),
    (copies, "copy in", "copy out", "copy error"), (copy_given_up, "copy given up"),
    (cursors, "cursor", "cursors"), (cancels, "cancel"), (savepoints,), (large_objects,),
    (timeouts,), (reconnects,), (types,), (errors,), (discards,), (large,),
    (several, "several statements"),
]


class AutocommitDriver(Driver):
    """One whose connection has a switch for it, as most by PEP 249."""

    def close(self):
        self.db.close()

    def begin(self):
        self.db.autocommit = False

    def commit(self):
        self.db.commit()
        self.db.autocommit = True

    def rollback(self):
        self.db.rollback()
        self.db.autocommit = True


def run(driver):
    db = driver(sys.argv[1:])
    db.connect()
    for sql in ("drop schema if exists NAME cascade", "create schema NAME",
                "create table NAME.t (id int primary key, v text)"):
        db.execute(sql)
    for scenario, *lines in SCENARIOS:
        try:
            for name, *result in scenario(db):
                print(f"{name}: {' '.join(map(str, result))}", flush=True)
        except Unable:
            for name in lines:
                print(f"{name}: {UNABLE}")
        except Exception as error:
            print(f"{scenario.__name__}: failed {error!r}".replace("\n", " "), flush=True)
            db.close()
            db.connect()
    db.execute("drop schema NAME cascade")
    db.close()
