# SPDX-License-Identifier: GPL-2.0-or-later
"""Who gets which server, and when: modes, sizes, reserve, minimum, lifetimes, eviction."""
import threading
import time

from harness import Failed, Skip, check, fails, same, test
from tools import Sampler, until
from wire import PgError, Q, Wire

ONE = "test = host=127.0.0.1 port=PG pool_size=1\nsecond = host=127.0.0.1 port=PG pool_size=1"
PID = "select pg_backend_pid()"


def crowd(stage, count, seconds, sql="select pg_sleep(0.002)", users=("postgres",),
          databases=("test",)):
    """`count` clients that ask for `seconds`; answers of each, and its longest wait in seconds."""
    end = time.monotonic() + seconds
    answers, longest, errors = [0] * count, [0.0] * count, []
    clients = [stage.wire(users[i % len(users)], databases[i // len(users) % len(databases)],
                          timeout=30) for i in range(count)]

    def ask(number):
        try:
            while time.monotonic() < end:
                began = time.monotonic()
                clients[number].query(sql)
                longest[number] = max(longest[number], time.monotonic() - began)
                answers[number] += 1
        except Exception as error:  # whatever it is, it is told
            errors.append(f"client {number}: {error!r}")
    threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 40)
    if errors:
        raise Failed(f"{len(errors)} clients failed, first: {errors[0]}")
    return answers, longest


@test("pool_mode = session", databases=ONE)
def session(stage):
    """Session mode: a server is a client's until he leaves."""
    one, two = stage.wire(), stage.wire()
    pid = one.value(PID)
    one.query("set work_mem = '1234kB'")
    two.send(Q(PID))
    same(two.quiet(0.3), [])
    same(stage.pools()["cl_waiting"], 1)
    same((one.value(PID), one.value("show work_mem")), (pid, "1234kB"))
    one.close()
    same(two.rows(), [[pid]])
    check(two.value("show work_mem") != "1234kB", "the server was not reset")


@test("pool_mode = transaction", databases=ONE)
def transaction(stage):
    """Transaction mode: a server is a client's until the transaction ends."""
    one, two = stage.wire(), stage.wire()
    pid = one.value(PID)
    same(two.value(PID), pid)
    one.query("begin")
    two.send(Q(PID))
    same(two.quiet(0.2), [])
    one.query("select 1")
    same(two.quiet(0.2), [])
    one.query("commit")
    same(two.rows(), [[pid]])


@test("pool_mode = transaction", databases=ONE)
def failed_transaction(stage):
    """A failed transaction keeps its server until it is rolled back."""
    one, two = stage.wire(), stage.wire()
    one.query("begin")
    fails("22012", one.query, "select 1/0")
    two.send(Q("select 2"))
    same(two.quiet(0.2), [])
    fails("25P02", one.query, "select 1")
    one.query("rollback")
    same(two.rows(), [["2"]])


@test("pool_mode = statement", databases=ONE)
def statement(stage):
    """Statement mode: transactions over several queries are refused, one query may have several."""
    one = stage.wire()
    same(one.query("select 1; select 2"), [["1"], ["2"]])
    one.send(Q("begin"))
    error = one.ended(3)
    check(error and error.text == "transaction blocks not allowed in statement pooling mode", error)
    two = stage.wire()
    same(two.value("select 1"), "1")
    fails("22012", two.query, "select 1/0")
    same(two.value("select 2"), "2")


@test("default_pool_size = 3\npool_mode = statement",
      databases="test = host=127.0.0.1 port=PG pool_mode=session\n"
                "second = host=127.0.0.1 port=PG\nthird = host=127.0.0.1 port=PG pool_mode=session",
      users="alice = pool_mode=transaction")
def mode_of_whom(stage):
    """pool_mode of a user counts before the database's, that before the global one."""
    rows = {}
    for user, database in (("postgres", "test"), ("postgres", "second"), ("alice", "third")):
        stage.wire(user, database).query("select 1")
    for row in stage.ask("show pools"):
        rows[row["user"], row["database"]] = row["pool_mode"]
    same([rows[k] for k in (("postgres", "test"), ("postgres", "second"), ("alice", "third"))],
         ["session", "statement", "transaction"])


@test("default_pool_size = 5", seconds=30)
def size_is_kept_and_used(stage):
    """40 clients: never more than default_pool_size servers, and all of them at work."""
    with Sampler(stage.cluster) as sampler:
        crowd(stage, 40, 2, "select pg_sleep(0.01)")
        pools = stage.pools()
    same(sampler.top("test"), 5)
    check(pools["sv_idle"] + pools["sv_used"] + pools["sv_active"] == 5, pools)


@test(databases=ONE, seconds=30)
def one_server_for_many(stage):
    """pool_size 1: 24 clients on all workers all get on, none waits for long."""
    answers, longest = crowd(stage, 24, 3)
    check(min(answers) > 0, answers)
    check(max(longest) < 1.5, max(longest))
    check(max(answers) < 20 * min(answers) + 20, f"unfair: {answers}")
    stage.note(f"answers {min(answers)} to {max(answers)}, longest wait {max(longest):.3f} s")


@test("default_pool_size = 3", seconds=30)
def small_pool_for_workers(stage):
    """A pool smaller than the number of workers goes round fairly."""
    answers, longest = crowd(stage, 16, 2)
    check(min(answers) > 0, answers)
    check(max(longest) < 1, max(longest))


@test("default_pool_size = 4")
def idle_server_is_used(stage):
    """A new client gets the server that another has left before a new one is opened."""
    pids = set()
    for _ in range(12):
        one = stage.wire()
        pids.add(one.value(PID))
        one.close()
    same(len(pids), 1)


@test("default_pool_size = 8", ours=True)
def no_wait_while_one_idles(stage):
    """No client waits while a server of its pool idles at another worker."""
    clients = [stage.wire() for _ in range(8)]
    for one in clients:
        one.send(Q("select pg_sleep(0.2)"))
    for one in clients:
        one.rows()
    same(stage.pools()["sv_idle"] + stage.pools()["sv_used"], 8)
    more = [stage.wire() for _ in range(16)]
    worst = 0
    for one in more:
        began = time.monotonic()
        one.query("select 1")
        worst = max(worst, time.monotonic() - began)
    same(stage.pools()["sv_idle"] + stage.pools()["sv_used"], 8)
    check(worst < 0.1, worst)


@test("max_db_connections = 4\ndefault_pool_size = 10", seconds=30)
def database_limit(stage):
    """max_db_connections over several users is kept to the one, and all finish (11.2: 16)."""
    users = ("alice", "bob", "carol", "dave", "eve")
    with Sampler(stage.cluster) as sampler:
        answers, _ = crowd(stage, 10, 2, "select pg_sleep(0.01)", users)
    check(min(answers) > 0, answers)
    same(sampler.top("test"), 4)


@test("max_user_connections = 3\ndefault_pool_size = 10", seconds=30)
def user_limit(stage):
    """max_user_connections over several databases is kept to the one, and all finish (11.2: 16)."""
    with Sampler(stage.cluster) as sampler:
        answers, _ = crowd(stage, 9, 2, "select pg_sleep(0.01)", databases=("test", "second", "third"))
    check(min(answers) > 0, answers)
    same(sampler.top(user="postgres"), 3)


@test("default_pool_size = 10", users="alice = max_user_connections=2 pool_size=5\nbob = pool_size=1",
      databases="test = host=127.0.0.1 port=PG max_db_connections=4\nsecond = host=127.0.0.1 port=PG",
      seconds=30, new=True)
def own_limits(stage):
    """Limits of a database and of a user by themselves; nobody else's are touched."""
    with Sampler(stage.cluster) as sampler:
        crowd(stage, 24, 2, "select pg_sleep(0.01)", ("alice", "bob", "carol"), ("test", "second"))
    check(sampler.top("test") <= 4, "test", sampler.top("test"))
    check(sampler.top(user="alice") <= 2, "alice", sampler.top(user="alice"))
    check(sampler.top("second", "bob") <= 1, "bob", sampler.top("second", "bob"))


@test("max_db_connections = 2\ndefault_pool_size = 2")
def eviction_by_database(stage):
    """An idle server of another pool of the database makes room, the one idle longest first."""
    one, two, three = stage.wire("alice"), stage.wire("bob"), stage.wire("carol")
    first = one.value(PID)
    time.sleep(0.05)
    second = two.value(PID)
    time.sleep(0.05)
    third = three.value(PID)
    with stage.cluster.wire() as db:
        left = {r[0] for r in db.query("select pid from pg_stat_activity where datname = 'test'")}
    same(left, {second, third})
    check(first not in left)
    stage.pooler.wait_log("closing because: evicted")
    check(two.value("select 1") == "1" and one.value("select 1") == "1")


@test("max_user_connections = 1\ndefault_pool_size = 2")
def eviction_by_user(stage):
    """An idle server of the user in another database makes room; a busy one does not."""
    one, two = stage.wire(), stage.wire(database="second")
    same(one.value("select 1"), "1")
    same(two.value("select 2"), "2")
    one.query("begin")
    two.send(Q("select 3"))
    same(two.quiet(0.3), [])
    one.query("commit")
    same(two.rows(), [["3"]])


@test("max_client_conn = 4", new=True)
def client_limit(stage):
    """max_client_conn: one more is refused, the console is not, and who leaves makes room."""
    keep = [stage.wire() for _ in range(4)]
    fails("no more connections allowed (max_client_conn)", stage.wire)
    check(stage.ask("show pools"))
    keep[0].query("select 1")
    keep.pop().close()
    until(lambda: stage.pools()["cl_active"] == 3)
    time.sleep(0.1)  # the console that was asked counts until its end has been seen
    stage.wire().query("select 1")
    fails("no more connections allowed (max_client_conn)", stage.wire)


@test("max_db_client_connections = 2\nmax_user_client_connections = 3", new=True,
      databases="test = host=127.0.0.1 port=PG\n"
                "second = host=127.0.0.1 port=PG max_db_client_connections=5",
      users="alice = max_user_client_connections=1")
def client_limits_of_entries(stage):
    """Clients of a database and of a user, with own limits, and none counted after a failure."""
    keep = [stage.wire("bob"), stage.wire("bob")]
    text = "client connections exceeded (max_db_client_connections)"
    for _ in range(3):
        fails(text, stage.wire, "carol")
    keep.append(stage.wire("bob", "second"))
    text = "client connections exceeded (max_user_client_connections)"
    for _ in range(3):
        fails(text, stage.wire, "bob", "second")
    keep.append(stage.wire("alice", "second"))
    for _ in range(3):
        fails(text, stage.wire, "alice", "second")
    same([r["current_client_connections"] for r in stage.ask("show users") if r["name"] == "bob"],
         ["3"])
    for one in keep:
        one.close()

    def empty():
        return {r["current_client_connections"] for r in stage.ask("show users")
                if r["name"] in ("alice", "bob", "carol")} == {"0"}
    check(until(empty), stage.ask("show users"))
    stage.wire("bob"), stage.wire("alice")


@test("max_user_client_connections = 2\nauth_type = md5\nserver_login_retry = 0", new=True,
      databases="test = host=127.0.0.1 port=PG\nbad = host=127.0.0.1 port=PG dbname=nowhere",
      seconds=40)
def failures_leave_no_count(stage):
    """50 logins that fail at each stage lock nobody out (K45)."""
    for number in range(50):
        kind = number % 5
        if kind == 0:
            fails("password authentication failed", stage.wire, "alice", password="wrong")
        elif kind == 1:
            fails("no such database", stage.wire, "alice", "none", "alice")
        elif kind == 2:
            fails(["does not exist", "login has been failing"], stage.wire, "alice", "bad", "alice")
        else:
            one = stage.raw()
            one.send(b"\0\0\0\x26\0\3\0\0user\0alice\0database\0test\0\0\0\0"[:38])
            if kind == 3:
                try:
                    one.reply(1, 1)
                except OSError:
                    pass
            one.reset()

    def count():
        return [r["current_client_connections"] for r in stage.ask("show users")
                if r["name"] == "alice"]
    check(until(lambda: count() == ["0"]), count())
    stage.wire("alice", password="alice"), stage.wire("alice", password="alice")


@test("default_pool_size = 2\nreserve_pool_size = 2\nreserve_pool_timeout = 1", slow=True, seconds=30)
def reserve(stage):
    """The reserve is used when clients wait longer than reserve_pool_timeout, and only then."""
    clients = [stage.wire() for _ in range(8)]
    for one in clients:
        one.send(Q("select pg_sleep(3)"))

    def servers():
        pools = stage.pools()
        return pools["sv_active"] + pools["sv_idle"]
    time.sleep(0.6)
    same(servers(), 2)
    check(until(lambda: servers() == 4, 4), servers())
    time.sleep(0.3)
    same(servers(), 4)
    same(stage.pooler.text().count("taking connection from reserve_pool"), 2)
    for one in clients:
        one.rows()


@test("default_pool_size = 2\nmin_pool_size = 2", slow=True,
      databases="test = host=127.0.0.1 port=PG user=postgres\nsecond = host=127.0.0.1 port=PG", new=True)
def minimum(stage):
    """min_pool_size is filled at once for a forced user, for others while there is a client."""
    check(until(lambda: stage.pools().get("sv_idle") == 2, 4), stage.pools())
    same(stage.pools("second"), {})
    one = stage.wire(database="second")
    check(until(lambda: stage.pools("second").get("sv_idle") == 2, 4), stage.pools("second"))
    one.close()


@test("max_db_connections = 4\ndefault_pool_size = 5\nmin_pool_size = 3\nserver_login_retry = 0",
      slow=True)
def minimum_evicts_nobody(stage):
    """Filling up to min_pool_size evicts no servers of other pools: no churn (K47)."""
    clients = [stage.wire(user) for user in ("alice", "bob", "carol")]
    time.sleep(1.5)
    mark = stage.pooler.mark()
    time.sleep(2)
    text = stage.pooler.text(mark)
    check(text.count("new connection to server") <= 1, text.count("new connection to server"))
    for one in clients:
        same(one.value("select 1"), "1")


@test("server_lifetime = 1\nserver_idle_timeout = 60", slow=True)
def lifetime(stage):
    """A server older than server_lifetime is closed when it is unused, not before."""
    one = stage.wire()
    one.query("begin")
    pid = one.value(PID)
    time.sleep(1.6)
    same(one.value(PID), pid)
    one.query("commit")
    check(one.value(PID) != pid)
    check(until(lambda: stage.pools()["sv_idle"] == 0, 3))
    stage.pooler.wait_log("closing because: server lifetime over")


@test("server_lifetime = 0")
def lifetime_zero(stage):
    """server_lifetime 0: each server is used once."""
    one = stage.wire()
    same(len({one.value(PID) for _ in range(4)}), 4)


@test("server_idle_timeout = 1\nmin_pool_size = 1", slow=True)
def idle_timeout(stage):
    """Servers unused for server_idle_timeout are closed, min_pool_size of them stay."""
    clients = [stage.wire() for _ in range(4)]
    for one in clients:
        one.send(Q("select pg_sleep(0.2)"))
    for one in clients:
        one.rows()
    same(stage.pools()["sv_idle"], 4)
    check(until(lambda: stage.pools()["sv_idle"] == 1, 4), stage.pools())
    time.sleep(0.7)
    same(stage.pools()["sv_idle"], 1)
    stage.pooler.wait_log("closing because: server idle timeout")


@test("pool_mode = session\ndefault_pool_size = 1\nserver_reset_query = DISCARD ALL")
def reset_query(stage):
    """server_reset_query cleans a server between sessions."""
    one = stage.wire()
    one.query("create temp table mine (v int)")
    one.query("prepare p as select 1")
    one.query("set work_mem = '1234kB'")
    pid = one.value(PID)
    one.close()
    two = stage.wire()
    same(two.value(PID), pid)
    same(two.value("select to_regclass('mine')"), None)
    same(two.value("select count(*) from pg_prepared_statements"), "0")
    check(two.value("show work_mem") != "1234kB")


@test("server_reset_query_always = 1\ndefault_pool_size = 1\nserver_reset_query = set work_mem = '77kB'")
def reset_query_always(stage):
    """server_reset_query_always sends it in transaction mode too."""
    one = stage.wire()
    one.query("set work_mem = '1234kB'")
    same(one.value("show work_mem"), "77kB")


@test("default_pool_size = 1\npool_mode = session\nserver_reset_query = select 1/0")
def reset_query_fails(stage):
    """The answer of the reset query does not matter, not even an error."""
    for _ in range(3):
        one = stage.wire()
        same(one.value("select 1"), "1")
        one.close()


@test("server_check_delay = 0\ndefault_pool_size = 1\nserver_check_query = select 'check'",
      databases="test = host=127.0.0.1 port=PG dbname=logged")
def check_query(stage):
    """server_check_query runs before each use when server_check_delay is 0."""
    mark = stage.cluster.mark()
    one = stage.wire()
    for _ in range(4):
        one.query("select 'asked'")
        time.sleep(0.02)
    text = stage.cluster.logged(mark)
    check(3 <= text.count("select 'check'") <= 5, text)


@test("server_check_delay = 0\ndefault_pool_size = 2")
def check_hides_loss(stage):
    """A server that died while it was idle is replaced before the client notices."""
    one = stage.wire()
    for _ in range(5):
        pid = one.value(PID)
        with stage.cluster.wire() as db:
            db.query(f"select pg_terminate_backend({pid})")
        time.sleep(0.05)
        check(one.value(PID) != pid)


@test("server_round_robin = 1\ndefault_pool_size = 3")
def round_robin(stage):
    """server_round_robin takes the server that was idle longest."""
    if stage.options.workers > 1 and not stage.options.pgbouncer:
        raise Skip("an order over all cores is not promised")
    clients = [stage.wire() for _ in range(3)]
    for one in clients:
        one.send(Q("select pg_sleep(0.1)"))
    for one in clients:
        one.rows()
    same(len({clients[0].value(PID) for _ in range(3)}), 3)


@test("pool_idle_timeout = 1\nserver_idle_timeout = 1", new=True, slow=True)
def pool_idle(stage):
    """A pool without clients and servers is forgotten after pool_idle_timeout."""
    one = stage.wire()
    one.query("select 1")
    one.close()
    check(until(lambda: stage.pools() == {}, 6), stage.pools())
    stage.pooler.wait_log("cleaning up idle pool for user postgres on db test because: "
                          "pool idle timeout")
    same(stage.wire().value("select 1"), "1")


@test(databases="test = host=127.0.0.1 port=PG connect_query='set work_mem = ''321kB'''")
def connect_query(stage):
    """connect_query runs once on each new server."""
    same(stage.wire().value("show work_mem"), "321kB")


@test(databases="test = host=127.0.0.1 port=PG application_name=pooled timezone=Asia/Tokyo "
      "datestyle=German client_encoding=LATIN1", new=True)
def entry_parameters(stage):
    """client_encoding, datestyle, timezone and application_name of an entry are the defaults."""
    one = stage.wire()
    for name, value in (("application_name", "pooled"), ("timezone", "Asia/Tokyo"),
                        ("datestyle", "German, DMY"), ("client_encoding", "LATIN1")):
        same(one.value(f"show {name}"), value, name)


@test("default_pool_size = 20", seconds=40)
def hand_over_keeps_capacity(stage):
    """After many hand-overs all servers of the pool can still be busy at once (K46)."""
    crowd(stage, 60, 2, "select 1")
    clients = [stage.wire() for _ in range(24)]
    began = time.monotonic()
    for one in clients[:20]:
        one.send(Q("select pg_sleep(1)"))
    check(until(lambda: stage.pools()["sv_active"] == 20, 0.9), stage.pools())
    for one in clients[:20]:
        one.rows()
    check(time.monotonic() - began < 1.8, time.monotonic() - began)


@test("default_pool_size = 3")
def limit_lowered(stage):
    """A pool size lowered by RELOAD shrinks the pool as servers become free; raised, it grows."""
    clients = [stage.wire() for _ in range(6)]
    stage.reload(config="default_pool_size = 6")
    for one in clients:
        one.query("begin")
    same(stage.pools()["sv_active"], 6)
    stage.reload(config="default_pool_size = 2")
    same(stage.pools()["sv_active"], 6)
    for one in clients:
        one.query("commit")

    def servers():
        pools = stage.pools()
        return pools["sv_idle"] + pools["sv_active"] + pools["sv_used"] <= 2
    check(until(servers, 5), stage.pools())
    for one in clients:
        same(one.value("select 1"), "1")


@test("default_pool_size = 1")
def waiting_client_leaves(stage):
    """A client that leaves the queue runs nothing, and takes no server with it."""
    one, two, three = stage.wire(), stage.wire(), stage.wire()
    one.query("create table if not exists left_queue (v int); truncate left_queue")
    one.query("begin")
    two.send(Q("insert into left_queue values (1)"))
    check(until(lambda: stage.pools()["cl_waiting"] == 1))
    three.send(Q("select 3"))
    check(until(lambda: stage.pools()["cl_waiting"] == 2))
    two.reset()
    if not stage.options.pgbouncer:
        check(until(lambda: stage.pools()["cl_waiting"] == 1), "the one that left still waits")
    one.query("commit")
    same(three.rows(), [["3"]])
    if not stage.options.pgbouncer:
        same(one.value("select count(*) from left_queue"), "0")


@test("max_client_conn = 400\ndefault_pool_size = 10", seconds=40)
def connection_storm(stage):
    """300 connections made and dropped at once: everybody is served."""
    errors, lock = [], threading.Lock()

    def come_and_go():
        for number in range(30):
            try:
                one = Wire(*stage.where, timeout=20).login("postgres", "test")
                if number % 3:
                    same(one.value("select 7"), "7")
                one.close() if number % 2 else one.reset()
            except (OSError, PgError, Failed, Exception) as error:
                with lock:
                    errors.append(repr(error))
    threads = [threading.Thread(target=come_and_go, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    check(not errors, len(errors), errors[:3])
