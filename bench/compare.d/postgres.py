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

PATIENCE = 60 # seconds for clients to log in
TRIES = 3
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
        self.lab, self.folder = lab, ""
        print("\n== PostgreSQL: a scratch cluster with 1,000,000 accounts", flush=True)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        self.server = recipes.Server("127.0.0.1", self.port, [self.pid()], is_wide=True)

    def start(self):
        for number in range(TRIES): # somebody may take the port in the moment before it is used
            self.folder = self.lab.subfolder(f"cluster-{number}")
            log = f"{self.folder}/start.log"
            with open(log, "w", encoding="utf-8") as file:
                code, said = labs.run(["bash", "-c", START, "start", self.lab.top, self.folder, BIN],
                                      stdout=subprocess.PIPE, stderr=file)
            if code == 0 and said.split():
                break
            self.stop()
        else:
            raise labs.Failure("no PostgreSQL:\n" + labs.tail(log))
        self.port = int(said.split()[-1])

    def pid(self):
        try:
            with open(f"{self.folder}/data/postmaster.pid", encoding="ascii") as file:
                return int(file.readline())
        except (OSError, ValueError):
            return 0

    def stop(self):
        pid = self.pid()
        if pid and os.path.exists(f"/proc/{pid}"):
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
        # It is stopped after so many lines: with many clients its own clock runs while they log in.
        command = [f"{BIN}/pgbench", "-h", entry.host, "-p", str(entry.port), "-U", "bench", "-n",
                   "-S", "-c", str(self.clients), "-j", str(min(self.clients, len(layout.load), 8)),
                   "-T", str(seconds + PATIENCE), "-P", "1", *self.extra, "bench"]
        log = os.path.join(bench.lab.folder, "pgbench.log")
        if os.path.exists(log):
            os.unlink(log)
        process = bench.lab.spawn(command, layout.load, log, stderr=subprocess.PIPE, text=True)
        try:
            return self.follow(process, running, " ".join(command), seconds + 1)
        finally:
            bench.lab.stop(process, signal.SIGINT)

    @staticmethod
    def follow(process, running, command, wanted):
        """Reads at the first and at the last of so many lines of progress."""
        readings, rates, said = [], [], []
        for line in process.stderr:
            found = PROGRESS.search(line)
            if found:
                readings.append(labs.reading(running.pids))
                rates.append((float(found[1]), float(found[2]) * 1e3))
            else:
                said.append(line.strip())
            if len(readings) == wanted:
                process.kill()
        process.stderr.close()
        wrong = [line for line in said if re.search("error|abort|fatal|fail", line, re.I)]
        if wrong or len(readings) < wanted:
            raise measure.Bad((wrong or said or ["pgbench came to nothing"])[-1])
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
    if not bench.listed(all_rows()):
        return
    try:
        cluster = Cluster(bench.lab)
    except labs.Failure as why:
        bench.note(f"PostgreSQL not measured: {str(why).splitlines()[-1]}")
        return
    try:
        bench.server = cluster.server
        bench.run_table("postgres", all_rows())
    finally:
        cluster.stop()
