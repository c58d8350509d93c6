# SPDX-License-Identifier: GPL-2.0-or-later
"""What one client sets must not reach another, and must be there again when he is back."""
import threading
import time

from harness import check, fails, same, test
from tools import until
from wire import B, E, P, PgError, Q, S

ONE = ("test = host=127.0.0.1 port=PG pool_size=1\n"
       "logged = host=127.0.0.1 port=PG pool_size=1")


@test(databases=ONE, ours=True)
def read_only(stage):
    """default_transaction_read_only of one client does not make another's writes fail (K25)."""
    one, two = stage.wire(), stage.wire()
    one.query("set default_transaction_read_only = on")
    two.query("insert into t values (1)")
    same(one.value("show default_transaction_read_only"), "on")
    two.query("truncate t")
    fails("25006", one.query, "insert into t values (1)")


@test(databases=ONE, new=True)
def reported_parameters(stage):
    """Every parameter that PostgreSQL reports is each client's own (K25)."""
    values = {"application_name": ("one", "two"), "DateStyle": ("German, DMY", "SQL, MDY"),
              "TimeZone": ("Asia/Tokyo", "Europe/Paris"), "client_encoding": ("LATIN1", "UTF8"),
              "IntervalStyle": ("iso_8601", "sql_standard"),
              "standard_conforming_strings": ("off", "on")}
    if not stage.options.pgbouncer:
        values["default_transaction_read_only"] = ("on", "off")
    clients = [stage.wire(), stage.wire()]
    for name, pair in values.items():
        for one, value in zip(clients, pair):
            one.query(f"set {name} = '{value}'")
            same(one.settings[name], value)
    for _ in range(3):
        for number, one in enumerate(clients):
            for name, pair in values.items():
                same(one.value(f"show {name}"), pair[number], name)
    same(stage.wire().value("show timezone") in ("Asia/Tokyo", "Europe/Paris"), False)


@test(databases=ONE)
def canonical_values(stage):
    """A value that PostgreSQL spells otherwise costs one SET, not one per transaction (K26)."""
    mark = stage.cluster.mark()
    one = stage.wire(database="logged", params=[("DateStyle", "ISO"), ("client_encoding", "utf-8")])
    for _ in range(30):
        one.query("select 1")
    two = stage.wire(database="logged")
    for _ in range(5):
        two.query("select 1"), one.query("select 1")
    text = stage.cluster.logged(mark)
    count = text.lower().count("set datestyle") + text.lower().count("set client_encoding")
    check(count <= 2, count)


@test(databases=ONE, new=True)
def quoting(stage):
    """Values with quotes, backslashes and more come back as they were; nothing else is run (K27)."""
    values = ["a'b", "a\\b", '"', "';drop table t;--", "x', y='", "Ä" * 31, "", "a;b", "$1", "%s",
              "E'x", "\\", "'", "''", "a\tb", " lead and trail ", "-- x", "/* x"]
    before = stage.wire().value("select count(*) from t")
    for strings in ("on", "off"):
        clients = [stage.wire(params=[("application_name", v),
                                      ("standard_conforming_strings", strings)]) for v in values]
        for _ in range(2):
            for one, value in zip(clients, values):
                with stage.cluster.wire() as db:
                    # PostgreSQL replaces what is not printable ASCII in this parameter.
                    db.send(Q("set standard_conforming_strings = on"))
                    db.rows()
                    quoted = value.replace("'", "''")
                    db.query(f"set application_name = '{quoted}'")
                    wanted = db.value("show application_name")
                same(one.value("show application_name"), wanted, repr(value))
        for one in clients:
            one.close()
    same(stage.wire().value("select count(*) from t"), before)


@test("track_extra_parameters = search_path", databases=ONE, new=True)
def long_values(stage):
    """A value of a thousand bytes is kept."""
    one, two = stage.wire(), stage.wire()
    value = "x" * 1000
    one.query(f"set application_name = '{value}'")
    seen = one.value("show application_name")
    two.query("select 1")
    same(one.value("show application_name"), seen)


@test(databases=ONE)
def bad_startup_value(stage):
    """A startup value that PostgreSQL refuses ends this client, and nobody else."""
    try:
        one = stage.wire(params=[("DateStyle", "nonsense")])
        one.send(Q("select 1"))
        error = one.ended(3)
    except PgError as refused:
        error = refused
    check(error, "it was taken")
    same(stage.wire().value("select 1"), "1")


@test(databases=ONE)
def dies_in_transaction(stage):
    """Who dies in a transaction, open or failed, leaves none to others (K28)."""
    two = stage.wire(database="logged")
    mark = stage.cluster.mark()
    for first in ("begin; select 1/0", "begin; insert into t values (1)", "begin"):
        for way in ("reset", "terminate"):
            one = stage.wire(database="logged")
            try:
                one.query(first)
            except PgError:
                pass
            one.reset() if way == "reset" else one.close()
            two.send(Q("select txid_current_if_assigned(), count(*) from t"))
            same(two.reply(4, 3), ["T2", "D(null,0)", "C(SELECT 1)", "Zi"], first)
    check("cannot run inside a transaction block" not in stage.cluster.logged(mark))


@test("pool_mode = session\ndefault_pool_size = 1")
def dies_in_session_transaction(stage):
    """The same in session mode, with the reset query behind."""
    for first in ("begin; select 1/0", "begin"):
        one = stage.wire()
        try:
            one.query(first)
        except PgError:
            pass
        one.close()
        two = stage.wire()
        two.send(Q("select txid_current_if_assigned()"))
        same(two.reply(4, 3), ["T1", "D(null)", "C(SELECT 1)", "Zi"], first)
        two.close()


@test(databases=ONE, new=True)
def tracked_over_servers(stage):
    """Changes inside transactions: rolled back ones are as PostgreSQL left them."""
    one, two = stage.wire(), stage.wire()
    one.query("set application_name = 'before'")
    one.query("begin")
    one.query("set application_name = 'inside'")
    one.query("rollback")
    two.query("set application_name = 'two'")
    same(one.value("show application_name"), "before")
    one.query("begin; set local application_name = 'local'; commit")
    two.query("select 1")
    same(one.value("show application_name"), "before")
    one.query("reset application_name")
    two.query("select 1")
    check(one.value("show application_name") != "two")


@test("default_pool_size = 3", seconds=30)
def many_names(stage):
    """16 clients with names of their own on 3 servers: each always sees his own."""
    wrong, end = [], time.monotonic() + 2

    def work(number):
        try:
            one = stage.wire(params=[("application_name", f"client {number}")])
            while time.monotonic() < end:
                got = one.value("select current_setting('application_name')")
                if got != f"client {number}":
                    wrong.append((number, got))
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    check(not wrong, wrong[:3])


@test(databases=ONE)
def unsent_answers(stage):
    """A client that leaves without reading its answers: the next one gets none of them."""
    for _ in range(20):
        one, two = stage.wire(), stage.wire()
        one.send(Q("select 'first'"), P("", "select 'second'"), B(), E(), S)
        one.reset()
        two.send(Q("select 'mine'"))
        got = two.reply(4, 3)
        same(got, ["T1", "D(mine)", "C(SELECT 1)", "Zi"])
        two.close()


@test(databases=ONE)
def server_side_leftovers(stage):
    """An unsolicited notice at an idle server does not reach the next client out of place."""
    one = stage.wire()
    pid = one.value("select pg_backend_pid()")
    with stage.cluster.wire() as db:
        db.query("select pg_reload_conf()")
        db.query(f"select pg_terminate_backend({pid})")
    time.sleep(0.1)
    one.send(Q("select 5"))
    same(one.reply(4, 3), ["T1", "D(5)", "C(SELECT 1)", "Zi"])
    check(until(lambda: stage.pools()["sv_idle"] == 1))
