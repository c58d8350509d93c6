# SPDX-License-Identifier: GPL-2.0-or-later
"""Prepared statements at their edges: names, sizes, cuts, errors at every place, portals, COPY."""
import time

from batches import alike
from crowds import together
from harness import check, same, test
from replay import compare
from wire import B, C, D, E, H, P, Q, S, c, d, f, message

KEPT = "max_prepared_statements = 200"
ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"
TWO = ONE.replace("pool_size=1", "pool_size=2")
NAMES = ["", "a", "x" * 62, "x" * 63, "y" * 64, "z" * 200, "x" * 63 + "1", "x" * 5000, "it's",
         'quo"ted', "back\\slash", "ünïcödé", "日本" * 20, "PGBOUNCER_1", "PGBOUNCER_2",
         "rb_" + "0" * 32, " ", "\t\n", "%s%n", "S_1", "all", "select 1; drop table t", "\x01\x7f", "é" * 31 + "x", "é" * 32]


def run(name, *values):
    return [B("", name, *values), E(), S]


@test(KEPT, databases=ONE, new=True, seconds=90, slow=True)
def names(stage):
    """Names of any length and any characters, used by two clients for other texts."""
    for number, name in enumerate(NAMES):
        rest = [] if not name else [("A", [C("S", name), S]), ("A", run(name)), ("B", run(name))]
        alike(stage, [
            ("A", [P(name, f"select {number}"), D("S", name)] + run(name)),
            ("B", [P(name, f"select 'other {number}'"), D("S", name)] + run(name)),
        ] + ([("A", run(name)), ("B", run(name))] if name else []) + rest)


@test(KEPT, databases=ONE, new=True)
def names_all_together(stage):
    """The same names all in one client, with what is one name to PostgreSQL for its length."""
    named = [n for n in NAMES if n]
    alike(stage, [("A", [P(n, f"select {i}"), S]) for i, n in enumerate(named)] +
          [("A", run(n)) for n in named] + [("B", run(n)) for n in named] +
          [("A", [C("S", n) for n in named[::2]] + [S])] + [("A", run(n)) for n in named])


@test(KEPT, databases=ONE, new=True, seconds=90)
def cut_anywhere(stage):
    """The messages of a named statement in single bytes, and cut once at each place."""
    whole = (C("S", "cut") + P("cut", "select $1::int, 'ünï'", (23,)) + D("S", "cut") + B("", "cut", 77) +
             D("P", "") + E() + S)
    one, two = stage.wire(), stage.wire()
    wanted = ["3", "1", "t", "T2", "2", "T2", "D(77,ünï)", "C(SELECT 1)", "Zi"]
    for cut in range(1, len(whole)):
        one.send(whole[:cut])
        if cut % 4 == 0:
            time.sleep(0.002)
        one.send(whole[cut:])
        same(one.reply(9), wanted, cut)
        if cut % 8 == 0:
            same(two.value("select 2"), "2")
    for byte in whole * 2:
        one.send(bytes([byte]))
    same(one.reply(18), wanted * 2)


@test(KEPT, databases=ONE, new=True, seconds=90)
def large_texts(stage):
    """Texts of every size around buffers, up to 2 MB, cut at many places, from two clients."""
    one, two = stage.wire(timeout=30), stage.wire(timeout=30)
    for size in (3000, 4090, 4096, 8180, 16370, 16384, 32768, 65536, 300000, 2000000):
        for delta in range(-12, 13, 6):
            text = f"select length('{'x' * (size + delta)}'), $1::int"
            data = P("big", text) + D("S", "big") + B("", "big", size) + E() + C("S", "big") + S
            for number, who in enumerate((one, two)):
                if number:
                    step = max(1000, len(data) // 7)
                    for at in range(0, len(data), step):
                        who.send(data[at:at + step])
                else:
                    who.send(data)
                row = f"D({size + delta},{size})"
                same(who.reply(7, 20), ["1", "t", "T2", "2", row, "C(SELECT 1)", "3"], size + delta)
                same(who.reply(1), ["Zi"])


@test(KEPT, databases=ONE, new=True)
def large_texts_stay(stage):
    """Large texts are kept: prepared again on the server when another's have pushed them out."""
    for limit in (200, 1):
        stage.reload(config=f"max_prepared_statements = {limit}", databases=ONE)
        clients = [stage.wire(timeout=30) for _ in range(3)]
        for number, one in enumerate(clients):
            one.send(P("big", f"select length('{'x' * 300000}') + {number}"), P("small", "select 1"), S)
            same(one.reply(3), ["1", "1", "Zi"])
        for _ in range(3):
            for number, one in enumerate(clients):
                one.send(B("", "big"), E(), B("", "small"), E(), B("", "big"), E(), S)
                row = f"D({300000 + number})"
                same(one.reply(10, 20), ["2", row, "C(SELECT 1)", "2", "D(1)", "C(SELECT 1)", "2", row,
                                         "C(SELECT 1)", "Zi"])
        for one in clients:
            one.close()


@test(KEPT, databases=TWO, new=True, seconds=90)
def large_parameters_beside_others(stage):
    """Parameters of 5 MB for a named statement while 20 other clients work with theirs."""
    end = []

    def large(_):
        one = stage.wire(timeout=40)
        one.send(P("big", "select length($1::text), md5($1::text)"), S)
        same(one.reply(2), ["1", "Zi"])
        try:
            for turn in range(6):
                value = str(turn) * 5000000
                one.send(*run("big", value))
                same(one.reply(1, 30), ["2"])
                same(one.read(30).row()[0], "5000000")
                same(one.reply(2, 30), ["C(SELECT 1)", "Zi"])
        finally:
            end.append(1)

    def small(number):
        one = stage.wire(timeout=40)
        one.send(P("s", f"select $1::int + {number}"), S)
        same(one.reply(2, 30), ["1", "Zi"])
        turn = 0
        while not end:
            turn += 1
            one.send(*run("s", turn))
            same(one.reply(4, 30), ["2", f"D({turn + number})", "C(SELECT 1)", "Zi"])
    together(21, lambda number: (large if number == 0 else small)(number), 80)


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def errors_at_each_place(stage):
    """[Parse Bind Describe Execute Close Sync] with an error at each place: what exists afterwards."""
    batch = [P("a", "select 1/$1::int"), D("S", "a"), B("", "a", 1), D("P", ""), E(), P("b", "select 2"),
             B("", "b"), E(), C("S", "a"), C("P", ""), P("a", "select 3"), B("", "a"), E()]
    wrongs = [P("w", "nonsense"), B("", "none"), B("none", "a", "x"), D("P", "none"), E("none"),
              P("b", "select 1/0"), Q("select 1/0")]
    probe = [m for n in ("a", "b", "w") for m in (("A", [D("S", n), S]),)]
    script = []
    for at in range(len(batch) + 1):
        for bad in wrongs if at % 3 == 0 else wrongs[at % len(wrongs):][:2]:
            script += [("B", [C("S", "a"), P("a", "select 3"), S]),
                       ("A", [C("S", n) for n in "abw"] + [S]),
                       ("A", batch[:at] + [bad] + batch[at:] + [S])] + probe
            script += [("A", [C("S", "a"), C("S", "b")] + batch + [S]), ("B", run("a"))]
    alike(stage, script)


@test(KEPT, databases=ONE, new=True)
def failing_values(stage):
    """Named statements whose execution fails: they stay; nothing behind them in the batch happens."""
    compare(stage, [
        ("A", [P("a", "select 1/$1::int"), S], "1 Zi"),
        ("A", [B("", "a", 0), E(), C("S", "a"), S], "E[22012] Zi"),
        ("A", run("a", "x"), "E[22P02] Zi"),
        ("A", run("a"), "E[08P01] Zi"),
        ("A", run("a", 1, 2), "E[08P01] Zi"),
        ("A", run("a", 1), "2 D(1) C(SELECT 1) Zi"),
        ("A", [P("a", "select 9"), S], "E[42P05] Zi"),
        ("A", [P("b", "select 2"), P("b", "select 3"), P("c", "select 4"), S], "1 E[42P05] Zi"),
        ("A", run("b"), "2 D(2) C(SELECT 1) Zi"),
        ("A", run("c"), "E[26000] Zi"),
        ("B", [P("c", "select 4")] + run("c"), "1 2 D(4) C(SELECT 1) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def close_and_prepare_in_one(stage):
    """Close and Parse of one name in one packet, several times, with uses in between."""
    many = [m for i in range(20) for m in (C("S", "s"), P("s", f"select {i}"), B("", "s"), E())]
    wanted = " ".join(f"3 1 2 D({i}) C(SELECT 1)" for i in range(20))
    compare(stage, [
        ("A", [P("s", "select 'first'"), C("S", "s"), P("s", "select 'second'"), B("", "s"), E(), S],
         "1 3 1 2 D(second) C(SELECT 1) Zi"),
        ("A", many + [S], wanted + " Zi"),
        ("B", many + [S], wanted + " Zi"),
        ("A", run("s"), "2 D(19) C(SELECT 1) Zi"),
        ("A", [C("S", "s"), C("S", "s"), D("S", "s"), S], "3 3 E[26000] Zi"),
        ("A", [C("S", "none"), C("P", "none"), S], "3 3 Zi"),
        ("A", [C("S", ""), P("", "select 5"), C("S", ""), B("", ""), S], "3 1 3 E[26000] Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def described_when(stage):
    """Describe of a statement before and behind its Parse, Close and use; of no portal."""
    compare(stage, [
        ("A", [D("S", "s"), S], "E[26000] Zi"),
        ("A", [P("s", "select $1::int, $2::text"), D("S", "s"), D("S", "s"), S], "1 t T2 t T2 Zi"),
        ("A", [D("S", "s"), B("p", "s", 1, 2), D("P", "p"), D("S", "s"), S], "t T2 2 T2 t T2 Zi"),
        ("B", [D("S", "s"), S], "E[26000] Zi"),
        ("A", [D("P", "p"), S], "E[34000] Zi"),
        ("A", [P("n", "set datestyle = iso"), D("S", "n"), B("", "n"), D("P"), S], "1 t n 2 n Zi"),
        ("A", [D("S", "s"), C("S", "s"), D("S", "s"), S], "t T2 3 E[26000] Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def driven_by_flush(stage):
    """Every message with a Flush of its own, errors too; nothing comes late."""
    compare(stage, [
        ("A", [P("s", "select $1::int"), H], "1"),
        ("A", [D("S", "s"), H], "t T1"),
        ("A", [B("p", "s", 1), H], "2"),
        ("A", [D("P", "p"), H], "T1"),
        ("A", [E("p"), H], "D(1) C(SELECT 1)"),
        ("A", [C("P", "p"), H], "3"),
        ("A", [C("S", "s"), H], "3"),
        ("A", [P("s", "select 'again'"), H], "1"),
        ("A", [S], "Zi"),
        ("B", [P("s", "select $1::int"), H], "1"),
        ("B", [P("t", "select 'again'"), H], "1"),
        ("B", [B("", "none"), H], "E[26000]"),
        ("B", [C("S", "s"), H, S], "Zi"),
        ("B", run("s", 4), "2 D(4) C(SELECT 1) Zi"),
        ("A", [B("", "s"), H], "2"),
        ("A", [E(), H], "D(again) C(SELECT 1)"),
        ("A", [S], "Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def portions_over_flush(stage):
    """Portals of named statements in portions over Flush, two at once, and their statement closed."""
    compare(stage, [
        ("A", [P("s", "select generate_series(1, $1::int)"), B("p", "s", 3), E("p", 2), H],
         "1 2 D(1) D(2) s"),
        ("A", [B("q", "s", 2), E("q", 1), C("S", "s"), H], "2 D(1) s 3"),
        ("A", [E("p", 2), E("q", 2), S], "D(3) C(SELECT 1) D(2) C(SELECT 1) Zi"),
        ("A", run("s", 1), "E[26000] Zi"),
        ("B", [P("s", "select generate_series(1, $1::int)"), B("", "s", 1), E("", 1), E("", 1), S],
         "1 2 D(1) s C(SELECT 0) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def copy_by_named_statement(stage):
    """COPY by prepared statements, in and out, with errors, and again by another client."""
    compare(stage, [
        ("A", [P("in", "copy t from stdin"), P("out", "copy (select 3) to stdout"), S], "1 1 Zi"),
        ("A", [B("", "in"), E(), S], "2 G"),
        ("A", [d("1\n"), c, S], "C(COPY 1) Zi"),
        ("B", [P("in", "copy t from stdin"), B("", "in"), E(), H], "1 2 G"),
        ("B", [d("2\n"), c, S], "C(COPY 1) Zi"),
        ("A", [B("", "out"), E(), B("", "out"), E(), S],
         "2 H d(3) c C(COPY 1) 2 H d(3) c C(COPY 1) Zi"),
        ("A", [B("", "in"), E(), H], "2 G"),
        ("A", [f(), P("lost", "select 1"), S], "E[57014] Zi"),
        ("A", run("lost"), "E[26000] Zi"),
        ("A", [B("", "in"), E(), H], "2 G"),
        ("A", [d("x\n"), c, S], "E[22P02] Zi"),
        ("B", [B("", "in"), E(), S, d("3\n"), c, S], "2 G C(COPY 1) Zi"),
        ("A", [P("sum", "select sum(v) from t")] + run("sum"), "1 2 D(6) C(SELECT 1) Zi"),
    ], setup=["truncate t"])


@test(KEPT, databases=ONE, new=True)
def mixed_with_simple(stage):
    """Named statements between simple queries in one send, in and out of transactions, with errors."""
    alike(stage, [
        ("A", [P("s", "select 1"), Q("select 2"), B("", "s"), E(), Q("select 3"), S]),
        ("B", [Q("begin"), P("s", "select 4"), B("", "s"), E(), Q("commit"), B("", "s"), E(), S]),
        ("A", [Q("select 1/0"), B("", "s"), E(), Q("select 1/0"), B("", "s"), E(), S]),
        ("B", [Q("begin"), Q("select 1/0"), P("lost", "select 5"), S, B("", "s"), E(), S, Q("rollback"),
               B("", "s"), E(), B("", "lost"), E(), S]),
        ("A", run("s")), ("B", run("s")), ("B", run("lost")),
    ])


@test(KEPT, databases=ONE, new=True)
def broken_messages(stage):
    """Parse, Bind, Describe and Close cut short or without ends: an error, no harm to others."""
    two = stage.wire()
    two.send(P("s", "select 2"), S)
    same(two.reply(2), ["1", "Zi"])
    bodies = [b"", b"s", b"s\0", b"s\0select 1", b"s\0select 1\0", b"s\0select 1\0\0",
              b"s\0select 1\0\0\5", b"s\0select 1\0\xff\xff", b"Ss", b"Xs\0", b"S", b"\0s", b"\0s\0", b"\0s\0\0\0\0\1",
              b"\0s\0\0\0\0\1\x7f\xff\xff\xff", b"\0s\0\0\0\0\1\xff\xff\xff\xfe\0\0", b"x" * 70000]
    for kind in "PBDC":
        for body in bodies:
            one = stage.wire(timeout=3)
            one.send(P("s", "select 1"), message(kind, body), S)
            got = one.reply(1, 5)
            check(got[0] in ("1", "E[08P01]", "EOF"), kind, body[:20], got)
            one.close()
            two.send(*run("s"))
            same(two.reply(4), ["2", "D(2)", "C(SELECT 1)", "Zi"], f"{kind} {body[:20]}")


@test(KEPT + "\nmax_packet_size = 100000", databases=ONE, new=True)
def larger_than_allowed(stage):
    """A Parse or Bind above max_packet_size ends its client, as any message does; others go on."""
    two = stage.wire()
    two.send(P("s", "select 2"), S)
    same(two.reply(2), ["1", "Zi"])
    for data in (Q("select '" + "x" * 200000 + "'"), P("s", "select '" + "x" * 200000 + "'") + S,
                 P("s", "select $1::text") + B("", "s", "x" * 200000) + E() + S):
        one = stage.wire(timeout=3)
        try:
            one.send(data)
        except OSError:
            pass
        got = one.reply(4, 2)
        check(got[-1] == "EOF" or "E[" in "".join(got), got)
        two.send(*run("s"))
        same(two.reply(4), ["2", "D(2)", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def held_server_and_waiting(stage):
    """Statements prepared by who waits for the server, while who holds it prepares the same."""
    one, two = stage.wire(), stage.wire()
    one.send(Q("begin"), P("s", "select 1"), S)
    same(one.reply(4), ["C(BEGIN)", "ZT", "1", "ZT"])
    two.send(P("s", "select 1"), B("", "s"), E(), C("S", "s"), S, P("s", "select 2"), *run("s"))
    same(two.quiet(0.1), [])
    one.send(*run("s"), C("S", "s"), P("s", "select 3"), *run("s"), Q("commit"))
    same(one.reply(12), ["2", "D(1)", "C(SELECT 1)", "ZT", "3", "1", "2", "D(3)", "C(SELECT 1)", "ZT",
                         "C(COMMIT)", "Zi"])
    same(two.reply(11), ["1", "2", "D(1)", "C(SELECT 1)", "3", "Zi", "1", "2", "D(2)", "C(SELECT 1)",
                         "Zi"])


@test(KEPT, databases=ONE, new=True)
def parse_right_behind_sync(stage):
    """Batches that follow each other without waiting, each using what the one before has made."""
    batches = [m for i in range(30) for m in
               [P(f"s{i}", f"select {i}"), S] + run(f"s{i}") +
               ([C("S", f"s{i - 3}"), S] if i > 2 else [])]
    wanted = " ".join(f"1 Zi 2 D({i}) C(SELECT 1) Zi" + (" 3 Zi" if i > 2 else "") for i in range(30))
    compare(stage, [("A", batches, wanted), ("B", batches, wanted), ("A", run("s0"), "E[26000] Zi"),
                    ("A", run("s29"), "2 D(29) C(SELECT 1) Zi")], pieces=(0,))


@test(databases=ONE, new=True)
def skipped_query_keeps_the_unnamed(stage):
    """A Query that the server skips after an error does not drop the statement without name."""
    one, direct = stage.wire(), stage.direct()
    for wire in (direct, one):
        for wait in (0.05, 0):
            wire.send(P("", "select $1::int + 1"), B("", ""), H)
            if wait:
                same(wire.reply(2), ["1", "E[08P01]"])
            wire.send(Q("select 1"), S)
            same(wire.reply(1 if wait else 3)[-1], "Zi")
            wire.send(B("", "", "41"), E(), S)
            same(wire.reply(4), ["2", "D(42)", "C(SELECT 1)", "Zi"])


@test(databases=ONE)
def many_skipped_unnamed(stage):
    """However many Parses without name are skipped, the one before them is there."""
    one = stage.wire()
    for count in (1, 3, 4, 5, 20):
        one.send(P("", "select 'first'"), B("", "unknown"),
                 *(P("", f"select {i}") for i in range(count)), S, B(), E(), S)
        same(one.reply(7), ["1", "E[26000]", "Zi", "2", "D(first)", "C(SELECT 1)", "Zi"])
