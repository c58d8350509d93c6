# SPDX-License-Identifier: GPL-2.0-or-later
"""As much of PostgreSQL's protocol as bench/compare needs: the console, and clients that wait.

Session is a blocking connection with simple queries.  crowd() is many connections in one thread that
think, ask for something that keeps a server busy for a known time, and note how much longer it took:
that is the time they waited for a server.
"""
import heapq
import random
import selectors
import socket
import struct
import time


class Refused(Exception):
    """An ErrorResponse, or an end of the connection."""


def _startup(user, database):
    body = f"user\0{user}\0database\0{database}\0\0".encode()
    return struct.pack("!ii", len(body) + 8, 196608) + body


def _query(text):
    body = text.encode() + b"\0"
    return b"Q" + struct.pack("!i", len(body) + 4) + body


def messages(data):
    """All whole messages at the front of the bytearray, which they are taken off: (kind, body)."""
    while len(data) >= 5:
        size = struct.unpack_from("!i", data, 1)[0] + 1
        if len(data) < size:
            return
        kind, body = chr(data[0]), bytes(data[5:size])
        del data[:size]
        yield kind, body


def _row(body):
    at, values = 2, []
    for _ in range(struct.unpack_from("!h", body)[0]):
        size = struct.unpack_from("!i", body, at)[0]
        values.append(None if size < 0 else body[at + 4:at + 4 + size].decode())
        at += 4 + max(size, 0)
    return values


def _columns(body):
    at, names = 2, []
    for _ in range(struct.unpack_from("!h", body)[0]):
        end = body.index(b"\0", at)
        names.append(body[at:end].decode())
        at = end + 19
    return names


def _open(target, timeout):
    """target: a path, or (host, port)."""
    if isinstance(target, str):
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(timeout)
        end.connect(target)
        return end
    end = socket.create_connection(target, timeout=timeout)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


class Session:
    """A connection with trust authentication."""

    def __init__(self, target, database="bench", user="bench", timeout=10):
        self.socket = _open(target, timeout)
        self.data = bytearray()
        try:
            self.socket.sendall(_startup(user, database))
            self._finish()
        except BaseException:
            self.socket.close()
            raise

    def _finish(self):
        columns, rows, error = [], [], None
        while True:
            for kind, body in messages(self.data):
                if kind == "E":
                    error = body.replace(b"\0", b" ").decode(errors="replace")
                elif kind == "T":
                    columns = _columns(body)
                elif kind == "D":
                    rows.append(dict(zip(columns, _row(body))))
                elif kind == "Z":
                    if error:
                        raise Refused(error)
                    return rows
            more = self.socket.recv(65536)
            if not more:
                raise Refused(error or "the connection was closed")
            self.data += more

    def ask(self, text):
        """The rows as dicts."""
        self.socket.sendall(_query(text))
        return self._finish()

    def close(self):
        try:
            self.socket.sendall(b"X\0\0\0\4")
        except OSError:
            pass
        self.socket.close()


def ask(target, text, database="pgbouncer", timeout=10):
    """One question on a connection of its own."""
    session = Session(target, database, timeout=timeout)
    try:
        return session.ask(text)
    finally:
        session.close()


# --- clients that wait ----------------------------------------------------------------------------


class _Member:
    """A client of the crowd."""

    def __init__(self, session):
        self.session, self.socket, self.data = session, session.socket, session.data
        self.socket.setblocking(False)
        self.since = 0.0

    def ready(self):
        """Reads; True at ReadyForQuery."""
        more = self.socket.recv(65536)
        if not more:
            raise Refused("the connection was closed")
        self.data += more
        done = False
        for kind, body in messages(self.data):
            if kind == "E":
                raise Refused(body.replace(b"\0", b" ").decode(errors="replace"))
            done = done or kind == "Z"
        return done


class Crowd:
    """Clients that think (exponentially distributed, by seed) and then keep a server busy."""

    def __init__(self, target, count, service, think, seed=1):
        self.dice, self.service, self.think = random.Random(seed), service, think
        self.request = _query(f"SELECT 'crowd', pg_sleep({service:g})")
        self.members = []
        try:
            for _ in range(count):
                self.members.append(_Member(Session(target)))
        except BaseException:
            self.close()
            raise

    def close(self):
        for member in self.members:
            member.socket.setblocking(True)
            member.session.close()

    def _pause(self):
        return self.dice.expovariate(1 / self.think)

    def run(self, seconds, warmup=0.3):
        """Seconds that each answer took beyond the time that the server was busy with it."""
        waited, due = [], []
        watch = selectors.DefaultSelector()
        begin = time.monotonic()
        for number, member in enumerate(self.members):
            watch.register(member.socket, selectors.EVENT_READ, member)
            heapq.heappush(due, (begin + self._pause(), number))
        numbers = {id(member): number for number, member in enumerate(self.members)}
        now = begin
        while now < begin + warmup + seconds:
            for key, _ in watch.select(max(0.0, due[0][0] - now) if due else 0.1):
                member = key.data
                if not member.ready():
                    continue
                now = time.monotonic()
                if member.since > begin + warmup:
                    waited.append(max(0.0, now - member.since - self.service))
                heapq.heappush(due, (now + self._pause(), numbers[id(member)]))
            now = time.monotonic()
            while due and due[0][0] <= now:
                member = self.members[heapq.heappop(due)[1]]
                member.since = now
                member.socket.sendall(self.request)
        watch.close()
        return waited
