# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequences of messages that poolers have got wrong: the same replies as from PostgreSQL itself."""
import threading
import time

from harness import check, same, test
from replay import compare, play
from wire import B, C, Closed, D, E, F, H, P, Q, S

ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"
MORE = "test = host=127.0.0.1 port=PG pool_size=2"


@test(databases=ONE)
def simple(stage):
    """Simple queries: rows, none, several, empty, errors in the middle."""
    compare(stage, [
        ("A", [Q("select 1")], "T1 D(1) C(SELECT 1) Zi"),
        ("A", [Q("select 1; select 2, null")], "T1 D(1) C(SELECT 1) T2 D(2,null) C(SELECT 1) Zi"),
        ("A", [Q("")], "I Zi"),
        ("A", [Q(";")], "I Zi"),
        ("A", [Q("select 1; select 1/0; select 3")], "T1 D(1) C(SELECT 1) E[22012] Zi"),
        ("B", [Q("syntax error")], "E[42601] Zi"),
        ("A", [Q("begin; select 7")], "C(BEGIN) T1 D(7) C(SELECT 1) ZT"),
        ("A", [Q("nonsense")], "E[42601] ZE"),
        ("A", [Q("select 1")], "E[25P02] ZE"),
        ("A", [Q("commit")], "C(ROLLBACK) Zi"),
        ("B", [Q("begin; commit; begin; rollback")], "C(BEGIN) C(COMMIT) C(BEGIN) C(ROLLBACK) Zi"),
    ])


@test(databases=ONE)
def simple_then_extended(stage):
    """A simple query and an extended one in one packet (K08)."""
    compare(stage, [
        ("A", [Q("SET statement_timeout=30000"), P("", "select 1"), D("S"), B(), E(), S],
         "C(SET) Zi 1 t T1 2 D(1) C(SELECT 1) Zi"),
        ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def many_syncs(stage):
    """Twenty batches in one send; the other client never sees one of their replies (K09)."""
    batch = [m for i in range(1, 21) for m in
             (P("", "select $1::int, pg_sleep(0.005)"), B("", "", i), E(), S)]
    wanted = " ".join(f"1 2 D({i},) C(SELECT 1) Zi" for i in range(1, 21))
    compare(stage, [("A", batch, wanted), ("A", batch, None), ("B", [Q("select -1")], None),
                    ("A", [], wanted), ("B", [], "T1 D(-1) C(SELECT 1) Zi")])
    other, wrong, stop = stage.wire(), [], threading.Event()

    def beside():
        while not stop.is_set():
            if other.value("select -1") != "-1":
                wrong.append(1)
    thread = threading.Thread(target=beside, daemon=True)
    thread.start()
    for _ in range(3):
        play(stage.wire, [("A", batch, wanted)])
    stop.set()
    thread.join(5)
    check(not wrong)


@test(databases=ONE)
def savepoint_without_sync(stage):
    """Execute and a simple query behind it without Sync, as the Elixir driver does (K10)."""
    compare(stage, [
        ("A", [Q("begin")], "C(BEGIN) ZT"),
        ("A", [Q("savepoint x")], "C(SAVEPOINT) ZT"),
        ("A", [P("", "select 1/$1::int"), S], "1 ZT"),
        ("A", [B("", "", 0), E(), Q("release savepoint x")], "E[22012]"),
        ("A", [Q("rollback to savepoint x"), S], "ZE"),
        ("A", [Q("select 1")], "E[25P02] ZE"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
        ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test("pool_mode = session\nserver_reset_query = discard all", databases=ONE)
def error_then_close(stage):
    """Nothing is answered between an error and the Sync (K11)."""
    compare(stage, [
        ("A", [P("a", "select 1"), S], "1 Zi"),
        ("A", [B("", "nope"), E(), C("S", "a"), P("a2", "select 1"), D("S", "a2"), S], "E[26000] Zi"),
        ("A", [B("", "a"), E(), S], "2 D(1) C(SELECT 1) Zi"),
        ("A", [B("", "a2"), E(), S], "E[26000] Zi"),
    ])


@test(databases=ONE)
def describe_at_end(stage):
    """A pipeline that ends in Describe (K12)."""
    compare(stage, [
        ("A", [P("", "select 1"), B(), E(), P("", "select 2"), B(), E(), P("", "select 3"), B(), D(), S],
         "1 2 D(1) C(SELECT 1) 1 2 D(2) C(SELECT 1) 1 2 T1 Zi"),
    ])


@test(databases=ONE)
def describe_begin(stage):
    """BEGIN by the extended protocol, described (K15)."""
    compare(stage, [
        ("A", [P("", "begin"), B(), D(), E(), S], "1 2 n C(BEGIN) ZT"),
        ("A", [P("", "commit"), D("S"), S], "1 t n ZT"),
        ("A", [B(), E(), S], "2 C(COMMIT) Zi"),
        ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def discard_all(stage):
    """DISCARD ALL by the extended protocol (K16); parameters go to the server's, as PgBouncer's."""
    compare(stage, [
        ("A", [P("", "discard all"), B(), D(), E(), S], "1 2 n C(DISCARD ALL) Zi"),
        ("A", [Q("select 1")], "T1 D(1) C(SELECT 1) Zi"),
    ])
    one = stage.wire(params=[("application_name", "mine"), ("TimeZone", "Asia/Tokyo")])
    one.query("set application_name = 'other'; set timezone = 'UTC'")
    same(one.value("show application_name"), "other")
    one.query("discard all")
    check(one.value("show application_name") in ("", "mine"))
    check(one.value("show timezone") != "UTC")


@test(databases=ONE)
def no_sync_added(stage):
    """No Sync is added: an earlier insert of the batch goes with a later error (K17)."""
    compare(stage, [
        ("A", [P("", "insert into t values (1)"), B(), E(), P("", "select 1/0"), B(), E(), S],
         "1 2 C(INSERT 0 1) 1 E[22012] Zi"),
        ("A", [Q("select count(*) from t")], "T1 D(0) C(SELECT 1) Zi"),
    ], setup=["truncate t"])


@test(databases=MORE)
def portal_suspended(stage):
    """A suspended portal keeps its server (K18)."""
    compare(stage, [
        ("A", [P("", "select generate_series(1,5)"), B("p"), E("p", 2), H], "1 2 D(1) D(2) s"),
        ("B", [Q("select 9")], "T1 D(9) C(SELECT 1) Zi"),
        ("A", [E("p", 2), H], "D(3) D(4) s"),
        ("A", [E("p", 2), S], "D(5) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def flush_keeps_server(stage):
    """Between Flush and Sync nobody else gets the server."""
    compare(stage, [
        ("A", [P("", "select 1"), H], "1"),
        ("B", [Q("select 2")], None),
        ("A", [B(), H], "2"),
        ("A", [D(), E(), H], "T1 D(1) C(SELECT 1)"),
        ("A", [S], "Zi"),
        ("B", [], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def empty_and_bare(stage):
    """Empty queries, bare Syncs and Flushes."""
    compare(stage, [
        ("A", [S], "Zi"),
        ("A", [S, S, S], "Zi Zi Zi"),
        ("A", [H, H, S], "Zi"),
        ("A", [P("", ""), B(), D(), E(), S], "1 2 n I Zi"),
        ("B", [Q("select 2"), S], "T1 D(2) C(SELECT 1) Zi Zi"),
        ("A", [P("", "select 1"), S, S], "1 Zi Zi"),
    ])


@test(databases=ONE)
def errors_at_each_step(stage):
    """An error at Parse, Bind, Describe and Execute; the rest is skipped to Sync."""
    compare(stage, [
        ("A", [P("", "nonsense"), B(), D(), E(), S], "E[42601] Zi"),
        ("A", [P("", "select $1::int"), B("", "", "x"), D(), E(), S], "1 E[22P02] Zi"),
        ("A", [P("", "select 1"), D("P", "none"), B(), E(), S], "1 E[34000] Zi"),
        ("A", [P("", "select 1/$1::int"), B("", "", 0), E(), S], "1 E[22012] Zi"),
        ("A", [E("none"), S], "E[34000] Zi"),
        ("A", [P("", "nonsense"), S, P("", "select 4"), B(), E(), S], "E[42601] Zi 1 2 D(4) C(SELECT 1) Zi"),
        ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def function_call(stage):
    """FunctionCall passes."""
    compare(stage, [
        ("A", [F(1397, -5)], "V Zi"),  # abs(int4)
        ("A", [F(99999)], "E[42883] Zi"),
        ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def begin_behind_selects(stage):
    """BEGIN pipelined behind selects: the last ReadyForQuery decides (K30)."""
    script = [
        ("A", [Q("select 1"), Q("select 2"), Q("select 3"), Q("begin read only")],
         "T1 D(1) C(SELECT 1) Zi T1 D(2) C(SELECT 1) Zi T1 D(3) C(SELECT 1) Zi C(BEGIN) ZT"),
        ("B", [Q("select 9")], None),
        ("A", [Q("select 4"), Q("commit")], "T1 D(4) C(SELECT 1) ZT C(COMMIT) Zi"),
        ("B", [], "T1 D(9) C(SELECT 1) Zi"),
    ]
    compare(stage, script)
    for _ in range(100 if not stage.options.long else 1000):
        play(stage.wire, script[:1] + script[2:3], rest=False)


@test(databases=ONE)
def pipelined_transactions(stage):
    """Whole transactions in one send, with errors among them."""
    compare(stage, [
        ("A", [Q("begin"), Q("select 1/0"), Q("select 1"), Q("rollback"), Q("select 5")],
         "C(BEGIN) ZT E[22012] ZE E[25P02] ZE C(ROLLBACK) Zi T1 D(5) C(SELECT 1) Zi"),
        ("A", [P("", "begin"), B(), E(), S, Q("select 1"), P("", "commit"), B(), E(), S],
         "1 2 C(BEGIN) ZT T1 D(1) C(SELECT 1) ZT 1 2 C(COMMIT) Zi"),
        ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def big_pipeline(stage):
    """2000 queries in one send, and 500 batches; every answer in its place."""
    one = stage.wire()
    for _ in range(2):
        one.send(*[Q(f"select {i}") for i in range(2000)])
        for number in range(2000):
            same(one.rows(), [[str(number)]])
    one.send(*[m for i in range(500) for m in (P("", f"select {i}"), B(), E(), S)])
    for number in range(500):
        same(one.reply(5), ["1", "2", f"D({number})", "C(SELECT 1)", "Zi"])


@test(databases=ONE)
def big_messages(stage):
    """Queries, parameters and rows far larger than any buffer."""
    one = stage.wire(timeout=20)
    for size in (4000, 4090, 4096, 16380, 16384, 65536, 1000000):
        text = "y" * size
        same(one.value(f"select length('{text}')"), str(size))
        one.send(P("", "select $1::text"), B("", "", text), E(), S)
        got = [one.read() for _ in range(5)]
        same([m.kind for m in got], ["1", "2", "D", "C", "Z"])
        same(got[2].row()[0] == text, True, size)
    same(one.value("select length(repeat('x', 30000000))"), "30000000")
    same(len(one.value("select repeat('x', 30000000)")), 30000000)
    stage.wire().query("select 1")


@test(databases=ONE)
def many_columns_and_rows(stage):
    """1600 columns; 100 000 small rows; each in its place."""
    one = stage.wire(timeout=20)
    row = one.query("select " + ", ".join(str(i) for i in range(1600)))[0]
    same(row, [str(i) for i in range(1600)])
    rows = one.query("select generate_series(1, 100000)")
    same((len(rows), rows[0], rows[77776], rows[-1]), (100000, ["1"], ["77777"], ["100000"]))


@test(databases=ONE)
def lengths_around_buffers(stage):
    """Replies and queries of each length around the sizes of buffers, all at one cut."""
    one = stage.wire(timeout=20)
    for base in (4096, 8192, 16384):
        for size in range(base - 40, base + 8):
            one.send(Q(f"select repeat('z', {size})"), Q(f"select '{'q' * (size - 40)}'"))
            same(len(one.rows()[0][0]), size)
            same(len(one.rows()[0][0]), size - 40)


@test(databases=ONE)
def notices(stage):
    """Notices come in their place."""
    one = stage.wire()
    one.send(Q("do $$ begin raise notice 'hello'; end $$; select 1"))
    same(one.reply(5, ignore="S"), ["N", "C(DO)", "T1", "D(1)", "C(SELECT 1)"])
    same(one.reply(1), ["Zi"])


@test("pool_mode = session", databases=ONE)
def notifications(stage):
    """LISTEN in session mode: what is notified comes to the session, and to nobody after it."""
    one = stage.wire()
    one.query("listen ch")
    with stage.cluster.wire("test") as db:
        db.query("notify ch, 'now'")
    same(one.reply(1, 2), ["A"])
    pid = one.value("select pg_backend_pid()")
    one.close()
    two = stage.wire()
    same(two.value("select pg_backend_pid()"), pid)
    with stage.cluster.wire("test") as db:
        db.query("notify ch, 'later'")
    same(two.quiet(0.2), [])
    same(two.value("select 1"), "1")


@test("pool_mode = session", databases=ONE)
def named_statements_in_session(stage):
    """Named statements and portals in session mode."""
    compare(stage, [
        ("A", [P("s1", "select $1::int + 1"), D("S", "s1"), S], "1 t T1 Zi"),
        ("A", [B("p1", "s1", 4), D("P", "p1"), E("p1"), C("P", "p1"), S], "2 T1 D(5) C(SELECT 1) 3 Zi"),
        ("A", [B("", "s1", 5), E(), S], "2 D(6) C(SELECT 1) Zi"),
        ("A", [C("S", "s1"), C("S", "never"), S], "3 3 Zi"),
        ("A", [B("", "s1", 5), E(), S], "E[26000] Zi"),
        ("A", [Q("prepare q as select 8"), P("", "execute q"), B(), E(), S],
         "C(PREPARE) Zi 1 2 D(8) C(SELECT 1) Zi"),
    ])


@test(databases=ONE)
def unnamed_twice(stage):
    """Two unnamed statements in one batch, twice (K07)."""
    batch = [P("", "select $1::int"), B("", "", 1), D(), E(),
             P("", "select $1::int"), B("", "", 2), D(), E(), S]
    wanted = "1 2 T1 D(1) C(SELECT 1) 1 2 T1 D(2) C(SELECT 1) Zi"
    compare(stage, [("A", batch, wanted), ("A", batch, wanted), ("B", batch, wanted)])


@test(databases=ONE)
def dies_before_execute(stage):
    """Who dies between Bind and Execute leaves nothing behind (K31)."""
    for _ in range(5):
        with stage.cluster.wire("test") as db:
            db.query("truncate t")
        one, two = stage.wire(), stage.wire()
        one.send(P("", "insert into t values ($1)"), B("", "", 5))
        time.sleep(0.02)
        one.reset()
        two.send(Q("select count(*) from t"))
        same(two.reply(4, 3), ["T1", "D(0)", "C(SELECT 1)", "Zi"])
        two.send(Q("select 2"))
        same(two.reply(4, 3), ["T1", "D(2)", "C(SELECT 1)", "Zi"])


@test(databases=ONE)
def dies_in_message(stage):
    """Who dies in the middle of a message leaves nothing behind."""
    query = Q("select 'half of this'")
    for cut in (1, 4, 5, 6, len(query) - 1):
        one, two = stage.wire(), stage.wire()
        one.send(query[:cut])
        time.sleep(0.01)
        one.reset() if cut % 2 else one.sock.close()
        two.send(Q("select 2"))
        same(two.reply(4, 3), ["T1", "D(2)", "C(SELECT 1)", "Zi"])


@test(databases=ONE)
def half_close(stage):
    """A client that sends its query and shuts its side down gets its answer, or an end; never junk."""
    one = stage.wire()
    one.send(Q("select 5"))
    one.sock.shutdown(1)
    got = one.reply(5, 3)
    check(got[-1] == "EOF" and (len(got) == 1 or got[:4] == ["T1", "D(5)", "C(SELECT 1)", "Zi"]), got)
    same(stage.wire().value("select 1"), "1")


@test(databases=ONE)
def terminated(stage):
    """A backend's FATAL comes once, then the end; never a ReadyForQuery behind it (K58)."""
    compare(stage, [("A", [Q("select pg_terminate_backend(pg_backend_pid())")],
                     "T1 D(t) E[57P01] EOF")], pieces=(0,))
    for start in ("begin", "select pg_sleep(5)", "copy t from stdin"):
        one = stage.wire()
        one.send(Q(start))
        time.sleep(0.1)
        with stage.cluster.wire() as db:
            db.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'test'")
        got = one.reply(6, 3)
        same(got[-2:], ["E[57P01]", "EOF"], start)
        check("Zi" not in got, got)
    same(stage.wire().value("select 1"), "1")


@test(databases=ONE)
def terminated_in_result(stage):
    """Ended in the middle of a large result: the error or the end, at a message's boundary or not."""
    one = stage.wire(timeout=20)
    one.send(Q("select repeat('x', 1000) from generate_series(1, 200000)"))
    one.reply(10)
    with stage.cluster.wire() as db:
        db.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'test'")
    try:
        while True:
            got = one.read(5)
            check(got.kind in "DE", got.kind)
    except Closed:
        pass
    same(stage.wire().value("select 1"), "1")


@test(databases=MORE)
def slow_pieces(stage):
    """A query whose bytes come one at a time while others work on the same server."""
    slow, fast = stage.wire(), stage.wire()
    data = Q("select 'slow'") + P("", "select 'slow'") + B() + E() + S
    for byte in data:
        slow.send(bytes([byte]))
        if byte % 7 == 0:
            same(fast.value("select 'fast'"), "fast")
    same(slow.reply(9), ["T1", "D(slow)", "C(SELECT 1)", "Zi", "1", "2", "D(slow)", "C(SELECT 1)", "Zi"])


@test("disable_pqexec = 1\nadmin_users = admin", leaks=False)
def no_simple_queries(stage):
    """disable_pqexec refuses simple queries."""
    one = stage.wire()
    one.send(P("", "select 1"), B(), E(), S)
    same(one.reply(5), ["1", "2", "D(1)", "C(SELECT 1)", "Zi"])
    one.send(Q("select 1"))
    error = one.ended(3)
    check(error and error.text == "PQexec disallowed", error)


@test("pool_mode = statement", databases=ONE)
def statement_mode_batches(stage):
    """Statement mode: batches and pipelines of single statements."""
    play(stage.wire, [
        ("A", [P("", "select 1"), B(), E(), S, Q("select 2")],
         "1 2 D(1) C(SELECT 1) Zi T1 D(2) C(SELECT 1) Zi"),
        ("B", [Q("select 3"), Q("select 1/0"), Q("select 4")],
         "T1 D(3) C(SELECT 1) Zi E[22012] Zi T1 D(4) C(SELECT 1) Zi"),
    ])
