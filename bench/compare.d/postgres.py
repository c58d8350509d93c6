# SPDX-License-Identifier: GPL-2.0-or-later
"""The same comparison with PostgreSQL itself and pgbench, in a scratch cluster.

bench/parts.sh starts the cluster, as for bench/try.  pgbench says every second how many transactions
it did; the pooler's CPU time is read at the first and at the last of these lines.
"""
import os
import re
import signal
import subprocess

import bench as benches
import lab as labs
import measure
import programs as recipes
import rows

BIN = "/usr/lib/postgresql/15/bin"
PROGRESS = re.compile(r"progress: [\d.]+ s, ([\d.]+) tps, lat ([\d.]+) ms stddev ([\d.]+)")
START = """
top=$1 folder=$2 pg=$3
cd "$top" && . bench/parts.sh && cd "$folder" && cluster_start >&2 || exit 1
sql() { "$pg/psql" -X -q -h "$folder" -p "$server" -U postgres bench -c "$1" </dev/null >&2; }
sql 'ALTER SYSTEM SET max_connections = 400' && sql 'CREATE ROLE bench SUPERUSER LOGIN' || exit 1
as_postgres "$pg/pg_ctl" restart -w -D "$folder/data" -l "$folder/postgresql.log" >pg_ctl.log 2>&1 \
	</dev/null || exit 1
"$pg/pgbench" -h "$folder" -p "$server" -U postgres -i -q -s 10 bench >pgbench.log 2>&1 </dev/null ||
	exit 1
echo "$server"
"""


class Cluster:
    """PostgreSQL in the lab's folder."""

    def __init__(self, lab):
        self.lab, self.folder = lab, lab.subfolder("cluster")
        print("== PostgreSQL: a scratch cluster with 1,000,000 accounts", flush=True)
        said = subprocess.run(["bash", "-c", START, "start", lab.top, self.folder, BIN],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              check=False)
        if said.returncode or not said.stdout.split():
            self.stop()
            raise labs.Failure("no PostgreSQL:\n" + labs.tail(f"{self.folder}/postgresql.log"))
        self.port = int(said.stdout.split()[-1])
        self.server = recipes.Server("127.0.0.1", self.port, [self.pid()], is_wide=True)

    def pid(self):
        try:
            with open(f"{self.folder}/data/postmaster.pid", encoding="ascii") as file:
                return int(file.readline())
        except (OSError, ValueError):
            return 0

    def stop(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGQUIT)
            labs.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 10)


class PgRow(rows.Row):
    """Work for pgbench."""

    def __init__(self, name, title, clients, extra=(), unit="transaction", quick=False):
        super().__init__(name, title, "pgbench", clients, unit, quick=quick)
        self.extra = list(extra)

    def syscalls(self, bench, program):
        return None

    def work(self, bench, program, running):
        layout, entry = running.layout, running.entry
        seconds = max(2, round(bench.seconds))
        command = [f"{BIN}/pgbench", "-h", entry.host, "-p", str(entry.port), "-U", "bench", "-n",
                   "-S", "-c", str(self.clients), "-j", str(min(self.clients, len(layout.load), 8)),
                   "-T", str(seconds + 1), "-P", "1", *self.extra, "bench"]
        log = os.path.join(bench.lab.folder, "pgbench.log")
        if os.path.exists(log):
            os.unlink(log)
        process = bench.lab.spawn(command, layout.load, log, stderr=subprocess.PIPE, text=True)
        try:
            return self.follow(process, running, " ".join(command), log)
        finally:
            bench.lab.stop(process)

    def follow(self, process, running, command, log):
        readings, rates, said = [], [], []
        for line in process.stderr:
            found = PROGRESS.search(line)
            if found:
                readings.append(labs.reading(running.pids))
                rates.append((float(found[1]), float(found[2]) * 1e3))
            else:
                said.append(line.strip())
        process.stderr.close()
        failed = re.search(r"failed transactions: (\d+)", labs.tail(log, 30))
        if process.wait() or len(readings) < 2 or (failed and int(failed[1])):
            raise measure.Bad(next((line for line in said if "error" in line.lower()),
                                   f"pgbench ended with {process.returncode}"))
        if running.gone():
            raise measure.Bad("the pooler is gone: " + labs.tail(running.log, 2))
        first, last = readings[0], readings[-1]
        length = last.at - first.at
        rate = sum(one for one, _ in rates[1:]) / len(rates[1:])
        found = {"rate": rate,
                 "p50": None, "mean": sum(mean for _, mean in rates[1:]) / len(rates[1:])}
        if first.threads and rate:
            found["cpu"] = (last.cpu_ns - first.cpu_ns) / length / 1e3 / rate
            found["switches"] = (last.switches - first.switches) / length / rate
        return {"errors": {}, "figures": found, "load": command, "placement": running.layout.words,
                "program_commands": running.commands,
                "threads": measure.threads_of(first, last)}


def all_rows():
    listed = [PgRow(f"pg-simple-{count}", f"select-only, {count} clients", count, quick=count == 64)
              for count in (8, 64, 256)]
    listed += [PgRow(f"pg-extended-{count}", f"select-only, extended, {count} clients", count,
                     ["-M", "extended"]) for count in (8, 64, 256)]
    listed.append(PgRow("pg-connect-16", "a connection per transaction (-C), 16 clients", 16, ["-C"],
                        "visit"))
    return listed


def run(bench):
    cluster = Cluster(bench.lab)
    try:
        bench.server = cluster.server
        bench.run_table("postgres", all_rows())
    finally:
        cluster.stop()
