# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers that say nonsense, at login and later: nobody but their own clients notices.

Each row of a table is a database of its own on the fake server.  A client asks for it and is given
what it is given; a row passes when the pooler lives, when a client of another database is served
within a second, and when there was no storm of logins.
"""
import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

from fake_server import (ANSWER, IDLE, KEY, OK, ROW, SETTINGS, WELCOME, FakeServer, authentication,
                         error, saying, setting)
from harness import Failed, Skip, check, same, sanitized, test
from test_regressions import served
from tools import until
from wire import B, Closed, E, H, P, Q, S, Silent, Wire, c, d, message, startup

LENGTHS = (0, 3, 4, 5, 6, 100, 65536, 65541, 0x7fffffff, 0x80000000, 0xffffffff)
CONFIG = """
server_login_retry = 1
client_login_timeout = 3
query_wait_timeout = 2
server_connect_timeout = 2
query_timeout = 2
log_connections = 0
log_disconnections = 0
workers = 2
"""


class Zoo:
    """The fake server and a pooler in front of it, with a database `test` that is PostgreSQL."""

    def __init__(self, stage, config="", auth=None):
        self.stage, self.fake, self.count = stage, FakeServer(stage), 0
        stage.pooler.start(text=stage.pooler.config(
            CONFIG + config, auth=auth, databases="test = host=127.0.0.1 port=PG\n"
            f"* = host=127.0.0.1 port={self.fake.port}"))
        served(stage, 2)
        self.other = stage.wire()

    def visit(self, script, seconds):
        """One client of a new database: the words it has got within that time."""
        self.count += 1
        name = f"zoo{self.count}"
        self.fake.say[name] = script
        one, found, asked = Wire(*self.stage.where, timeout=5), [], False
        end = time.monotonic() + seconds
        one.send(startup([("user", "postgres"), ("database", name)]))
        try:
            while time.monotonic() < end and len(found) < 50:
                got = one.read(max(0.001, end - time.monotonic()))
                found.append(got.kind)
                if got.kind == "Z":
                    if asked:
                        break
                    one.send(Q("select 1"))
                    asked = True
        except (Closed, Silent, OSError):
            pass
        one.sock.close()
        return name, found

    def show(self, rows, seconds=0.06, many=8):
        """Goes through a table of (name, script), many at a time; another client is served."""
        rows, names, stop, worst = list(rows), {}, threading.Event(), 0.0
        lock = threading.Lock()

        def go():
            while True:
                with lock:
                    if not rows or stop.is_set():
                        return
                    label, script = rows.pop(0)
                name, _ = self.visit(script, seconds)
                names[name] = label
        people = [threading.Thread(target=go, daemon=True) for _ in range(many)]
        for one in people:
            one.start()
        try:
            while any(one.is_alive() for one in people):
                began = time.monotonic()
                same(self.other.value("select 4711", 5), "4711")
                worst = max(worst, time.monotonic() - began)
                check(self.stage.pooler.process.poll() is None,
                      "it has died about", list(names.values())[-5:])
                time.sleep(0.01)
        finally:
            stop.set()
        limit = 3 if sanitized(self.stage) else 1
        check(worst < limit, f"another database's client has waited {worst:.2f} s about "
              f"{list(names.values())[-5:]}")
        self.stage.note(f"the other client has waited {worst * 1000:.0f} ms at most")
        self.rest(names)

    def rest(self, names):
        served(self.stage, 1)
        storms = {names[n]: c for n, c in self.fake.logins.items() if n in names and c > 3}
        check(not storms, f"logins: {storms}")


def header(kind, length):
    return struct.pack("!BI", kind, length)


def zoo(seconds=0.06, many=8):
    """A test that is a table of (name, script)."""
    def make(table):
        def run(stage):
            Zoo(stage).show(table(), seconds, many)
        run.__name__, run.__doc__, run.__module__ = table.__name__, table.__doc__, table.__module__
        return test(start=False, slow=True)(run)
    return make


# --- login ----------------------------------------------------------------------------------------


@zoo()
def login_types():
    """Messages of every sort and wrong lengths behind the authentication."""
    for kind in list(b"RSKZENAvTDCG1d") + [0, 255]:
        for length in LENGTHS:
            yield (f"{kind} {length}", saying(OK + SETTINGS + header(kind, length) + b"\0" * 12,
                                              end=("fin", "rst")[length % 2]))


@zoo()
def login_unknown_types():
    """Every type byte behind the authentication, with a right length."""
    for kind in range(256):
        yield f"{kind}", saying(OK + SETTINGS + header(kind, 8) + bytes(4) + KEY + IDLE, end="fin")


@zoo()
def login_requests():
    """Authentication requests that are unknown, cut or of the wrong length."""
    for code in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 255, 1 << 31, (1 << 32) - 1):
        for rest in (b"", b"\0", b"abcd", b"SCRAM-SHA-256\0\0", b"SCRAM-SHA-256",
                     b"r=x,s=AA==,i=1"):
            yield f"{code} {rest}", saying(authentication(code, rest), end="fin")
    for size in range(4):
        yield f"short {size}", saying(message("R", b"\0\0\0\0"[:size]) + WELCOME, end="fin")


@zoo(0.4, 2)
def login_requests_without_end():
    """Authentication requests, notices and parameters without end."""
    def forever(data):
        many = data * 2000

        def script(visit):
            end = time.monotonic() + 1
            while time.monotonic() < end:
                visit.send(many)
        return script
    yield "plain", forever(authentication(3))
    yield "md5", forever(authentication(5, b"abcd"))
    yield "scram", forever(authentication(10, b"SCRAM-SHA-256\0\0"))
    yield "ok", forever(OK)
    yield "notice", forever(message("N", b"SNOTICE\0Mx\0\0"))
    yield "setting", forever(OK + setting("a", "b"))
    yield "key", forever(OK + KEY)
    yield "notification", forever(OK + message("A", b"\0\0\0\1x\0y\0"))


@zoo()
def login_errors():
    """ErrorResponses and notices of every wrong form."""
    for label, data in (
            ("empty", message("E")), ("end only", message("E", b"\0")),
            ("no end", message("E", b"SFATAL")),
            ("60 KB", message("E", b"M" + b"x" * 60000 + b"\0\0")),
            ("70 KB", message("E", b"M" + b"x" * 70000 + b"\0\0")),
            ("code", error("SFATAL", "Cabcdefghijkl", "M%s%n%d%x")), ("only code", error("C57P03")),
            ("controls", error("SFATAL", "C28000", "M\r\n\x1b[2J\x01\xff")),
            ("no text", error("SFATAL", "C28000", "M")),
            ("twice", error("SFATAL", "C28000", "Mno") * 2),
            ("notice", message("N", b"") + WELCOME),
            ("warning", message("N", b"S") + WELCOME), ("10,000 fields", error(*["Mx"] * 10000))):
        yield label, saying(data, end="fin")
        yield f"{label}, stays", saying(data)
        yield f"{label}, later", saying(OK + SETTINGS + data, end="rst")


@zoo()
def login_parameters():
    """ParameterStatus that is giant, cut, empty or without end, and what does not fit a welcome."""
    for label, data in (
            ("15 KB", setting("xx", "y" * 15900)), ("65 KB", setting("xx", "y" * 65000)),
            ("70 KB", setting("xx", "y" * 70000)), ("1 MB", setting("xx", "y" * 1000000)),
            ("tracked 16 KB", setting("application_name", "y" * 3000) +
             setting("TimeZone", "z" * 5000) + setting("DateStyle", "z" * 8000)),
            ("20,000", b"".join(setting(f"p{i}", "v") for i in range(20000))),
            ("the same 20,000 times", setting("TimeZone", "v") * 20000),
            ("no name", setting("", "")), ("long name", setting("n" * 9000, "v")),
            ("no end", message("S", b"abc")), ("no value", message("S", b"abc\0")),
            ("empty", message("S")),
            ("more behind", message("S", b"TimeZone\0UTC\0x\0")),
            ("no text", setting("client_encoding", b"\xff\xfe\n\r" * 50)),
            ("quotes", setting("TimeZone", "'; drop table t; --\\'\"")),
            ("version", setting("server_version", "x" * 900))):
        yield label, saying(OK + SETTINGS + data + KEY + IDLE, ANSWER)


@zoo(0.5)
def login_parameter_too_large():
    """A tracked value that is too large to be kept: one attempt shows that the server is no use."""
    for size in (8191, 8192, 8193, 16000, 60000):
        yield f"{size}", saying(
            OK + SETTINGS + setting("application_name", "y" * size) + KEY + IDLE, ANSWER)


@zoo()
def login_order():
    """What belongs to a login, missing, twice, in another order, or with more behind it."""
    base = OK + SETTINGS
    for label, data in (
            ("no key", base + IDLE), ("key of 0", base + message("K") + IDLE),
            ("key of 4", base + message("K", b"abcd") + IDLE),
            ("key of 32", base + message("K", b"\0\0\0\1" + b"k" * 32) + IDLE),
            ("key of 256", base + message("K", b"\0\0\0\1" + b"k" * 256) + IDLE),
            ("key of 260", base + message("K", b"k" * 265) + IDLE),
            ("keys", base + KEY * 100 + IDLE),
            ("no authentication", SETTINGS + KEY + IDLE), ("key only", KEY + IDLE),
            ("idle only", IDLE),
            ("transaction", base + KEY + message("Z", b"T")),
            ("failed", base + KEY + message("Z", b"E")),
            ("status x", base + KEY + message("Z", b"x")), ("no status", base + KEY + message("Z")),
            ("long status", base + KEY + message("Z", b"I" * 100)),
            ("idle 1,000 times", WELCOME + IDLE * 1000),
            ("welcome twice", WELCOME * 2), ("notice behind", WELCOME + message("N", b"SX\0\0")),
            ("rows behind", WELCOME + ROW), ("half a row behind", WELCOME + b"D\0\0"),
            ("ok behind", WELCOME + OK),
            ("negotiation", message("v", b"\0\3\0\0\0\0\0\0") + WELCOME),
            ("bad negotiation", message("v", b"\0\3") + WELCOME),
            ("negotiation of many",
             message("v", struct.pack("!II", 0x30000, 0xffffffff)) + WELCOME),
            ("silence", b""), ("a byte", b"R"), ("SSL's answer", b"S"),
            ("http", b"HTTP/1.1 400 Bad Request\r\n\r\n")):
        yield label, saying(data, ANSWER)
        yield f"{label}, FIN", saying(data, end="fin")
        yield f"{label}, RST", saying(data, end="rst")


@zoo()
def login_cut():
    """The login cut at every byte."""
    for cut in range(len(WELCOME)):
        yield f"{cut}", saying(WELCOME[:cut], end=("fin", "rst")[cut % 2])


# --- sessions -------------------------------------------------------------------------------------


@zoo()
def answer_types():
    """Answers of every type, with lengths that can and that cannot be right."""
    for kind in range(256):
        length = (0, 4, 5, 12, 0x7fffffff, 0xffffffff)[kind % 6]
        yield f"{kind} {length}", saying(
            WELCOME, header(kind, length) + b"\0" * 8, ("fin", "rst")[kind % 2])


@zoo()
def answer_known_types():
    """Answers of every known type with every length."""
    for kind in b"ZSETDCGHWcdnst123AINKRVv":
        for length in (0, 3, 4, 5, 12, 0x7fffffff, 0xffffffff):
            yield f"{chr(kind)} {length}", saying(
                WELCOME, header(kind, length) + bytes(min(max(length, 4), 100) - 4), "fin")


@zoo()
def answer_cut():
    """An answer cut at every byte."""
    for cut in range(len(ANSWER) + 1):
        for end in ("fin", "rst"):
            yield f"{cut} {end}", saying(WELCOME, ANSWER[:cut], end)


@zoo()
def answer_order():
    """Answers with too much, too little, or with what nobody asked for."""
    for label, data in (
            ("idle 5 times", ANSWER + IDLE * 5), ("answered 3 times", ANSWER * 3),
            ("answered 1,000 times", ANSWER * 1000),
            ("copy in", message("G", b"\0\0\0") + IDLE),
            ("copy out", message("H", b"\0\0\0") + IDLE),
            ("copy both", message("W", b"\0\0\0") + IDLE),
            ("copy in only", message("G", b"\0\0\0")),
            ("in a transaction", message("Z", b"T")), ("status x", message("Z", b"x")),
            ("no status", message("Z")),
            ("70 KB of status", message("Z", b"I" * 70000)),
            ("setting 65 KB", setting("a", "b" * 65400) + ANSWER),
            ("setting 70 KB", setting("a", "b" * 70000) + ANSWER),
            ("tracked 65 KB", setting("application_name", "b" * 65000) + ANSWER),
            ("10,000 settings", b"".join(setting("application_name",
                                                 str(i)) for i in range(10000)) + ANSWER),
            ("no setting", message("S", b"x") + ANSWER),
            ("notifications", message("A", b"xx") * 1000 + ANSWER),
            ("errors", message("E", b"") + IDLE), ("parsed 100 times", message("1") * 100 + IDLE),
            ("welcome again", WELCOME), ("password?", authentication(3) + ANSWER),
            ("key", KEY + ANSWER)):
        yield label, saying(WELCOME, data)
        yield f"{label}, FIN", saying(WELCOME, data, "fin")
        yield f"{label}, RST", saying(WELCOME, data, "rst")


@zoo()
def chatter_when_idle():
    """Servers that say something, or go, while nobody has asked them anything."""
    def later(data, end):
        def script(visit):
            visit.rst = end == "rst"
            visit.send(WELCOME)
            time.sleep(0.03)
            visit.send(data)
            if not end:
                visit.serve()
        return script
    for label, data in (("nothing", b""), ("idle", IDLE), ("row", ROW), ("half", b"D\0\0"),
                        ("zero length", b"Z\0\0\0\0"),
                        ("setting", setting("TimeZone", "x")),
                        ("fatal", error("SFATAL", "C57P01", "Mx")),
                        ("notice", message("N", b"SX\0Mx\0\0") * 100),
                        ("endless", b"D\x7f\xff\xff\xff" + b"x" * 500000)):
        for end in (None, "fin", "rst"):
            yield f"{label} {end}", later(data, end)


# --- SCRAM ----------------------------------------------------------------------------------------


@test(start=False, slow=True)
def scram_answers(stage):
    """Wrong answers in SCRAM: nonces, salts and counts that are giant, cut or none."""
    def continues(text):
        def script(visit):
            visit.send(authentication(10, b"SCRAM-SHA-256\0\0"))
            _, body = visit.read()
            nonce = body[body.index(b"r=") + 2:]
            data = text(nonce) if callable(text) else text
            visit.send(authentication(11, data))
            visit.read()
            visit.send(authentication(12, b"v=" + b"A" * 44 + b"="), WELCOME)
            visit.serve()
        return script
    salt = base64.b64encode(b"0123456789abcdef")
    rows = [("none", b""), ("r", b"r"), ("r=", b"r="), ("other nonce", b"r=x,s=AAAA,i=1"),
            ("binary", b"\0\xff" * 50),
            ("m=", lambda n: b"m=x,r=" + n + b"x,s=" + salt + b",i=4096"),
            ("same nonce", lambda n: b"r=" + n + b",s=" + salt + b",i=4096"),
            ("nonce of 1 KB", lambda n: b"r=" + n + b"x" * 1000 + b",s=" + salt + b",i=1"),
            ("nonce of 60 KB", lambda n: b"r=" + n + b"x" * 60000 + b",s=" + salt + b",i=1"),
            ("nonce of 1 MB", lambda n: b"r=" + n + b"x" * 1000000 + b",s=" + salt + b",i=1"),
            ("no salt", lambda n: b"r=" + n + b"x,i=4096"),
            ("empty salt", lambda n: b"r=" + n + b"x,s=,i=4096"),
            ("bad salt", lambda n: b"r=" + n + b"x,s=!!!!,i=4096"),
            ("salt of 3 KB", lambda n: b"r=" + n + b"x,s=" + b"AAAA" * 1000 + b",i=1"),
            ("salt of 60 KB", lambda n: b"r=" + n + b"x,s=" + b"AAAA" * 15000 + b",i=1"),
            ("no count", lambda n: b"r=" + n + b"x,s=" + salt),
            ("empty count", lambda n: b"r=" + n + b"x,s=" + salt + b",i="),
            ("count 0", lambda n: b"r=" + n + b"x,s=" + salt + b",i=0"),
            ("count -1", lambda n: b"r=" + n + b"x,s=" + salt + b",i=-1"),
            ("count 2^32+1", lambda n: b"r=" + n + b"x,s=" + salt + b",i=4294967297"),
            ("count 2^64+1", lambda n: b"r=" + n + b"x,s=" + salt + b",i=18446744073709551617"),
            ("count x", lambda n: b"r=" + n + b"x,s=" + salt + b",i=4096x"),
            ("wrong signature", lambda n: b"r=" + n + b"x,s=" + salt + b",i=4096")]
    Zoo(stage, auth='"postgres" "secret"\n"admin" "admin"\n').show(
        [(label, continues(text)) for label, text in rows])


@test(start=False)
def scram_of_millions(stage):
    """Servers that ask for ten million rounds keep nobody from logging in, nor us from leaving."""
    def script(visit):
        visit.send(authentication(10, b"SCRAM-SHA-256\0\0"))
        _, body = visit.read()
        nonce = body[body.index(b"r=") + 2:]
        visit.send(authentication(11, b"r=" + nonce + b"x,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=9999999"))
        visit.drain()
    fake = FakeServer(stage)
    stage.pooler.start(text=stage.pooler.config(
        CONFIG + "workers = 1", databases="test = host=127.0.0.1 port=PG\n"
        f"* = host=127.0.0.1 port={fake.port}"))
    for number in range(4):
        fake.say[f"slow{number}"] = script
        one = Wire(*stage.where)
        one.send(startup([("user", "u_scram"), ("database", f"slow{number}")]))
        stage.keep(one.sock)
    check(until(lambda: len(fake.logins) == 4, 2), fake.logins)
    time.sleep(0.1)
    served(stage, 1)
    served(stage, 2, user="u_scram")
    stage.pooler.signal(signal.SIGINT)
    same(stage.pooler.wait(4), 0)


# --- name servers that do not answer --------------------------------------------------------------


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **found)
{
	int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
	*(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
	if (host == NULL || strncmp(host, "slow.", 5) != 0)
		return next(host, port, hints, found);
	sleep(4);
	return EAI_AGAIN;
}
"""


def slow_names(stage):
    """A pooler for which names that begin with `slow.` take 4 s; two look-ups are under way."""
    source, shim = stage.folder / "shim.c", stage.folder / "shim.so"
    source.write_text(SHIM)
    if not shutil.which("gcc"):
        raise Skip("needs gcc")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, source], check=True)
    shim.chmod(0o755)
    databases = """
test = host=localhost port=PG dbname=test
second = host=127.0.0.1 port=PG
slow0 = host=slow.invalid port=PG
slow1 = host=slow.too port=PG
"""
    stage.pooler.start(text=stage.pooler.config(CONFIG, databases=databases),
                       env=dict(os.environ, LD_PRELOAD=str(shim),
                                ASAN_OPTIONS="verify_asan_link_order=0"))
    for name in ("slow0", "slow1"):
        stage.raw().send(startup([("user", "postgres"), ("database", name)]))
    time.sleep(0.1)


@test(start=False, ours=True, leaks=False)
def slow_name_and_others(stage):
    """Who waits for a name holds up nobody: not by address, not by another name."""
    slow_names(stage)
    served(stage, 1, database="second")
    served(stage, 1)


@test(start=False, ours=True, leaks=False)
def slow_name_and_shutdown(stage):
    """SIGINT does not wait for names."""
    slow_names(stage)
    stage.pooler.signal(signal.SIGINT)
    same(stage.pooler.wait(3), 0)


# --- faults that once were there ------------------------------------------------------------------


@test(start=False)
def errors_without_a_text(stage):
    """Whatever a server says when it turns a login away: one attempt per server_login_retry."""
    fake = FakeServer(stage)
    says = {
        "bare": message("E"), "end": message("E", b"\0"), "cut": message("E", b"SFATAL"),
        "code": error("C53300"), "severity": error("SFATAL"), "no_text": error("SFATAL", "C57P03"),
        "empty_text": error("SFATAL", "C57P03", "M"), "full": error("SFATAL", "C53300", "Mno"),
        "later": OK + error("SFATAL", "C53300"), "short": b"E\0\0\0\3", "nothing": b"",
        "half": message("E", b"SFATAL\0C53300\0\0")[:9],
        "warning": error("SWARNING", "C01000"), "long": error("SFATAL", "M" + "x" * 60000),
    }
    for name, bytes_ in says.items():
        fake.say[name] = lambda visit, b=bytes_: visit.send(b)
    stage.pooler.start(text=stage.pooler.config(
        "server_login_retry = 1\nlog_connections = 0",
        databases=f"* = host=127.0.0.1 port={fake.port}"))
    for name in says:
        for _ in range(2):
            stage.raw().send(startup([("user", "postgres"), ("database", name)]))
    time.sleep(2.3)
    storms = {n: fake.logins.get(n, 0) for n in says if not 1 <= fake.logins.get(n, 0) <= 3}
    check(not storms, f"logins in 2.3 s: {storms}")
    check(len(stage.pooler.text().splitlines()) < 60 + 12 * len(says), "a flood in the log")


@test(start=False)
def copy_that_failed_is_not_stuck(stage):
    """A client that streams COPY data to a server that has given up gets rid of the rest."""
    fake, given_up = FakeServer(stage), threading.Event()

    def copy(visit):
        visit.send(WELCOME)
        while True:
            kind, body = visit.read()
            if kind == "X":
                return
            if kind == "Q" and b"copy" in body:
                visit.send(message("G", b"\0\0\1\0\0"))
                given_up.wait(5)
                visit.send(error("SERROR", "C22P02", "Mbad"), IDLE)
                time.sleep(0.1)
            elif kind in "QS":
                visit.send(ANSWER)
    fake.say["fake"] = copy
    stage.pooler.start(text=stage.pooler.config(
        "", databases=f"fake = host=127.0.0.1 port={fake.port} pool_size=1"))
    one = stage.wire(database="fake")
    one.send(Q("copy t from stdin"))
    same(one.reply(1), ["G"])
    data, sent = d("x" * 1000) * 1000, 0
    one.sock.settimeout(0.3)
    try:
        while True:
            sent += one.sock.send(data[sent % len(data):])
    except socket.timeout:
        pass
    check(sent > 100000, sent)
    given_up.set()
    same(one.reply(2, 3), ["E[22P02]", "Zi"])
    one.sock.settimeout(3)
    try:
        for _ in range(20):
            at = sent % len(data)
            one.sock.sendall(data[at:])
            sent += len(data) - at
    except socket.timeout:
        raise Failed("stuck") from None
    one.send(c)
    same(one.value("select 1", 3), "4")
    same(stage.wire(database="fake").value("select 1", 3), "4")


@test(start=False)
def fatal_and_reset(stage):
    """An error and then RST: exactly that error, then the end; also in the middle of a pipeline."""
    fake = FakeServer(stage)

    def fatal(visit):
        visit.send(WELCOME)
        visit.read()
        visit.rst = True
        visit.send(error("SFATAL", "VFATAL", "C57P05", "Mits own"))
    fake.say["fake"] = fatal
    stage.pooler.start(text=stage.pooler.config(
        "server_login_retry = 0.1",
        databases=f"fake = host=127.0.0.1 port={fake.port} pool_size=1"))
    for messages in ([Q("select 1")], [Q("select 1")] * 3, [P("", "x"), B(), E(), S],
                     [Q("begin"), H]):
        one = stage.wire(database="fake", timeout=4)
        one.send(*messages)
        same(one.reply(3, 3), ["E[57P05]", "EOF"])
        one.sock.close()


@test(start=False)
def welcome_of_16_kilobytes(stage):
    """A server that reports 16 KB of parameters is a server like others."""
    fake = FakeServer(stage)
    welcomes = {
        "untracked": SETTINGS + setting("xx", "y" * 15900),
        "tracked": SETTINGS + setting("application_name", "y" * 5000) +
        setting("TimeZone", "z" * 5000) + setting("IntervalStyle", "z" * 5500),
        "many": SETTINGS + b"".join(setting(f"p{i}", "v" * 20) for i in range(550)),
    }
    for name, settings in welcomes.items():
        def script(visit, data=OK + settings + KEY + IDLE):
            visit.send(data)
            visit.serve()
        fake.say[name] = script
    stage.pooler.start(text=stage.pooler.config(
        "", databases=f"* = host=127.0.0.1 port={fake.port}"))
    for name in welcomes:
        for _ in range(3):
            one = stage.wire(database=name, timeout=3)
            same(one.value("select 1", 3), "4", name)
            one.close()
        same(fake.logins[name], 1, name)
