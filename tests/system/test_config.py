# SPDX-License-Identifier: GPL-2.0-or-later
"""Configuration: mistakes at start and at RELOAD, and what a RELOAD changes."""
import os
import subprocess
import threading
import time

from harness import AUTH_FILE, as_postgres, check, fails, own, same, table, test
from tools import until
from wire import Q, Wire

MISTAKES = [  # lines of [pgbouncer] or of other sections; what the log says besides file and line
    ("no_such_key = 1", ["unknown parameter: pgbouncer/no_such_key", "no_such_key"]),
    ("server_lifetime = long", ['invalid value "long" for parameter server_lifetime']),
    ("default_pool_size = many", ['invalid value "many" for parameter default_pool_size']),
    ("default_pool_size = 10x", ['invalid value "10x" for parameter default_pool_size']),
    ("pool_mode = both", ['invalid value "both" for parameter pool_mode']),
    ("log_stats = yes", ['invalid value "yes" for parameter log_stats']),
    ("auth_type = magic", ['invalid value "magic" for parameter auth_type']),
    ("just words", ["syntax error in configuration"]),
    ("[databases]\nbad = host", ["syntax error in connection string", "for parameter bad"]),
    ("[databases]\nbad = hots=x", ["unrecognized connection parameter: hots", "for parameter bad"]),
    ("[databases]\nbad = host='x", ["syntax error in connection string", "for parameter bad"]),
    ("[databases]\nbad = host=127.0.0.1 port=x", ["invalid port: x", "for parameter bad"]),
    ("[databases]\nbad = pool_mode=both", ["invalid pool mode: both", "for parameter bad"]),
    ("[databases]\npgbouncer = host=x", ['database name "pgbouncer" is reserved']),
    ("[nonsense]\na = 1", ['invalid section "nonsense" in configuration']),
    ("[users]\nalice = pool_size=1 nonsense=2", ["unrecognized user parameter: nonsense"]),
    ("%include /no/such/file", ['could not load file "/no/such/file"']),
]


@test(start=False, new=True, seconds=40)
def mistakes_at_start(stage):
    """A mistake in the file ends the start: reason, file and line in the log, exit code 1."""
    pooler = stage.pooler
    for text, wanted in MISTAKES:
        mark = pooler.mark() if pooler.log.exists() else 0
        pooler.start(text=pooler.config(text), wait=False)
        same(pooler.wait(), 1, text)
        pooler.process = None
        log = pooler.text(mark)
        for words in wanted + ["cannot load config file"]:
            check(words in log, f"{text!r}: no {words!r} in {log!r}")
        at = text.splitlines()[0 if "nonsense]" in text else -1]
        line = 1 + pooler.ini.read_text().splitlines().index(at)
        if "/no/such/file" not in text:
            check(f"({pooler.ini}:{line})" in log, f"{text!r}: no {pooler.ini}:{line} in {log!r}")


@test(new=True, seconds=40)
def mistakes_at_reload(stage):
    """A mistake at RELOAD changes nothing, not by half, and is told; sessions go on."""
    one, console, pooler = stage.wire(), stage.console(), stage.pooler
    one.query("begin")
    before = table(console, "show config"), table(console, "show databases")
    for text, wanted in MISTAKES:
        mark = pooler.mark()
        pooler.rewrite(config="default_pool_size = 11\nmax_client_conn = 77\n" + text,
                       databases="other = host=127.0.0.1 port=PG")
        error = fails("RELOAD failed, see logs for additional details", console.query, "reload")
        same((error.sqlstate, error.fields["S"]), ("F0000", "ERROR"))
        log = pooler.text(mark)
        for words in wanted:
            check(words in log, f"{text!r}: no {words!r} in {log!r}")
        if not stage.options.pgbouncer:
            same((table(console, "show config"), table(console, "show databases")), before, text)
    same(one.value("select 1"), "1")
    one.query("commit")
    same(stage.wire().value("select 1"), "1")


@test()
def reload_files(stage):
    """A missing auth_file at RELOAD does not lock anybody out for good."""
    stage.pooler.auth.unlink()
    console = stage.console()
    try:
        console.query("reload")
    except Exception:
        pass
    stage.pooler.auth.write_text(AUTH_FILE)
    console.query("reload")
    same(stage.wire().value("select 1"), "1")


@test()
def reload_databases(stage):
    """Databases come and go by RELOAD; clients of one that goes hear of it."""
    one, two = stage.wire(), stage.wire(database="second")
    one.query("select 1"), two.query("select 1")
    stage.reload(databases="test = host=127.0.0.1 port=PG\nnewer = host=127.0.0.1 port=PG dbname=third")
    same(stage.wire(database="newer").value("select current_database()"), "third")
    error = two.ended(3)
    check(error and error.text == "database removed", error)
    same(one.value("select 1"), "1")
    fails("no such database: second", stage.wire, database="second")
    stage.reload()
    same(stage.wire(database="second").value("select 1"), "1")


@test()
def reload_target(stage):
    """A changed dbname counts for new servers; a transaction under way ends where it began."""
    one = stage.wire()
    one.query("begin")
    same(one.value("select current_database()"), "test")
    stage.reload(databases="test = host=127.0.0.1 port=PG dbname=third")
    same(one.value("select current_database()"), "test")
    one.query("commit")
    same(one.value("select current_database()"), "third")


@test()
def reload_changes_nothing(stage):
    """RELOAD of an unchanged file renews no server and breaks no session."""
    one = stage.wire()
    pid = one.value("select pg_backend_pid()")
    two = stage.wire()
    two.query("begin")
    for _ in range(5):
        stage.ask("reload")
    two.query("commit")
    same(one.value("select pg_backend_pid()"), pid)


@test(seconds=40)
def reload_under_load(stage):
    """RELOAD every few milliseconds under load and logins: nothing fails (K54)."""
    stop, wrong, done = threading.Event(), [], [0]

    def work(stay):
        try:
            one = None
            while not stop.is_set():
                if one is None or not stay:
                    one = Wire(*stage.where, timeout=10).login("postgres", "test")
                same(one.value("select 7"), "7")
                done[0] += 1
                if not stay:
                    one.close()
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work, args=(i % 2,), daemon=True) for i in range(6)]
    for thread in threads:
        thread.start()
    console, end, count = stage.console(), time.monotonic() + 2, 0
    mark = stage.pooler.mark()
    while time.monotonic() < end:
        console.query("reload")
        count += 1
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join(15)
    check(not wrong, wrong[:2])
    opened = stage.pooler.text(mark).count("new connection to server")
    check(opened <= 5, f"{opened} servers opened")
    stage.note(f"{count} reloads, {done[0]} queries")


@test(seconds=40)
def edits_under_load(stage):
    """Random edits of databases, users and sizes by RELOAD: no crash, no failure not due (K53)."""
    import random
    rnd, stop, wrong = random.Random(3), threading.Event(), []

    def work():
        try:
            one = Wire(*stage.where, timeout=20).login("postgres", "test")
            while not stop.is_set():
                same(one.value("select 7"), "7")
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    console = stage.console()
    for number in range(40):
        others = "\n".join(f"db{i} = host=127.0.0.1 port=PG dbname=third"
                           f"{' user=alice' if rnd.random() < .5 else ''}"
                           f"{' min_pool_size=1' if rnd.random() < .3 else ''}"
                           for i in range(6) if rnd.random() < 0.6)
        star = "* = host=127.0.0.1 port=PG\n" if rnd.random() < 0.5 else ""
        stage.pooler.rewrite(
            config=f"default_pool_size = {rnd.randint(1, 8)}\nmax_db_connections = "
                   f"{rnd.choice((0, 3, 9))}\nmin_pool_size = {rnd.randint(0, 2)}",
            databases=f"{star}test = host=127.0.0.1 port=PG pool_size={rnd.randint(1, 6)}\n{others}",
            users="alice = pool_size=%d" % rnd.randint(1, 3) if rnd.random() < 0.5 else "")
        console.query("reload")
        try:
            one = Wire(*stage.where).login("postgres", f"db{rnd.randint(0, 5)}")
            one.query("select 1")
            one.close()
        except Exception:
            pass
    stop.set()
    for thread in threads:
        thread.join(25)
    check(not wrong, wrong[:2])
    stage.reload(databases="test = host=127.0.0.1 port=PG")


@test(start=False)
def syntax(stage):
    """Comments, blanks, indents, quotes, numbers in other bases, includes, repeated keys."""
    pooler = stage.pooler
    included = pooler.folder / "more.ini"
    included.write_text("default_pool_size = 0x0a\n\t; comment\nmax_db_connections=07\n")
    own(included)
    text = pooler.config(f"""
# comment
   reserve_pool_size = 3
	reserve_pool_timeout   =   2.5   
default_pool_size = 1
%include {included}
[databases]
'my db' = host=127.0.0.1  port = PG dbname = test application_name='it''s'
""")
    pooler.start(text=text)
    rows = {r["key"]: r["value"] for r in stage.ask("show config")}
    same([rows[k] for k in ("default_pool_size", "max_db_connections", "reserve_pool_size",
                            "reserve_pool_timeout")], ["10", "7", "3", "2.5"])
    same(stage.wire(database="my db").value("select 1"), "1")


@test(start=False, new=True)
def arguments(stage):
    """--version, --help, no file, too many files, a file that is not there."""
    def run(*args):
        return subprocess.run(as_postgres() + [stage.options.binary, *map(str, args)], cwd="/",
                              capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
    done = run("--version")
    check(done.returncode == 0 and done.stdout.startswith("PgBouncer "), done)
    done_help = run("--help")
    check(done_help.returncode == 0 and "--daemon" in done_help.stdout, done_help)
    for args in ((), ("a", "b")):
        failed = run(*args)
        check(failed.returncode == 1 and "no configuration file specified" in failed.stderr, failed)
    check(run("--nonsense").returncode == 1)
    failed = run("/no/such.ini")
    check(failed.returncode == 1 and "/no/such.ini" in failed.stderr + failed.stdout, failed)
    stage.pooler.start(text=stage.pooler.config())
    same(stage.ask("show version")[0]["version"], done.stdout.splitlines()[0])


@test(start=False)
def root_is_refused(stage):
    """As root without `user` it refuses to run; with it, it becomes that user."""
    if os.geteuid() != 0:
        return
    pooler = stage.pooler
    pooler.ini.write_text(pooler.config())
    done = subprocess.run([stage.options.binary, pooler.ini], cwd="/", capture_output=True, text=True,
                          timeout=10, stdin=subprocess.DEVNULL)
    check(done.returncode == 1 and "should not run as root" in done.stderr, done)
    pooler.ini.write_text(pooler.config("user = postgres"))
    with open(pooler.log, "ab") as log:
        pooler.process = subprocess.Popen([stage.options.binary, pooler.ini], cwd="/", stdout=log,
                                          stderr=log, stdin=subprocess.DEVNULL)
    check(until(pooler.answers, 10))
    import tools
    pooler.base = tools.descriptors(pooler.pid)
    same(os.stat(f"/proc/{pooler.pid}").st_uid == 0, False)
    same(stage.wire().value("select 1"), "1")


@test(new=True)
def second_instance(stage):
    """A second one on the same unix socket, port or pidfile does not start (K57)."""
    first, other = stage.pooler, stage.another()
    for text, wanted in (
            (first.config(), "unix socket is in use, cannot continue"),
            (first.config("unix_socket_dir ="), "failed to listen on any address"),
            (first.config(f"unix_socket_dir = /no/such/dir\nlisten_port = {other.port}"),
             "failed to create unix socket"),
            (first.config(f"unix_socket_dir = /tmp/{'x' * 120}\nlisten_port = {other.port}"), "x")):
        mark = other.mark() if other.log.exists() else 0
        other.start(text=text, wait=False)
        same(other.wait(), 1, wanted)
        other.process = None
        check(wanted in other.text(mark), wanted, other.text(mark))
    same(stage.wire().value("select 1"), "1")


@test(start=False)
def stale_socket_and_pidfile(stage):
    """What a dead process left - socket file, pidfile - is replaced."""
    pooler = stage.pooler
    pidfile = pooler.folder / "pid"
    text = pooler.config(f"pidfile = {pidfile}")
    pooler.start(text=text)
    same(pidfile.read_text().strip(), str(pooler.pid))
    other = stage.another()
    other.start(text=pooler.config(f"pidfile = {pidfile}\nlisten_port = {other.port}"), wait=False)
    same(other.wait(), 1)
    other.process = None
    check("another instance running?" in other.text())
    pooler.process.kill()
    pooler.process.wait()
    check(pidfile.exists() and (pooler.folder / f".s.PGSQL.{pooler.port}").exists())
    pooler.process = None
    mark = pooler.mark()
    pooler.start(text=text)
    pooler.wait_log("stale pidfile, removing", mark)
    local = stage.keep(Wire(str(pooler.folder), pooler.port)).login("postgres", "test")
    same(local.value("select 1"), "1")
    pooler.stop()
    check(not pidfile.exists())


@test(start=False, leaks=False)
def daemon(stage):
    """-d goes to the background, writes the pidfile and the log file."""
    pooler = stage.pooler
    pidfile, logfile = pooler.folder / "pid", pooler.folder / "d.log"
    pooler.start("-d", text=pooler.config(f"pidfile = {pidfile}\nlogfile = {logfile}"), wait=False)
    same(pooler.wait(), 0)
    pooler.process = None
    check(until(lambda: logfile.exists() and "process up" in logfile.read_text()))
    pid = int(pidfile.read_text())
    try:
        same(stage.wire().value("select 1"), "1")
        os.rename(logfile, pooler.folder / "d.log.1")
        stage.ask("reload")
        check(until(logfile.exists), "the log file was not reopened")
    finally:
        os.kill(pid, 3 if not stage.options.pgbouncer else 15)
    check(until(lambda: not os.path.exists(f"/proc/{pid}")), "still there")
    check(not pidfile.exists())


@test(start=False, leaks=False)
def few_descriptors(stage):
    """With 64 descriptors and 150 clients: no crash, no spin, and who can be served is (K49)."""
    import tools
    pooler = stage.pooler
    pooler.ini.write_text(pooler.config("default_pool_size = 3\nmax_client_conn = 300"))
    with open(pooler.log, "ab") as log:
        pooler.process = subprocess.Popen(
            ["prlimit", "--nofile=64:64"] + as_postgres() + [stage.options.binary, pooler.ini],
            cwd="/", stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    check(until(pooler.answers, 10))
    first = stage.wire()
    same(first.value("select 1"), "1")
    import socket
    crowd = [socket.create_connection(stage.where, 5) for _ in range(150)]
    time.sleep(0.3)
    before = tools.cpu(pooler.pid)
    mark = pooler.mark()
    for _ in range(10):
        same(first.value("select 1"), "1")
        time.sleep(0.1)
    used, lines = tools.cpu(pooler.pid) - before, pooler.text(mark).count("\n")
    check(used < 0.3, f"{used:.2f} s of CPU in a second")
    check(lines < 20, f"{lines} lines of log in a second")
    for sock in crowd:
        sock.close()
    check(until(lambda: served(stage), 8, 0.2), "nobody is served afterwards")


def served(stage):
    try:
        return Wire(*stage.where, timeout=1).login("postgres", "test").value("select 1") == "1"
    except Exception:
        return False


@test(start=False, new=True)
def later_settings(stage):
    """A file with every setting of PgBouncer at its default starts."""
    from harness import Skip
    if stage.options.pgbouncer:
        raise Skip("other settings")
    pooler = stage.pooler
    pooler.start(text=pooler.config())
    keep = ("listen_", "unix_socket_dir", "auth_file", "conffile", "workers", "cpu_", "admin_users",
            "stats_users", "pool_mode", "auth_type", "auth_query", "pool_parallel", "user", "service_name",
            "server_tls_sslmode", "logfile", "pidfile")
    lines = [f"{r['key']} = {r['default'] or ''}" for r in stage.ask("show config")
             if not r["key"].startswith(keep) and r["default"]]
    pooler.stop()
    mark = pooler.mark()
    pooler.start(text=pooler.config("\n".join(lines)))
    same(stage.wire().value("select 1"), "1")
    check("process up" in pooler.text(mark))


@test(seconds=30)
def queries_over_reload_of_sizes(stage):
    """A waiting client is served when RELOAD makes the pool larger."""
    one, two = stage.wire(), stage.wire()
    stage.reload(config="default_pool_size = 1")
    one.query("begin")
    two.send(Q("select 2"))
    same(two.quiet(0.2), [])
    stage.reload(config="default_pool_size = 2")
    same(two.rows(3), [["2"]])
    one.query("commit")


@test("workers = 1", ours=True)
def spinning(stage):
    """spin_us: a worker asks the kernel often before it sleeps, from a RELOAD on; a bad value changes nothing."""
    def asked_more():
        before = stage.ask("show workers")[0]
        one = stage.wire()
        for _ in range(20):
            one.query("select pg_sleep(0.002)")
        one.close()
        after = stage.ask("show workers")[0]
        calls, turns = (int(after[name]) - int(before[name]) for name in ("syscalls", "turns"))
        return calls > 5 * turns
    check(not asked_more())
    stage.reload(config="workers = 1\nspin_us = 1000")
    check(asked_more())
    for text in ("1001", "-1", "much", ""):
        stage.pooler.rewrite(config=f"workers = 1\nspin_us = {text}")
        fails("RELOAD failed, see logs for additional details", stage.console().query, "reload")
    check(asked_more())
    stage.reload(config="workers = 1\nspin_us = 0")
    check(not asked_more())


@test(ours=True)
def servers_per_worker_values(stage):
    """A bad servers_per_worker is refused by RELOAD, by its line."""
    for text in ("-1", "1001", "two"):
        mark = stage.pooler.mark()
        stage.pooler.rewrite(config=f"servers_per_worker = {text}")
        fails("RELOAD failed, see logs for additional details", stage.console().query, "reload")
        check("servers_per_worker" in stage.pooler.text(mark))
