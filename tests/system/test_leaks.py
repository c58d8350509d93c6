# SPDX-License-Identifier: GPL-2.0-or-later
"""Clients that leave in the middle of something: what they began is not another's to find."""
import time

from crowds import together
from harness import check, sanitized, same, test
from tools import rss, until
from wire import B, C, Closed, D, E, H, P, Q, S, c, d

ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"
HASTY = ONE.replace("pool_size=1\n", "pool_size=1 connect_query='set "
                    "idle_in_transaction_session_timeout = 2000'\n", 1)


def leave(one, how):
    if how == "reset":
        one.reset()
    elif how == "end":
        one.sock.close()
    else:
        one.close()


def clean(two, about):
    """The next client's answers are his own, and come to what he asked."""
    two.send(Q("select 2"), P("", "select 3"), B(), E(), S)
    same(two.reply(8, 4), ["T1", "D(2)", "C(SELECT 1)", "Zi", "1", "2", "D(3)", "C(SELECT 1)"], about)
    same(two.reply(1), ["Zi"], about)


@test(databases=ONE, seconds=90)
def gone_at_each_message(stage):
    """A client that leaves behind each message of a batch: nothing is done, nobody hears of it."""
    batch = [P("", "insert into t values ($1)"), B("", "", 5), D(), E(), H]
    two = stage.wire()
    two.query("truncate t")
    for count in range(1, len(batch) + 1):
        for how in ("reset", "end", "terminate"):
            one = stage.wire()
            one.send(*batch[:count])
            time.sleep(0.02)
            leave(one, how)
            clean(two, f"{count} {how}")
            same(two.value("select count(*) from t"), "0", f"{count} {how}")


@test(databases=ONE, seconds=90)
def gone_in_each_byte(stage):
    """The same behind each byte of a message."""
    data = P("", "insert into t values (9)") + B() + E()
    two = stage.wire()
    two.query("truncate t")
    for cut in range(1, len(data), 1 if stage.options.long else 3):
        one = stage.wire()
        one.send(data[:cut])
        if cut % 2:
            time.sleep(0.01)
        leave(one, ("reset", "end", "terminate")[cut % 3])
        same(two.value("select count(*) from t"), "0", cut)
    clean(two, "at the end")


@test(databases=ONE)
def gone_while_messages_are_skipped(stage):
    """A client that leaves between an error and its Sync: the server is free again."""
    two = stage.wire()
    starts = ([P("", "nonsense"), B(), E()], [P("", "nonsense"), Q("select 1"), H], [B("", "none"), H],
              [P("", "select 1/$1::int"), B("", "", 0), E(), Q("release savepoint x")])
    for start in starts:
        for how in ("reset", "end", "terminate"):
            one = stage.wire()
            one.query("begin")
            one.send(*start)
            check("E[" in " ".join(one.reply(2, 0.1)))
            leave(one, how)
            clean(two, how)


@test(databases=ONE, new=True)
def gone_with_answers_due(stage):
    """Clients that leave with many answers on the way, read or not: none reaches the next."""
    two = stage.wire()
    pipeline = [m for i in range(50) for m in (P("", f"select 'stranger {i}', repeat('x', 2000)"), B(),
                                               E(), S, Q(f"select 'stranger {i}'"))]
    for count in (0, 1, 7, 100):
        for how in ("reset", "end", "terminate"):
            one = stage.wire()
            one.send(*pipeline)
            one.reply(count)
            leave(one, how)
            clean(two, f"{count} {how}")


@test(databases=ONE, new=True)
def gone_while_waiting(stage):
    """Batches of clients that leave while they wait for a server are never run."""
    holder, two = stage.wire(), stage.wire()
    holder.query("truncate t")
    holder.query("begin")
    gone = [stage.wire() for _ in range(6)]
    for number, one in enumerate(gone):
        one.send(P("", "insert into t values (7)"), B(), E(), S)
        time.sleep(0.01)
        leave(one, ("reset", "terminate")[number % 2])
    # Terminate stands behind a whole batch: that one was asked for, and may be run.
    check(until(lambda: stage.pools()["cl_waiting"] == 0))
    holder.query("commit")
    clean(two, "behind them")
    count = int(two.value("select count(*) from t"))
    check(count in (0, 3), count)


@test(databases=ONE)
def suspended_portals_left(stage):
    """A suspended portal, and a cursor held, of a client that left are not there for the next."""
    for first in ([P("", "select generate_series(1, 5)"), B("p"), E("p", 2), H],
                  [Q("begin"), P("", "select generate_series(1, 5)"), B("p"), E("p", 2), S]):
        one, two = stage.wire(), stage.wire()
        one.send(*first)
        same(one.reply(5)[-1][0] in "sD", True)
        one.reset()
        two.send(E("p", 2), S)
        same(two.reply(2), ["E[34000]", "Zi"])
        clean(two, "behind the portal")
        two.close()


@test(databases=HASTY, seconds=90)
def no_transaction_is_forgotten(stage):
    """BEGIN at the end of a pipeline beside another's work: no server is left to idle in it."""
    mark, end = stage.cluster.mark(), []

    def beside(_):
        one = stage.wire(timeout=20)
        while not end:
            same(one.value("select 99"), "99")

    def pipelines(_):
        one = stage.wire(timeout=20)
        first = [m for i in (1, 2, 3) for m in ("T1", f"D({i})", "C(SELECT 1)", "Zi")]
        try:
            for _ in range(100 if not stage.options.long else 1000):
                one.send(Q("select 1"), Q("select 2"), Q("select 3"), Q("begin read only"))
                same(one.reply(14), first + ["C(BEGIN)", "ZT"])
                one.send(Q("select 4"), Q("commit"))
                same(one.reply(5), ["T1", "D(4)", "C(SELECT 1)", "ZT", "C(COMMIT)"])
                same(one.reply(1), ["Zi"])
        finally:
            end.append(1)
    together(2, lambda number: (beside, pipelines)[number](number), 80)
    check("idle-in-transaction" not in stage.cluster.logged(mark))


@test(databases=ONE, slow=True, seconds=200)
def copy_rounds(stage):
    """COPY with a Sync on both sides of its data, over and over: one ReadyForQuery each, no memory."""
    one, two = stage.wire(), stage.wire()
    rounds = 400 if not stage.options.long else 10000
    for who in (one, two):
        who.query("select length('%s')" % ("y" * 20000000))  # touches the buffers for receiving
    before = rss(stage.pooler.pid)
    for number in range(rounds):
        one.send(P("", "copy t from stdin"), B(), E(), S)
        same(one.reply(3), ["1", "2", "G"])
        one.send(d("1\n"), c, S)
        same(one.reply(2), ["C(COPY 1)", "Zi"])
        if number % 50 == 0:
            same(one.quiet(0.01), [])
            same(two.value("select 2"), "2")
    grown = rss(stage.pooler.pid) - before
    check(until(lambda: stage.pools()["sv_active"] == 0))
    check(sanitized(stage) or grown < 2 << 20, grown)
    two.query("truncate t")


@test(databases=ONE)
def late_answers_after_an_end(stage):
    """The server's FATAL in a pipeline: the client hears it and the end; the next is served."""
    for start in ([Q("select pg_terminate_backend(pg_backend_pid())"), Q("select 'stranger'")],
                  [P("", "select pg_terminate_backend(pg_backend_pid())"), B(), E(), S,
                   P("", "select 'stranger'"), B(), E(), S]):
        one = stage.wire()
        one.send(*start)
        try:
            error = one.ended(4)
        except Closed:
            error = None
        check(error and error.sqlstate in ("57P01", "08P01"), error)
        clean(stage.wire(), "behind the end")


@test("default_pool_size = 2", new=True, seconds=60)
def strangers(stage):
    """Clients that leave at random moments, beside others that check each answer."""
    end = time.monotonic() + (4 if not stage.options.long else 40)

    def restless(number):
        turn = 0
        while time.monotonic() < end:
            turn += 1
            one = stage.wire(timeout=20)
            data = b"".join(m for i in range(5) for m in (
                P("", f"select 'stranger {i}'"), B(), E(), C("P", ""), S,
                Q("begin; select 'stranger'")))
            one.send(data[:(turn * 37 + number * 101) % len(data)])
            if turn % 3 == 0:
                one.reply(turn % 11, 0.05)
            leave(one, ("reset", "end", "terminate")[turn % 3])

    def steady(number):
        one = stage.wire(timeout=20)
        turn = 0
        while time.monotonic() < end:
            turn += 1
            mine = f"{number}/{turn}"
            one.send(P("", "select $1::text"), B("", "", mine), E(), S, Q(f"select '{mine}'"))
            same(one.reply(9), ["1", "2", f"D({mine})", "C(SELECT 1)", "Zi", "T1", f"D({mine})",
                                "C(SELECT 1)", "Zi"])
    together(8, lambda number: (restless if number < 4 else steady)(number), 55)
