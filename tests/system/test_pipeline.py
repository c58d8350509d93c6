# SPDX-License-Identifier: GPL-2.0-or-later
"""Pipelines: many messages in one send, with errors at every place, answered in their order."""
from batches import compare_random
from crowds import together
from harness import same, test
from replay import compare
from wire import B, C, D, E, H, P, Q, S

ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"
NEXT = ("B", [Q("select 2")], "T1 D(2) C(SELECT 1) Zi")


@test(databases=ONE, new=True, seconds=120)
def random_batches(stage):
    """Batches made of anything, most of them wrong: two clients hear what PostgreSQL says."""
    for seed in range(4 if not stage.options.long else 100):
        compare_random(stage, f"pipeline {seed}", 100)


@test(databases=ONE)
def error_at_each_position(stage):
    """One wrong message at each place of three batches: only the rest of its batch is lost."""
    parts = [P("", "select 1"), B(), D(), E()]
    said = ["1", "2", "T1", "D(1) C(SELECT 1)"]
    wrong = [(P("", "nonsense"), "E[42601]"), (B("", "none"), "E[26000]"),
             (D("P", "none"), "E[34000]"), (E("none"), "E[34000]"), (D("S", "none"), "E[26000]")]
    whole = " ".join(said) + " Zi"
    script = []
    for at in range(len(parts) + 1):
        for bad, code in wrong:
            script.append(("A", parts + [S] + parts[:at] + [bad] + parts[at:] + [S] + parts + [S],
                           f"{whole} {' '.join(said[:at] + [code])} Zi {whole}"))
    compare(stage, script + [NEXT])


@test(databases=ONE, new=True)
def simple_query_in_skipped_batch(stage):
    """A simple query behind an error and before Sync is skipped too: its ReadyForQuery never comes."""
    compare(stage, [
        ("A", [P("", "nonsense"), Q("select 1"), Q("select 2"), S, Q("select 3")],
         "E[42601] Zi T1 D(3) C(SELECT 1) Zi"),
        NEXT,
        ("A", [B("", "none"), Q("select 1"), H, P("", "select 4"), S, S], "E[26000] Zi Zi"),
        NEXT,
        ("A", [P("", "select 5"), B(), E(), Q("select 6"), S],
         "1 2 D(5) C(SELECT 1) T1 D(6) C(SELECT 1) Zi Zi"),
        NEXT,
    ])


@test(databases=ONE)
def implicit_transactions(stage):
    """What is undone by an error reaches back to the Sync before it, no further."""
    insert = [P("", "insert into t values ($1)"), B("", "", 1), E()]
    compare(stage, [
        ("A", insert + [S] + insert + [P("", "select 1/0"), B(), E(), S] + insert + [S],
         "1 2 C(INSERT 0 1) Zi 1 2 C(INSERT 0 1) 1 E[22012] Zi 1 2 C(INSERT 0 1) Zi"),
        ("B", [Q("select count(*) from t")], "T1 D(2) C(SELECT 1) Zi"),
        ("A", [Q("insert into t values (3); select 1/0"), Q("insert into t values (4)")],
         "C(INSERT 0 1) E[22012] Zi C(INSERT 0 1) Zi"),
        ("B", [Q("select count(*) from t")], "T1 D(3) C(SELECT 1) Zi"),
    ], setup=["truncate t"])


@test(databases=ONE)
def suspended_portal_on_only_server(stage):
    """While a portal is suspended before its Sync, the other client waits for the only server."""
    compare(stage, [
        ("A", [P("", "select generate_series(1,5)"), B("p"), E("p", 2), H], "1 2 D(1) D(2) s"),
        ("A", [E("p", 2), H], "D(3) D(4) s"),
        ("A", [E("p", 2), S], "D(5) C(SELECT 1) Zi"),
        NEXT,
    ])
    one, two = stage.wire(), stage.wire()
    one.send(P("", "select generate_series(1,5)"), B("p"), E("p", 2), H)
    same(one.reply(5), ["1", "2", "D(1)", "D(2)", "s"])
    two.send(Q("select 9"))
    same(two.quiet(0.2), [])
    one.send(E("p", 2), H)
    same(one.reply(3), ["D(3)", "D(4)", "s"])
    same(two.quiet(0.1), [])
    one.send(E("p", 2), S)
    same(one.reply(3), ["D(5)", "C(SELECT 1)", "Zi"])
    same(two.reply(4), ["T1", "D(9)", "C(SELECT 1)", "Zi"])


@test(databases=ONE)
def suspended_at_sync(stage):
    """A Sync behind a suspended portal ends it outside a transaction, and keeps it inside of one."""
    rows = [P("", "select generate_series(1,3)"), B("p"), E("p", 2), S]
    compare(stage, [
        ("A", rows, "1 2 D(1) D(2) s Zi"),
        NEXT,
        ("A", [E("p", 2), S], "E[34000] Zi"),
        ("A", [Q("begin")] + rows, "C(BEGIN) ZT 1 2 D(1) D(2) s ZT"),
        ("A", [E("p", 2), S], "D(3) C(SELECT 1) ZT"),
        ("A", [C("P", "p"), E("p"), S], "3 E[34000] ZE"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
        NEXT,
    ])


@test(databases=ONE)
def resets_in_a_batch(stage):
    """DEALLOCATE ALL in front of another statement, in one batch, twice; and as simple queries."""
    batch = [P("", "deallocate all"), B(), E(), P("", "select 2"), B(), E(), S]
    wanted = "1 2 C(DEALLOCATE ALL) 1 2 D(2) C(SELECT 1) Zi"
    compare(stage, [
        ("A", batch, wanted), ("A", batch, wanted), NEXT,
        ("A", [Q("deallocate all"), P("", "select 3"), B(), E(), S],
         "C(DEALLOCATE ALL) Zi 1 2 D(3) C(SELECT 1) Zi"),
        ("A", [Q("discard all"), P("", "select 4"), B(), E(), S],
         "C(DISCARD ALL) Zi 1 2 D(4) C(SELECT 1) Zi"),
        NEXT,
    ])


@test(databases=ONE)
def commit_by_sync_order(stage):
    """BEGIN and COMMIT deep inside batches: the status of the last ReadyForQuery is what counts."""
    def run(sql):
        return [P("", sql), B(), E()]
    compare(stage, [
        ("A", run("begin") + run("select 1") + [S] + run("commit") + run("select 2") + [S],
         "1 2 C(BEGIN) 1 2 D(1) C(SELECT 1) ZT 1 2 C(COMMIT) 1 2 D(2) C(SELECT 1) Zi"),
        NEXT,
        ("A", run("begin") + run("insert into t values (1)") + run("rollback") + [S],
         "1 2 C(BEGIN) 1 2 C(INSERT 0 1) 1 2 C(ROLLBACK) Zi"),
        ("B", [Q("select count(*) from t")], "T1 D(0) C(SELECT 1) Zi"),
        ("A", run("begin") + run("select 1/0") + run("commit") + [S], "1 2 C(BEGIN) 1 E[22012] ZE"),
        ("B", [Q("select 8")], None),
        ("A", run("commit") + [S], "1 2 C(ROLLBACK) Zi"),
        ("B", [], "T1 D(8) C(SELECT 1) Zi"),
    ], setup=["truncate t"])


@test("default_pool_size = 2", seconds=60)
def crowd_of_pipelines(stage):
    """16 clients send pipelines of 50 batches, each with its own values, over two servers."""
    def work(number):
        one = stage.wire(timeout=30)
        for turn in range(6):
            first = number * 1000000 + turn * 1000
            data, wanted = [], []
            for value in range(first, first + 50):
                bad = value % 7 == 0
                data += [P("", "select $1::int/$2::int"), B("", "", value, 0 if bad else 1), E(), S]
                wanted += ["1", "E[22012]", "Zi"] if bad else \
                    ["1", "2", f"D({value})", "C(SELECT 1)", "Zi"]
            one.send(*data)
            same(one.reply(len(wanted), 20), wanted, turn)
    together(16, work, 50)
