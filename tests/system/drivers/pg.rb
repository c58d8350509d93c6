# ruby-pg: libpq as Ruby has it.  Named statements, pipelines, COPY by blocks, cursors, large objects.
# scenarios.py tells what each line shows.
#
# An answer is text: the first value of a result, or the SQLSTATE of what failed.
#
# SPDX-License-Identifier: GPL-2.0-or-later
require 'digest'
require 'pg'

HOST, PORT, USER, PASSWORD, DATABASE, SCHEMA = ARGV
$statements = {}

def open_db
  $db = PG.connect(host: HOST, port: PORT, user: USER, password: PASSWORD, dbname: DATABASE,
                   sslmode: 'disable')
  $statements.clear
end

def say(name, *results)
  puts "#{name}: #{results.join(' ')}"
  $stdout.flush
end

def state(error)
  error.result ? error.result.error_field(PG::Result::PG_DIAG_SQLSTATE) : 'error'
end

# What the block gives, or the SQLSTATE.
def answer
  yield
rescue PG::Error => error
  state(error)
end

def first(result)
  result.ntuples.positive? ? result.getvalue(0, 0) : ''
end

def run(sql)
  answer { first($db.exec(sql.gsub('NAME', SCHEMA))) }
end

# Prepares a text the first time it comes.
def prepared(sql, *values)
  sql = sql.gsub('NAME', SCHEMA)
  answer do
    unless $statements[sql]
      name = "ruby#{$statements.size}"
      $db.prepare(name, sql)
      $statements[sql] = name
    end
    first($db.exec_prepared($statements[sql], values))
  end
end

def count(table = 't')
  run("select count(*) from NAME.#{table}")
end

def transactions
  $db.transaction { run("insert into NAME.t values (1, 'a'), (2, 'b')") }
  say 'transaction commit', count
  inside = nil
  begin
    $db.transaction do
      run('delete from NAME.t')
      inside = count
      raise 'rolled back'
    end
  rescue RuntimeError
    say 'transaction rollback', inside, count
  end
  $db.transaction do
    run("set local work_mem = '123kB'")
    inside = run('show work_mem')
  end
  say 'transaction settings', inside, run('show work_mem')
  run('begin')
  inside = [run('select 1/0'), run('select 1')]
  run('rollback')
  say 'transaction failed', *inside, run('select 1')
end

def prepares
  say 'prepared repeated', (1..20).sum { |i| prepared('select $1::int * 2', i).to_i }
  say 'prepared texts', (0..2).sum { |i| (0..9).sum { |k| prepared("select $1::int + #{k}", i).to_i } }
  say 'prepared error', *[5, 0, 2].map { |i| prepared('select 10 / $1::int', i) }
  sql = 'select count(*) from NAME.later where v = $1::int'
  missing = prepared(sql, 1)
  run('create table NAME.later as select 1 as v')
  say 'prepared parse error', missing, prepared(sql, 1)
  found = 2.times.map do
    $db.prepare('again', 'select $1::int')
    value = first($db.exec_prepared('again', [7]))
    $db.exec('deallocate again')
    value
  end
  say 'prepared again', *found
  run('begin')
  (3..12).each { |i| prepared('insert into NAME.t values ($1, $2)', i, 'x') }
  inside = count
  run('rollback')
  say 'prepared in transaction', inside, count
end

# The answers of a pipeline up to its last Sync.
def pipeline(syncs = 1)
  found = []
  $db.enter_pipeline_mode
  yield
  while syncs.positive?
    result = $db.get_result or next
    case result.result_status
    when PG::PGRES_PIPELINE_SYNC then syncs -= 1
    when PG::PGRES_TUPLES_OK then found << first(result)
    when PG::PGRES_FATAL_ERROR then found << result.error_field(PG::Result::PG_DIAG_SQLSTATE)
    end
  end
  $db.exit_pipeline_mode
  found
end

def batches
  say 'batch', *(pipeline do
    (1..10).each { |i| $db.send_query_params('select $1::int * $1::int', [i]) }
    $db.pipeline_sync
  end)
  insert = "insert into #{SCHEMA}.t values ($1, 'x')"
  found = pipeline do
    $db.send_query_params(insert, [100])
    $db.send_query_params(insert, [101])
    $db.send_query_params('select 1 / $1::int', [0])
    $db.send_query_params(insert, [102])
    $db.pipeline_sync
  end
  say 'batch error', *found, run('select count(*) from NAME.t where id >= 100'), run('select 7')
  say 'batch segments', *(pipeline(2) do
    [0, 1].each do |i|
      $db.send_query_params('select 1 / $1::int', [i])
      $db.pipeline_sync
    end
  end)
end

def copies
  run('create table NAME.c (id int primary key, v text)')
  into = "copy #{SCHEMA}.c from stdin"
  $db.copy_data(into) { (1..1000).each { |i| $db.put_copy_data("#{i}\tv#{i}\n") } }
  say 'copy in', count('c'), run('select sum(id) from NAME.c')
  lines = []
  $db.copy_data("copy (select id, v from #{SCHEMA}.c order by id) to stdout") do
    while (line = $db.get_copy_data)
      lines << line
    end
  end
  say 'copy out', lines.size, lines.sum(&:to_i)
  found = answer { $db.copy_data(into) { $db.put_copy_data("5000\ta\n1\tb\n") } }
  say 'copy error', found, count('c')
  begin
    $db.copy_data(into) do
      $db.put_copy_data("5000\ta\n")
      raise 'given up'
    end
  rescue RuntimeError
    say 'copy given up', 'own error', count('c')
  end
end

def cursors
  run('begin')
  run('declare a cursor for select generate_series(1, 250)')
  parts = 3.times.map { $db.exec('fetch 100 from a').column_values(0).map(&:to_i) }
  run('commit')
  say 'cursor', *parts.map(&:size), parts.flatten.sum
  run('begin')
  run('declare a cursor for select generate_series(1, 250)')
  run('declare b cursor for select generate_series(1001, 1250)')
  parts = %w[a b a].map { |name| $db.exec("fetch 3 from #{name}").column_values(0) }
  run('commit')
  say 'cursors', *parts.flatten
end

def cancels
  run('begin')
  run('select 1')
  thread = Thread.new do
    sleep 0.5
    $db.cancel
  end
  found = run('select pg_sleep(10)')
  thread.join
  run('rollback')
  say 'cancel', found, run('select 1')
end

def savepoints
  run('begin')
  run("insert into NAME.t values (3, 'c')")
  run('savepoint s')
  found = run("insert into NAME.t values (3, 'c')")
  run('rollback to savepoint s')
  run("insert into NAME.t values (4, 'd')")
  run('release savepoint s')
  run('commit')
  say 'savepoint', found, count
end

def large_objects
  part = size = nil
  $db.transaction do
    oid = $db.lo_creat
    file = $db.lo_open(oid, PG::INV_READ | PG::INV_WRITE)
    $db.lo_write(file, (0...100_000).map { |i| i % 251 }.pack('C*'))
    $db.lo_lseek(file, 50_000, PG::SEEK_SET)
    part = $db.lo_read(file, 10)
    size = $db.lo_lseek(file, 0, PG::SEEK_END)
    $db.lo_close(file)
    $db.lo_unlink(oid)
  end
  say 'large object', size, part.unpack1('H*')
end

def times
  run('begin')
  run('set local statement_timeout = 100')
  found = run('select pg_sleep(10)')
  run('rollback')
  say 'timeout', found, run('show statement_timeout')
  counts = 3.times.map do
    $db.close
    open_db
    count
  end
  say 'reconnect', *counts
  run('select pg_terminate_backend(pg_backend_pid())')
  found = run('select 1') == '1' ? 'no error' : 'error'
  $db.close
  open_db
  say 'killed', found, run('select 1')
end

# With the types of Ruby on both sides.
def type(name, kind, shown, value, bound = value)
  result = $db.exec_params("select x, #{shown} from (select $1::#{kind} as x) y", [bound], 0,
                           PG::BasicTypeMapForQueries.new($db))
  result.type_map = PG::BasicTypeMapForResults.new($db)
  back, text = result.values[0]
  say "type #{name}", text, back == value ? 'same' : "differs #{back.inspect}"
end

def types
  bytes = (0..255).to_a.pack('C*')
  list = ['a', 'b"c', 'd,e', '', nil]
  json = { 'a' => [1, 2, { 'b' => nil }] }
  at = Time.utc(2024, 2, 29, 12, 34, 56.789012r)
  type 'int2', 'int2', 'x::text', -32_768
  type 'int4', 'int4', 'x::text', 2_147_483_647
  type 'int8', 'int8', 'x::text', -9_223_372_036_854_775_808
  type 'numeric', 'numeric', 'x::text', BigDecimal('12345678901234567890.123456789')
  type 'text', 'text', "encode(convert_to(x, 'UTF8'), 'hex')", "'a\"bc\\d%e$?:x;--/* ä€😀\t\n{}~"
  type 'bytea', 'bytea', 'md5(x)', bytes, PG::BasicTypeMapForQueries::BinaryData.new(bytes)
  type 'int array', 'int[]', 'x::text', [1, -2, 3]
  type 'text array', 'text[]', 'x::text', list
  type 'jsonb', 'jsonb', 'x::text', json
  type 'uuid', 'uuid', 'x::text', '00112233-4455-6677-8899-aabbccddeeff'
  type 'timestamptz', 'timestamptz', "to_char(x at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", at
  type 'bool', 'bool', 'x::text', true
  type 'float max', 'float8', 'x::text', Float::MAX, Float::MAX.to_s
  type 'float min', 'float8', 'x::text', 5e-324, '5e-324'
  type 'float infinity', 'float8', 'x::text', -Float::INFINITY
  type 'null', 'text', "coalesce(x, 'null')", nil
end

def errors
  say 'error unique', run("insert into NAME.t values (1, 'a')")
  say 'error syntax', run('selekt 1')
  say 'error division', prepared('select 1 / $1::int', 0)
  begin
    $db.exec("do $$ begin raise exception 'message' using detail = 'detail', hint = 'hint'; end $$")
  rescue PG::Error => error
    fields = [PG::Result::PG_DIAG_MESSAGE_PRIMARY, PG::Result::PG_DIAG_MESSAGE_DETAIL,
              PG::Result::PG_DIAG_MESSAGE_HINT]
    say 'error raised', state(error), *fields.map { |field| error.result.error_field(field) }
  end
  found = []
  $db.set_notice_receiver { |one| found << one.error_field(PG::Result::PG_DIAG_MESSAGE_PRIMARY) }
  run("do $$ begin raise notice 'hello'; end $$")
  say 'notice', *found
end

# What was prepared is gone afterwards, and can be prepared under its name again.
def discard(command, number)
  sql = "select $1::int + 0 * #{number}"
  before = prepared(sql, number)
  run(command)
  after = prepared(sql, number)
  $statements.clear
  say command, before, after, prepared(sql, number)
end

def large
  rows = $db.exec_params("select g, repeat('x', 1000) from generate_series(1, $1::int) g", [5000])
  say 'large result', rows.ntuples, rows.column_values(1).sum(&:size)
  sql = 'select length($1::text), md5($1::text)'
  say 'large parameter', *$db.exec_params(sql, ['x' * 1_000_000]).values[0]
  $db.send_query('select 1; select 2')
  found = []
  while (result = $db.get_result)
    found << first(result)
  end
  say 'several statements', *found
end

open_db
$db.set_notice_processor { |_| nil }
['drop schema if exists NAME cascade', 'create schema NAME',
 'create table NAME.t (id int primary key, v text)'].each { |sql| run(sql) }
%i[transactions prepares batches copies cursors cancels savepoints large_objects times types
   errors].each { |scenario| send(scenario) }
discard('deallocate all', 21)
discard('discard all', 22)
large
run('drop schema NAME cascade')
$db.close
