# SPDX-License-Identifier: GPL-2.0-or-later
"""State of sessions on shared servers: parameters, notifications, dead clients; seen by the others."""
import random

from batches import compare_random
from harness import check, fails, same, test
from tools import until
from wire import B, E, P, Q, S

ONE = ("test = host=127.0.0.1 port=PG pool_size=1\nsecond = host=127.0.0.1 port=PG pool_size=1\n"
       "logged = host=127.0.0.1 port=PG pool_size=1")
PARAMETERS = tuple(
    f"{verb} {name} = '{value}'"
    for name, values in (("application_name", ("one", "", "o''ne")),
                         ("timezone", ("Asia/Tokyo", "UTC")), ("datestyle", ("German", "SQL, MDY")),
                         ("intervalstyle", ("iso_8601", "postgres")))
    for value in values for verb in ("set", "set local")) + (
    "begin", "commit", "rollback", "begin", "commit", "savepoint x", "rollback to x", "select 1/0",
    "reset timezone", "reset application_name", "set datestyle = 'nonsense'",
    "select set_config('application_name', 'by call', false)",
    "select set_config('timezone', 'Europe/Paris', true)")
SHOW = ("select current_setting('application_name'), current_setting('timezone'), "
        "current_setting('datestyle'), current_setting('intervalstyle')")


@test(databases=ONE, new=True, seconds=120)
def random_parameters(stage):
    """Parameters set, local, rolled back, reset at random: each client sees its own, as directly."""
    for seed in range(3 if not stage.options.long else 60):
        compare_random(stage, f"parameters {seed}", 80, clients=3, texts=PARAMETERS + (SHOW,) * 6)


@test(databases=ONE, new=True)
def quoted_where_backslashes_escape(stage):
    """Values are quoted right for servers on which a backslash escapes; nothing else is ever run."""
    values = ["a'b", "a\\b", '"', "';drop table t;--", "\\';drop table t;--", "x', y='", "\\", "\\\\'",
              "''", "E'x", "/* x", "%s$1", "z" * 63]
    mark = stage.cluster.mark()
    with stage.cluster.wire() as db:
        db.query("alter role dave set standard_conforming_strings = off")
    try:
        options = dict(user="dave", database="logged")
        pairs = [(stage.wire(params=[("application_name", v)], **options), v) for v in values]
        for _ in range(2):
            for one, value in pairs:
                same(one.value("select current_setting('application_name')"), value[:63])
    finally:
        with stage.cluster.wire() as db:
            db.query("alter role dave reset all")
    text = stage.cluster.logged(mark)
    check("ERROR" not in text and "WARNING" not in text, text[-500:])
    lines = [line for line in text.splitlines() if "statement: " in line and "dave@logged" in line]
    strange = [x for x in lines if "statement: SET " not in x and "statement: select current" not in x]
    check(lines and not strange, strange[:2])


@test(databases=ONE, new=True)
def set_in_every_way(stage):
    """SET in simple, extended and pipelined queries, by function, in transactions: nobody else's."""
    one, two = stage.wire(), stage.wire()
    ways = [[Q("set timezone = 'Asia/Tokyo'")],
            [P("", "set timezone = 'Asia/Tokyo'"), B(), E(), S],
            [Q("begin"), Q("set timezone = 'Asia/Tokyo'"), Q("commit")],
            [Q("select set_config('timezone', 'Asia/Tokyo', false)")],
            [Q("select 1; set timezone = 'Asia/Tokyo'; select 2")],
            [P("", "select 1/0"), B(), S, P("", "set timezone = 'Asia/Tokyo'"), B(), E(), S]]
    for way in ways:
        two.query("set timezone = 'Europe/Paris'")
        one.query("set timezone = 'UTC'")
        one.send(*way, Q("select 'end'"))
        while one.read().word() != "D(end)":
            pass
        one.reply(2)
        same(two.value("show timezone"), "Europe/Paris")
        same(one.value("show timezone"), "Asia/Tokyo")


@test("pool_mode = session\nserver_reset_query = discard all", databases=ONE)
def notifications_of_one_database(stage):
    """Listeners on one channel in two databases: a notification is heard in its own only."""
    one, two = stage.wire(), stage.wire(database="second")
    one.query("listen ch"), two.query("listen ch")
    with stage.cluster.wire("second") as db:
        db.query("notify ch, 'second only'")
    got = two.read(2)
    same((got.kind, b"second only" in got.body), ("A", True))
    same(one.quiet(0.2), [])
    same(one.value("select 1"), "1")


@test("pool_mode = session\nserver_reset_query = discard all", databases=ONE)
def listeners_before(stage):
    """After UNLISTEN, or when a listener has left in any way, the next client hears nothing of it."""
    for way in ("unlisten", "close", "reset"):
        one = stage.wire()
        one.query("listen ch")
        pid = one.value("select pg_backend_pid()")
        if way == "unlisten":
            one.query("unlisten ch")
        if way == "reset":
            one.reset()
            check(until(lambda: stage.pools()["cl_active"] == 0))
        else:
            one.close()
        two = stage.wire()
        if way != "reset":
            same(two.value("select pg_backend_pid()"), pid, way)
        with stage.cluster.wire("test") as db:
            db.query("notify ch, 'late'")
        two.send(Q("select 2"))
        same(two.reply(4), ["T1", "D(2)", "C(SELECT 1)", "Zi"], way)
        same(two.quiet(0.1), [], way)
        two.close()


@test(databases=ONE)
def transaction_state_of_the_dead(stage):
    """Clients that die in transactions of every state: the next one starts outside of any."""
    two = stage.wire()
    firsts = ([Q("begin; select 1/0")], [Q("begin; select 1")],
              [Q("begin; savepoint x; select 1/0")], [Q("begin"), P("", "select 1/0"), B(), E()],
              [Q("begin"), P("", "select 1"), B(), E(), S],
              [P("", "begin"), B(), E()], [Q("begin; declare c cursor for select 1"), Q("fetch c")],
              [Q("begin isolation level serializable read only; select count(*) from t")])
    mark = stage.cluster.mark()
    for number, first in enumerate(firsts):
        for way in ("reset", "terminate"):
            one = stage.wire()
            one.send(*first)
            one.reply(2, 1)
            one.reset() if way == "reset" else one.close()
            two.send(Q("select txid_current_if_assigned(), current_setting('transaction_read_only'), "
                       "count(*) from pg_cursors"))
            same(two.reply(4, 3), ["T3", "D(null,off,0)", "C(SELECT 1)", "Zi"], f"{number} {way}")
    check("cannot run inside a transaction block" not in stage.cluster.logged(mark))


@test(databases=ONE, ours=True)
def reported_read_only_in_all_ways(stage):
    """default_transaction_read_only of one client, set in any way, keeps no other from writing."""
    one, two = stage.wire(), stage.wire(params=[("default_transaction_read_only", "off")])
    for way in (Q("set default_transaction_read_only = on"),
                Q("select set_config('default_transaction_read_only', 'on', false)"),
                Q("set session characteristics as transaction read only")):
        one.send(way)
        one.rows()
        two.query("insert into t values (1)")
        fails("25006", one.query, "insert into t values (1)")
        same(two.value("show default_transaction_read_only"), "off")
        one.query("set default_transaction_read_only = off")
    two.query("truncate t")


@test("default_pool_size = 2", new=True)
def values_move_with_clients(stage):
    """Clients that come back to other servers still have what they set, and nobody else's."""
    chance, clients = random.Random(3), [stage.wire() for _ in range(5)]
    values = {}
    for turn in range(150):
        number = chance.randrange(len(clients))
        one = clients[number]
        if chance.random() < 0.4:
            values[number] = f"value {turn}"
            one.query(f"set application_name = 'value {turn}'")
        holder = clients[chance.randrange(len(clients))]
        if holder is not one:
            holder.query("begin")
        wanted = values.get(number)
        got = one.value("select current_setting('application_name')")
        check(got == wanted or wanted is None and not got.startswith("value"), turn, got, wanted)
        if holder is not one:
            holder.query("commit")


@test(databases=ONE, new=True)
def reset_of_one_thing(stage):
    """RESET of this, or rolled back, leaves what was SET of that; a SET behind RESET counts."""
    params = [("TimeZone", "Asia/Tokyo"), ("client_encoding", "LATIN1"), ("application_name", "mine")]
    asked = ("select current_setting('timezone'), current_setting('client_encoding'), "
             "current_setting('application_name')")
    started, zone, before = ["Asia/Tokyo", "LATIN1", "mine"], "America/Lima", []
    ways = (
        (["reset role"], [zone, "LATIN2", "other"]),
        (["reset statement_timeout"], [zone, "LATIN2", "other"]),
        (["reset application_name"], [zone, "LATIN2", "mine"]),
        (["reset timezone"], ["Asia/Tokyo", "LATIN2", "other"]),
        (["begin; reset all; rollback"], [zone, "LATIN2", "other"]),
        (["begin", "reset all", "rollback"], [zone, "LATIN2", "other"]),
        (["begin; reset timezone; savepoint a; reset application_name; rollback to a; commit"],
         ["Asia/Tokyo", "LATIN2", "other"]),
        (["reset all; set application_name = 'after'"], ["Asia/Tokyo", "LATIN1", "after"]),
        (["begin", "reset all", "commit"], started),
        (["reset all"], started),
        (["discard all"], started),
    )
    two = stage.wire()
    for direct in (True, False):
        for steps, wanted in ways:
            one = stage.direct(params=params) if direct else stage.wire(params=params)
            one.query(f"set timezone = '{zone}'; set client_encoding = 'LATIN2'; "
                      "set application_name = 'other'")
            for sql in steps:
                one.query(sql)
            two.query("set timezone = 'Africa/Cairo'")
            same(one.query(asked)[0], wanted, steps)
            one.close()


@test("pool_mode = session", databases=ONE, new=True)
def reset_of_one_thing_in_sessions(stage):
    """The same where a server is the client's own."""
    one = stage.wire(params=[("TimeZone", "Asia/Tokyo"), ("application_name", "mine")])
    for zone in ("America/Lima", stage.direct().value("show timezone")):
        one.query(f"set timezone = '{zone}'")
        one.query("reset role")
        same(one.value("show timezone"), zone)
    one.query("reset all")
    same(one.value("show timezone"), "Asia/Tokyo")
    same(one.value("show application_name"), "mine")
