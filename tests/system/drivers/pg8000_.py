# SPDX-License-Identifier: GPL-2.0-or-later
"""pg8000, in Python alone: a named statement for each text, a named portal for each run, fetched 100
rows at a time and closed in a batch of its own; a Flush behind every message.  It knows no SCRAM."""
import io
import json

import pg8000

import scenarios

pg8000.paramstyle = "pyformat"


class Pg8000(scenarios.AutocommitDriver):
    error = pg8000.ProgrammingError

    def connect(self):
        self.db = pg8000.connect(self.user, host=self.host, port=self.port, password=self.password,
                                 database=self.database)
        self.db.autocommit = True

    def sqlstate(self, error):
        """The fields in their order: severity twice, SQLSTATE, message, detail, hint."""
        return error.args[2]

    def raised(self, error):
        return error.args[3:6]

    def execute(self, sql, *values):
        cursor = self.db.cursor()
        cursor.execute(*self.pyformat(sql, values))
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def copy_in(self, table, rows):
        lines = "".join("%d\t%s\n" % row for row in rows)
        self.db.cursor().execute(f"copy {self.schema}.{table} from stdin",
                                 stream=io.BytesIO(lines.encode()))

    def copy_out(self, sql):
        found = io.BytesIO()
        self.db.cursor().execute(f"copy ({sql.replace('NAME', self.schema)}) to stdout", stream=found)
        return found.getvalue()

    def cursor(self, sql):
        cursor = self.db.cursor()
        cursor.execute(sql)
        return cursor.fetchmany

    def notices(self, sql):
        found = []

        def take(fields):
            found.append(fields[b"M"].decode())
        self.db.NoticeReceived += take
        self.execute(sql)
        return found

    def adapt(self, value):
        return json.dumps(value) if isinstance(value, dict) else value


scenarios.run(Pg8000)
