/*
 * The grammar of the configuration file, and of the pairs of an entry.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/ini.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/check.h"
#include "core/connstr.h"

static char seen[4096];
static size_t seen_size;

__attribute__((format(printf, 1, 2))) static void see(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int added = vsnprintf(seen + seen_size, sizeof(seen) - seen_size, format, arguments);
	va_end(arguments);
	seen_size += (size_t)added;
	cr_assert(seen_size < sizeof(seen));
}

/* The events as text, such as "1[name] 2 key=value 3%file 4!". */
static const char *ini_see(const char *text, size_t size)
{
	/* a copy of the exact size, so that a read behind the end is found */
	char *copy = malloc(size + (size == 0));
	memcpy(copy, text, size);
	struct ini ini;
	struct ini_line line;
	ini_init(&ini, span_of(copy, size));
	seen_size = 0;
	seen[0] = '\0';
	for (;;) {
		enum ini_event event = ini_next(&ini, &line);
		int name_size = (int)line.name.size, value_size = (int)line.value.size;
		const char *name = (const char *)line.name.data;
		const char *value = (const char *)line.value.data;
		if (event == INI_SECTION)
			see("%u[%.*s]", line.number, name_size, name);
		else if (event == INI_PAIR)
			see("%u:%.*s=%.*s|", line.number, name_size, name, value_size, value);
		else if (event == INI_INCLUDE)
			see("%u%%%.*s|", line.number, value_size, value);
		else if (event == INI_BROKEN)
			see("%u!", line.number);
		if (event == INI_END || event == INI_BROKEN)
			break;
	}
	free(copy);
	return seen;
}

Test(ini, lines)
{
	static const struct row {
		const char *text, *events;
	} rows[] = {
		{"", ""},
		{"\n\r\n \t\n", ""},
		{"; a\n  # b = c\n", ""},
		{"[a]", "1[a]"},
		{"  [a b]  \n[c]", "1[a b]2[c]"},
		{"[a] ; words\n[b] k=v", "1[a]2[b]2:k=v|"},
		{"[a\nb]", "1!"},
		{"[a", "1!"},
		{"k=v", "1:k=v|"},
		{" k \t=\t v w \t\r\n", "1:k=v w|"},
		{"k=", "1:k=|"},
		{"k=\nl=x", "1:k=|2:l=x|"},
		{"k = 'q' ; not a comment", "1:k='q' ; not a comment|"},
		{"k = a = b", "1:k=a = b|"},
		{"a.b-c_d*9 = 1", "1:a.b-c_d*9=1|"},
		{"* = host=x", "1:*=host=x|"},
		{"'my db' = x\n\"my 'db\" = y", "1:my db=x|2:my 'db=y|"},
		{"'' = x", "1!"},
		{"'a = x\n'", "1!"},
		{"k", "1!"},
		{"k\n=v", "1!"},
		{"k x = v", "1!"},
		{"k\xc3\xa4 = v", "1!"},
		{"= v", "1!"},
		{"\n\n%include  some file.ini  \nk=v", "3%some file.ini|4:k=v|"},
		{" %include\tf", "1%f|"},
		{"%include", "1!"},
		{"%include ", "1!"},
		{"%includes f", "1!"},
		{"%import f", "1!"},
		{"k=v\nl", "1:k=v|2!"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ini_see(rows[i].text, strlen(rows[i].text));
		cr_assert_str_eq(seen, rows[i].events, "row %zu", i);
	}
	cr_assert_str_eq(ini_see("k=a\0b", 5), "1!");
	cr_assert_str_eq(ini_see("[a\0]", 4), "1!");
	cr_assert_str_eq(ini_see("'a\0'=b", 6), "1!");

	/* cut anywhere: the lines before the cut are the same, nothing is read behind it */
	static const char whole[] = "[s]\nkey = value\n'q' = w\n%include f\n; c\n\"d\" = e\n";
	for (size_t size = 0; size <= sizeof(whole) - 1; size++)
		ini_see(whole, size);
	cr_assert_str_eq(seen, "1[s]2:key=value|3:q=w|4%f|6:d=e|");
}

static const char *pairs_see(const char *text)
{
	struct connstr_pair pair;
	enum connstr_event event;
	char value[256];
	seen_size = 0;
	seen[0] = '\0';
	while ((event = connstr_next(&text, &pair)) == CONNSTR_PAIR) {
		cr_assert(pair.value.size < sizeof(value));
		connstr_value(&pair, value);
		see("%.*s=%s|", (int)pair.key.size, (const char *)pair.key.data, value);
	}
	if (event == CONNSTR_BROKEN)
		see("! at <%s>", text);
	return seen;
}

Test(ini, pairs)
{
	static const struct row {
		const char *text, *pairs;
	} rows[] = {
		{"", ""},
		{"   ", ""},
		{"a=b", "a=b|"},
		{" a=b  c=d ", "a=b|c=d|"},
		{"a = b c= d e =f", "a=b|c=d|e=f|"},
		{"a='b c'", "a=b c|"},
		{"a='it''s' b='''' c='''x'", "a=it's|b='|c='x|"},
		{"a==b", "a==b|"},
		{"a=b\tc=d", "a=b\tc=d|"},
		{"a=b'c", "a=b'c|"},
		{"a='b'c=d", "! at <a='b'c=d>"},
		{"a=''", "! at <a=''>"},
		{"x=1 a=", "x=1|! at <a=>"},
		{"a= ", "! at <a= >"},
		{"a", "! at <a>"},
		{"a b=c", "! at <a b=c>"},
		{"=b", "! at <=b>"},
		{"a='b", "! at <a='b>"},
		{"a='b''", "! at <a='b''>"},
		{"a='", "! at <a='>"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		cr_assert_str_eq(pairs_see(rows[i].text), rows[i].pairs, "row %zu", i);
}
