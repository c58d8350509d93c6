// lib/pq below database/sql: queries with values are parsed without name in one batch and bound in the
// next (mode twice) or all in one batch (mode once, binary_parameters); named statements on request.
// scenarios.py tells what each line shows.
//
// An answer is text: the first value of a result, or the SQLSTATE of what failed.
//
// SPDX-License-Identifier: GPL-2.0-or-later
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lib/pq"
)

const unable = "not in this driver"

var (
	ctx    = context.Background()
	schema string
	notice string
	db     *sql.DB
)

func must(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}

func open() {
	once := "no"
	if os.Args[7] == "once" {
		once = "yes"
	}
	format := "host=%s port=%s user=%s password='%s' dbname=%s sslmode=disable binary_parameters=%s"
	connector, err := pq.NewConnector(fmt.Sprintf(format,
		os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], once))
	must(err)
	db = sql.OpenDB(pq.ConnectorWithNoticeHandler(connector, func(got *pq.Error) { notice = got.Message }))
	db.SetMaxOpenConns(1)
}

func state(err error) string {
	var known *pq.Error
	if err == nil {
		return "no error"
	} else if errors.As(err, &known) {
		return string(known.Code)
	}
	return "failed " + err.Error()
}

// What queries go through: the pool of one connection, or a transaction.
type runner interface {
	Query(string, ...interface{}) (*sql.Rows, error)
	Exec(string, ...interface{}) (sql.Result, error)
}

func named(text string) string {
	return strings.ReplaceAll(text, "NAME", schema)
}

func first(rows *sql.Rows, err error) string {
	if err != nil {
		return state(err)
	}
	defer rows.Close()
	found := ""
	for rows.Next() {
		must(rows.Scan(&found))
	}
	if rows.Err() != nil {
		return state(rows.Err())
	}
	return found
}

func value(on runner, text string, values ...interface{}) string {
	return first(on.Query(named(text), values...))
}

func execute(on runner, text string, values ...interface{}) error {
	_, err := on.Exec(named(text), values...)
	return err
}

func count(on runner, table string) string {
	return value(on, "select count(*) from NAME."+table)
}

func begin() *sql.Tx {
	tx, err := db.Begin()
	must(err)
	return tx
}

func say(name string, results ...interface{}) {
	fmt.Println(strings.TrimSuffix(name+": "+fmt.Sprintln(results...), "\n"))
}

func number(text string) int {
	made, err := strconv.Atoi(text)
	must(err)
	return made
}

func transactions() {
	tx := begin()
	must(execute(tx, "insert into NAME.t values (1, 'a'), (2, 'b')"))
	must(tx.Commit())
	say("transaction commit", count(db, "t"))
	tx = begin()
	must(execute(tx, "delete from NAME.t"))
	inside := count(tx, "t")
	must(tx.Rollback())
	say("transaction rollback", inside, count(db, "t"))
	tx = begin()
	must(execute(tx, "set local work_mem = '123kB'"))
	inside = value(tx, "show work_mem")
	must(tx.Commit())
	say("transaction settings", inside, value(db, "show work_mem"))
	tx = begin()
	inside = value(tx, "select 1/0") + " " + value(tx, "select 1")
	must(tx.Rollback())
	say("transaction failed", inside, value(db, "select 1"))
}

func prepare(text string) *sql.Stmt {
	statement, err := db.Prepare(named(text))
	must(err)
	return statement
}

func prepared() {
	sum := 0
	statement := prepare("select $1::int * 2")
	for i := 1; i <= 20; i++ {
		sum += number(first(statement.Query(i)))
	}
	say("prepared repeated", sum)
	var statements []*sql.Stmt
	for k := 0; k < 10; k++ {
		statements = append(statements, prepare(fmt.Sprint("select $1::int + ", k)))
	}
	sum = 0
	for i := 0; i < 3; i++ {
		for _, one := range statements {
			sum += number(first(one.Query(i)))
		}
	}
	say("prepared texts", sum)
	statement = prepare("select 10 / $1::int")
	found := first(statement.Query(5)) + " " + first(statement.Query(0))
	say("prepared error", found, first(statement.Query(2)))
	text := "select count(*) from NAME.later where v = $1::int"
	missing := value(db, text, 1)
	must(execute(db, "create table NAME.later as select 1 as v"))
	say("prepared parse error", missing, first(prepare(text).Query(1)))
	found = ""
	for i := 0; i < 2; i++ {
		statement = prepare("select $1::int")
		found += " " + first(statement.Query(7))
		must(statement.Close())
	}
	say("prepared again", strings.TrimSpace(found))
	tx := begin()
	statement, err := tx.Prepare(named("insert into NAME.t values ($1, $2)"))
	must(err)
	for i := 3; i < 13; i++ {
		_, err = statement.Exec(i, "x")
		must(err)
	}
	inside := count(tx, "t")
	must(tx.Rollback())
	say("prepared in transaction", inside, count(db, "t"))
}

// All in one simple query, the one kind of batch there is.
func batches() {
	say("batch", unable)
	got := state(execute(db, "insert into NAME.t values (100, 'x'); select 1/0"))
	left := value(db, "select count(*) from NAME.t where id >= 100")
	say("batch error", got, left, value(db, "select 7"))
	say("batch segments", unable)
}

// Rows go in by a statement that has its own form of COPY; the error comes at its end.
func copyIn(last func(*sql.Stmt) error, rows ...[]interface{}) string {
	tx := begin()
	defer tx.Rollback()
	statement, err := tx.Prepare(pq.CopyInSchema(schema, "c", "id", "v"))
	must(err)
	for _, row := range rows {
		_, err = statement.Exec(row...)
		must(err)
	}
	if err := last(statement); err != nil {
		return state(err)
	}
	must(statement.Close())
	return state(tx.Commit())
}

func copies() {
	must(execute(db, "create table NAME.c (id int primary key, v text)"))
	end := func(statement *sql.Stmt) error {
		_, err := statement.Exec()
		return err
	}
	var rows [][]interface{}
	for i := 1; i <= 1000; i++ {
		rows = append(rows, []interface{}{i, fmt.Sprint("v", i)})
	}
	copyIn(end, rows...)
	say("copy in", count(db, "c"), value(db, "select sum(id) from NAME.c"))
	say("copy out", unable)
	got := copyIn(end, []interface{}{5000, "a"}, []interface{}{1, "b"})
	say("copy error", got, count(db, "c"))
	say("copy given up", unable)
}

func fetch(tx *sql.Tx, name string, rows int) []int {
	got, err := tx.Query(fmt.Sprintf("fetch %d from %s", rows, name))
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
	sizes, sum := "", 0
	for i := 0; i < 3; i++ {
		part := fetch(tx, "a", 100)
		sizes += fmt.Sprint(len(part), " ")
		for _, one := range part {
			sum += one
		}
	}
	must(tx.Commit())
	say("cursor", strings.TrimSpace(sizes), sum)
	tx = begin()
	must(execute(tx, "declare a cursor for select generate_series(1, 250)"))
	must(execute(tx, "declare b cursor for select generate_series(1001, 1250)"))
	all := append(fetch(tx, "a", 3), fetch(tx, "b", 3)...)
	all = append(all, fetch(tx, "a", 3)...)
	must(tx.Commit())
	say("cursors", strings.Trim(fmt.Sprint(all), "[]"))
}

// A context that ends sends a cancel request.
func cancels() {
	tx := begin()
	value(tx, "select 1")
	soon, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	_, err := tx.ExecContext(soon, "select pg_sleep(10)")
	stop()
	tx.Rollback()
	say("cancel", state(err), value(db, "select 1"))
}

func savepoints() {
	tx := begin()
	must(execute(tx, "insert into NAME.t values (3, 'c')"))
	must(execute(tx, "savepoint s"))
	got := state(execute(tx, "insert into NAME.t values ($1, 'c')", 3))
	must(execute(tx, "rollback to savepoint s"))
	must(execute(tx, "insert into NAME.t values ($1, 'd')", 4))
	must(execute(tx, "release savepoint s"))
	must(tx.Commit())
	say("savepoint", got, count(db, "t"))
}

func times() {
	tx := begin()
	must(execute(tx, "set local statement_timeout = 100"))
	got := state(execute(tx, "select pg_sleep(10)"))
	must(tx.Rollback())
	say("timeout", got, value(db, "show statement_timeout"))
	counts := ""
	for i := 0; i < 3; i++ {
		must(db.Close())
		open()
		counts += " " + count(db, "t")
	}
	say("reconnect", strings.TrimSpace(counts))
	got = "error"
	if execute(db, "select pg_terminate_backend(pg_backend_pid())") == nil {
		got = "no error"
	}
	db.Close()
	open()
	say("killed", got, value(db, "select 1"))
}

// Scans into a new one of the same kind.
func check(name, kind, shown string, sent interface{}) {
	back, text := reflect.New(reflect.TypeOf(sent)), ""
	into, bound := back.Interface(), sent
	switch sent.(type) {
	case []int64, []sql.NullString:
		into, bound = pq.Array(into), pq.Array(sent)
	}
	query := "select x, " + shown + " from (select $1::" + kind + " as x) y"
	if err := db.QueryRow(query, bound).Scan(into, &text); err != nil {
		say("type "+name, state(err))
		return
	}
	got := back.Elem().Interface()
	same := reflect.DeepEqual(got, sent)
	if at, ok := sent.(time.Time); ok {
		same = at.Equal(got.(time.Time))
	} else if data, ok := sent.([]byte); ok {
		same = bytes.Equal(data, got.([]byte))
	}
	if same {
		say("type "+name, text, "same")
	} else {
		say("type "+name, text, "differs", got)
	}
}

func types() {
	data := make([]byte, 256)
	for i := range data {
		data[i] = byte(i)
	}
	one := func(text string) sql.NullString { return sql.NullString{String: text, Valid: true} }
	list := []sql.NullString{one("a"), one("b\"c"), one("d,e"), one(""), {}}
	check("int2", "int2", "x::text", int16(-32768))
	check("int4", "int4", "x::text", int32(2147483647))
	check("int8", "int8", "x::text", int64(math.MinInt64))
	check("numeric", "numeric", "x::text", "12345678901234567890.123456789")
	check("text", "text", "encode(convert_to(x, 'UTF8'), 'hex')",
		"'a\"bc\\d%e$?:x;--/* \u00e4\u20ac\U0001f600\t\n{}~")
	check("bytea", "bytea", "md5(x)", data)
	check("int array", "int[]", "x::text", []int64{1, -2, 3})
	check("text array", "text[]", "x::text", list)
	check("jsonb", "jsonb", "x::text", "{\"a\": [1, 2, {\"b\": null}]}")
	check("uuid", "uuid", "x::text", "00112233-4455-6677-8899-aabbccddeeff")
	check("timestamptz", "timestamptz", "to_char(x at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
		time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC))
	check("bool", "bool", "x::text", true)
	check("float max", "float8", "x::text", math.MaxFloat64)
	check("float min", "float8", "x::text", math.SmallestNonzeroFloat64)
	check("float infinity", "float8", "x::text", math.Inf(-1))
	check("null", "text", "coalesce(x, 'null')", sql.NullString{})
}

func faults() {
	say("error unique", state(execute(db, "insert into NAME.t values (1, 'a')")))
	say("error syntax", state(execute(db, "selekt 1")))
	say("error division", value(db, "select 1 / $1::int", 0))
	err := execute(db, "do $$ begin raise exception 'message' "+
		"using detail = 'detail', hint = 'hint'; end $$")
	var about *pq.Error
	errors.As(err, &about)
	say("error raised", about.Code, about.Message, about.Detail, about.Hint)
	must(execute(db, "do $$ begin raise notice 'hello'; end $$"))
	say("notice", notice)
}

// What was prepared is gone afterwards.
func discard(command string, number int) {
	statement := prepare(fmt.Sprint("select $1::int + 0 * ", number))
	before := first(statement.Query(number))
	must(execute(db, command))
	say(command, before, first(statement.Query(number)))
}

func large() {
	rows, err := db.Query("select g, repeat('x', 1000) from generate_series(1, $1::int) g", 5000)
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
	text := "select length($1::text) || ' ' || md5($1::text)"
	say("large parameter", value(db, text, strings.Repeat("x", 1000000)))
	rows, err = db.Query("select 1; select 2")
	must(err)
	found := ""
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var one string
			must(rows.Scan(&one))
			found += " " + one
		}
	}
	must(rows.Close())
	say("several statements", strings.TrimSpace(found))
}

func main() {
	schema = os.Args[6]
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
	say("large object", unable)
	times()
	types()
	faults()
	discard("deallocate all", 21)
	discard("discard all", 22)
	large()
	must(execute(db, "drop schema NAME cascade"))
	must(db.Close())
}
