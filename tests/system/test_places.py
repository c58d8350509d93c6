# SPDX-License-Identifier: GPL-2.0-or-later
"""Which workers serve a pool, and what a client keeps that moves to one of them when it has logged in."""
import random
import socket
import threading
import time

from harness import Failed, check, fails, same, test, until
from wire import Closed, E, P, Q, B, S, PgError, cancel, startup

FOUR = "test = host=127.0.0.1 port=PG pool_size=4"
EIGHT = "workers = 8\n"
ASLEEP = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"


def spread(stage):
    """Clients by worker, most first; the console that asks is one of them."""
    rows = stage.ask("show workers")
    return sorted((int(row["clients"]) for row in rows), reverse=True)


def total(stage, column):
    return sum(int(row[column]) for row in stage.ask("show workers"))


@test(EIGHT, databases=FOUR, ours=True)
def few_servers_few_workers(stage):
    """A pool of four is served by two workers, whoever accepted a client; no server changes hands."""
    clients = [stage.wire() for _ in range(40)]
    for one in clients:
        same(one.value("select 1"), "1")
    counts = spread(stage)
    check(sum(counts) == 41, counts)  # and the console
    check(sum(counts[:2]) in (40, 41) and counts[1] >= 20, counts)
    check(total(stage, "moved") > 0, "nobody moved")
    same(stage.pools()["cl_active"], 40)


@test(EIGHT, databases=FOUR.replace("=4", "=1"), ours=True)
def one_server_one_worker(stage):
    """A pool of one never has to hand its server over."""
    clients = [stage.wire() for _ in range(24)]
    for _ in range(5):
        for number, one in enumerate(clients):
            same(one.value(f"select {number}"), str(number))
    same(total(stage, "lent"), 0)


@test(EIGHT + "servers_per_worker = 0", databases=FOUR, ours=True)
def all_workers(stage):
    """With 0 nobody moves, and every worker has its share of a pool of four."""
    clients = [stage.wire() for _ in range(80)]
    for number, one in enumerate(clients):
        same(one.value(f"select {number}"), str(number))
    counts = spread(stage)
    check(counts[0] <= 14 and counts[-1] >= 5, counts)
    same(total(stage, "moved"), 0)


@test(EIGHT + "max_db_connections = 2", databases=FOUR.replace("=4", "=100"), ours=True)
def the_least_limit_counts(stage):
    """A pool of a hundred that may have two servers is served by one worker."""
    clients = [stage.wire() for _ in range(24)]
    for one in clients:
        same(one.value("select 1"), "1")
    check(spread(stage)[0] >= 24, spread(stage))


@test(EIGHT, databases=FOUR, ours=True)
def reload_widens(stage):
    """Who comes after a RELOAD goes where the new size allows; who is there stays."""
    clients = [stage.wire() for _ in range(16)]
    stage.reload(databases=FOUR.replace("=4", "=100"))
    clients += [stage.wire() for _ in range(48)]
    for one in clients:
        same(one.value("select 1"), "1")
    counts = spread(stage)
    check(sum(n > 2 for n in counts) == 8, counts)


@test(EIGHT + "auth_type = scram-sha-256", databases=FOUR, ours=True,
      auth='"postgres" "secret"\n"admin" "admin"\n')
def what_it_keeps(stage):
    """Parameters, the right to cancel, its id on the console, and what was said behind its password."""
    watcher = stage.keep(stage.cluster.wire())
    for number in range(12):
        one = stage.wire(password="secret", params=[("application_name", f"it's {number}"),
                                                    ("options", "-c DateStyle=German"),
                                                    ("TimeZone", "Asia/Tokyo")])
        same(one.value("show application_name"), f"it's {number}")
        same(one.value("show datestyle").split(",")[0], "German")
        same(one.value("show timezone"), "Asia/Tokyo")
        same(one.settings["application_name"], f"it's {number}")
        one.send(Q("select pg_sleep(20)"))
        check(until(lambda: watcher.value(ASLEEP) == "1"), "it does not sleep")
        cancel(stage.where, one.key)
        fails("57014", one.rows)
        [row] = [r for r in stage.ask("show clients") if r["database"] == "test"]
        same(row["application_name"], f"it's {number}")
        check(row["addr"] == "127.0.0.1" and int(row["port"]) == one.sock.getsockname()[1], row)
        stage.ask(f"kill_client {row['id']}")
        fails("admin forced disconnect", one.value, "select 1")


@test(EIGHT, databases=FOUR, ours=True)
def in_one_breath(stage):
    """A client that sends its startup and queries together, or nearly, the last of them by halves;
    every other one has to wait for the pool's first server."""
    for number in range(40):
        if number % 2:
            stage.ask("reconnect test")
        one = stage.raw()
        long = "x" * random.choice((1, 3000, 9000, 70000))
        last = P("", "select $1") + B("", "", long) + E() + S
        at = random.randrange(1, len(last))
        one.send(startup([("user", "postgres"), ("database", "test")]), Q(f"select {number}"),
                 Q("select 'b'")[:number])
        time.sleep(random.choice((0, 0.0005, 0.002)))
        one.send(Q("select 'b'")[number:], last[:at])
        one.finish_login("postgres", None)
        same(one.rows(), [[str(number)]])
        same(one.rows(), [["b"]])
        one.send(last[at:])
        got = one.reply(5, ignore="SN")
        check(got[-1] == "Zi" and got[0] == "1", str(got)[:200])
        one.close()


@test(EIGHT + "max_client_conn = 60\nmax_user_connections = 0\nmax_db_client_connections = 50",
      databases=FOUR, ours=True)
def leaving_on_the_way(stage):
    """Clients that vanish at any moment of the move are in no count afterwards."""
    def come_and_go(seed):
        chance = random.Random(seed)
        for _ in range(60):
            with socket.create_connection(stage.where) as one:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if chance.random() < 0.5:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                one.sendall(startup([("user", "postgres"), ("database", "test")]))
                if chance.random() < 0.5:
                    one.recv(1)
                if chance.random() < 0.3:
                    one.sendall(Q("select 1"))
    crowd = [threading.Thread(target=come_and_go, args=(i,)) for i in range(20)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(30)
    until(lambda: spread(stage)[:2] == [1, 0], 5)
    same(spread(stage), [1] + [0] * 7)
    clients = [stage.wire() for _ in range(50)]  # as many as the limit allows
    for one in clients:
        same(one.value("select 1"), "1")
    fails("max_db_client_connections", stage.wire)
    counts = spread(stage)
    check(counts[1] >= 25, counts)


@test(EIGHT + "query_wait_timeout = 0.5", databases="test = host=127.0.0.1 port=1 pool_size=4", ours=True)
def no_server(stage):
    """Where no server answers, a client that has moved waits as long as others do."""
    for _ in range(8):
        fails("query_wait_timeout", stage.wire)
    check(until(lambda: spread(stage)[0] == 1, 5), spread(stage))


@test(EIGHT + "pool_mode = session", databases=FOUR, ours=True)
def session(stage):
    """In session mode too: the fifth waits until one of four leaves."""
    clients = [stage.wire() for _ in range(4)]
    for one in clients:
        same(one.value("select 1"), "1")
    fifth = stage.wire()
    fifth.send(Q("select 5"))
    same(fifth.quiet(0.2), [])
    clients[2].close()
    same(fifth.rows(), [["5"]])


@test(EIGHT, databases=FOUR, ours=True)
def stop_in_the_rush(stage):
    """A pooler told to stop while clients move ends as usual."""
    ended = threading.Event()

    def rush():
        while not ended.is_set():
            try:
                one = stage.wire(timeout=3)
                one.value("select 1")
                one.close()
            except (OSError, Closed, PgError, ValueError):
                pass
    crowd = [threading.Thread(target=rush, daemon=True) for _ in range(8)]
    for one in crowd:
        one.start()
    until(lambda: total(stage, "moved") > 20, 5)
    stage.pooler.signal(15)
    code = stage.pooler.wait(10)
    ended.set()
    for one in crowd:
        one.join(10)
    if code != 0:
        raise Failed(f"exit code {code}")
    stage.pooler.start()
