# SPDX-License-Identifier: GPL-2.0-or-later
"""PostgreSQL's protocol by hand: messages as short functions, replies as short words.

Messages are bytes, so that a test decides what goes out in one send.  A reply is written as in
`1 2 T1 D(1) C(SELECT 1) Zi`: the type byte, what tells it from others in brackets, and the status
behind Z.  An ErrorResponse is E[sqlstate]; EOF is the end of the connection.
"""
import base64
import hashlib
import hmac
import os
import re
import socket
import struct
import time

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
V30, V32 = 0x30000, 0x30002


class PgError(Exception):
    """An ErrorResponse where none was wanted."""

    def __init__(self, fields):
        super().__init__(f"{fields.get('S')} {fields.get('C')} {fields.get('M')}")
        self.fields = fields
        self.sqlstate, self.text = fields.get("C"), fields.get("M")


class Closed(Exception):
    """The other side has ended the connection."""


class Silent(Exception):
    """Nothing came in the time that was given."""


# --- messages a client sends ------------------------------------------------------------------------


def cstr(text):
    return (text if isinstance(text, bytes) else text.encode()) + b"\0"


def message(kind, body=b""):
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


def packet(code, body=b""):
    """A first packet: it has no type byte."""
    return struct.pack("!II", len(body) + 8, code) + body


def startup(params, protocol=V30):
    body = b"".join(cstr(name) + cstr(value) for name, value in params)
    return packet(protocol, body + b"\0")


def Q(sql):
    return message("Q", cstr(sql))


def P(name, sql, types=()):
    return message("P", cstr(name) + cstr(sql) + struct.pack(f"!H{len(types)}I", len(types), *types))


def B(portal="", statement="", *params):
    body = cstr(portal) + cstr(statement) + struct.pack("!HH", 0, len(params))
    for value in params:
        if value is None:
            body += struct.pack("!i", -1)
        else:
            value = value if isinstance(value, bytes) else str(value).encode()
            body += struct.pack("!I", len(value)) + value
    return message("B", body + struct.pack("!H", 0))


def D(kind="P", name=""):
    return message("D", kind.encode() + cstr(name))


def E(portal="", rows=0):
    return message("E", cstr(portal) + struct.pack("!I", rows))


def C(kind, name):
    return message("C", kind.encode() + cstr(name))


def F(oid, *args):
    body = struct.pack("!IHH", oid, 0, len(args))
    for value in args:
        body += struct.pack("!I", len(str(value))) + str(value).encode()
    return message("F", body + struct.pack("!H", 0))


def d(data):
    return message("d", data if isinstance(data, bytes) else data.encode())


def f(why="stop"):
    return message("f", cstr(why))


c = message("c")
S = message("S")
H = message("H")
X = message("X")


# --- what comes back --------------------------------------------------------------------------------


class Message:
    """One message from the server side."""

    def __init__(self, kind, body):
        self.kind, self.body = kind, body

    def fields(self):
        """Of an ErrorResponse or NoticeResponse."""
        parts = self.body.rstrip(b"\0").split(b"\0")
        return {p[:1].decode(): p[1:].decode("utf-8", "replace") for p in parts if p}

    def strings(self):
        return [p.decode("utf-8", "replace") for p in self.body.split(b"\0")[:-1]]

    def row(self):
        count, at, values = struct.unpack_from("!H", self.body)[0], 2, []
        for _ in range(count):
            size = struct.unpack_from("!i", self.body, at)[0]
            at += 4
            if size < 0:
                values.append(None)
            else:
                values.append(self.body[at:at + size].decode("utf-8", "replace"))
                at += size
        if at != len(self.body):
            raise ValueError(f"a DataRow of {len(self.body)} bytes ends at {at}")
        return values

    def columns(self):
        """Of a RowDescription: (name, type oid, size) of each."""
        count, at, found = struct.unpack_from("!H", self.body)[0], 2, []
        for _ in range(count):
            end = self.body.index(b"\0", at)
            name = self.body[at:end].decode()
            _, _, oid, size, _, _ = struct.unpack_from("!IHIhih", self.body, end + 1)
            found.append((name, oid, size))
            at = end + 19
        if at != len(self.body):
            raise ValueError("a RowDescription with bytes left over")
        return found

    def word(self):
        kind = self.kind
        if kind == "Z":
            return "Z" + {"I": "i"}.get(self.body.decode(), self.body.decode())
        if kind == "C":
            return f"C({self.strings()[0]})"
        if kind == "E":
            return f"E[{self.fields().get('C')}]"
        if kind == "T":
            return f"T{len(self.columns())}"
        if kind == "D":
            values = ["null" if v is None else v if len(v) < 100 else f"{len(v)} bytes"
                      for v in self.row()]
            return f"D({','.join(values)})"
        if kind == "S":
            return "S(%s=%s)" % tuple(self.strings()[:2])
        if kind == "d":
            return f"d({self.body.decode('utf-8', 'replace').rstrip()})" \
                if len(self.body) < 100 else f"d({len(self.body)} bytes)"
        return kind


def words(text):
    """Cuts an expected reply into its words; brackets may hold blanks."""
    return re.findall(r"[^\s(\[]+(?:\([^)]*\)|\[[^\]]*\])?", text)


class Wire:
    """One connection.  What the server has said at login is kept in .settings and .key."""

    def __init__(self, host, port, timeout=10):
        self.where, self.timeout = (host, port), timeout
        self.buffer = bytearray()
        self.settings, self.key, self.negotiated, self.notices = {}, None, None, []
        self.asked = None  # the kind of password that was asked for
        if host.startswith("/"):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.sock = socket.create_connection((host, port), timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    # sending and receiving

    def send(self, *parts):
        self.sock.sendall(b"".join(parts))

    def raw(self, count, timeout=None):
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while len(self.buffer) < count:
            left = end - time.monotonic()
            if left <= 0:
                raise Silent()
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(max(65536, min(count - len(self.buffer), 1 << 20)))
            except socket.timeout:
                raise Silent() from None
            except ConnectionError:
                data = b""
            finally:
                self.sock.settimeout(self.timeout)
            if not data:
                raise Closed()
            self.buffer += data
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read(self, timeout=None):
        """The next message, whatever it is."""
        head = self.raw(5, timeout)
        size = struct.unpack("!I", head[1:])[0]
        try:
            return Message(head[:1].decode("latin-1"), self.raw(size - 4, timeout))
        except Silent:
            self.buffer[:0] = head
            raise

    def expect(self, kind, timeout=None):
        """Reads on until a message of this kind; an error on the way is raised."""
        while True:
            got = self.read(timeout)
            if got.kind == "N":
                self.notices.append(got.fields())
            if got.kind == "S":
                name, value = got.strings()[:2]
                self.settings[name] = value
            if got.kind == kind:
                return got
            if got.kind == "E":
                raise PgError(got.fields())

    def reply(self, count, timeout=None, ignore="SN"):
        """The next `count` words."""
        found = []
        while len(found) < count:
            try:
                got = self.read(timeout)
            except Closed:
                found.append("EOF")
                break
            except Silent:
                found.append("(silence)")
                break
            if got.kind not in ignore:
                found.append(got.word())
        return found

    def quiet(self, seconds=0.1):
        """What comes though nothing should: an empty list if nothing does."""
        return [w for w in self.reply(1, seconds) if w != "(silence)"]

    # sessions

    def login(self, user, database, password=None, params=(), protocol=V30, scram=None):
        """Startup to ReadyForQuery.  scram: options of scram_login, for mistakes made on purpose."""
        pairs = [("user", user)]
        if database is not None:
            pairs.append(("database", database))
        self.send(startup(pairs + list(params), protocol))
        self.finish_login(user, password, scram)
        return self

    def finish_login(self, user, password, scram=None):
        while True:
            got = self.read()
            if got.kind == "E":
                raise PgError(got.fields())
            if got.kind == "v":
                newest, count = struct.unpack_from("!II", got.body)
                self.negotiated = (newest, got.body[8:].split(b"\0")[:count])
                continue
            if got.kind != "R":
                raise ValueError(f"{got.kind} in place of an authentication request")
            code = struct.unpack_from("!I", got.body)[0]
            if code == 0:
                break
            self.asked = {3: "plain", 5: "md5", 10: "scram"}.get(code, code)
            if code == 3:
                self.send(message("p", cstr(password or "")))
            elif code == 5:
                self.send(message("p", cstr(md5(user, password or "", got.body[4:8]))))
            elif code == 10:
                self.mechanisms = got.body[4:].split(b"\0")[:-2]
                scram_login(self, password or "", **(scram or {}))
            else:
                raise ValueError(f"authentication request {code}")
        while True:
            got = self.read()
            if got.kind == "E":
                raise PgError(got.fields())
            if got.kind == "S":
                name, value = got.strings()[:2]
                self.settings[name] = value
            elif got.kind == "K":
                self.key = got.body
            elif got.kind == "N":
                self.notices.append(got.fields())
            elif got.kind == "Z":
                return
            else:
                raise ValueError(f"{got.kind} in the welcome")

    def query(self, sql, timeout=None):
        """Rows of a simple query; an error is raised when its ReadyForQuery has come."""
        self.send(Q(sql))
        return self.rows(timeout)

    def rows(self, timeout=None):
        found, error = [], None
        self.columns, self.tags = None, []
        while True:
            got = self.read(timeout)
            if got.kind == "D":
                found.append(got.row())
            elif got.kind == "T":
                self.columns = got.columns()
            elif got.kind == "C":
                self.tags.append(got.strings()[0])
            elif got.kind == "N":
                self.notices.append(got.fields())
            elif got.kind == "S":
                name, value = got.strings()[:2]
                self.settings[name] = value
            elif got.kind == "E":
                error = PgError(got.fields())
                if error.fields.get("S") in ("FATAL", "PANIC"):
                    raise error
            elif got.kind == "Z":
                self.status = got.body.decode()
                if error:
                    raise error
                return found

    def value(self, sql, timeout=None):
        rows = self.query(sql, timeout)
        return rows[0][0] if rows else None

    def ended(self, timeout=None):
        """Waits for the end of the connection; the fatal error that came before it, or None."""
        error = None
        while True:
            try:
                got = self.read(timeout)
            except Closed:
                return error
            if got.kind == "E":
                error = PgError(got.fields())

    def reset(self):
        """Away without a word: RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        try:
            self.send(X)
        except OSError:
            pass
        self.sock.close()


def cancel(where, key, wait=True, timeout=10):
    """Sends a CancelRequest with what BackendKeyData held, and waits for the other side to end."""
    wire = Wire(*where, timeout=timeout)
    wire.send(packet(CANCEL_REQUEST, key))
    if wait:
        try:
            wire.raw(1)
        except Closed:
            pass
    wire.sock.close()


# --- passwords --------------------------------------------------------------------------------------


def md5_secret(user, password):
    return "md5" + hashlib.md5((password + user).encode()).hexdigest()


def md5(user, password, salt):
    inner = md5_secret(user, password)[3:].encode()
    return "md5" + hashlib.md5(inner + salt).hexdigest()


def scram_keys(password, salt, iterations):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client = hmac.digest(salted, b"Client Key", "sha256")
    server = hmac.digest(salted, b"Server Key", "sha256")
    return client, hashlib.sha256(client).digest(), server


def scram_secret(password, iterations=4096, salt=None):
    salt = salt or os.urandom(16)
    _, stored, server = scram_keys(password, salt, iterations)
    words_ = [base64.b64encode(x).decode() for x in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{words_[0]}${words_[1]}:{words_[2]}"


def scram_login(wire, password, gs2="n,,", mechanism="SCRAM-SHA-256", binding=None, bad_nonce=False):
    """Both rounds of SCRAM; checks the server's signature."""
    nonce = base64.b64encode(os.urandom(18)).decode()
    bare = f"n=,r={nonce}"
    first = (gs2 + bare).encode()
    wire.send(message("p", cstr(mechanism) + struct.pack("!I", len(first)) + first))
    got = wire.expect("R")
    if struct.unpack_from("!I", got.body)[0] != 11:
        raise ValueError("no SASLContinue")
    server_first = got.body[4:].decode()
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    if not fields["r"].startswith(nonce) or len(fields["r"]) <= len(nonce):
        raise ValueError("the server has not kept the nonce")
    salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    client, stored, server = scram_keys(password, salt, iterations)
    both = nonce + "x" if bad_nonce else fields["r"]
    channel = base64.b64encode((binding or gs2).encode()).decode()
    final = f"c={channel},r={both}"
    signed = f"{bare},{server_first},{final}".encode()
    proof = bytes(a ^ b for a, b in zip(client, hmac.digest(stored, signed, "sha256")))
    final += f",p={base64.b64encode(proof).decode()}"
    wire.send(message("p", final.encode()))
    got = wire.expect("R")
    if struct.unpack_from("!I", got.body)[0] != 12:
        raise ValueError("no SASLFinal")
    verifier = base64.b64decode(got.body[4:].decode().removeprefix("v="))
    if verifier != hmac.digest(server, signed, "sha256"):
        raise ValueError("wrong server signature")
