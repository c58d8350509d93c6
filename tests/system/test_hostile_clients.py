# SPDX-License-Identifier: GPL-2.0-or-later
"""Clients that send nonsense, or half of something, at every point: nobody else notices.

Every table is gone through in batches: as many clients as the pool has servers are brought to the
same point, each sends its nonsense, and they leave by FIN or RST in turn.  Behind each table a
fresh client is served at once, and the pool comes to rest.
"""
import itertools
import random
import socket
import struct
import threading
import time

from harness import PASSWORD, Failed, check, same, test
from test_regressions import ONE, leave, rows_of, served
from tools import until
from wire import (B, CANCEL_REQUEST, Closed, D, E, GSS_REQUEST, P, Q, S, SSL_REQUEST, Silent, V30,
                  V32, X, cstr, message, packet, startup)

LENGTHS = (0, 3, 4, 5, 0x7fffffff, 0xffffffff)
TYPES = tuple(range(256))
HELLO = startup([("user", "postgres"), ("database", "test")])
QUIET = "log_connections = 0\nlog_disconnections = 0\nlog_pooler_errors = 0\n"
WIDE = QUIET + "default_pool_size = 24\nserver_login_retry = 0.1"
BATCH = 24


def part(sock, number):
    if number % 2:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def reach(sock, end):
    """Reads until the bytes end like this; whether they do."""
    data = b""
    while not data.endswith(end):
        more = sock.recv(65536)
        if not more:
            return False
        data += more
    return True


def storm(stage, table, steps=(), linger=False, **who):
    """Each row of the table is sent by a client of its own that has gone the steps (what to send,
    what its answer ends with) before; linger: they wait for what is said before they leave; who:
    how a fresh client logs in."""
    table = iter(table)
    for at in itertools.count():
        rows = list(itertools.islice(table, BATCH))
        if not rows:
            break
        people = [socket.create_connection(stage.where, 5) for _ in rows]
        for send, end in steps:
            for sock in people:
                sock.sendall(send)
            for sock in people:
                check(reach(sock, end), f"refused at {send!r}, batch {at}")
        for number, (sock, row) in enumerate(zip(people, rows)):
            try:
                sock.sendall(row)
                if linger:
                    sock.settimeout(0.05)
                    sock.recv(65536)
            except OSError:
                pass
            part(sock, number + at)
        check(stage.pooler.process.poll() is None,
              f"it has died of one of {rows[0]!r} .. {rows[-1]!r}")
    rest(stage, **who)


def rest(stage, **who):
    """A fresh client is served, and nobody is left."""
    served(stage, 2, **who)
    check(until(lambda: not stage.busy(), 5, 0.05), stage.busy())


def nonsense(lengths=LENGTHS, types=TYPES):
    """A header of every type and length, with some bytes behind it."""
    for length in lengths:
        for kind in types:
            yield struct.pack("!BI", kind, length) + b"\0" * 8


LOGIN = (HELLO, b"Z\0\0\0\5I")
BEGIN = (Q("begin"), b"Z\0\0\0\5T")
COPY = (Q("copy t from stdin"), b"G\0\0\0\t\0\0\1\0\0")


@test(WIDE)
def types_before_startup(stage):
    """Every type and length in place of a startup message."""
    served(stage, 2)
    storm(stage, nonsense())


@test(WIDE + "\nauth_type = plain", auth=f'"postgres" "{PASSWORD}"\n"admin" "admin"\n')
def types_in_login(stage):
    """Every type and length in place of a password."""
    served(stage, 2, password=PASSWORD)
    asked = (HELLO, b"R\0\0\0\x08\0\0\0\3")
    storm(stage, nonsense(), [asked], password=PASSWORD)


@test(WIDE)
def types_when_idle(stage):
    """Every type and length from a client that idles."""
    storm(stage, nonsense(), [LOGIN])


@test(WIDE, slow=True)
def types_in_transaction(stage):
    """Every type and lengths that cannot be right, in a transaction."""
    storm(stage, nonsense(LENGTHS[:2] + LENGTHS[5:]), [LOGIN, BEGIN])


@test(WIDE, slow=True)
def large_types_in_transaction(stage):
    """Every type and lengths that can be right, in a transaction."""
    storm(stage, nonsense(LENGTHS[2:5]), [LOGIN, BEGIN])


@test(WIDE, slow=True)
def types_in_copy(stage):
    """Every type and lengths that cannot be right, in COPY FROM STDIN."""
    storm(stage, nonsense(LENGTHS[:2] + LENGTHS[5:]), [LOGIN, COPY])


@test(WIDE, slow=True)
def large_types_in_copy(stage):
    """Every type and lengths that can be right, in COPY FROM STDIN."""
    storm(stage, nonsense(LENGTHS[2:5]), [LOGIN, COPY])


@test(QUIET)
def types_on_the_console(stage):
    """Every type and length on the console."""
    storm(stage, nonsense(), [(startup([("user", "admin"), ("database", "pgbouncer")]), LOGIN[1])])


@test(WIDE)
def startup_messages(stage):
    """Startup messages of every kind of wrong length, version and content."""
    bodies = (b"", b"\0", b"user\0", b"user\0a\0\0", b"user\0a\0", b"A" * 200, b"\0" * 50,
              b"user\0postgres\0user\0x\0\0", b"user\0\0database\0\0\0",
              b"user\0postgres\0options\0-c\0\0", b"user\0postgres\0replication\0x\0\0",
              b"user\0postgres\0database\0\xff\xfe\0_pq_.x\0\1\0\0")
    codes = (V30, V32, 0x20000, 0x3ffff, 0x40000, SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, 0,
             0xffffffff)
    lengths = (0, 3, 4, 7, 8, 9, 100, 65535, 65536, 0x7fffffff, 0xffffffff)
    storm(stage, (struct.pack("!II", length, code) + body
                  for length in lengths for code in codes for body in bodies))
    storm(stage, (packet(code, body) for code in codes for body in bodies), linger=True)


@test(WIDE)
def encryption_requests(stage):
    """Requests for encryption, many, together, and with what looks like TLS behind them."""
    ssl, gss = packet(SSL_REQUEST), packet(GSS_REQUEST)
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2
    rows = [ssl, gss, ssl + gss, gss + ssl, ssl * 2, ssl * 1000, gss * 1000, (ssl + gss) * 1000,
            ssl + hello, hello, ssl + HELLO, ssl[:5], ssl + HELLO + Q("select 1") + X]
    storm(stage, rows * 4, linger=True)


@test(WIDE)
def cancel_requests(stage):
    """Cancel requests with keys of every length, cut and with bytes behind them."""
    chance = random.Random(1)
    rows = [packet(CANCEL_REQUEST, chance.randbytes(n)) for n in (0, 1, 4, 7, 8, 9, 32, 255, 256,
        300)
            for _ in range(10)]
    whole = packet(CANCEL_REQUEST, bytes(8))
    rows += [whole[:n] for n in range(len(whole))] + [whole * 3, whole + HELLO, HELLO + whole]
    storm(stage, rows)


@test(WIDE)
def oversized_startup(stage):
    """Startup messages about the largest that is taken, with many and with long parameters."""
    rows = []
    for size in (9990, 10000, 10001, 16384, 65535, 65536, 200000):
        many = b"user\0postgres\0database\0test\0" + b"a\0b\0" * ((size - 40) // 4)
        for body in (many, b"user\0" + b"x" * size + b"\0\0", b"user\0postgres\0" + b"y" * size):
            rows.append(packet(V30, body + b"\0"))
    storm(stage, rows * 2)
    storm(stage, rows, linger=True)


@test(WIDE)
def random_bytes(stage):
    """Random bytes in place of a startup message, and behind the login."""
    chance = random.Random(2)
    storm(stage, [chance.randbytes(chance.randrange(1, 600)) for _ in range(400)])
    storm(stage, [chance.randbytes(chance.randrange(1, 600)) for _ in range(300)], [LOGIN])


def cuts(stage, whole, steps=()):
    """`whole`, cut at every byte, closed by FIN and by RST, with and without a wait for answers."""
    storm(stage, (whole[:cut] for cut in range(len(whole) + 1)), steps)
    # One more row in front turns FIN and RST around.
    storm(stage, itertools.chain([b""], (whole[:cut] for cut in range(len(whole) + 1))), steps)


@test(WIDE)
def cut_everywhere(stage):
    """A whole visit of 60 bytes, cut at every byte."""
    cuts(stage, HELLO + Q("select 4711") + X)


@test(WIDE)
def cut_behind_login(stage):
    """Queries of both kinds behind the login, cut at every byte."""
    cuts(stage, Q("begin") + P("s", "select $1::text") + D("S", "s") + B("", "s", "x") + E() + S +
         Q("commit"), [LOGIN])


@test(WIDE)
def cut_in_copy(stage):
    """COPY data, CopyDone and a query, cut at every byte."""
    cuts(stage, message("d", b"1\n") * 3 + message("c") + Q("select 1"), [LOGIN, COPY])


@test(WIDE)
def cut_startup_read(stage):
    """The startup message cut at every byte, by clients that wait a moment first."""
    storm(stage, [HELLO[:cut] for cut in range(len(HELLO))] * 2, linger=True)


@test(WIDE + "\nauth_type = scram-sha-256")
def scram_nonsense(stage):
    """First and last messages of SCRAM that are wrong in every way."""
    def first(text, mechanism="SCRAM-SHA-256", size=None):
        data = text if isinstance(text, bytes) else text.encode()
        size = len(data) if size is None else size
        return message("p", cstr(mechanism) + struct.pack("!I", size) + data)
    hello = startup([("user", "u_scram"), ("database", "test")])
    asked = (hello, b"SCRAM-SHA-256\0\0")
    good = "n,,n=,r=abcdefghijklmnopqrstuvwx"
    rows = [first(t) for t in ("", "n", "n,", "n,,", "n,,n", "n,,n=", "n,,n=,", "n,,n=,r",
                               "n,,n=,r=", "y,,n=,r=x",
                               "p=tls-unique,,n=,r=x", "n,a=x,n=,r=x", "n,,m=x,n=,r=x",
                               "n,,n=,r=,,", "x" * 5000,
                               "n,,n=,r=" + "z" * 2000, "n,,n=,r=" + "z" * 60000, b"n,,n=,r=\0\0",
                               b"\xff" * 100)]
    rows += [first(good, size=n) for n in (0, 1, 31, 33, 0x7fffffff, 0xfffffffe, 0xffffffff)]
    rows += [first(good, mechanism=m) for m in ("", "X", "SCRAM-SHA-256-PLUS", "S" * 9000)]
    rows += [message("p"), message("p", b"x"), message("p", b"SCRAM-SHA-256"), message("p",
        b"SCRAM-SHA-256\0\0\0")]
    storm(stage, rows, [asked], linger=True, user="u_scram", password=PASSWORD)
    last = [message("p", t) for t in (b"", b"c", b"c=", b"c=biws", b"c=biws,r=", b"c=biws,r=x,p=",
                                      b"c=!!,r=x,p=AAAA",
                                      b"c=biws,r=x,p=" + b"A" * 44,
                                      b"c=biws,r=x,p=" + b"A" * 50000, b"\0" * 40,
                                      b"c=" + b"A" * 9000 + b",r=x,p=AAAA", b"p=AAAA,c=biws,r=x")]
    for row in last:
        one = socket.create_connection(stage.where, 5)
        one.sendall(hello)
        check(reach(one, asked[1]))
        one.sendall(first(good))
        one.recv(4096)
        one.sendall(row)
        one.settimeout(0.3)
        try:
            one.recv(4096)
        except OSError:
            pass
        one.close()
    rest(stage, user="u_scram", password=PASSWORD)


@test(WIDE)
def partial_headers_hold_nothing(stage):
    """Clients that stop in the middle of a header hold no server."""
    people = [stage.wire() for _ in range(40)]
    for number, one in enumerate(people):
        one.send(Q("select 1")[:number % 5])
    served(stage, 1)
    check(stage.pools()["sv_active"] == 0, stage.pools())
    for one in people:
        one.reset()
    rest(stage)


@test(QUIET + "client_login_timeout = 0.5")
def who_says_nothing_is_sent_away(stage):
    """Connections that stop in the middle of a startup message end by client_login_timeout."""
    people = [stage.raw(timeout=4) for _ in range(30)]
    for number, one in enumerate(people):
        one.send(HELLO[:number])
    for one in people:
        try:
            one.raw(5, 4)
        except Closed:
            pass
    rest(stage)


# --- who leaves -----------------------------------------------------------------------------------


@test(databases=ONE)
def queries_and_terminate(stage):
    """Queries with Terminate behind them in one write run, at once or queued."""
    holder, number = stage.wire(), 4730
    for queued in (False, True):
        for params in ([], [("application_name", "other"), ("DateStyle", "German, DMY")]):
            number += 1
            one = stage.wire(params=params, timeout=5)
            if queued:
                holder.query("begin")
            one.send(Q(f"insert into t values ({number})"), X)
            if queued:
                time.sleep(0.05)
                holder.query("commit")
            what = f"{'queued' if queued else 'at once'}, {params}"
            same(one.reply(3, 3), ["C(INSERT 0 1)", "Zi", "EOF"], what)
            same(rows_of(stage, number), 1, what)


@test(databases=ONE)
def terminate_behind_a_queued_query(stage):
    """Terminate in a write of its own behind a query that is queued.  From a client that has gone
    meanwhile nothing is read any more: its query may run or not."""
    holder = stage.wire()
    for number, gone in enumerate((False, True), 4740):
        one = stage.wire(timeout=5)
        holder.query("begin")
        one.send(Q(f"insert into t values ({number})"))
        time.sleep(0.05)
        one.send(X)
        if gone:
            one.sock.close()
        time.sleep(0.05)
        holder.query("commit")
        if not gone:
            same(one.reply(3, 3), ["C(INSERT 0 1)", "Zi", "EOF"])
            same(rows_of(stage, number), 1)
        served(stage, 2)


@test("workers = 1", databases=ONE)
def half_close_at_once(stage):
    """A half-close behind queries that a server has: all is answered, then the end."""
    for messages in ([Q("select 4711")], [P("", "select 4711"), B(), E(), S],
                     [Q("begin"), Q("select 4711"), Q("commit")]):
        one = stage.wire(timeout=5)
        one.send(*messages)
        one.sock.shutdown(socket.SHUT_WR)
        got = one.reply(20, 3)
        check("D(4711)" in got and got[-2:] == ["Zi", "EOF"], got)


@test(databases=ONE)
def half_close_while_queued(stage):
    """Who half-closes while it is queued is answered or sees the end, and holds up nobody."""
    holder = stage.wire()
    for messages in ([Q("select 4711")], [Q("select 1")[:-2]], [Q("begin"), Q("select 1")]):
        for behind in (False, True):
            one = stage.wire(timeout=5)
            holder.query("begin")
            one.send(*messages)
            if behind:
                time.sleep(0.03)
            one.sock.shutdown(socket.SHUT_WR)
            time.sleep(0.03)
            holder.query("commit")
            same(one.reply(20, 3)[-1], "EOF")
            served(stage, 2)


def pipeline(stage, queued, half):
    """1,000 queries in one write; how many are answered, in order, before the end."""
    one, count = stage.wire(timeout=10), 1000
    if queued:
        holder = stage.wire()
        holder.query("begin")
    data = b"".join(Q(f"select {i}") for i in range(count)) + (b"" if half else X)

    def send():
        one.sock.sendall(data)
        if half:
            one.sock.shutdown(socket.SHUT_WR)
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    if queued:
        time.sleep(0.1)
        holder.query("commit")
    answered = 0
    try:
        while True:
            same(one.rows(3), [[str(answered)]])
            answered += 1
    except Closed:
        pass
    except Silent:
        raise Failed(f"silence in place of answer {answered}") from None
    thread.join(3)
    return answered


@test(databases=ONE)
def pipeline_and_terminate(stage):
    """1,000 queries and Terminate give 1,000 answers."""
    for queued in (False, True):
        same(pipeline(stage, queued, False), 1000)


@test(databases=ONE)
def pipeline_and_half_close(stage):
    """1,000 queries and a half-close give answers in order, then the end."""
    for queued in (False, True):
        stage.note(f"{pipeline(stage, queued, True)} answers")
        served(stage, 2)


@test("workers = 4", databases=ONE)
def full_pool_of_the_vanishing(stage):
    """100 clients of one server, of whom two thirds vanish at some point: all comes to rest."""
    clients = [stage.wire(timeout=20) for _ in range(100)]
    parts = P("", "select 4711, pg_sleep(0.002)") + B() + E() + S
    for number, one in enumerate(clients):
        data = Q("begin; select 4711; commit") if number % 2 else parts
        one.send(data[:len(data) - (number % 3 == 1) * (1 + number % 7)])
    for number, one in enumerate(clients):
        if number % 3 == 1:
            leave(one, "rst" if number % 2 else "fin")
    for number, one in enumerate(clients):
        if number % 3 == 2:
            if number % 4 == 2:
                one.reply(1, 5)
            leave(one, ("rst", "fin", "terminate")[number // 3 % 3])
    for number, one in enumerate(clients):
        if number % 3 == 0:
            try:
                one.rows(10)
            except Silent:
                raise Failed(f"client {number} is not served: {stage.pools()}") from None
    served(stage, 1)
    check(until(lambda: stage.pools()["sv_active"] == 0 and stage.pools()["cl_waiting"] == 0, 3),
          stage.pools())
