# SPDX-License-Identifier: GPL-2.0-or-later
"""Statements forgotten, prepared and run by SQL, beside those of the protocol."""
from batches import alike
from harness import check, same, test
from replay import compare
from wire import B, C, D, E, P, Q, S

KEPT = "max_prepared_statements = 200"
ONE = "test = host=127.0.0.1 port=PG pool_size=1\nlogged = host=127.0.0.1 port=PG pool_size=1"
# Each forgets the statement whose name stands beside it.
SPELLINGS = [
    ("name", "DEALLOCATE name"), ("name", "deallocate prepare NAME"), ("name", 'Deallocate "name" ;'),
    ("Quoted Name", 'DEALLOCATE "Quoted Name"'), ('quo"ted', 'deallocate "quo""ted"'),
    ("name", "/* why */ DEALLOCATE -- now\n name"), ("name", "/* a /* b */ c */deallocate/**/name/**/;"),
    ("name", "\t\n deallocate\r\n\fprepare\tname"), ("name", ";;deallocate name;;"),
    ("prepare", "deallocate prepare"), ("prepare", "deallocate prepare prepare"),
    ("all", 'deallocate "all"'), ("prepare", 'deallocate "prepare"'), ("näme", "deallocate NäME"),
    ("näme", 'deallocate "näme"'), ("n$1_x", "deallocate n$1_x"),
    ("x" * 63, "deallocate " + "x" * 63), ("x" * 63, "deallocate " + "X" * 80), ("_", "deallocate _"),
]
# These do not, or are errors.
OTHERS = ["deallocate", "deallocate name name", "deallocate 'name'", 'deallocate "Name"',
          "deallocate other", 'deallocate ""', "deallocate name.x", "deallocate nam", "deallocate nameX",
          "deallocatename", "-- deallocate name", "/* deallocate name", "select 'deallocate name'",
          "select 1 as deallocate; ;", "deallocate name, other", "explain deallocate name",
          "DISCARD PLANS", "discard temp", "discard sequences", "discard", "DISCARD ALL ALL"]
ALL = ["deallocate all", "DEALLOCATE PREPARE ALL;", "discard all", "/* x */DISCARD/* y */ALL/* z */",
       "deallocate -- x\nall"]


def probe(name):
    return [D("S", name), S]


def around(sql, name, extended=False):
    """Two statements there, the SQL, and which of them are still there; what can be prepared again."""
    ask = [P("", sql), B(), D(), E(), S] if extended else [Q(sql)]
    return [("A", [C("S", name), C("S", "stays"), P(name, "select 1"), P("stays", "select 2"), S]),
            ("B", [C("S", name), P(name, "select 3"), S]),
            ("A", ask), ("A", probe(name)), ("A", probe("stays")), ("B", probe(name)),
            ("A", [C("S", name), P(name, "select 4"), B("", name), E(), S]),
            ("B", [B("", name), E(), S])]


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def spellings(stage):
    """DEALLOCATE of one name in every way that PostgreSQL reads it."""
    alike(stage, [step for name, sql in SPELLINGS for step in around(sql, name)])


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def spellings_extended(stage):
    """The same by the extended protocol."""
    alike(stage, [step for name, sql in SPELLINGS for step in around(sql, name, True)])


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def no_deallocate(stage):
    """What looks like DEALLOCATE of a name and is not."""
    alike(stage, [step for sql in OTHERS for extended in (False, True)
                  for step in around(sql, "name", extended)])


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def all_at_once(stage):
    """All statements of a client at once, in every way; another's stay."""
    alike(stage, [step for sql in ALL for extended in (False, True)
                  for step in around(sql, "name", extended)])


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def in_transactions(stage):
    """Forgotten in a transaction is forgotten, also when it is rolled back; not in a failed one."""
    for sql in ("deallocate name", "deallocate all"):
        for end in ("commit", "rollback"):
            alike(stage, [("A", [P("name", "select 1"), P("stays", "select 2"), S]),
                          ("A", [Q("begin"), Q(sql), Q(end)]),
                          ("A", probe("name")), ("A", probe("stays"))])
        alike(stage, [("A", [P("name", "select 1"), S]), ("A", [Q("begin; select 1/0")]),
                      ("A", [Q(sql)]), ("A", [Q("rollback")]), ("A", probe("name")),
                      ("A", [B("", "name"), E(), S])])
        alike(stage, [("A", [P("name", "select 1"), S]),
                      ("A", [P("", "nonsense"), P("", sql), B(), E(), S]), ("A", probe("name")),
                      ("A", [P("", sql), B(), S]), ("A", probe("name")),
                      ("A", [P("", sql), B(), E(), P("", "select 1/0"), B(), E(), S]),
                      ("A", probe("name"))])


@test(KEPT, databases=ONE, new=True, seconds=120, slow=True)
def among_other_statements(stage):
    """DEALLOCATE ALL in one query with others; and texts that only look like it."""
    mixed = ("deallocate all; select 1", "select 1; deallocate all", "select 1; discard all",
             "begin; deallocate all; commit", "deallocate all; select 1/0",
             "select 'a;deallocate name;b'", "select $$;deallocate name;$$")
    alike(stage, [step for sql in mixed for step in around(sql, "name")])


@test(KEPT, databases=ONE, new=True)
def not_one_of_several(stage):
    """A known limit: DEALLOCATE of one name in a query with others, or escaped, does not find it."""
    one = stage.wire()
    for sql in ("select 1; deallocate name", 'deallocate U&"n\\0061me"'):
        one.send(C("S", "name"), P("name", "select 7"), S, Q(sql), B("", "name"), E(), S)
        got = one.reply(12 if sql[0] == "s" else 9)
        same(got[:3], ["3", "1", "Zi"])
        check("E[26000]" in got, got)
        same(got[-4:], ["2", "D(7)", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def unseen(stage):
    """A reset from within a DO block, which no pooler can read: at most one error, then all is well."""
    one, two = stage.wire(), stage.wire()
    for number, who in enumerate((one, two), 1):
        who.send(P("name", f"select {number}"), S)
        same(who.reply(2), ["1", "Zi"])
    one.query("do $$ begin execute 'deallocate all'; end $$")
    bind, wanted = [B("", "name"), E(), S], ["2", "D(2)", "C(SELECT 1)", "Zi"]
    two.send(*bind)
    if two.reply(2) == ["E[26000]", "Zi"]:
        two.send(*bind)
        same(two.reply(4), wanted)
    else:
        same(two.reply(2), wanted[2:])
    two.send(P("again", "select 1"), B("", "again"), E(), S)
    if two.reply(2) == ["1", "E[26000]"]:
        two.send(C("S", "again"), P("again", "select 1"), B("", "again"), E(), S)
        same(two.reply(7), ["Zi", "3", "1", "2", "D(1)", "C(SELECT 1)", "Zi"])
    else:
        same(two.reply(3), ["D(1)", "C(SELECT 1)", "Zi"])


@test(KEPT, databases=ONE, new=True)
def twice(stage):
    """A name that is gone is not there for DEALLOCATE, and is for Close."""
    compare(stage, [
        ("A", [P("a", "select 1"), S], "1 Zi"),
        ("A", [Q("deallocate a")], "C(DEALLOCATE) Zi"),
        ("A", [Q("deallocate a")], "E[26000] Zi"),
        ("A", [C("S", "a"), S], "3 Zi"),
        ("A", [P("a", "select 1"), C("S", "a"), S], "1 3 Zi"),
        ("A", [Q("deallocate a")], "E[26000] Zi"),
        ("A", [P("a", "select 2"), P("", "deallocate a"), B(), E(), P("a", "select 3"),
               B("", "a"), E(), S], "1 1 2 C(DEALLOCATE) 1 2 D(3) C(SELECT 1) Zi"),
        ("A", [P("", "deallocate a"), B("d"), C("S", "a"), P("a", "select 4"), E("d"), S,
               B("", "a"), E(), S], "1 2 3 1 C(DEALLOCATE) Zi E[26000] Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def prepare_by_sql(stage):
    """PREPARE, EXECUTE and DEALLOCATE by SQL within one transaction, beside a name of the protocol."""
    compare(stage, [
        ("A", [P("proto", "select 1"), S], "1 Zi"),
        ("A", [Q("begin; prepare s as select 8")], "C(BEGIN) C(PREPARE) ZT"),
        ("A", [Q("execute s")], "T1 D(8) C(SELECT 1) ZT"),
        ("A", [P("", "execute s"), B(), E(), S], "1 2 D(8) C(SELECT 1) ZT"),
        ("A", [B("", "proto"), E(), S], "2 D(1) C(SELECT 1) ZT"),
        ("A", [Q("deallocate s")], "C(DEALLOCATE) ZT"),
        ("A", [Q("commit")], "C(COMMIT) Zi"),
        ("A", [Q("prepare s as select 9; execute s; deallocate s")],
         "C(PREPARE) T1 D(9) C(SELECT 1) C(DEALLOCATE) Zi"),
        ("B", [Q("execute s")], "E[26000] Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def sql_name_by_protocol(stage):
    """What PREPARE has made can be bound and described by the protocol within its transaction."""
    compare(stage, [
        ("A", [Q("begin; prepare s (int) as select $1 + 1")], "C(BEGIN) C(PREPARE) ZT"),
        ("A", [D("S", "s"), B("", "s", 4), D(), E(), S], "t T1 2 T1 D(5) C(SELECT 1) ZT"),
        ("A", [Q("deallocate s"), Q("rollback")], "C(DEALLOCATE) ZT C(ROLLBACK) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def sql_name_closed_by_protocol(stage):
    """What PREPARE has made can be closed by the protocol within its transaction."""
    compare(stage, [
        ("A", [Q("begin; prepare s (int) as select $1 + 1")], "C(BEGIN) C(PREPARE) ZT"),
        ("A", [C("S", "s"), S], "3 ZT"),
        ("A", [B("", "s", 4), S], "E[26000] ZE"),
        ("A", [Q("rollback")], "C(ROLLBACK) Zi"),
    ])


@test(KEPT, databases=ONE, new=True)
def protocol_name_by_sql(stage):
    """EXECUTE of what the protocol has prepared: as with PostgreSQL, or 26000 as with PgBouncer."""
    for one in (stage.direct(), stage.wire()):
        one.send(P("s", "select 5"), S, Q("execute s"))
        got = one.reply(6, 1)
        if got[:3] != ["1", "Zi", "E[26000]"]:
            same(got, ["1", "Zi", "T1", "D(5)", "C(SELECT 1)", "Zi"])
