# SPDX-License-Identifier: GPL-2.0-or-later
"""Steers a pooler that runs under callgrind: shared by bench/locks and bench/instructions.

Clients of its own, not bench/load: the number of transactions must be exact, and callgrind's
counters are set to zero when all have logged in and written to files when all have their answers.
"""
import collections
import glob
import os
import re
import selectors
import shlex
import socket
import struct
import subprocess

PATIENCE = 20  # seconds for an answer


class NotHere(Exception):
    """The machine cannot measure this."""


# --- clients ------------------------------------------------------------------------------------


def message(kind, *parts):
    body = b"".join(parts)
    return kind + struct.pack("!i", len(body) + 4) + body


def query(text):
    return message(b"Q", text.encode(), b"\0")


def parse(name):
    return message(b"P", name, b"\0SELECT 'bench', $1::text\0", struct.pack("!h", 0))


def bind(name):
    return message(b"B", b"\0", name, b"\0", struct.pack("!hhi", 0, 1, 4), b"seen",
                   struct.pack("!h", 0))


DESCRIBE = message(b"D", b"P\0")
EXECUTE = message(b"E", b"\0", struct.pack("!i", 0))
SYNC = message(b"S")
PREPARE = parse(b"known") + SYNC  # before the mode `prepared`
# Mode: what is one transaction.
MODES = {
    "simple": query("SELECT 'bench', 'seen'"),
    "extended": parse(b"") + bind(b"") + DESCRIBE + EXECUTE + SYNC,
    "prepared": bind(b"known") + EXECUTE + SYNC,
}


class Client:
    """One connection: sends a request, and knows when its answer is whole."""

    def __init__(self, port, database="bench"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.bytes, self.rows, self.columns = b"", [], []
        body = f"user\0bench\0database\0{database}\0\0".encode()
        self.socket.sendall(struct.pack("!ii", len(body) + 8, 196608) + body)
        self.finish()

    def send(self, request):
        self.rows = []
        self.socket.sendall(request)

    def receive(self):
        """Reads once; True when the server is ready for the next request."""
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the pooler closed a connection")
        self.bytes += more
        ready = False
        while len(self.bytes) >= 5:
            size = struct.unpack_from("!i", self.bytes, 1)[0] + 1
            if len(self.bytes) < size:
                break
            kind, body, self.bytes = self.bytes[:1], self.bytes[5:size], self.bytes[size:]
            ready = self.take(kind, body) or ready
        return ready

    def take(self, kind, body):
        if kind == b"E":
            raise ConnectionError(body.replace(b"\0", b" ").decode(errors="replace"))
        if kind == b"T":
            names = re.findall(rb"([^\0]+)\0.{18}", body[2:], re.S)
            self.columns = [name.decode() for name in names]
        if kind == b"D":
            self.rows.append(self.row(body))
        return kind == b"Z"

    @staticmethod
    def row(body):
        at, values = 2, []
        for _ in range(struct.unpack_from("!h", body)[0]):
            size = struct.unpack_from("!i", body, at)[0]
            values.append(body[at + 4:at + 4 + max(size, 0)].decode())
            at += 4 + max(size, 0)
        return values

    def finish(self):
        while not self.receive():
            pass

    def check(self):
        if self.rows != [["bench", "seen"]]:
            raise ConnectionError(f"a wrong answer: {self.rows}")

    def ask(self, request):
        self.send(request)
        self.finish()

    def close(self):
        self.socket.sendall(message(b"X"))
        self.socket.close()


def together(clients, request):
    """All ask at once: after BEGIN, each has a server of its own."""
    for client in clients:
        client.send(request)
    for client in clients:
        client.finish()


def run(clients, request, count):
    """`count` requests of all clients together, each client's next when it has its answer."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        sent = min(count, len(clients))
        for client in clients[:sent]:
            client.send(request)
        answered = 0
        while answered < count:
            readable = selector.select(PATIENCE)
            if not readable:
                raise ConnectionError("no answer")
            for key, _ in readable:
                if not key.data.receive():
                    continue
                key.data.check()
                answered += 1
                if sent < count:
                    key.data.send(request)
                    sent += 1


# --- callgrind ----------------------------------------------------------------------------------

Count = collections.namedtuple("Count", "thread path function address count")


def counts_read(path):
    """Self cost of each instruction in one dump of one thread."""
    thread, place, function, skip = path.rsplit("-", 1)[1], "", "", False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line[0].isdigit():
                if not skip:
                    address, *_, count = line.split()
                    yield Count(thread, place, function, int(address, 16), int(count))
                skip = False
            elif line.startswith("ob="):
                place = line[3:].strip()
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                skip = True  # the next line is what the callee cost, counted there


def threads(pid):
    """Names by valgrind's numbers, which count threads in the order they were made."""
    names = {}
    for number, task in enumerate(sorted(map(int, os.listdir(f"/proc/{pid}/task"))), 1):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
            names[number] = file.read().strip()
    return names


class Callgrind:
    def __init__(self, options):
        self.options = options
        self.seen = set()

    def control(self, action):
        command = [*shlex.split(self.options.prefix), "callgrind_control",
                   f"--vgdb-prefix={self.options.folder}/vgdb", action, str(self.options.pid)]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, timeout=60,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0 or "OK." not in done.stdout:
            raise NotHere(f"callgrind_control {action} says:\n{done.stdout}")

    def zero(self):
        self.control("--zero")

    def dump(self):
        self.control("--dump")
        fresh = set(glob.glob(f"{self.options.folder}/counts.*-*")) - self.seen
        self.seen |= fresh
        if not fresh:
            raise NotHere("callgrind_control --dump wrote no file")
        names = threads(self.options.pid)
        return [count._replace(thread=names.get(int(count.thread), count.thread))
                for path in sorted(fresh) for count in counts_read(path)]
