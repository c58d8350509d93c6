# SPDX-License-Identifier: GPL-2.0-or-later
"""The console: every SHOW, every command, its protocol, and the signals."""
import re
import signal
import time

from harness import check, fails, same, table, test
from tools import until
from wire import B, D, E, H, P, PgError, Q, S, Wire, message

CLIENTS = ("type user database replication state addr port local_addr local_port connect_time "
           "request_time wait wait_us close_needed ptr link remote_pid tls application_name "
           "prepared_statements id").split()
POOLS = ("database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active "
         "sv_active_cancel sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us "
         "pool_mode load_balance_hosts").split()
COUNTERS = "server_assignment_count xact_count query_count".split()
TOTALS = "xact_time query_time wait_time".split()
PARSES = "client_parse_count server_parse_count bind_count client_login_count".split()
LONG = COUNTERS + ["received", "sent"] + TOTALS + PARSES
AVERAGES = COUNTERS + ["recv", "sent"] + TOTALS + PARSES
COLUMNS = {
    "clients": CLIENTS, "servers": CLIENTS, "pools": POOLS,
    "sockets": CLIENTS + "recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail".split(),
    "active_sockets": CLIENTS +
                      "recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail".split(),
    "peer_pools": "peer_id cl_active_cancel_req cl_waiting_cancel_req sv_active_cancel sv_login".split(),
    "databases": ("name host port database force_user pool_size min_pool_size reserve_pool_size "
                  "server_lifetime pool_mode load_balance_hosts max_connections current_connections "
                  "max_client_connections current_client_connections paused disabled").split(),
    "peers": "peer_id host port pool_size".split(),
    "users": ("name pool_size reserve_pool_size pool_mode max_user_connections current_connections "
              "max_user_client_connections current_client_connections").split(),
    "lists": ["list", "items"], "config": ["key", "value", "default", "changeable"],
    "version": ["version"], "state": ["key", "value"],
    "mem": "name size used free memtotal".split(),
    "dns_hosts": "hostname ttl addrs".split(), "dns_zones": "zonename serial count".split(),
    "stats": ["database"] + ["total_" + n for n in LONG] + ["avg_" + n for n in AVERAGES],
    "stats_totals": ["database"] + COUNTERS + ["bytes_received", "bytes_sent"] + TOTALS + PARSES,
    "stats_averages": ["database"] + COUNTERS + ["bytes_received", "bytes_sent"] + TOTALS +
                      ["avg_" + n for n in PARSES],
    "totals": ["name", "value"],
}


@test(new=True)
def columns(stage):
    """Every SHOW has its columns in their order, and rows of as many fields."""
    one = stage.wire()
    one.query("select 1")
    console = stage.console()
    for name, wanted in COLUMNS.items():
        rows = console.query("show " + name)
        got = [c[0] for c in console.columns]
        if "sockets" in name:  # where the last two stand is not written anywhere
            got, wanted = sorted(got), sorted(wanted)
        same(got, wanted, name)
        same(console.tags, ["SHOW"], name)
        check(all(len(row) == len(wanted) for row in rows), name)
        for column, oid, size in console.columns:
            check((oid, size) in ((25, -1), (23, 4), (20, 8), (1700, -1), (17, -1)), name, column, oid)


@test(new=True)
def show_rows(stage):
    """What is in the rows: clients, servers, links, ids, databases, users, lists."""
    one = stage.wire(params=[("application_name", "shown")])
    one.query("begin")
    pid = one.value("select pg_backend_pid()")
    console = stage.console()
    clients = [r for r in table(console, "show clients") if r["database"] == "test"]
    servers = [r for r in table(console, "show servers") if r["database"] == "test"]
    same((len(clients), len(servers)), (1, 1))
    client, server = clients[0], servers[0]
    same((client["type"], client["state"], client["user"], client["application_name"]),
         ("C", "active", "postgres", "shown"))
    same((client["addr"], client["port"]), ("127.0.0.1", str(one.sock.getsockname()[1])))
    same((server["type"], server["state"], server["remote_pid"]), ("S", "active", pid))
    same((client["link"], server["link"]), (server["ptr"], client["ptr"]))
    check(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+", client["connect_time"]), client)
    one.query("commit")
    client = [r for r in table(console, "show clients") if r["database"] == "test"][0]
    same((client["state"], client["link"]), ("idle", ""))
    own = [r for r in table(console, "show clients") if r["database"] == "pgbouncer"]
    same([r["state"] for r in own], ["idle"])
    names = [r["name"] for r in table(console, "show databases")]
    same(names, sorted(names))
    check("pgbouncer" in names and "test" in names, names)
    row = [r for r in table(console, "show databases") if r["name"] == "test"][0]
    same((row["host"], row["port"], row["database"], row["pool_size"], row["paused"]),
         ("127.0.0.1", str(stage.cluster.port), "test", "5", "0"))
    row = [r for r in table(console, "show databases") if r["name"] == "pgbouncer"][0]
    same((row["pool_size"], row["pool_mode"], row["force_user"], row["host"]),
         ("2", "statement", "pgbouncer", None))
    same([r["list"] for r in table(console, "show lists")],
         "databases users peers pools peer_pools free_clients used_clients login_clients "
         "free_servers used_servers dns_names dns_zones dns_queries dns_pending".split())
    lists = {r["list"]: int(r["items"]) for r in table(console, "show lists")}
    same((lists["used_clients"], lists["used_servers"]), (2, 1))
    same([(r["key"], r["value"]) for r in table(console, "show state")],
         [("active", "yes"), ("paused", "no"), ("suspended", "no")])
    same(len(table(console, "show totals")), 24)
    check(console.value("select version").startswith("PgBouncer "))


@test(users="alice = pool_size=7\nbob = pool_mode=session", new=True)
def show_users(stage):
    """SHOW USERS: sizes right-aligned or empty, never the row's before."""
    rows = {r["name"]: r for r in stage.ask("show users")}
    same(rows["alice"]["pool_size"], "        7")
    same((rows["bob"]["pool_size"], rows["bob"]["pool_mode"]), ("", "session"))
    same((rows["carol"]["pool_size"], rows["carol"]["pool_mode"]), ("", None))


@test(new=True)
def show_config(stage):
    """SHOW CONFIG: values, defaults, what may be changed."""
    rows = {r["key"]: r for r in stage.ask("show config")}
    same((rows["default_pool_size"]["value"], rows["default_pool_size"]["default"],
          rows["default_pool_size"]["changeable"]), ("5", "20", "yes"))
    same(rows["listen_port"]["changeable"], "no")
    same(rows["unix_socket_mode"]["value"], "511")
    same(rows["pool_mode"]["value"], "transaction")
    same(rows["conffile"]["value"], str(stage.pooler.ini))
    keys = [r["key"] for r in stage.ask("show config")]
    check(len(keys) >= 100, len(keys))
    same(keys[:3], ["admin_users", "application_name_add_host", "auth_dbname"])


@test(new=True)
def show_help(stage):
    """SHOW HELP is a well-formed notice (K42)."""
    console = stage.console()
    console.query("show help")
    notice = console.notices[-1]
    same((notice["S"], notice["C"], notice["M"]), ("NOTICE", "00000", "Console usage"))
    check("SHOW HELP|CONFIG" in notice["D"] and "KILL_CLIENT" in notice["D"], notice)


@test("stats_period = 1", slow=True, new=True)
def statistics(stage):
    """Counters count what was done, exactly."""
    one = stage.wire()
    for _ in range(10):
        one.query("select 1")
    one.query("begin"), one.query("select 1"), one.query("commit")
    one.send(P("", "select 1"), B(), E(), S)
    one.reply(5)

    def row(name):
        return [r for r in stage.ask(name) if r["database"] == "test"][0]
    got = row("show stats_totals")
    same([got[k] for k in ("xact_count", "query_count", "client_login_count",
                           "server_assignment_count")], ["12", "14", "1", "12"])
    check(int(got["bytes_received"]) > 200 and int(got["bytes_sent"]) > 500, got)
    time.sleep(2.2)
    stage.pooler.wait_log(r"stats: \d+ xacts/s, \d+ queries/s, \d+ client parses/s, \d+ server "
                          r"parses/s, \d+ binds/s, \d+ client logins/s, in \d+ B/s, out \d+ B/s, "
                          r"xact \d+ us, query \d+ us, wait \d+ us")


@test(new=True)
def ids(stage):
    """Ids of clients and servers: one counter, +1 each."""
    console = stage.console()
    base = [int(r["id"]) for r in table(console, "show clients")][0]
    one = stage.wire()
    one.query("select 1")
    client = [int(r["id"]) for r in table(console, "show clients") if r["database"] == "test"][0]
    server = [int(r["id"]) for r in table(console, "show servers") if r["database"] == "test"][0]
    same((client - base, server - base), (1, 2))
    other = stage.console()
    newest = max(int(r["id"]) for r in table(other, "show clients"))
    same(newest - base, 3)


@test()
def syntax(stage):
    """What is no command is answered with an error, and the console lives on (K44)."""
    console = stage.console()
    check(console.query("  ShOw   PoOlS  ;  "))
    check(console.query('show "pools"') if not stage.options.pgbouncer else True)
    for text in ("", ";", ";;;;", "show", "show nothing", "nothing", "show pools; show pools",
                 "-- x", "/* x */ show pools", "show pools x", "pause x y", "reload x", "set", "set a",
                 "set a b", "select", "'", '"', "set verbose = '", "kill x; reload", "\x01\x02",
                 "show \xff\xfe", "x" * 3000, "show " + "x" * 70, "a" * 16,
                 "set application_name = " + "'" + "x" * 300 + "'"):
        try:
            console.query(text)
            check(False, f"{text[:40]!r} was taken")
        except PgError as error:
            same((error.fields["S"], error.sqlstate), ("ERROR", "08P01"), text[:40])
        same(console.status, "I")
    fails("invalid command 'nothing', use SHOW HELP;", console.query, "nothing")
    fails("no such database: none", console.query, "pause none")
    check(console.query("show version"))
    console.send(Q("x" * 1000000))
    check(console.reply(2, 5)[0].startswith("E["))
    check(stage.console().query("show version"))


@test(seconds=40)
def random_text(stage):
    """Thousands of random commands crash nothing."""
    import random
    rnd = random.Random(7)
    bits = ["show", "SHOW", "pools", "pause", "resume", '"', "'", ";", " ", "  ", "test", "set", "=", "to",
            "kill_client", "123", "\xff", "clients", "none", '"a""b"', "enable", "disable", "\t", "\n",
            "wait_close", "reconnect", "stats", "0x1", "-1", "verbose", "my-db", "_", "select"]
    console = stage.console()
    for _ in range(2000):
        text = "".join(rnd.choice(bits) + rnd.choice(("", " ")) for _ in range(rnd.randint(0, 6)))
        if re.search("(?i)pause|wait_close|disable|conf", text):
            continue
        try:
            console.query(text, 5)
        except PgError as error:
            same(error.fields["S"], "ERROR")
    same(stage.wire().value("select 1"), "1")


@test()
def fake_settings(stage):
    """What drivers ask and set at connect."""
    console = stage.console()
    for name, value in (("client_encoding", "UTF-8"), ("standard_conforming_strings", "on"),
                        ("default_transaction_isolation", "read committed"), ("datestyle", "ISO"),
                        ("timezone", "GMT")):
        same(console.query("show " + name), [[value]], name)
        same(console.columns[0][0], name)
    console.query("set datestyle = 'ISO'")
    same((console.tags, console.notices[-1]["M"]), (["SET"], "SET ignored"))


@test()
def welcome(stage):
    """The welcome of the console."""
    console = stage.console()
    for name, value in (("client_encoding", "UTF8"), ("server_encoding", "UTF8"), ("DateStyle", "ISO"),
                        ("TimeZone", "GMT"), ("standard_conforming_strings", "on"),
                        ("is_superuser", "on")):
        same(console.settings.get(name), value, name)
    check(console.settings["server_version"].endswith("/bouncer"), console.settings["server_version"])


@test()
def foreign_messages(stage):
    """Messages other than Query and Terminate: an error, and no hang (K43)."""
    for messages in ([P("", "show pools"), B(), D(), E(), S], [S], [H, S], [message("d", b"x")],
                     [message("y", b"")]):
        console = stage.console()
        console.send(*messages)
        got = console.reply(30, 1.0)
        check(got and (got[0].startswith("E[") or got[0] in ("1", "Zi", "EOF")), messages[0], got)
    console = stage.console()
    for byte in Q("show version"):
        console.send(bytes([byte]))
    check(console.rows()[0][0].startswith("PgBouncer"))


@test()
def pause_all(stage):
    """PAUSE waits for what runs, closes the servers, holds who comes, and RESUME lets all go on."""
    one, two = stage.wire(), stage.wire()
    two.query("select 1")
    one.query("begin")
    console = stage.console()
    console.send(Q("pause"))
    same(console.quiet(0.3), [])
    same(one.value("select 1"), "1")
    two.send(Q("select 2"))
    same(two.quiet(0.2), [])
    one.query("commit")
    same(console.reply(2, 3), ["C(PAUSE)", "Zi"])
    same(stage.cluster.backends(), 0)
    fails("already suspended/paused", console.query, "pause")
    same({r["key"]: r["value"] for r in table(console, "show state")}["paused"], "yes")
    same(two.quiet(0.1), [])
    console.query("resume")
    same(two.rows(), [["2"]])
    same(one.value("select 1"), "1")
    check(re.search("PAUSE command issued", stage.pooler.text()))
    check(re.search("RESUME command issued", stage.pooler.text()))


@test()
def pause_one(stage):
    """PAUSE of one database leaves the others at work."""
    one, two = stage.wire(), stage.wire(database="second")
    one.query("select 1")
    console = stage.console()
    console.query("pause test")
    one.send(Q("select 1"))
    same(one.quiet(0.2), [])
    same(two.value("select 2"), "2")
    row = [r for r in table(console, "show databases") if r["name"] == "test"][0]
    same(row["paused"], "1")
    console.query("resume test")
    same(one.rows(), [["1"]])
    fails("cannot pause admin db: pgbouncer", console.query, "pause pgbouncer")


@test(ours=True)
def pause_given_up(stage):
    """RESUME while PAUSE still waits ends that wait (K41)."""
    one = stage.wire()
    one.query("begin")
    console, other = stage.console(), stage.console()
    console.send(Q("pause test"))
    same(console.quiet(0.3), [])
    other.query("resume test")
    got = console.reply(2, 3)
    check(got[-1] == "Zi", got)
    same(one.value("select 1"), "1")
    one.query("commit")
    same(stage.wire().value("select 2"), "2")


@test(seconds=30)
def pause_under_load(stage):
    """PAUSE and RESUME again and again under load lose no query (11.2: 51)."""
    import threading
    stop, wrong = threading.Event(), []

    def work():
        try:
            one = Wire(*stage.where).login("postgres", "test")
            while not stop.is_set():
                same(one.value("select 7"), "7")
            one.close()
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    console = stage.console()
    for _ in range(15):
        console.query("pause", 10)
        same(stage.cluster.backends(), 0)
        console.query("resume")
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join(10)
    check(not wrong, wrong[:2])


@test()
def kill_database(stage):
    """KILL db drops its clients and servers, nobody else's (11.2: 6)."""
    one, two, other = stage.wire(), stage.wire(), stage.wire(database="second")
    one.query("begin"), two.query("select 1"), other.query("select 1")
    console = stage.console()
    fails("no such database: dne", console.query, "kill dne")
    console.query("kill test")
    for client in (one, two):
        error = client.ended(3)
        check(error and error.text == "database removed", error)
    same([r for r in table(console, "show clients") if r["database"] == "test"], [])
    same(other.value("select 1"), "1")
    console.query("resume test")
    same(stage.wire().value("select 1"), "1")


@test()
def kill_all(stage):
    """KILL drops all; each database is to be resumed."""
    one, other = stage.wire(), stage.wire(database="second")
    console = stage.console()
    console.query("kill")
    for client in (one, other):
        error = client.ended(3)
        check(error and error.text == "database removed", error)
    for name in ("test", "second"):
        console.query("resume " + name)
        same(stage.wire(database=name).value("select 1"), "1")


@test(new=True)
def kill_client(stage):
    """KILL_CLIENT by id: idle, at work, and waiting ones."""
    console = stage.console()
    fails("client not found", console.query, "kill_client 100000")
    fails("invalid client pointer supplied", console.query, "kill_client word")
    for sql in (None, "begin", "select pg_sleep(10)"):
        one, other = stage.wire(params=[("application_name", "victim")]), stage.wire()
        if sql:
            one.send(Q(sql))
            time.sleep(0.1)
            one.quiet(0.05) if sql != "begin" else one.rows()
        number = [r["id"] for r in table(console, "show clients")
                  if r["application_name"] == "victim"][0]
        console.query(f"kill_client {number}")
        error = one.ended(3)
        check(error and error.text == "admin forced disconnect", error)
        check(until(lambda: not [r for r in table(console, "show clients") if r["id"] == number]))
        same(other.value("select 1"), "1")


@test()
def disable(stage):
    """DISABLE refuses new clients and leaves those there are; ENABLE lets them in again."""
    one = stage.wire()
    console = stage.console()
    console.query("disable test")
    fails('database "test" is disabled', stage.wire)
    same(one.value("select 1"), "1")
    console.query("enable test")
    same(stage.wire().value("select 1"), "1")
    fails("a database is required", console.query, "disable")
    fails("cannot disable admin db: pgbouncer", console.query, "disable pgbouncer")


@test("default_pool_size = 2")
def reconnect(stage):
    """RECONNECT renews servers as they become free, WAIT_CLOSE waits for that."""
    one, two = stage.wire(), stage.wire()
    idle = two.value("select pg_backend_pid()")
    one.query("begin")
    busy = one.value("select pg_backend_pid()")
    console = stage.console()
    console.query("reconnect test")
    check(until(lambda: two.value("select pg_backend_pid()") not in (idle,), 2) or idle == busy)
    same(one.value("select pg_backend_pid()"), busy)
    console.send(Q("wait_close test"))
    same(console.quiet(0.3), [])
    one.query("commit")
    same(console.reply(2, 3), ["C(WAIT_CLOSE)", "Zi"])
    check(one.value("select pg_backend_pid()") != busy)
    stage.pooler.wait_log("RECONNECT 'test' command issued")


@test("pool_mode = session\nserver_fast_close = 1", slow=True)
def fast_close(stage):
    """server_fast_close: a session on a server to be renewed ends at once outside a transaction."""
    one = stage.wire()
    one.query("begin")
    stage.ask("reconnect")
    time.sleep(0.5)
    one.query("commit")
    error = one.ended(3)
    check(error and error.text == "database configuration changed", error)


@test()
def set_values(stage):
    """SET changes settings at once until RELOAD; unknown keys and bad values are refused."""
    console = stage.console()
    console.query("set default_pool_size = '7'")
    same(console.tags, ["SET default_pool_size=7"] if not stage.options.pgbouncer else console.tags)
    rows = {r["key"]: r["value"] for r in table(console, "show config")}
    same(rows["default_pool_size"], "7")
    console.query("set max_client_conn to 3")  # the console is one of them
    stage.wire(), stage.wire()
    fails("max_client_conn", stage.wire)
    for bad in ("set nonsense = 1", "set default_pool_size = 'x'", "set pool_mode = 'both'",
                "set server_lifetime = 'long'"):
        fails("SET failed", console.query, bad)
    console.query("reload")
    rows = {r["key"]: r["value"] for r in table(console, "show config")}
    same((rows["default_pool_size"], rows["max_client_conn"]), ("5", "200"))


@test(leaks=False)
def shutdown_now(stage):
    """SHUTDOWN ends the process at once."""
    one, console = stage.wire(), stage.console()
    one.send(Q("select pg_sleep(10)"))
    console.send(Q("shutdown"))
    same(console.reply(1, 3), ["EOF"])
    try:
        one.ended(3)
    except ConnectionError:
        pass
    same(stage.pooler.wait(), 0)


@test(new=True, leaks=False)
def shutdown_wait_servers(stage):
    """SHUTDOWN WAIT_FOR_SERVERS: transactions end, all others go at once (11.2: 54)."""
    one, idle, waiting = stage.wire(), stage.wire(), stage.wire()
    one.query("begin")
    console = stage.console()
    console.query("shutdown wait_for_servers")
    same(console.tags, ["SHUTDOWN"])
    waiting.send(Q("select 1"))
    error = waiting.ended(3)
    check(error and error.text == "server shutting down", error)
    same(one.value("select 1"), "1")
    check(stage.pooler.process.poll() is None)
    one.query("commit")
    same(stage.pooler.wait(), 0)
    stage.pooler.wait_log("server connections dropped, exiting")
    idle.ended(2)


@test(new=True, leaks=False)
def shutdown_wait_clients(stage):
    """SHUTDOWN WAIT_FOR_CLIENTS: who is there goes on working, nobody new gets in (11.2: 53, 55)."""
    one = stage.wire()
    console = stage.console()
    console.query("shutdown wait_for_clients")
    same(one.value("select 1"), "1")
    try:
        Wire(*stage.where, timeout=2)
        check(False, "still listens")
    except ConnectionRefusedError:
        pass
    local = Wire(str(stage.pooler.folder), stage.pooler.port)
    fails("pooler is shutting down", local.login, "postgres", "test")
    late = stage.keep(Wire(str(stage.pooler.folder), stage.pooler.port)).login(
        "admin", "pgbouncer", "admin")
    fails("pooler is shutting down", late.query, "resume")
    late.close()
    console.close()
    time.sleep(0.5)
    check(stage.pooler.process.poll() is None)
    same(one.value("select 2"), "2")
    one.close()
    same(stage.pooler.wait(), 0)
    stage.pooler.wait_log("client connections dropped, exiting")
    check(not (stage.pooler.folder / f".s.PGSQL.{stage.pooler.port}").exists())


@test(new=True, leaks=False)
def two_terms(stage):
    """SIGTERM waits for the clients; the second one ends at once (11.2: 53)."""
    one, pooler = stage.wire(), stage.pooler
    pooler.signal(signal.SIGTERM)
    pooler.wait_log("got SIGTERM, shutting down, waiting for all clients disconnect")
    time.sleep(0.4)
    same(one.value("select 1"), "1")
    pooler.signal(signal.SIGTERM)
    same(pooler.wait(), 0)
    pooler.wait_log("got SIGTERM while shutting down, fast exit")
    try:
        one.ended(2)
    except ConnectionError:
        pass


@test(leaks=False)
def two_ints(stage):
    """SIGINT waits for the servers; the second one ends at once."""
    one, pooler = stage.wire(), stage.pooler
    one.query("begin")
    pooler.signal(signal.SIGINT)
    pooler.wait_log("got SIGINT, shutting down")
    time.sleep(0.4)
    same(one.value("select 1"), "1")
    pooler.signal(signal.SIGINT)
    check(pooler.wait() in ((0,) if not stage.options.pgbouncer else (0, 1)))
    pooler.wait_log("got SIGINT while shutting down, fast exit" if not stage.options.pgbouncer
                    else "SIGINT")


@test(new=True, leaks=False)
def quit(stage):
    """SIGQUIT ends at once, whatever goes on; the unix socket is gone."""
    one, pooler = stage.wire(), stage.pooler
    one.send(Q("select pg_sleep(10)"))
    pooler.signal(signal.SIGQUIT)
    same(pooler.wait(), 0)
    pooler.wait_log("got SIGQUIT, fast exit")
    check(not (pooler.folder / f".s.PGSQL.{pooler.port}").exists())


@test()
def user_signals(stage):
    """SIGUSR1 pauses, SIGUSR2 resumes; twice is told."""
    one, pooler = stage.wire(), stage.pooler
    one.query("select 1")
    pooler.signal(signal.SIGUSR1)
    pooler.wait_log("got SIGUSR1, pausing all activity")
    check(until(lambda: stage.cluster.backends() == 0))
    one.send(Q("select 2"))
    same(one.quiet(0.2), [])
    pooler.signal(signal.SIGUSR1)
    pooler.wait_log("got SIGUSR1, but already paused/suspended")
    pooler.signal(signal.SIGUSR2)
    pooler.wait_log("got SIGUSR2, continuing from PAUSE")
    same(one.rows(), [["2"]])
    pooler.signal(signal.SIGUSR2)
    pooler.wait_log("got SIGUSR2, but not paused/suspended")


@test()
def hangup(stage):
    """SIGHUP reads the configuration again, and breaks no session."""
    one, pooler = stage.wire(), stage.pooler
    one.query("begin")
    pooler.rewrite(config="default_pool_size = 9")
    pooler.signal(signal.SIGHUP)
    pooler.wait_log("got SIGHUP, re-reading config")
    check(until(lambda: {r["key"]: r["value"] for r in stage.ask("show config")}
                ["default_pool_size"] == "9"))
    one.query("commit")


@test("auth_type = trust", new=True)
def many_consoles(stage):
    """Consoles at once, some waiting in PAUSE; each gets its own answer."""
    one = stage.wire()
    one.query("begin")
    consoles = [stage.console() for _ in range(6)]
    consoles[0].send(Q("pause test"))
    same(consoles[0].quiet(0.2), [])
    for _ in range(20):
        for console in consoles[1:]:
            console.send(Q("show pools"))
        for console in consoles[1:]:
            check(console.rows())
    one.query("commit")
    same(consoles[0].reply(2, 3), ["C(PAUSE)", "Zi"])
    consoles[1].query("resume test")


@test(new=True)
def waiting_console_leaves(stage):
    """A console that leaves while its PAUSE waits: PAUSE still holds, RESUME still works."""
    one = stage.wire()
    one.query("begin")
    console = stage.console()
    console.send(Q("pause test"))
    time.sleep(0.2)
    console.reset()
    one.query("commit")
    time.sleep(0.2)
    try:
        stage.ask("resume test")
    except PgError:
        pass
    same(one.value("select 1"), "1")


@test(ours=True)
def workers(stage):
    """SHOW WORKERS has a row for each worker."""
    rows = stage.ask("show workers")
    same(len(rows), stage.options.workers)
