# SPDX-License-Identifier: GPL-2.0-or-later
"""psycopg2: simple queries with the values written into them, PREPARE in SQL within a transaction, named
cursors, large objects of libpq."""
import io
import threading

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras

import scenarios

psycopg2.extras.register_uuid()


class Psycopg2(scenarios.AutocommitDriver):
    error = psycopg2.Error

    def connect(self):
        self.db = psycopg2.connect(host=self.host, port=self.port, user=self.user, dbname=self.database,
                                   password=self.password, sslmode="disable")
        self.db.autocommit = True

    def sqlstate(self, error):
        return error.pgcode

    def execute(self, sql, *values):
        with self.db.cursor() as cursor:
            cursor.execute(*self.pyformat(sql, values))
            return cursor.fetchall() if cursor.description else []

    def prepare_again(self, sql, value):
        found = []
        self.begin()
        for _ in range(2):
            self.execute("prepare s as " + sql.replace("{0}", "$1"))
            found.append(self.value("execute s ({0})", value))
            self.execute("deallocate s")
        self.commit()
        return found

    def batch(self, steps):
        """All in one simple query; only the last result is to be had."""
        with self.db.cursor() as cursor:
            texts = [cursor.mogrify(*self.pyformat(sql, values)) for sql, *values in steps]
            if len(texts) == 10:
                psycopg2.extras.execute_values(cursor, "select v * v from (values %s) as x (v)",
                                               [values for _, *values in steps])
                return [row[0] for row in cursor.fetchall()]
            cursor.execute(b"; ".join(texts))

    def copy_in(self, table, rows):
        lines = "".join("%d\t%s\n" % row for row in rows)
        with self.db.cursor() as cursor:
            cursor.copy_expert(f"copy {self.schema}.{table} from stdin", io.StringIO(lines))

    def copy_out(self, sql):
        found = io.BytesIO()
        with self.db.cursor() as cursor:
            cursor.copy_expert(f"copy ({self.pyformat(sql, ())[0]}) to stdout", found)
        return found.getvalue()

    def give_up(self, table, row):
        class Breaks:
            def read(self, _):
                raise ValueError("no")

        def copy():
            with self.db.cursor() as cursor:
                cursor.copy_expert(f"copy {self.schema}.{table} from stdin", Breaks())
        return self.states(copy)

    def cursor(self, sql):
        cursor = self.db.cursor(name=f"c{len(sql)}")
        cursor.execute(sql)
        return cursor.fetchmany

    def cancel(self):
        threading.Timer(0.5, self.db.cancel).start()
        self.execute("select pg_sleep(10)")

    def large_object(self, data, at, count):
        large = self.db.lobject(mode="rwb")
        large.write(data)
        large.seek(at)
        part = large.read(count)
        size = large.seek(0, 2)
        large.unlink()
        return size, part

    def notices(self, sql):
        del self.db.notices[:]
        self.execute(sql)
        return [text.partition(":")[2] for text in self.db.notices]

    def adapt(self, value):
        return psycopg2.extras.Json(value) if isinstance(value, dict) else value

    def several(self, sql):
        """Gives the last result."""
        return self.execute(sql)[0]


psycopg2.extensions.register_type(psycopg2.extensions.new_type(
    (17,), "BYTES", lambda value, cursor: value and bytes(psycopg2.BINARY(value, cursor))))
scenarios.run(Psycopg2)
