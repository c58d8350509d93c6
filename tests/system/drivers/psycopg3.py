# SPDX-License-Identifier: GPL-2.0-or-later
"""psycopg 3: everything prepared (mode prepare), prepared at the second use (mode second), or never and
with binary results (mode binary)."""
import threading

import psycopg
import psycopg.types.json

import scenarios


class Psycopg3(scenarios.AutocommitDriver):
    error = psycopg.Error
    threshold = {"prepare": 0, "second": 2, "binary": None}

    def connect(self):
        self.db = psycopg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, sslmode="disable",
            dbname=self.database, autocommit=True, prepare_threshold=self.threshold[self.mode])

    def execute(self, sql, *values):
        cursor = self.db.execute(*self.pyformat(sql, values), binary=self.mode == "binary")
        return cursor.fetchall() if cursor.description else []

    def prepare_again(self, sql, value):
        """A cache of one statement gives the other one up."""
        found, kept = [], self.db.prepared_max
        self.db.prepared_max = 1
        for _ in range(2):
            found += [self.value(sql, value) for _ in range(3)][2:]
            for _ in range(3):
                self.value("select {0}::int + 1", 1)
        self.db.prepared_max = kept
        return found

    def batch(self, steps):
        with self.db.pipeline():
            cursors = [self.db.execute(*self.pyformat(sql, values)) for sql, *values in steps]
        return [cursor.fetchone()[0] for cursor in cursors if cursor.description]

    def segments(self, sql, *values):
        found = []
        with self.db.pipeline() as pipeline:
            for value in values:
                try:
                    cursor = self.db.execute(*self.pyformat(sql, (value,)))
                    pipeline.sync()
                    found.append(cursor.fetchone()[0])
                except self.error as error:
                    found.append(error.sqlstate)
        return found

    def copy_in(self, table, rows):
        with self.db.cursor().copy(f"copy {self.schema}.{table} from stdin") as copy:
            for row in rows:
                copy.write_row(row)

    def copy_out(self, sql):
        with self.db.cursor().copy(f"copy ({self.pyformat(sql, ())[0]}) to stdout") as copy:
            return b"".join(copy)

    def give_up(self, table, row):
        def give_up():
            with self.db.cursor().copy(f"copy {self.schema}.{table} from stdin") as copy:
                copy.write_row(row)
                raise ValueError("no")
        return self.states(give_up)

    def cursor(self, sql):
        cursor = self.db.cursor(name=f"c{len(sql)}")
        cursor.execute(sql)
        return cursor.fetchmany

    def cancel(self):
        threading.Timer(0.5, self.db.cancel).start()
        self.execute("select pg_sleep(10)")

    def notices(self, sql):
        found = []
        self.db.add_notice_handler(lambda diag: found.append(diag.message_primary))
        self.execute(sql)
        return found

    def adapt(self, value):
        return psycopg.types.json.Jsonb(value) if isinstance(value, dict) else value

    def several(self, sql):
        cursor = self.db.execute(sql, prepare=False)
        found = [cursor.fetchone()[0]]
        while cursor.nextset():
            found.append(cursor.fetchone()[0])
        return found


scenarios.run(Psycopg3)
