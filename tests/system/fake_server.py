# SPDX-License-Identifier: GPL-2.0-or-later
"""A server that says whatever a test wants, by name of the database that is asked for.

`say[database]` is a function that is given a Visit: one connection, whose startup message has been
read.  When the function returns, the connection ends as it has asked for: FIN, or RST.  A database
that is not in `say` is served like a small PostgreSQL.  All connections run in threads of the
test's process; what they see is counted in `logins` and `seen`.
"""
import socket
import struct
import threading

from wire import CANCEL_REQUEST, SSL_REQUEST, cstr, message


def authentication(code, rest=b""):
    return message("R", struct.pack("!I", code) + rest)


def setting(name, value):
    return message("S", cstr(name) + cstr(value))


OK = authentication(0)
SETTINGS = b"".join(setting(*pair) for pair in (
    ("server_version", "15.0"), ("client_encoding", "UTF8"), ("DateStyle", "ISO, MDY"),
    ("TimeZone", "UTC"), ("standard_conforming_strings", "on"), ("application_name", "")))
KEY = message("K", b"\0\0\1\1abcd")
IDLE = message("Z", b"I")
WELCOME = OK + SETTINGS + KEY + IDLE
ROW = (message("T", b"\0\1x\0" + b"\0" * 18) + message("D", b"\0\1\0\0\0\0014") +
       message("C", b"SELECT 1\0"))
ANSWER = ROW + IDLE


def error(*fields):
    """An ErrorResponse of just these fields, such as "SFATAL"."""
    return message("E", b"".join(cstr(f) for f in fields) + b"\0")


class Visit:
    """One connection to the fake server."""

    def __init__(self, server, sock):
        self.server, self.sock, self.buffer, self.params = server, sock, b"", {}
        self.rst = False

    def send(self, *parts):
        self.sock.sendall(b"".join(parts))

    def take(self, count):
        while len(self.buffer) < count:
            data = self.sock.recv(65536)
            if not data:
                raise EOFError
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def first(self):
        """Reads first packets until a startup message; whether there is one."""
        while True:
            size, code = struct.unpack("!II", self.take(8))
            body = self.take(size - 8)
            if code == SSL_REQUEST:
                self.send(b"N")
                continue
            if code == CANCEL_REQUEST:
                return False
            parts = body.split(b"\0")
            self.params = {k.decode(): v.decode() for k, v in zip(parts[::2], parts[1::2]) if k}
            return True

    def read(self):
        """The next message: its type and body."""
        head = self.take(5)
        return chr(head[0]), self.take(struct.unpack("!I", head[1:])[0] - 4)

    def drain(self):
        """Reads until the other side ends."""
        while self.sock.recv(65536):
            pass

    def serve(self, answer=ANSWER):
        """The same answer to every query and Sync."""
        while True:
            kind, body = self.read()
            self.server.seen.append((self.params.get("database"), kind, body))
            if kind == "X":
                return
            if kind in "QS":
                self.send(answer)


class FakeServer:
    """Listens from the start; `stage` closes it."""

    def __init__(self, stage):
        self.port = stage.ports.take()
        self.say, self.logins, self.seen, self.visits = {}, {}, [], []
        self.lock, self.closed = threading.Lock(), False
        self.sock = socket.create_server(("127.0.0.1", self.port), backlog=500)
        stage.keep(self)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            with self.lock:
                if self.closed:
                    sock.close()
                    return
                visit = Visit(self, sock)
                self.visits.append(visit)
            threading.Thread(target=self.visit, args=(visit,), daemon=True).start()

    def visit(self, visit):
        sock = visit.sock
        try:
            sock.settimeout(20)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if visit.first():
                name = visit.params.get("database")
                with self.lock:
                    self.logins[name] = self.logins.get(name, 0) + 1
                self.say.get(name, usual)(visit)
        except (OSError, EOFError, struct.error, ValueError):
            pass
        with self.lock:
            if visit in self.visits:
                self.visits.remove(visit)
        if visit.rst:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()

    def close(self):
        with self.lock:
            self.closed, left = True, list(self.visits)
        self.sock.close()
        for visit in left:
            try:
                visit.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def usual(visit):
    visit.send(WELCOME)
    visit.serve()


def saying(login=WELCOME, answer=None, end=None):
    """A script: `login` is said at once, `answer` to the first query (None: waits for the end);
    end: "fin" or "rst" behind that, or None to go on."""
    def script(visit):
        visit.rst = end == "rst"
        if login:
            visit.send(login)
        if answer is None:
            if not end:
                visit.drain()
            return
        if end:
            visit.take(1)
            visit.send(answer)
            return
        visit.serve(answer)
    return script
