/*
 * postgres.js: everything prepared and sent without waiting for what came before (mode prepare), or
 * unnamed (mode unnamed).  scenarios.py tells what each line shows.
 *
 * An answer is the first value of a result, or the SQLSTATE of what failed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
'use strict'
const postgres = require('postgres')
const { pipeline } = require('stream/promises')
const { Readable } = require('stream')
const { answer, say, types } = require('./node_values.js')

const [host, port, user, password, database, schema, mode] = process.argv.slice(2)
const UNABLE = 'not in this driver'
let db, notices

function open() {
	notices = []
	db = postgres({
		host, port: Number(port), user, password, database, max: 1, prepare: mode === 'prepare',
		onnotice: (notice) => notices.push(notice.message),
	})
}

/* Text without values goes as a simple query. */
function run(on, sql, ...values) {
	const text = sql.replaceAll('NAME', schema)
	return on.unsafe(text, values, { prepare: mode === 'prepare' && values.length > 0 }).values()
}

function value(on, sql, ...values) {
	return answer(async () => (await run(on, sql, ...values))[0]?.[0] ?? '')
}

function count(on, table = 't') {
	return value(on, `select count(*) from NAME.${table}`)
}

class Undo extends Error {}

/* Rolled back at its end. */
async function undone(step) {
	let found
	try {
		await db.begin(async (tx) => {
			found = await step(tx)
			throw new Undo()
		})
	} catch (error) {
		if (!(error instanceof Undo)) throw error
	}
	return found
}

async function transactions() {
	await db.begin((tx) => run(tx, "insert into NAME.t values (1, 'a'), (2, 'b')"))
	say('transaction commit', await count(db))
	let inside = await undone(async (tx) => {
		await run(tx, 'delete from NAME.t')
		return count(tx)
	})
	say('transaction rollback', inside, await count(db))
	await db.begin(async (tx) => {
		await run(tx, "set local work_mem = '123kB'")
		inside = await value(tx, 'show work_mem')
	})
	say('transaction settings', inside, await value(db, 'show work_mem'))
	inside = await undone(async (tx) => [await value(tx, 'select 1/0'), await value(tx, 'select 1')])
	say('transaction failed', ...inside, await value(db, 'select 1'))
}

async function prepared() {
	let sum = 0
	for (let i = 1; i <= 20; i++) sum += await value(db, 'select $1::int * 2', i)
	say('prepared repeated', sum)
	sum = 0
	for (let i = 0; i < 3; i++)
		for (let k = 0; k < 10; k++) sum += await value(db, `select $1::int + ${k}`, i)
	say('prepared texts', sum)
	const found = []
	for (const i of [5, 0, 2]) found.push(await value(db, 'select 10 / $1::int', i))
	say('prepared error', ...found)
	const sql = 'select count(*) from NAME.later where v = $1::int'
	const missing = await value(db, sql, 1)
	await run(db, 'create table NAME.later as select 1 as v')
	say('prepared parse error', missing, await value(db, sql, 1))
	say('prepared again', UNABLE)
	const inside = await undone(async (tx) => {
		for (let i = 3; i < 13; i++) await run(tx, 'insert into NAME.t values ($1, $2)', i, 'x')
		return count(tx)
	})
	say('prepared in transaction', inside, await count(db))
}

/* Queries go out at once, each with a Sync of its own. */
async function batches() {
	const squares = []
	for (let i = 1; i <= 10; i++) squares.push(value(db, 'select $1::int * $1::int', i))
	say('batch', ...(await Promise.all(squares)))
	const insert = "insert into NAME.t values ($1, 'x')"
	const state = await answer(() => db.begin((tx) => [
		run(tx, insert, 100), run(tx, insert, 101), run(tx, 'select 1 / $1::int', 0), run(tx, insert, 102)]))
	const left = await value(db, 'select count(*) from NAME.t where id >= 100')
	say('batch error', state, left, await value(db, 'select 7'))
	const found = await Promise.all([0, 1].map((i) => value(db, 'select 1 / $1::int', i)))
	say('batch segments', ...found)
}

async function copies() {
	const lines = []
	for (let i = 1; i <= 1000; i++) lines.push(`${i}\tv${i}\n`)
	await run(db, 'create table NAME.c (id int primary key, v text)')
	const into = async (from) => pipeline(from, await db.unsafe(`copy ${schema}.c from stdin`).writable())
	await into(Readable.from(lines))
	say('copy in', await count(db, 'c'), await value(db, 'select sum(id) from NAME.c'))
	let text = ''
	const sql = `copy (select id, v from ${schema}.c order by id) to stdout`
	for await (const chunk of await db.unsafe(sql).readable()) text += chunk
	const copied = text.trim().split('\n')
	say('copy out', copied.length, copied.reduce((sum, line) => sum + parseInt(line, 10), 0))
	const state = await answer(() => into(Readable.from(['5000\ta\n1\tb\n'])))
	say('copy error', state, await count(db, 'c'))
	say('copy given up', UNABLE)
}

async function cursors() {
	const parts = []
	await db.begin(async (tx) => {
		for await (const rows of tx.unsafe('select generate_series(1, 250) as v').cursor(100)) parts.push(rows)
	})
	const sum = parts.flat().reduce((all, row) => all + row.v, 0)
	say('cursor', ...parts.map((part) => part.length), sum)
	say('cursors', UNABLE)
}

async function cancels() {
	const state = await undone(async (tx) => {
		await run(tx, 'select 1')
		const query = run(tx, 'select pg_sleep(10)')
		setTimeout(() => query.cancel(), 500)
		return answer(() => query)
	})
	say('cancel', state, await value(db, 'select 1'))
}

async function savepoints() {
	let state
	await db.begin(async (tx) => {
		await run(tx, "insert into NAME.t values (3, 'c')")
		state = await answer(() => tx.savepoint((inner) => run(inner, "insert into NAME.t values (3, 'c')")))
		await tx.savepoint((inner) => run(inner, "insert into NAME.t values (4, 'd')"))
	})
	say('savepoint', state, await count(db))
}

async function times() {
	let state = await undone(async (tx) => {
		await run(tx, 'set local statement_timeout = 100')
		return value(tx, 'select pg_sleep(10)')
	})
	say('timeout', state, await value(db, 'show statement_timeout'))
	const counts = []
	for (let i = 0; i < 3; i++) {
		await db.end()
		open()
		counts.push(await count(db))
	}
	say('reconnect', ...counts)
	state = await value(db, 'select pg_terminate_backend(pg_backend_pid())')
	state = state === true ? 'no error' : 'error'
	await db.end({ timeout: 1 })
	open()
	say('killed', state, await value(db, 'select 1'))
}

async function errors() {
	say('error unique', await value(db, "insert into NAME.t values (1, 'a')"))
	say('error syntax', await value(db, 'selekt 1'))
	say('error division', await value(db, 'select 1 / $1::int', 0))
	try {
		await run(db, "do $$ begin raise exception 'message' " +
			"using detail = 'detail', hint = 'hint'; end $$")
	} catch (error) {
		say('error raised', error.code, error.message, error.detail, error.hint)
	}
	notices = []
	await run(db, "do $$ begin raise notice 'hello'; end $$")
	say('notice', ...notices)
}

async function discard(command, number) {
	const sql = `select $1::int + 0 * ${number}`
	const before = await value(db, sql, number)
	await run(db, command)
	say(command, before, await value(db, sql, number))
}

async function large() {
	const rows = await run(db, "select g, repeat('x', 1000) from generate_series(1, $1::int) g", 5000)
	say('large result', rows.length, rows.reduce((sum, row) => sum + row[1].length, 0))
	const texts = await run(db, 'select length($1::text), md5($1::text)', 'x'.repeat(1000000))
	say('large parameter', ...texts[0])
	const results = await db.unsafe('select 1 as v; select 2 as v')
	say('several statements', ...results.map((result) => result[0].v))
}

async function main() {
	open()
	for (const sql of ['drop schema if exists NAME cascade', 'create schema NAME',
		'create table NAME.t (id int primary key, v text)']) await run(db, sql)
	await transactions()
	await prepared()
	await batches()
	await copies()
	await cursors()
	await cancels()
	await savepoints()
	say('large object', UNABLE)
	await times()
	await types((sql, value) => run(db, sql, value))
	await errors()
	await discard('deallocate all', 21)
	await discard('discard all', 22)
	await large()
	await run(db, 'drop schema NAME cascade')
	await db.end()
}

main()
