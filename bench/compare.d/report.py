# SPDX-License-Identifier: GPL-2.0-or-later
"""report.json: everything that a run of bench/compare saw; report.html is made from it (page.py)."""
import glob
import hashlib
import json
import os
import platform
import re
import subprocess
import sys

import figures
import lab as labs
import page

FORMAT = 1


def short_version(text):
    found = re.search(r"ringbouncer ([\w.-]+)", text)
    return found[1] if found else text


def _said(*command, cwd=None):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=10, check=False, cwd=cwd).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _field(path, name):
    try:
        with open(path, encoding="utf-8") as file:
            return next((line.partition(":")[2].strip() for line in file
                         if line.startswith(name)), "")
    except OSError:
        return ""


def machine(lab):
    system = _said("sh", "-c", '. /etc/os-release && echo "$PRETTY_NAME"')
    memory = _field("/proc/meminfo", "MemTotal").split()
    model = _field("/proc/cpuinfo", "model name")
    virtual = _said("systemd-detect-virt", "--vm") or "none"
    gib = int(memory[0]) / 2**20 if memory else 0
    cpus = len(lab.cpus)
    return {"kernel": platform.release(), "system": system, "cpu": model, "cpus": lab.cpus,
            "siblings": {cpu: labs.siblings(cpu) for cpu in lab.cpus}, "memory_gib": round(gib, 1),
            "virtual": virtual, "files": lab.files, "load_average": os.getloadavg(),
            "words": f"{cpus} CPU{'s' if cpus != 1 else ''} ({model}), {gib:.0f} GiB, {system}, "
                     f"Linux {platform.release()}"
                     f"{', virtual: ' + virtual if virtual != 'none' else ''}"}


def checksums(top):
    """SHA-256 of what the floor is made of: whoever changes the floor changes the bars."""
    out, together = {}, hashlib.sha256()
    paths = [path for kind in "ch" for path in sorted(glob.glob(f"{top}/bench/floor*.{kind}"))]
    for path in paths:
        with open(path, "rb") as file:
            text = file.read()
        out[os.path.relpath(path, top)] = hashlib.sha256(text).hexdigest()
        together.update(text)
    if paths:
        out["all: cat bench/floor*.c bench/floor*.h | sha256sum"] = together.hexdigest()
    return out


def facts(lab, options, bench, started):
    """What is known before anything is measured."""
    busy, stolen = labs.busy_elsewhere()
    notes = []
    if busy > 0.05 or stolen > 0.01:
        notes.append(f"before it began, others kept {busy:.0%} of all CPU time busy"
                     f"{f' and the host took {stolen:.0%}' if stolen > 0.005 else ''}: "
                     "these figures are noisy")
    if len(lab.cpus) < 4:
        notes.append(f"{len(lab.cpus)} CPUs: server and load share one, and what has more than one "
                     "thread shares CPUs with them; throughput says little here, CPU per "
                     "transaction does")
    dirty = _said("git", "status", "--porcelain", "--untracked-files=no", cwd=lab.top)
    return {"format": FORMAT, "started": started, "command": sys.argv,
            "machine": machine(lab), "busy_before": busy, "stolen_before": stolen,
            "notes": notes, "checksums": checksums(lab.top),
            "commit": _said("git", "rev-parse", "HEAD", cwd=lab.top), "changed": bool(dirty),
            "settings": {"rounds": options.rounds, "seconds": options.seconds,
                         "warmup": options.warmup, "quick": options.quick},
            "syscalls": bench.perf_why or "perf stat -e raw_syscalls:sys_enter, one short round",
            "locks": None}


def collect(bench, known, bars, ended):
    """All of it, as it is written to report.json."""
    used = {key for rows in bench.tables.values() for cells in rows.values() for key in cells}
    out = dict(known)
    out.update({
        "ended": ended, "notes": bench.notes, "bars": bars,
        "programs": {key: {"label": one.label, "version": one.version,
                           "placement": bench.placements.get(key, ""), "ours": one.is_ours}
                     for key, one in bench.programs.items() if key in used},
        "missing": {one.label: one.missing for one in bench.programs.values() if one.missing},
        "tables": {table: {name: {
            "title": bench.rows[table][name].title, "unit": bench.rows[table][name].unit,
            "cpu_unit": bench.rows[table][name].cpu_unit,
            "rate_unit": bench.rows[table][name].rate_unit, "cells": cells,
            "shown": summary(cells)} for name, cells in rows.items()}
                   for table, rows in bench.tables.items()}})
    return out


def summary(cells):
    """The figures that tables show, for programs that read report.json."""
    out = {}
    for key, cell in cells.items():
        names = sorted({name for sample in cell for name in sample["figures"]})
        found = {name: figures.cell_figure(cell, name) for name in names}
        out[key] = {"errors": figures.errors(cell),
                    "figures": {name: one._asdict() for name, one in found.items() if one}}
        for name, other in (("pgbouncer", "pgbouncer"), ("floor", "floor-uring")):
            one = figures.ratio(cell, cells.get(other), "cpu")
            if one and other != key:
                out[key]["times_" + name] = one._asdict()
    return out


def write(data, folder):
    paths = [os.path.join(folder, name) for name in ("report.json", "report.html")]
    with open(paths[0], "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    with open(paths[1], "w", encoding="utf-8") as file:
        file.write(page.make(data))
    took = data["ended"] - data["started"]
    print(f"\n{took:.0f} s; {paths[1]} and {os.path.basename(paths[0])}")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)
