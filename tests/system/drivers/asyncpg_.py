# SPDX-License-Identifier: GPL-2.0-or-later
"""asyncpg: named statements behind a cache with room for many (mode many), or for one, so that each is
closed when the next one comes (mode one), or none: then they have no name, and are parsed in one batch
and bound in the next (mode none).  Everything is binary."""
import asyncio
import json

import asyncpg

import scenarios


class Asyncpg(scenarios.Driver):
    error = asyncpg.PostgresError

    def __init__(self, arguments):
        super().__init__(arguments)
        self.loop = asyncio.new_event_loop()
        self.wait = self.loop.run_until_complete
        self.transaction = None

    def connect(self):
        options = {"many": {}, "one": dict(statement_cache_size=1), "none": dict(statement_cache_size=0)}
        self.db = self.wait(asyncpg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, ssl=False,
            database=self.database, **options[self.mode]))
        self.wait(self.db.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps,
                                         decoder=json.loads))

    def close(self):
        self.wait(self.db.close())

    def text(self, sql):
        return sql.replace("NAME", self.schema).replace("{0}", "$1").replace("{1}", "$2")

    def execute(self, sql, *values):
        """What has no values goes as a simple query, unless it has rows."""
        if not values and not sql.startswith(("select", "show")):
            self.wait(self.db.execute(self.text(sql)))
            return []
        return [tuple(row) for row in self.wait(self.db.fetch(self.text(sql), *values))]

    def begin(self):
        self.transaction = self.db.transaction()
        self.wait(self.transaction.start())

    def commit(self):
        self.wait(self.transaction.commit())

    def rollback(self):
        self.wait(self.transaction.rollback())

    def prepare_again(self, sql, value):
        found = []
        self.begin()
        for _ in range(2):
            statement = self.wait(self.db.prepare(self.text(sql)))
            found.append(self.wait(statement.fetchval(value)))
            del statement
        self.commit()
        return found

    def batch(self, steps):
        """executemany pipelines one statement with many values, and gives no rows."""
        sql = self.text("insert into NAME.b select 12 / $1::int * $1::int")
        self.execute("create table if not exists NAME.b (v int)")
        if len(steps) == 10:
            sql = self.text("insert into NAME.b select $1::int * $1::int")
            self.wait(self.db.executemany(sql, [(i,) for i in range(1, 11)]))
            return [row[0] for row in self.execute("select v from NAME.b order by v")]
        self.wait(self.db.executemany(self.text("insert into NAME.t select 100 + 0 / $1::int"),
                                      [(1,), (0,), (2,)]))

    def copy_in(self, table, rows):
        self.wait(self.db.copy_records_to_table(table, schema_name=self.schema, records=rows))

    def copy_out(self, sql):
        found = []

        async def take(data):
            found.append(data)
        self.wait(self.db.copy_from_query(self.text(sql), output=take))
        return b"".join(found)

    def give_up(self, table, row):
        async def rows():
            yield row
            raise ValueError("no")
        try:
            self.wait(self.db.copy_records_to_table(table, schema_name=self.schema, records=rows()))
        except ValueError:
            return "own error"

    def cursor(self, sql):
        cursor = self.wait(self.db.cursor(sql))
        return lambda count: self.wait(cursor.fetch(count))

    def cancel(self):
        """A task that is cancelled sends a cancel request."""
        async def sleep():
            task = asyncio.ensure_future(self.db.execute("select pg_sleep(10)"))
            await asyncio.sleep(0.5)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            await self.db.execute("select 1")
        self.wait(sleep())

    def notices(self, sql):
        found = []
        self.db.add_log_listener(lambda db, text: found.append(text.message))
        self.execute(sql)
        self.wait(asyncio.sleep(0.01))
        return found

    def raised(self, error):
        return error.args[0], error.detail, error.hint


scenarios.run(Asyncpg)
