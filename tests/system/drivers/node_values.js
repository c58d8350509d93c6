/*
 * What both programs for Node bind: name, type, how the server shows it, value, and for a Date,
 * which has milliseconds, what comes back.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
'use strict'
const { isDeepStrictEqual } = require('util')

const TIME = '2024-02-29 12:34:56.789012+00'
const TYPES = [
	['int2', 'int2', 'x::text', -32768],
	['int4', 'int4', 'x::text', 2147483647],
	['int8', 'int8', 'x::text', '-9223372036854775808'],
	['numeric', 'numeric', 'x::text', '12345678901234567890.123456789'],
	['text', 'text', "encode(convert_to(x, 'UTF8'), 'hex')",
		'\'a"bc\\d%e$?:x;--/* \u00e4\u20ac\u{1f600}\t\n{}~'],
	['bytea', 'bytea', 'md5(x)', Buffer.from(Array.from({ length: 256 }, (_, i) => i))],
	['int array', 'int[]', 'x::text', [1, -2, 3]],
	['text array', 'text[]', 'x::text', ['a', 'b"c', 'd,e', '', null]],
	['jsonb', 'jsonb', 'x::text', { a: [1, 2, { b: null }] }],
	['uuid', 'uuid', 'x::text', '00112233-4455-6677-8899-aabbccddeeff'],
	['timestamptz', 'timestamptz', "to_char(x at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')", TIME,
		new Date(Date.UTC(2024, 1, 29, 12, 34, 56, 789))],
	['bool', 'bool', 'x::text', true],
	['float max', 'float8', 'x::text', Number.MAX_VALUE],
	['float min', 'float8', 'x::text', Number.MIN_VALUE],
	['float infinity', 'float8', 'x::text', -Infinity],
	['null', 'text', "coalesce(x, 'null')", null],
]

exports.say = function say(name, ...results) {
	console.log(`${name}: ${results.join(' ')}`)
}

/* What it gives, or the SQLSTATE. */
exports.answer = async function answer(step) {
	try {
		return await step()
	} catch (error) {
		return error.code || 'error'
	}
}

/* Each through `run(sql, value)`, which gives rows as arrays. */
exports.types = async function types(run) {
	for (const [name, kind, shown, sent, back = sent] of TYPES) {
		const [got, text] = (await run(`select x, ${shown} from (select $1::${kind} as x) y`, sent))[0]
		exports.say(`type ${name}`, text, isDeepStrictEqual(got, back) ? 'same' : `differs ${got}`)
	}
}
