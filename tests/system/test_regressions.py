# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults that once were there, each with the smallest client that showed it."""
import signal
import socket
import threading
import time

from fake_server import WELCOME, FakeServer
from harness import PASSWORD, Failed, check, same, test
from replay import compare
from tools import until
from wire import B, Closed, E, H, P, PgError, Q, S, Silent, X, c, cstr, d, message, startup

ONE = "test = host=127.0.0.1 port=PG pool_size=1"


# --- nothing of one client stays with a server ----------------------------------------------------


def served(stage, seconds, sql="select 4711", **options):
    """A fresh client gets its answer in that time."""
    began = time.monotonic()
    try:
        one = stage.wire(timeout=seconds, **options)
        same(one.value(sql, seconds), "4711")
    except Silent:
        raise Failed(f"no answer within {seconds} s, pools: {stage.ask('show pools')}") from None
    one.close()
    took = time.monotonic() - began
    check(took < seconds, f"served after {took:.2f} s only")
    return took


def rows_of(stage, value):
    """How often a value is in table t, once no backend has anything to do.

    The table is every test's of this cluster: a value that no other test writes.
    """
    with stage.cluster.wire("test") as db:
        until(lambda: db.value("select count(*) from pg_stat_activity where backend_type = "
                               "'client backend' and state <> 'idle' and pid <> pg_backend_pid()")
              == "0", 3)
        return int(db.value(f"select count(*) from t where v = {value}"))


def leave(one, how):
    if how == "rst":
        one.reset()
    else:
        if how == "terminate":
            one.send(X)
        one.sock.close()


@test(databases=ONE)
def copy_tail_and_terminate(stage):
    """COPY has failed with half a message under way; the rest comes with Terminate, in one read."""
    tail = d("x" * 35)
    for cut in (1, 4, 5, 6, 20, 39):
        one = stage.wire(timeout=5)
        one.send(Q("copy t from stdin"))
        same(one.reply(1), ["G"])
        one.send(d("bad\n"), tail[:cut])
        same(one.reply(2), ["E[22P02]", "Zi"], f"cut at {cut}")
        time.sleep(0.02)
        one.send(tail[cut:], X)
        one.sock.close()
        for sql in ("select 4711", "select 4711 + 0"):
            served(stage, 2, sql)


@test(databases=ONE)
def copy_half_and_gone(stage):
    """Clients that go in the middle of COPY data, of a message, or right behind it."""
    for cut in (0, 1, 5, 20, 40):
        for how in ("fin", "rst", "terminate"):
            one = stage.wire()
            one.send(Q("copy t from stdin"))
            same(one.reply(1), ["G"])
            one.send(d("4718\n"), d("2" * 34 + "\n")[:cut])
            leave(one, how)
            served(stage, 2)
    same(rows_of(stage, 4718), 0)


@test(databases=ONE)
def half_a_query_and_gone(stage):
    """A query without its last bytes is not run when its client goes, by FIN or RST."""
    whole = Q("insert into t values (4711) --ab")
    for how in ("fin", "rst"):
        for cut in list(range(1, 8)) + [len(whole) - 5]:
            one = stage.wire()
            one.send(whole[:-cut])
            time.sleep(0.01)
            leave(one, how)
    served(stage, 2)
    same(rows_of(stage, 4711), 0)


@test(databases=ONE)
def half_a_query_behind_a_whole(stage):
    """The same behind a whole query, in one write: the first runs, the second does not."""
    for number, how in enumerate(("fin", "rst"), 4720):
        one = stage.wire()
        one.query("select 1")
        one.send(Q(f"insert into t values ({number})"), Q("insert into t values (4712) --ab")[:-2])
        if how == "rst":
            one.reply(2, 2)
        leave(one, how)
        served(stage, 2)
        same(rows_of(stage, number), 1, how)
    same(rows_of(stage, 4712), 0)


@test(databases=ONE)
def value_of_another_parameter(stage):
    """`on` is fine for standard_conforming_strings, and no time zone: nothing runs with it."""
    served(stage, 2)
    insert = Q("insert into t values (4713)")
    for more in ([insert], [insert, X], [P("", "insert into t values (4713)"), B(), E(), S]):
        one = stage.raw(timeout=3)
        one.send(startup([("user", "postgres"), ("database", "test"), ("TimeZone", "on")]), *more)
        errors = []
        try:
            one.finish_login("postgres", None)
            while True:
                got = one.read()
                if got.kind == "E":
                    errors.append(got.fields())
                if got.kind == "Z":
                    break
        except PgError as wrong:
            errors.append(wrong.fields)
        except Closed:
            pass
        check(errors or X in more, "no error")
        one.sock.close()
        served(stage, 2)
    same(rows_of(stage, 4713), 0)


@test(databases=ONE)
def values_are_not_mixed_up(stage):
    """Each client has its own parameters, also when their values are the same words."""
    pairs = [("TimeZone", "UTC"), ("application_name", "on"), ("DateStyle", "ISO, MDY"),
             ("application_name", "UTC"), ("IntervalStyle", "postgres"),
             ("application_name", "ISO, MDY")]
    clients = [(stage.wire(params=[pair]), *pair) for pair in pairs]
    for _ in range(3):
        for one, name, value in clients:
            same(one.value(f"show {name}"), value, name)


# --- login ----------------------------------------------------------------------------------------


def slow_login(stage, user):
    """A login with a RELOAD of other secrets in front of each of the client's answers."""
    one, count = stage.raw(timeout=5), 0
    inner = one.send

    def send(*parts):
        nonlocal count
        if parts[0][:1] == b"p":
            count += 1
            stage.pooler.auth.write_text(stage.pooler.auth.read_text() + f'"x{count}" "x{count}"\n')
            for _ in range(2):
                stage.ask("reload")
        inner(*parts)
    one.send = send
    one.login(user, "test", PASSWORD)
    one.send = inner
    same(one.value("select 4711"), "4711")
    return count


@test("auth_type = plain")
def reload_before_password(stage):
    """RELOAD between the request for a password and the password, plain."""
    same(slow_login(stage, "u_plain"), 1)


@test("auth_type = md5")
def reload_before_md5(stage):
    """RELOAD between the salt and the hash."""
    same(slow_login(stage, "u_md5"), 1)


@test("auth_type = scram-sha-256")
def reload_before_scram(stage):
    """RELOAD in front of both messages of SCRAM, with a password and with a stored secret."""
    same(slow_login(stage, "u_scram"), 2)
    same(slow_login(stage, "u_same"), 2)


@test("auth_type = plain")
def reload_takes_the_user_away(stage):
    """The user is gone, or has another secret, when the password comes: in or out, no harm."""
    for auth in ('"admin" "admin"\n', f'"admin" "admin"\n"u_plain" "{"other" * 50}"\n'):
        stage.pooler.auth.write_text(f'"admin" "admin"\n"u_plain" "{PASSWORD}"\n')
        stage.ask("reload")
        one = stage.raw(timeout=5)
        one.send(startup([("user", "u_plain"), ("database", "test")]))
        one.expect("R")
        stage.pooler.auth.write_text(auth)
        stage.ask("reload")
        stage.ask("reload")
        one.send(message("p", cstr(PASSWORD)))
        check(one.reply(1)[0] in ("R", "E[28P01]", "EOF"))
        one.sock.close()


@test(databases=ONE)
def bytes_behind_startup(stage):
    """What comes in one write with the startup message is answered, welcome known or not."""
    hello = startup([("user", "postgres"), ("database", "test")])
    for _ in range(2):
        one = stage.raw(timeout=3)
        one.send(hello, Q("select 4711"))
        one.finish_login("postgres", None)
        same(one.reply(4), ["T1", "D(4711)", "C(SELECT 1)", "Zi"])
        one.close()
        one = stage.raw(timeout=3)
        one.send(hello, P("", "select 4711"), B(), E(), S, Q("select 1")[:7])
        one.finish_login("postgres", None)
        same(one.reply(5), ["1", "2", "D(4711)", "C(SELECT 1)", "Zi"])
        one.send(Q("select 1")[7:])
        same(one.reply(4), ["T1", "D(1)", "C(SELECT 1)", "Zi"])
        one.close()
        one = stage.raw(timeout=3)
        one.send(hello, Q("select 4711"), X)
        one.finish_login("postgres", None)
        same(one.reply(5), ["T1", "D(4711)", "C(SELECT 1)", "Zi", "EOF"])


def behind_password(stage, user, method):
    """Login with a query in the same write as the client's last message."""
    one = stage.raw(timeout=5)
    inner, count = one.send, {"plain": 1, "md5": 1, "scram": 2}[method]

    def send(*parts):
        nonlocal count
        if parts[0][:1] == b"p":
            count -= 1
            if count == 0:
                parts += (Q("select 4711"), Q("select 4712"))
        inner(*parts)
    one.send = send
    one.login(user, "test", PASSWORD)
    same(one.asked, method)
    same(one.reply(8), ["T1", "D(4711)", "C(SELECT 1)", "Zi", "T1", "D(4712)", "C(SELECT 1)", "Zi"])


@test("auth_type = plain")
def bytes_behind_password(stage):
    """What comes in one write with the password is answered."""
    for _ in range(2):
        behind_password(stage, "u_plain", "plain")


@test("auth_type = md5")
def bytes_behind_md5(stage):
    """What comes in one write with the hash is answered."""
    for _ in range(2):
        behind_password(stage, "u_md5", "md5")


@test("auth_type = scram-sha-256")
def bytes_behind_scram(stage):
    """What comes in one write with the last message of SCRAM is answered."""
    for _ in range(2):
        behind_password(stage, "u_scram", "scram")


# --- nobody waits for ever ------------------------------------------------------------------------


def in_turn(stage, pause):
    """Twelve clients of two servers, one after the other, behind pauses that let servers age."""
    clients = [stage.wire(timeout=5) for _ in range(12)]
    for one in clients:
        one.query("select 1")
    for number, one in enumerate(clients):
        if number % 4 == 0:
            time.sleep(pause)
        began = time.monotonic()
        try:
            same(one.value("select 4711", 3), "4711")
        except Silent:
            raise Failed(f"client {number} is not served: {stage.pools()}") from None
        check(time.monotonic() - began < 1, f"client {number}: {time.monotonic() - began:.2f} s")


TWO = "test = host=127.0.0.1 port=PG pool_size=2"


@test("workers = 2\nservers_per_worker = 0\nserver_check_delay = 0", databases=TWO)
def checks_of_all_2_workers(stage):
    """All servers are always in need of a check: every client is served."""
    in_turn(stage, 0.05)


@test("workers = 4\nservers_per_worker = 0\nserver_check_delay = 0", databases=TWO)
def checks_of_all_4_workers(stage):
    """The same with four workers."""
    in_turn(stage, 0.05)


@test("workers = 2\nservers_per_worker = 0\nserver_check_delay = 0.2", databases=TWO)
def checks_of_the_old_2_workers(stage):
    """All servers have aged into need of a check."""
    in_turn(stage, 0.6)


@test("workers = 4\nservers_per_worker = 0\nserver_check_delay = 0.2", databases=ONE)
def checks_of_the_old_4_workers(stage):
    """The same with four workers and one server."""
    in_turn(stage, 0.6)


def evict(stage, pause):
    """Two users take the only server of a database from each other."""
    one, two = stage.wire(timeout=5), stage.wire("alice", timeout=5)
    for _ in range(2):
        for client in (one, two):
            began = time.monotonic()
            try:
                same(client.value("select 4711", 4), "4711")
            except Silent:
                raise Failed(f"not served: {stage.ask('show pools')}") from None
            check(time.monotonic() - began < 2, f"{time.monotonic() - began:.2f} s")
            time.sleep(pause)


@test("server_check_delay = 0.1", databases="test = host=127.0.0.1 port=PG max_db_connections=1")
def evict_aged(stage):
    """A server that waits for its check makes room for a sibling pool."""
    evict(stage, 0.5)


@test("server_check_delay = 0", databases="test = host=127.0.0.1 port=PG max_db_connections=1")
def evict_at_once(stage):
    """The same with servers that always need a check."""
    evict(stage, 0.1)


@test(databases=ONE)
def copy_that_failed_with_postgres(stage):
    """The same with PostgreSQL, 20 MB behind the error; nothing of it reaches the next client."""
    one = stage.wire(timeout=5)
    one.send(Q("copy t from stdin"))
    same(one.reply(1), ["G"])
    try:
        one.send(d("bad\n"), d("1\n" * 500) * 20000)
        one.send(c)
    except socket.timeout:
        raise Failed("stuck") from None
    same(one.reply(2, 3), ["E[22P02]", "Zi"])
    served(stage, 2)
    same(one.value("select 4711"), "4711")


@test(databases=ONE)
def flush_holds_no_server(stage):
    """A Flush alone asks for nothing, and takes no server."""
    one = stage.wire()
    one.send(H)
    time.sleep(0.1)
    served(stage, 1)
    one.send(H, H, S)
    same(one.reply(1), ["Zi"])
    served(stage, 1)
    one.send(H, Q("select 4711"))
    same(one.reply(4), ["T1", "D(4711)", "C(SELECT 1)", "Zi"])


@test(databases=ONE)
def copy_and_gone(stage):
    """COPY FROM STDIN, and its client goes: the server is free again."""
    for how in ("fin", "rst", "terminate"):
        for behind in ([], [c], [Q("select 1")]):
            one = stage.wire()
            one.send(Q("copy t from stdin"))
            same(one.reply(1), ["G"])
            one.send(*behind)
            leave(one, how)
            served(stage, 2)
    check(until(lambda: stage.cluster.backends() <= 1, 3), "backends are left in COPY")


@test(databases=ONE)
def long_query_of_the_dead(stage):
    """The slot of a client that has gone in its long query is free within 3 s."""
    for how in ("fin", "rst"):
        one = stage.wire()
        one.send(Q("select pg_sleep(30)"))
        check(until(lambda: stage.pools()["sv_active"] == 1))
        leave(one, how)
        stage.note(f"{how}: {served(stage, 3):.2f} s")


@test(databases=ONE)
def long_transaction_of_the_dead(stage):
    """The same in a transaction."""
    one = stage.wire()
    one.query("begin")
    one.send(Q("select pg_sleep(30)"))
    time.sleep(0.05)
    one.sock.close()
    stage.note(f"{served(stage, 3):.2f} s")


@test(databases=ONE)
def long_query_with_terminate(stage):
    """What has Terminate behind it runs to its end, though its client has gone meanwhile."""
    one = stage.wire()
    one.send(Q("insert into t select 4714 from pg_sleep(1.5)"), X)
    one.sock.close()
    served(stage, 4)
    same(rows_of(stage, 4714), 1)


# --- clients that wait to be welcomed -------------------------------------------------------------


def welcome_hall(stage, count, change, config):
    """`count` clients wait for the welcome of a database; the change comes as they get it."""
    fake, go = FakeServer(stage), threading.Event()

    def slow(visit):
        go.wait(10)
        visit.send(WELCOME)
        visit.serve()
    names = [f"d{i}" for i in range(8)]
    for name in names:
        fake.say[name] = slow
    usual = "test = host=127.0.0.1 port=PG dbname=test\n"
    place = f"hall = host=127.0.0.1 port={fake.port} pool_size=1 dbname="
    stage.pooler.start(text=stage.pooler.config(config, databases=usual + place + names[0]))
    console, hello = stage.console(), startup([("user", "postgres"), ("database", "hall")])
    for number in range(6):
        go.clear()
        console.query("reconnect")
        crowd = [stage.raw() for _ in range(count)]
        for one in crowd:
            one.send(hello)
        until(lambda: sum(int(r["cl_waiting"]) + int(r["cl_active"])
                          for r in tablerows(console) if r["database"] == "hall") >= count, 3)
        go.set()
        time.sleep(number * 0.002)
        change(stage, console, config, usual + place + names[number % len(names)], number)
        for one in crowd:
            same(one.reply(3, 5, "SN")[0][:1], "R", f"round {number}")
        for one in crowd:
            one.sock.close()
            stage.opened.remove(one)
    served(stage, 2)
    one = stage.wire(database="hall")
    same(one.value("select 1", 3), "4")


def tablerows(console):
    rows = console.query("show pools")
    return [dict(zip([n for n, *_ in console.columns], row)) for row in rows]


def new_name(stage, _, config, databases, number):
    stage.pooler.rewrite(config=config, databases=databases)
    stage.pooler.signal(signal.SIGHUP)


def reconnect(stage, console, config, databases, number):
    console.send(Q("reconnect") * 10)
    console.reply(20, 5)


WIDE = "max_client_conn = 500\nlog_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\n"


@test(start=False)
def new_dbname_while_welcomed(stage):
    """RELOAD changes the name of a database while clients are welcomed to it; one worker."""
    welcome_hall(stage, 150, new_name, WIDE + "workers = 1")


@test(start=False)
def new_dbname_while_welcomed_4(stage):
    """The same with four workers."""
    welcome_hall(stage, 150, new_name, WIDE + "workers = 4")


@test(start=False)
def reconnect_while_welcomed(stage):
    """RECONNECT takes the welcome away while clients are given it; one worker."""
    welcome_hall(stage, 150, reconnect, WIDE + "workers = 1")


@test(start=False)
def reconnect_while_welcomed_4(stage):
    """The same with four workers."""
    welcome_hall(stage, 150, reconnect, WIDE + "workers = 4")


# --- names of hosts -------------------------------------------------------------------------------


NAMES = ("test = host=localhost port=PG\nbad = host=no.such.host.invalid port=PG dbname=test\n"
         "lit = host=127.0.0.1 port=PG dbname=test")


def connections(stage):
    return {r["name"]: int(r["current_connections"]) for r in stage.ask("show databases")}


@test("server_login_retry = 1\nclient_login_timeout = 1.5\nserver_connect_timeout = 1",
      databases=NAMES)
def host_names(stage):
    """A host by name; one that there is not costs a line in the log and no credit of the pool."""
    served(stage, 2)
    began = time.monotonic()
    try:
        stage.wire(database="bad", timeout=5)
        raise Failed("a host that does not exist has answered")
    except (PgError, Closed):
        stage.note(f"refused after {time.monotonic() - began:.1f} s")
    served(stage, 1)
    stage.pooler.wait_log(r"no\.such\.host\.invalid", seconds=2)
    check(until(lambda: connections(stage)["bad"] == 0, 3), connections(stage))
    stage.pooler.rewrite(databases=NAMES.replace("no.such.host.invalid", "127.0.0.1"))
    stage.ask("reload")
    served(stage, 3, database="bad")


@test("default_pool_size = 3", databases=NAMES)
def host_names_and_shutdown(stage):
    """SIGINT with look-ups under way or failed, and clients that wait for them."""
    for _ in range(5):
        stage.raw().send(startup([("user", "postgres"), ("database", "bad")]))
    served(stage, 2)
    stage.pooler.signal(signal.SIGINT)
    same(stage.pooler.wait(4), 0)


# --- errors of PostgreSQL's own -------------------------------------------------------------------


@test(databases=ONE)
def fatal_of_postgres(stage):
    """PostgreSQL ends a session by an error of its own: the client sees that one, and no other."""
    compare(stage, [
        ("A", [Q("copy t from stdin"), B(), E()], "G E[08P01] E[08P01] EOF"),
    ])
    for sql in (None, "select pg_sleep(5)"):
        one = stage.wire()
        one.query("begin")
        pid = one.value("select pg_backend_pid()")
        if sql:
            one.send(Q(sql))
            time.sleep(0.05)
        with stage.cluster.wire() as db:
            db.query(f"select pg_terminate_backend({pid})")
        same(one.reply(4, 3), (["T1"] if sql else []) + ["E[57P01]", "EOF"], sql)
    served(stage, 2)
