# SPDX-License-Identifier: GPL-2.0-or-later
"""Prepared statements as drivers use them: the bytes each of them sends, from two clients by turns.

The two clients call their statements the same, as drivers count up from one in each connection, and have
different texts, so that whoever mixes them up answers with the other's value.
"""
import itertools
import struct

from batches import alike
from crowds import together
from harness import same, test
from replay import compare
from wire import B, C, D, E, H, P, Q, S, cstr, message

KEPT = "max_prepared_statements = 200"
ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"


def binary(portal, name, *values):
    """Bind with int4 parameters and results in binary format, as most drivers do."""
    return message("B", cstr(portal) + cstr(name) + struct.pack("!HHH", 1, 1, len(values)) +
                   b"".join(struct.pack("!ii", 4, v) for v in values) + struct.pack("!HH", 1, 1))


def by_turns(stage, steps, clients="AB", rounds=1):
    """steps(client's number): [(messages, reply)]; a step of each client in turn."""
    for _ in range(rounds):
        lists = [[(name, *step) for step in steps(i)] for i, name in enumerate(clients, 1)]
        compare(stage, [step for group in itertools.zip_longest(*lists) for step in group if step])


@test(KEPT, databases=ONE, new=True)
def pgjdbc(stage):
    """Unnamed until the fifth time, S_1 from then on, Describe of portals, Close with the next batch."""
    def steps(i):
        text = f"select $1::int + {i}00"
        row = f"2 T1 D({i}01) C(SELECT 1) Zi"
        found = [([P("", text, (23,)), B("", "", 1), D("P", ""), E(), S], f"1 {row}")] * 4
        found += [([P("S_1", text, (23,)), B("", "S_1", 1), D("P", ""), E(), S], f"1 {row}")]
        found += [([B("", "S_1", 1), E(), S], f"2 D({i}01) C(SELECT 1) Zi")] * 3
        found += [([P("S_2", "BEGIN"), B("", "S_2"), E("", 0), B("", "S_1", 2), E("", 1), S],
                   f"1 2 C(BEGIN) 2 D({i}02) s ZT")]
        found += [([P("S_3", "COMMIT"), B("", "S_3"), E("", 1), S], "1 2 C(COMMIT) Zi")]
        found += [([C("S", "S_1"), P("S_4", f"select '{i}'"), B("", "S_4"), D("P", ""), E(), S],
                   f"3 1 2 T1 D({i}) C(SELECT 1) Zi")]
        return found
    # BEGIN and its COMMIT are behind each other: the other client would wait in between.
    for i, name in enumerate("AB", 1):
        compare(stage, [(name, *step) for step in steps(i)])
    by_turns(stage, lambda i: steps(i)[:8] + steps(i)[10:])


@test(KEPT, databases=ONE, new=True)
def pgjdbc_cursor(stage):
    """Rows fetched in portions in a transaction, by a portal of a named statement."""
    def steps(i):
        return [([P("S_1", "BEGIN"), B("", "S_1"), E("", 0),
                  P("S_2", f"select generate_series({i}, {i} + 2)"), B("C_1", "S_2"), D("P", "C_1"),
                  E("C_1", 2), S],
                 f"1 2 C(BEGIN) 1 2 T1 D({i}) D({i + 1}) s ZT"),
                ([E("C_1", 2), S], f"D({i + 2}) C(SELECT 1) ZT"),
                ([C("P", "C_1"), B("C_2", "S_2"), E("C_2", 1), S], f"3 2 D({i}) s ZT"),
                ([P("S_3", "COMMIT"), B("", "S_3"), E("", 1), S], "1 2 C(COMMIT) Zi"),
                ([B("C_3", "S_2"), E("C_3", 0), S],
                 f"2 D({i}) D({i + 1}) D({i + 2}) C(SELECT 3) Zi")]
    compare(stage, [(name, *step) for i, name in enumerate("ABA", 1)
                    for step in (steps(i) if i < 3 else steps(1)[4:])])


@test(KEPT, databases=ONE, new=True)
def asyncpg(stage):
    """Parse and Describe with Flush, the server held until the Sync of Bind and Execute."""
    def steps(i):
        name = "__asyncpg_stmt_1__"
        return [([P(name, f"select $1::int * {i}0", (0,)), D("S", name), H], "1 t T1"),
                ([B("", name, 2), E(), S], f"2 D({i * 20}) C(SELECT 1) Zi"),
                ([B("", name, 3), E(), S], f"2 D({i * 30}) C(SELECT 1) Zi"),
                ([C("S", name), S], "3 Zi"),
                ([B("", name, 3), E(), S], "E[26000] Zi")]
    for i, name in enumerate("AB", 1):
        compare(stage, [(name, *step) for step in steps(i)])
    compare(stage, [("A", *steps(1)[0]), ("A", *steps(1)[1]), ("B", *steps(2)[0]), ("B", *steps(2)[1]),
                    ("A", *steps(1)[2]), ("B", *steps(2)[2]), ("A", *steps(1)[3]), ("B", *steps(2)[2]),
                    ("A", *steps(1)[4]), ("B", *steps(2)[3])])


@test(KEPT, databases=ONE, new=True)
def tokio_postgres(stage):
    """s0, s1 and so on in each connection: Parse, Describe, Sync; Bind, Execute, Sync; Close, Sync."""
    def steps(i):
        found = []
        for n in range(4):
            found += [([P(f"s{n}", f"select $1::int + {i}{n}"), D("S", f"s{n}"), S], "1 t T1 Zi")]
        for n in (0, 3, 1, 2):
            value = "\0\0\0" + chr(60 + 10 * i + n)
            found += [([binary("", f"s{n}", 60), E(), S], f"2 D({value}) C(SELECT 1) Zi")]
            found += [([C("S", f"s{n}"), S], "3 Zi")]
        return found
    by_turns(stage, steps)


@test(KEPT, databases=ONE, new=True)
def psycopg(stage):
    """Prepared by Parse and Sync, forgotten by DEALLOCATE: simple, and extended in a pipeline."""
    def steps(i):
        return [([P("_pg3_0", f"select $1::text || '{i}'"), S], "1 Zi"),
                ([B("", "_pg3_0", "a"), D("P", ""), E(), S], f"2 T1 D(a{i}) C(SELECT 1) Zi"),
                ([P("_pg3_1", f"select {i}"), S], "1 Zi"),
                ([Q("DEALLOCATE _pg3_0")], "C(DEALLOCATE) Zi"),
                ([B("", "_pg3_1"), D("P", ""), E(), S], f"2 T1 D({i}) C(SELECT 1) Zi"),
                ([P("_pg3_2", f"select 2{i}"), B("", "_pg3_2"), D("P", ""), E(),
                  P("", "DEALLOCATE _pg3_1"), B(), D("P", ""), E(), S],
                 f"1 2 T1 D(2{i}) C(SELECT 1) 1 2 n C(DEALLOCATE) Zi"),
                ([B("", "_pg3_1"), D("P", ""), E(), S], "E[26000] Zi"),
                ([P("_pg3_0", f"select 3{i}"), B("", "_pg3_0"), E(), S],
                 f"1 2 D(3{i}) C(SELECT 1) Zi"),
                ([Q("DEALLOCATE ALL")], "C(DEALLOCATE ALL) Zi"),
                ([B("", "_pg3_2"), E(), S], "E[26000] Zi")]
    by_turns(stage, steps)


@test(KEPT, databases=ONE, new=True)
def npgsql(stage):
    """Close of one statement and Parse of another by the same name in one packet; batches of several."""
    def steps(i):
        return [([P("_p1", f"select $1::int + {i}0"), D("S", "_p1"), S], "1 t T1 Zi"),
                ([B("", "_p1", 1), E(), B("", "_p1", 2), E(), S],
                 f"2 D({i}1) C(SELECT 1) 2 D({i}2) C(SELECT 1) Zi"),
                ([C("S", "_p1"), P("_p1", f"select 'other {i}'"), D("S", "_p1"), B("", "_p1"), E(),
                  S], f"3 1 t T1 2 D(other {i}) C(SELECT 1) Zi"),
                ([P("_p2", f"select {i}"), D("S", "_p2"), P("_p3", f"select 3{i}"), D("S", "_p3"), S],
                 "1 t T1 1 t T1 Zi"),
                ([B("", "_p2"), E(), B("", "_p3"), E(), B("", "_p1"), E(), S],
                 f"2 D({i}) C(SELECT 1) 2 D(3{i}) C(SELECT 1) 2 D(other {i}) C(SELECT 1) Zi"),
                ([C("S", "_p1"), C("S", "_p2"), C("S", "_p3"), S], "3 3 3 Zi"),
                ([Q("DISCARD ALL")], "C(DISCARD ALL) Zi")]
    by_turns(stage, steps)


@test(KEPT, databases=ONE, new=True)
def postgrex(stage):
    """Close in front of Parse and Flush; then Bind, Execute, and Sync; queries in savepoint mode."""
    def steps(i):
        return [([C("S", "ecto_1"), P("ecto_1", f"select $1::int + {i}0"), D("S", "ecto_1"), H],
                 "3 1 t T1"),
                ([B("", "ecto_1", 1), E(), S], f"2 D({i}1) C(SELECT 1) Zi"),
                ([Q("begin")], "C(BEGIN) ZT"),
                ([Q("savepoint postgrex_query"), B("", "ecto_1", 2), E(),
                  Q("release savepoint postgrex_query"), S],
                 f"C(SAVEPOINT) ZT 2 D({i}2) C(SELECT 1) C(RELEASE) ZT ZT"),
                ([Q("rollback")], "C(ROLLBACK) Zi")]
    compare(stage, [(name, *step) for i, name in enumerate("AB", 1) for step in steps(i)] +
            [("A", *steps(1)[1]), ("B", *steps(2)[1])])


@test(KEPT, databases=ONE, new=True)
def postgres_js(stage):
    """Parse, Describe and Flush of statements in a pipeline, Bind when the description has come."""
    def steps(i):
        name = "ab12cd34ef1"
        return [([P(name, f"select $1::int + {i}0"), D("S", name), H], "1 t T1"),
                ([B("", name, 5), E(), S], f"2 D({i}5) C(SELECT 1) Zi"),
                ([B("", name, 6), E(), S, B("", name, 7), E(), S, Q(f"select 9{i}")],
                 f"2 D({i}6) C(SELECT 1) Zi 2 D({i}7) C(SELECT 1) Zi T1 D(9{i}) C(SELECT 1) Zi")]
    compare(stage, [(name, *step) for i, name in enumerate("AB", 1) for step in steps(i)] +
            [("A", *steps(1)[2]), ("B", *steps(2)[2])])


@test(KEPT, databases=ONE, new=True)
def node_postgres(stage):
    """Parse, Bind, Describe, Execute and Sync under a name, later without Parse; errors in between."""
    def steps(i):
        return [([P("by-id", f"select 1{i}/$1::int"), B("", "by-id", 1), D("P", ""), E(), S],
                 f"1 2 T1 D(1{i}) C(SELECT 1) Zi"),
                ([B("", "by-id", 0), D("P", ""), E(), S], "E[22012] Zi"),
                ([B("", "by-id", "x"), D("P", ""), E(), S], "E[22P02] Zi"),
                ([B("", "by-id", 1), D("P", ""), E(), S], f"2 T1 D(1{i}) C(SELECT 1) Zi")]
    by_turns(stage, steps)


@test(KEPT, databases=ONE, new=True)
def pgx(stage):
    """Described when prepared, executed with Describe of the portal, closed by DEALLOCATE with quotes."""
    def steps(i):
        return [([P("lrupsc_1_0", f"select $1::int + {i}0"), D("S", "lrupsc_1_0"), S], "1 t T1 Zi"),
                ([B("", "lrupsc_1_0", 1), D("P", ""), E(), S], f"2 T1 D({i}1) C(SELECT 1) Zi"),
                ([Q('deallocate "lrupsc_1_0"')], "C(DEALLOCATE) Zi"),
                ([P("lrupsc_1_0", f"select {i}"), D("S", "lrupsc_1_0"), S], "1 t T1 Zi"),
                ([B("", "lrupsc_1_0"), D("P", ""), E(), S], f"2 T1 D({i}) C(SELECT 1) Zi")]
    by_turns(stage, steps)


@test(KEPT, databases=ONE, new=True)
def php_pdo(stage):
    """pdo_stmt_00000001 prepared by Parse, and by DEALLOCATE at the end, in and out of transactions."""
    def steps(i):
        return [([P("pdo_stmt_00000001", f"select $1::int + {i}0"), S], "1 Zi"),
                ([B("", "pdo_stmt_00000001", 1), D("P", ""), E(), S], f"2 T1 D({i}1) C(SELECT 1) Zi"),
                ([Q("DEALLOCATE pdo_stmt_00000001")], "C(DEALLOCATE) Zi"),
                ([Q("DEALLOCATE pdo_stmt_00000001")], "E[26000] Zi")]
    by_turns(stage, steps)
    compare(stage, [("A", [Q("begin")], "C(BEGIN) ZT")] +
            [("A", m, r.replace("Zi", "ZT")) for m, r in steps(1)[:3]] +
            [("A", [Q("rollback")], "C(ROLLBACK) Zi"), ("A", *steps(1)[3])])


@test(KEPT, databases=ONE, new=True)
def odbc(stage):
    """A quoted plan name, Describe before execution, DEALLOCATE in upper case in front of other text."""
    alike(stage, [(name, messages) for i in (1, 2) for name in "AB" for messages in (
        [P("_PLAN0x55d0c0", f"select $1::int + {i}{ord(name)}"), D("S", "_PLAN0x55d0c0"), S],
        [B("", "_PLAN0x55d0c0", 1), E(), S],
        [Q('DEALLOCATE "_PLAN0x55d0c0"')],
        [Q("DEALLOCATE _PLAN0x55d0c0")],
        [Q('DEALLOCATE "_PLAN0x55d0c0";')])])


@test(KEPT + "\ndefault_pool_size = 3", new=True, seconds=60)
def drivers_at_once(stage):
    """12 clients prepare s0 to s9 with texts of their own, over three servers, for some rounds."""
    def work(number):
        one = stage.wire(timeout=40)
        for turn in range(8 if not stage.options.long else 60):
            for n in range(10):
                one.send(P(f"s{n}", f"select $1::int, 'of {number} {n}'"), D("S", f"s{n}"), S)
                same(one.reply(4, 30), ["1", "t", "T2", "Zi"], turn)
            one.send(*[m for n in range(10) for m in (B("", f"s{n}", turn), E(), S)])
            for n in range(10):
                same(one.reply(4, 30), ["2", f"D({turn},of {number} {n})", "C(SELECT 1)", "Zi"], turn)
            one.send(*[C("S", f"s{n}") for n in range(10)], S)
            same(one.reply(11, 30), ["3"] * 10 + ["Zi"], turn)
    together(12, work, 50)
