# SPDX-License-Identifier: GPL-2.0-or-later
"""Prepared statements beyond what a server keeps, on servers that come and go, and what is shown."""
import os
import queue
import random
import signal
import socket
import threading
import time

from batches import alike
from crowds import together
from fake_server import ANSWER, IDLE, WELCOME, FakeServer, error
from harness import check, sanitized, same, test
from tools import rss, until
from wire import B, C, Closed, D, E, H, P, PgError, Q, S, message

KEPT = "max_prepared_statements = 200"
ONE = ("test = host=127.0.0.1 port=PG pool_size=1\nsecond = host=127.0.0.1 port=PG pool_size=1\n"
       "logged = host=127.0.0.1 port=PG pool_size=1")
COUNT = "select count(*) from pg_prepared_statements where not from_sql"


def run(name, *values):
    return [B("", name, *values), E(), S]


def answers(one, name, value, what="", seconds=20):
    one.send(*run(name))
    same(one.reply(4, seconds), ["2", f"D({value})", "C(SELECT 1)", "Zi"], what or name)


@test("max_prepared_statements = 100", databases=ONE, new=True, seconds=90, slow=True)
def thousand_names(stage):
    """1,000 statements on a server that keeps 100: each works whenever it is used, in any order."""
    clients, chance = [stage.wire(timeout=30) for _ in range(2)], random.Random(1)
    for number, one in enumerate(clients):
        one.send(*[m for i in range(1000) for m in (P(f"s{i}", f"select {number}000000 + {i}"), S)])
        same(one.reply(2000, 30), ["1", "Zi"] * 1000)
    for _ in range(600):
        number, i = chance.randrange(2), chance.randrange(1000)
        answers(clients[number], f"s{i}", number * 1000000 + i)
    check(int(clients[0].value(COUNT)) <= 100)
    for number, one in enumerate(clients):
        order = [chance.randrange(1000) for _ in range(1000)]
        one.send(*[m for i in order for m in (B("", f"s{i}"), E())], S)
        same(one.reply(3001, 30), [w for i in order for w in (
            "2", f"D({number * 1000000 + i})", "C(SELECT 1)")] + ["Zi"])
    check(int(clients[0].value(COUNT)) <= 100)


@test(KEPT, databases=ONE, new=True, seconds=150, slow=True)
def pushed_out_within_a_batch(stage):
    """Statements pushed out in the middle of a batch that uses them again, with errors at each place."""
    names = ("a", "b", "c")
    prepare = [P(n, f"select '{n}', 1/$1::int") for n in names]
    use = [B("", n, 1) for n in names for _ in (0, 1)]
    whole = prepare + [m for n in "abcacbabcc" for m in (B("", n, 1), E())] + [C("S", "b")] + \
        [m for n in "acca" for m in (D("S", n), B("", n, 1), E())]
    for limit in (1, 2):
        stage.reload(config=f"max_prepared_statements = {limit}", databases=ONE)
        alike(stage, [("A", whole + [S]), ("B", prepare + use + [S]), ("A", run("a", 1)),
                      ("A", run("b", 1)), ("B", whole[3:] + [S]), ("A", run("c", 1))])
        wrongs = (B("", "a", 0), P("w", "nonsense"), B("", "none"))
        for at in range(0, len(whole), 1 if stage.options.long else 4):
            alike(stage, [("A", whole[:at] + [wrongs[(at // 4 + at) % 3], E()] + whole[at:] + [S])] +
                  [("A", run(n, 1)) for n in names] + [("B", prepare + [S]), ("B", run("a", 1))] +
                  [("A", [C("S", n) for n in names] + whole + [S])])


@test("max_prepared_statements = 2", databases=ONE, new=True)
def pushed_out_while_flushed(stage):
    """The same when each message has come back before the next is sent."""
    one, two = stage.wire(), stage.wire()
    for number, who in enumerate((one, two)):
        for n in "abcd":
            who.send(P(n, f"select '{n}{number}'"), H)
            same(who.reply(1), ["1"])
        for n in "dcbaabdca":
            who.send(B("", n), H)
            same(who.reply(1), ["2"])
            who.send(E(), H)
            same(who.reply(2), [f"D({n}{number})", "C(SELECT 1)"])
        who.send(S)
        same(who.reply(1), ["Zi"])
    same(one.value(COUNT), "2")
    for n in "abcd":
        answers(one, n, n + "0"), answers(two, n, n + "1")


@test("max_prepared_statements = 2", databases=ONE, new=True)
def portals_of_what_is_pushed_out(stage):
    """A portal lives on when its statement is pushed out under it."""
    alike(stage, [("A", [Q("begin"), P("s", "select generate_series(1, 6)"), B("p", "s"), E("p", 2)] +
                   [m for i in range(8) for m in (P(f"n{i}", f"select {i}"), B("", f"n{i}"), E())] + [S]),
                  ("A", [E("p", 2), D("P", "p"), S]), ("A", [B("q", "s"), E("q", 1), E("p", 1), S]),
                  ("A", [Q("commit")]), ("A", run("s"))])


@test(KEPT, databases=ONE, new=True)
def one_text_once(stage):
    """One text of 30 clients, under names of their own, is prepared once on the server."""
    clients = [stage.wire() for _ in range(30)]
    for number, one in enumerate(clients):
        one.send(P(f"n{number}", "select 4711"), *run(f"n{number}"))
        same(one.reply(5), ["1", "2", "D(4711)", "C(SELECT 1)", "Zi"])
    same(clients[0].value(COUNT), "1")
    for one in clients[1:]:
        one.close()
    answers(clients[0], "n0", 4711)


@test("max_prepared_statements = 20\nworkers = 10\nservers_per_worker = 0",
      databases=ONE.replace("pool_size=1", "pool_size=2"), new=True, seconds=90, ours=True)
def servers_between_workers(stage):
    """Two servers handed over between ten workers: what is prepared on them goes with them."""
    def work(number):
        one, chance = stage.wire(timeout=40), random.Random(number)
        for i in range(30):
            one.send(P(f"s{i}", f"select {number % 3 * 100 + i}"), S)
            same(one.reply(2, 30), ["1", "Zi"])
        for turn in range(60 if not stage.options.long else 1000):
            i = chance.randrange(30)
            if turn % 10 == 9:
                one.send(C("S", f"s{i}"), P(f"s{i}", f"select {number % 3 * 100 + i}"), S)
                same(one.reply(3, 30), ["3", "1", "Zi"])
            answers(one, f"s{i}", number % 3 * 100 + i, seconds=30)
    together(20, work, 80)


@test(KEPT, databases=ONE, new=True, slow=True)
def servers_that_go(stage):
    """Servers that grow old, are terminated or closed by RECONNECT: prepared again, unseen."""
    one, two = stage.wire(), stage.wire()
    for number, who in enumerate((one, two)):
        who.send(P("s", f"select {number}"), P("t", "select 'both'"), S)
        same(who.reply(3), ["1", "1", "Zi"])

    def terminated():
        with stage.cluster.wire() as db:
            db.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'test'")
        time.sleep(0.1)

    def reconnect():
        stage.ask("reconnect")

    def old():
        stage.reload(config=KEPT + "\nserver_lifetime = 0", databases=ONE)
    for how in (terminated, reconnect, old):
        pid = one.value("select pg_backend_pid()")
        how()
        for _ in range(3):
            answers(one, "s", 0, how.__name__), answers(two, "s", 1, how.__name__)
            answers(two, "t", "both"), answers(one, "t", "both")
        check(one.value("select pg_backend_pid()") != pid, how.__name__)


@test(KEPT, databases=ONE, new=True, slow=True, seconds=90)
def server_killed(stage):
    """kill -9 of a backend in the middle of a batch: sessions without one go on."""
    idle, busy = stage.wire(timeout=30), stage.wire(timeout=30)
    for who in (idle, busy):
        who.send(P("s", "select 5"), P("slow", "select pg_sleep(30)"), S)
        same(who.reply(3), ["1", "1", "Zi"])
    pid = int(idle.value("select pg_backend_pid()"))
    busy.send(*run("s"), B("", "slow"), H, E(), S)
    same(busy.reply(5), ["2", "D(5)", "C(SELECT 1)", "Zi", "2"])
    os.kill(pid, signal.SIGKILL)
    try:
        got = busy.reply(3, 10)
        check(got[-1] == "EOF" and "Zi" not in got, got)
    finally:
        until(stage.cluster.answers, 30)

    def served():
        # The first one after an outage may be told of it.
        one = stage.raw()
        try:
            return one.login("postgres", "test").value("select 1") == "1"
        except (PgError, Closed):
            return False
    check(until(served, 30, 0.3))
    answers(idle, "s", 5)


@test(KEPT, databases=ONE, new=True)
def server_gone_behind_parse(stage):
    """The server ends before it has answered a Parse: nobody believes that it was prepared."""
    one, two = stage.wire(), stage.wire()
    one.send(P("", "select pg_terminate_backend(pg_backend_pid())"), B(), E(), P("s", "select 6"), S)
    check(one.reply(8, 5)[-1] == "EOF")
    two.send(P("s", "select 6"), *run("s"))
    same(two.reply(5), ["1", "2", "D(6)", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def schema_changes(stage):
    """`cached plan must not change result type` ends with the next Parse of the text, for all clients."""
    with stage.cluster.wire("test") as db:
        db.query("drop table if exists shape; create table shape as select 1 as a")
    one, two = stage.wire(), stage.wire()
    for who in (one, two):
        who.send(P("s", "select * from shape"), *run("s"))
        same(who.reply(5), ["1", "2", "D(1)", "C(SELECT 1)", "Zi"])
    one.query("alter table shape add column b int default 2")
    one.send(*run("s"))
    got = one.reply(2)
    check(got == ["E[0A000]", "Zi"] or got + one.reply(2) == ["2", "D(1,2)", "C(SELECT 1)", "Zi"], got)
    for who, name in ((one, "t"), (two, "s"), (one, "s"), (stage.wire(), "new")):
        who.send(C("S", name), P(name, "select * from shape"), D("S", name), *run(name))
        same(who.reply(8), ["3", "1", "t", "T2", "2", "D(1,2)", "C(SELECT 1)", "Zi"], name)
    one.query("drop table shape")


@test(KEPT + "\nserver_reset_query_always = 1\nserver_reset_query = DISCARD ALL", databases=ONE,
      new=True)
def reset_between_transactions(stage):
    """A reset query behind each transaction: names last for their clients all the same."""
    one, two = stage.wire(), stage.wire()
    for number, who in enumerate((one, two)):
        who.send(P("s", f"select {number}"), S)
        same(who.reply(2), ["1", "Zi"])
    for _ in range(10):
        answers(one, "s", 0), answers(two, "s", 1)
    one.send(C("S", "s"), P("s", "select 9"), *run("s"), *run("s"))
    same(one.reply(9), ["3", "1", "2", "D(9)", "C(SELECT 1)", "Zi", "2", "D(9)", "C(SELECT 1)"])


@test(KEPT + "\nworkers = 1", databases=ONE, new=True, seconds=120, slow=True)
def names_without_end(stage):
    """A client that prepares 20,000 names: all of them work, memory stays small and does not add up."""
    def round_of(count):
        one = stage.wire(timeout=60)
        for first in range(0, count, 500):
            one.send(*[P(f"name {i}", f"select {i}") for i in range(first, first + 500)], S)
            same(one.reply(501, 60), ["1"] * 500 + ["Zi"])
        for i in range(0, count, count // 20):
            answers(one, f"name {i}", i)
        check(int(one.value(COUNT)) <= 200)
        grown = rss(stage.pooler.pid)
        one.close()
        check(until(lambda: stage.pools()["cl_active"] == 0), "it has not left")
        return grown
    warm = stage.wire()
    warm.query("select length('%s')" % ("y" * 20000000))
    warm.close()
    before = rss(stage.pooler.pid)
    most = round_of(20000) - before
    later = [round_of(20000) - before for _ in range(2 if not stage.options.long else 10)]
    stage.note(f"20,000 names: {most} bytes, later {later}")
    check(sanitized(stage) or most < 20000 * 700, most)
    check(sanitized(stage) or max(later) < most * 1.3 + (4 << 20), most, later)


@test(KEPT, databases=ONE, new=True, long=True, seconds=300)
def too_many_names(stage):
    """Far more names than anybody needs: in the end an error, no crash, and others go on."""
    one, two = stage.wire(timeout=60), stage.wire(timeout=60)
    two.send(P("s", "select 2"), S)
    same(two.reply(2), ["1", "Zi"])
    refused = None
    for first in range(0, 300000, 500):
        try:
            one.send(*[P(f"name {i}", "select 1") for i in range(first, first + 500)], S)
        except OSError:
            break
        got = one.reply(501, 30)
        if got != ["1"] * 500 + ["Zi"]:
            refused = (first, got[-2:])
            break
    stage.note(f"refused at {refused}")
    answers(two, "s", 2)


@test("max_prepared_statements = 0", databases=ONE, new=True)
def switched_off(stage):
    """max_prepared_statements 0: names go to the server as they are, whoever comes next finds them."""
    one, two = stage.wire(), stage.wire()
    one.send(P("s", "select 1"), *run("s"))
    same(one.reply(5), ["1", "2", "D(1)", "C(SELECT 1)", "Zi"])
    same(two.value("select name from pg_prepared_statements"), "s")
    two.send(P("s", "select 2"), S)
    same(two.reply(2), ["E[42P05]", "Zi"])
    two.send(*run("s"))
    same(two.reply(4), ["2", "D(1)", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def changed_by_reload(stage):
    """max_prepared_statements lowered, raised, and switched off and on by RELOAD, under sessions."""
    one = stage.wire()
    for i in range(20):
        one.send(P(f"s{i}", f"select {i}"), *run(f"s{i}"))
        same(one.reply(5), ["1", "2", f"D({i})", "C(SELECT 1)", "Zi"])
    same(one.value(COUNT), "20")
    stage.reload(config="max_prepared_statements = 5", databases=ONE)
    for i in (3, 7, 19, 0, 3, 11):
        answers(one, f"s{i}", i)
    for turn in range(5):
        one.send(C("S", "new"), P("new", f"select 'new {turn}'"), *run("new"))
        same(one.reply(6), ["3", "1", "2", f"D(new {turn})", "C(SELECT 1)", "Zi"])
    check(int(one.value(COUNT)) <= 5, one.value(COUNT))
    stage.reload(config=KEPT, databases=ONE)

    def all_there():
        for i in range(20):
            answers(one, f"s{i}", i)
        return 20 <= int(one.value(COUNT)) <= 25
    check(until(all_there), one.value(COUNT))
    stage.reload(config="max_prepared_statements = 0", databases=ONE)
    one.send(*run("s1"))
    got = one.reply(2)
    check(got == ["E[26000]", "Zi"] or got == ["2", "D(1)"] and one.reply(2)[-1] == "Zi", got)
    two = stage.wire()
    two.send(P("off", "select 'off'"), *run("off"))
    same(two.reply(5), ["1", "2", "D(off)", "C(SELECT 1)", "Zi"])
    stage.reload(config=KEPT, databases=ONE)
    three = stage.wire()
    three.send(P("s1", "select 'on'"), *run("s1"))
    same(three.reply(5), ["1", "2", "D(on)", "C(SELECT 1)", "Zi"])
    answers(three, "s1", "on")


@test("max_prepared_statements = 0", databases=ONE, new=True)
def switched_on(stage):
    """Names that servers took as they came are nobody's when max_prepared_statements is switched on."""
    one, two = stage.wire(), stage.wire()
    one.send(P("e", "select 'one'"), S)
    same(one.reply(2), ["1", "Zi"])
    stage.reload(config="max_prepared_statements = 50", databases=ONE)
    two.send(B("", "e"), E(), S)
    same(two.reply(2), ["E[26000]", "Zi"])
    two.send(P("e", "select 'two'"), B("", "e"), E(), S)
    same(two.reply(5), ["1", "2", "D(two)", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def reload_in_a_batch(stage):
    """RELOAD of max_prepared_statements between the messages of a batch."""
    one = stage.wire()
    for limit in (1, 0, 200, 2, 0, 1):
        name = f"s{limit}{time.monotonic_ns()}"
        one.send(P(name, "select 1"), H)
        same(one.reply(1), ["1"])
        stage.reload(config=f"max_prepared_statements = {limit}", databases=ONE)
        one.send(B("", name), H)
        got = one.reply(1)
        check(got in (["2"], ["E[26000]"]), limit, got)
        one.send(E(), S)
        same(one.reply(3 if got == ["2"] else 1)[-1], "Zi", limit)


@test(KEPT, databases=ONE, new=True)
def shown(stage):
    """SHOW CLIENTS and SERVERS count statements; SHOW STATS the Parses on both sides, and Binds."""
    one = stage.wire()
    before = [r for r in stage.ask("show stats") if r["database"] == "test"]
    one.send(P("a", "select 1"), *run("a"), *run("a"))
    one.send(P("b", "select 2"), *run("b"), *run("b"), *run("b"))
    same(one.reply(22)[-1], "Zi")

    def counts(what):
        return [int(r["prepared_statements"]) for r in stage.ask(f"show {what}")
                if r["database"] == "test"]
    same(counts("clients"), [2])
    same(counts("servers"), [2])
    row = next(r for r in stage.ask("show stats") if r["database"] == "test")
    for name, wanted in (("client_parse_count", 2), ("server_parse_count", 2), ("bind_count", 5)):
        began = int(before[0]["total_" + name]) if before else 0
        same(int(row["total_" + name]) - began, wanted, name)
    two = stage.wire()
    two.send(P("x", "select 1"), *run("x"), P("", "select 3"), *run(""))
    same(two.reply(10)[-1], "Zi")
    same(sorted(counts("clients")), [1, 2])
    same(counts("servers"), [2])
    row = next(r for r in stage.ask("show stats") if r["database"] == "test")
    began = int(before[0]["total_server_parse_count"]) if before else 0
    same(int(row["total_server_parse_count"]) - began, 2)
    one.send(C("S", "a"), S)
    same(one.reply(2), ["3", "Zi"])
    same(sorted(counts("clients")), [1, 1])
    one.query("discard all")
    same(sorted(counts("clients")), [0, 1])
    same(counts("servers"), [0])


@test(KEPT + "\npool_mode = statement", databases=ONE, new=True)
def in_statement_mode(stage):
    """Statement mode keeps names as well."""
    one, two = stage.wire(), stage.wire()
    for number, who in enumerate((one, two)):
        who.send(P("s", f"select {number}"), S)
        same(who.reply(2), ["1", "Zi"])
    for _ in range(3):
        answers(one, "s", 0), answers(two, "s", 1)


@test(KEPT, databases="test = host=127.0.0.1 port=PG pool_mode=session\nsecond = host=127.0.0.1 port=PG "
      "pool_size=1\nthird = host=127.0.0.1 port=PG pool_size=1", new=True)
def modes_and_databases_side_by_side(stage):
    """Session mode passes names on; one text in two databases is prepared in each."""
    one = stage.wire()
    one.send(P("as it is", "select 1"), S)
    same(one.reply(2), ["1", "Zi"])
    same(one.value("select name from pg_prepared_statements"), "as it is")
    clients = [stage.wire(database=name) for name in ("second", "third", "second")]
    for who in clients:
        who.send(P("s", "select current_database()"), S)
        same(who.reply(2), ["1", "Zi"])
    for _ in range(3):
        for who, name in zip(clients, ("second", "third", "second")):
            answers(who, "s", name)


def own_names(stage, data):
    """The error that comes is PostgreSQL's own, also by its text."""
    texts = []
    for one in (stage.direct(), stage.wire()):
        one.send(*data)
        while True:
            got = one.read()
            if got.kind == "E":
                texts.append({k: v for k, v in got.fields().items() if k in "SVCM"})
                break
        one.close()
    same(texts[1], texts[0])


@test(KEPT, databases=ONE, new=True)
def errors_speak_of_own_names(stage):
    """Errors about statements name them as the client does, not as the server knows them."""
    for data in ([B("", "never"), S], [D("S", "never"), S], [P("s", "select 1"), P("s", "select 2"), S],
                 [Q("deallocate never")], [P("s", "select 1"), C("S", "s"), B("", "s"), S],
                 [P("t", "select 1"), Q("deallocate t"), Q("deallocate t"), S]):
        own_names(stage, data)


@test(KEPT, databases=ONE, new=True)
def errors_about_parameters_too(stage):
    """The same where the server is who names the statement: a Bind with too few parameters."""
    own_names(stage, [P("p", "select $1::int"), B("", "p"), S])


@test(new=True,
      start=False)
def server_that_denies(stage):
    """A server that says 26000 to each Bind, though it took each Parse: errors, and no loop."""
    fake = FakeServer(stage)

    def script(visit):
        visit.send(WELCOME)
        while True:
            kind, _ = visit.read()
            fake.seen.append(kind)
            if kind == "X":
                return
            if kind in "PC":
                visit.send(message("1" if kind == "P" else "3"))
            elif kind == "B":
                visit.send(error("SERROR", "VERROR", "C26000", "Mprepared statement does not exist"))
                while visit.read()[0] != "S":
                    pass
                visit.send(IDLE)
            elif kind == "S":
                visit.send(IDLE)
            elif kind == "Q":
                visit.send(ANSWER)
    fake.say["one"] = script
    stage.pooler.start(text=stage.pooler.config(KEPT, databases=(
        f"one = host=127.0.0.1 port={fake.port} pool_size=1\ntest = host=127.0.0.1 port=PG")))
    one = stage.wire(database="one")
    one.send(P("s", "select 1"), S)
    same(one.reply(2), ["1", "Zi"])
    for _ in range(5):
        one.send(*run("s"))
        same(one.reply(2), ["E[26000]", "Zi"])
    check(fake.seen.count("B") <= 10 and fake.seen.count("P") <= 10, fake.seen)


class Slow:
    """Stands before PostgreSQL and passes everything on a while later, in both directions."""

    def __init__(self, stage, seconds):
        self.port, self.seconds, self.cluster = stage.ports.take(), seconds, stage.cluster
        self.sock = socket.create_server(("127.0.0.1", self.port))
        stage.keep(self)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                here, _ = self.sock.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self.cluster.port))
            for a, b in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        """One direction: a thread that reads, this one that writes what is due."""
        waiting = queue.Queue()

        def read():
            data = b"x"
            while data:
                try:
                    data = a.recv(65536)
                except OSError:
                    data = b""
                waiting.put((time.monotonic() + self.seconds, data))
        threading.Thread(target=read, daemon=True).start()
        try:
            while True:
                due, data = waiting.get()
                time.sleep(max(0, due - time.monotonic()))
                if not data:
                    b.shutdown(socket.SHUT_WR)
                    return
                b.sendall(data)
        except OSError:
            pass

    def close(self):
        self.sock.close()


@test(start=False, new=True, slow=True)
def pipelines_over_slow_links(stage):
    """Seven prepared queries in one send take the time of one round over a slow link, not of seven."""
    slow = Slow(stage, 0.2)
    stage.pooler.start(text=stage.pooler.config(
        KEPT, databases=f"test = host=127.0.0.1 port={slow.port} dbname=test pool_size=1"))
    one = stage.wire(timeout=30)
    one.query("select 1")
    for name in ("first", "second"):
        began = time.monotonic()
        one.send(*[m for i in range(7) for m in (P(f"{name}{i}", f"select {i}"), *run(f"{name}{i}"))])
        got = one.reply(35, 20)
        same(got, [w for i in range(7) for w in ("1", "2", f"D({i})", "C(SELECT 1)", "Zi")])
        took = time.monotonic() - began
        stage.note(f"{name}: {took:.2f} s")
        check(took < 1.5, took)


@test(KEPT + "\nworkers = 1", databases=ONE, new=True, seconds=60, slow=True)
def texts_without_end(stage):
    """One client's texts are 64 MiB at most; a server's account holds 16 MiB, the oldest go first."""
    def size():
        return next(int(r["memtotal"]) for r in stage.ask("show mem") if r["name"] == "statement_cache")
    one = stage.wire(timeout=30)
    text = "select {0} --" + "x" * (9 << 20)
    for i in range(3):
        one.send(P(f"large {i}", text.format(i)), *run(f"large {i}"))
        same(one.reply(5, 30), ["1", "2", f"D({i})", "C(SELECT 1)", "Zi"])
    same(one.value(COUNT), "1")
    one.send(*run("large 0"))
    same(one.reply(4, 30), ["2", "D(0)", "C(SELECT 1)", "Zi"])
    check((27 << 20) < size() < (30 << 20), size())
    for i in range(3, 7):
        one.send(P(f"large {i}", text.format(i)), S)
        same(one.reply(2, 30), ["1", "Zi"])
    one.send(P("large 7", text.format(7)), S)
    got = one.reply(2, 30)
    check(got[0] == "E[54000]" and got[1] == "EOF", got)
    check(until(lambda: size() < (20 << 20)), size())
    two = stage.wire()
    same(two.value("select 1"), "1")


@test(KEPT, databases=ONE, new=True)
def unnamed_from_a_named_one(stage):
    """prepare_unnamed: the same text without name is bound by the name it has on the server, if switched on."""
    def binds():
        rows = [r for r in stage.ask("show stats") if r["database"] == "test"]
        return sum(int(r["total_bind_count"]) for r in rows)
    one = stage.wire()
    one.send(P("s", "select $1::text"), S)
    same(one.reply(2), ["1", "Zi"])

    def unnamed(text, value):
        before = binds()
        one.send(P("", text), B("", "", value), E(), S)
        same(one.reply(5), ["1", "2", f"D({value})", "C(SELECT 1)", "Zi"])
        return binds() - before
    same(unnamed("select $1::text", "off"), 0)
    stage.reload(config=KEPT + "\nprepare_unnamed = 1", databases=ONE)
    same(unnamed("select $1::text", "on"), 1)
    same(unnamed("select $1::text || ''", "other text"), 0)
    one.send(P("", "select $1::text"), D("S"), B("", "", "a", "b"), E(), S)
    same(one.reply(5), ["1", "t", "T1", "E[08P01]", "Zi"])
    same(unnamed("select $1::text", "again"), 1)


@test(KEPT + "\nprepare_unnamed = 1", databases=ONE, new=True)
def unnamed_here_behind_a_skipped_one(stage):
    """A skipped Parse without name leaves the one that was answered here, or none: never an earlier one."""
    one = stage.wire()
    one.send(P("s", "select 'second'"), P("", "select 'first'"), S)
    same(one.reply(3), ["1", "1", "Zi"])
    one.send(P("", "select 'second'"), S)
    same(one.reply(2), ["1", "Zi"])
    one.send(B("", "unknown"), P("", "select 'third'"), S, B(), E(), S)
    got = one.reply(3)
    same(got[:2], ["E[26000]", "Zi"])
    if got[2] == "2":
        same(one.reply(3), ["D(second)", "C(SELECT 1)", "Zi"])
    else:
        same([got[2], *one.reply(1)], ["E[26000]", "Zi"])
    one.send(P("", "select 'first'"), S)
    same(one.reply(2), ["1", "Zi"])
    one.send(B("", "unknown"), P("", "select 'second'"), S, B(), E(), S)
    same(one.reply(6), ["E[26000]", "Zi", "2", "D(first)", "C(SELECT 1)", "Zi"])
