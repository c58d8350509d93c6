# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequences of messages by chance, and what of them has to be answered the same everywhere.

A message is a tuple: ("Q", texts), ("P", name, text, types), ("B", portal, statement, parameters, their
formats, formats of the result), ("D", kind, name), ("E", portal, rows), ("C", kind, name), ("F", oid,
arguments), ("d", data), ("f", why), ("c",), ("S",), ("H",), ("X",); and ("/", bytes, ms), which is no
message: a send ends so many bytes into the next one, and what follows waits.  {c} in a text is the
client's number: clients use the same names for other texts.

What may differ behind a pooler that hands servers on after each transaction is not looked over when
answers are compared: it is not asked for.  Rules is the whole list.  The maker proposes a message, Rules
takes it or not; the reducer asks Rules too, so that it cannot arrive at what nobody promised.
"""
import random
import re
import struct

# --- texts ------------------------------------------------------------------------------------------

SELECT = ["select 1", "select 'c{c}' as who, 2 as n", "select null::text, 3", "select generate_series(1, 4)",
          "select v from differ_rows order by v", "select repeat('x', 9000)", "values (1, 'a'), (2, 'b')",
          "select from differ_rows where false", "select count(*) from mine_{c}",
          "select timestamptz '2020-01-01 00:00+00'", "select current_setting('application_name')",
          "do $$ begin raise notice 'note {c}'; end $$"]
WRITE = ["insert into mine_{c} values (1), (2)", "insert into mine_{c} values (3) returning v",
         "delete from mine_{c}", "update mine_{c} set v = v + 1"]
WRONG = ["select 1/0", "selec 1", "select * from nowhere", "select nocol from differ_rows",
         "select 'x'::int", "select 1/(3-v) from differ_rows order by v", "select 'open",
         "do $$ begin raise exception 'oops {c}' using errcode = 'P0042'; end $$"]
BEGIN = ["begin", "begin read only", "start transaction isolation level serializable"]
END = ["commit", "rollback", "end", "commit and chain", "rollback and chain"]
SAVE = ["savepoint a", "savepoint b", "rollback to a", "release a", "release b"]
SETS = ["set application_name = 'app {c}'", "set application_name = 'it''s'", "reset application_name",
        "set timezone = 'Asia/Tokyo'", "set timezone to default", "set datestyle = 'SQL, DMY'",
        "set datestyle = 'ISO'", "set client_encoding = 'LATIN1'", "reset client_encoding",
        "set standard_conforming_strings = off", "reset standard_conforming_strings", "reset all",
        "set local application_name = 'local {c}'", "set local timezone = 'UTC'",
        "set local work_mem = '1MB'", "set timezone = 'nowhere'", "set client_encoding = 'nothing'",
        "select set_config('application_name', 'by call {c}', false)", "set nothing = 1"]
SHOW = ["show application_name", "show timezone", "show datestyle", "show client_encoding",
        "show standard_conforming_strings", "show work_mem", "show nothing"]
COPY_IN = ["copy mine_{c} from stdin", "copy mine_{c} (v) from stdin (format csv)"]
COPY = ["copy (select v from differ_rows order by v) to stdout", "copy mine_{c} (nocol) from stdin",
        "copy (select 1/(3-v) from differ_rows order by v) to stdout", "copy nowhere from stdin",
        "copy (select repeat('y', 3000) from differ_rows) to stdout"]
FORGET = ["deallocate s1", "deallocate s2", "deallocate prepare s3", "deallocate all", "discard all",
          "deallocate nothing", "discard plans"]
TEMP = ["create temp table tt (a int) on commit drop", "alter table tt add b text",
        "insert into tt values (1)", "select * from tt", "select a from tt", "drop table tt"]
CURSOR = ["declare c1 cursor for select v from differ_rows order by v", "fetch 1 from c1",
          "fetch 2 from c1", "close c1"]
EMPTY = ["", " ", "-- nothing"]
# One Query only, so that nothing of it is left whatever happens.
PREPARE = ("begin", "prepare sq as select 5", "execute sq", "deallocate sq", "commit")
# What stays in a session; only for servers that are not shared.
SESSION = ["set work_mem = '2MB'", "set search_path = nowhere, public", "create temp table tt (a int)",
           "prepare sq as select 'c{c}'", "execute sq", "execute s1", "deallocate sq",
           "declare c1 cursor with hold for select v from differ_rows order by v", "discard temp",
           "set session characteristics as transaction read only", "reset search_path"]
SIMPLE = [(SELECT, 30), (WRITE, 10), (WRONG, 16), (BEGIN, 8), (END, 8), (SAVE, 8), (SETS, 10), (SHOW, 5),
          (COPY_IN, 5), (COPY, 5), (FORGET, 6), (TEMP, 10), (CURSOR, 5), (EMPTY, 3)]

# Of these a Parse may be made; the number of parameters is what they want.
PARAMETERS = ["select $1::int + 1", "select $1::text, 'c{c}'", "select $1", "select $1 + $2",
              "select v from differ_rows where v > $1 order by v",
              "select generate_series(1, least($1::int, 4))",
              "insert into mine_{c} values ($1)", "insert into mine_{c} values ($1) returning v",
              "select 1/$1::int", "select $2::text, $1::int, {c}", "selec $1", "select $1::bytea",
              "select $3::int", "select $1::int, generate_series(1, 5)", "select 1; select 2"]
EXTENDED = [(PARAMETERS, 60), (SELECT, 24), (WRITE, 8), (WRONG, 8), (BEGIN, 6), (END, 6), (SAVE, 5),
            (SETS, 6), (SHOW, 3), (COPY_IN, 3), (COPY, 3), (FORGET, 5), (TEMP, 8), (CURSOR, 3), (EMPTY, 2)]

# A sequence that is none: the client leaves without a word and comes again.
AGAIN = (("again",),)

NAMES, PORTALS = ["s1", "s2", "s3", "s4"], ["p", "q", "c1"]
TYPES = [(), (), (), (23,), (25,), (20,), (705,), (0, 25), (16,), (23, 23), (999999,)]
TEXT_VALUES = [b"1", b"2", b"4", b"0", b"x", b"", None, b"-7", b"12345678901", b"\xff"]
BINARY_VALUES = [b"\0\0\0\3", b"\0\0\0\0\0\0\0\3", b"\1", b"", b"text"]
COPY_DATA = [b"1\n", b"2\n3\n", b"4", b"\n", b"x\n", b"\\.\n", b"", b"5\n" * 700, b"1\t2\n"]
# int4pl, int4div, pg_catalog.version-less ones only: now() and their like answer as they please.
CALLS = [(177, (b"1", b"2")), (154, (b"1", b"0")), (177, (b"1",)), (999999, ()), (177, (b"x", b"2")),
         (177, (None, b"2"))]


def written(text, client):
    return text.replace("{c}", str(client))


# --- what is promised -------------------------------------------------------------------------------


# What is different today and should not be; without the line here it is asked for.
KNOWN = {
    "sync behind copy data":  # [Q(copy ..) d(bad) S]: the pooler loses count, the client waits for ever
        lambda rules: not (rules.copying and any(m[0] == "d" for m in rules.group)),
    "deallocate among several":  # Q(select 1; deallocate s1): not looked at unless alone
        lambda rules: rules.free or not rules.several,
    "deallocate within copy":  # [Q(copy ..) Q(deallocate s1)]: complains of a Close, not of a Query
        lambda rules: rules.free or not rules.copying or not rules.forgets,
    "named deallocate":  # P(s1,'deallocate s2') and its like under a name: not looked at
        lambda rules: rules.free or not rules.named_reset,
}


def known(name, rules):
    return name not in KNOWN or KNOWN[name](rules)


class Rules:
    """What may be asked of a server that is handed on after each transaction.

    1. The unnamed statement is used only where it was parsed behind the last message that can have let
       the server go (Sync, Query, FunctionCall), or within a transaction block that is surely open.
    2. What stays in a session (SESSION: plain SET of what is not tracked, temporary tables that outlive
       their transaction, PREPARE in SQL, cursors WITH HOLD) is not asked for.
    3. A named statement is over text that means the same on every server at any time: no `select *` from
       a table that may have other columns by then.
    4. EXECUTE in SQL of a statement of the protocol is not asked for (SESSION has it).
    5. Terminate comes where nothing is unanswered but what a Sync, Query, FunctionCall or Flush has asked
       for, and not within COPY: whoever leaves in the middle is not owed PostgreSQL's complaints.

    6. A portal is described or executed behind the Sync after its Bind only if nothing can have failed in
       its transaction: PostgreSQL 15 keeps failed portals without their text and answers, or dies, by what
       is in freed memory then.

    7. An isolation level is set only where no named statement was parsed or used in its transaction: a
       server is given a statement when it lacks it, not when the client asks, and has a snapshot then.
    8. A named statement is described only where no transaction can have failed: a server that lacks it
       cannot be given it there.

    With `free`, for a server that belongs to the client, only rules 5, 6 are left, and rule 7, for
    PostgreSQL looks at a statement again after other people's DDL.  Besides, in both:
    texts that end a transaction or begin COPY are parsed under names of their own, and a COPY that may be
    open is ended before anything but a last Query is sent, so that few sequences are cut short by FATAL.
    """

    ENDS, COPIES = "e", "cp"
    NAMED = {*NAMES, "e", "cp", "unknown"}
    # Never fails where no transaction has failed.
    SOUND = {*SELECT, *SHOW[:6], "insert into mine_{c} values (1), (2)"}

    def __init__(self, free, named):
        self.free, self.named = free, named
        self.start()

    def start(self):
        """A new sequence: the last one was brought to its end, outside any transaction."""
        self.block = self.fresh = self.copied = self.over = False
        self.served = self.served_level = False  # a named statement since the last Sync; an isolation level
        self.lost = False  # the unnamed statement, by a Query that an error has skipped
        self.copying = 0  # so many CopyDone may be wanted
        self.clean, self.group = True, []
        self.ending, self.copyish = {self.ENDS}, {self.COPIES}
        self.ending_portals, self.copyish_portals = set(), set()
        # Surely not within a block; nothing failed in the block; portals that are surely there in it;
        # whether the unnamed statement is one of SOUND; portals bound since the last Sync.
        self.outside, self.sound, self.portals, self.plain, self.bound = True, False, set(), False, set()

    def take(self, message):
        """Whether it may come now; if so, it has."""
        kind = message[0]
        if kind == "/":
            return True
        if self.over or (self.copying and kind not in "QHSdcf"):
            return False
        if not getattr(self, "take_" + kind, self.take_other)(*message[1:]):
            return False
        self.follow(message)
        self.group.append(message)
        if kind in "PBDEC":
            self.clean = False
        if kind in "SQF":
            self.group, self.bound = [], set()
            self.served = self.served_level = False
        return True

    def follow(self, message):
        """What is surely not failed, for rule 6."""
        kind, rest = message[0], message[1:]
        was, self.sound = self.sound, self.sound and kind in "SHdc"
        if kind == "Q":
            self.plain = False
            self.portals.discard("")  # a Query has it for itself
            if self.block and rest[0][0] in BEGIN and self.outside and self.clean:
                self.sound, self.portals = all(t in self.SOUND for t in rest[0][1:]), set()
            elif was:
                self.sound = all(t in self.SOUND for t in rest[0])
            if any(t in BEGIN or t in END for t in rest[0]):
                self.outside = False
        elif kind == "P":
            self.plain = rest[0] == "" and rest[1] in self.SOUND
            self.sound = was and self.plain
            self.outside = self.outside and rest[1] not in BEGIN + END
        elif kind == "B":
            self.sound = was and self.plain and rest[1:] == ("", (), (), ()) and \
                (rest[0] == "" or rest[0] not in self.portals)
            self.portals.add(rest[0])
            self.bound.add(rest[0])
        elif kind in "DE":
            name = rest[0] if kind == "E" else rest[1]
            self.sound = was and name in self.portals and (kind == "E" or rest[0] == "P")

    def safe(self, portal):
        return self.outside or portal in self.bound or portal == "nope" or \
            self.sound and portal in self.portals

    def take_other(self, *_):
        return True

    def take_Q(self, texts):
        if any(self.stays(t) for t in texts) and texts != PREPARE:
            return False
        self.several = len(texts) > 1 and any("deallocate" in t for t in texts) and texts != PREPARE
        self.resets = len(texts) > 1 and any("deallocate" in t or "discard" in t for t in texts)
        if not known("deallocate among several", self) or not known("reset waits for ever", self):
            return False
        self.forgets = any(t in FORGET for t in texts)
        if not self.level(texts) or not known("deallocate within copy", self):
            return False
        if self.copying:
            self.over = True
        ends = any(t in END for t in texts) or texts == PREPARE
        if ends:
            self.block = False
        elif self.clean and texts[0] in BEGIN:
            self.block = True
        self.copying = sum(t in COPY_IN for t in texts)
        self.copied = self.copied or self.copying
        self.fresh, self.lost = False, self.lost or not self.clean
        return True

    def level(self, texts, name=""):
        """Whether rule 7 lets these be asked for."""
        return not any("isolation" in t for t in texts) or \
            self.outside and not name and not self.served

    def stays(self, text):
        return not self.free and (text in SESSION or text in PREPARE[1:4])

    def take_P(self, name, text, _types):
        if self.stays(text) or (name and not self.free and (not self.named or "select *" in text)):
            return False
        if text in END and name not in ("", self.ENDS) or text in COPY_IN and name not in ("", self.COPIES):
            return False
        if not self.level((text,), name) or self.served_level and name:
            return False
        self.served_level = "isolation" in text
        self.served = self.served or bool(name)
        self.named_reset = bool(name) and text in FORGET
        if not known("named deallocate", self) or name and not known("named behind copy", self):
            return False
        if not name:
            self.fresh = True
            if self.clean:
                self.lost = False
                self.ending.discard("")
                self.copyish.discard("")
            if text in END:
                self.ending.add("")
            if text in COPY_IN:
                self.copyish.add("")
        return True

    def take_B(self, portal, statement, *_):
        if not self.uses(statement):
            return False
        if statement in self.ending:
            self.ending_portals.add(portal)
        if statement in self.copyish:
            self.copyish_portals.add(portal)
        return True

    def take_D(self, kind, name):
        if kind == "P":
            return self.safe(name)
        if name and not (self.free or self.outside or self.sound):
            return False
        return self.uses(name)

    def uses(self, statement):
        """Whether a statement may be bound or described."""
        if not statement:
            return self.unnamed()
        if self.served_level or not known("named behind copy", self):
            return False
        self.served = True
        return True

    def unnamed(self):
        return self.free or (self.block or self.fresh) and known("unnamed is lost", self)

    def take_E(self, portal, _rows):
        if not self.safe(portal):
            return False
        if portal in self.ending_portals:
            self.block = False
        self.copying = int(portal in self.copyish_portals)
        self.copied = self.copied or self.copying
        return True

    def take_F(self, *_):
        self.fresh = False
        return True

    def take_S(self):
        if not known("sync behind copy data", self):
            return False
        if not self.copying:
            begins = [m[:3] for m in self.group if m[0] in "PBE"]
            if self.clean_begin(begins):
                self.block = True
            self.clean, self.fresh = True, False
        return True

    def clean_begin(self, messages):
        return len(messages) == 3 == len(self.group) and messages[0][:2] == ("P", "") and \
            messages[0][2] in BEGIN and messages[1] == ("B", "", "") and messages[2] == ("E", "", 0) and \
            self.group[1][3:] == ((), (), ())

    def take_c(self):
        self.copying = max(0, self.copying - 1)
        return True

    def take_f(self, _why):
        self.copying = 0
        return True

    def take_X(self):
        self.over = not self.copying and (not self.group or self.group[-1] == ("H",)) \
            and known("skipped terminate", self) and known("terminate behind copy", self)
        return self.over


def allowed(session, free, named):
    """Whether all of a session, a list of sequences, is as Rules want it."""
    rules = Rules(free, named)
    for sequence in session:
        rules.start()
        if sequence != AGAIN and not all(rules.take(m) for m in sequence):
            return False
    return True


# --- making -----------------------------------------------------------------------------------------


class Maker:
    """Makes sessions: some sequences on one connection."""

    def __init__(self, seed, free, named):
        self.random, self.free, self.rules = random.Random(seed), free, Rules(free, named)
        r = self.random
        self.simple = SIMPLE + ([(SESSION, 20)] if free else [])
        self.names, self.texts = NAMES if named or free else NAMES[:1], {}
        self.gestures = [
            (self.query, 22), (self.batch, 30), (self.parse, 8), (self.bind, 12), (self.describe, 6),
            (self.execute, 6), (self.close, 6), (lambda: [("H",)], 4), (lambda: [("S",)], 14),
            (lambda: [("F",) + r.choice(CALLS)], 2), (self.copy, 5), (self.stray, 3), (self.begin, 3),
            (self.block, 7), (self.write, 3),
            (self.suspended, 3)]

    def pick(self, table):
        return self.random.choices([x for x, _ in table], [w for _, w in table])[0]

    def text(self, table):
        return self.random.choice(self.pick(table))

    def session(self, size=20):
        made = []
        self.texts.clear()
        while len(made) < size and not self.rules.over:
            made.append(self.sequence())
        self.rules.over = False
        return made

    def sequence(self):
        r, rules = self.random, self.rules
        rules.start()
        made, most, syncs = [], r.choice((1, 2, 3, 4, 5, 6, 8, 10, 12)), r.choice((1, 1, 2, 3))
        for _ in range(60):
            if len(made) >= most or rules.over:
                break
            for message in self.pick(self.gestures)():
                if message[0] == "S" and sum(m[0] == "S" for m in made) >= syncs:
                    break
                if not rules.take(message):
                    break
                made.append(message)
        self.end(made)
        return self.cut(made)

    def end(self, made):
        """Most end in Sync, some in Terminate, some wherever they are."""
        r = self.random
        if self.rules.copying and r.random() < 0.8:
            how = r.choice((0, 0, 0, 1, 1, 2))
            for message in ([("c",)], [("f", "no more")], [("Q", ("select 1",))])[how]:
                self.rules.take(message) and made.append(message)
        if not self.rules.over and r.random() < 0.85 and (not made or made[-1][0] not in "SQF"):
            self.rules.take(("S",)) and made.append(("S",))
        if r.random() < 0.02 and self.rules.take(("X",)):
            made.append(("X",))

    def cut(self, made):
        """Mostly all in one send; else ends of sends at messages and within."""
        r = self.random
        if r.random() < 0.5:
            return tuple(made)
        found, often = [], r.choice((0.1, 0.3, 1))
        for message in made:
            if r.random() < often:
                found.append(("/", r.choice((0, 0, 0, 1, 4, 5, 6, 9)), r.choice((0, 0, 1, 3))))
            found.append(message)
        return tuple(found)

    # gestures

    def query(self):
        r = self.random
        if r.random() < 0.03:
            return [("Q", PREPARE)]
        return [("Q", tuple(self.text(self.simple) for _ in range(r.choice((1, 1, 1, 1, 2, 3)))))]

    def begin(self):
        if self.random.random() < 0.6:
            return [("Q", (self.random.choice(BEGIN),))]
        return [("P", "", self.random.choice(BEGIN), ()), ("B", "", "", (), (), ()), ("E", "", 0), ("S",)]

    def block(self):
        """A transaction with something of every kind in it."""
        r = self.random
        made = self.begin()
        for _ in range(r.choice((1, 2, 3))):
            made += r.choice((self.batch, self.batch, self.bind, self.query, self.write))()
            made += r.choice(([("S",)], [("S",)], [("H",)], []))
        return made + [("Q", (r.choice(END[:3]),))] * (r.random() < 0.7)

    def write(self):
        r = self.random
        return [("Q", (r.choice((WRITE, SAVE, TEMP, CURSOR))[0],))] if r.random() < 0.3 else \
            [("Q", (r.choice(r.choice((WRITE, SAVE, TEMP, CURSOR, SETS))),))]

    def name(self):
        r = self.random
        return "" if r.random() < 0.5 else r.choice(self.names)

    def portal(self):
        r = self.random.random()
        return "" if r < 0.7 else "nope" if r < 0.75 else self.random.choice(PORTALS)

    def parse(self, name=None):
        text = self.text(EXTENDED)
        name = self.name() if name is None else name
        if name and text in END:
            name = Rules.ENDS
        if name and text in COPY_IN:
            name = Rules.COPIES
        if name and not self.free and not self.rules.named:
            name = ""
        types = self.random.choice(TYPES) if "$" in text else ()
        self.texts.setdefault(name, text)
        return [("P", name, text, types)]

    def bind(self, portal=None, statement=None, text=None):
        r = self.random
        portal = self.portal() if portal is None else portal
        if statement is None:
            statement = r.choice(["", "", *self.names, "e", "unknown"])
            if self.texts and r.random() < 0.8:
                statement = r.choice(list(self.texts))
            text = self.texts.get(statement)
        wanted = max(map(int, re.findall(r"\$(\d)", text)), default=0) if text else r.choice((0, 0, 1, 1, 2))
        count = wanted if r.random() < 0.93 else r.choice((0, 1, 2, 3))
        binary = r.random() < 0.2
        values = tuple(r.choice(BINARY_VALUES[:2] if r.random() < 0.8 else BINARY_VALUES) if binary else
                       r.choice(TEXT_VALUES[:3] if r.random() < 0.7 else TEXT_VALUES) for _ in range(count))
        formats = r.choice(((1,), (1,) * count)) if binary else r.choice(((), (), (0,), (0,) * count))
        result = r.choice(((), (), (), (), (0,), (1,), (1,)))
        if r.random() < 0.05:
            formats, result = r.choice((((0, 0), ()), ((), (0, 1)), ((2,), ()), ((), (2,))))
        return [("B", portal, statement, values, formats, result)]

    def batch(self):
        """Parse to Execute, with a Sync here and there."""
        r = self.random
        parse = self.parse()
        name, portal = parse[0][1], self.portal()
        made = parse + ([("D", "S", name)] if r.random() < 0.3 else [])
        made += self.bind(portal, name, parse[0][2]) + ([("D", "P", portal)] if r.random() < 0.4 else [])
        made += [("E", portal, r.choice((0, 0, 0, 1, 2)))]
        if parse[0][2] in COPY_IN:
            made += self.data()
        elif r.random() < 0.15:
            made += [("E", portal, r.choice((0, 1, 2)))]
        return made + ([("S",)] if r.random() < 0.5 else [])

    def describe(self):
        if self.random.random() < 0.5:
            return [("D", "P", self.portal())]
        return [("D", "S", self.random.choice(["", *self.names, "unknown"]))]

    def suspended(self):
        """A block with a portal that outlives Syncs."""
        r = self.random
        text, portal = r.choice(("select generate_series(1, 4)", SELECT[4])), self.portal()
        made = [("Q", (r.choice(BEGIN),)), ("P", "", text, ()), ("B", portal, "", (), (), ()),
                ("E", portal, r.choice((1, 2)))]
        for _ in range(r.choice((1, 2, 3))):
            made += [(r.choice("SSH"),)] + ([("Q", (r.choice(SELECT),))] if r.random() < 0.3 else [])
            made += [("E", portal, r.choice((0, 1, 2)))]
        return made

    def execute(self):
        r, bound = self.random, sorted(self.rules.bound)
        portal = r.choice(bound) if bound and r.random() < 0.9 else self.portal()
        return [("E", portal, r.choice((0, 0, 1, 2)))]

    def close(self):
        if self.random.random() < 0.4:
            return [("C", "P", self.portal())]
        return [("C", "S", self.random.choice(["", *self.names, "e", "unknown"]))]

    def copy(self):
        texts = (self.random.choice(COPY_IN),)
        if self.random.random() < 0.2:
            texts = (self.text(self.simple),) + texts
        if self.random.random() < 0.2:
            texts += (self.text(self.simple),)
        return [("Q", texts)] + self.data()

    def data(self):
        r = self.random
        made = [("S",)] if r.random() < 0.2 else []
        for _ in range(r.choice((0, 1, 1, 2, 3))):
            made.append(("d", r.choice(COPY_DATA[:2] if r.random() < 0.7 else COPY_DATA)))
            if r.random() < 0.1:
                made.append(r.choice((("H",), ("S",))))
        return made + [("c",) if r.random() < 0.75 else ("f", "enough")]

    def stray(self):
        return [self.random.choice((("d", b"1\n"), ("c",), ("f", "stray")))]


# --- bytes and notation -----------------------------------------------------------------------------


def cstr(text):
    return text.encode() + b"\0"


def shorts(values):
    return struct.pack(f"!{len(values) + 1}H", len(values), *values)


def values_of(values):
    body = struct.pack("!H", len(values))
    for value in values:
        body += struct.pack("!i", -1) if value is None else struct.pack("!I", len(value)) + value
    return body


def encode(message, client):
    """The bytes of one message."""
    kind, body = message[0], b""
    if kind == "Q":
        body = cstr(written("; ".join(message[1]), client))
    elif kind == "P":
        body = cstr(message[1]) + cstr(written(message[2], client)) + \
            struct.pack(f"!H{len(message[3])}I", len(message[3]), *message[3])
    elif kind == "B":
        _, portal, statement, values, formats, result = message
        body = cstr(portal) + cstr(statement) + shorts(formats) + values_of(values) + shorts(result)
    elif kind in "DC":
        body = message[1].encode() + cstr(message[2])
    elif kind == "E":
        body = cstr(message[1]) + struct.pack("!I", message[2])
    elif kind == "F":
        body = struct.pack("!I", message[1]) + shorts(()) + values_of(message[2]) + struct.pack("!H", 0)
    elif kind == "d":
        body = message[1]
    elif kind == "f":
        body = cstr(message[1])
    return kind.encode() + struct.pack("!I", len(body) + 4) + body


def bind_notation(portal, statement, values, formats, result):
    text = f"B({portal or repr('')},{statement or repr('')}"
    if values:
        text += "," + ",".join("null" if v is None else repr(v)[1:] for v in values)
    if formats:
        text += f",formats {formats}"
    return text + (f",result {result})" if result else ")")


def notation(message, client):
    """One message as people write it."""
    kind, rest = message[0], message[1:]
    if kind == "Q":
        return f"Q({written('; '.join(rest[0]), client)})"
    if kind == "P":
        types = f",types {rest[2]}" if rest[2] else ""
        return f"P({rest[0] or repr('')},'{written(rest[1], client)}'{types})"
    if kind == "B":
        return bind_notation(*rest)
    if kind == "d":
        return f"d({repr(rest[0])[2:-1]})" if len(rest[0]) < 40 else f"d({len(rest[0])} bytes)"
    if rest:
        return kind + "(" + ",".join(str(x) or "''" for x in rest) + ")"
    return kind


def notation_of(sequence, client):
    """A sequence, each send in brackets; `Q(..)<3` is a message of which 3 bytes went into this send."""
    if sequence == AGAIN:
        return "(leaves and comes again)"
    sends, waiting = [[]], None
    for message in sequence:
        if message[0] == "/":
            waiting = message
            continue
        text = notation(message, client)
        if waiting and waiting[1]:
            sends[-1].append(f"{text}<{waiting[1]}")
            sends += [[f"{waiting[2]} ms", "..."]]
        elif waiting:
            sends += [[f"{waiting[2]} ms", text]] if sends[-1] else []
            sends[-1] = sends[-1] or [text]
        else:
            sends[-1].append(text)
        waiting = None
    return " ".join(f"[{' '.join(s)}]" for s in sends if s)
