# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the rows of bench/compare and prints them as they come.

A row is done in rounds; in each round every program has its turn, so that what the machine does to
one it does to all.  Results are cells: {table: {row: {program: [sample of each round]}}}.
"""
import fnmatch
import os
import stat
import time

import figures
import lab as labs
import measure
import programs as recipes
import rows as work

REASONS = (measure.Bad, labs.Failure, OSError)


class Bench:
    """What is the same for all rows, and what came out."""

    def __init__(self, lab, options):
        self.lab, self.options = lab, options
        self.seconds, self.warmup, self.rounds = options.seconds, options.warmup, options.rounds
        self.programs = recipes.all_programs(lab, options)
        self.server = None
        self.tables = {}   # table: {row: {program: [sample]}}
        self.rows = {}     # table: {row: Row}
        self.notes = []    # what a reader has to know; printed at once
        self.placements = {}
        self.perf_why = "--no-syscalls" if options.no_syscalls else measure.perf_why()
        self.deadline = time.monotonic() + options.budget if options.budget else None

    def note(self, text):
        if text and text not in self.notes:
            self.notes.append(text)
            print(f"note: {text}", flush=True)

    # --- servers ----------------------------------------------------------------------------------

    def start_stub(self, unix=False):
        """A stand-in for PostgreSQL; returns its process and sets self.server."""
        cpus = self.lab.layout(1).server
        port = self.lab.port()
        host = self.lab.subfolder("server") if unix else "127.0.0.1"
        command = [os.path.join(self.lab.build, "bench", "stub"), "--quiet"]
        server = recipes.Server(host, port)
        command += ["--unix", server.path] if unix else ["--port", str(port)]
        log = os.path.join(self.lab.folder, "stub.log")
        process = self.lab.spawn(command, cpus, log)
        server.pids = [process.pid]
        running = recipes.Running(self.lab, self.lab.layout(1))
        running.entry, running.log = server, log
        if not labs.wait_for(running.answers, 10) or process.poll() is not None:
            raise labs.Failure("bench/stub does not answer\n" + labs.tail(log))
        if unix: # the pooler's user has to get at it
            os.chmod(server.path, stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO)
        self.server = server
        return process

    def place_server(self, running):
        """Moves the server to where the layout of this measurement wants it.  PostgreSQL, of which
        the first process is known here, gives this on to those that it starts from now on."""
        layout = running.layout
        for pid in self.server.pids:
            os.sched_setaffinity(pid, {*layout.server, *layout.load} if self.server.is_wide
                                 else layout.server)

    # --- rows -------------------------------------------------------------------------------------

    def wanted(self, row):
        """The programs of a row, as options have them."""
        patterns = []
        listed = row.programs
        if self.options.quick and listed is work.DEFAULT:
            listed = work.QUICK
        for name in listed:
            patterns += {"+beside": [name for name, _ in self.options.beside],
                         "+fleet": [f"fleet-{self.options.fleet}"],
                         "+others": [key for key, one in self.programs.items()
                                     if isinstance(one, recipes.Adapted)]}.get(name, [name])
        chosen = recipes.pick(self.programs, patterns, row)
        for pattern in patterns:
            for key, program in self.programs.items():
                if fnmatch.fnmatchcase(key, pattern) and program not in chosen:
                    if not isinstance(program, recipes.Adapted) and "as many" not in program.lacks(row):
                        self.note(f"{program.label} left out: {program.missing or program.lacks(row)}"
                                  + ("" if program.missing else f" ({row.title})"))
        limit = self.options.programs
        return [one for one in chosen
                if not limit or any(fnmatch.fnmatchcase(one.key, pattern) for pattern in limit)]

    def one(self, row, program, number):
        try:
            sample = row.run(self, program)
        except REASONS as why:
            sample = measure.failed(why)
        sample["round"] = number
        words = sample.get("placement")
        if words and program.key != "direct":
            self.placements[program.key] = words
            if "share" in words.lower():
                self.note(f"a pooler of {program.wanted} thread{'s' * (program.wanted > 1)} or "
                          f"process{'es' * (program.wanted > 1)}: {words}")
        return sample

    def run_row(self, table, row, until=None):
        """`until`: no new round after this time."""
        chosen = self.wanted(row)
        if not chosen:
            return
        cells = {program.key: [] for program in chosen}
        self.tables.setdefault(table, {})[row.name] = cells
        self.rows.setdefault(table, {})[row.name] = row
        for number in range(self.rounds):
            if number and until is not None and time.monotonic() > until:
                print(f"({row.title}: {number} of {self.rounds} rounds, its time is up)")
                break
            for program in chosen:
                cells[program.key].append(self.one(row, program, number))
        if not self.perf_why and row.unit != "GB":
            self.count_syscalls(row, chosen, cells)
        print_row(row, cells, self.programs)

    def count_syscalls(self, row, chosen, cells):
        """A short round of its own, since tracing costs time."""
        if self.options.quick and row.name != "simple-64":
            return
        for program in chosen:
            if program.key == "direct" or figures.errors(cells[program.key]):
                continue
            try:
                count = row.syscalls(self, program)
            except REASONS:
                count = None
            if count is not None:
                cells[program.key][0]["figures"]["syscalls"] = count

    def listed(self, rows):
        """Those of these rows that the options ask for."""
        return [row for row in rows if (row.quick or not self.options.quick) and any(
            fnmatch.fnmatchcase(row.name, pattern) for pattern in self.options.rows)]

    def run_table(self, table, rows):
        listed = self.listed(rows)
        if listed:
            print_head(table)
        for place, row in enumerate(listed):
            now, until = time.monotonic(), None
            if self.deadline: # each row gets its share of what is left
                until = now + (self.deadline - now) / (len(listed) - place)
            self.run_row(table, row, until)


# --- the terminal ---------------------------------------------------------------------------------

TITLES = {"tcp": "server over TCP", "unix": "server over a unix socket",
          "workers": "more workers: simple query, 256 clients",
          "postgres": "PostgreSQL 15 and pgbench -S"}


def print_head(table):
    print(f"\n== {TITLES[table]}\n")
    print(f"{'':26}{'CPU':>7} {'(spread)':16}{'x PgB':>6} {'x floor':>7} {'rate':>9}"
          f" {'p50':>8} {'p99':>8} {'sysc.':>6}  us", flush=True)


def line_of(row, key, cells):
    """The columns of a program."""
    cell = cells[key]
    found = figures.errors(cell)
    if found:
        return f"  ERRORS, no figure: {figures.show_errors(found, 90)}"
    def get(name):
        one = figures.cell_figure(cell, name)
        return figures.show(one.median) if one else "-"
    if row.unit == "client":
        one = figures.cell_figure(cell, "memory")
        return (f"{figures.show(one.median):>7} bytes "
                f"({figures.show(one.low)}..{figures.show(one.high)})")
    cpu = figures.cell_figure(cell, "cpu")
    spread = f"({figures.show(cpu.low)}..{figures.show(cpu.high)})" if cpu else ""
    def times(other):
        one = figures.ratio(cell, cells.get(other), "cpu") if other != key else None
        return figures.show(one.median) if one else ""
    more = ""
    for name, text in (("growth", "x its CPU with 64 clients"), ("jain", "Jain"),
                       ("crowd", "fullest / mean")):
        if figures.cell_figure(cell, name) and (name != "jain" or row.name.startswith("many")):
            more += f"  {text} {get(name)}"
    return (f"{get('cpu') if cpu else '':>7} {spread:16}{times('pgbouncer'):>6} "
            f"{times('floor-uring'):>7} {get('rate'):>9} {get('p50'):>8} {get('p99'):>8} {get('syscalls'):>6}{more}")


def print_row(row, cells, programs):
    print(f"{row.title} ({row.cpu_unit})")
    for key in cells:
        print(f"  {programs[key].label:24.24}{line_of(row, key, cells)}", flush=True)


def print_bars(tables, programs):
    """The bars of each table; a heading tells them apart where there are several."""
    print("\n== bars\n")
    if not any(tables.values()):
        print("(no row that has one)")
    for table, bars in tables.items():
        if bars and len([name for name in tables if tables[name]]) > 1:
            print(f"{TITLES.get(table, table)}:")
        print_table_bars(bars, programs)


def print_table_bars(bars, programs):
    for bar in bars:
        value = figures.show(bar["value"]["median"]) if bar["value"] else "-"
        sign = ">=" if bar["at_least"] else "<="
        words = bar["why"] or ("the spread crosses the bar" if bar["close"] else "")
        label = programs[bar["program"]].label if bar["program"] in programs else bar["program"]
        print(f"{bar['verdict']:13}{value:>7} {sign} {bar['limit']:<5g}{bar['row']:15}"
              f"{bar['text']}{'' if bar['program'] == 'ring-1' else ' [' + label + ']'}"
              f"{'  (' + words + ')' if words else ''}")


def rows_for(bench):
    """The rows of the tables against bench/stub."""
    listed, words = work.all_rows(bench.lab.files, bench.options.quick)
    for text in words:
        bench.note(text)
    return listed
