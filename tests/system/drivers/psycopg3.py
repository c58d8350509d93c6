# SPDX-License-Identifier: GPL-2.0-or-later
"""psycopg 3: everything prepared (mode prepare), prepared at the second use (mode second), or never and
with binary results (mode binary)."""
import threading

import psycopg
import psycopg.types.json

import scenarios


class Psycopg3(scenarios.Driver):
    error = psycopg.Error
    threshold = {"prepare": 0, "second": 2, "binary": None}

    def connect(self):
        self.db = psycopg.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, sslmode="disable",
            dbname=self.database, autocommit=True, prepare_threshold=self.threshold[self.mode])

    def close(self):
        self.db.close()

    def text(self, sql, values):
        """{0} is %(p0)s; text without parameters stays as it is."""
        sql = sql.replace("NAME", self.schema)
        if not values:
            return sql, None
        for number in range(len(values)):
            sql = sql.replace("{%d}" % number, f"%(p{number})s")
        return sql, {f"p{i}": v for i, v in enumerate(values)}

    def execute(self, sql, *values):
        cursor = self.db.execute(*self.text(sql, values), binary=self.mode == "binary")
        return cursor.fetchall() if cursor.description else []

    def begin(self):
        self.db.autocommit = False

    def commit(self):
        self.db.commit()
        self.db.autocommit = True

    def rollback(self):
        self.db.rollback()
        self.db.autocommit = True

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
            cursors = [self.db.execute(*self.text(sql, values)) for sql, *values in steps]
        return [cursor.fetchone()[0] for cursor in cursors if cursor.description]

    def segments(self, sql, *values):
        found = []
        with self.db.pipeline() as pipeline:
            for value in values:
                try:
                    cursor = self.db.execute(*self.text(sql, (value,)))
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
        with self.db.cursor().copy(f"copy ({self.text(sql, ())[0]}) to stdout") as copy:
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

    def large_object(self, data, at, count):
        """By the server's functions: the driver has none."""
        oid = self.value("select lo_from_bytea(0, {0}::bytea)", data)
        part = self.value("select lo_get({0}::oid, {1}::bigint, 10)", oid, at)
        size = self.value("select length(lo_get({0}::oid))", oid)
        self.execute("select lo_unlink({0}::oid)", oid)
        return size, part

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
