/*
 * micro_rows.c - what bench/micro measures.
 *
 * To add a row: write a function that does `rounds` rounds of it, checks with
 * CHECK what it gets, and leaves all as it was, and add a line to micro_rows at
 * the end.  What it needs is static and made by its `open`.
 *
 * The messages are those of a small query, as they lie in a receive buffer: a
 * request in one, its whole answer in another.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/micro.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cancel/key.h"
#include "cancel/table.h"
#include "core/base/bytes.h"
#include "core/base/check.h"
#include "core/statements.h"
#include "net/mail.h"
#include "net/wheel.h"
#include "proto/scan.h"
#include "proto/statement.h"
#include "proto/track.h"

/* ------------------------------------------------------------------- messages */

enum { SIMPLE_MESSAGES = 1 + 4, EXTENDED_MESSAGES = 5 + 6 };

#define LITERAL(text)                                     \
	{                                                 \
		(const uint8_t *)(text), sizeof(text) - 1 \
	}

#define TEXT        "SELECT 'nonce-of-20-letters', $1::text"
#define PARSE       "P\0\0\0\x2e\0" TEXT "\0\0\0"
#define BIND        "B\0\0\0\x24\0\0\0\0\0\1\0\0\0\x14nonce-of-20-letters.\0\0"
#define FIELD(name) name "\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
#define DESCRIPTION "T\0\0\0\x2e\0\2" FIELD("a") FIELD("b")
#define ROW         "D\0\0\0\x36\0\2\0\0\0\x14nonce-of-20-letters.\0\0\0\x14nonce-of-20-letters."
#define COMPLETE    "C\0\0\0\x0dSELECT 1\0"
#define READY       "Z\0\0\0\5I"

static const struct span simple_request = LITERAL("Q\0\0\0\x2b" TEXT "\0");
static const struct span simple_answer = LITERAL(DESCRIPTION ROW COMPLETE READY);
static const struct span extended_request = LITERAL(PARSE BIND "D\0\0\0\6P\0"
                                                               "E\0\0\0\x9\0\0\0\0\0"
                                                               "S\0\0\0\4");
static const struct span extended_answer = LITERAL("1\0\0\0\4"
                                                   "2\0\0\0\4" DESCRIPTION ROW COMPLETE READY);

/* ----------------------------------------------------------------------- scan */

static struct scan client_scan, server_scan;

static uint32_t scan_all(struct scan *scan, struct span in)
{
	struct piece piece;
	uint32_t count = 0;
	while (scan_next(scan, &in, UINT32_MAX, &piece) == SCAN_PIECE)
		count += piece.last;
	CHECK(in.size == 0 && scan_at_boundary(scan));
	return count;
}

static void scan_simple(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		CHECK(scan_all(&client_scan, simple_request) +
		              scan_all(&server_scan, simple_answer) ==
		      SIMPLE_MESSAGES);
}

static void scan_extended(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		CHECK(scan_all(&client_scan, extended_request) +
		              scan_all(&server_scan, extended_answer) ==
		      EXTENDED_MESSAGES);
}

/* ---------------------------------------------------------------------- track */

static struct track track;

static void track_open(void)
{
	track_init(&track);
	track_request(&track, 'Q');
	CHECK(track_reply(&track, 'Z', 'I') == VERDICT_FORWARD);
}

static void track_close(void)
{
	CHECK(track_fini(&track) == NULL);
}

static void track_round(const char *requests, const char *replies)
{
	for (; *requests != '\0'; requests++)
		CHECK(track_request(&track, (uint8_t)*requests) == VERDICT_FORWARD);
	for (; *replies != '\0'; replies++)
		CHECK(track_reply(&track, (uint8_t)*replies, 'I') == VERDICT_FORWARD);
	CHECK(track_is_free(&track));
}

static void track_simple(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		track_round("Q", "TDCZ");
}

static void track_extended(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		track_round("PBDES", "12TDCZ");
}

/* --------------------------------------------------------------------- cancel */

enum { KEYS = 1024, KEY_SEED = 12345, LOOKUPS = 32 };

/* The first half is in the table. */
static struct cancel_key keys[2 * KEYS];
static struct cancel_table *table;
static void *cancel_memory;
static uint32_t next_key;

static struct span key_span(const struct cancel_key *key)
{
	return (struct span){key->bytes, key->size};
}

static void cancel_open(void)
{
	size_t size = cancel_table_size(KEYS);
	CHECK(posix_memalign(&cancel_memory, 64, size) == 0);
	memset(cancel_memory, 0, size);
	table = cancel_table_init(cancel_memory, size, KEY_SEED);
	srandom(KEY_SEED);
	for (uint32_t i = 0; i < 2 * KEYS; i++) {
		uint8_t random_bytes[sizeof keys[i].bytes];
		for (size_t k = 0; k < sizeof random_bytes; k++)
			random_bytes[k] = (uint8_t)random();
		cancel_key_make(&keys[i], random_bytes, false, 0);
		struct cancel_place place = {.slot = i};
		CHECK(i >= KEYS || cancel_table_insert(table, key_span(&keys[i]), place));
	}
}

static void cancel_close(void)
{
	free(cancel_memory);
}

static void cancel_hit(uint32_t rounds)
{
	struct cancel_place place;
	for (uint32_t left = rounds * LOOKUPS; left > 0; left--) {
		next_key = (next_key + 1) % KEYS;
		CHECK(cancel_table_find(table, key_span(&keys[next_key]), &place) &&
		      place.slot == next_key);
	}
}

static void cancel_miss(uint32_t rounds)
{
	struct cancel_place place;
	for (uint32_t left = rounds * LOOKUPS; left > 0; left--) {
		next_key = (next_key + 1) % KEYS;
		CHECK(!cancel_table_find(table, key_span(&keys[KEYS + next_key]), &place));
	}
}

/* ---------------------------------------------------------------------- wheel */

enum { TIMERS = 1000, TICKS = 128, TICK_US = 1000, MINUTE_US = 60 * 1000 * 1000 };

static struct wheel wheel;
static struct timer timers[TIMERS], own_timer;
static uint64_t wheel_us;

static void again_in_a_minute(struct timer *timer)
{
	wheel_arm(&wheel, timer, wheel_us + MINUTE_US);
}

static void wheel_open(void)
{
	wheel_us = MINUTE_US;
	wheel_init(&wheel, wheel_us);
	memset(timers, 0, sizeof timers);
	own_timer = (struct timer){.fire = again_in_a_minute};
	for (uint32_t i = 0; i < TIMERS; i++) {
		timers[i].fire = again_in_a_minute;
		wheel_arm(&wheel, &timers[i], wheel_us + (uint64_t)(i + 1) * (MINUTE_US / TIMERS));
	}
}

static void wheel_arm_disarm(uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++) {
		wheel_arm(&wheel, &own_timer, wheel_us + (i % MINUTE_US) + TICK_US);
		wheel_disarm(&wheel, &own_timer);
	}
	CHECK(wheel.armed == TIMERS);
}

static void wheel_tick(uint32_t rounds)
{
	for (uint32_t left = rounds * TICKS; left > 0; left--) {
		wheel_us += TICK_US;
		wheel_run(&wheel, wheel_us);
	}
	CHECK(wheel.armed == TIMERS);
}

static void wheel_wait(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		CHECK(wheel_next_us(&wheel) > wheel_us);
}

/* ----------------------------------------------------------------------- mail */

enum { MAILS = 16 };

static struct mailbox mailbox;
static struct mail mails[MAILS];

static void mail_open(void)
{
	CHECK(mailbox_open(&mailbox) == 0);
}

static void mail_close(void)
{
	mailbox_close(&mailbox);
}

static void mail_round(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		mailbox_push(&mailbox, &mails[i]);
	uint32_t taken = 0;
	for (const struct mail *mail = mailbox_take(&mailbox); mail != NULL; mail = mail->next)
		CHECK(mail == &mails[taken++]);
	CHECK(taken == count);
}

static void mail_one(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		mail_round(1);
}

static void mail_many(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		mail_round(MAILS);
}

static void mail_none(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		CHECK(mailbox_take(&mailbox) == NULL);
}

/* ----------------------------------------------------------------------- rows */

/* ----------------------------------------------------------------- statements */

/* A client with names, all prepared on one server; each round takes the next. */
enum { NAMES = 64, NAME_ROOM = 16 };

static const uint8_t statement_secret[STATEMENT_SECRET_SIZE] = "not a secret";
static struct statements statements;
static struct names names;
static struct cache cache;
static struct journal journal;
static uint8_t binds[NAMES][64];
static uint32_t bind_sizes[NAMES];
static char binds_text[] = TEXT; /* not const: the compiler must not know */

static void statements_open(void)
{
	CHECK(statements_init(&statements, statement_secret));
	cache_init(&cache);
	for (uint32_t i = 0; i < NAMES; i++) {
		uint8_t text[sizeof TEXT + 16] = TEXT;
		char name[NAME_ROOM];
		int size = snprintf(name, sizeof name, "S_%u", i);
		text[sizeof TEXT - 2] = (uint8_t)i;
		struct statement *statement = statement_acquire(&statements,
		                                                span_of(text, sizeof TEXT + 2));
		struct span key = span_of(name, (size_t)size);
		CHECK(statement != NULL && size > 0 &&
		      names_set(&statements, &names, &journal, key, statement, 0) &&
		      cache_set(&statements, &cache, &journal, statement, true, 0));
		statement_release(&statements, statement);
		memcpy(binds[i], "B\0\0\0\0\0", 6);
		memcpy(binds[i] + 6, name, (size_t)size + 1);
		bind_sizes[i] = 6 + (uint32_t)size + 1 + 6;
		write_u32(binds[i] + 1, bind_sizes[i] - 1);
	}
	journal_commit(&statements, &journal, &names, &cache, 1);
}

static void statements_close(void)
{
	journal_drop(&statements, &journal, &names, &cache);
	names_fini(&statements, &names);
	names = (struct names){0};
	cache_fini(&statements, &cache);
	statements_fini(&statements);
}

/* What a Bind by name needs to know: the names in it, whose statement that is, and
 * whether the server has it. */
static void statements_bind(uint32_t rounds)
{
	for (; rounds > 0; rounds--) {
		uint32_t which = rounds % NAMES;
		struct head head;
		struct span bind = span_of(binds[which], bind_sizes[which]);
		CHECK(head_read(&head, bind, bind.size) == HEAD_OK);
		const struct name *name = names_find(&names, statement_key(head.name));
		CHECK(name != NULL);
		struct prepared *prepared = cache_find(&cache, name->statement);
		CHECK(prepared != NULL && prepared->present);
		cache_touch(&cache, prepared);
	}
}

/* A Parse of a text that is known. */
static void statements_parse(uint32_t rounds)
{
	const struct statement *known = names_find(&names, span_of("S_7", 3))->statement;
	for (; rounds > 0; rounds--) {
		struct statement *statement = statement_acquire(&statements,
		                                                span_of(known->body, known->size));
		CHECK(statement == known);
		statement_release(&statements, statement);
	}
}

static void statements_query(uint32_t rounds)
{
	for (; rounds > 0; rounds--)
		CHECK(!sql_may_forget(span_of(binds_text, strlen(binds_text))));
}

const struct micro_row micro_rows[] = {
	{"scan: simple query and its answer", "message", SIMPLE_MESSAGES, NULL, NULL, scan_simple},
	{"scan: extended query and its answer", "message", EXTENDED_MESSAGES, NULL, NULL,
         scan_extended},
	{"track: simple query and its answer", "message", SIMPLE_MESSAGES, track_open, track_close,
         track_simple},
	{"track: extended query and its answer", "message", EXTENDED_MESSAGES, track_open,
         track_close, track_extended},
	{"cancel: a key that is known (1024 are)", "look-up", LOOKUPS, cancel_open, cancel_close,
         cancel_hit},
	{"cancel: a key that is not", "look-up", LOOKUPS, cancel_open, cancel_close, cancel_miss},
	{"wheel: arm and disarm (1000 others armed)", "pair", 1, wheel_open, NULL,
         wheel_arm_disarm},
	{"wheel: a tick (1000 timers, each a minute)", "tick", TICKS, wheel_open, NULL, wheel_tick},
	{"wheel: how long to wait", "question", 1, wheel_open, NULL, wheel_wait},
	{"mail: one, the bell rung by a system call", "mail", 1, mail_open, mail_close, mail_one},
	{"mail: 16 before they are taken", "mail", MAILS, mail_open, mail_close, mail_many},
	{"statements: a Bind by name, of 64", "Bind", 1, statements_open, statements_close,
         statements_bind},
	{"statements: a Parse with a text of 40 bytes", "Parse", 1, statements_open,
         statements_close, statements_parse},
	{"statements: does a Query forget any?", "question", 1, NULL, NULL, statements_query},
	{"mail: none there", "look", 1, mail_open, mail_close, mail_none},
};

const size_t micro_row_count = ARRAY_LEN(micro_rows);
