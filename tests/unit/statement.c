/*
 * Heads are read from each prefix of each message, in a copy of its exact size, so
 * that a read past it is seen: unfinished until enough is there, and the same
 * from then on.  What SQL does is what PostgreSQL 15 did with the same texts.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/statement.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/base/check.h"

enum { HEADER_SIZE = 5 };

/* A message without its length.  `known` is the least of its bytes that tells. */
static const struct {
	char type;
	const char *body;
	uint32_t size, known;
	enum head_status status;
	const char *portal, *name;
	char kind;
} heads[] = {
#define BODY(text, known) text, sizeof(text) - 1, HEADER_SIZE + (known)
	{'P', BODY("s1\0select 1\0\0\0", 3), HEAD_OK, "", "s1", 0},
	{'P', BODY("\0select 1\0\0\0", 1), HEAD_OK, "", "", 0},
	{'P', BODY("s1\0", 3), HEAD_OK, "", "s1", 0},
	{'P', BODY("s1", 2), HEAD_BROKEN, "", "", 0},
	{'P', BODY("", 0), HEAD_BROKEN, "", "", 0},
	{'B', BODY("p\0s1\0\0\0\0\0\0\0", 5), HEAD_OK, "p", "s1", 0},
	{'B', BODY("\0\0\0\0\0\0\0\0", 2), HEAD_OK, "", "", 0},
	{'B', BODY("portal\0", 7), HEAD_BROKEN, "", "", 0},
	{'B', BODY("p\0s1", 4), HEAD_BROKEN, "", "", 0},
	{'B', BODY("", 0), HEAD_BROKEN, "", "", 0},
	{'D', BODY("Ss1\0", 4), HEAD_OK, "", "s1", 'S'},
	{'D', BODY("Pp\0", 3), HEAD_OK, "p", "", 'P'},
	{'D', BODY("S\0", 2), HEAD_OK, "", "", 'S'},
	{'D', BODY("P\0", 2), HEAD_OK, "", "", 'P'},
	{'D', BODY("Ss1\0\0", 4), HEAD_BROKEN, "", "", 0},
	{'D', BODY("Ss1", 3), HEAD_BROKEN, "", "", 0},
	{'D', BODY("S", 1), HEAD_BROKEN, "", "", 0},
	{'D', BODY("ss1\0", 1), HEAD_BROKEN, "", "", 0},
	{'D', BODY("\0s1\0", 1), HEAD_BROKEN, "", "", 0},
	{'D', BODY("", 0), HEAD_BROKEN, "", "", 0},
	{'C', BODY("Ss1\0", 4), HEAD_OK, "", "s1", 'S'},
	{'C', BODY("Pp\0", 3), HEAD_OK, "p", "", 'P'},
	{'C', BODY("Pp\0more", 3), HEAD_BROKEN, "", "", 0},
	{'C', BODY("Xp\0", 1), HEAD_BROKEN, "", "", 0},
	{'E', BODY("p\0\0\0\0\1", 2), HEAD_OK, "p", "", 0},
	{'E', BODY("\0\0\0\0\0", 1), HEAD_OK, "", "", 0},
	{'E', BODY("p\0\0\0\0", 2), HEAD_BROKEN, "", "", 0},
	{'E', BODY("p\0\0\0\0\0\0", 2), HEAD_BROKEN, "", "", 0},
	{'E', BODY("portal", 6), HEAD_BROKEN, "", "", 0},
	{'Q', BODY("select 1\0", 1), HEAD_BROKEN, "", "", 0},
#undef BODY
};

static void head_check(size_t row, const uint8_t *message, uint32_t there, uint32_t length)
{
	uint8_t *copy = malloc(there + 1);
	cr_assert_not_null(copy);
	uint8_t *start = copy + 1; /* an odd address, and the end at the end */
	memcpy(start, message, there);
	struct head head;
	enum head_status status = head_read(&head, span_of(start, there), length);
	enum head_status expected = there < heads[row].known ? HEAD_MORE : heads[row].status;
	cr_assert_eq(status, expected, "row %zu, %u bytes: %d", row, there, (int)status);
	if (status == HEAD_OK) {
		cr_assert(span_is(head.portal, heads[row].portal), "row %zu", row);
		cr_assert(span_is(head.name, heads[row].name), "row %zu", row);
		cr_assert_eq(head.kind, heads[row].kind);
		cr_assert_eq(head.size, heads[row].known);
		cr_assert(head.portal.size == 0 || head.portal.data > start);
		cr_assert(head.name.size == 0 || head.name.data > start);
	}
	free(copy);
}

Test(statement, reads_heads_from_any_prefix)
{
	for (size_t row = 0; row < ARRAY_LEN(heads); row++) {
		uint8_t message[64] = {(uint8_t)heads[row].type};
		uint32_t length = HEADER_SIZE + heads[row].size;
		write_u32(message + 1, length - 1);
		memcpy(message + HEADER_SIZE, heads[row].body, heads[row].size);
		for (uint32_t there = 0; there <= length; there++)
			head_check(row, message, there, length);
	}
}

/* A buffer may hold the next messages too: their bytes are not of this one. */
Test(statement, heads_end_with_their_message)
{
	static const uint8_t two[] = "P\0\0\0\6s1P\0\0\0\6s2";
	struct head head;
	cr_assert_eq(head_read(&head, span_of(two, sizeof two - 1), 7), HEAD_BROKEN);
	static const uint8_t large[] = "B\x3f\xff\xff\xffp\0s\0";
	cr_assert_eq(head_read(&head, span_of(large, 8), 0x40000000), HEAD_MORE);
	cr_assert_eq(head_read(&head, span_of(large, 9), 0x40000000), HEAD_OK);
	cr_assert_eq(head.size, 9);
}

/* 10, 60 and 63 bytes of one character. */
#define A10 "aaaaaaaaaa"
#define A60 A10 A10 A10 A10 A10 A10
#define A63 A60 "aaa"

static const struct {
	const char *text;
	enum sql_effect effect;
	const char *name;
} texts[] = {
	/* One name. */
	{"deallocate s1", SQL_DEALLOCATE, "s1"},
	{"DEALLOCATE PREPARE S1", SQL_DEALLOCATE, "s1"},
	{"Deallocate \"S1\";", SQL_DEALLOCATE, "S1"},
	{"deallocate\"a\"", SQL_DEALLOCATE, "a"},
	{"deallocate \"a\"\"b\"", SQL_DEALLOCATE, "a\"b"},
	{"deallocate \"\"\"\"", SQL_DEALLOCATE, "\""},
	{"deallocate \"x;y\"", SQL_DEALLOCATE, "x;y"},
	{"deallocate \"/*\"", SQL_DEALLOCATE, "/*"},
	{"deallocate \"--\";", SQL_DEALLOCATE, "--"},
	{"deallocate _a$1", SQL_DEALLOCATE, "_a$1"},
	{"deallocate \xc3\x89\x41", SQL_DEALLOCATE, "\xc3\x89\x61"},
	{"deallocate u", SQL_DEALLOCATE, "u"},
	{"deallocate allx", SQL_DEALLOCATE, "allx"},
	{"deallocate int", SQL_DEALLOCATE, "int"},
	/* Keywords that are names, and that are none. */
	{"deallocate prepare", SQL_DEALLOCATE, "prepare"},
	{"deallocate prepare;", SQL_DEALLOCATE, "prepare"},
	{"deallocate prepare -- all", SQL_DEALLOCATE, "prepare"},
	{"deallocate prepare prepare", SQL_DEALLOCATE, "prepare"},
	{"deallocate \"prepare\"", SQL_DEALLOCATE, "prepare"},
	{"deallocate \"all\"", SQL_DEALLOCATE, "all"},
	{"deallocate prepare \"all\"", SQL_DEALLOCATE, "all"},
	{"deallocate \"ALL\"", SQL_DEALLOCATE, "ALL"},
	{"deallocate \"select\"", SQL_DEALLOCATE, "select"},
	{"deallocate deallocate", SQL_DEALLOCATE, "deallocate"},
	{"deallocate sel", SQL_DEALLOCATE, "sel"},
	{"deallocate SELECT", SQL_NONE, ""},
	{"deallocate prepare user", SQL_NONE, ""},
	{"deallocate analyse", SQL_NONE, ""},
	{"deallocate with", SQL_NONE, ""},
	/* White space, comments and empty statements around it. */
	{" \t\n\r\f\vdeallocate \t\n\r\f\va \t\n\r\f\v", SQL_DEALLOCATE, "a"},
	{"-- x\ndeallocate--y\ra--", SQL_DEALLOCATE, "a"},
	{"--\rdeallocate a", SQL_DEALLOCATE, "a"},
	{"/*/*/x*/*/ deallocate/**/a/***//**/;/*;*/", SQL_DEALLOCATE, "a"},
	{"deallocate /* ; */ a", SQL_DEALLOCATE, "a"},
	{";; ; deallocate a ; ;-- x", SQL_DEALLOCATE, "a"},
	{"-- x deallocate a", SQL_NONE, ""},
	{"/*/*/ deallocate a", SQL_NONE, ""},
	{"/* /* */ deallocate a", SQL_NONE, ""},
	{"/* ; deallocate all */ select 1", SQL_NONE, ""},
	{"/* ; */ select 'discard'", SQL_NONE, ""},
	{"/* discard */ select 1; select 2", SQL_NONE, ""},
	{"*/ deallocate a", SQL_NONE, ""},
	/* Cut to 63 bytes, not within a character. */
	{"deallocate " A63, SQL_DEALLOCATE, A63},
	{"deallocate " A63 "b", SQL_DEALLOCATE, A63},
	{"deallocate " A63 A63 A63, SQL_DEALLOCATE, A63},
	{"deallocate \"" A63 "\"\"b\"", SQL_DEALLOCATE, A63},
	{"deallocate \"" A60 "aa\"\"b\"", SQL_DEALLOCATE, A60 "aa\""},
	{"deallocate " A60 "aa\xc3\xa9z", SQL_DEALLOCATE, A60 "aa"},
	{"deallocate " A60 "a\xc3\xa9z", SQL_DEALLOCATE, A60 "a\xc3\xa9"},
	{"deallocate " A60 "a\xe2\x82\xacz", SQL_DEALLOCATE, A60 "a"},
	{"deallocate " A60 "\xe2\x82\xacz", SQL_DEALLOCATE, A60 "\xe2\x82\xac"},
	{"deallocate \"" A60 "\xf0\x9f\x98\x80\"", SQL_DEALLOCATE, A60},
	{"deallocate " A63 "\xc3\xa9", SQL_DEALLOCATE, A63},
	/* All. */
	{"deallocate all", SQL_DEALLOCATE_ALL, ""},
	{"DEALLOCATE PREPARE ALL;", SQL_DEALLOCATE_ALL, ""},
	{"deallocate/**/All--", SQL_DEALLOCATE_ALL, ""},
	{"discard all", SQL_DISCARD_ALL, ""},
	{"/* x */ DISCARD ALL ;; ", SQL_DISCARD_ALL, ""},
	{"discard \"all\"", SQL_NONE, ""},
	{"\"discard\" all", SQL_NONE, ""},
	{"discard plans", SQL_NONE, ""},
	{"discard temp;", SQL_NONE, ""},
	{"DISCARD SEQUENCES", SQL_NONE, ""},
	/* Syntax errors: nothing is done. */
	{"deallocate", SQL_NONE, ""},
	{"deallocate;", SQL_NONE, ""},
	{"discard", SQL_NONE, ""},
	{"deallocate a b", SQL_NONE, ""},
	{"deallocate a.b", SQL_NONE, ""},
	{"deallocate a, b", SQL_NONE, ""},
	{"deallocate all a", SQL_NONE, ""},
	{"discard all all", SQL_NONE, ""},
	{"deallocate \"\"", SQL_NONE, ""},
	{"deallocate \"a", SQL_NONE, ""},
	{"deallocate \"a\"\"", SQL_NONE, ""},
	{"deallocate \"a\"b", SQL_NONE, ""},
	{"deallocate 'a'", SQL_NONE, ""},
	{"deallocate 1", SQL_NONE, ""},
	{"deallocate $1", SQL_NONE, ""},
	{"deallocate - - a", SQL_NONE, ""},
	{"deallocate a /*", SQL_NONE, ""},
	{"deallocate a /", SQL_NONE, ""},
	{"deallocate prepare /*", SQL_NONE, ""},
	{"deallocate_all", SQL_NONE, ""},
	{"deallocateall", SQL_NONE, ""},
	{"dealloc", SQL_NONE, ""},
	/* Other statements. */
	{"", SQL_NONE, ""},
	{" ", SQL_NONE, ""},
	{";", SQL_NONE, ""},
	{"-- ", SQL_NONE, ""},
	{"select 1", SQL_NONE, ""},
	{"select 1; ", SQL_NONE, ""},
	{"select 'deallocate all'", SQL_NONE, ""},
	{"select 'deallocate all';;", SQL_NONE, ""},
	{"select 1; select 2", SQL_NONE, ""},
	{"prepare x as select 1", SQL_NONE, ""},
	{"explain deallocate a", SQL_NONE, ""},
	{"delete from discard", SQL_NONE, ""},
	/* Several, or it may be so. */
	{"select 1; deallocate all", SQL_UNCLEAR, ""},
	{"select 1;DISCARD all;", SQL_UNCLEAR, ""},
	{"deallocate a; deallocate b", SQL_UNCLEAR, ""},
	{"deallocate a; select 1", SQL_UNCLEAR, ""},
	{"deallocate all; /*", SQL_UNCLEAR, ""},
	{"discard plans; discard all", SQL_UNCLEAR, ""},
	{"; select 1; Deallocate a", SQL_UNCLEAR, ""},
	{"select ';discard'", SQL_UNCLEAR, ""},
	{"do 'begin execute ''deallocate all''; end'", SQL_UNCLEAR, ""},
	{"do e'begin execute\\n''\\ndiscard all''; end'", SQL_UNCLEAR, ""},
	{"deallocate U&\"a\"", SQL_UNCLEAR, ""},
	{"deallocate prepare u&\"!0061\" uescape '!'", SQL_UNCLEAR, ""},
};

Test(statement, knows_what_sql_forgets)
{
	for (size_t row = 0; row < ARRAY_LEN(texts); row++) {
		size_t size = strlen(texts[row].text);
		char *copy = malloc(size + 1);
		cr_assert_not_null(copy);
		memcpy(copy + 1, texts[row].text, size);
		struct span text = span_of(copy + 1, size);
		char name_of[STATEMENT_NAME_MAX + 1] = "";
		enum sql_effect effect = sql_effect(text, name_of);
		cr_assert_eq(effect, texts[row].effect, "%s: %d", texts[row].text, (int)effect);
		if (effect == SQL_DEALLOCATE)
			cr_assert_str_eq(name_of, texts[row].name, "%s: %s", texts[row].text,
			                 name_of);
		cr_assert(effect == SQL_NONE || sql_may_forget(text), "%s", texts[row].text);
		free(copy);
	}
}

/* Nearly every text is passed without a look at its tokens. */
Test(statement, is_quick_about_most_texts)
{
	static const struct {
		const char *text;
		bool may;
	} rows[] = {
		{"", false},           {"select 1", false},
		{"SELECT 1;", false},  {"begin; \t\n\r\f\v", false},
		{"commit;;", false},   {"select 'discard'", false},
		{"x", false},          {"delete from t", true},
		{"DISCARD ALL", true}, {"select 1; select 2", true},
		{"select ';'", true},  {" select 1", true},
		{";", true},           {"/* */ select 1", true},
		{"(select 1)", true},  {"\xc3\xa9", true},
		{"@", true},           {"[", true},
		{"`", true},           {"{", true},
	};
	for (size_t row = 0; row < ARRAY_LEN(rows); row++)
		cr_assert_eq(sql_may_forget(span_text(rows[row].text)), rows[row].may, "%s",
		             rows[row].text);
	cr_assert_not(sql_may_forget((struct span){0}));
}

/* Deep and long texts cost neither stack nor more than a look at each byte. */
Test(statement, takes_hostile_texts_in_its_stride)
{
	static const char *const parts[] = {"/*", "\"\"", ";", "d", "--\n", " ", "a;", "*/"};
	enum { SIZE = 1 << 20 };
	char *text = malloc(SIZE);
	cr_assert_not_null(text);
	for (size_t row = 0; row < ARRAY_LEN(parts); row++) {
		size_t size = strlen(parts[row]);
		for (size_t i = 0; i < SIZE; i++)
			text[i] = parts[row][i % size];
		char name_of[STATEMENT_NAME_MAX + 1];
		cr_assert_eq(sql_effect(span_of(text, SIZE), name_of), SQL_NONE);
		memcpy(text, "deallocate ", 11);
		(void)sql_effect(span_of(text, SIZE), name_of);
	}
	free(text);
}

Test(statement, keys_are_cut_as_the_server_cuts_names)
{
	cr_assert(span_is(statement_key(span_text("s1")), "s1"));
	cr_assert(span_is(statement_key(span_text(A63)), A63));
	cr_assert(span_is(statement_key(span_text(A63 "b")), A63));
}
