# SPDX-License-Identifier: GPL-2.0-or-later
"""Random batches of messages, whose replies through the pooler must be PostgreSQL's own.

A batch is what one send may hold: any messages in any order, most of them wrong somewhere.  Nobody
writes down the replies: the same batches go to a PostgreSQL of their own first, in a session for each
client, and what comes back there is what must come back through the pooler.  The end of a batch is a
Sync and an empty query, which PostgreSQL answers in every state of a transaction.
"""
import random

from harness import Failed
from wire import B, C, D, E, H, P, Q, S

TEXTS = ("select 1", "select $1::int", "select $1::int, $2::text", "select 1/$1::int", "nonsense",
         "select generate_series(1, 5)", "insert into t values (1)", "begin", "commit", "rollback",
         "savepoint x", "rollback to x", "copy (select 7) to stdout", "show application_name",
         "set application_name = 'mine'", "set local application_name = 'inner'", "select 1/0")
SIMPLE = TEXTS + ("select 1; select 2", "begin; select 3", "select 4; commit", "select 5; select 1/0",
                  "select from nowhere", "begin; commit; begin")
STATUS = {"Zi", "ZT", "ZE"}


class Batches:
    """Endless batches from a seed.  names: of statements; more than the unnamed one only where the
    pooler keeps them.  texts: in place of the usual."""

    def __init__(self, seed, names=("",), texts=None):
        self.random, self.names = random.Random(seed), names
        self.texts, self.simple = texts or TEXTS, texts or SIMPLE

    def step(self):
        """Some messages, and how to write them down."""
        pick, name = self.random.choice, self.random.choice(self.names)
        portal = pick(("", "", "", "p"))
        kind = self.random.choices("PBDECSHQ", (5, 8, 3, 8, 2, 4, 1, 2))[0]
        if kind == "P":
            # A name that is in use is another test's matter: it is closed first.
            sql = pick(self.texts)
            closed = [C("S", name)] if name else []
            return closed + [P(name, sql)], f"{'C ' if name else ''}P({name},{sql})"
        if kind == "B":
            values = pick(((), (), (1,), (0,), ("x",), (2, "two"), (None,)))
            return [B(portal, name, *values)], f"B({portal},{name},{values})"
        if kind == "D":
            what = pick("SP")
            return [D(what, name if what == "S" else portal)], f"D({what},{name}/{portal})"
        if kind == "E":
            rows = pick((0, 0, 0, 2))
            return [E(portal, rows)], f"E({portal},{rows})"
        if kind == "C":
            what = pick("SP")
            return [C(what, name if what == "S" else portal)], f"C({what},{name}/{portal})"
        if kind == "Q":
            sql = pick(self.simple)
            return [Q(sql)], f"Q({sql})"
        return [{"S": S, "H": H}[kind]], kind

    def next(self):
        """Bytes of one send, and the text of it."""
        steps = [self.step() for _ in range(self.random.randint(1, 12))]
        return b"".join(m for s, _ in steps for m in s), " ".join(text for _, text in steps)


def ask(one, data, cut=None):
    """The words up to the end of the batch, and its status."""
    data += S + Q("")
    if cut:
        one.send(data[:cut])
        one.send(data[cut:])
    else:
        one.send(data)
    found = []
    while len(found) < 2 or found[-2] != "I":
        found += one.reply(1, 5)
        if found[-1] in ("(silence)", "EOF"):
            break
    return found


def sessions(connect, count, turns, chance, *source):
    """Each client in turn sends batches until it is outside a transaction: (text, words) of each."""
    clients = [connect() for _ in range(count)]
    seed, *rest = source
    sources = [Batches(f"{seed}/{i}", *rest) for i in range(count)]
    try:
        for turn in range(turns):
            who = turn % count
            for tries in range(6):
                data, text = sources[who].next()
                if tries == 5:
                    data, text = Q("rollback"), "Q(rollback)"
                cut = chance.randrange(len(data)) if chance and chance.random() < 0.3 else None
                words = ask(clients[who], data, cut)
                yield f"turn {turn} of {who}: {text}", words
                if words[-1] in ("Zi", "EOF", "(silence)"):
                    break
    finally:
        for one in clients:
            one.close()


def alike(stage, script, setup=(), database="test"):
    """What each (client, messages) of the script brings is what PostgreSQL itself answers to it, and
    the same when the messages come in pieces."""
    found = []
    for cut in (None, 0, 1, 2):
        if setup:
            with stage.cluster.wire(database) as db:
                db.query("; ".join(setup))
        clients, connect = {}, stage.direct if cut is None else stage.wire
        for number, (name, messages) in enumerate(script):
            if name not in clients:
                clients[name] = connect(database=database)
            data = b"".join(messages)
            words = ask(clients[name], data, len(data) * cut // 3 if cut else None)
            if cut is None:
                found.append(words)
            elif words != found[number]:
                raise Failed(f"step {number + 1}, {name} sends {data!r:.300}"
                             f"{' in pieces' if cut else ''}: got {' '.join(words)!r}, "
                             f"PostgreSQL says {' '.join(found[number])!r}")
        for one in clients.values():
            one.close()
    return found


def compare_random(stage, seed, turns, names=("",), clients=2, texts=None, anew=False):
    """Both sides get the same batches; the first reply that differs is named.  anew: statements may have
    to be prepared again, which a failed transaction refuses, whatever else it would say: with that the
    comparison ends."""
    here = sessions(stage.direct, clients, turns, None, seed, names, texts)
    there = sessions(stage.wire, clients, turns, random.Random(seed), seed, names, texts)
    for number, ((text, wanted), (_, got)) in enumerate(zip(here, there)):
        if got != wanted and anew and "E[25P02]" in got and "ZE" in wanted:
            here.close(), there.close()
            return
        if got != wanted:
            raise Failed(f"seed {seed}, batch {number}, {text}: got {' '.join(got)!r}, "
                         f"PostgreSQL says {' '.join(wanted)!r}")
