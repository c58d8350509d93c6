# SPDX-License-Identifier: GPL-2.0-or-later
"""Drivers of many languages, each through the pooler as it is directly.

drivers/ has a program for each driver.  All go through one list of scenarios and print a line for each,
with nothing in it that differs from run to run; drivers/expected.txt is what they print.  A program
first runs directly before PostgreSQL, once in each of its modes, and must print that.  Then three of it run
at once through the pooler in transaction mode, with two servers between them, while others take the
servers all the time, and must print the same lines.

`tests/setup drivers` installs what they need; a driver that is not there is skipped.
"""
import glob
import itertools
import os
import pathlib
import subprocess
import threading
import time

from harness import PASSWORD, Skip, check, test
from wire import B, C, D, E, P, S

HERE = pathlib.Path(__file__).resolve().parent / "drivers"
# What is not from Debian, and compilers' caches; tests/setup fills it.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "ringbouncer"
INSTANCES = 3
MD5 = ("u_md5", "md5")
CONFIG = """
default_pool_size = 2
ignore_startup_parameters = extra_float_digits, jit
"""


class Driver:
    """A program: what must be there (patterns of files), how it is built, how it is started, and modes."""

    def __init__(self, name, command, *, needs=(), build=None, modes=("",), env=None, scram=True):
        self.name, self.command, self.needs, self.build = name, command, needs, build
        self.modes, self.env = modes, env or {}
        self.login = ("u_scram", "scram-sha-256") if scram else MD5

    def fill(self, words, folder):
        return [str(w).replace("HERE", str(HERE)).replace("BUILT", str(folder)) for w in words]

    def prepare(self, folder):
        """Builds it; skips where something is missing."""
        for pattern in self.needs:
            if not glob.glob(str(pattern)):
                raise Skip(f"there is no {pattern}: tests/setup drivers")
        if self.build:
            done = subprocess.run(self.fill(self.build, folder), cwd=folder, env=self.environment(folder),
                                  capture_output=True, text=True, timeout=200)
            check(done.returncode == 0, f"{self.build[0]}: {done.stderr[-1500:]}")

    def environment(self, folder):
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(folder),
                "PYTHONDONTWRITEBYTECODE": "1", **self.env}

    def start(self, folder, port, user, schema, mode):
        command = self.fill(self.command, folder) + ["127.0.0.1", str(port), user, PASSWORD, "test", schema]
        with open(folder / f"{schema}.out", "w") as out, open(folder / f"{schema}.err", "w") as err:
            return subprocess.Popen(command + ([mode] if mode else []), cwd=folder, stdout=out, stderr=err,
                                    env=self.environment(folder), stdin=subprocess.DEVNULL)

    def run(self, folder, port, user, schema, count):
        """`count` of it at once, its modes in turn: (mode, lines, what it complained about) of each."""
        modes = list(itertools.islice(itertools.cycle(self.modes), count))
        started = [self.start(folder, port, user, f"{schema}{i}", mode) for i, mode in enumerate(modes)]
        end, found = time.monotonic() + 120, []
        try:
            for index, (mode, process) in enumerate(zip(modes, started)):
                code = None
                try:
                    code = process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
                lines = (folder / f"{schema}{index}.out").read_text().splitlines()
                errors = (folder / f"{schema}{index}.err").read_text()
                if code != 0:
                    lines.append("did not end" if code is None else f"exit code {code}: {errors[-300:]}")
                found.append((mode, lines))
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        return found


def expected(driver, mode):
    """The lines that it is to print."""
    lines, names = [], (driver, f"{driver}/{mode}")
    for line in (HERE / "expected.txt").read_text().splitlines():
        if line.startswith("    "):
            name, _, result = line.strip().partition(": ")
            if name in names:
                lines[-1] = lines[-1].partition(": ")[0] + ": " + result
        elif line and not line.startswith("#"):
            lines.append(line)
    return lines


def differences(what, lines, wanted):
    """Lines that differ, as text; which belong together is told by what stands before the colon."""
    found, left = [], list(lines)
    for want in wanted:
        got = next((line for line in left if line.partition(": ")[0] == want.partition(": ")[0]), None)
        if got is not None:
            left.remove(got)
        if got != want:
            found.append(f"{what}: {got!r}, wanted {want!r}")
    return [f"{what}: {line!r}" for line in left] + found


class Others:
    """Clients that keep the servers changing hands, with statements that have names like anybody's."""

    def __init__(self, stage, user, count):
        self.stop, self.wrong, self.turns = threading.Event(), [], 0
        self.wires = [stage.wire(user, password=PASSWORD, timeout=30) for _ in range(count)]
        self.threads = [threading.Thread(target=self.work, args=(i, w), daemon=True)
                        for i, w in enumerate(self.wires)]

    def work(self, number, one):
        wanted = str(1000000 + number)
        try:
            while not self.stop.wait(0.002):
                self.turns += 1
                one.send(P("s1", f"select {wanted}"), B("", "s1"), D(), E(), C("S", "s1"), S)
                if one.rows() != [[wanted]]:
                    self.wrong.append("somebody else's answer")
        except Exception as error:
            self.wrong.append(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)
        for one in self.wires:
            one.close()


def drive(stage, driver, name, config, user, others):
    """Through a pooler of its own; what is wrong."""
    stage.pooler = stage.another()
    stage.pooler.start(text=stage.pooler.config(CONFIG + config))
    wrong = []
    with Others(stage, user, others) as rest:
        for index, (mode, lines) in enumerate(driver.run(
                stage.folder, stage.pooler.port, user, f"through{len(stage.poolers)}_", INSTANCES)):
            which = f"{name}, {'/'.join(filter(None, [str(index), mode]))}"
            wrong += differences(which, lines, expected(driver.name, mode))
    wrong += rest.wrong[:1]
    if others and rest.turns < 20:
        wrong.append(f"{name}: servers hardly changed hands, {rest.turns} times")
    left = stage.leftovers()
    if left:
        wrong.append(f"{name}: {left}")
    return wrong


def all_ways(stage, driver, ways, others):
    """Directly, then through the pooler with each of these settings."""
    driver.prepare(stage.folder)
    with stage.cluster.wire("test") as db:
        db.query("grant create on database test to u_scram, u_md5")
    direct = driver.run(stage.folder, stage.cluster.port, driver.login[0], "direct", len(driver.modes))
    wrong = [w for mode, lines in direct
             for w in differences(f"direct {mode}".strip(), lines, expected(driver.name, mode))]
    check(not wrong, "\n    ".join(wrong[:6]))
    began = time.monotonic()
    for number, (name, config) in enumerate(ways.items()):
        user, auth = driver.login if number % 2 == 0 else MD5
        wrong += drive(stage, driver, name, f"{config}\nauth_type = {auth}", user, others)
    check(not wrong, f"{len(wrong)} lines\n    " + "\n    ".join(wrong[:8]))
    stage.note(f"{time.monotonic() - began:.1f} s")


def add(driver):
    def transaction(stage):
        all_ways(stage, driver, {
            "2 workers": "workers = 2\nmax_prepared_statements = 200",
            "4 workers": "workers = 4\nservers_per_worker = 0\nmax_prepared_statements = 200",
            "3 statements": "workers = 4\nservers_per_worker = 0\nmax_prepared_statements = 3"}, 2)

    def session(stage):
        all_ways(stage, driver, {"": "pool_mode = session"}, 0)
    transaction.__name__, transaction.__doc__ = driver.name, f"{driver.name} in transaction mode."
    session.__name__, session.__doc__ = driver.name + "_session", f"{driver.name} in session mode."
    test(start=False, slow=True, new=True, seconds=400)(transaction)
    test(start=False, slow=True, long=True, seconds=400)(session)


PYTHON = "/usr/bin/python3"
JDBC = "/usr/share/java/postgresql.jar"
GO = "/usr/share/gocode/src/github.com/"
GO_ENVIRONMENT = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(CACHE / "go")}
NODE = CACHE / "node" / "node_modules"
for one in (
        Driver("libpq", ["BUILT/libpq"], needs=["/usr/include/postgresql/libpq-fe.h"],
               build=["gcc", "-O1", "-Wall", "-Wextra", "-I/usr/include/postgresql", "HERE/libpq.c",
                      "-lpq", "-pthread", "-o", "BUILT/libpq"]),
        Driver("psycopg3", [PYTHON, "HERE/psycopg3.py"], modes=("prepare", "second", "binary")),
        Driver("psycopg2", [PYTHON, "HERE/psycopg2_.py"]),
        Driver("asyncpg", [PYTHON, "HERE/asyncpg_.py"], modes=("many", "one", "none")),
        Driver("pg8000", [PYTHON, "HERE/pg8000_.py"], scram=False,
               needs=["/usr/lib/python3/dist-packages/pg8000"]),
        Driver("pgjdbc", ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp",
                          f"BUILT:{JDBC}", "Jdbc"], modes=("5", "1", "simple"),
               needs=["/usr/bin/javac", JDBC], build=["javac", "-d", "BUILT", "-cp", JDBC, "HERE/Jdbc.java"]),
        Driver("pgx", ["BUILT/pgx"], modes=("prepare", "describe", "simple"),
               needs=["/usr/bin/go", GO + "jackc/pgx/v4"],
               build=["go", "build", "-o", "BUILT/pgx", "HERE/pgx.go"],
               env=GO_ENVIRONMENT),
        Driver("lib-pq", ["BUILT/pq"], modes=("once", "twice"), needs=["/usr/bin/go", GO + "lib/pq"],
               build=["go", "build", "-o", "BUILT/pq", "HERE/pq.go"], env=GO_ENVIRONMENT),
        Driver("pdo", ["php", "HERE/pdo.php"], modes=("native", "emulated", "unnamed"),
               needs=["/usr/bin/php", "/etc/php/*/cli/conf.d/*pdo_pgsql.ini"]),
        Driver("ruby-pg", ["ruby", "-W0", "HERE/pg.rb"],
               needs=["/usr/bin/ruby", "/usr/lib/ruby/vendor_ruby/pg.rb"]),
        Driver("node-postgres", ["node", "HERE/pg.js"], modes=("named", "unnamed"),
               needs=["/usr/bin/node", NODE / "pg"], env={"NODE_PATH": str(NODE)}),
        Driver("postgres.js", ["node", "HERE/postgres.js"], modes=("prepare", "unnamed"),
               needs=["/usr/bin/node", NODE / "postgres"], env={"NODE_PATH": str(NODE)}),
):
    add(one)
