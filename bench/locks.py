# SPDX-License-Identifier: GPL-2.0-or-later
"""The measuring half of bench/locks, which starts the programs and says what is measured.

`instructions`: callgrind's count of each instruction, joined by address with objdump's text of it.  An
address that objdump has no instruction for would mean that the two do not talk about the same file:
checked for our own binary.

`enters`: SHOW WORKERS before and after a while, and perf meanwhile.
"""
import argparse
import collections
import glob
import itertools
import os
import re
import subprocess
import sys
import time

from callgrind import MODES, Callgrind, Client, NotHere, query, run, together

LOCKED_MAX = 0.01  # per transaction; 0 is the aim, but threads have timers
ENTERS_MAX = 1.0
TRIES = 3
POOL_SIZE = 20
NOT_HERE = 3
# Whose instructions, in the order of the table's columns; all else is `others`.
OBJECTS = ["ringbouncer", "liburing", "libc", "others"]

# --- callgrind ----------------------------------------------------------------------------------

LOCKED = re.compile(r"\block\b|\bmfence\b|\bxchg[bwlq]?\s+(.*)")
REGISTER = re.compile(r"%\w+")


def is_locked(text):
    """Whether an instruction, as objdump writes it, locks a cache line or orders all memory."""
    found = LOCKED.search(text)
    if found is None or found[1] is None:
        return found is not None
    return not all(REGISTER.fullmatch(operand) for operand in found[1].split(","))


class Disassembly:
    """The instructions of each object, by address; asked of objdump once."""

    def __init__(self):
        self.texts = {}

    def of(self, path):
        if path not in self.texts:
            out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            pairs = re.findall(r"^ *([0-9a-f]+):\t([^#<\n]*)", out.stdout, re.M)
            self.texts[path] = {int(address, 16): text.strip() for address, text in pairs}
        return self.texts[path]


def kind_of(path):
    name = os.path.basename(path)
    known = (kind for kind in OBJECTS if name == kind or name.startswith(kind + ".so"))
    return next(known, "others")


class Tally:
    """What a dump says: instructions and locked ones, by whose they are."""

    def __init__(self, counts, code):
        self.instructions = collections.Counter()
        self.locked = collections.Counter()
        self.places = collections.Counter()
        self.unknown = 0
        for count in counts:
            kind = kind_of(count.path)
            text = code.of(count.path).get(count.address)
            self.instructions[kind] += count.count
            if text is None and kind == "ringbouncer":
                self.unknown += count.count
            elif text is not None and is_locked(text):
                self.locked[kind] += count.count
                self.places[kind, count.function, text, count.thread] += count.count

    def check(self):
        if self.instructions["ringbouncer"] == 0 or self.unknown > 0:
            sys.exit(f"bench/locks: {self.unknown} of {self.instructions['ringbouncer']} "
                     "instructions are not where objdump has any: they do not match")


def places_print(tally):
    """Where locked instructions were executed, and how often in all."""
    for (kind, function, text, thread), times in tally.places.most_common():
        print(f"{times:>17} in all: {function} ({kind}, thread {thread}): {' '.join(text.split())}")


def logins_check(options, callgrind, code):
    """Opens the whole pool.  Logins do lock: if none were seen here, the method would be blind."""
    callgrind.zero()
    clients = [Client(options.port) for _ in range(POOL_SIZE)]
    together(clients, query("BEGIN"))
    together(clients, query("COMMIT"))
    for client in clients:
        client.close()
    time.sleep(0.3)
    tally = Tally(callgrind.dump(), code)
    tally.check()
    print(f"to compare: {POOL_SIZE} logins that open {POOL_SIZE} servers execute "
          f"{tally.locked['ringbouncer']} in ringbouncer, {tally.locked.total()} in all")
    if tally.locked["ringbouncer"] == 0:
        sys.exit("bench/locks: logins must execute some: the method sees nothing")


def instructions_measure(options, callgrind, code, mode, client_count):
    request = MODES[mode]
    clients = [Client(options.port) for _ in range(client_count)]
    run(clients, request, 20 * POOL_SIZE)
    callgrind.zero()
    run(clients, request, options.transactions)
    tally = Tally(callgrind.dump(), code)
    tally.check()
    for client in clients:
        client.close()
    return tally


def row_print(mode, client_count, tally, count):
    locked = "".join(f"{tally.locked[kind] / count:12.4f}" for kind in OBJECTS)
    print(f"{mode:9}{client_count:8}{locked}{tally.instructions.total() / count:10.0f}"
          f"{tally.instructions['ringbouncer'] / count:13.0f}", flush=True)


def instructions(options):
    callgrind, code = Callgrind(options), Disassembly()
    logins_check(options, callgrind, code)
    print(f"\n{'':17}{'locked instructions per transaction':^49}  instructions per transaction")
    print(f"{'':9}{'clients':>8}{''.join(f'{kind:>12}' for kind in OBJECTS)}{'all':>10}"
          f"{'ringbouncer':>13}")
    worst = 0
    for mode, client_count in itertools.product(("simple", "extended"), (1, 8)):
        tally = instructions_measure(options, callgrind, code, mode, client_count)
        row_print(mode, client_count, tally, options.transactions)
        places_print(tally)
        worst = max(worst, tally.locked["ringbouncer"] + tally.locked["liburing"])
    good = worst / options.transactions <= LOCKED_MAX
    print(f"{'holds' if good else 'FAILED'}: ringbouncer and liburing execute at most {worst} "
          f"locked instructions in {options.transactions} transactions (limit: {LOCKED_MAX} each)")
    return 0 if good else 1


# --- system calls -------------------------------------------------------------------------------

Reading = collections.namedtuple("Reading", "time clients turns syscalls transactions")


def workers_read(console):
    """The sums of SHOW WORKERS."""
    console.ask(query("SHOW WORKERS"))
    now, names = time.monotonic(), console.columns
    columns = [names.index(name) for name in Reading._fields[1:]]
    return Reading(now, *(sum(int(row[column]) for row in console.rows) for column in columns))


def perf_start(options):
    events = "raw_syscalls:sys_enter,syscalls:sys_enter_io_uring_enter"
    command = ["perf", "stat", "-x", ",", "-e", events, "-p", str(options.pid), "--",
               "sleep", str(options.seconds)]
    try:
        return subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)
    except FileNotFoundError:
        return None


def perf_print(perf, options, rate):
    """perf's window is as long as ours, but not the same, so rates are compared."""
    said = perf.communicate()[1] if perf else "no perf"
    found = {name: int(count) for count, name in re.findall(r"^(\d+),[^,]*,([\w:]+)", said, re.M)}
    if len(found) != 2:
        print("perf: cannot count here:", (said.strip().splitlines() or ["it says nothing"])[0])
        return
    enters_count, all_count = (count / options.seconds / rate for count in (
        found["syscalls:sys_enter_io_uring_enter"], found["raw_syscalls:sys_enter"]))
    print(f"perf          io_uring_enter {enters_count:.4f} per transaction; "
          f"system calls of any kind {all_count:.4f}")


def cpu_read(pid):
    """CPU seconds of all threads so far."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def enters_measure(console, options):
    """One row; returns io_uring_enter per transaction."""
    perf = perf_start(options)
    before, cpu_before = workers_read(console), cpu_read(options.pid)
    time.sleep(options.seconds)
    after, cpu_after = workers_read(console), cpu_read(options.pid)
    count, length = after.transactions - before.transactions, after.time - before.time
    if count == 0:
        raise ConnectionError("no transactions")
    per_transaction = (after.syscalls - before.syscalls) / count
    print(f"SHOW WORKERS  io_uring_enter {per_transaction:.4f} per transaction; turns "
          f"{(after.turns - before.turns) / count:.4f}; {count / length:.0f} transactions/s; "
          f"the pooler used {(cpu_after - cpu_before) / length:.0%} of its CPU")
    perf_print(perf, options, count / length)
    return per_transaction


def enters(options):
    console = Client(options.port, "pgbouncer")
    for _ in range(250):
        now = workers_read(console)
        if now.clients > options.clients and now.transactions >= options.clients:
            break
        time.sleep(0.02)
    else:
        raise ConnectionError(f"{options.clients} clients are not busy: {now}")
    least = float("inf")
    for _ in range(TRIES):
        least = min(least, enters_measure(console, options))
        if least < ENTERS_MAX:
            break
    good = least < ENTERS_MAX
    print(f"{'holds' if good else 'FAILED'}: io_uring_enter {least:.3f} per transaction with "
          f"{options.clients} clients (limit: below {ENTERS_MAX:g})")
    return 0 if good else 1


def main():
    options = argparse.ArgumentParser(description="see bench/locks")
    options.add_argument("what", choices=["instructions", "enters"])
    for name in ("port", "pid", "transactions", "clients", "seconds"):
        options.add_argument(f"--{name}", type=int)
    options.add_argument("--folder", default="")
    options.add_argument("--prefix", default="")
    options = options.parse_args()
    try:
        return instructions(options) if options.what == "instructions" else enters(options)
    except KeyboardInterrupt:
        return 130
    except NotHere as why:
        print(f"valgrind cannot be steered here: {why}")
        return NOT_HERE
    except (OSError, ConnectionError) as why:
        print(f"FAILED: {why}")
        return 1


sys.exit(main())
