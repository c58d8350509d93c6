// pgx: named statements behind a cache (mode prepare), unnamed ones of which only the types are kept
// (mode describe), or simple queries (mode simple).  scenarios.py tells what each line shows.
//
// An answer is text: the first value of a result, or the SQLSTATE of what failed.
//
// SPDX-License-Identifier: GPL-2.0-or-later
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgtype"
	"github.com/jackc/pgx/v4"
)

const unable = "not in this driver"

var (
	ctx    = context.Background()
	schema string
	mode   string
	notice string
	db     *pgx.Conn
)

func must(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

func open() {
	options := map[string]string{
		"prepare":  "statement_cache_capacity=100",
		"describe": "statement_cache_mode=describe",
		"simple":   "statement_cache_capacity=0",
	}
	format := "host=%s port=%s user=%s password='%s' dbname=%s sslmode=disable %s"
	config, err := pgx.ParseConfig(fmt.Sprintf(format,
		os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], options[mode]))
	must(err)
	config.PreferSimpleProtocol = mode == "simple"
	config.OnNotice = func(_ *pgconn.PgConn, got *pgconn.Notice) { notice = got.Message }
	db, err = pgx.ConnectConfig(ctx, config)
	must(err)
}

func state(err error) string {
	var known *pgconn.PgError
	if err == nil {
		return "no error"
	} else if errors.As(err, &known) {
		return known.Code
	}
	return "failed " + err.Error()
}

func named(sql string) string {
	return strings.ReplaceAll(sql, "NAME", schema)
}

// What queries go through: a connection or a transaction.
type runner interface {
	Query(context.Context, string, ...interface{}) (pgx.Rows, error)
	Exec(context.Context, string, ...interface{}) (pgconn.CommandTag, error)
}

func value(on runner, sql string, values ...interface{}) string {
	rows, err := on.Query(ctx, named(sql), values...)
	if err != nil {
		return state(err)
	}
	defer rows.Close()
	found := ""
	for rows.Next() {
		got, err := rows.Values()
		if err != nil {
			return state(err)
		}
		found = fmt.Sprint(got[0])
	}
	if rows.Err() != nil {
		return state(rows.Err())
	}
	return found
}

func execute(on runner, sql string, values ...interface{}) error {
	_, err := on.Exec(ctx, named(sql), values...)
	return err
}

func count(on runner, table string) string {
	return value(on, "select count(*) from NAME."+table)
}

func begin() pgx.Tx {
	tx, err := db.Begin(ctx)
	must(err)
	return tx
}

func say(name string, results ...interface{}) {
	fmt.Println(strings.TrimSuffix(name+": "+fmt.Sprintln(results...), "\n"))
}

func transactions() {
	tx := begin()
	must(execute(tx, "insert into NAME.t values (1, 'a'), (2, 'b')"))
	must(tx.Commit(ctx))
	say("transaction commit", count(db, "t"))
	tx = begin()
	must(execute(tx, "delete from NAME.t"))
	inside := count(tx, "t")
	must(tx.Rollback(ctx))
	say("transaction rollback", inside, count(db, "t"))
	tx = begin()
	must(execute(tx, "set local work_mem = '123kB'"))
	inside = value(tx, "show work_mem")
	must(tx.Commit(ctx))
	say("transaction settings", inside, value(db, "show work_mem"))
	tx = begin()
	inside = value(tx, "select 1/0") + " " + value(tx, "select 1")
	must(tx.Rollback(ctx))
	say("transaction failed", inside, value(db, "select 1"))
}

func number(text string) int {
	made, err := strconv.Atoi(text)
	must(err)
	return made
}

func prepared() {
	sum := 0
	for i := 1; i <= 20; i++ {
		sum += number(value(db, "select $1::int * 2", i))
	}
	say("prepared repeated", sum)
	sum = 0
	for i := 0; i < 3; i++ {
		for k := 0; k < 10; k++ {
			sum += number(value(db, fmt.Sprint("select $1::int + ", k), i))
		}
	}
	say("prepared texts", sum)
	sql := "select 10 / $1::int"
	say("prepared error", value(db, sql, 5), value(db, sql, 0), value(db, sql, 2))
	sql = "select count(*) from NAME.later where v = $1::int"
	missing := value(db, sql, 1)
	must(execute(db, "create table NAME.later as select 1 as v"))
	say("prepared parse error", missing, value(db, sql, 1))
	var found []string
	for i := 0; i < 2 && mode != "describe"; i++ {
		_, err := db.Prepare(ctx, "again", "select $1::int")
		must(err)
		found = append(found, value(db, "again", 7))
		must(db.Deallocate(ctx, "again"))
	}
	if mode == "describe" { // there it takes the name for a text
		found = []string{unable}
	}
	say("prepared again", strings.Join(found, " "))
	tx := begin()
	for i := 3; i < 13; i++ {
		must(execute(tx, "insert into NAME.t values ($1, $2)", i, "x"))
	}
	inside := count(tx, "t")
	must(tx.Rollback(ctx))
	say("prepared in transaction", inside, count(db, "t"))
}

// All of it in one round trip.
func batch(queries []string, values []int) string {
	made := &pgx.Batch{}
	for i, sql := range queries {
		made.Queue(named(sql), values[i])
	}
	results := db.SendBatch(ctx, made)
	var found []string
	for range queries {
		rows, err := results.Query()
		if err != nil {
			found = append(found, state(err))
			break
		}
		for rows.Next() {
			var got int
			must(rows.Scan(&got))
			found = append(found, fmt.Sprint(got))
		}
		if rows.Err() != nil {
			found = append(found, state(rows.Err()))
			break
		}
	}
	results.Close()
	return strings.Join(found, " ")
}

func batches() {
	var queries []string
	var values []int
	for i := 1; i <= 10; i++ {
		queries = append(queries, "select $1::int * $1::int")
		values = append(values, i)
	}
	say("batch", batch(queries, values))
	insert := "insert into NAME.t values ($1, 'x')"
	found := batch([]string{insert, insert, "select 1 / $1::int", insert}, []int{100, 101, 0, 102})
	left := value(db, "select count(*) from NAME.t where id >= 100")
	say("batch error", found, left, value(db, "select 7"))
	say("batch segments", unable)
}

type broken struct{ given bool }

func (b *broken) Read(into []byte) (int, error) {
	if b.given {
		return 0, errors.New("no")
	}
	b.given = true
	return copy(into, "5000\ta\n"), nil
}

func copies() {
	must(execute(db, "create table NAME.c (id int primary key, v text)"))
	var rows [][]interface{}
	for i := 1; i <= 1000; i++ {
		rows = append(rows, []interface{}{i, fmt.Sprint("v", i)})
	}
	into, columns := pgx.Identifier{schema, "c"}, []string{"id", "v"}
	_, err := db.CopyFrom(ctx, into, columns, pgx.CopyFromRows(rows))
	must(err)
	say("copy in", count(db, "c"), value(db, "select sum(id) from NAME.c"))
	var out bytes.Buffer
	_, err = db.PgConn().CopyTo(ctx, &out, named("copy (select id, v from NAME.c order by id) to stdout"))
	must(err)
	lines, sum := strings.Split(strings.TrimSpace(out.String()), "\n"), 0
	for _, line := range lines {
		sum += number(strings.Split(line, "\t")[0])
	}
	say("copy out", len(lines), sum)
	_, err = db.CopyFrom(ctx, into, columns, pgx.CopyFromRows([][]interface{}{{5000, "a"}, {1, "b"}}))
	say("copy error", state(err), count(db, "c"))
	_, err = db.PgConn().CopyFrom(ctx, &broken{}, named("copy NAME.c from stdin"))
	say("copy given up", state(err), count(db, "c"))
}

func fetch(tx pgx.Tx, name string, rows int) []int {
	got, err := tx.Query(ctx, fmt.Sprintf("fetch %d from %s", rows, name))
	must(err)
	defer got.Close()
	var found []int
	for got.Next() {
		var one int
		must(got.Scan(&one))
		found = append(found, one)
	}
	return found
}

func cursors() {
	tx := begin()
	must(execute(tx, "declare a cursor for select generate_series(1, 250)"))
	var sizes []string
	sum := 0
	for i := 0; i < 3; i++ {
		part := fetch(tx, "a", 100)
		sizes = append(sizes, fmt.Sprint(len(part)))
		for _, one := range part {
			sum += one
		}
	}
	must(tx.Commit(ctx))
	say("cursor", strings.Join(sizes, " "), sum)
	tx = begin()
	must(execute(tx, "declare a cursor for select generate_series(1, 250)"))
	must(execute(tx, "declare b cursor for select generate_series(1001, 1250)"))
	all := append(fetch(tx, "a", 3), fetch(tx, "b", 3)...)
	all = append(all, fetch(tx, "a", 3)...)
	must(tx.Commit(ctx))
	say("cursors", strings.Trim(fmt.Sprint(all), "[]"))
}

func cancels() {
	tx := begin()
	value(tx, "select 1")
	done := make(chan error)
	go func() {
		time.Sleep(500 * time.Millisecond)
		done <- db.PgConn().CancelRequest(ctx)
	}()
	got := state(execute(tx, "select pg_sleep(10)"))
	must(<-done)
	must(tx.Rollback(ctx))
	say("cancel", got, value(db, "select 1"))
}

func savepoints() {
	tx := begin()
	must(execute(tx, "insert into NAME.t values (3, 'c')"))
	inner, err := tx.Begin(ctx)
	must(err)
	got := state(execute(inner, "insert into NAME.t values (3, 'c')"))
	must(inner.Rollback(ctx))
	inner, err = tx.Begin(ctx)
	must(err)
	must(execute(inner, "insert into NAME.t values (4, 'd')"))
	must(inner.Commit(ctx))
	must(tx.Commit(ctx))
	say("savepoint", got, count(db, "t"))
}

func largeObjects() {
	data, part := make([]byte, 100000), make([]byte, 10)
	for i := range data {
		data[i] = byte(i % 251)
	}
	tx := begin()
	objects := tx.LargeObjects()
	oid, err := objects.Create(ctx, 0)
	must(err)
	object, err := objects.Open(ctx, oid, pgx.LargeObjectModeRead|pgx.LargeObjectModeWrite)
	must(err)
	_, err = object.Write(data)
	must(err)
	_, err = object.Seek(50000, io.SeekStart)
	must(err)
	_, err = object.Read(part)
	must(err)
	size, err := object.Seek(0, io.SeekEnd)
	must(err)
	must(object.Close())
	must(objects.Unlink(ctx, oid))
	must(tx.Commit(ctx))
	say("large object", size, hex.EncodeToString(part))
}

func times() {
	tx := begin()
	must(execute(tx, "set local statement_timeout = 100"))
	got := state(execute(tx, "select pg_sleep(10)"))
	must(tx.Rollback(ctx))
	say("timeout", got, value(db, "show statement_timeout"))
	var counts []string
	for i := 0; i < 3; i++ {
		must(db.Close(ctx))
		open()
		counts = append(counts, count(db, "t"))
	}
	say("reconnect", strings.Join(counts, " "))
	got = "error"
	kill := "select pg_terminate_backend(pg_backend_pid())"
	if execute(db, kill) == nil && execute(db, "select 1") == nil {
		got = "no error"
	}
	db.Close(ctx)
	open()
	say("killed", got, value(db, "select 1"))
}

// Scans into a new one of the same kind.
func check(name, kind, shown string, sent interface{}) {
	back, text := reflect.New(reflect.TypeOf(sent)), ""
	sql := "select x, " + shown + " from (select cast($1 as " + kind + ") as x) y"
	var known *pgconn.PgError
	err := db.QueryRow(ctx, sql, sent).Scan(back.Interface(), &text)
	if errors.As(err, &known) {
		say("type "+name, known.Code)
		return
	} else if err != nil { // it cannot be encoded
		say("type "+name, unable)
		return
	}
	same := reflect.DeepEqual(back.Elem().Interface(), sent)
	if at, ok := sent.(time.Time); ok {
		same = at.Equal(back.Elem().Interface().(time.Time))
	}
	if same {
		say("type "+name, text, "same")
	} else {
		say("type "+name, text, "differs", back.Elem().Interface())
	}
}

func types() {
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(i)
	}
	var numeric pgtype.Numeric
	must(numeric.Set("12345678901234567890.123456789"))
	a, b, c, d := "a", "b\"c", "d,e", ""
	check("int2", "int2", "x::text", int16(-32768))
	check("int4", "int4", "x::text", int32(2147483647))
	check("int8", "int8", "x::text", int64(math.MinInt64))
	check("numeric", "numeric", "x::text", numeric)
	check("text", "text", "encode(convert_to(x, 'UTF8'), 'hex')",
		"'a\"bc\\d%e$?:x;--/* \u00e4\u20ac\U0001f600\t\n{}~")
	check("bytea", "bytea", "md5(x)", data)
	check("int array", "int[]", "x::text", []int32{1, -2, 3})
	check("text array", "text[]", "x::text", []*string{&a, &b, &c, &d, nil})
	check("jsonb", "jsonb", "x::text", map[string]interface{}{
		"a": []interface{}{1.0, 2.0, map[string]interface{}{"b": nil}}})
	check("uuid", "uuid", "x::text", "00112233-4455-6677-8899-aabbccddeeff")
	check("timestamptz", "timestamptz", "to_char(x at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
		time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC))
	check("bool", "bool", "x::text", true)
	check("float max", "float8", "x::text", math.MaxFloat64)
	check("float min", "float8", "x::text", math.SmallestNonzeroFloat64)
	check("float infinity", "float8", "x::text", math.Inf(-1))
	check("null", "text", "coalesce(x, 'null')", (*string)(nil))
}

func faults() {
	say("error unique", state(execute(db, "insert into NAME.t values (1, 'a')")))
	say("error syntax", state(execute(db, "selekt 1")))
	say("error division", value(db, "select 1 / $1::int", 0))
	err := execute(db, "do $$ begin raise exception 'message' "+
		"using detail = 'detail', hint = 'hint'; end $$")
	var about *pgconn.PgError
	errors.As(err, &about)
	say("error raised", about.Code, about.Message, about.Detail, about.Hint)
	must(execute(db, "do $$ begin raise notice 'hello'; end $$"))
	say("notice", notice)
}

func discard(command string, number int) {
	sql, before := fmt.Sprint("select $1::int + 0 * ", number), ""
	for i := 0; i < 6; i++ {
		before = value(db, sql, number)
	}
	must(execute(db, command))
	say(command, before, value(db, sql, number))
}

func large() {
	rows, err := db.Query(ctx, "select g, repeat('x', 1000) from generate_series(1, $1::int) g", 5000)
	must(err)
	lines, size := 0, 0
	for rows.Next() {
		var number int
		var text string
		must(rows.Scan(&number, &text))
		lines, size = lines+1, size+len(text)
	}
	must(rows.Err())
	say("large result", lines, size)
	sql := "select length($1::text) || ' ' || md5($1::text)"
	say("large parameter", value(db, sql, strings.Repeat("x", 1000000)))
	results, err := db.PgConn().Exec(ctx, "select 1; select 2").ReadAll()
	must(err)
	say("several statements", string(results[0].Rows[0][0]), string(results[1].Rows[0][0]))
}

func main() {
	schema, mode = os.Args[6], os.Args[7]
	open()
	must(execute(db, "drop schema if exists NAME cascade"))
	must(execute(db, "create schema NAME"))
	must(execute(db, "create table NAME.t (id int primary key, v text)"))
	transactions()
	prepared()
	batches()
	copies()
	cursors()
	cancels()
	savepoints()
	largeObjects()
	times()
	types()
	faults()
	discard("deallocate all", 21)
	discard("discard all", 22)
	large()
	must(execute(db, "drop schema NAME cascade"))
	must(db.Close(ctx))
}
