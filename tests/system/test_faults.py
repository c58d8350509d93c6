# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong outside: backends and PostgreSQL that die, peers that stall or vanish."""
import os
import signal
import threading
import time

import load
import tools
from harness import check, fails, same, sanitized, test
from tools import until
from wire import B, Closed, E, P, PgError, Q, S, Silent, Wire, startup

MIB = 1 << 20
ONE = "test = host=127.0.0.1 port=PG pool_size=1"


def idle_again(stage, database="test"):
    """All counts of the pool are back at zero, but for clients that idle and idle servers."""
    pools = stage.pools(database)
    return pools and pools["cl_active"] <= len(stage.opened) and \
        all(pools[k] == 0 for k in pools if k.startswith(("cl_", "sv_"))
            and k not in ("cl_active", "sv_idle", "sv_used"))


def warm(stage, count=16, rows=400):
    """Results of 4 MB for clients on every worker, so that all buffers have been used once: memory
    that grows behind this is not the first touch of what was there."""
    clients = [stage.wire(timeout=20) for _ in range(count)]
    for one in clients:
        one.send(Q(f"select repeat('x', 10000) from generate_series(1, {rows})"))
    for one in clients:
        one.rows()
    for one in clients:
        one.query(f"select length('{'y' * 1000000}')")
    for one in clients:
        one.close()
        stage.opened.remove(one)
    until(lambda: idle_again(stage))


@test(databases=ONE, alone=True, seconds=60)
def backend_killed(stage):
    """kill -9 of a backend: PostgreSQL restarts itself; who was on it hears of it, others go on."""
    one, two = stage.wire(), stage.wire()
    one.query("begin")
    pid = int(one.value("select pg_backend_pid()"))
    os.kill(pid, signal.SIGKILL)
    error = one.ended(5)
    check(error is None or error.text, error)
    check(until(stage.cluster.answers, 15, 0.1))

    def works():
        try:
            return Wire(*stage.where, timeout=5).login("postgres", "test").value("select 1") == "1"
        except (PgError, Closed, OSError, Silent):
            return False
    check(until(works, 8, 0.1), "no service after the crash")
    two.close()
    check(until(lambda: idle_again(stage)))


@test("default_pool_size = 10\nserver_login_retry = 1\nquery_wait_timeout = 20", alone=True, slow=True,
      seconds=90)
def restart_under_load(stage):
    """PostgreSQL is restarted under 50 clients: all work again, no wrong answer."""
    stop, wrong, errors, last = threading.Event(), [], [0], [0.0] * 50

    def work(number):
        one = None
        while not stop.is_set():
            try:
                if one is None:
                    one = Wire(*stage.where, timeout=25).login("postgres", "test")
                got = one.value(f"select {number}")
                last[number] = time.monotonic()
                if got != str(number):
                    wrong.append((number, got))
            except (PgError, Closed, OSError, Silent):
                errors[0] += 1
                if one:
                    one.sock.close()
                one = None
                time.sleep(0.1)
        if one:
            one.close()
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(50)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    for how in (signal.SIGINT, signal.SIGQUIT):
        stage.cluster.stop(how)
        time.sleep(0.5)
        stage.cluster.start()
        up = time.monotonic()
        check(until(lambda: min(last) > up, 15, 0.1),
              f"{sum(t <= up for t in last)} clients do not work 15 s after the start")
        stage.note(f"all 50 clients at work {max(0, max(last) - up):.1f} s after the start at most")
    stop.set()
    for thread in threads:
        thread.join(30)
    check(not wrong, wrong[:3])
    check(until(lambda: idle_again(stage)), stage.pools())


@test(databases="test = host=127.0.0.1 port=PG pool_size=8", seconds=60)
def slow_reader(stage):
    """A result of 100 MB read at 1 MB/s at first: memory stays low, others are not held up."""
    other = stage.wire()
    other.query("select 1")
    warm(stage)
    base = tools.rss(stage.pooler.pid)
    one = stage.wire(timeout=30)
    one.sock.setsockopt(1, 8, 65536)
    one.send(Q("select repeat('x', 10000) from generate_series(1, 10000)"))
    end, size, worst, grown = time.monotonic() + 3, 0, 0, 0
    while time.monotonic() < end:
        size += len(one.sock.recv(50000))
        began = time.monotonic()
        other.query("select 1")
        worst = max(worst, time.monotonic() - began)
        grown = max(grown, tools.rss(stage.pooler.pid) - base)
        time.sleep(0.04)
    while size < 10000 * (10000 + 11):
        size += len(one.sock.recv(1 << 20))
    grown = max(grown, tools.rss(stage.pooler.pid) - base)
    stage.note(f"memory grew by {grown / MIB:.1f} MiB, longest query beside {worst * 1000:.0f} ms")
    check(sanitized(stage) or grown < 8.5 * MIB, f"memory grew by {grown / MIB:.1f} MiB")
    check(worst < 0.25, worst)
    one.reply(2, 5)


@test("default_pool_size = 30\nmax_client_conn = 300", seconds=60)
def stalled_readers(stage):
    """20 clients that do not read their 50 MB, and 50 that work: these are not held up, memory is
    bounded by 8 MiB and 512 KiB for each stalled one, and everything is back afterwards."""
    working = [stage.wire() for _ in range(50)]
    for one in working:
        one.query("select repeat('y', 3000)")
    warm(stage, 24)
    base = tools.rss(stage.pooler.pid)
    stalled = [stage.wire(timeout=30) for _ in range(20)]
    for one in stalled:
        one.send(Q("select repeat('x', 10000) from generate_series(1, 5000)"))
    time.sleep(0.5)
    worst, grown, end, count = 0, 0, time.monotonic() + 2.5, 0
    while time.monotonic() < end:
        for one in working:
            began = time.monotonic()
            same(len(one.value("select repeat('y', 3000)")), 3000)
            worst = max(worst, time.monotonic() - began)
            count += 1
        grown = max(grown, tools.rss(stage.pooler.pid) - base)
    stage.note(f"memory grew by {grown / MIB:.1f} MiB, {count} queries beside, "
               f"the longest {worst * 1000:.0f} ms")
    check(sanitized(stage) or grown < 8 * MIB + 20 * MIB // 2,
          f"memory grew by {grown / MIB:.1f} MiB")
    check(worst < 0.5, worst)
    for one in stalled[:10]:
        one.reset()
    for one in stalled[10:]:
        got = 0
        while got < 5000 * (10000 + 11):
            got += len(one.sock.recv(1 << 20))
    for one in working:
        same(one.value("select 1"), "1")
    check(until(lambda: idle_again(stage)), stage.pools())


@test("default_pool_size = 8", seconds=40)
def stalled_senders(stage):
    """Clients that stop in the middle of a large query hold up nobody but themselves."""
    stalled = [stage.wire() for _ in range(5)]
    for number, one in enumerate(stalled):
        one.send(Q("select '" + "z" * 500000 + "'")[:4 + number * 100000])
    one = stage.wire()
    for _ in range(100):
        same(one.value("select 1"), "1")
    for one in stalled[:3]:
        one.reset()
    check(until(lambda: stage.pools()["sv_active"] <= 2))


@test("default_pool_size = 5", seconds=40)
def gone_in_result(stage):
    """Clients that vanish in the middle of a 50 MB row cost no server for long (K48)."""
    warm(stage)
    base = tools.rss(stage.pooler.pid)
    for _ in range(5):
        one = stage.wire(timeout=20)
        one.send(Q("select repeat('x', 52428800)"))
        got = 0
        while got < MIB:
            got += len(one.sock.recv(65536))
        one.reset()
    began = time.monotonic()
    same(stage.wire(timeout=20).value("select 1"), "1")
    check(time.monotonic() - began < 1)
    check(until(lambda: idle_again(stage)), stage.pools())
    grown = tools.rss(stage.pooler.pid) - base
    stage.note(f"memory grew by {grown / MIB:.1f} MiB")
    check(sanitized(stage) or grown < 4 * MIB, f"memory grew by {grown / MIB:.1f} MiB")


@test("default_pool_size = 10\nmax_client_conn = 600", alone=True, slow=True, seconds=150)
def nonces(stage):
    """100 clients ask for numbers of their own, 5 % vanish in a query, 5 % cancel: no wrong answer,
    and everything is back at base 5 s later."""
    seconds = 60 if stage.options.long else 10
    stage.wire().query("select 1")
    load.nonces(stage.where, 100, 1)
    check(until(lambda: idle_again(stage)))
    base, cpu = tools.rss(stage.pooler.pid), tools.cpu(stage.pooler.pid)
    with tools.Sampler(stage.cluster) as sampler:
        got = load.nonces(stage.where, 100, seconds)
    used = tools.cpu(stage.pooler.pid) - cpu
    stage.note(f"{got['right']} answers, {got['vanished']} vanished, {got['cancelled']} cancelled of "
               f"{got['asked']} asked to be, {got['late']} cancels that came late; "
               f"{used / max(1, got['right']) * 1e6:.0f} us of CPU each")
    same((got["wrong"], got["errors"][:3]), (0, []))
    check(got["right"] > 1000, got)
    check(sampler.top("test") <= 10, sampler.top("test"))
    check(until(lambda: idle_again(stage), 5), stage.pools())
    check(sanitized(stage) or until(lambda: tools.rss(stage.pooler.pid) - base < 8 * MIB, 5),
          f"memory grew by {(tools.rss(stage.pooler.pid) - base) / MIB:.1f} MiB")
    # Every place of the pool can still be used.
    clients = [stage.wire() for _ in range(10)]
    for one in clients:
        one.send(Q("select pg_sleep(0.5)"))
    check(until(lambda: stage.pools()["sv_active"] == 10, 2), stage.pools())
    for one in clients:
        one.rows()


@test("pool_mode = session\ndefault_pool_size = 50\nmax_client_conn = 600", slow=True, seconds=60)
def nonces_in_sessions(stage):
    """The same with sessions: 40 clients that come and go."""
    got = load.nonces(stage.where, 40, 3)
    same((got["wrong"], got["errors"][:3]), (0, []))
    check(got["right"] > 300, got)
    check(until(lambda: idle_again(stage), 5), stage.pools())


@test("max_client_conn = 12000\ndefault_pool_size = 5", alone=True, slow=True, seconds=200)
def many_idle_clients(stage):
    """Thousands of idle clients: memory for each, and CPU while they idle."""
    count = 10000 if stage.options.long else 2000
    seconds = 30 if stage.options.long else 5
    warm(stage)
    for _ in range(3000):  # and the buffers of workers that only log in
        one = stage.wire()
        one.close()
        stage.opened.remove(one)
    base = tools.rss(stage.pooler.pid)
    began = time.monotonic()
    crowd = load.Crowd(stage.where, count)
    same(crowd.ready, count)
    took = time.monotonic() - began
    try:
        grown = tools.rss(stage.pooler.pid) - base
        before = tools.thread_cpu(stage.pooler.pid)
        time.sleep(seconds)
        after = tools.thread_cpu(stage.pooler.pid)
        used = sum(after[k] - before.get(k, 0) for k in after)
        stage.note(f"{count} clients in {took:.1f} s, {grown / count:.0f} bytes each, "
                   f"{used / seconds * 100:.2f} % of a CPU while idle")
        check(sanitized(stage) or grown / count < 1500, f"{grown / count:.0f} bytes for each")
        check(used / seconds < 0.05, f"{used:.2f} s of CPU in {seconds} s")
        one = stage.wire()
        same(one.value("select 1"), "1")
    finally:
        crowd.end()
    check(until(lambda: stage.pools()["cl_active"] <= 2, 5), stage.pools())


@test("max_client_conn = 1000\ndefault_pool_size = 5", seconds=60)
def clients_cost_nothing_afterwards(stage):
    """500 clients with large queries leave no memory behind (K50)."""
    def crowd():
        clients = [stage.wire(timeout=20) for _ in range(100)]
        for one in clients:
            same(one.value("select length('" + "w" * 400000 + "')"), "400000")
        return clients
    base_clients = crowd()
    base = tools.rss(stage.pooler.pid)
    for _ in range(3):
        for one in crowd():
            one.close()
    for one in base_clients:
        same(one.value("select 1"), "1")
    grown = tools.rss(stage.pooler.pid) - base
    stage.note(f"memory grew by {grown / MIB:.1f} MiB")
    check(sanitized(stage) or grown < 6 * MIB, f"memory grew by {grown / MIB:.1f} MiB")


@test("default_pool_size = 2\nserver_login_retry = 1", databases="""
test = host=127.0.0.1 port=PG
down = host=127.0.0.1 port=1
""", seconds=40)
def dead_server_hurts_nobody(stage):
    """Clients that wait for a server that is down do not delay those of another."""
    for _ in range(20):
        stage.raw().send(startup([("user", "postgres"), ("database", "down")]))
    one = stage.wire()
    worst, end = 0, time.monotonic() + 2
    while time.monotonic() < end:
        began = time.monotonic()
        one.query("select 1")
        worst = max(worst, time.monotonic() - began)
    check(worst < 0.2, worst)
    pools = stage.pools("down")
    check(pools.get("cl_waiting") == 20 or pools == {}, pools)
    stage.pooler.wait_log("connect failed")
    failures = stage.pooler.text().count("closing because: connect failed")
    check(failures <= 4, f"{failures} attempts in 2 s with server_login_retry = 1")


@test("default_pool_size = 3\nserver_login_retry = 1", alone=True, seconds=60, slow=True)
def starting_up(stage):
    """While PostgreSQL starts up (57P03) clients wait, and are served (K36)."""
    one = stage.wire()
    one.query("create table if not exists much (v text)")
    stage.cluster.stop()
    stage.cluster.start(wait=False)
    clients = []
    for _ in range(5):
        raw = stage.raw(20)
        raw.send(startup([("user", "postgres"), ("database", "test")]))
        clients.append(raw)
    for raw in clients:
        raw.finish_login("postgres", None)
        same(raw.value("select 1"), "1")


@test("server_login_retry = 1", auth=None)
def too_many_connections(stage):
    """When PostgreSQL has no place, clients are told by its own words, or wait; then all is well."""
    with stage.cluster.wire() as db:
        db.query("alter role dave connection limit 1")
        db.query("alter role dave nosuperuser")
    try:
        holder = stage.direct("dave")
        error = fails(["too many connections for role"], stage.wire, "dave")
        same(error.sqlstate, "53300")
        holder.close()
        time.sleep(1.2)
        same(stage.wire("dave").value("select 1"), "1")
    finally:
        with stage.cluster.wire() as db:
            db.query("alter role dave connection limit -1")
            db.query("alter role dave superuser")


@test(databases=ONE, seconds=30)
def killed_while_idle(stage):
    """Backends that end while idle are noticed at once and replaced."""
    one = stage.wire()
    for _ in range(5):
        pid = one.value("select pg_backend_pid()")
        with stage.cluster.wire() as db:
            db.query(f"select pg_terminate_backend({pid})")
        check(until(lambda: stage.pools()["sv_idle"] == 0, 2), stage.pools())
        check(one.value("select pg_backend_pid()") != pid)


@test(databases="test = host=127.0.0.1 port=PG pool_size=4", seconds=40)
def killed_at_random(stage):
    """Backends are ended again and again under load: errors, but never a wrong answer or a hang."""
    stop, wrong, right = threading.Event(), [], [0]

    def work(number):
        one = None
        while not stop.is_set():
            try:
                if one is None:
                    one = Wire(*stage.where, timeout=10).login("postgres", "test")
                one.send(P("", f"select {number}"), B(), E(), S, Q(f"select {number}"))
                got = [one.read(), one.read(), one.read()][2]
                while got.kind != "Z":
                    if got.kind == "E":
                        raise PgError(got.fields())
                    if got.kind == "D" and got.row() != [str(number)]:
                        wrong.append((number, got.row()))
                    got = one.read()
                same(one.rows(), [[str(number)]])
                right[0] += 1
            except (PgError, Closed, OSError):
                if one:
                    one.sock.close()
                one = None
            except Exception as error:
                wrong.append((number, repr(error)))
                return
        if one:
            one.close()
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(12)]
    for thread in threads:
        thread.start()
    with stage.cluster.wire() as db:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            db.query("select pg_terminate_backend(pid) from (select pid from pg_stat_activity where "
                     "datname = 'test' order by random() limit 1) x")
            time.sleep(0.03)
    stop.set()
    for thread in threads:
        thread.join(15)
    check(not wrong, wrong[:3])
    check(right[0] > 50, right)
    check(until(lambda: idle_again(stage)), stage.pools())
