# SPDX-License-Identifier: GPL-2.0-or-later
"""One measurement: load for a while, and what the pooler spent meanwhile.

bench/load says `measuring` when its clients are logged in and warm.  At that moment and `seconds`
later the CPU time of every thread of the pooler is read from the kernel, in nanoseconds.  CPU per
transaction is that time per second over bench/load's transactions per second, so that the few
milliseconds by which the two windows differ do not count.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import threading
import time

import lab as labs

COUNTED = ("lent", "borrowed", "mails", "turns", "syscalls") # of SHOW WORKERS, where there


class Bad(Exception):
    """The measurement has no figures; the text says why."""


class Load:
    """A run of bench/load against something."""

    def __init__(self, lab, entry, layout, arguments, seconds, warmup):
        self.lab, self.seconds = lab, seconds
        self.json = os.path.join(lab.folder, "load.json")
        self.log = os.path.join(lab.folder, "load.log")
        self.started = threading.Event()
        self.lines = collections.deque(maxlen=20)
        for path in (self.json, self.log):
            if os.path.exists(path):
                os.unlink(path)
        self.command = [os.path.join(lab.build, "bench", "load"), *entry.load_arguments(),
                        "--threads", str(min(len(layout.load), 8)), "--progress", "0",
                        "--warmup", f"{warmup:g}", "--seconds", f"{seconds:g}",
                        "--json", self.json, *arguments]
        self.process = lab.spawn(self.command, layout.load, self.log, stdout=subprocess.PIPE,
                                 text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if line.strip() == "measuring":
                self.started.set()
            self.lines.append(line)

    def await_start(self, patience):
        """Waits for the window to begin."""
        end = time.monotonic() + patience
        while not self.started.wait(0.005):
            if self.process.poll() is not None and not self.started.is_set():
                raise Bad(self.words() or "load ended at once")
            if time.monotonic() > end:
                raise Bad("the clients did not get in")

    def words(self):
        said = labs.tail(self.log, 3).replace("load: ", "")
        return re.sub(r"\s+", " ", said).strip()

    def finish(self, patience):
        """The summary as bench/load wrote it."""
        try:
            self.process.wait(self.seconds + patience)
        except subprocess.TimeoutExpired as why:
            raise Bad("load does not end") from why
        self.reader.join(2)
        self.lab.stop(self.process)
        try:
            with open(self.json, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as why:
            raise Bad(self.words() or f"load ended with {self.process.returncode}") from why

    def end(self):
        self.lab.stop(self.process)
        self.reader.join(2)


def errors_of(summary):
    found = {f"SQLSTATE {kind}" if len(kind) == 5 else kind: count
             for kind, count in summary["errors"].items()}
    for kind in ("wrong", "lost", "double"):
        if summary[kind]:
            found[kind] = summary[kind]
    if summary["transactions"] == 0 and not found:
        found["no transaction"] = 1
    return found


def sums(running):
    """The counting columns of SHOW WORKERS, added up; {} where there is no such thing."""
    out = collections.Counter()
    for rows in running.console("SHOW WORKERS"):
        for row in rows:
            out.update({name: int(value) for name, value in row.items() if name in COUNTED})
    return dict(out)


def figures_of(summary, before, after, unit):
    """What a table shows, from load's summary and two Readings."""
    length = after.at - before.at
    per_second = {"GB": summary["bytes_per_s"] / 1e3, # ns per byte are seconds per GB
                  "query": summary["queries_per_s"]}.get(unit, summary["rate"])
    latency = summary["latency_us"]
    out = {"rate": summary["bytes_per_s"] / 1e6 if unit == "GB" else per_second,
           "transactions": summary["transactions"], "jain": summary["fairness"],
           "p50": latency["p50"], "p90": latency["p90"], "p99": latency["p99"],
           "p999": latency["p99_9"], "mean": latency["mean"],
           "tail": latency["p99"] / latency["p50"] if latency["p50"] else None}
    if before.threads and per_second > 0:
        spent = (after.cpu_ns - before.cpu_ns) / length
        out["cpu"] = spent / 1e3 / per_second
        out["cores"] = spent / 1e9
        if unit != "GB":
            out["switches"] = (after.switches - before.switches) / length / per_second
    return out


def threads_of(before, after):
    """CPU nanoseconds of each thread in the window, for the record."""
    return [{"pid": key[0], "thread": key[2], "ns": spent - before.threads.get(key, 0)}
            for key, spent in sorted(after.threads.items())]


def window(running, load, seconds, unit, with_workers=False):
    """Waits for the window of a Load, reads at both ends of it, and returns a sample."""
    load.await_start(60)
    counted = sums(running) if with_workers else {}
    before = labs.reading(running.pids)
    time.sleep(seconds)
    after = labs.reading(running.pids)
    later = sums(running) if with_workers else {}
    summary = load.finish(30)
    if running.gone():
        raise Bad("the pooler is gone: " + labs.tail(running.log, 2))
    sample = {"errors": errors_of(summary), "figures": {}, "load": " ".join(load.command),
              "program_commands": running.commands, "placement": running.layout.words,
              "threads": threads_of(before, after), "summary": summary}
    if sample["errors"]:
        return sample
    sample["figures"] = figures_of(summary, before, after, unit)
    # The two questions lie just outside of the window.
    for name in counted:
        sample["figures"][name] = ((later[name] - counted[name]) / (after.at - before.at) /
                                   summary["rate"])
    return sample


def measured(running, row, seconds, warmup, with_workers=False):
    """Runs the load of a row against a Running."""
    load = Load(running.lab, running.entry, running.layout, row.arguments, seconds, warmup)
    try:
        return window(running, load, seconds, row.unit, with_workers)
    finally:
        load.end()


def failed(why):
    """The sample of a measurement that came to nothing."""
    return {"errors": {str(why).strip().splitlines()[0][:120] or "failed": 1}, "figures": {},
            "words": str(why)}


# --- system calls ---------------------------------------------------------------------------------


def perf_why():
    """Why system calls cannot be counted here; '' if they can."""
    if not shutil.which("perf"):
        return "no perf (apt-get install linux-perf)"
    command = ["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "--", "true"]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if re.search(r"^\d+,,raw_syscalls:sys_enter", said.stderr, re.M):
        return ""
    return "perf may not count here: " + next(iter(said.stderr.strip().splitlines()), "no words")


def syscalls(running, row, warmup):
    """System calls per unit of a row, in a short run of its own; None if they cannot be told."""
    seconds = 0.6
    load = Load(running.lab, running.entry, running.layout, row.arguments, seconds + 0.3, warmup)
    try:
        load.await_start(60)
        command = ["perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter",
                   "-p", ",".join(map(str, running.pids)), "--", "sleep", f"{seconds:g}"]
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False).stderr
        summary = load.finish(30)
    finally:
        load.end()
    found = re.search(r"^(\d+),,raw_syscalls:sys_enter", said, re.M)
    per_second = summary["queries_per_s"] if row.unit == "query" else summary["rate"]
    if not found or errors_of(summary) or per_second == 0:
        return None
    return int(found[1]) / seconds / per_second
