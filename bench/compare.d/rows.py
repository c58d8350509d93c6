# SPDX-License-Identifier: GPL-2.0-or-later
"""The rows of the tables: what is done, by which programs, and how it is measured.

A Row knows its work; run(bench, program, round) makes one sample of it.  Each sample has a fresh
pooler.  What needs more than one load (many clients, idle clients, clients that wait) is a kind of
its own below.
"""
import os

import lab as labs
import measure
import figures
import wire

DEFAULT = ["ring-1", "ring-2", "+beside", "pgbouncer", "+fleet", "+others", "floor-*", "direct"]
QUICK = ["ring-1", "+beside", "pgbouncer", "+others", "floor-uring"]
POOLERS = [name for name in DEFAULT if name not in ("floor-*", "direct")]


class Row:
    """Work for bench/load."""
    floor = True       # the relays that pool nothing can do it, too
    with_workers = False
    stretch = 1        # of the length of a measurement

    def __init__(self, name, title, mode, clients, unit="transaction", extra=(), programs=None,
                 quick=False):
        self.name, self.title, self.mode, self.clients = name, title, mode, clients
        self.unit, self.quick = unit, quick
        self.programs = programs or DEFAULT
        self.arguments = ["--mode", mode, "--clients", str(clients), *extra]

    @property
    def cpu_unit(self):
        if self.unit == "client":
            return "bytes"
        return "s/GB" if self.unit == "GB" else f"us/{self.unit}"

    @property
    def rate_unit(self):
        return "MB/s" if self.unit == "GB" else {"query": "queries/s", "visit": "visits/s"}.get(
            self.unit, "tx/s")

    def run(self, bench, program):
        """One sample."""
        running = program.start(bench.lab, bench.server, self.clients)
        try:
            bench.place_server(running)
            return self.work(bench, program, running)
        finally:
            running.stop()

    def work(self, bench, program, running):
        return measure.measured(running, self, bench.seconds * self.stretch,
                                bench.warmup * self.stretch, self.with_workers)

    def syscalls(self, bench, program):
        running = program.start(bench.lab, bench.server, self.clients)
        try:
            bench.place_server(running)
            return measure.syscalls(running, self, bench.warmup)
        finally:
            running.stop()


class Many(Row):
    """Many clients on few servers, after 64 of them on the same pooler.  Longer, since fairness is
    seen only when each client had many turns."""
    floor = False
    stretch = 3

    def __init__(self, clients):
        super().__init__(f"many-{clients}", f"simple, {clients:,} clients on 20 servers", "simple",
                         clients, programs=POOLERS, extra=["--timeout", "40"])
        self.few = Row("simple-64", "", "simple", 64)

    def work(self, bench, program, running):
        few = measure.measured(running, self.few, bench.seconds, bench.warmup)
        if few["errors"]:
            return few
        sample = super().work(bench, program, running)
        if not sample["errors"]:
            sample["figures"]["cpu_64"] = few["figures"]["cpu"]
            sample["figures"]["growth"] = sample["figures"]["cpu"] / few["figures"]["cpu"]
        return sample


class Idle(Row):
    """Memory of clients that are logged in and silent.  The first ones are there before it counts,
    so that buffers and pages which are shared by many have been touched."""
    floor = False
    FIRST = 500

    def __init__(self, clients):
        super().__init__("idle", f"{clients:,} idle clients: resident memory of each", "idle",
                         clients, unit="client", programs=POOLERS, quick=True)

    def run(self, bench, program):
        running = program.start(bench.lab, bench.server, self.clients + self.FIRST)
        loads, sizes = [], [labs.resident(running.pids)]
        bench.place_server(running)
        try:
            # Buffers that all clients share are touched before it counts.
            measure.measured(running, Row("warm", "", "simple", 256), 1.0, 0)
            for count in (self.FIRST, self.clients):
                arguments = ["--mode", "simple", "--clients", str(count), "--rate", "1",
                             "--timeout", "40"]
                loads.append(measure.Load(bench.lab, running.entry, running.layout, arguments, 600, 0))
                loads[-1].await_start(60)
                if loads[-1].words():
                    raise measure.Bad(loads[-1].words())
                sizes.append(labs.resident(running.pids))
            if running.gone():
                raise measure.Bad("the pooler is gone: " + labs.tail(running.log, 2))
        finally:
            for load in loads:
                load.end()
            running.stop()
        return {"errors": {}, "placement": running.layout.words,
                "program_commands": running.commands, "sizes": sizes,
                "figures": {"memory": (sizes[2] - sizes[1]) / self.clients,
                            "memory_start": sizes[0] / 1e6}}

    def syscalls(self, bench, program):
        return None


def spread_of(running):
    """Clients of each worker, or of each process of a fleet."""
    per_process = running.console("SHOW WORKERS")
    if len(per_process) == 1 and per_process[0]:
        return [int(row["clients"]) for row in per_process[0]] # with the console that asks
    return [sum(row.get("database") == "bench" for row in rows)
            for rows in running.console("SHOW CLIENTS")]


class Spread(Row):
    """Clients that mostly think: who waits for a server while another one idles?"""
    SERVICE, THINK = 0.010, 0.040

    def __init__(self, clients, programs):
        super().__init__(f"spread-{clients}", f"{clients} clients that think 40 ms and ask for 10 ms:"
                         " waiting for a server", "crowd", clients, programs=programs)

    def work(self, bench, program, running):
        layout = running.layout
        os.sched_setaffinity(0, layout.load)
        crowd = wire.Crowd(running.entry.target, self.clients, self.SERVICE, self.THINK)
        try:
            counts = spread_of(running)
            before = labs.reading(running.pids)
            waited = crowd.run(bench.seconds, bench.warmup)
            after = labs.reading(running.pids)
        finally:
            crowd.close()
            os.sched_setaffinity(0, bench.lab.cpus)
        # In us, as all latencies; here without the time that the server was busy.
        found = {key: figures.percentile(waited, share) * 1e6 for key, share in
                 (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999))}
        length = after.at - before.at
        rate = len(waited) / bench.seconds
        found["rate"] = rate
        if before.threads and rate:
            found["cpu"] = (after.cpu_ns - before.cpu_ns) / length / 1e3 / rate
        if sum(counts):
            found["crowd"] = max(counts) * len(counts) / sum(counts)
        return {"errors": {} if waited else {"no answer": 1}, "figures": found, "spread": counts,
                "placement": layout.words, "program_commands": running.commands}

    def syscalls(self, bench, program):
        return None


def all_rows(files, quick):
    """The rows of a table, in its order, and words about what was scaled down."""
    words = []
    many = min(10000, files - 400)
    if many < 10000:
        words.append(f"many clients: {many:,} instead of 10,000, since a process may have "
                     f"{files:,} files")
    idle = min(1500 if quick else 5000, files // 2)
    rows = [
        Row("simple-1", "simple query, 1 client", "simple", 1, quick=True),
        Row("simple-8", "simple query, 8 clients", "simple", 8),
        Row("simple-64", "simple query, 64 clients", "simple", 64, quick=True),
        Row("simple-256", "simple query, 256 clients", "simple", 256),
        Row("extended-64", "extended query, 64 clients", "extended", 64),
        Row("prepared-64", "prepared statement, 64 clients", "prepared", 64),
        Row("transaction-64", "BEGIN, 3 queries, COMMIT; 64 clients", "transaction", 64, "query",
            quick=True),
        Row("churn-16", "connect, one query, leave; 16 clients", "churn", 16, "visit", quick=True),
        Row("bulk-100b", "rows of 100 bytes, 8 streams", "bulk", 8, "GB",
            ["--size", "100", "--rows", "10000"], quick=True),
        Row("bulk-1m", "rows of 1 MiB, 8 streams", "bulk", 8, "GB",
            ["--size", "1048576", "--rows", "8"]),
        Many(many),
        Idle(idle),
        Spread(64, ["ring-16", "fleet-16", "pgbouncer", "direct"]),
        Row("few-8", "simple query, 8 clients on 16 workers", "simple", 8,
            programs=["ring-16", "pgbouncer", "fleet-16"]),
    ]
    return rows, words
