#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the system tests: a pooler before a real PostgreSQL 15, real drivers, and clients by hand.

    tests/system/run.py BINARY [options]

    --only PATTERN    tests whose name (file/function) matches this regular expression
    --quick           what is run without options: loops and loads short (under five minutes)
    --long            loops and loads as long as they should be, and tests that need minutes
    --pgbouncer       BINARY is PgBouncer 1.18: skip what it does not have
    --jobs N          tests at once, each with a PostgreSQL of its own (default 3)
    --workers N       worker threads of the pooler (default 4)
    --list            names only
    --keep            keep the folder of scratch files
    --tail N          lines of log to show for a failure (default 12)

Prints `ok NAME`, `skip NAME: why` or `FAIL NAME: why` for each, and `N passed, N failed` at the end.
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import harness  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--pgbouncer", action="store_true")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--tail", type=int, default=12)
    parser.add_argument("--port", type=int, default=21000, help="first of the ports to use")
    options = parser.parse_args()
    options.binary = os.path.realpath(options.binary)
    return options


def worker(number, port, folder, template, options, tasks, results):
    """A process with a PostgreSQL of its own that takes tests until there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ports = harness.Ports(port + 1 + number * 100, 99)
    cluster = harness.Cluster(folder / f"cluster{number}", port + number * 100, template)
    cluster.start()
    try:
        while True:
            index = tasks.get()
            if index is None:
                return
            case = harness.TESTS[index]
            place = folder / re.sub(r"\W", "-", case.name)
            results.put((index, harness.run_one(case, cluster, ports, place, options)))
    finally:
        cluster.stop(signal.SIGQUIT)
        results.put((None, None))


def crowd(numbers, indices, folder, template, options, report):
    """Runs tests in one process for each of `numbers`."""
    tasks, results = multiprocessing.Queue(), multiprocessing.Queue()
    for index in indices:
        tasks.put(index)
    people = []
    for number in numbers:
        tasks.put(None)
        people.append(multiprocessing.Process(target=worker, args=(
            number, options.port, folder, template, options, tasks, results)))
        people[-1].start()
    ended, waiting = 0, set(indices)
    while ended < len(people):
        index, result = results.get()
        if index is None:
            ended += 1
        else:
            waiting.discard(index)
            report(harness.TESTS[index], *result)
        sys.stdout.flush()
    for process in people:
        process.join()
    for index in waiting:
        report(harness.TESTS[index], "FAIL", "was not run", [], 0)


def main():
    options = arguments()
    for path in sorted(HERE.glob("test_*.py")):
        __import__(path.stem)
    chosen = [i for i, t in enumerate(harness.TESTS) if re.search(options.only, t.name)]
    if options.list:
        for index in chosen:
            print(f"{harness.TESTS[index].name}: {harness.TESTS[index].about}")
        return 0
    started, count, failures = time.monotonic(), {"ok": 0, "FAIL": 0, "skip": 0}, []

    def report(case, result, why, notes, seconds):
        count[result] += 1
        line = f"{result} {case.name}" + (f": {why.strip()}" if why else "")
        if result == "FAIL":
            failures.append(case.name)
        elif seconds > 5:
            line += f" ({seconds:.1f} s)"
        print(line)
        for note in notes:
            print(f"    {note}")

    folder = harness.scratch()
    try:
        template = harness.Cluster(folder / "template", options.port)
        template.start()
        template.fill()
        template.stop()
        together = [i for i in chosen if not harness.TESTS[i].options["alone"]]
        # The slow ones first, so that none of them is alone at the end.
        together.sort(key=lambda i: not harness.TESTS[i].options["slow"])
        alone = [i for i in chosen if harness.TESTS[i].options["alone"]]
        if together:
            crowd(range(min(options.jobs, len(together))), together, folder, template, options, report)
        if alone:
            crowd([options.jobs], alone, folder, template, options, report)
    finally:
        if not options.keep and not failures:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            for path in folder.glob("cluster*/data"):
                shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(folder / "template", ignore_errors=True)
            print(f"files: {folder}")
    print(f"{count['skip']} skipped, {time.monotonic() - started:.0f} s")
    print(f"{count['ok']} passed, {count['FAIL']} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
