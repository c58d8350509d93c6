# SPDX-License-Identifier: GPL-2.0-or-later
"""RELOAD that takes databases away and puts them back, while clients log in."""
import random
import threading
import time

from fake_server import FakeServer
from harness import check, fails, same, test
from tools import until
from wire import PgError, Q, Silent, startup

PLACE = "host=127.0.0.1 port=PG"
FORCED = f"{PLACE} dbname=test user=postgres pool_size=3"
KEPT = f"test = {PLACE}"


def churn(stage, config, seconds=6):
    """Clients log in to entries that come and go by RELOAD; what any of them is told wrongly."""
    names = ["second", "third", "d0", "d1", "d2", "d3"]
    wrong, done, stop = [], [0], threading.Event()

    def loop(number):
        chance = random.Random(number)
        while not stop.is_set():
            name, user = chance.choice(names), chance.choice(["alice", "bob", "carol", "dave", "eve", "u_trust"])
            try:
                one = stage.wire(user=user, database=name, timeout=8)
                told = one.query("select current_user, current_database()")
                one.close()
                done[0] += 1
                if told != [["postgres", "test"]]:
                    wrong.append((user, name, told))
            except PgError as error:
                if error.text not in (f"no such database: {name}", "database removed"):
                    wrong.append((user, name, error.text))
            except Exception as error:  # gone in the middle of it
                if isinstance(error, Silent):
                    wrong.append((user, name, "silence"))
    threads = [threading.Thread(target=loop, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    chance, end, console = random.Random(5), time.monotonic() + seconds, stage.console()
    while time.monotonic() < end:
        there = [f"{name} = {FORCED}" for name in names if chance.random() < 0.6]
        stage.pooler.rewrite(config=config, databases="\n".join([KEPT, *there]))
        console.query("reload")
        time.sleep(chance.random() * 0.03)
    stop.set()
    for thread in threads:
        thread.join()
    check(done[0] > 50, done)
    same(wrong, [])


LOOSE = "servers_per_worker = 0\nserver_idle_timeout = 0.05\nserver_login_retry = 0.2\n"
ALONE, FOUR = LOOSE + "workers = 1", LOOSE + "workers = 4"
PATIENT = "server_login_retry = 15\nworkers = 1"


@test(ALONE, databases=KEPT, ours=True, seconds=60)
def comes_and_goes(stage):
    """Who gets in is served as the entry says, never as its own name and the entry's would (I3)."""
    churn(stage, ALONE)


@test(FOUR, databases=KEPT, ours=True, seconds=60)
def comes_and_goes_everywhere(stage):
    """The same on four workers, which do not switch at one time."""
    churn(stage, FOUR)


@test(PATIENT, databases=KEPT, ours=True, seconds=40)
def removed_in_login(stage):
    """A database that goes while a server logs in has not failed: when it is back, it serves at once."""
    fake = FakeServer(stage)
    fake.say["slow"] = lambda visit: visit.drain()
    slow = f"slow = host=127.0.0.1 port={fake.port} user=postgres"
    stage.reload(config=PATIENT, databases=f"{KEPT}\n{slow}")
    one = stage.raw()
    one.send(startup([("user", "alice"), ("database", "slow")]), Q("select 1"))
    check(until(lambda: fake.logins.get("slow")))
    stage.reload(config=PATIENT, databases=KEPT)
    error = one.ended(3)
    check(error and error.text == "database removed", error)
    fake.say.clear()
    stage.reload(config=PATIENT, databases=f"{KEPT}\n{slow}")
    began = time.monotonic()
    stage.wire(user="alice", database="slow").query("select 1")
    check(time.monotonic() - began < 5)


@test(databases=KEPT, ours=True)
def removed_is_not_shown(stage):
    """Pools of a database that is gone are gone from SHOW; its name can come back."""
    for _ in range(2):
        stage.reload(databases=f"{KEPT}\nsecond = {PLACE}")
        same(stage.wire(database="second").value("select 1"), "1")
        stage.reload(databases=KEPT)
        check(until(lambda: "second" not in [r["database"] for r in stage.ask("show pools")], 3))
        check("second" not in [r["database"] for r in stage.ask("show stats")])
        fails("no such database: second", stage.wire, database="second")


@test(databases="\n".join([KEPT, *(f"d{i} = {PLACE}" for i in range(2500))]), ours=True, seconds=40)
def large_answers(stage):
    """The console goes on after answers that do not fit into a connection at once."""
    for console in (stage.console(), stage.console()):
        for _ in range(3):
            check(len(console.query("show databases")) >= 2500)
            same(len(console.query("show version")), 1)
