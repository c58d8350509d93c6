# SPDX-License-Identifier: GPL-2.0-or-later
"""More workers: CPU per transaction at 256 clients, hand-overs between workers, locked instructions.

On a machine with fewer cores than workers they share cores, which costs switches of its own; what is
looked for is whether one more worker costs work, not how much faster many cores are.
"""
import os
import re
import subprocess

import bench as benches
import rows

ROW = "workers"


class Scaling(rows.Row):
    """The one row of its table; its programs are ringbouncer with 1, 2, ... workers."""
    with_workers = True


def row(options):
    return Scaling(ROW, "simple query, 256 clients", "simple", 256,
                   programs=[f"ring-{count}" for count in options.workers], quick=True)


def locks(bench):
    """The table of bench/locks as {mode and clients: locked instructions of ringbouncer per
    transaction}; None with a note if it cannot be had."""
    command = [os.path.join(bench.lab.top, "bench", "locks"), "--build", bench.lab.build,
               "--seconds", "1", "--transactions", "300"]
    process = bench.lab.spawn(command, bench.lab.cpus, os.path.join(bench.lab.folder, "locks.log"),
                              stdout=subprocess.PIPE, text=True)
    try:
        said = process.communicate(timeout=180)[0]
    except subprocess.TimeoutExpired:
        bench.note("bench/locks does not end: locked instructions not measured")
        return None
    finally:
        bench.lab.stop(process, patience=10)
    found = {f"{mode}, {clients} clients": float(value) for mode, clients, value in
             re.findall(r"^(simple|extended) +(\d+) +([\d.]+)", said, re.M)}
    if not found:
        bench.note("locked instructions not measured: bench/locks says " +
                   (said.strip().splitlines() or ["nothing"])[-1])
        return None
    for name, value in found.items():
        print(f"locked instructions of ringbouncer and liburing per transaction, {name}: {value:g}")
    return found


def run(bench):
    benches.print_head(ROW)
    bench.run_row(ROW, row(bench.options))
    for key, cell in bench.tables.get(ROW, {}).get(ROW, {}).items():
        found = [(name, benches.figures.cell_figure(cell, name))
                 for name in ("lent", "mails", "turns")]
        text = ", ".join(f"{name} {one.median:.5f}" for name, one in found if one)
        print(f"  {key}: per transaction {text or 'nothing counted'}")
    return locks(bench) if bench.options.locks else None
