# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs and drivers that people use: psql, pgbench, psycopg 3, psycopg2, asyncpg."""
import asyncio
import re
import subprocess
import threading
import time

import asyncpg
import psycopg
import psycopg2

from harness import BIN, PASSWORD, check, same, test
from tools import until


def run(stage, *command, text=None, database="test", user="postgres", password=None):
    """A program of PostgreSQL against the pooler: its output."""
    env = {"PGHOST": "127.0.0.1", "PGPORT": str(stage.pooler.port), "PGUSER": user,
           "PGDATABASE": database, "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    if password:
        env["PGPASSWORD"] = password
    done = subprocess.run([str(c) for c in command], env=env, cwd="/", capture_output=True,
                          text=True, input=text, timeout=60)
    check(done.returncode == 0, f"{command[0]}: exit {done.returncode}, {done.stderr[-400:]}")
    return done


def pgbench(stage, *options, clients=20):
    with stage.cluster.wire("test") as db:
        if db.value("select to_regclass('pgbench_accounts')") is None:
            subprocess.run([str(BIN / "pgbench"), "-h", "127.0.0.1", "-p", str(stage.cluster.port),
                            "-U", "postgres", "-i", "-q", "-s", "1", "test"], check=True, cwd="/",
                           capture_output=True)
    done = run(stage, BIN / "pgbench", "-n", "-c", clients, "-j", 2, "-T", 2, *options)
    check("number of failed transactions: 0" in done.stdout, done.stdout)
    stage.note("%s: %s transactions/s" % (" ".join(map(str, options)),
                                          re.search(r"tps = (\d+)", done.stdout)[1]))
    check(not re.search("error|abort", done.stderr, re.I), done.stderr)


@test(seconds=40, slow=True)
def pgbench_select(stage):
    """pgbench -S, simple and extended, in transaction mode."""
    pgbench(stage, "-S", "-M", "simple")
    pgbench(stage, "-S", "-M", "extended")


@test("pool_mode = session\ndefault_pool_size = 20", seconds=40, slow=True)
def pgbench_session(stage):
    """pgbench -S -M prepared in session mode."""
    pgbench(stage, "-S", "-M", "prepared")


@test(seconds=40, slow=True)
def pgbench_write(stage):
    """pgbench's own transactions, and a connection for each of them."""
    pgbench(stage, "-M", "extended", clients=8)
    pgbench(stage, "-S", "-C", clients=8)


@test("pool_mode = statement", seconds=40)
def pgbench_statement(stage):
    """pgbench -S in statement mode."""
    pgbench(stage, "-S", "-M", "simple", clients=10)


@test()
def psql(stage):
    """psql: scripts, \\copy, errors, \\d, a large result."""
    done = run(stage, BIN / "psql", "-XAtq", "-v", "ON_ERROR_STOP=0", text="""
select 1;
begin; create temp table mine (v int);
\\copy mine from program 'seq 1 1000'
select sum(v) from mine;
\\copy mine to '/dev/null'
rollback;
select * from none;
\\d big
select count(*) from big;
\\set FETCH_COUNT 100
select v from big limit 250;
""")
    lines = done.stdout.splitlines()
    check("1" in lines and "500500" in lines and "1000" in lines, lines[:20])
    same(lines.count("x" * 100), 250)
    check('relation "none" does not exist' in done.stderr, done.stderr)


@test()
def psql_console(stage):
    """psql on the console."""
    done = run(stage, BIN / "psql", "-XAt", "-c", "show pools", "-c", "show help", "-c", "show stats",
               database="pgbouncer", user="admin")
    check("pgbouncer|pgbouncer|1" in done.stdout, done.stdout)
    check("Console usage" in done.stderr, done.stderr)


@test("auth_type = scram-sha-256")
def psql_scram(stage):
    """libpq's SCRAM."""
    done = run(stage, BIN / "psql", "-XAtc", "select current_user", user="u_scram", password=PASSWORD)
    same(done.stdout.strip(), "u_scram")


@test()
def psql_cancel(stage):
    """psql ^C cancels what runs."""
    import os
    import signal
    process = subprocess.Popen([BIN / "psql", "-XAt", "-h", "127.0.0.1", "-p", str(stage.pooler.port),
                                "-U", "postgres", "-c", "select pg_sleep(20)", "test"], cwd="/",
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(until(lambda: stage.pools().get("sv_active") == 1))
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=5)
    check("canceling statement due to user request" in errors, errors)


@test()
def dump(stage):
    """pg_dump through the pooler is the same as directly."""
    through = run(stage, BIN / "pg_dump", "-t", "big", "test").stdout
    direct = subprocess.run([BIN / "pg_dump", "-h", "127.0.0.1", "-p", str(stage.cluster.port), "-U",
                             "postgres", "-t", "big", "test"], capture_output=True, text=True,
                            cwd="/").stdout
    # \\restrict has a random word.
    same(re.sub(r"(restrict) \w+", r"\1", through) == re.sub(r"(restrict) \w+", r"\1", direct), True)


@test()
def psycopg3(stage):
    """psycopg 3 in transaction mode: queries, errors, transactions, copy, pipelines, big values."""
    with psycopg.connect(**stage.server, prepare_threshold=None) as db:
        same(db.execute("select %s::int + 1", (41,)).fetchone(), (42,))
        db.commit()
        for number in range(30):
            same(db.execute("select %s::text", ("x" * number * 100,)).fetchone()[0], "x" * number * 100)
            db.commit()
        try:
            db.execute("select 1/0")
            check(False)
        except psycopg.errors.DivisionByZero:
            db.rollback()
        with db.pipeline():
            cursors = [db.execute("select %s::int", (i,)) for i in range(100)]
        same([c.fetchone()[0] for c in cursors], list(range(100)))
        db.commit()
        db.execute("truncate t")
        with db.cursor().copy("copy t from stdin") as copy:
            for number in range(1000):
                copy.write_row((number,))
        same(db.execute("select sum(v) from t").fetchone(), (499500,))
        with db.cursor().copy("copy t to stdout") as copy:
            same(sum(1 for _ in copy.rows()), 1000)
        with db.cursor(name="c") as cursor:
            cursor.execute("select generate_series(1, 500)")
            same(len(cursor.fetchmany(100)), 100)
        db.execute("truncate t")
        db.commit()
    with psycopg.connect(**stage.server, prepare_threshold=None, autocommit=True) as db:
        same(db.execute("select 1").fetchone(), (1,))
        with db.transaction():
            db.execute("select 2")
            with db.transaction():
                db.execute("select 3")


@test("pool_mode = session")
def psycopg3_session(stage):
    """psycopg 3 with prepared statements in session mode, in many threads."""
    wrong = []

    def work(number):
        try:
            with psycopg.connect(**stage.server, prepare_threshold=1) as db:
                for i in range(30):
                    if db.execute("select %s::int", (i,)).fetchone() != (i,):
                        wrong.append(number)
        except Exception as error:
            wrong.append(repr(error))
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    check(not wrong, wrong[:2])


@test()
def psycopg3_cancel(stage):
    """psycopg 3: Connection.cancel()."""
    with psycopg.connect(**stage.server, prepare_threshold=None, autocommit=True) as db:
        threading.Timer(0.2, db.cancel).start()
        try:
            db.execute("select pg_sleep(10)")
            check(False)
        except psycopg.errors.QueryCanceled:
            pass
        same(db.execute("select 1").fetchone(), (1,))


@test(new=True)
def psycopg3_console(stage):
    """psycopg 3 on the console, as monitoring does it."""
    with psycopg.connect(host="127.0.0.1", port=stage.pooler.port, dbname="pgbouncer", user="admin",
                         autocommit=True, cursor_factory=psycopg.ClientCursor,
                         prepare_threshold=None) as db:
        check(db.execute("show pools").fetchall())
        check(db.execute("show stats").fetchall())


@test()
def psycopg2_(stage):
    """psycopg2: queries, errors, transactions, named cursors, copy."""
    db = stage.keep(psycopg2.connect(**stage.server))
    with db.cursor() as cursor:
        cursor.execute("select %s + 1", (41,))
        same(cursor.fetchone(), (42,))
        db.commit()
        try:
            cursor.execute("select 1/0")
            check(False)
        except psycopg2.errors.DivisionByZero:
            db.rollback()
    with db.cursor("named") as cursor:
        cursor.execute("select generate_series(1, 5000)")
        same(sum(1 for _ in cursor), 5000)
    db.commit()
    import io
    with db.cursor() as cursor:
        cursor.execute("truncate t")
        cursor.copy_expert("copy t from stdin", io.StringIO("1\n2\n3\n"))
        out = io.StringIO()
        cursor.copy_expert("copy t to stdout", out)
        same(out.getvalue(), "1\n2\n3\n")
    db.rollback()
    console = stage.keep(psycopg2.connect(host="127.0.0.1", port=stage.pooler.port,
                                          dbname="pgbouncer", user="admin"))
    console.autocommit = True
    with console.cursor() as cursor:
        cursor.execute("show pools")
        check(cursor.fetchall())


async def asyncpg_work(stage, **options):
    pool = await asyncpg.create_pool(host="127.0.0.1", port=stage.pooler.port, user="postgres",
                                     database="test", min_size=4, max_size=12, **options)

    # asyncpg parses in one batch and executes in the next: outside a transaction that is another
    # server's business in transaction mode.
    async def one(number):
        for i in range(10):
            async with pool.acquire() as db, db.transaction():
                same(await db.fetchval("select $1::int * 2", number * 10 + i), (number * 10 + i) * 2)
        async with pool.acquire() as db:
            async with db.transaction():
                same(await db.fetchval("select 5"), 5)
                rows = [r[0] async for r in db.cursor("select generate_series(1, 100)")]
                same(rows, list(range(1, 101)))
            try:
                await db.execute("select 1/0")
                check(False)
            except asyncpg.DivisionByZeroError:
                pass
    await asyncio.gather(*(one(i) for i in range(20)))
    async with pool.acquire() as db:
        try:
            async with db.transaction():
                await db.fetchval("select pg_sleep(10)", timeout=0.3)
            check(False)
        except asyncio.TimeoutError:
            pass
        async with db.transaction():
            same(await db.fetchval("select 1"), 1)
    await pool.close()


@test("ignore_startup_parameters = extra_float_digits, jit")
def asyncpg_transaction(stage):
    """asyncpg without a statement cache in transaction mode, with a time-out that cancels."""
    asyncio.run(asyncpg_work(stage, statement_cache_size=0))


@test("pool_mode = session\ndefault_pool_size = 20\nignore_startup_parameters = jit")
def asyncpg_session(stage):
    """asyncpg as it is in session mode."""
    asyncio.run(asyncpg_work(stage))
