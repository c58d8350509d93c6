/*
 * stub_plan.c - see stub_plan.h.
 *
 * A cursor goes through the statement once; every take_ function moves it
 * over what it knows and leaves it alone otherwise.  What is not understood
 * is never an error: the statement is then one that answers 1.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/stub_plan.h"

#include <ctype.h>
#include <strings.h>

#include "core/base/check.h"

enum {
	FILL_MAX = 1000 * 1000 * 1000,
	DELAY_US_MAX = 1000 * 1000 * 1000,
	WORD_MAX = 32,
};

struct cursor {
	const char *at, *end;
	struct plan *plan;
};

static bool take_directive(struct cursor *in);

static char peek(const struct cursor *in)
{
	return in->at < in->end ? *in->at : '\0';
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* From here to the end mark of the comment, or to the end of all. */
static void take_comment(struct cursor *in, const char *mark)
{
	size_t size = strlen(mark);
	const char *end = memmem(in->at, (size_t)(in->end - in->at), mark, size);
	struct cursor inside = {in->at, end == NULL ? in->end : end, in->plan};
	while (inside.at < inside.end)
		if (!take_directive(&inside))
			inside.at++;
	in->at = end == NULL ? in->end : end + size;
}

static void skip_space(struct cursor *in)
{
	for (;;) {
		if (isspace((unsigned char)peek(in))) {
			in->at++;
		} else if (in->end - in->at >= 2 && memcmp(in->at, "/*", 2) == 0) {
			in->at += 2;
			take_comment(in, "*/");
		} else if (in->end - in->at >= 2 && memcmp(in->at, "--", 2) == 0) {
			in->at += 2;
			take_comment(in, "\n");
		} else {
			return;
		}
	}
}

static bool take_char(struct cursor *in, char c)
{
	skip_space(in);
	if (peek(in) != c || in->at == in->end)
		return false;
	in->at++;
	return true;
}

/* A word in lower case, cut at WORD_MAX; empty if there is none. */
static struct span take_any_word(struct cursor *in)
{
	skip_space(in);
	const char *from = in->at;
	while (is_word(peek(in)))
		in->at++;
	return span_of(from, (size_t)(in->at - from));
}

static bool word_is(struct span word, const char *text)
{
	return word.size == strlen(text) &&
	       strncasecmp((const char *)word.data, text, word.size) == 0;
}

static bool take_word(struct cursor *in, const char *text)
{
	struct cursor ahead = *in;
	if (!word_is(take_any_word(&ahead), text))
		return false;
	in->at = ahead.at;
	return true;
}

/* A number with or without a fraction, in units of 1 / scale; cut at `most`. */
static bool take_number(struct cursor *in, uint64_t scale, uint64_t most, uint64_t *number)
{
	skip_space(in);
	if (!isdigit((unsigned char)peek(in)))
		return false;
	uint64_t value = 0;
	for (; isdigit((unsigned char)peek(in)); in->at++)
		value = MIN(value * 10 + (uint64_t)(*in->at - '0'), most);
	value = value > most / scale ? most : value * scale;
	if (peek(in) == '.') {
		in->at++;
		for (; isdigit((unsigned char)peek(in)); in->at++) {
			scale /= 10;
			value += (uint64_t)(*in->at - '0') * scale;
		}
	}
	*number = MIN(value, most);
	return true;
}

/* A literal; the text keeps its doubled quotes, `size` does not count them. */
static bool take_literal(struct cursor *in, struct span *text, uint32_t *size)
{
	skip_space(in);
	if (peek(in) != '\'')
		return false;
	const char *from = in->at + 1;
	uint32_t doubled = 0;
	const char *quote;
	for (const char *at = from;; at = quote + 2) {
		quote = memchr(at, '\'', (size_t)(in->end - at));
		if (quote == NULL)
			return false;
		if (quote + 1 == in->end || quote[1] != '\'')
			break;
		doubled++;
	}
	*text = span_of(from, (size_t)(quote - from));
	*size = text->size - doubled;
	in->at = quote + 1;
	return true;
}

static bool take_sqlstate(struct cursor *in)
{
	bool quoted = take_char(in, '\'');
	struct span state = take_any_word(in);
	if (state.size != 5)
		return false;
	memcpy(in->plan->sqlstate, state.data, 5);
	return !quoted || take_char(in, '\'');
}

/* sleep(MS), pg_sleep(S), error(SQLSTATE), fatal(SQLSTATE), drop(). */
static bool take_directive(struct cursor *in)
{
	struct cursor ahead = *in;
	struct span word = take_any_word(&ahead);
	uint64_t delay = 0;
	if (word.size == 0 || word.size > WORD_MAX || !take_char(&ahead, '('))
		return false;
	if (word_is(word, "sleep") && take_number(&ahead, 1000, DELAY_US_MAX, &delay)) {
		ahead.plan->delay_us += delay;
	} else if (word_is(word, "pg_sleep") &&
	           take_number(&ahead, 1000 * 1000, DELAY_US_MAX, &delay)) {
		ahead.plan->delay_us += delay;
	} else if (word_is(word, "error") || word_is(word, "fatal")) {
		if (!take_sqlstate(&ahead))
			return false;
		ahead.plan->fatal = tolower(word.data[0]) == 'f';
	} else if (word_is(word, "drop")) {
		ahead.plan->drop = true;
	} else {
		return false;
	}
	if (!take_char(&ahead, ')'))
		return false;
	in->at = ahead.at;
	return true;
}

static bool take_repeat(struct cursor *in, struct column *column)
{
	struct cursor ahead = *in;
	struct span text;
	uint32_t size;
	uint64_t count;
	column->fill = 'x';
	if (!take_word(&ahead, "repeat") || !take_char(&ahead, '('))
		return false;
	if (take_literal(&ahead, &text, &size)) {
		if (size > 0)
			column->fill = (char)text.data[0];
		if (!take_char(&ahead, ','))
			return false;
	}
	if (!take_number(&ahead, 1, FILL_MAX, &count) || !take_char(&ahead, ')'))
		return false;
	column->kind = COLUMN_FILL;
	column->size = (uint32_t)count;
	in->at = ahead.at;
	return true;
}

static bool take_column(struct cursor *in, struct column *column)
{
	uint64_t number;
	*column = (struct column){.kind = COLUMN_TEXT};
	if (take_literal(in, &column->text, &column->size))
		return true;
	const char *from = in->at;
	if (take_number(in, 1, UINT32_MAX, &number)) {
		column->text = span_of(from, (size_t)(in->at - from));
		column->size = column->text.size;
		return true;
	}
	if (take_char(in, '$')) {
		if (!take_number(in, 1, PLAN_PARAMETERS_MAX, &number) || number == 0)
			return false;
		column->kind = COLUMN_PARAMETER;
		column->number = (uint32_t)number;
		in->plan->parameters = MAX(in->plan->parameters, column->number);
		return true;
	}
	return take_repeat(in, column) || take_directive(in);
}

/* ::type, AS name. */
static void skip_adornment(struct cursor *in)
{
	while (take_char(in, ':'))
		take_any_word(in);
	if (take_word(in, "as"))
		take_any_word(in);
}

static void take_row_count(struct cursor *in)
{
	uint64_t from, to;
	if (take_word(in, "x")) {
		take_number(in, 1, UINT32_MAX, &in->plan->rows);
	} else if (take_word(in, "from") && take_word(in, "generate_series") &&
	           take_char(in, '(') && take_number(in, 1, UINT32_MAX, &from) &&
	           take_char(in, ',') && take_number(in, 1, UINT32_MAX, &to)) {
		in->plan->rows = to >= from ? to - from + 1 : 0;
		take_char(in, ')');
	}
}

static void take_select(struct cursor *in)
{
	static const char one[] = "1";
	struct plan *plan = in->plan;
	plan->kind = PLAN_ROWS;
	plan->rows = 1;
	bool known = true;
	do {
		known = plan->column_count < PLAN_COLUMNS_MAX &&
		        take_column(in, &plan->columns[plan->column_count]);
		if (known) {
			plan->column_count++;
			skip_adornment(in);
		}
	} while (known && take_char(in, ','));
	if (known) {
		take_row_count(in);
		return;
	}
	plan->column_count = 1;
	plan->columns[0] = (struct column){.kind = COLUMN_TEXT, .text = span_text(one), .size = 1};
}

static void take_copy(struct cursor *in)
{
	struct plan *plan = in->plan;
	struct cursor inside = *in;
	if (take_char(&inside, '(') && take_word(&inside, "select")) {
		in->at = inside.at;
		take_select(in);
	} else {
		struct cursor nothing = {in->at, in->at, plan};
		take_select(&nothing);
	}
	plan->kind = PLAN_COPY_OUT;
	while (in->at < in->end && peek(in) != ';') {
		if (take_word(in, "stdin"))
			plan->kind = PLAN_COPY_IN;
		else if (take_any_word(in).size == 0 && in->at < in->end)
			in->at++;
	}
}

/* SET name = value, SET name TO value. */
static void take_set(struct cursor *in)
{
	uint32_t size;
	struct plan *plan = in->plan;
	plan->kind = PLAN_SET;
	plan->tag = "SET";
	if (!take_word(in, "session"))
		(void)take_word(in, "local");
	plan->name = take_any_word(in);
	if (!take_word(in, "to"))
		(void)take_char(in, '=');
	if (take_literal(in, &plan->value, &size) || take_word(in, "default"))
		return;
	skip_space(in);
	const char *from = in->at;
	while (in->at < in->end && peek(in) != ';')
		in->at++;
	plan->value = span_of(from, (size_t)(in->at - from));
}

static const struct {
	const char *word;
	enum plan_kind kind;
	const char *tag;
} statements[] = {
	{"begin", PLAN_BEGIN, "BEGIN"},           {"start", PLAN_BEGIN, "START TRANSACTION"},
	{"commit", PLAN_COMMIT, "COMMIT"},        {"end", PLAN_COMMIT, "COMMIT"},
	{"rollback", PLAN_ROLLBACK, "ROLLBACK"},  {"abort", PLAN_ROLLBACK, "ROLLBACK"},
	{"reset", PLAN_RESET, "RESET"},           {"discard", PLAN_DISCARD, "DISCARD ALL"},
	{"insert", PLAN_TAG, "INSERT 0 1"},       {"update", PLAN_TAG, "UPDATE 1"},
	{"delete", PLAN_TAG, "DELETE 1"},         {"create", PLAN_TAG, "CREATE TABLE"},
	{"alter", PLAN_TAG, "ALTER TABLE"},       {"drop", PLAN_TAG, "DROP TABLE"},
	{"truncate", PLAN_TAG, "TRUNCATE TABLE"}, {"savepoint", PLAN_TAG, "SAVEPOINT"},
	{"release", PLAN_TAG, "RELEASE"},         {"deallocate", PLAN_TAG, "DEALLOCATE"},
	{"listen", PLAN_TAG, "LISTEN"},           {"unlisten", PLAN_TAG, "UNLISTEN"},
	{"notify", PLAN_TAG, "NOTIFY"},           {"close", PLAN_TAG, "CLOSE CURSOR"},
	{"vacuum", PLAN_TAG, "VACUUM"},           {"analyze", PLAN_TAG, "ANALYZE"},
	{"lock", PLAN_TAG, "LOCK TABLE"},         {"do", PLAN_TAG, "DO"},
};

static void take_statement(struct cursor *in)
{
	struct plan *plan = in->plan;
	if (take_word(in, "select")) {
		take_select(in);
		return;
	}
	struct span word = take_any_word(in);
	if (word_is(word, "copy")) {
		take_copy(in);
		return;
	}
	if (word_is(word, "set")) {
		take_set(in);
		return;
	}
	if (word.size == 0 && (in->at == in->end || peek(in) == ';')) {
		plan->kind = PLAN_EMPTY;
		return;
	}
	for (uint32_t i = 0; i < ARRAY_LEN(statements); i++) {
		if (word_is(word, statements[i].word)) {
			plan->kind = statements[i].kind;
			plan->tag = statements[i].tag;
			if (plan->kind == PLAN_ROLLBACK && take_word(in, "to"))
				plan->kind = PLAN_BEGIN; /* still in a transaction after it */
			return;
		}
	}
	struct cursor nothing = {in->at, in->at, plan};
	take_select(&nothing);
}

void plan_read(struct span *text, struct plan *plan)
{
	/* The columns are written before they are read. */
	memset(plan, 0, offsetof(struct plan, columns));
	struct cursor in = {(const char *)text->data, (const char *)text->data + text->size, plan};
	take_statement(&in);
	struct span ignored;
	uint32_t size;
	while (in.at < in.end && peek(&in) != ';') {
		if (!take_literal(&in, &ignored, &size) && in.at < in.end && peek(&in) != ';')
			in.at++;
	}
	if (in.at < in.end)
		in.at++; /* the semicolon */
	*text = span_of(in.at, (size_t)(in.end - in.at));
}

static void span_move(struct span *text, struct span from, const uint8_t *to)
{
	if (text->data >= from.data && text->data <= from.data + from.size)
		text->data = to + (text->data - from.data);
}

void plan_move(struct plan *plan, struct span from, const uint8_t *to)
{
	for (uint32_t i = 0; i < plan->column_count; i++)
		if (plan->columns[i].kind == COLUMN_TEXT)
			span_move(&plan->columns[i].text, from, to);
	span_move(&plan->name, from, to);
	span_move(&plan->value, from, to);
}
