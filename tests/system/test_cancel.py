# SPDX-License-Identifier: GPL-2.0-or-later
"""Cancel requests: what runs now is cancelled, and nothing else ever."""
import random
import threading
import time

from harness import check, fails, same, test
from tools import until
from wire import B, D, E, H, P, PgError, Q, S, V30, V32, Wire, c, cancel

ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"


def wait_sleeping(stage, count):
    """Until `count` queries have begun: PostgreSQL ignores a cancel that comes before its query."""
    with stage.cluster.wire() as db:
        check(until(lambda: db.value("select count(*) from pg_stat_activity where state = 'active' "
                                     "and query like 'select pg_sleep(_0)'") == str(count)))


def cancelled(one, within=3):
    """Waits for the end of the query of `one`, which must be its cancellation."""
    try:
        one.rows(within)
    except PgError as error:
        same(error.sqlstate, "57014")
        return
    check(False, "was not cancelled")


@test()
def running(stage):
    """A running query is cancelled, and the session lives on."""
    one = stage.wire()
    one.send(Q("select pg_sleep(10)"))
    time.sleep(0.1)
    cancel(stage.where, one.key)
    cancelled(one)
    same(one.value("select 1"), "1")
    one.query("begin")
    one.send(P("", "select pg_sleep(10)"), B(), E(), S)
    time.sleep(0.1)
    cancel(stage.where, one.key)
    same(one.reply(4, 3), ["1", "2", "E[57014]", "ZE"])
    one.query("rollback")


@test(new=True)
def long_keys(stage):
    """Keys of protocol 3.2 work as those of 3.0; a part of one, or a changed one, does not."""
    for protocol in (V30, V32):
        one = stage.wire(protocol=protocol)
        one.send(Q("select pg_sleep(1)"))
        time.sleep(0.1)
        wrong = [one.key[:-1] + bytes([one.key[-1] ^ 1]), bytes([one.key[0] ^ 1]) + one.key[1:],
                 one.key[:8] if protocol == V32 else one.key + b"\0" * 28, one.key[:-1],
                 b"\0" * len(one.key)]
        for key in wrong:
            cancel(stage.where, key, timeout=3)
        same(one.rows(), [[""]])
        one.send(Q("select pg_sleep(10)"))
        time.sleep(0.1)
        cancel(stage.where, one.key)
        cancelled(one)


@test(seconds=40)
def from_anywhere(stage):
    """Keys are distinct, and work from whichever worker takes the request."""
    clients = [stage.wire() for _ in range(16)]
    same(len({c.key for c in clients}), 16)
    check(all(c.key[0] < 128 for c in clients))
    for one in clients:
        one.send(Q("select pg_sleep(20)"))
        wait_sleeping(stage, 1)
        cancel(stage.where, one.key)
        cancelled(one)


@test(databases=ONE, seconds=60)
def idle(stage):
    """A cancel for an idle client has no effect and brings no bytes (K21)."""
    one = stage.wire()
    for number in range(200 if not stage.options.long else 1000):
        same(one.value(f"select {number}"), str(number))
        cancel(stage.where, one.key, wait=bool(number % 2))
        time.sleep(random.random() * 0.002)
        try:
            same(one.value(f"select -{number}"), str(-number))
        except PgError as error:
            same(error.sqlstate, "57014")
    same(one.quiet(0.1), [])


@test(databases=ONE, ours=True)
def queued(stage):
    """A client that waits for a server is answered 57014 at once, and its query never runs (K23)."""
    one, two = stage.wire(database="logged"), stage.wire(database="logged")
    mark = stage.cluster.mark()
    one.query("begin")
    two.send(Q("select 'given up'"))
    check(until(lambda: stage.pools("logged")["cl_waiting"] == 1))
    began = time.monotonic()
    cancel(stage.where, two.key)
    same(two.reply(2, 2), ["E[57014]", "Zi"])
    check(time.monotonic() - began < 0.5)
    two.send(P("", "select 'given up'"), B(), D(), E(), S)
    check(until(lambda: stage.pools("logged")["cl_waiting"] == 1))
    cancel(stage.where, two.key)
    same(two.reply(2, 2), ["E[57014]", "Zi"])
    two.send(Q("select 'given up'"), Q("select 'kept'"))
    check(until(lambda: stage.pools("logged")["cl_waiting"] == 1))
    cancel(stage.where, two.key)
    same(two.reply(2, 2), ["E[57014]", "Zi"])
    one.query("commit")
    same(two.rows(), [["kept"]])
    check("given up" not in stage.cluster.logged(mark))


@test(databases=ONE, ours=True)
def queued_with_sync(stage):
    """Who waits with a Sync, Flush or stray CopyDone has nothing to cancel, as in PostgreSQL."""
    one, two = stage.wire(), stage.wire()
    for sent in ([S], [H, S], [c, S], [S, Q("select 2")]):
        one.query("begin")
        two.send(*sent)
        check(until(lambda: stage.pools()["cl_waiting"] == 1))
        cancel(stage.where, two.key)
        same(two.quiet(0.2), [])
        one.query("commit")
        same(two.reply(1, 2), ["Zi"])
        if len(sent) > 1 and sent[0] == S:
            same(two.rows(), [["2"]])
        same(two.value("select 3"), "3")


@test(databases=ONE, ours=True)
def queued_then_granted(stage):
    """Cancelled in the queue, the client takes no server when its turn would have come."""
    one, two, three = stage.wire(), stage.wire(), stage.wire()
    one.query("begin")
    two.send(Q("select 2"))
    three.send(Q("select 3"))
    check(until(lambda: stage.pools()["cl_waiting"] == 2))
    cancel(stage.where, two.key)
    same(two.reply(2, 2), ["E[57014]", "Zi"])
    one.query("commit")
    same(three.rows(), [["3"]])
    same(two.value("select 4"), "4")


@test(databases="test = host=127.0.0.1 port=PG pool_size=1", seconds=100, slow=True)
def next_client(stage):
    """The next client on a server never sees a cancel of the one before (K22)."""
    two, stop, hit = stage.wire(), threading.Event(), []

    def beside():
        while not stop.is_set():
            try:
                two.query("begin"), two.query("select pg_sleep(0.0005)"), two.query("commit")
            except Exception as error:
                hit.append(repr(error))
                return
    thread = threading.Thread(target=beside, daemon=True)
    thread.start()
    took, count, missed = [], 200 if not stage.options.long else 1000, 0
    for number in range(count):
        one = Wire(*stage.where).login("postgres", "test")
        one.query("begin")
        one.send(Q("select pg_sleep(0.02)"))
        time.sleep(random.random() * 0.022)
        began = time.monotonic()
        cancel(stage.where, one.key, wait=number % 3 != 0)
        try:
            one.rows(10)
            missed += 1
        except PgError as error:
            check(error.sqlstate == "57014", error)
            took.append(time.monotonic() - began)
        if number % 2:
            # The cancel may come later than the answer of the query before it.
            try:
                one.query("rollback")
            except PgError as error:
                same(error.sqlstate, "57014")
        one.close() if number % 5 else one.reset()
    stop.set()
    thread.join(10)
    check(not hit, hit[:1])
    took.sort()
    stage.note(f"{count} loops, {missed} too late, cancel to answer: median "
               f"{took[len(took) // 2] * 1000:.1f} ms, p99 {took[len(took) * 99 // 100] * 1000:.1f} ms")


@test("default_pool_size = 5", seconds=40)
def many_at_once(stage):
    """Cancels of all running queries at once, more than the pool has servers (11.2: 63)."""
    clients = [stage.wire() for _ in range(5)]
    for _ in range(3):
        for one in clients:
            one.send(Q("select pg_sleep(10)"))
        wait_sleeping(stage, 5)
        threads = [threading.Thread(target=cancel, args=(stage.where, one.key), daemon=True)
                   for one in clients for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        for one in clients:
            cancelled(one)
        for one in clients:
            for _ in range(3):
                same(one.value("select 1"), "1")


@test(seconds=20)
def given_up(stage):
    """Whoever asks for a cancel may leave at once; it is still done, or not, and nothing is left."""
    one = stage.wire()
    for way in ("close", "reset") * 5:
        one.send(Q("select pg_sleep(0.3)"))
        time.sleep(0.05)
        cancel(stage.where, one.key, wait=False)
        try:
            one.rows(3)
        except PgError as error:
            same(error.sqlstate, "57014")
    same(one.value("select 1"), "1")


@test("max_client_conn = 500", seconds=30)
def unknown_keys(stage):
    """Hundreds of cancels with keys that nobody has: closed in silence, and nobody is disturbed."""
    one = stage.wire()
    threads = [threading.Thread(target=lambda: [cancel(stage.where, random.randbytes(8))
                                                for _ in range(50)], daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        same(one.value("select 1"), "1")
    for thread in threads:
        thread.join(20)
    same(one.value("select 1"), "1")


@test(ours=True)
def in_pause(stage):
    """A running query can be cancelled while PAUSE waits for it."""
    one = stage.wire()
    one.send(Q("select pg_sleep(10)"))
    check(until(lambda: stage.pools()["sv_active"] == 1))
    console = stage.console()
    console.send(Q("pause test"))
    same(console.quiet(0.2), [])
    cancel(stage.where, one.key)
    cancelled(one)
    same(console.reply(2, 3), ["C(PAUSE)", "Zi"])
    console.query("resume test")
    same(one.value("select 1"), "1")


@test(new=True)
def old_key(stage):
    """A key is dead when its client has left."""
    one = stage.wire()
    key = one.key
    one.close()
    two = stage.wire()
    check(two.key != key)
    two.send(Q("select pg_sleep(0.4)"))
    time.sleep(0.1)
    cancel(stage.where, key)
    same(two.rows(), [[""]])


@test("pool_mode = session\ndefault_pool_size = 2")
def in_session(stage):
    """In session mode too, again and again."""
    one = stage.wire()
    for _ in range(5):
        one.send(Q("select pg_sleep(10)"))
        time.sleep(0.05)
        cancel(stage.where, one.key)
        cancelled(one)
        fails("42601", one.query, "nonsense")


@test("workers = 1\nmax_client_conn = 500", ours=True)
def guesses_are_not_heard(stage):
    """After 100 unknown keys in a second nothing is looked up for that address until it is over."""
    one = stage.wire()
    one.send(Q("select pg_sleep(10)"))
    wait_sleeping(stage, 1)
    for _ in range(5): # until a machine that is busy has got it done within the second
        began = time.monotonic()
        for _ in range(110):
            cancel(stage.where, random.randbytes(8))
        if time.monotonic() - began < 0.7:
            break
        time.sleep(1.1)
    cancel(stage.where, one.key)
    same(one.quiet(0.2), [])
    time.sleep(1)
    cancel(stage.where, one.key)
    cancelled(one)
