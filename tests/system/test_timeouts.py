# SPDX-License-Identifier: GPL-2.0-or-later
"""Timeouts: that they fire, when, and that they do not fire when they should not."""
import socket
import time

from harness import check, fails, same, test
from tools import until
from wire import B, D, E, H, P, Q, S, Closed, startup

ONE = "test = host=127.0.0.1 port=PG pool_size=1\nsecond = host=127.0.0.1 port=PG"


def cut_off(one, text, least, most):
    """Waits until `one` is ended with `text`, between least and most seconds from now."""
    began = time.monotonic()
    error = one.ended(most + 2)
    took = time.monotonic() - began
    check(error and error.text == text, error)
    same(error.fields["S"], "FATAL")
    check(least <= took <= most, f"after {took:.2f} s")


@test("query_wait_timeout = 1", databases=ONE, slow=True)
def query_wait(stage):
    """query_wait_timeout ends who waits too long, and nobody else."""
    one, two = stage.wire(), stage.wire()
    one.query("begin")
    two.send(Q("select 1"))
    cut_off(two, "query_wait_timeout", 0.8, 1.8)
    same(one.value("select 1"), "1")
    one.query("commit")
    same(stage.wire().value("select 1"), "1")


@test("query_wait_timeout = 60", slow=True, new=True, seconds=30,
      databases="test = host=127.0.0.1 port=PG pool_size=1 query_wait_timeout=1",
      users="alice = query_wait_timeout=0\nbob = query_wait_timeout=2")
def query_wait_of_entries(stage):
    """query_wait_timeout of a user counts before the database's, that before the global one."""
    holders = [stage.wire(user) for user in ("postgres", "alice", "bob")]
    waiters = [stage.wire(user) for user in ("postgres", "alice", "bob")]
    for one in holders:
        one.query("begin")
    for one in waiters:
        one.send(Q("select 1"))
    cut_off(waiters[0], "query_wait_timeout", 0.8, 1.8)
    cut_off(waiters[2], "query_wait_timeout", 0.3, 1.8)
    holders[1].query("commit")
    same(waiters[1].rows(), [["1"]])


@test("query_wait_timeout = 1", databases=ONE, slow=True)
def wait_in_extended_batch(stage):
    """Who waits in an extended batch that has no Sync yet hears no ReadyForQuery (K13)."""
    one, two = stage.wire(), stage.wire()
    one.query("begin")
    two.send(P("", "select 1"), B(), D(), E())
    got = two.reply(2, 3)
    same(got, ["E[08P01]", "EOF"])
    one.query("commit")


@test("query_wait_timeout = 1", databases=ONE.replace("PG", "PG dbname=logged", 1), slow=True)
def timed_out_query_is_not_run(stage):
    """A query whose error was told is never run (K14)."""
    one, two = stage.wire(), stage.wire()
    mark = stage.cluster.mark()
    one.query("begin")
    two.send(Q("select 'given up'"))
    cut_off(two, "query_wait_timeout", 0.8, 1.8)
    one.query("commit")
    same(stage.wire().value("select 'next'"), "next")
    check("given up" not in stage.cluster.logged(mark))


@test("query_wait_notify = 1\nquery_wait_timeout = 30", databases=ONE, slow=True, new=True)
def query_wait_notice(stage):
    """query_wait_notify tells once per wait, and never who is served earlier."""
    one, two = stage.wire(), stage.wire()
    for _ in range(2):
        one.query("begin")
        two.send(Q("select 1"))
        got = two.read(3)
        same(got.kind, "N")
        same(got.fields()["M"],
             "No server connection available in postgres backend, client being queued")
        same(two.reply(1, 1.2, ignore=""), ["(silence)"])
        one.query("commit")
        two.notices.clear()
        same(two.rows(), [["1"]])
        same(two.notices, [])


@test("query_timeout = 1", slow=True, new=True)
def query_timeout(stage):
    """query_timeout ends a query that runs too long, with its server."""
    one = stage.wire()
    same(one.value("select 1"), "1")
    one.send(Q("select pg_sleep(5)"))
    cut_off(one, "query timeout", 0.8, 1.8)
    check(until(lambda: stage.pools()["sv_active"] == 0, 2))
    one = stage.wire()
    one.query("begin")
    time.sleep(1.8)
    same(one.value("select 1"), "1")


@test("query_timeout = 1", slow=True, new=True)
def query_timeout_after_batches(stage):
    """query_timeout does not hit a session in which nothing runs, whatever went before (K52)."""
    one = stage.wire()
    for sql in ("", "select 1; select 2", "select 1/0", "copy big to stdout", "begin"):
        one.send(Q(sql))
        while one.read().kind != "Z":
            pass
    one.send(P("", "select 1/0"), B(), E(), S, P("", "select generate_series(1,3)"), B(), E("", 1), H)
    time.sleep(0.05)
    one.send(E("", 1), S, Q("rollback"), Q("begin"))
    time.sleep(0.3)
    one.reply(100, 0.1)
    time.sleep(1.8)
    same(one.value("select 3"), "3")


@test("idle_transaction_timeout = 1", slow=True)
def idle_transaction(stage):
    """idle_transaction_timeout counts from the end of the last statement (K51)."""
    one, two = stage.wire(), stage.wire()
    one.query("begin")
    one.query("select pg_sleep(1.3)")
    time.sleep(0.4)
    one.query("select pg_sleep(1.3)")
    two.query("select 1")
    cut_off(one, "idle transaction timeout", 0.7, 1.8)
    same(two.value("select 1"), "1")
    check(until(lambda: stage.pools()["sv_active"] == 0, 2))


@test("idle_transaction_timeout = 1", slow=True)
def idle_failed_transaction(stage):
    """It fires in a failed transaction too."""
    one = stage.wire()
    one.query("begin")
    fails("22012", one.query, "select 1/0")
    cut_off(one, "idle transaction timeout", 0.7, 1.8)


@test("transaction_timeout = 1", slow=True, new=True)
def transaction_timeout(stage):
    """transaction_timeout ends a transaction that lasts too long, busy or not, and no other."""
    one, two, three = stage.wire(), stage.wire(), stage.wire()
    one.query("begin")
    two.query("begin")
    two.send(Q("select pg_sleep(5)"))
    began = time.monotonic()
    while time.monotonic() < began + 0.8:
        same(one.value("select 1"), "1")
        three.query("select 1")
        time.sleep(0.1)
    cut_off(one, "transaction timeout", 0, 1)
    cut_off(two, "transaction timeout", 0, 1)
    same(three.value("select 1"), "1")


@test("client_idle_timeout = 1", slow=True)
def client_idle(stage):
    """client_idle_timeout ends who is silent outside a transaction, not who works or waits."""
    idle, busy, inside = stage.wire(), stage.wire(), stage.wire()
    inside.query("begin")
    busy.send(Q("select pg_sleep(1.8)"))
    cut_off(idle, "client_idle_timeout", 0.7, 1.8)
    busy.rows()
    same(inside.value("select 1"), "1")


@test(users="alice = client_idle_timeout=1 query_timeout=1\nbob = idle_transaction_timeout=1",
      slow=True, new=True)
def timeouts_of_users(stage):
    """Timeouts of one user touch no other user."""
    alice, bob, carol = stage.wire("alice"), stage.wire("bob"), stage.wire("carol")
    bob.query("begin")
    carol.query("begin")
    carol.send(Q("select pg_sleep(1.7)"))
    cut_off(alice, "client_idle_timeout", 0.7, 1.8)
    error = bob.ended(1)
    check(error and error.text == "idle transaction timeout", error)
    carol.rows()
    again = stage.wire("alice")
    again.send(Q("select pg_sleep(3)"))
    cut_off(again, "query timeout", 0.7, 1.8)
    carol.query("select 1")


@test("pool_mode = session\nquery_timeout = 1\nidle_transaction_timeout = 1\nclient_idle_timeout = 1",
      slow=True)
def idle_session(stage):
    """An idle session in session mode is left alone by all of these."""
    one = stage.wire()
    one.query("select 1")
    time.sleep(1.8)
    same(one.value("select 1"), "1")


@test(slow=True, start=False)
def connect_timeout(stage):
    """A server that takes connections and says nothing is given up after server_connect_timeout."""
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(20)
        pooler = stage.pooler
        pooler.start(text=pooler.config(
            "server_connect_timeout = 1\nquery_wait_timeout = 3",
            f"test = host=127.0.0.1 port={mute.getsockname()[1]}"))
        began = time.monotonic()
        fails(["query_wait_timeout", "connect timeout"], stage.wire)
        check(time.monotonic() - began < 6)
        pooler.wait_log("closing because: connect timeout")


@test("client_login_timeout = 1", databases="test = host=127.0.0.1 port=1", slow=True)
def login_timeout_server_down(stage):
    """A client that waits for the first server of a pool is ended by client_login_timeout."""
    began = time.monotonic()
    fails("client_login_timeout (server down)", stage.wire)
    check(0.7 < time.monotonic() - began < 3, time.monotonic() - began)


@test("server_login_retry = 1\nquery_wait_timeout = 20", slow=True, alone=True, seconds=60)
def server_down_at_start(stage):
    """A client that comes while PostgreSQL is down waits, and is served when it is up."""
    stage.cluster.stop()
    one = stage.raw(20)
    one.send(startup([("user", "postgres"), ("database", "test")]))
    time.sleep(1.3)
    stage.pooler.wait_log("connect failed")
    stage.cluster.start()
    one.finish_login("postgres", None)
    same(one.value("select 1"), "1")


@test("server_login_retry = 3\nquery_wait_timeout = 5", slow=True, alone=True, seconds=60)
def cached_error(stage):
    """A client that is logged in is refused at once while the server's logins fail."""
    one, two = stage.wire(), stage.wire()
    one.query("select 1")
    stage.cluster.stop()
    one.send(Q("select 1"))
    try:
        one.ended(12)
    except Closed:
        pass
    began = time.monotonic()
    two.send(Q("select 2"))
    error = two.ended(12)
    stage.cluster.start()
    check(error and ("server login has been failing" in error.text or
                     error.text in ("query_wait_timeout", "server conn crashed?")), error)
    stage.note(f"the next client heard after {time.monotonic() - began:.2f} s: {error.text}")
    check(until(lambda: works(stage), 8, 0.3), "no service after PostgreSQL is up again")


def works(stage):
    try:
        return stage.wire().value("select 1") == "1"
    except Exception:
        return False


@test("server_login_retry = 1", seconds=40, slow=True, alone=True)
def back_after_an_outage(stage):
    """A pool whose clients were refused while PostgreSQL was away: a refused one makes it try again."""
    stage.wire().query("select 1")
    stage.cluster.stop()
    try:
        one = stage.wire(timeout=10)
        one.send(Q("select 1"))
        stage.pooler.wait_log("connect failed")
        one.close()
        for _ in range(3): # refused at once, and nobody is left to wait
            two = stage.wire(timeout=5)
            two.send(Q("select 2"))
            two.reply(1, 3)
            two.close()
    finally:
        stage.cluster.start()

    def is_served():
        three = stage.wire(timeout=5)
        three.send(Q("select 3"))
        got = three.reply(4, 3)
        three.close()
        return "D(3)" in got
    check(until(is_served, 5))
