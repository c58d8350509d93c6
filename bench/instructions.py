# SPDX-License-Identifier: GPL-2.0-or-later
"""The measuring half of bench/instructions, which starts the programs and says what is measured."""
import argparse
import collections
import fnmatch
import json
import os
import sys
import time

from callgrind import MODES, PREPARE, Callgrind, Client, NotHere, query, run

ROWS = [("simple", 1), ("extended", 1), ("prepared", 1), ("churn", 1), ("simple", 8)]
REPEATS = 5
WARM_UP = 100
CHURN_SHARE = 4  # a visit costs so much more than a query
CROWD_FACTOR = 4  # how many clients one turn serves is chance, which more of them even out
SETTLE = 0.15  # seconds until the pooler has gone to sleep
NOT_HERE = 3
OBJECTS = ["program", "libc", "others"]


class Left(Exception):
    """This pooler does not do what the row is about."""


def object_of(path, program):
    name = os.path.basename(path)
    if name == program:
        return "program"
    return "libc" if name.startswith("libc.so") else "others"


# --- measuring ----------------------------------------------------------------------------------


def prepared_check(port):
    """Named statements must be there on whatever server the pooler picks."""
    first, second = Client(port), Client(port)
    try:
        first.ask(PREPARE)
        second.ask(query("BEGIN"))
        first.ask(MODES["prepared"])
        second.ask(query("COMMIT"))
        first.check()
    except ConnectionError as why:
        raise Left(f"no prepared statements: {' '.join(str(why).split())[:60]}") from why
    finally:
        first.close()
        second.close()


def visits(port, count):
    """Log in, ask once, leave: `count` times."""
    for _ in range(count):
        client = Client(port)
        client.ask(MODES["simple"])
        client.check()
        client.close()


class Row:
    """One mode with some clients, logged in and warm."""

    def __init__(self, options, mode, clients):
        self.options, self.mode = options, mode
        self.clients = []
        self.count = options.transactions * (CROWD_FACTOR if clients > 1 else 1)
        if mode == "churn":
            self.count = max(self.count // CHURN_SHARE, 1)
        else:
            self.clients = [Client(options.port) for _ in range(clients)]
        if mode == "prepared":
            prepared_check(options.port)
            self.clients[0].ask(PREPARE)

    def work(self, count):
        if self.mode == "churn":
            visits(self.options.port, count)
        else:
            run(self.clients, MODES[self.mode], count)
        time.sleep(SETTLE)

    def measure(self, callgrind):
        """Instructions per transaction by (object, function)."""
        callgrind.zero()
        self.work(self.count)
        tally = collections.Counter()
        for count in callgrind.dump():
            kind = object_of(count.path, self.options.program)
            tally[kind, count.function] += count.count
        return {key: total / self.count for key, total in tally.items()}

    def close(self):
        for client in self.clients:
            client.close()
        time.sleep(SETTLE)


def row_measure(options, callgrind, mode, clients):
    row = Row(options, mode, clients)
    try:
        row.work(WARM_UP)
        tallies = sorted((row.measure(callgrind) for _ in range(REPEATS)),
                         key=lambda tally: sum(tally.values()))
    finally:
        row.close()
    totals = [sum(tally.values()) for tally in tallies]
    by_object = {kind: sum(cost for key, cost in tallies[0].items() if key[0] == kind)
                 for kind in OBJECTS}
    functions = sorted(tallies[0].items(), key=lambda item: -item[1])
    return {"mode": mode, "clients": clients, "transactions": row.count,
            "instructions": totals[0], "spread": (totals[-1] - totals[0]) / totals[0],
            "objects": by_object,
            "functions": [{"object": kind, "function": name, "instructions": cost}
                          for (kind, name), cost in functions if cost >= 0.5]}


# --- printing -----------------------------------------------------------------------------------


def change(now, before):
    return f"{now / before - 1:+9.1%}" if before else f"{'new':>9}"


def head_print(options, before):
    more = "  before   change" if before else ""
    print(f"{'':10}{'clients':>8}{'instructions':>14}{'spread':>8}"
          f"{options.program[:12]:>13}{'libc':>8}{'others':>8}{more}")


def row_print(row, before):
    line = f"{row['mode']:10}{row['clients']:8}{row['instructions']:14.0f}{row['spread']:8.1%}"
    line += "".join(f"{row['objects'][kind]:{width}.0f}"
                    for kind, width in zip(OBJECTS, (13, 8, 8)))
    if before:
        then = before["instructions"]
        line += f"{then:8.0f}{change(row['instructions'], then)}"
    print(line, flush=True)


def top_print(row, before, most):
    """The functions that cost most; with those of an earlier run that are gone or fell behind."""
    was = {(f["object"], f["function"]): f["instructions"]
           for f in (before or {}).get("functions", [])}
    for entry in row["functions"][:most]:
        line = f"{entry['instructions']:32.0f}{entry['instructions'] / row['instructions']:8.1%}  "
        if before:
            line += change(entry["instructions"], was.get((entry["object"], entry["function"])))
            line += "  "
        where = "" if entry["object"] == "program" else f" ({entry['object']})"
        print(f"{line}{entry['function']}{where}")


def measure_all(options, before):
    callgrind, rows = Callgrind(options), []
    patterns = options.only.split(",")
    head_print(options, before)
    for mode, clients in ROWS:
        if not any(fnmatch.fnmatch(f"{mode}/{clients}", pattern) for pattern in patterns):
            continue
        try:
            row = row_measure(options, callgrind, mode, clients)
        except (OSError, Left) as why:
            row = {"mode": mode, "clients": clients, "left" if isinstance(why, Left) else "error":
                   str(why)}
            print(f"{mode:10}{clients:8}  {'left out' if 'left' in row else 'FAILED'}: {why}")
        else:
            then = before.get((mode, clients))
            row_print(row, then)
            top_print(row, then, options.top)
        rows.append(row)
    return rows


def before_read(path):
    if not path:
        return {}
    with open(path, encoding="utf-8") as file:
        return {(row["mode"], row["clients"]): row for row in json.load(file)["rows"]
                if "instructions" in row}


def main():
    options = argparse.ArgumentParser(description="see bench/instructions")
    for name in ("port", "pid", "transactions", "top"):
        options.add_argument(f"--{name}", type=int)
    for name in ("folder", "prefix", "program", "version", "only", "json", "before"):
        options.add_argument(f"--{name}", default="")
    options = options.parse_args()
    try:
        rows = measure_all(options, before_read(options.before))
    except KeyboardInterrupt:
        return 130
    except NotHere as why:
        print(f"valgrind cannot be steered here: {why}")
        return NOT_HERE
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"program": options.program, "version": options.version, "rows": rows}, file,
                      indent=1)
            file.write("\n")
    return 1 if any("error" in row for row in rows) else 0


sys.exit(main())
