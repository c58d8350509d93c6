# SPDX-License-Identifier: GPL-2.0-or-later
"""COPY: in and out, simple and extended, with errors at every point, and the server free again."""
import time

from harness import check, same, test
from replay import compare, play
from tools import until
from wire import B, E, H, P, Q, S, X, c, d, f

ONE = "test = host=127.0.0.1 port=PG pool_size=1"
NEXT = ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi")


@test(databases=ONE)
def copy_in(stage):
    """COPY FROM STDIN by a simple query, in one packet and in several."""
    compare(stage, [
        ("A", [Q("copy t from stdin")], "G"),
        ("A", [d("1\n"), d("2\n")], None),
        ("B", [Q("select 2")], None),
        ("A", [c], "C(COPY 2) Zi"),
        ("B", [], "T1 D(2) C(SELECT 1) Zi"),
        ("A", [Q("copy t from stdin"), d("3\n"), c], "G C(COPY 1) Zi"),
        ("A", [Q("select sum(v) from t")], "T1 D(6) C(SELECT 1) Zi"),
        ("A", [Q("select 1; copy t from stdin; select 3"), d("4\n"), c],
         "T1 D(1) C(SELECT 1) G C(COPY 1) T1 D(3) C(SELECT 1) Zi"),
        NEXT,
    ], setup=["truncate t"])


@test(databases=ONE)
def copy_in_extended(stage):
    """A Sync sent right behind Execute is ignored by PostgreSQL in COPY (K19)."""
    script = [
        ("A", [P("", "copy t from stdin"), B(), E(), S], "1 2 G"),
        ("A", [d("1\n"), c, S], "C(COPY 1) Zi"),
        NEXT,
        ("A", [P("", "copy t from stdin"), B(), E(), H], "1 2 G"),
        ("A", [d("1\n"), c, S], "C(COPY 1) Zi"),
        ("A", [P("", "copy t from stdin"), B(), E(), S, d("1\n"), c, S], "1 2 G C(COPY 1) Zi"),
        NEXT,
    ]
    compare(stage, script, setup=["truncate t"])
    for _ in range(50 if not stage.options.long else 2000):
        play(stage.wire, script[:3], rest=False)
    check(until(lambda: stage.pools()["sv_active"] == 0))


@test(databases=ONE)
def copy_fails(stage):
    """CopyFail; bad data; a table that is not there; errors before and behind CopyDone."""
    compare(stage, [
        ("A", [Q("copy t from stdin")], "G"),
        ("A", [d("1\n"), f()], "E[57014] Zi"),
        NEXT,
        ("A", [Q("copy t from stdin")], "G"),
        ("A", [d("x\n")], None),
        ("A", [c], "E[22P02] Zi"),
        NEXT,
        ("A", [Q("copy none from stdin")], "E[42P01] Zi"),
        ("A", [Q("copy t (none) from stdin")], "E[42703] Zi"),
        NEXT,
        ("A", [P("", "copy t from stdin"), B(), E(), S], "1 2 G"),
        ("A", [d("x\n"), c, S], "E[22P02] Zi"),
        NEXT,
        ("A", [P("", "copy t from stdin"), B(), E(), S], "1 2 G"),
        ("A", [f(), S], "E[57014] Zi"),
        NEXT,
        ("A", [Q("begin; copy t from stdin")], "C(BEGIN) G"),
        ("A", [f()], "E[57014] ZE"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
        NEXT,
    ], setup=["truncate t"])


@test(databases=ONE)
def copy_fails_early(stage):
    """PostgreSQL gives up while the client still sends: the rest of the data is dropped."""
    rows = [d("x\n")] + [d("1\n" * 1000)] * 60
    compare(stage, [
        ("A", [Q("copy t from stdin")], "G"),
        ("A", rows, None),
        ("A", [c], "E[22P02] Zi"),
        NEXT,
        ("A", [Q("select 3")], "T1 D(3) C(SELECT 1) Zi"),
        ("A", [P("", "copy t from stdin"), B(), E(), S], "1 2 G"),
        ("A", rows, None),
        ("A", [c, S], "E[22P02] Zi"),
        NEXT,
    ], setup=["truncate t"], pieces=(0,))


@test(databases=ONE)
def copy_out(stage):
    """COPY TO STDOUT, alone and between others."""
    compare(stage, [
        ("A", [Q("copy (select 1 union all select 2) to stdout")], "H d(1) d(2) c C(COPY 2) Zi"),
        ("A", [P("", "copy (select 3) to stdout"), B(), E(), S], "1 2 H d(3) c C(COPY 1) Zi"),
        ("A", [Q("copy (select 1/0) to stdout")], "E[22012] Zi"),
        ("A", [Q("copy (select 4) to stdout; select 5")],
         "H d(4) c C(COPY 1) T1 D(5) C(SELECT 1) Zi"),
        NEXT,
    ])


@test(databases=ONE)
def query_in_copy(stage):
    """A query in the middle of COPY ends it with an error, as PostgreSQL does."""
    one = stage.wire()
    one.send(Q("copy t from stdin"))
    same(one.reply(1), ["G"])
    one.send(d("1\n"), Q("select 1"))
    got = one.reply(2, 5)
    check(got[0].startswith("E["), got)
    one.close()
    same(stage.wire().value("select 2"), "2")


@test(databases=ONE)
def dies_in_copy(stage):
    """Who dies in COPY leaves neither rows nor a server in COPY behind."""
    with stage.cluster.wire("test") as db:
        db.query("truncate t")
    for way in ("reset", "close", "half"):
        one = stage.wire()
        one.send(Q("copy t from stdin"))
        same(one.reply(1), ["G"])
        one.send(d("1\n" * 100), b"d\0\0\1" if way == "half" else b"")
        time.sleep(0.02)
        one.reset() if way == "reset" else one.close()
        two = stage.wire()
        two.send(Q("select count(*) from t"))
        same(two.reply(4, 3), ["T1", "D(0)", "C(SELECT 1)", "Zi"])


@test(databases=ONE, seconds=40)
def large_copy(stage):
    """30 MB in and out, every byte in its place."""
    one = stage.wire(timeout=30)
    one.query("drop table if exists lines; create unlogged table lines (id int, v text)")
    one.send(Q("copy lines from stdin"))
    same(one.reply(1), ["G"])
    row = "z" * 990
    for block in range(300):
        one.send(d("".join(f"{block * 100 + i}\t{row}\n" for i in range(100))))
    one.send(c)
    same(one.reply(2, 30), ["C(COPY 30000)", "Zi"])
    one.send(Q("copy lines to stdout"))
    same(one.reply(1), ["H"])
    for number in range(30000):
        got = one.read()
        check(got.kind == "d" and got.body == f"{number}\t{row}\n".encode(), number)
    same(one.reply(3), ["c", "C(COPY 30000)", "Zi"])
    one.query("drop table lines")


@test("pool_mode = session\ndefault_pool_size = 1")
def rejected_copy_keeps_session(stage):
    """A rejected COPY costs the session nothing (K20)."""
    one = stage.wire()
    one.query("create temp table tt (a int)")
    pid = one.value("select pg_backend_pid()")
    one.send(Q("copy tt (nocol) from stdin"))
    same(one.reply(2), ["E[42703]", "Zi"])
    one.send(Q("copy tt from stdin"))
    same(one.reply(1), ["G"])
    one.send(f())
    same(one.reply(2), ["E[57014]", "Zi"])
    same(one.value("select count(*) from tt"), "0")
    same(one.value("select pg_backend_pid()"), pid)


@test(databases=ONE)
def answers_behind_a_failed_copy(stage):
    """What was asked behind a COPY that fails with Syncs under way is answered; nothing stays with the server."""
    copy = [P("", "copy t from stdin"), B(), E(), S, d("x\n"), S]
    for more, wanted in (([Q("select 1")], ["T1", "D(1)", "C(SELECT 1)", "Zi"]),
                         ([P("", "select 2"), B(), E(), S], ["1", "2", "D(2)", "C(SELECT 1)", "Zi"])):
        for ending in ([], [X]):
            one = stage.wire()
            one.send(*copy, *more, *ending)
            same(one.reply(5 + len(wanted)), ["1", "2", "G", "E[22P02]", "Zi", *wanted])
            one.sock.close()
            same(stage.wire(timeout=5).value("select 3"), "3")


@test(databases=ONE)
def leaves_a_failed_copy(stage):
    """Who leaves with a Sync of which nobody knows whether it will be answered takes no server along."""
    one = stage.wire()
    one.send(P("", "copy t from stdin"), B(), E(), S)
    same(one.reply(3), ["1", "2", "G"])
    one.send(d("x\n"), Q("select 1"), S, X)
    check(one.reply(2)[0].startswith("E["))
    one.sock.close()
    same(stage.wire(timeout=5).value("select 3"), "3")
