# SPDX-License-Identifier: GPL-2.0-or-later
"""What a test is given: a scratch PostgreSQL, a pooler of its own, and a look behind both.

A test is a function with @test(...) over it.  It gets a Stage: `stage.pooler` has been started with the
settings of the decorator, `stage.wire()` logs in through it, `stage.direct()` past it.  When the test is
over, the connections it made are closed, the pooler must be idle again, end with exit code 0, and have
complained about nothing in its log.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import tools
import wire
from tools import until
from wire import Closed, PgError, Wire

BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
# A file of secrets: what each user's is, is in the name.
PASSWORD = "secret of all"
BROKEN = re.compile(rb"check failed|Sanitizer|runtime error:|Assertion|core dumped|panic", re.I)
TESTS = []


class Failed(Exception):
    """A test did not see what it wanted to see."""


class Skip(Exception):
    """Not to be tested here."""


class TooLong(Exception):
    """A test took longer than it may."""


def check(condition, *about):
    if not condition:
        raise Failed(" ".join(str(a) for a in about) or caller())


def caller():
    frame = traceback.extract_stack(limit=3)[0]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}: {frame.line}"


def same(got, wanted, what=""):
    if got != wanted:
        raise Failed(f"{f'{what}: ' if what != '' else ''}got {got!r}, wanted {wanted!r}")


def fails(text, action, *args, **options):
    """Whether action ends in a PgError that has text; the error.  A list: one of these."""
    texts = [text] if isinstance(text, str) else text
    try:
        action(*args, **options)
    except PgError as error:
        if any(t in (error.text or "") or t == error.sqlstate for t in texts):
            return error
        raise Failed(f"got {error}, wanted {text!r}") from None
    raise Failed(f"no error, wanted {text!r}")


def test(config="", databases=None, users="", auth=None, new=False, ours=False, long=False,
         alone=False, leaks=True, start=True, seconds=60, slow=False):
    """config: lines of [pgbouncer]; databases: lines, in place of the usual; users: lines of [users];
    auth: lines of auth_file, in place of the usual.  new: PgBouncer 1.18 does not have it; ours: no
    PgBouncer has it.  long: only if asked for; alone: with nothing beside it; leaks: look for
    leftovers; start: have a pooler started; slow: takes more than a second or two."""

    def add(function):
        TESTS.append(Test(function, dict(
            config=config, databases=databases, users=users, auth=auth, new=new, ours=ours,
            long=long, alone=alone, leaks=leaks, start=start, seconds=seconds, slow=slow)))
        return function
    return add


class Test:
    def __init__(self, function, options):
        self.function, self.options = function, options
        self.name = f"{function.__module__.removeprefix('test_')}/{function.__name__}"
        self.about = (function.__doc__ or "").strip()


def as_postgres():
    """What goes before a command: PostgreSQL and the pooler refuse to run as root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


def own(path):
    if os.geteuid() == 0:
        shutil.chown(path, "postgres", "postgres")


class Ports:
    """Free ports of this worker's hundred."""

    def __init__(self, first, count):
        self.first, self.count, self.at = first, count, 0

    def take(self):
        for _ in range(self.count):
            port = self.first + self.at
            self.at = (self.at + 1) % self.count
            with socket.socket() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    sock.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port
        raise Failed("no free port")


class Cluster:
    """A scratch PostgreSQL."""

    HBA = """
local all         postgres   trust
host  all         postgres   all  trust
local all         u_plain    password
host  all         u_plain    all  password
local all         u_md5      md5
host  all         u_md5      all  md5
local all         u_scram,u_same  scram-sha-256
host  all         u_scram,u_same  all  scram-sha-256
host  all         u_refused  all  reject
local all         all        trust
host  all         all        all  trust
"""
    CONF = """
fsync = off
full_page_writes = off
synchronous_commit = off
max_connections = 300
superuser_reserved_connections = 5
listen_addresses = '127.0.0.1, ::1'
autovacuum = off
log_connections = off
log_line_prefix = '%m [%p] %u@%d '
max_wal_size = 2GB
shared_buffers = 64MB
max_prepared_transactions = 4
"""

    def __init__(self, folder, port, template=None):
        self.folder, self.port = pathlib.Path(folder), port
        self.data, self.log = self.folder / "data", self.folder / "postgres.log"
        self.process = None
        self.folder.mkdir(mode=0o755)
        own(self.folder)
        if template:
            self.run("cp", "-r", template.data, self.data)
        else:
            self.run(BIN / "initdb", "-D", self.data, "-U", "postgres", "-N", "-A", "trust",
                     "--locale=C.UTF-8", "-E", "UTF8")
            (self.data / "pg_hba.conf").write_text(self.HBA)
            with open(self.data / "postgresql.conf", "a") as file:
                file.write(self.CONF)

    @staticmethod
    def run(*command):
        done = subprocess.run(as_postgres() + [str(c) for c in command], cwd="/",
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr.decode()}{done.stdout.decode()}")

    def start(self, wait=True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                as_postgres() + [BIN / "postgres", "-D", self.data, "-p", str(self.port),
                                 "-k", self.folder], cwd="/", stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        if wait and not until(self.answers, 20):
            raise RuntimeError(f"PostgreSQL does not start: {tail(self.log)}")

    def answers(self):
        try:
            Wire("127.0.0.1", self.port).login("postgres", "postgres").close()
            return True
        except (OSError, PgError, Closed):
            return False

    def stop(self, how=signal.SIGINT):
        """SIGINT is a fast shutdown, SIGQUIT an immediate one."""
        if self.process:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def fill(self):
        """Users and databases."""
        db = self.wire()
        for sql in (
                "create role u_trust login superuser",
                "create role u_refused login",
                "create role u_nologin",
                "create role alice login superuser", "create role bob login superuser",
                "create role carol login superuser", "create role dave login superuser",
                "create role eve login superuser",
                f"set password_encryption = 'scram-sha-256'; "
                f"create role u_plain login password '{PASSWORD}'",
                f"set password_encryption = 'scram-sha-256'; "
                f"create role u_scram login password '{PASSWORD}'",
                f"create role u_same login password '{SAME_SECRET}'",
                f"create role forced login password '{PASSWORD}'",
                f"set password_encryption = 'md5'; "
                f"create role u_md5 login password '{PASSWORD}'",
                "alter system set log_min_messages = 'warning'"):
            db.query(sql)
        for name in ("test", "second", "third", "logged", "other"):
            db.query(f"create database {name}")
        db.query("alter database logged set log_statement = 'all'")
        for name in ("test", "logged"):
            with self.wire(name) as one:
                one.query("create table t (v int); create table big (id int, v text)")
                one.query("insert into big select g, repeat('x', 100) from generate_series(1, 1000) g")
        db.close()

    def wire(self, database="postgres", user="postgres", **options):
        return Leaving(Wire("127.0.0.1", self.port).login(user, database, **options))

    def backends(self):
        """How many client backends there are besides the one that asks."""
        with self.wire() as db:
            return int(db.value("select count(*) from pg_stat_activity where backend_type = "
                                "'client backend' and pid <> pg_backend_pid()"))

    def clean(self):
        """No backend of the last test is left."""
        if not self.process or self.process.poll() is not None:
            self.start()
        with self.wire() as db:
            left = ("from pg_stat_activity where backend_type = 'client backend' and "
                    "pid <> pg_backend_pid()")
            db.query("select pg_terminate_backend(pid) " + left)
            until(lambda: db.value("select count(*) " + left) == "0")

    def logged(self, since=0):
        with open(self.log, "rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")

    def mark(self):
        return self.log.stat().st_size


class Leaving:
    """A Wire that `with` closes."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __enter__(self):
        return self.inner

    def __exit__(self, *_):
        self.inner.close()


SAME_SECRET = wire.scram_secret(PASSWORD, salt=b"0123456789abcdef")
AUTH_FILE = f"""
"postgres" ""
"u_trust" "trusted"
"u_plain" "{PASSWORD}"
"u_md5" "{PASSWORD}"
"u_scram" "{PASSWORD}"
"u_same" "{SAME_SECRET}"
"u_refused" "x"
"forced" "{PASSWORD}"
"alice" "alice"
"bob" "bob"
"carol" "carol"
"dave" "dave"
"eve" "eve"
"admin" "admin"
"stats" "stats"
"""


def sanitized(stage):
    """Whether the pooler is built with a sanitizer: its memory says nothing then."""
    return b"__asan_init" in pathlib.Path(stage.options.binary).read_bytes()


def tail(path, lines=12):
    try:
        text = pathlib.Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join("      " + line[:220] for line in text.splitlines()[-lines:])


class Pooler:
    """A process under test."""

    def __init__(self, stage, folder, port):
        self.stage, self.folder, self.port = stage, pathlib.Path(folder), port
        self.ini, self.log = self.folder / "pooler.ini", self.folder / "pooler.log"
        self.auth = self.folder / "users.txt"
        self.process, self.base, self.began = None, 0, 0
        self.folder.mkdir(mode=0o755)
        own(self.folder)

    def config(self, config="", databases=None, users="", auth=None):
        """The text of its ini; writes the auth_file.  Later lines win over earlier ones."""
        cluster, options = self.stage.cluster, self.stage.options
        if databases is None:
            databases = "\n".join(f"{name} = host=127.0.0.1 port=PG dbname={name}"
                                  for name in ("test", "second", "third", "logged"))
        lines = ["[databases]", databases, "[pgbouncer]", f"listen_port = {self.port}",
                 "listen_addr = 127.0.0.1", f"unix_socket_dir = {self.folder}",
                 "auth_type = trust", f"auth_file = {self.auth}", "admin_users = admin",
                 "stats_users = stats", "pool_mode = transaction", "default_pool_size = 5",
                 "max_client_conn = 200", "server_login_retry = 1",
                 "ignore_startup_parameters = extra_float_digits"]
        if not options.pgbouncer:
            lines.append(f"workers = {options.workers}")
        lines.append(config)
        if users:
            lines += ["[users]", users]
        text = "\n".join(lines) + "\n"
        for name, value in (("PG_SOCKET", cluster.folder), ("PG", cluster.port),
                            ("FOLDER", self.folder)):
            text = re.sub(rf"\b{name}\b", str(value), text)
        self.auth.write_text(AUTH_FILE if auth is None else auth)
        return text

    def start(self, *arguments, wait=True, text=None, env=None):
        if text is not None:
            self.ini.write_text(text)
        self.began = self.mark() if self.log.exists() else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                as_postgres() + [self.stage.options.binary, *arguments, self.ini], cwd="/",
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        if wait:
            if not until(self.answers, 20):
                code = self.process.poll()
                raise Failed("does not start" + ("" if code is None else f", exit code {code}"))
            self.base = tools.descriptors(self.process.pid)

    def answers(self):
        """Whether it listens; a process that has ended never will."""
        if self.process.poll() is not None:
            raise Failed(f"ended at start with exit code {self.process.returncode}")
        return "process up" in self.text(self.began)

    @property
    def pid(self):
        return self.process.pid

    def text(self, since=0):
        with open(self.log, "rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")

    def mark(self):
        return self.log.stat().st_size

    def wait_log(self, pattern, since=0, seconds=5):
        """Waits for a line; fails when it does not come."""
        if not until(lambda: re.search(pattern, self.text(since)), seconds):
            raise Failed(f"no line like {pattern!r} in the log")

    def rewrite(self, **parts):
        """Another ini (and auth_file) for the next RELOAD."""
        self.ini.write_text(self.config(**parts))

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=5):
        """Its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end within {seconds} s") from None

    def stop(self):
        """Ends it if it still runs; what is wrong with how it ended, or nothing."""
        if self.process is None:
            return None
        wanted = (0, 1) if self.stage.options.pgbouncer else (0,)
        if self.process.poll() is None:
            self.signal(signal.SIGTERM if self.stage.options.pgbouncer else signal.SIGQUIT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return "did not end within 5 s of SIGQUIT"
        code, self.process = self.process.returncode, None
        if code not in wanted:
            return f"exit code {code}"
        return None


class Stage:
    """What a test is given."""

    def __init__(self, cluster, ports, folder, options):
        self.cluster, self.ports, self.options = cluster, ports, options
        self.folder, self.opened, self.poolers = pathlib.Path(folder), [], []
        self.folder.mkdir(mode=0o755)
        own(self.folder)
        self.pooler = self.another()
        self.notes = []

    def another(self):
        """One more pooler, not started."""
        made = Pooler(self, self.folder / f"pooler{len(self.poolers)}", self.ports.take())
        self.poolers.append(made)
        return made

    def note(self, text):
        """A measured value, printed beside the result."""
        self.notes.append(text)

    # connections

    def keep(self, what):
        self.opened.append(what)
        return what

    @property
    def where(self):
        return "127.0.0.1", self.pooler.port

    def raw(self, timeout=10):
        """A connection through the pooler before its first byte."""
        return self.keep(Wire(*self.where, timeout=timeout))

    def wire(self, user="postgres", database="test", password=None, timeout=10, **options):
        return self.raw(timeout).login(user, database, password, **options)

    def direct(self, user="postgres", database="test", password=None, **options):
        return self.keep(Wire("127.0.0.1", self.cluster.port)).login(
            user, database, password, **options)

    def console(self, user="admin"):
        return self.wire(user, "pgbouncer", user)

    def ask(self, sql):
        """One command on a console that is gone afterwards: rows as dicts."""
        wire_ = Wire(*self.where).login("admin", "pgbouncer", "admin")
        try:
            return table(wire_, sql)
        finally:
            wire_.close()

    def pools(self, database="test", user="postgres"):
        for row in self.ask("show pools"):
            if row["database"] == database and row["user"] == user:
                return {k: int(v) if v and v.isdigit() else v for k, v in row.items()}
        return {}

    def reload(self, **parts):
        self.pooler.rewrite(**parts)
        self.ask("reload")

    @property
    def server(self):
        """Host, port and database as libpq wants them, to the pooler."""
        return dict(host="127.0.0.1", port=self.pooler.port, dbname="test", user="postgres")

    # the end

    def close(self):
        for what in self.opened:
            try:
                what.close()
            except Exception:
                pass

    def leftovers(self):
        """What a pooler holds though everybody is gone, or nothing."""
        pooler, found = self.pooler, None

        def idle():
            nonlocal found
            try:
                found = self.busy()
            except (OSError, Closed, PgError) as error:
                found = f"console: {error!r}"
            if not found:
                servers = sum(int(r[k]) for r in self.ask("show pools")
                              for k in r if k.startswith("sv_"))
                now = tools.descriptors(pooler.pid)
                if now > pooler.base + servers + 2:
                    found = f"{now} descriptors with {servers} servers, {pooler.base} at start"
            return not found
        until(idle, 5, 0.1)
        return found

    def busy(self):
        for row in self.ask("show pools"):
            for key, value in row.items():
                allowed = 1 if row["database"] == "pgbouncer" and key == "cl_active" else 0
                if re.match("cl_|sv_", key) and key not in ("sv_idle", "sv_used") and \
                        int(value) > allowed:
                    return f"{row['database']}/{row['user']}: {key} {value} after the test"
        clients = [r for r in self.ask("show clients") if r["database"] != "pgbouncer"]
        return f"{len(clients)} clients after the test" if clients else None


def table(wire_, sql):
    rows = wire_.query(sql)
    names = [c[0] for c in wire_.columns or []]
    return [dict(zip(names, row)) for row in rows]


def run_one(case, cluster, ports, folder, options):
    """Runs one test.  (result, why, notes, seconds); result: ok, FAIL or skip."""
    started, stage, why = time.monotonic(), None, []
    if case.options["ours"] and options.pgbouncer or case.options["new"] and options.pgbouncer:
        return "skip", "needs a newer one", [], 0
    if case.options["long"] and not options.long:
        return "skip", "only with --long", [], 0

    def ring(*_):
        raise TooLong(f"took longer than {case.options['seconds']} s: " +
                      " < ".join(f"{f.name}:{f.lineno}" for f in
                                 reversed(traceback.extract_stack(limit=8)[:-1])))
    signal.signal(signal.SIGALRM, ring)
    try:
        signal.alarm(case.options["seconds"])
        cluster.clean()
        stage = Stage(cluster, ports, folder, options)
        parts = {k: case.options[k] for k in ("databases", "users", "auth")}
        if case.options["start"]:
            stage.pooler.start(text=stage.pooler.config(case.options["config"], **parts))
        case.function(stage)
        stage.close()
        if case.options["leaks"] and stage.pooler.process and stage.pooler.process.poll() is None:
            left = stage.leftovers()
            if left:
                why.append(f"leak: {left}")
    except Skip as skip:
        signal.alarm(0)
        return "skip", str(skip), [], time.monotonic() - started
    except (Failed, PgError, TooLong) as error:
        why.append(f"{error}{place(error)}")
    except Exception as error:
        why.append(f"{error!r}{place(error)}")
    finally:
        signal.alarm(0)
        if stage:
            stage.close()
            for pooler in stage.poolers:
                wrong = pooler.stop()
                if wrong:
                    why.append(wrong)
                try:
                    hit = BROKEN.search(pooler.log.read_bytes())
                    if hit:
                        why.append(f"log says {hit[0].decode()!r}")
                    if any(s.encode() in pooler.log.read_bytes() for s in (PASSWORD, SAME_SECRET)):
                        why.append("there is a secret in the log")
                except OSError:
                    pass
    seconds = time.monotonic() - started
    if why:
        logs = [f"    {p.log}:\n{tail(p.log, options.tail)}" for p in stage.poolers] if stage else []
        return "FAIL", "; ".join(why) + "\n" + "\n".join(logs), stage.notes if stage else [], seconds
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return "ok", "", stage.notes, seconds


def place(error):
    """Where in the test it happened."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if "/test_" in frame.filename:
            return f" ({frame.filename.rpartition('/')[2]}:{frame.lineno})"
    return ""


def scratch():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ringbouncer-system."))
    folder.chmod(0o755)
    return folder


sys.setswitchinterval(0.001)
