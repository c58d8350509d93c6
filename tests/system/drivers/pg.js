/*
 * node-postgres: queries with values under a name each (mode named) or without one (mode unnamed),
 * those without values simple; pg-cursor and pg-copy-streams.  scenarios.py tells what each line
 * shows.
 *
 * An answer is the first value of a result, or the SQLSTATE of what failed.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
'use strict'
const { Client } = require('pg')
const Cursor = require('pg-cursor')
const copyStreams = require('pg-copy-streams')
const { pipeline } = require('stream/promises')
const { Readable } = require('stream')
const { answer, say, types } = require('./node_values.js')

const [host, port, user, password, database, schema, mode] = process.argv.slice(2)
const UNABLE = 'not in this driver'
let db, notices, names

async function open() {
	db = new Client({ host, port: Number(port), user, password, database })
	db.on('error', () => {})
	notices = []
	names = new Map()
	db.on('notice', (notice) => notices.push(notice.message))
	await db.connect()
}

async function execute(sql, ...values) {
	const query = { text: sql.replaceAll('NAME', schema), rowMode: 'array' }
	if (values.length) {
		query.values = values
		if (mode === 'named') {
			if (!names.has(query.text)) names.set(query.text, `node${names.size}`)
			query.name = names.get(query.text)
		}
	}
	return (await db.query(query)).rows
}

function value(sql, ...values) {
	return answer(async () => (await execute(sql, ...values))[0]?.[0] ?? '')
}

function count(table = 't') {
	return value(`select count(*) from NAME.${table}`)
}

async function transactions() {
	await execute('begin')
	await execute("insert into NAME.t values (1, 'a'), (2, 'b')")
	await execute('commit')
	say('transaction commit', await count())
	await execute('begin')
	await execute('delete from NAME.t')
	let inside = await count()
	await execute('rollback')
	say('transaction rollback', inside, await count())
	await execute('begin')
	await execute("set local work_mem = '123kB'")
	inside = await value('show work_mem')
	await execute('commit')
	say('transaction settings', inside, await value('show work_mem'))
	await execute('begin')
	inside = [await value('select 1/0'), await value('select 1')]
	await execute('rollback')
	say('transaction failed', ...inside, await value('select 1'))
}

async function prepared() {
	let sum = 0
	for (let i = 1; i <= 20; i++) sum += await value('select $1::int * 2', i)
	say('prepared repeated', sum)
	sum = 0
	for (let i = 0; i < 3; i++)
		for (let k = 0; k < 10; k++) sum += await value(`select $1::int + ${k}`, i)
	say('prepared texts', sum)
	const found = []
	for (const i of [5, 0, 2]) found.push(await value('select 10 / $1::int', i))
	say('prepared error', ...found)
	const sql = 'select count(*) from NAME.later where v = $1::int'
	const missing = await value(sql, 1)
	await execute('create table NAME.later as select 1 as v')
	say('prepared parse error', missing, await value(sql, 1))
	say('prepared again', UNABLE)
	await execute('begin')
	for (let i = 3; i < 13; i++) await execute('insert into NAME.t values ($1, $2)', i, 'x')
	const inside = await count()
	await execute('rollback')
	say('prepared in transaction', inside, await count())
}

/* Queries queue up, each with a Sync of its own: no batch, but an error is followed by what works. */
async function batches() {
	const squares = []
	for (let i = 1; i <= 10; i++) squares.push(value('select $1::int * $1::int', i))
	say('batch', ...(await Promise.all(squares)))
	const state = await answer(() => db.query(`insert into ${schema}.t values (100, 'x'); select 1/0`))
	const left = await value('select count(*) from NAME.t where id >= 100')
	say('batch error', state, left, await value('select 7'))
	say('batch segments', ...(await Promise.all([0, 1].map((i) => value('select 1 / $1::int', i)))))
}

async function copies() {
	const lines = []
	for (let i = 1; i <= 1000; i++) lines.push(`${i}\tv${i}\n`)
	await execute('create table NAME.c (id int primary key, v text)')
	const into = (from) => pipeline(from, db.query(copyStreams.from(`copy ${schema}.c from stdin`)))
	await into(Readable.from(lines))
	say('copy in', await count('c'), await value('select sum(id)::int from NAME.c'))
	let text = ''
	const out = db.query(copyStreams.to(`copy (select id, v from ${schema}.c order by id) to stdout`))
	for await (const chunk of out) text += chunk
	const copied = text.trim().split('\n')
	say('copy out', copied.length, copied.reduce((sum, line) => sum + parseInt(line, 10), 0))
	let state = await answer(() => into(Readable.from(['5000\ta\n1\tb\n'])))
	say('copy error', state, await count('c'))
	state = await answer(() => into(Readable.from((async function* () {
		yield '5000\ta\n'
		throw new Error('no')
	})())))
	say('copy given up', state, await count('c'))
}

async function cursors() {
	const of = (sql) => db.query(new Cursor(sql, [], { rowMode: 'array' }))
	await execute('begin')
	const rows = of('select generate_series(1, 250)')
	const parts = [await rows.read(100), await rows.read(100), await rows.read(100)]
	await rows.close()
	await execute('commit')
	const sum = parts.flat().reduce((all, row) => all + row[0], 0)
	say('cursor', ...parts.map((part) => part.length), sum)
	say('cursors', UNABLE)
}

async function cancels() {
	await execute('begin')
	await execute('select 1')
	const query = new (require('pg').Query)('select pg_sleep(10)')
	const ended = new Promise((resolve) => {
		query.on('error', (error) => resolve(error.code))
		query.on('end', () => resolve('no error'))
	})
	db.query(query)
	/* A client of its own sends the request. */
	const other = new Client({ host, port: Number(port), user, password, database })
	setTimeout(() => other.cancel(db, query), 500)
	const state = await ended
	await execute('rollback')
	say('cancel', state, await value('select 1'))
}

async function savepoints() {
	await execute('begin')
	await execute("insert into NAME.t values (3, 'c')")
	await execute('savepoint s')
	const state = await value("insert into NAME.t values (3, 'c')")
	await execute('rollback to savepoint s')
	await execute("insert into NAME.t values (4, 'd')")
	await execute('release savepoint s')
	await execute('commit')
	say('savepoint', state, await count())
}

async function times() {
	await execute('begin')
	await execute('set local statement_timeout = 100')
	let state = await value('select pg_sleep(10)')
	await execute('rollback')
	say('timeout', state, await value('show statement_timeout'))
	const counts = []
	for (let i = 0; i < 3; i++) {
		await db.end()
		await open()
		counts.push(await count())
	}
	say('reconnect', ...counts)
	state = 'no error'
	try {
		await execute('select pg_terminate_backend(pg_backend_pid())')
		await execute('select 1')
	} catch (error) {
		state = 'error'
	}
	await db.end()
	await open()
	say('killed', state, await value('select 1'))
}

async function errors() {
	say('error unique', await value("insert into NAME.t values (1, 'a')"))
	say('error syntax', await value('selekt 1'))
	say('error division', await value('select 1 / $1::int', 0))
	try {
		await execute("do $$ begin raise exception 'message' " +
			"using detail = 'detail', hint = 'hint'; end $$")
	} catch (error) {
		say('error raised', error.code, error.message, error.detail, error.hint)
	}
	notices = []
	await execute("do $$ begin raise notice 'hello'; end $$")
	say('notice', ...notices)
}

async function discard(command, number) {
	const sql = `select $1::int + 0 * ${number}`
	const before = await value(sql, number)
	await execute(command)
	say(command, before, await value(sql, number))
}

async function large() {
	const rows = await execute("select g, repeat('x', 1000) from generate_series(1, $1::int) g", 5000)
	say('large result', rows.length, rows.reduce((sum, row) => sum + row[1].length, 0))
	const texts = await execute('select length($1::text), md5($1::text)', 'x'.repeat(1000000))
	say('large parameter', ...texts[0])
	const results = await db.query({ text: 'select 1; select 2', rowMode: 'array' })
	say('several statements', ...results.map((result) => result.rows[0][0]))
}

async function main() {
	await open()
	for (const sql of ['drop schema if exists NAME cascade', 'create schema NAME',
		'create table NAME.t (id int primary key, v text)']) await execute(sql)
	await transactions()
	await prepared()
	await batches()
	await copies()
	await cursors()
	await cancels()
	await savepoints()
	say('large object', UNABLE)
	await times()
	await types(execute)
	await errors()
	await discard('deallocate all', 21)
	await discard('discard all', 22)
	await large()
	await execute('drop schema NAME cascade')
	await db.end()
}

main()
