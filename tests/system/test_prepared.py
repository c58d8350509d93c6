# SPDX-License-Identifier: GPL-2.0-or-later
"""Prepared statements of the protocol on shared servers: what poolers have got wrong with them."""
import time

from batches import alike, compare_random
from crowds import together
from harness import check, same, test
from replay import compare
from wire import B, C, D, E, H, P, PgError, Q, S

KEPT = "max_prepared_statements = 200"
ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"
TWO = ONE.replace("pool_size=1", "pool_size=2")


def run(name, *values):
    return [B("", name, *values), E(), S]


@test(KEPT, databases=ONE, new=True)
def reset_in_front_of_parse(stage):
    """A reset in front of a Parse in one batch forgets what was before it, not what comes behind."""
    for reset in ("DEALLOCATE ALL", "deallocate prepare all"):
        compare(stage, [
            ("A", [P("s1", "select 1"), S], "1 Zi"),
            ("A", [P("", reset), B(), E(), P("s2", "select 2"), B("", "s2"), E(), S],
             "1 2 C(DEALLOCATE ALL) 1 2 D(2) C(SELECT 1) Zi"),
            ("A", run("s2"), "2 D(2) C(SELECT 1) Zi"),
            ("A", run("s1"), "E[26000] Zi"),
            ("A", [P("s1", "select 3")] + run("s1"), "1 2 D(3) C(SELECT 1) Zi"),
        ])
    compare(stage, [
        ("A", [P("s1", "select 1"), S], "1 Zi"),
        ("A", [P("", "discard all"), B(), E(), S], "1 2 C(DISCARD ALL) Zi"),
        ("A", [P("s2", "select 2")] + run("s2"), "1 2 D(2) C(SELECT 1) Zi"),
        ("A", run("s2"), "2 D(2) C(SELECT 1) Zi"),
        ("A", run("s1"), "E[26000] Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def reset_query_in_front_of_parse(stage):
    """The same with the reset as a simple query in front, in one send."""
    for reset in ("DEALLOCATE ALL", "DISCARD ALL"):
        compare(stage, [
            ("A", [P("s1", "select 1"), S], "1 Zi"),
            ("A", [Q(reset), P("s2", "select 2"), B("", "s2"), E(), S],
             f"C({reset}) Zi 1 2 D(2) C(SELECT 1) Zi"),
            ("A", run("s2"), "2 D(2) C(SELECT 1) Zi"),
            ("A", run("s1"), "E[26000] Zi"),
        ])


@test(KEPT, databases=ONE, new=True)
def reset_by_another(stage):
    """What one client resets is not another's: his statements are prepared again, unseen."""
    for reset in ("DEALLOCATE ALL", "DISCARD ALL", "deallocate all; select 1"):
        alike(stage, [
            ("B", [P("b", "select 7")] + run("b")),
            ("A", [Q(reset)]),
            ("B", run("b")),
            ("A", run("b")),
        ])
    compare(stage, [
        ("B", [P("b", "select 7")] + run("b"), "1 2 D(7) C(SELECT 1) Zi"),
        ("A", [Q("DEALLOCATE ALL")], "C(DEALLOCATE ALL) Zi"),
        ("B", run("b"), "2 D(7) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def refused_parse_is_forgotten(stage):
    """A name whose Parse the server has refused may be prepared again."""
    compare(stage, [
        ("A", [Q("begin")], "C(BEGIN) ZT"),
        ("A", [Q("select 1/0")], "E[22012] ZE"),
        ("A", [P("n1", "select 5"), S], "E[25P02] ZE"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
        ("A", [P("n1", "select 5")] + run("n1"), "1 2 D(5) C(SELECT 1) Zi"),
        ("B", [P("n2", "nonsense"), S], "E[42601] Zi"),
        ("B", run("n2"), "E[26000] Zi"),
        ("B", [P("n2", "select 6")] + run("n2"), "1 2 D(6) C(SELECT 1) Zi"),
        ("A", [Q("begin"), Q("select 1/0")], "C(BEGIN) ZT E[22012] ZE"),
        # It is prepared on the server already, and still must be refused.
        ("A", [P("n3", "select 5"), S], "E[25P02] ZE"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
        ("A", run("n3"), "E[26000] Zi"),
    ])


@test(KEPT, databases=ONE, new=True, seconds=90)
def same_name_with_begin(stage):
    """Clients that call other texts S_1, behind an unnamed BEGIN in the batch: each gets his own."""
    texts = ["insert into t values ($1::int)", "insert into t values ($1::int) returning v",
             "select $1::int union all select -1"]
    with stage.cluster.wire("test") as db:
        db.query("truncate t")
    rounds = 150 if not stage.options.long else 1000

    def work(number):
        one = stage.wire(timeout=40)
        said = [["C(INSERT 0 1)"], ["D({})", "C(INSERT 0 1)"], ["D({})", "D(-1)", "C(SELECT 2)"]][number]
        for turn in range(rounds):
            parse = [C("S", "S_1"), P("S_1", texts[number])] if turn % 3 == 0 else []
            one.send(P("", "BEGIN"), B(), E(), *parse, B("", "S_1", turn), E(), S)
            wanted = ["1", "2", "C(BEGIN)"] + (["3", "1"] if parse else []) + ["2"] + \
                [w.format(turn) for w in said] + ["ZT"]
            same(one.reply(len(wanted), 30), wanted, turn)
            one.send(P("", "COMMIT"), B(), E(), S)
            same(one.reply(4, 30), ["1", "2", "C(COMMIT)", "Zi"], turn)
    together(3, work, 80)
    with stage.cluster.wire("test") as db:
        same(db.value("select count(*) from t"), str(2 * rounds))
        db.query("truncate t")


@test(KEPT, databases=ONE, new=True)
def search_path_of_each(stage):
    """Clients with a search_path of their own from startup: kept or refused, never another's."""
    with stage.cluster.wire("test") as db:
        db.query("drop schema if exists x cascade; drop schema if exists y cascade; "
                 "create schema x; create schema y; create table if not exists public.p (v int); "
                 "create table x.p as select 1 as v; create table y.p as select 2 as v; "
                 "truncate public.p; insert into public.p values (3)")
    try:
        clients = []
        for path, value in (("x", "1"), ("y", "2"), (None, "3")):
            options = [("options", f"-c search_path={path}")] if path else []
            try:
                clients.append((stage.wire(params=options), value))
            except PgError as refused:
                check(path and "search_path" in refused.text, refused)
        for turn in range(100):
            for one, value in clients:
                one.send(*([] if turn else [P("s", "select v from p")]), *run("s"))
                wanted = ([] if turn else ["1"]) + ["2", f"D({value})", "C(SELECT 1)", "Zi"]
                same(one.reply(len(wanted)), wanted, turn)
    finally:
        with stage.cluster.wire("test") as db:
            db.query("drop schema x cascade; drop schema y cascade; drop table public.p")


@test(KEPT, databases=ONE, new=True)
def gone_behind_parse(stage):
    """A client that sends Parse and is gone: whoever prepares the same text next gets it prepared."""
    for number, rest in enumerate(([], [H], [B("", "a")], [B("", "a"), E()], [D("S", "a")])):
        for how in ("reset", "end", "terminate"):
            text = f"select 123 + {number}"
            one, two = stage.wire(), stage.wire()
            one.send(P("a", text), *rest)
            time.sleep(0.05)
            one.reset() if how == "reset" else one.close() if how == "terminate" else one.sock.close()
            two.send(P("z", text), *run("z"))
            same(two.reply(5, 4), ["1", "2", f"D({123 + number})", "C(SELECT 1)", "Zi"],
                 f"{number} {how}")
            two.close()


@test(KEPT, databases=ONE, new=True)
def savepoint_by_named_statement(stage):
    """Execute of a named statement, a simple query behind it, and no Sync until the error is there."""
    compare(stage, [
        ("A", [Q("begin")], "C(BEGIN) ZT"),
        ("A", [Q("savepoint x")], "C(SAVEPOINT) ZT"),
        ("A", [P("q", "select 1/$1::int"), S], "1 ZT"),
        ("A", [B("", "q", 0), E(), Q("release savepoint x")], "E[22012]"),
        ("A", [Q("rollback to savepoint x"), S], "ZE"),
        ("A", [Q("select 1")], "E[25P02] ZE"),
        ("A", [Q("rollback to savepoint x")], "C(ROLLBACK) ZT"),
        ("A", run("q", 1), "2 D(1) C(SELECT 1) ZT"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
        ("B", [P("q", "select 5"), S], "1 Zi"),
        ("A", run("q", 1), "2 D(1) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def nothing_between_error_and_sync(stage):
    """Behind an error nothing is answered up to the Sync, Close neither; and nothing happens."""
    compare(stage, [
        ("B", [P("x", "select 1"), S], "1 Zi"),
        ("A", [P("a", "select 1"), S], "1 Zi"),
        ("A", [B("", "nope"), E(), C("S", "a"), P("a2", "select 1"), D("S", "a2"), S], "E[26000] Zi"),
        ("A", run("a"), "2 D(1) C(SELECT 1) Zi"),
        ("A", run("a2"), "E[26000] Zi"),
        ("A", [P("", "select 1/0"), B(), C("S", "a"), C("S", "never"), P("a3", "select 1"), S],
         "1 E[22012] Zi"),
        ("A", run("a"), "2 D(1) C(SELECT 1) Zi"),
        ("A", [P("a3", "select 3")] + run("a3"), "1 2 D(3) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def described_begin_and_commit(stage):
    """BEGIN by an unnamed statement and COMMIT by a named one, both described."""
    compare(stage, [
        ("A", [P("", "begin"), B("", ""), D("P", ""), E(), S], "1 2 n C(BEGIN) ZT"),
        ("A", [P("q", "commit"), D("S", "q"), S], "1 t n ZT"),
        ("A", run("q"), "2 C(COMMIT) Zi"),
        ("B", [P("q", "select 2"), D("S", "q"), S], "1 t T1 Zi"),
        ("A", [Q("begin")] + run("q"), "C(BEGIN) ZT 2 C(COMMIT) Zi"),
        ("B", run("q"), "2 D(2) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def discard_all_forgets_own(stage):
    """DISCARD ALL by the extended protocol takes the client's own statements; the session goes on."""
    compare(stage, [
        ("A", [P("mine", "select 1"), S], "1 Zi"),
        ("B", [P("his", "select 2"), S], "1 Zi"),
        ("A", [P("", "discard all"), B(), D("P", ""), E(), S], "1 2 n C(DISCARD ALL) Zi"),
        ("A", [Q("select 1")], "T1 D(1) C(SELECT 1) Zi"),
        ("A", run("mine"), "E[26000] Zi"),
        ("B", run("his"), "2 D(2) C(SELECT 1) Zi"),
        ("A", [P("mine", "select 3")] + run("mine"), "1 2 D(3) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def dead_client_prepared_nothing(stage):
    """Clients that die in transactions leave the server as it was: the next prepares what they had."""
    for number, first in enumerate(("begin; select 1/0", "begin; select 1", "begin")):
        one, two = stage.wire(), stage.wire()
        one.send(Q(first), P("p", f"select 'of {number}'"), S)
        one.reply(2)
        one.reset() if number % 2 else one.close()
        two.send(Q("select txid_current_if_assigned(), count(*) from pg_prepared_statements "
                   "where not name like '%\\_%'"), P("p", f"select 'of {number}'"), *run("p"))
        same(two.reply(9, 4), ["T2", "D(null,0)", "C(SELECT 1)", "Zi", "1", "2", f"D(of {number})",
                               "C(SELECT 1)", "Zi"], first)


@test(KEPT, databases=ONE, new=True)
def same_name_other_text(stage):
    """Two clients with one name for two texts, and two names for one text."""
    compare(stage, [
        ("A", [P("s", "select 1"), S], "1 Zi"),
        ("B", [P("s", "select 2"), S], "1 Zi"),
        ("A", run("s"), "2 D(1) C(SELECT 1) Zi"),
        ("B", run("s"), "2 D(2) C(SELECT 1) Zi"),
        ("A", [P("r", "select 2")] + run("r"), "1 2 D(2) C(SELECT 1) Zi"),
        ("B", [C("S", "s"), S], "3 Zi"),
        ("A", run("r"), "2 D(2) C(SELECT 1) Zi"),
        ("B", run("s"), "E[26000] Zi"),
        ("B", [P("s", "select 1")] + run("s"), "1 2 D(1) C(SELECT 1) Zi"),
        ("A", [P("s", "select 9"), S], "E[42P05] Zi"),
        ("A", run("s"), "2 D(1) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def same_text_other_types(stage):
    """One text with parameters of other types is another statement."""
    text = "select pg_typeof($1)"
    compare(stage, [
        ("A", [P("s", text, (23,))] + run("s", 1), "1 2 D(integer) C(SELECT 1) Zi"),
        ("B", [P("s", text, (25,))] + run("s", 1), "1 2 D(text) C(SELECT 1) Zi"),
        ("A", [P("u", text, (25,))] + run("u", 1), "1 2 D(text) C(SELECT 1) Zi"),
        ("A", run("s", 1), "2 D(integer) C(SELECT 1) Zi"),
        ("B", [P("v", "select $1 || ''", (0,))] + run("v", 1), "1 2 D(1) C(SELECT 1) Zi"),
        ("A", [P("v", "select $1 || ''")] + run("v", 1), "1 2 D(1) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def unnamed_belongs_to_its_client(stage):
    """An unnamed statement is used again behind its Sync, as drivers do: never another client's runs."""
    one, two = stage.wire(), stage.wire()
    one.send(P("", "select 'one'"), D("S", ""), S)
    same(one.reply(4), ["1", "t", "T1", "Zi"])
    two.send(P("", "select 'two'"), D("S", ""), S)
    same(two.reply(4), ["1", "t", "T1", "Zi"])
    for who, name in ((one, "one"), (two, "two"), (one, "one")):
        who.send(*run(""))
        same(who.reply(4, 1), ["2", f"D({name})", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def unnamed_outlives_an_error(stage):
    """An unnamed statement whose Parse was answered is there behind an error of the same batch."""
    for limit in (200, 1):
        stage.reload(config=f"max_prepared_statements = {limit}", databases=ONE)
        for wrong in (D("P", "none"), B("", "none"), P("w", "nonsense")):
            alike(stage, [
                ("A", [P("a", "select 'a'"), P("b", "select 'b'"), S]),
                ("A", [P("", "select $1::int, $2::text"), wrong, Q("select 4; commit"), S]),
                ("A", run("", 1, 2)), ("B", [P("", "select 'other'")] + run("")),
                ("A", run("", 3, 4)), ("A", run("")), ("B", run("")),
                ("A", [P("", "select 5"), wrong, P("", "select 6"), S]), ("A", run("")),
                ("A", [P("", "nonsense"), S]), ("A", run("")), ("B", run("")),
            ])
            for rest in ([], [Q("select 4; commit")]):
                alike(stage, [
                    ("B", [P("x", "select 'x'"), S]),
                    ("A", [P("", "select $1::int, $2::text"), wrong, *rest, S] + run("", 1, 2)),
                    ("A", run("", 3, 4)),
                    ("A", [P("", "select 5"), wrong, *rest, S, B("", ""), E(), wrong, S] + run("")),
                    ("B", run("x")), ("A", run("")),
                    ("A", [P("", "select 5"), S, P("", "nonsense"), *rest, S] + run("") + run("")),
                ])


@test(KEPT, databases=ONE, new=True, seconds=150)
def random_batches(stage):
    """Random batches with named statements: two clients hear what PostgreSQL would tell them."""
    for seed in range(4 if not stage.options.long else 100):
        compare_random(stage, f"named {seed}", 100, names=("", "a", "b", "c"), anew=True)


@test("max_prepared_statements = 1", databases=ONE, new=True, seconds=150)
def random_batches_with_one_place(stage):
    """The same where a server keeps a single statement."""
    for seed in range(4 if not stage.options.long else 100):
        compare_random(stage, f"one place {seed}", 100, names=("", "a", "b", "c"), clients=3,
                       anew=True)


@test("max_prepared_statements = 200", databases="test = host=127.0.0.1 port=PG pool_size=2", new=True)
def unnamed_is_the_last_one(stage):
    """A statement without name, parsed in one batch and bound in the next on the other server, which has
    had an earlier one of the same client."""
    one, other = stage.wire(), stage.wire()
    for i in range(40):
        one.send(P("", f"select 'text {i}'"), D("S"), S)
        same(one.reply(4)[-1], "Zi")
        other.query("begin")  # takes the server that has just become free
        one.send(B(), E(), S)
        same(one.reply(4), ["2", f"D(text {i})", "C(SELECT 1)", "Zi"])
        if i % 3:
            other.query("commit")
        else:
            one.send(P("", f"select 'again {i}'"), S)
            same(one.reply(2)[-1], "Zi")
            other.query("commit")
            one.send(B(), E(), S)
            same(one.reply(4), ["2", f"D(again {i})", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def unnamed_behind_a_skipped_one(stage):
    """A statement without name that an error skips, and later ones in the same send that are not skipped."""
    alike(stage, [
        ("A", [D("P"), P("", "select 1"), S, P("", "select 2"), B(), E(), S, P("", "select 3"), B(), E(), S]),
        ("A", [B(), E(), S]),
        ("A", [P("", "select 4"), S, D("P"), P("", "select 5"), S, B(), E(), S, P("", "select 6"), S]),
        ("A", [B(), E(), S]),
    ])
