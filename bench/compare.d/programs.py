# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs that bench/compare puts side by side, and how each of them is started.

A Program is a recipe: start() makes a Running of it for one measurement and says when it answers.
All poolers get the same limits: 20 server connections in one pool, transaction pooling, no password,
no log lines for connections.  A fleet of PgBouncers listens on one port with so_reuseport and divides
the pool by its size, as whoever runs one must.
"""
import fnmatch
import os
import re
import shutil
import subprocess

import adapters
import lab as labs
import wire

POOL_SIZE = 20
PREPARED_SINCE = (1, 21)
PEERS_SINCE = (1, 19)


class Server:
    """What stands behind the poolers: host and port, or the folder of a unix socket and port."""

    def __init__(self, host, port, pids=(), is_wide=False):
        self.host, self.port, self.pids, self.is_wide = host, port, list(pids), is_wide
        self.is_unix = host.startswith("/")

    @property
    def path(self):
        return f"{self.host}/.s.PGSQL.{self.port}"

    @property
    def target(self):
        return self.path if self.is_unix else (self.host, self.port)

    def load_arguments(self):
        if self.is_unix:
            return ["--unix", self.path]
        return ["--host", self.host, "--port", str(self.port)]


class Running:
    """A program that answers."""

    def __init__(self, lab, layout):
        self.lab, self.layout = lab, layout
        self.processes, self.commands = [], []
        self.entry = None     # a Server to which clients connect
        self.consoles = []    # targets, one per process that has one
        self.log = ""

    @property
    def pids(self):
        return [process.pid for process in self.processes]

    def spawn(self, command, cpus):
        self.commands.append(" ".join(command))
        self.processes.append(self.lab.spawn(command, cpus, self.log))

    def gone(self):
        return any(process.poll() is not None for process in self.processes)

    def answers(self):
        if self.gone():
            return True # what follows says so
        try:
            wire.ask(self.entry.target, "SELECT 1", "bench", timeout=2)
            return True
        except (OSError, wire.Refused) as why:
            self.why = str(why)
            return False

    def await_answer(self):
        self.why = ""
        ready = labs.wait_for(self.answers, 15)
        if self.gone() or not ready:
            said = labs.tail(self.log)
            self.stop()
            raise labs.Failure(f"{self.commands[0]}: does not answer ({self.why})\n{said}")

    def console(self, text):
        """The rows of all consoles; none where the program has no such thing."""
        out = []
        for target in self.consoles:
            try:
                out.append(wire.ask(target, text))
            except (OSError, wire.Refused):
                out.append([])
        return out

    def stop(self):
        for process in self.processes:
            if process.poll() is None:
                process.terminate() # all first, then wait for each
        for process in self.processes:
            self.lab.stop(process)


# --- recipes --------------------------------------------------------------------------------------


class Program:
    """`key` names it in results; `wanted` is how many CPUs it can use."""
    wanted = 1
    is_pooler = True
    is_ours = False
    version = ""
    missing = "" # why it cannot run here

    def __init__(self, key, label):
        self.key, self.label = key, label

    def lacks(self, row):
        """Why it cannot do this row, or nothing."""
        return ""

    def start(self, lab, server, clients):
        layout = lab.layout(self.wanted)
        running = Running(lab, layout)
        folder = lab.subfolder(re.sub(r"\W", "-", self.key))
        running.log = os.path.join(folder, "log")
        try:
            self.launch(running, folder, server, clients)
            running.await_answer()
        except BaseException:
            running.stop()
            raise
        return running

    def launch(self, running, folder, server, clients):
        raise NotImplementedError


def ini(lab, server, port, clients, pool_size, more, tables=""):
    """A pgbouncer.ini."""
    user = [f"user = {lab.user.pw_name}"] if lab.user else []
    lines = ["[databases]",
             f"bench = host={server.host} port={server.port} dbname=bench user=bench", tables,
             "[pgbouncer]", "listen_addr = 127.0.0.1", f"listen_port = {port}",
             "listen_backlog = 4096", "auth_type = trust", "admin_users = bench",
             "stats_users = bench", "pool_mode = transaction",
             f"default_pool_size = {pool_size}", f"max_client_conn = {clients + 100}",
             "log_connections = 0", "log_disconnections = 0", "log_pooler_errors = 0",
             "ignore_startup_parameters = extra_float_digits"]
    return "\n".join(lines + user + more) + "\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o644)
    return path


def version_of(command):
    """The first line of what `command` prints, or ''."""
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter((said.stdout + said.stderr).strip().splitlines()), "")


def version_numbers(text):
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class Ring(Program):
    """ringbouncer with so many workers."""
    is_ours = True

    def __init__(self, key, label, binary, workers):
        super().__init__(key, label)
        self.binary, self.wanted = binary, workers
        self.version = version_of([binary, "--version"])

    def launch(self, running, folder, server, clients):
        port = running.lab.port()
        users = write(os.path.join(folder, "users.txt"), '"bench" ""\n')
        cpus = running.layout.pooler
        more = ["unix_socket_dir =", f"auth_file = {users}", "max_prepared_statements = 200",
                f"workers = {self.wanted}", f"cpu_list = {labs.cpus_write(cpus)}"]
        config = write(os.path.join(folder, "pooler.ini"),
                       ini(running.lab, server, port, clients, POOL_SIZE, more))
        running.entry = Server("127.0.0.1", port)
        running.consoles = [running.entry.target]
        running.spawn([self.binary, config], cpus)


class PgBouncer(Program):
    """One PgBouncer, or a fleet of them on one port."""

    def __init__(self, key, label, binary, count=1):
        super().__init__(key, label)
        self.binary, self.count, self.wanted = binary, count, count
        if not binary:
            self.missing = "no pgbouncer in PATH or /usr/sbin"
            return
        self.version = version_of([binary, "--version"])
        self.numbers = version_numbers(self.version)

    def lacks(self, row):
        if row.mode == "prepared" and self.numbers < PREPARED_SINCE:
            return f"{self.version} has no prepared statements in transaction mode (1.21 has)"
        return ""

    def launch(self, running, folder, server, clients):
        port = running.lab.port()
        users = write(os.path.join(folder, "users.txt"), '"bench" ""\n')
        cpus = running.layout.pooler
        running.entry = Server("127.0.0.1", port)
        for number in range(1, self.count + 1):
            own = os.path.join(folder, str(number))
            os.mkdir(own, 0o755)
            if running.lab.user:
                os.chown(own, running.lab.user.pw_uid, running.lab.user.pw_gid)
            more, peers = [f"unix_socket_dir = {own}", f"auth_file = {users}"], ""
            if self.numbers >= PREPARED_SINCE:
                more.append("max_prepared_statements = 200")
            if self.count > 1:
                more.append("so_reuseport = 1")
                if self.numbers >= PEERS_SINCE:
                    more.append(f"peer_id = {number}")
                    peers = "[peers]\n" + "\n".join(
                        f"{peer} = host={folder}/{peer} port={port}"
                        for peer in range(1, self.count + 1)) + "\n"
            pool_size = max(1, POOL_SIZE // self.count)
            config = write(os.path.join(folder, f"{number}.ini"),
                           ini(running.lab, server, port, clients, pool_size, more, peers))
            running.consoles.append(f"{own}/.s.PGSQL.{port}")
            running.spawn([self.binary, config], [cpus[(number - 1) % len(cpus)]])

    def start(self, lab, server, clients):
        running = super().start(lab, server, clients)
        if not labs.wait_for(lambda: all(map(os.path.exists, running.consoles)), 10):
            running.stop()
            raise labs.Failure(f"{self.key}: not all {self.count} processes came up\n" +
                               labs.tail(running.log))
        return running


class Floor(Program):
    """bench/floor: the least that a relay can do, one server connection per client, no pooling."""
    is_pooler = False

    def __init__(self, key, label, binary, engine):
        super().__init__(key, label)
        self.binary, self.engine = binary, engine
        if not os.access(binary, os.X_OK):
            self.missing = f"no {binary}"

    def lacks(self, row):
        return "" if row.floor else "not for this row: it has as many servers as clients"

    def launch(self, running, folder, server, clients):
        port = running.lab.port()
        running.entry = Server("127.0.0.1", port)
        running.spawn([self.binary, "--engine", self.engine, "--listen", f"127.0.0.1:{port}",
                       "--server", server.path if server.is_unix else
                       f"{server.host}:{server.port}", "--cpu", str(running.layout.pooler[0])],
                      running.layout.pooler)


class Direct(Program):
    """Nothing in between."""
    is_pooler = False

    def lacks(self, row):
        return "" if row.floor else "not for this row: as many servers as clients"

    def start(self, lab, server, clients):
        running = Running(lab, lab.layout(1))
        running.entry, running.commands = server, ["(none)"]
        return running


class Adapted(Program):
    """Any other pooler, by its file in bench/adapters."""

    def __init__(self, path):
        self.adapter = adapters.read(path)
        super().__init__(os.path.basename(path), self.adapter.fields["label"])
        self.binary = shutil.which(self.adapter.fields["program"])
        self.wanted = int(self.adapter.fields.get("workers", "1"))
        if not self.binary:
            self.missing = f"no {self.adapter.fields['program']} in PATH"
        elif "version" in self.adapter.fields:
            self.version = version_of(self.adapter.command("version", {}))

    def launch(self, running, folder, server, clients):
        port = running.lab.port()
        lab = running.lab
        values = {"PORT": port, "SERVER_HOST": server.host, "SERVER_PORT": server.port,
                  "POOL_SIZE": POOL_SIZE, "CLIENTS": clients + 100, "WORKERS": self.wanted,
                  "FOLDER": folder, "USER": lab.user.pw_name if lab.user else ""}
        for name, text in self.adapter.files.items():
            write(os.path.join(folder, name), adapters.fill(text, values))
        running.entry = Server("127.0.0.1", port)
        command = self.adapter.command("command", values)
        if lab.user and self.adapter.fields.get("root", "") != "yes":
            command = ["setpriv", "--reuid", str(lab.user.pw_uid), "--regid",
                       str(lab.user.pw_gid), "--clear-groups", "--"] + command
        running.spawn(command, running.layout.pooler)


# --- the list -------------------------------------------------------------------------------------


def find_pgbouncer():
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    return shutil.which("pgbouncer", path=path)


def all_programs(lab, options):
    """Every program that a row may want, by key."""
    pgbouncer = find_pgbouncer()
    ours = [Ring(f"ring-{count}", f"ringbouncer, {count} worker{'s' if count > 1 else ''}",
                 options.binary, count)
            for count in sorted({1, 2, 16, *options.workers})]
    beside = [Ring(name, f"{name}, 1 worker", path, 1) for name, path in options.beside]
    fleets = [PgBouncer(f"fleet-{count}", f"PgBouncer x {count}", pgbouncer, count)
              for count in sorted({2, 16, options.fleet})]
    folder = os.path.join(lab.top, "bench", "adapters")
    others = [Adapted(path) for path in
              [os.path.join(folder, name) for name in sorted(os.listdir(folder))] + options.adapter]
    floor = os.path.join(lab.build, "bench", "floor")
    rest = [Floor("floor-uring", "floor, io_uring", floor, "uring"),
            Floor("floor-epoll", "floor, epoll", floor, "epoll"),
            Direct("direct", "no pooler")]
    listed = ours + beside + [PgBouncer("pgbouncer", "PgBouncer", pgbouncer)] + fleets + others + rest
    return {program.key: program for program in listed}


def pick(programs, patterns, row):
    """The programs of a row, in the order of its patterns."""
    out = []
    for pattern in patterns:
        out += [program for key, program in programs.items()
                if fnmatch.fnmatchcase(key, pattern) and program not in out]
    return [program for program in out if not program.missing and not program.lacks(row)]
