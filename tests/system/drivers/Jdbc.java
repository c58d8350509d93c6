/*
 * pgjdbc: server-side statements from the fifth use on (mode 5), from the first one with room for two of
 * them (mode 1), or simple queries alone (mode simple).  scenarios.py tells what each line shows.
 *
 * An answer is text: the first value of a result, or the SQLSTATE of what failed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.OffsetDateTime;
import java.util.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyIn;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

public class Jdbc {
	static String[] args;
	static String schema, mode;
	static Connection db;
	static PGConnection pg;

	interface Step {
		Object run() throws Exception;
	}

	static void open() throws SQLException {
		Properties options = new Properties();
		options.put("user", args[2]);
		options.put("password", args[3]);
		options.put("sslmode", "disable");
		if (mode.equals("simple"))
			options.put("preferQueryMode", "simple");
		else
			options.put("prepareThreshold", mode);
		if (mode.equals("1"))
			options.put("preparedStatementCacheQueries", "2");
		db = DriverManager.getConnection(
				"jdbc:postgresql://" + args[0] + ":" + args[1] + "/" + args[4], options);
		pg = db.unwrap(PGConnection.class);
	}

	static void print(String name, Object... results) {
		StringBuilder line = new StringBuilder(name + ":");
		for (Object result : results)
			line.append(" ").append(result);
		System.out.println(line);
	}

	/** Its result, or the SQLSTATE. */
	static String answer(Step step) throws Exception {
		try {
			return String.valueOf(step.run());
		} catch (SQLException error) {
			return error.getSQLState();
		}
	}

	static void execute(String sql) throws SQLException {
		try (Statement statement = db.createStatement()) {
			statement.execute(sql.replace("NAME", schema));
		}
	}

	static PreparedStatement prepare(String sql, Object... values) throws SQLException {
		PreparedStatement statement = db.prepareStatement(sql.replace("NAME", schema));
		for (int i = 0; i < values.length; i++)
			statement.setObject(i + 1, values[i]);
		return statement;
	}

	static String value(String sql, Object... values) throws Exception {
		return answer(() -> {
			try (PreparedStatement statement = prepare(sql, values)) {
				if (!statement.execute())
					return "";
				ResultSet rows = statement.getResultSet();
				rows.next();
				return rows.getString(1);
			}
		});
	}

	static int number(String sql, Object... values) throws Exception {
		return Integer.parseInt(value(sql, values));
	}

	static String count(String table) throws Exception {
		return value("select count(*) from NAME." + table);
	}

	static void begin() throws SQLException {
		db.setAutoCommit(false);
	}

	static void commit() throws SQLException {
		db.commit();
		db.setAutoCommit(true);
	}

	static void rollback() throws SQLException {
		db.rollback();
		db.setAutoCommit(true);
	}

	static void transactions() throws Exception {
		begin();
		execute("insert into NAME.t values (1, 'a'), (2, 'b')");
		commit();
		print("transaction commit", count("t"));
		begin();
		execute("delete from NAME.t");
		String inside = count("t");
		rollback();
		print("transaction rollback", inside, count("t"));
		begin();
		execute("set local work_mem = '123kB'");
		inside = value("show work_mem");
		commit();
		print("transaction settings", inside, value("show work_mem"));
		begin();
		inside = value("select 1/0") + " " + value("select 1");
		rollback();
		print("transaction failed", inside, value("select 1"));
	}

	static void prepared() throws Exception {
		int sum = 0;
		try (PreparedStatement statement = db.prepareStatement("select ?::int * 2")) {
			for (int i = 1; i <= 20; i++) {
				statement.setInt(1, i);
				ResultSet rows = statement.executeQuery();
				rows.next();
				sum += rows.getInt(1);
			}
		}
		print("prepared repeated", sum);
		sum = 0;
		for (int i = 0; i < 3; i++)
			for (int k = 0; k < 10; k++)
				sum += number("select ?::int + " + k, i);
		print("prepared texts", sum);
		List<String> found = new ArrayList<>();
		for (int i : new int[] {5, 0, 2})
			found.add(value("select 10 / ?::int", i));
		print("prepared error", String.join(" ", found));
		String sql = "select count(*) from NAME.later where v = ?::int", missing = value(sql, 1);
		execute("create table NAME.later as select 1 as v");
		print("prepared parse error", missing, value(sql, 1));
		found.clear();
		for (int i = 0; i < 2; i++) {
			found.add(value("select ?::int", 7));
			for (int k = 0; k < 3; k++)
				value("select ?::int + " + k, 1);
		}
		print("prepared again", String.join(" ", found));
		begin();
		for (int i = 3; i < 13; i++)
			value("insert into NAME.t values (?, ?)", i, "x");
		String inside = count("t");
		rollback();
		print("prepared in transaction", inside, count("t"));
	}

	/** Inserts alone: a batch gives no rows. */
	static void batches() throws Exception {
		execute("create table NAME.b (v int)");
		try (PreparedStatement statement = prepare("insert into NAME.b values (?::int * ?::int)")) {
			for (int i = 1; i <= 10; i++) {
				statement.setInt(1, i);
				statement.setInt(2, i);
				statement.addBatch();
			}
			statement.executeBatch();
		}
		print("batch", value("select string_agg(v::text, ' ' order by v) from NAME.b"));
		String state = answer(() -> {
			try (PreparedStatement statement = prepare("insert into NAME.t values (99 + 1 / ?::int)")) {
				for (int i : new int[] {1, 0, 1}) {
					statement.setInt(1, i);
					statement.addBatch();
				}
				statement.executeBatch();
				return "no error";
			}
		});
		print("batch error", state, value("select count(*) from NAME.t where id >= 100"),
				value("select 7"));
		execute("delete from NAME.t where id >= 100");
		print("batch segments", "not in this driver");
	}

	static void copies() throws Exception {
		StringBuilder lines = new StringBuilder();
		for (int i = 1; i <= 1000; i++)
			lines.append(i).append("\tv").append(i).append("\n");
		execute("create table NAME.c (id int primary key, v text)");
		String in = "copy " + schema + ".c from stdin";
		pg.getCopyAPI().copyIn(in, new StringReader(lines.toString()));
		print("copy in", count("c"), value("select sum(id) from NAME.c"));
		StringWriter out = new StringWriter();
		pg.getCopyAPI().copyOut("copy (select id, v from " + schema + ".c order by id) to stdout", out);
		String[] copied = out.toString().split("\n");
		int sum = 0;
		for (String line : copied)
			sum += Integer.parseInt(line.split("\t")[0]);
		print("copy out", copied.length, sum);
		String state = answer(() -> pg.getCopyAPI().copyIn(in, new StringReader("5000\ta\n1\tb\n")));
		print("copy error", state, count("c"));
		byte[] line = "5000\ta\n".getBytes(StandardCharsets.UTF_8);
		CopyIn copy = pg.getCopyAPI().copyIn(in);
		copy.writeToCopy(line, 0, line.length);
		state = answer(() -> {
			copy.cancelCopy();
			return "silent";
		});
		print("copy given up", state, count("c"));
	}

	/** Up to so many rows of a portal that is read in parts. */
	static List<Integer> take(ResultSet rows, int count) throws SQLException {
		List<Integer> found = new ArrayList<>();
		while (found.size() < count && rows.next())
			found.add(rows.getInt(1));
		return found;
	}

	static ResultSet portal(String sql, int size) throws SQLException {
		PreparedStatement statement = db.prepareStatement(sql);
		statement.setFetchSize(size);
		return statement.executeQuery();
	}

	static void cursors() throws Exception {
		String first = "select generate_series(1, 250)", second = "select generate_series(1001, 1250)";
		List<Object> line = new ArrayList<>();
		int sum = 0;
		begin();
		ResultSet rows = portal(first, 100);
		for (int i = 0; i < 3; i++) {
			List<Integer> part = take(rows, 100);
			line.add(part.size());
			for (int one : part)
				sum += one;
		}
		commit();
		line.add(sum);
		print("cursor", line.toArray());
		begin();
		ResultSet a = portal(first, 3), b = portal(second, 3);
		line.clear();
		line.addAll(take(a, 3));
		line.addAll(take(b, 3));
		line.addAll(take(a, 3));
		commit();
		print("cursors", line.toArray());
	}

	static void cancels() throws Exception {
		begin();
		value("select 1");
		Statement statement = db.createStatement();
		new Timer(true).schedule(new TimerTask() {
			@Override
			public void run() {
				try {
					statement.cancel();
				} catch (SQLException error) {
					print("cancel", error);
				}
			}
		}, 500);
		String state = answer(() -> statement.execute("select pg_sleep(10)"));
		rollback();
		print("cancel", state, value("select 1"));
	}

	static void savepoints() throws Exception {
		begin();
		execute("insert into NAME.t values (3, 'c')");
		Savepoint savepoint = db.setSavepoint();
		String state = value("insert into NAME.t values (3, 'c')");
		db.rollback(savepoint);
		execute("insert into NAME.t values (4, 'd')");
		db.releaseSavepoint(savepoint);
		commit();
		print("savepoint", state, count("t"));
	}

	static void largeObjects() throws Exception {
		byte[] data = new byte[100000];
		for (int i = 0; i < data.length; i++)
			data[i] = (byte) (i % 251);
		begin();
		LargeObjectManager manager = pg.getLargeObjectAPI();
		long oid = manager.createLO(LargeObjectManager.READWRITE);
		LargeObject object = manager.open(oid);
		object.write(data);
		object.seek(50000);
		byte[] part = object.read(10);
		int size = object.size();
		object.close();
		manager.delete(oid);
		commit();
		print("large object", size, HexFormat.of().formatHex(part));
	}

	static void times() throws Exception {
		begin();
		execute("set local statement_timeout = 100");
		String state = value("select pg_sleep(10)");
		rollback();
		print("timeout", state, value("show statement_timeout"));
		List<Object> counts = new ArrayList<>();
		for (int i = 0; i < 3; i++) {
			db.close();
			open();
			counts.add(count("t"));
		}
		print("reconnect", counts.toArray());
		try {
			execute("select pg_terminate_backend(pg_backend_pid())");
			execute("select 1");
			state = "no error";
		} catch (SQLException error) {
			state = "error";
		}
		db.close();
		open();
		print("killed", state, value("select 1"));
	}

	static void type(String name, String kind, String shown, Object value) throws Exception {
		String sql = "select x, " + shown + " from (select ?::" + kind + " as x) y";
		try (PreparedStatement statement = prepare(sql, value)) {
			ResultSet rows = statement.executeQuery();
			rows.next();
			Object back = rows.getObject(1);
			if (value instanceof OffsetDateTime)
				back = rows.getObject(1, OffsetDateTime.class);
			else if (value instanceof Short)
				back = rows.getShort(1);
			else if (value instanceof Array && back != null) {
				back = Arrays.toString((Object[]) ((Array) back).getArray());
				value = Arrays.toString((Object[]) ((Array) value).getArray());
			}
			print("type " + name, rows.getString(2),
					Objects.deepEquals(back, value) ? "same" : "differs: " + back);
		} catch (SQLException error) {
			print("type " + name, error.getSQLState());
		}
	}

	static void types() throws Exception {
		byte[] bytes = new byte[256];
		for (int i = 0; i < bytes.length; i++)
			bytes[i] = (byte) i;
		PGobject json = new PGobject();
		json.setType("jsonb");
		json.setValue("{\"a\": [1, 2, {\"b\": null}]}");
		type("int2", "int2", "x::text", (short) -32768);
		type("int4", "int4", "x::text", 2147483647);
		type("int8", "int8", "x::text", Long.MIN_VALUE);
		type("numeric", "numeric", "x::text", new BigDecimal("12345678901234567890.123456789"));
		type("text", "text", "encode(convert_to(x, 'UTF8'), 'hex')",
				"'a\"bc\\d%e$?:x;--/* \u00e4\u20ac\ud83d\ude00\t\n{}~");
		type("bytea", "bytea", "md5(x)", bytes);
		type("int array", "int[]", "x::text", db.createArrayOf("int4", new Integer[] {1, -2, 3}));
		type("text array", "text[]", "x::text",
				db.createArrayOf("text", new String[] {"a", "b\"c", "d,e", "", null}));
		type("jsonb", "jsonb", "x::text", json);
		type("uuid", "uuid", "x::text", UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"));
		type("timestamptz", "timestamptz",
				"to_char(x at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
				OffsetDateTime.parse("2024-02-29T12:34:56.789012Z"));
		type("bool", "bool", "x::text", true);
		type("float max", "float8", "x::text", Double.MAX_VALUE);
		type("float min", "float8", "x::text", Double.MIN_VALUE);
		type("float infinity", "float8", "x::text", Double.NEGATIVE_INFINITY);
		type("null", "text", "coalesce(x, 'null')", null);
	}

	static void errors() throws Exception {
		print("error unique", value("insert into NAME.t values (1, 'a')"));
		print("error syntax", value("selekt 1"));
		print("error division", value("select 1 / ?::int", 0));
		try {
			execute("do $$ begin raise exception 'message' "
					+ "using detail = 'detail', hint = 'hint'; end $$");
		} catch (PSQLException error) {
			var about = error.getServerErrorMessage();
			print("error raised", error.getSQLState(), about.getMessage(), about.getDetail(),
					about.getHint());
		}
		try (Statement statement = db.createStatement()) {
			statement.execute("do $$ begin raise notice 'hello'; end $$");
			print("notice", statement.getWarnings().getMessage());
		}
	}

	static void discard(String command, int number) throws Exception {
		String sql = "select ?::int + 0 * " + number, before = "";
		for (int i = 0; i < 6; i++)
			before = value(sql, number);
		execute(command);
		print(command, before, value(sql, number));
	}

	static void large() throws Exception {
		int count = 0;
		long size = 0;
		try (PreparedStatement statement = prepare(
				"select g, repeat('x', 1000) from generate_series(1, ?::int) g", 5000)) {
			for (ResultSet rows = statement.executeQuery(); rows.next(); count++)
				size += rows.getString(2).length();
		}
		print("large result", count, size);
		print("large parameter", value("select length(x) || ' ' || md5(x) from (select ?::text as x) y",
				"x".repeat(1000000)));
		try (Statement statement = db.createStatement()) {
			statement.execute("select 1; select 2");
			List<Object> found = new ArrayList<>();
			do {
				ResultSet rows = statement.getResultSet();
				rows.next();
				found.add(rows.getInt(1));
			} while (statement.getMoreResults());
			print("several statements", found.toArray());
		}
	}

	public static void main(String[] values) throws Exception {
		args = values;
		schema = args[5];
		mode = args[6];
		open();
		execute("drop schema if exists NAME cascade");
		execute("create schema NAME");
		execute("create table NAME.t (id int primary key, v text)");
		transactions();
		prepared();
		batches();
		copies();
		cursors();
		cancels();
		savepoints();
		largeObjects();
		times();
		types();
		errors();
		discard("deallocate all", 21);
		discard("discard all", 22);
		large();
		execute("drop schema NAME cascade");
		db.close();
	}
}
