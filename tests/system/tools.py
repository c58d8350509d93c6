# SPDX-License-Identifier: GPL-2.0-or-later
"""Looks at processes from outside: memory, CPU, threads, descriptors, and PostgreSQL's backends."""
import os
import threading
import time

from wire import Wire

TICKS = os.sysconf("SC_CLK_TCK")


def rss(pid):
    """Resident bytes."""
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def ticks(path):
    with open(path) as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def cpu(pid):
    """Seconds of CPU so far, user and kernel."""
    return ticks(f"/proc/{pid}/stat") / TICKS


def thread_cpu(pid):
    """{thread name and id: seconds of CPU so far}."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm") as file:
            name = file.read().strip()
        found[f"{name}/{tid}"] = ticks(f"/proc/{pid}/task/{tid}/stat") / TICKS
    return found


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def until(what, seconds=5, step=0.02):
    """Waits until what() is true; its last answer."""
    end = time.monotonic() + seconds
    while True:
        answer = what()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(step)


class Sampler:
    """Counts PostgreSQL's client backends every 50 ms while it is open: the most for each (database,
    user) in .most, for a database, a user or all in .top()."""

    def __init__(self, cluster, step=0.05):
        self.step, self.samples, self.stop = step, [], threading.Event()
        self.wire = Wire("127.0.0.1", cluster.port).login("postgres", "postgres")
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        sql = ("select datname, usename, count(*) from pg_stat_activity where backend_type = "
               "'client backend' and datname <> 'postgres' group by 1, 2")
        while not self.stop.is_set():
            self.samples.append({(a, b): int(n) for a, b, n in self.wire.query(sql)})
            self.stop.wait(self.step)

    def top(self, database=None, user=None):
        return max((sum(n for (a, b), n in sample.items()
                        if database in (None, a) and user in (None, b))
                    for sample in self.samples), default=0)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.wire.close()
