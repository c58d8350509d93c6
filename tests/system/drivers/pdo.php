<?php
/*
 * PDO: statements prepared by the server (mode native), by PDO itself, so that simple queries are left
 * (mode emulated), or unnamed (mode unnamed).  scenarios.py tells what each line shows.
 *
 * An answer is the first value of a result, or the SQLSTATE of what failed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */

[, $host, $port, $user, $password, $database, $schema, $mode] = $argv;
const UNABLE = 'not in this driver';

function open(): void
{
	global $db, $host, $port, $user, $password, $database, $mode;
	$options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
		PDO::ATTR_EMULATE_PREPARES => $mode == 'emulated',
		PDO::PGSQL_ATTR_DISABLE_PREPARES => $mode == 'unnamed'];
	$db = new PDO("pgsql:host=$host;port=$port;dbname=$database;sslmode=disable", $user, $password,
		$options);
}

function say(string $name, ...$results): void
{
	echo "$name: ", implode(' ', $results), "\n";
}

function named(string $sql): string
{
	global $schema;
	return str_replace('NAME', $schema, $sql);
}

/* What it gives, or the SQLSTATE. */
function answer(callable $step)
{
	try {
		return $step();
	} catch (PDOException $error) {
		return $error->errorInfo[0] ?? 'error';
	}
}

function value(string $sql, ...$values)
{
	return answer(function () use ($sql, $values) {
		global $db;
		$statement = $db->prepare(named($sql));
		$statement->execute($values);
		return $statement->columnCount() ? $statement->fetchColumn() : '';
	});
}

function execute(string $sql): void
{
	global $db;
	$db->exec(named($sql));
}

function count_of(string $table = 't')
{
	return value("select count(*) from NAME.$table");
}

function transactions(): void
{
	global $db;
	$db->beginTransaction();
	execute("insert into NAME.t values (1, 'a'), (2, 'b')");
	$db->commit();
	say('transaction commit', count_of());
	$db->beginTransaction();
	execute('delete from NAME.t');
	$inside = count_of();
	$db->rollBack();
	say('transaction rollback', $inside, count_of());
	$db->beginTransaction();
	execute("set local work_mem = '123kB'");
	$inside = value('show work_mem');
	$db->commit();
	say('transaction settings', $inside, value('show work_mem'));
	$db->beginTransaction();
	$inside = [value('select 1/0'), value('select 1')];
	$db->rollBack();
	say('transaction failed', ...[...$inside, value('select 1')]);
}

function prepared(): void
{
	global $db;
	$statement = $db->prepare('select ?::int * 2');
	$sum = 0;
	for ($i = 1; $i <= 20; $i++) {
		$statement->execute([$i]);
		$sum += $statement->fetchColumn();
	}
	say('prepared repeated', $sum);
	$statements = array_map(fn ($k) => $db->prepare("select ?::int + $k"), range(0, 9));
	$sum = 0;
	for ($i = 0; $i < 3; $i++) {
		foreach ($statements as $statement) {
			$statement->execute([$i]);
			$sum += $statement->fetchColumn();
		}
	}
	say('prepared texts', $sum);
	$statement = $db->prepare('select 10 / ?::int');
	say('prepared error', ...array_map(fn ($i) => answer(function () use ($statement, $i) {
		$statement->execute([$i]);
		return $statement->fetchColumn();
	}), [5, 0, 2]));
	$sql = 'select count(*) from NAME.later where v = ?::int';
	$missing = value($sql, 1);
	execute('create table NAME.later as select 1 as v');
	say('prepared parse error', $missing, value($sql, 1));
	say('prepared again', value('select ?::int', 7), value('select ?::int', 7));
	$db->beginTransaction();
	$statement = $db->prepare(named('insert into NAME.t values (?, ?)'));
	for ($i = 3; $i < 13; $i++)
		$statement->execute([$i, 'x']);
	$inside = count_of();
	$db->rollBack();
	say('prepared in transaction', $inside, count_of());
}

/* All in one simple query, the one kind of batch there is. */
function batches(): void
{
	global $db;
	say('batch', UNABLE);
	$sql = named("insert into NAME.t values (100, 'x'); select 1/0");
	say('batch error', answer(fn () => $db->exec($sql)),
		value('select count(*) from NAME.t where id >= 100'), value('select 7'));
	say('batch segments', UNABLE);
}

function copies(): void
{
	global $db;
	execute('create table NAME.c (id int primary key, v text)');
	$db->pgsqlCopyFromArray(named('NAME.c'), array_map(fn ($i) => "$i\tv$i\n", range(1, 1000)));
	say('copy in', count_of('c'), value('select sum(id) from NAME.c'));
	$lines = $db->pgsqlCopyToArray(named('(select id, v from NAME.c order by id)'));
	say('copy out', count($lines), array_sum(array_map('intval', $lines)));
	$lines = ["5000\ta\n", "1\tb\n"];
	say('copy error', answer(fn () => $db->pgsqlCopyFromArray(named('NAME.c'), $lines)),
		count_of('c'));
	say('copy given up', UNABLE);
}

/* A scrollable statement is a cursor of the server. */
function scroll(string $sql): PDOStatement
{
	global $db;
	$statement = $db->prepare($sql, [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
	$statement->execute();
	return $statement;
}

function take(PDOStatement $statement, int $count): array
{
	$found = [];
	while (count($found) < $count && ($row = $statement->fetch(PDO::FETCH_NUM)) !== false)
		$found[] = $row[0];
	return $found;
}

function cursors(): void
{
	global $db;
	$db->beginTransaction();
	$rows = scroll('select generate_series(1, 250)');
	$parts = [take($rows, 100), take($rows, 100), take($rows, 100)];
	$rows = null;
	$db->commit();
	say('cursor', ...[...array_map('count', $parts), array_sum(array_map('array_sum', $parts))]);
	$db->beginTransaction();
	$a = scroll('select generate_series(1, 250)');
	$b = scroll('select generate_series(1001, 1250)');
	$all = [...take($a, 3), ...take($b, 3), ...take($a, 3)];
	$a = $b = null;
	$db->commit();
	say('cursors', ...$all);
}

function savepoints(): void
{
	global $db;
	$db->beginTransaction();
	execute("insert into NAME.t values (3, 'c')");
	execute('savepoint s');
	$state = answer(fn () => execute("insert into NAME.t values (3, 'c')"));
	execute('rollback to savepoint s');
	execute("insert into NAME.t values (4, 'd')");
	execute('release savepoint s');
	$db->commit();
	say('savepoint', $state, count_of());
}

function large_objects(): void
{
	global $db;
	$data = '';
	for ($i = 0; $i < 100000; $i++)
		$data .= chr($i % 251);
	$db->beginTransaction();
	$oid = $db->pgsqlLOBCreate();
	$file = $db->pgsqlLOBOpen($oid, 'r+');
	fwrite($file, $data);
	fseek($file, 50000);
	$part = fread($file, 10);
	fseek($file, 0, SEEK_END);
	$size = ftell($file);
	fclose($file);
	$db->pgsqlLOBUnlink($oid);
	$db->commit();
	say('large object', $size, bin2hex($part));
}

function times(): void
{
	global $db;
	$db->beginTransaction();
	execute('set local statement_timeout = 100');
	$state = value('select pg_sleep(10)');
	$db->rollBack();
	say('timeout', $state, value('show statement_timeout'));
	$counts = [];
	for ($i = 0; $i < 3; $i++) {
		$db = null;
		open();
		$counts[] = count_of();
	}
	say('reconnect', ...$counts);
	$state = 'no error';
	try {
		execute('select pg_terminate_backend(pg_backend_pid())');
		execute('select 1');
	} catch (PDOException $error) {
		$state = 'error';
	}
	$db = null;
	open();
	say('killed', $state, value('select 1'));
}

function type(string $name, string $kind, string $shown, $sent, int $as = PDO::PARAM_STR): void
{
	global $db;
	$statement = $db->prepare("select x, $shown from (select cast(? as $kind) as x) y");
	$statement->bindValue(1, $sent, $as);
	$statement->execute();
	[$back, $text] = $statement->fetch(PDO::FETCH_NUM);
	if (is_resource($back))
		$back = stream_get_contents($back);
	$same = is_float($sent) ? (float) str_replace('Infinity', 'INF', $back) === $sent : $back === $sent;
	if ($sent === -INF)
		$same = $back === '-Infinity';
	say("type $name", $text, $same ? 'same' : 'differs ' . var_export($back, true));
}

function types(): void
{
	global $db;
	type('int2', 'int2', 'x::text', -32768, PDO::PARAM_INT);
	type('int4', 'int4', 'x::text', 2147483647, PDO::PARAM_INT);
	type('int8', 'int8', 'x::text', PHP_INT_MIN, PDO::PARAM_INT);
	type('numeric', 'numeric', 'x::text', '12345678901234567890.123456789');
	type('text', 'text', "encode(convert_to(x, 'UTF8'), 'hex')",
		"'a\"bc\\d%e$?:x;--/* \u{e4}\u{20ac}\u{1f600}\t\n{}~");
	type('bytea', 'bytea', 'md5(x)', implode('', array_map('chr', range(0, 255))), PDO::PARAM_LOB);
	type('int array', 'int[]', 'x::text', '{1,-2,3}');
	type('text array', 'text[]', 'x::text', '{a,"b\"c","d,e","",NULL}');
	type('jsonb', 'jsonb', 'x::text', '{"a": [1, 2, {"b": null}]}');
	type('uuid', 'uuid', 'x::text', '00112233-4455-6677-8899-aabbccddeeff');
	$db->beginTransaction();
	execute("set local timezone = 'UTC'");
	type('timestamptz', 'timestamptz', "to_char(x, 'YYYY-MM-DD HH24:MI:SS.US')",
		'2024-02-29 12:34:56.789012+00');
	$db->commit();
	type('bool', 'bool', 'x::text', true, PDO::PARAM_BOOL);
	type('float max', 'float8', 'x::text', '1.7976931348623157e+308');
	type('float min', 'float8', 'x::text', '5e-324');
	type('float infinity', 'float8', 'x::text', '-Infinity');
	type('null', 'text', "coalesce(x, 'null')", null, PDO::PARAM_NULL);
}

function errors(): void
{
	say('error unique', answer(fn () => execute("insert into NAME.t values (1, 'a')")));
	say('error syntax', answer(fn () => execute('selekt 1')));
	say('error division', value('select 1 / ?::int', 0));
	try {
		execute('do $$ begin raise exception ' .
			"'message' using detail = 'detail', hint = 'hint'; end $$");
	} catch (PDOException $error) {
		preg_match_all('/(?:ERROR|DETAIL|HINT): +(\w+)/', $error->errorInfo[2], $found);
		say('error raised', $error->errorInfo[0], ...$found[1]);
	}
	say('notice', UNABLE);
}

function discard(string $command, int $number): void
{
	global $db;
	$statement = $db->prepare("select ?::int + 0 * $number");
	$run = fn () => answer(function () use ($statement, $number) {
		$statement->execute([$number]);
		return $statement->fetchColumn();
	});
	$before = $run();
	execute($command);
	say($command, $before, $run());
}

function large(): void
{
	global $db;
	$statement = $db->prepare("select g, repeat('x', 1000) from generate_series(1, ?::int) g");
	$statement->execute([5000]);
	$rows = $statement->fetchAll(PDO::FETCH_NUM);
	say('large result', count($rows), array_sum(array_map(fn ($row) => strlen($row[1]), $rows)));
	say('large parameter', value("select length(x) || ' ' || md5(x) from (select ?::text as x) y",
		str_repeat('x', 1000000)));
	/* Of several results there is the last one; a statement of the server cannot have several. */
	say('several statements', answer(fn () => $db->query('select 1; select 2')->fetchColumn()));
}

open();
foreach (['drop schema if exists NAME cascade', 'create schema NAME',
	'create table NAME.t (id int primary key, v text)'] as $sql)
	execute($sql);
transactions();
prepared();
batches();
copies();
cursors();
say('cancel', UNABLE);
savepoints();
large_objects();
times();
types();
errors();
discard('deallocate all', 21);
discard('discard all', 22);
large();
execute('drop schema NAME cascade');
$db = null;
