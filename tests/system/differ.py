#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Asks PostgreSQL and the pooler before it the same by chance, and compares every answer.

    tests/system/differ.py BINARY [options]

    --count N         sequences (default 20000)
    --seed S          another seed, other sequences; the same seed, the same (default 1)
    --mode MODE       session or transaction (default)
    --without named   no named statements of the protocol
    --statements N    max_prepared_statements of the pooler
    --workers N       threads of the pooler (default 4)
    --groups N        pools with three clients each (default 4)
    --differences N   go on until so many were found (default 1)
    --play FILE       only what a report has printed behind `play:`
    --keep            keep the folder of scratch files
    --port N          first of the ports to use (default 23600)

differ_grammar.py makes the sequences and says what may be asked; here they are played.  Each client
plays sessions of some twenty sequences on one connection here and on another there, in different
databases, so that both begin with the same rows.  PostgreSQL gets a sequence in one send; the pooler
gets it cut in pieces.  Behind each sequence goes CLOSING, which ends whatever is open and asks for a row
that nobody else asks for: its answer ends the sequence's.  What PostgreSQL answered to the sequence
alone must come without CLOSING, so that nothing may be held back until something else is asked.

Three clients share a pool of one or two servers.  A difference is tried again alone, then together with
what its neighbours were doing, and reduced to the fewest messages that still show it.
"""
import argparse
import ast
import itertools
import pathlib
import re
import shutil
import signal
import struct
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import differ_grammar as grammar  # noqa: E402
import harness  # noqa: E402
from wire import Message, Wire  # noqa: E402

# Whoever says nothing for so long will say nothing any more.
SILENCE_SECONDS = 2
CLOSING_WHY = "closing"
CLOSING_COMPLAINT = b"COPY from stdin failed: closing"
ROLLED_BACK = b"C\0\0\0\rROLLBACK\0"
FAILED = b"Z\0\0\0\5E"
# Fields of an error that tell of PostgreSQL's sources: who writes an error in its place need not know.
UNCOMPARED_FIELDS = "FLR"
# Statements have other names at a shared server, and PostgreSQL tells them in the text of an error.
RENAMED = re.compile(r'prepared statement "(s\d|e|cp|rb_[0-9a-f]+)" requires')


# --- one connection ---------------------------------------------------------------------------------


def closing(number):
    """What ends anything: COPY, an extended query, a transaction; and its last bytes in the answer."""
    mark = f"end {number}"
    messages = [("f", CLOSING_WHY), ("S",), ("Q", ("rollback",)), ("Q", (f"select '{mark}'",))]
    row = struct.pack("!HI", 1, len(mark)) + mark.encode()
    tail = b"".join(kind + struct.pack("!I", len(body) + 4) + body
                    for kind, body in ((b"D", row), (b"C", b"SELECT 1\0"), (b"Z", b"I")))
    return b"".join(grammar.encode(m, 0) for m in messages), tail


class Line:
    """One connection: bytes out, whole messages in."""

    def __init__(self, wire):
        self.sock, self.buffer, self.ended = wire.sock, bytearray(wire.buffer), None
        self.sock.settimeout(SILENCE_SECONDS)

    def send(self, data):
        try:
            self.sock.sendall(data)
        except TimeoutError:
            self.ended = "(no more is taken)"
        except ConnectionError:
            pass  # what has come before it is still to be read

    def more(self):
        """Whether more came."""
        try:
            data = self.sock.recv(1 << 18)
        except TimeoutError:
            self.ended = "(silence)"
            return False
        except ConnectionError:
            data = b""
        if not data:
            self.ended = self.ended or "EOF"
            return False
        self.buffer += data
        return True

    def count(self):
        """Whole messages that are there."""
        at = found = 0
        while at + 5 <= len(self.buffer):
            at += 1 + struct.unpack_from("!I", self.buffer, at + 1)[0]
            found += at <= len(self.buffer)
        return found

    def take(self):
        """All messages, and how it ended if it did."""
        at, found, buffer = 0, [], bytes(self.buffer)
        while at + 5 <= len(buffer):
            size = struct.unpack_from("!I", buffer, at + 1)[0]
            found.append(buffer[at:at + 1 + size])
            at += 1 + size
        self.buffer.clear()
        return found + ([self.ended] if self.ended else [])

    def close(self):
        self.sock.close()


def play_at_once(line, sequence, client, number):
    """PostgreSQL's answer."""
    data = b"".join(grammar.encode(m, client) for m in sequence if m[0] != "/")
    end, tail = closing(number)
    line.send(data if sequence[-1:] == (("X",),) else data + end)
    while not line.buffer.endswith(tail) and line.more():
        pass
    return line.take()


def play_in_pieces(line, sequence, client, number, own):
    """The pooler's answer; `own`: how many messages must come before CLOSING is sent, or None."""
    ready, waiting = b"", None
    for message in sequence:
        if message[0] == "/":
            waiting = message
            continue
        data = grammar.encode(message, client)
        if waiting:
            line.send(ready + data[:waiting[1]])
            time.sleep(waiting[2] / 1000)
            data, ready, waiting = data[waiting[1]:], b"", None
        ready += data
    end, tail = closing(number)
    if own is None:
        line.send(ready + end)
    else:
        line.send(ready)
        while line.count() < own and line.more():
            pass
        if line.ended:
            return line.take()
        line.send(end)
    while not line.buffer.endswith(tail) and line.more():
        pass
    return line.take()


def own_count(answer, sequence):
    """How many messages answer the sequence alone and must come before anything else is asked; None if
    the end of a connection cannot be waited for so, or the last of them may lie unsent at the server."""
    if answer[-1] == "EOF":
        return 1 << 30
    sent = [m[0] for m in sequence if m[0] != "/"]
    if not sent or sent[-1] not in "SQHF":
        return None
    for at, message in enumerate(answer):
        if message[:1] == b"E" and b"\0M" + CLOSING_COMPLAINT in message:
            return at
    at = max(at for at, message in enumerate(answer) if message == ROLLED_BACK) - 1
    at -= answer[at][:1] == b"N"
    while answer[at - 1][:1] == b"S":  # reported with the ReadyForQuery that CLOSING asked for
        at -= 1
    return at


# --- comparing --------------------------------------------------------------------------------------


def canonical(message):
    """What of a message has to be the same: all but the places that are left out here."""
    kind = message[:1]
    if kind in b"EN" and not isinstance(message, str):
        fields = Message("E", message[5:]).fields()
        return kind, sorted((k, RENAMED.sub("prepared statement requires", v))
                            for k, v in fields.items() if k not in UNCOMPARED_FIELDS)
    if kind == b"T":
        return kind, columns(message)
    return message


def columns(message):
    """Of a RowDescription; of a table only whether there is one, for it has other numbers here and there."""
    found, at = [], 7
    for _ in range(struct.unpack_from("!H", message, 5)[0]):
        end = message.index(b"\0", at)
        table, *rest = struct.unpack_from("!IHIhih", message, end + 1)
        found.append((message[at:end], table != 0, *rest))
        at = end + 19
    return found


def first_difference(here, there):
    """Where two answers part, as places in both, or None."""
    one = two = 0
    while one < len(here) or two < len(there):
        if one == len(here) or two == len(there) or not alike(here[one], there[two]):
            after = not_parsed(here, one, there, two)
            if not after:
                return one, two
            one, two = after
        one, two = one + 1, two + 1
    return None


def alike(one, two):
    if one == two:
        return True
    return isinstance(one, bytes) and isinstance(two, bytes) and canonical(one) == canonical(two)


def not_parsed(here, one, there, two):
    """In a failed transaction a server cannot be given a statement that it lacks: that is told in place of
    what is wrong with a Bind.  The places of the ReadyForQuery behind it, or None."""
    if one == len(here) or two == len(there) or word(there[two]) != "E[25P02]":
        return None
    if word(here[one]) != "E[08P01]" or b"\0Mbind message" not in here[one]:
        return None
    while one < len(here) and here[one][:1] != b"Z":
        one += 1
    return (one, two + 1) if here[one:one + 1] == there[two + 1:two + 2] == [FAILED] else None


def word(message):
    if message is None:
        return "(nothing)"
    if isinstance(message, str):
        return message
    return Message(message[:1].decode("latin-1"), message[5:]).word()


def in_full(message):
    if isinstance(message, bytes) and message[:1] in b"EN":
        return f"{word(message)} {Message('E', message[5:]).fields()}"
    if isinstance(message, bytes) and message[:1] == b"T":
        return f"{word(message)} {columns(message)}"
    return word(message)


class Difference(Exception):
    def __init__(self, client, session, here, there, own=None):
        super().__init__("answers differ")
        self.client, self.session, self.here, self.there, self.own = client, session, here, there, own
        self.at, self.before = first_difference(here, there), []

    def likeness(self):
        """What two differences have in common that are likely to be one."""
        return tuple(word(self.apart(n)) for n in (0, 1))

    def apart(self, which):
        """The message of PostgreSQL (0) or the pooler (1) where they part."""
        answer, at = (self.here, self.there)[which], self.at[which]
        return answer[at] if at < len(answer) else None

    def describe(self, peers=()):
        lines = [f"client {self.client}, {len(self.session)} sequences:"]
        lines += ["  " + grammar.notation_of(s, self.client) for s in self.session]
        for client, session in peers:
            lines += [f"beside it client {client}:"]
            lines += ["  " + grammar.notation_of(s, client) for s in session]
        lines += ["PostgreSQL: " + " ".join(word(m) for m in self.here),
                  "the pooler: " + " ".join(word(m) for m in self.there)]
        for number, name in enumerate(("PostgreSQL", "the pooler")):
            lines += [f"word {self.at[number] + 1} of {name}: {in_full(self.apart(number))}"]
        if self.own is not None:
            lines += [f"(before anything else was asked for, {self.own} words were wanted)"]
        lines += ["play: " + repr([(self.client, self.session), *peers])]
        return "\n".join(lines)


# --- playing ----------------------------------------------------------------------------------------


def wrong(answer, sequence):
    """Whether PostgreSQL itself has not answered, or gone without a word."""
    if answer[-1] == "(silence)":
        return True
    return answer[-1] == "EOF" and sequence[-1:] != (("X",),) and b"FATAL" not in answer[-2]


class Theatre:
    """PostgreSQL, the pooler, and clients that play sessions with both."""

    def __init__(self, cluster, pooler, free, named, groups=4):
        self.cluster, self.pooler, self.free, self.named = cluster, pooler, free, named
        self.groups, self.clients = groups, groups * 3
        for database in ("test", "second"):
            with cluster.wire(database) as db:
                db.query("drop table if exists differ_rows; create table differ_rows (v int); "
                         "insert into differ_rows select generate_series(1, 5)")
                for client in range(self.clients):
                    db.query(f"drop table if exists mine_{client}; create table mine_{client} (v int)")

    def close(self):
        for database in ("test", "second"):
            with self.cluster.wire(database) as db:
                for table in ["differ_rows", *(f"mine_{c}" for c in range(self.clients))]:
                    db.query(f"drop table {table}")

    @staticmethod
    def databases(groups=4):
        """Lines of the pooler's ini: a pool for each group, of one or two servers."""
        return "\n".join(f"group{g} = host=127.0.0.1 port=PG dbname=test pool_size={1 + g % 2}"
                         for g in range(groups))

    def fresh(self):
        """Another pooler, if one may be stuck."""
        self.pooler.stop()
        self.pooler.start()

    def wire(self, client):
        return Wire("127.0.0.1", self.pooler.port).login("postgres", f"group{client % self.groups}")

    def direct(self, database="second"):
        return Wire("127.0.0.1", self.cluster.port).login("postgres", database)

    def session(self, client, session, told=None):
        """Plays it here and there; raises Difference."""
        for database in ("test", "second"):
            with self.cluster.wire(database) as db:
                db.query(f"delete from mine_{client}")
        here, there = Line(self.direct()), Line(self.wire(client))
        try:
            for number, sequence in enumerate(session):
                if here.ended or sequence == grammar.AGAIN:
                    here.close()
                    there.close()
                    here, there = Line(self.direct()), Line(self.wire(client))
                if sequence == grammar.AGAIN:
                    continue
                one = play_at_once(here, sequence, client, number)
                if wrong(one, sequence):
                    raise RuntimeError(f"PostgreSQL itself: {one[-1]} at {sequence!r}")
                own = own_count(one, sequence)
                # Now and then CLOSING comes at once, as more of the same stream.
                if own != 1 << 30 and (number + client) % 3 == 0:
                    own = None
                two = play_in_pieces(there, sequence, client, number, own)
                if first_difference(one, two) is not None:
                    raise Difference(client, session[:number + 1], one, two, own)
                if told:
                    told()
        finally:
            here.close()
            there.close()

    def scene(self, client, session, peers=(), times=1):
        """Plays a session, with others over and over beside it; the difference or None."""
        stop, threads = threading.Event(), []

        def beside(peer, parts):
            while not stop.is_set():
                try:
                    self.session(peer, parts)
                except Exception:  # whatever: it is the session in front that is looked at
                    time.sleep(0.01)
        for peer, parts in peers:
            threads.append(threading.Thread(target=beside, args=(peer, parts), daemon=True))
            threads[-1].start()
        try:
            for _ in range(times):
                self.session(client, session)
        except Difference as difference:
            return difference
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        return None


class Run:
    """All clients at once, until enough is played or enough has been found."""

    def __init__(self, theatre, seed, count, enough=1, progress=None):
        self.theatre, self.seed, self.count, self.enough = theatre, seed, count, enough
        self.progress, self.played, self.lock = progress, 0, threading.Lock()
        self.stop, self.found, self.broken = threading.Event(), [], []
        # The session that a client is in, and before it the last one.
        self.doing, self.sizes = {}, {}

    def told(self):
        with self.lock:
            self.played += 1
            if self.progress and self.played % 1000 == 0:
                self.progress(self.played)
            if self.played >= self.count:
                self.stop.set()

    def client(self, client):
        theatre = self.theatre
        try:
            session = []
            for number in itertools.count():
                if self.stop.is_set():
                    return
                maker = grammar.Maker(f"{self.seed}/{client}/{number}", theatre.free, theatre.named)
                before, session = session, maker.session()
                self.sizes[client] = len(session)
                self.doing[client] = [*before, *([grammar.AGAIN] if before else []), *session]
                try:
                    theatre.session(client, session, self.told)
                except Difference as difference:
                    self.differs(difference)
        except Exception as error:
            self.broken.append(error)
            self.stop.set()

    def differs(self, difference):
        peers = [(c, s) for c, s in self.doing.items()
                 if c != difference.client and c % self.theatre.groups ==
                 difference.client % self.theatre.groups]
        whole = self.doing[difference.client]
        difference.before = whole[:len(whole) - self.sizes[difference.client]]
        with self.lock:
            if len(self.found) < self.enough:
                self.found.append((difference, peers))
            if len(self.found) >= self.enough:
                self.stop.set()

    def go(self):
        threads = [threading.Thread(target=self.client, args=(c,), daemon=True)
                   for c in range(self.theatre.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.broken:
            raise self.broken[0]
        return self.found


# --- reducing ---------------------------------------------------------------------------------------


class Reducer:
    """Leaves out of a difference what it does not need."""

    def __init__(self, theatre, difference, peers, seconds=60):
        self.theatre, self.peers, self.last = theatre, list(peers), difference
        self.client, self.session, self.before = difference.client, difference.session, difference.before
        self.end = time.monotonic() + seconds
        self.times = 1

    def shows(self, session, peers=None):
        """Whether a smaller one still differs."""
        if time.monotonic() > self.end or not session or \
                not grammar.allowed(session, self.theatre.free, self.theatre.named):
            return False
        got = self.theatre.scene(self.client, session, self.peers if peers is None else peers, self.times)
        if got:
            self.session, self.last = got.session, got
            if isinstance(got.there[-1], str):
                self.theatre.fresh()
        return bool(got)

    def reduce(self):
        """The smallest difference, and the peers that it takes; None where it does not come again."""
        self.theatre.fresh()
        if self.alone() or self.together():
            self.fewer(lambda: len(self.session),
                       lambda a, b: self.shows(self.session[:a] + self.session[b:]))
            for number in reversed(range(len(self.session))):
                self.sequence(number)
            return self.last, self.peers
        return None

    def alone(self):
        for self.times in (1, 5):
            for session in (self.session[-1:], self.session, self.before + self.session):
                if self.shows(session, ()):
                    self.peers = []
                    return True
        # Whoever waits for a server may wait because of what a neighbour has done to it.
        mine = self.client
        for self.client, session in self.peers:
            if self.shows(session, ()):
                self.peers = []
                return True
        self.client = mine
        return False

    def together(self):
        self.times = 10
        if not any(self.shows(s) for s in (self.session[-1:], self.session, self.before + self.session)):
            return False
        for peer in list(self.peers):
            rest = [p for p in self.peers if p is not peer]
            if self.shows(self.session, rest):
                self.peers = rest
        for at, (peer, parts) in enumerate(self.peers):
            def less(a, b, at=at, peer=peer):
                parts = self.peers[at][1]
                peers = self.peers[:at] + [(peer, parts[:a] + parts[b:])] + self.peers[at + 1:]
                if not grammar.allowed(peers[at][1], self.theatre.free, self.theatre.named) or \
                        not self.shows(self.session, peers):
                    return False
                self.peers = peers
                return True
            self.fewer(lambda at=at: len(self.peers[at][1]), less)
        return True

    @staticmethod
    def fewer(size, without):
        """Leaves out halves, quarters, and so on, from the back."""
        step = max(1, size() // 2)
        while True:
            at = size()
            while at > 0:
                without(max(0, at - step), at)
                at = min(at - step, size())
            if step == 1:
                return
            step //= 2

    def sequence(self, number):
        """Fewer messages in one, each as plain as can be."""
        def put(messages):
            return self.shows([*self.session[:number], tuple(messages), *self.session[number + 1:]])

        def there():
            return self.session[number] if number < len(self.session) else ()
        self.fewer(lambda: len(there()), lambda a, b: put(there()[:a] + there()[b:]))
        for at in range(len(there())):
            for plain in plainer(there()[at]):
                if put(there()[:at] + (plain,) + there()[at + 1:]):
                    break


def plainer(message):
    """Simpler messages to try in place of one."""
    if message[0] == "Q":
        for text in message[1]:
            if len(message[1]) > 1:
                yield "Q", (text,)
        yield "Q", ("select 1",)
    elif message[0] == "P":
        yield "P", message[1], message[2], ()
        yield "P", message[1], "select 1", ()
    elif message[0] == "B" and message[3:] != ((), (), ()):
        yield message[:3] + ((), (), ())
    elif message[0] == "E" and message[2]:
        yield "E", message[1], 0
    elif message[0] == "/":
        yield "/", 0, 0


def report(theatre, found, seconds=60):
    """The text about a difference."""
    difference, peers = found
    reduced = Reducer(theatre, difference, peers, seconds).reduce()
    if reduced:
        return reduced[0].describe(reduced[1])
    return "did not come again when tried; " + \
        Difference(difference.client, difference.session[-1:], difference.here, difference.there,
                   difference.own).describe()


# --- by hand ----------------------------------------------------------------------------------------


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=("session", "transaction"), default="transaction")
    parser.add_argument("--without", choices=("named",), default="")
    parser.add_argument("--statements", type=int)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--differences", type=int, default=1)
    parser.add_argument("--play")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--port", type=int, default=23600)
    return parser.parse_args()


def config(mode, statements=None):
    lines = [f"pool_mode = {mode}", "query_wait_timeout = 20"]
    if statements is not None:
        lines.append(f"max_prepared_statements = {statements}")
    return "\n".join(lines)


def databases(mode, groups):
    lines = Theatre.databases(groups)
    return lines if mode == "transaction" else lines.replace("pool_size=1", "pool_size=9").replace(
        "pool_size=2", "pool_size=9")


def main():
    options = arguments()
    options.pgbouncer, options.tail, options.long = False, 12, True
    folder = harness.scratch()
    cluster = harness.Cluster(folder / "cluster", options.port)
    stage = None
    try:
        cluster.start()
        cluster.fill()
        stage = harness.Stage(cluster, harness.Ports(options.port + 1, 90), folder / "stage", options)
        stage.pooler.start(text=stage.pooler.config(
            config(options.mode, options.statements), databases=databases(options.mode, options.groups)))
        theatre = Theatre(cluster, stage.pooler, options.mode == "session",
                          options.without != "named", options.groups)
        return by_hand(theatre, options)
    finally:
        if stage:
            wrong = stage.pooler.stop()
            if wrong:
                print(f"the pooler: {wrong}\n{harness.tail(stage.pooler.log)}")
        cluster.stop(signal.SIGQUIT)
        if options.keep:
            print(f"files: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def by_hand(theatre, options):
    if options.play:
        (client, session), *peers = ast.literal_eval(pathlib.Path(options.play).read_text())
        got = theatre.scene(client, session, peers, 10 if peers else 1)
        print(got.describe(peers) if got else "no difference")
        return bool(got)
    started = time.monotonic()

    def progress(played):
        print(f"{played} sequences, {time.monotonic() - started:.0f} s", flush=True)
    run = Run(theatre, options.seed, options.count, options.differences, progress)
    found = run.go()
    alike = {}
    for one in found:
        alike.setdefault(one[0].likeness(), []).append(one)
    for several in alike.values():
        print(f"{len(several)} like this:\n{report(theatre, several[0])}\n", flush=True)
    print(f"{run.played} sequences, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
