/*
 * model_named.c - see model.h: what the extended protocol must answer, given
 * what is prepared.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/check.h"
#include "tests/sim/model_parts.h"
#include "tests/sim/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNNAMED_KEPT_MAX = 60000 }; /* a larger one is not moved to another server */

static bool is_of_statement(const struct ask *ask)
{
	return ask->type == 'B' || (ask->type == 'D' && !ask->of_portal);
}

static bool is_aborted(const struct model *model, const struct sql *sql)
{
	return model->tx == 'E' && !verb_ends_transaction(sql->verb);
}

void named_resolve(struct model *model, struct ask *ask)
{
	bool of_portal = ask->type == 'E' || (ask->type == 'D' && ask->of_portal);
	if (of_portal) {
		ask->count = model->portal_open && !model->portal_empty;
		ask->statements[0] = model->portal;
		if (ask->type == 'E' && ask->rows < model->portal_rows)
			ask->rows = model->portal_rows;
		return;
	}
	if (!is_of_statement(ask))
		return;
	const struct book_entry *entry = book_find(&model->book, ask->name);
	ask->count = entry != NULL && !entry->empty;
	if (entry == NULL)
		return;
	ask->statements[0] = entry->sql;
	if (ask->type == 'B' && ask->parameters > 0)
		ask->statements[0].nonce = ask->nonce;
}

/* DEALLOCATE and DISCARD ALL, of either protocol. */
static const char *forget_due(struct model *model, const struct ask *ask, const struct sql *sql)
{
	if (sql->verb == VERB_DEALLOCATE && book_find(&model->book, sql->target) == NULL)
		return "26000";
	if (sql->verb == VERB_DISCARD_ALL && (model->tx == 'T' || ask->count > 1))
		return "25001";
	return NULL;
}

static const char *parse_due(struct model *model, const struct ask *ask)
{
	const struct sql *sql = &ask->statements[0];
	if (sql->verb == VERB_BAD)
		return "42601";
	if (!ask->empty && is_aborted(model, sql))
		return "25P02";
	if (ask->name[0] != '\0' && book_find(&model->book, ask->name) != NULL)
		return "42P05";
	return NULL;
}

static const char *statement_due(struct model *model, const struct ask *ask)
{
	const struct book_entry *entry = book_find(&model->book, ask->name);
	if (entry == NULL)
		return "26000";
	if (ask->type == 'D')
		return model->tx == 'E' && verb_has_rows(entry->sql.verb) ? "25P02" : NULL;
	bool has_parameter = !entry->empty && sql_has_parameter(&entry->sql);
	if (ask->parameters != (has_parameter ? 1 : 0))
		return "08P01";
	return is_aborted(model, &entry->sql) ? "25P02" : NULL;
}

const char *named_due(struct model *model, const struct ask *ask)
{
	if (ask->type == 'P')
		return parse_due(model, ask);
	if (is_of_statement(ask))
		return statement_due(model, ask);
	if (strchr("ED", ask->type) != NULL && !model->portal_open)
		return "34000";
	if (ask->type == 'E' && model->portal_done)
		return "55000";
	if (strchr("EQ", ask->type) == NULL || ask->at >= ask->count)
		return NULL;
	const struct sql *sql = &ask->statements[ask->at];
	if (is_aborted(model, sql))
		return "25P02";
	return verb_forgets(sql->verb) ? forget_due(model, ask, sql) : NULL;
}

/* What a pooler may answer instead. */
static bool may_differ(struct model *model, const struct ask *ask, const char *code)
{
	const struct book_entry *entry = book_find(&model->book, ask->name);
	if (!model->pooled || !is_of_statement(ask) || entry == NULL)
		return false;
	if (strcmp(code, "25P02") == 0)
		return !entry->empty && is_aborted(model, &entry->sql);
	return strcmp(code, "26000") == 0 && ask->name[0] == '\0' && model->is_weak &&
	       model->unnamed_stay != model->stay;
}

static bool words_are(struct model *model, const struct ask *ask, const char *code,
                      const char *words)
{
	const struct sql *sql = ask->at < ask->count ? &ask->statements[ask->at] : NULL;
	bool forgets = sql != NULL && strchr("EQ", ask->type) != NULL && verb_forgets(sql->verb);
	const char *name = forgets ? sql->target : ask->name;
	char due[200], cut[SQL_NAME_MAX + 1];
	if (model->pooled && strcmp(code, "42P05") == 0) {
		snprintf(cut, sizeof cut, "%.63s", name);
		name = cut;
	}
	if (model->pooled && strcmp(name, NAME_LIKE_OURS) == 0 && is_of_statement(ask))
		name = "rb_";
	if (strcmp(code, "34000") == 0) {
		snprintf(due, sizeof due, "portal \"\" does not exist");
	} else if (strcmp(code, "55000") == 0) {
		snprintf(due, sizeof due, "portal \"\" cannot be run");
	} else if (strcmp(code, "26000") == 0 && name[0] == '\0') {
		snprintf(due, sizeof due, "unnamed prepared statement does not exist");
	} else if (strcmp(code, "26000") == 0 || strcmp(code, "42P05") == 0) {
		snprintf(due, sizeof due, "prepared statement \"%s\" %s", name,
		         code[0] == '2' ? "does not exist" : "already exists");
	} else {
		const struct book_entry *entry = book_find(&model->book, ask->name);
		uint64_t nonce = strtoull(words, NULL, 16);
		return (sql != NULL && nonce == sql->nonce) ||
		       (ask->type == 'B' && nonce == ask->nonce) ||
		       (sql != NULL && nonce == 0 && verb_forgets(sql->verb)) ||
		       (is_of_statement(ask) && entry != NULL && nonce == entry->sql.nonce);
	}
	return strcmp(due, words) == 0;
}

bool named_error_is_due(struct model *model, const struct ask *ask, const char *code,
                        const char *words)
{
	if (ask->type == 'E' && model->is_vague && strcmp(code, "26000") == 0)
		return true;
	const char *due = named_due(model, ask);
	bool right = (due != NULL && strcmp(due, code) == 0) || may_differ(model, ask, code);
	return right && words_are(model, ask, code, words);
}

/* The pooler may have forgotten it, whatever became of what made it do so. */
static void weaken(struct model *model)
{
	model->is_weak = true;
	model->unnamed_stay = model->stay - 1;
}

/* A Bind that follows its Parse at once. */
static bool is_first_bind(const struct model *model, const struct ask *ask)
{
	return ask->type == 'B' && ask->name[0] == '\0' && ask->epoch == model->unnamed_epoch;
}

void named_skipped(struct model *model, const struct ask *ask)
{
	bool ends = ask->type == 'P' || (ask->type == 'C' && !ask->of_portal);
	if (model->pooled && ((ends && ask->name[0] == '\0') || is_first_bind(model, ask)))
		weaken(model);
}

void named_failed(struct model *model, const struct ask *ask, bool canceled)
{
	bool drops = ask->type == 'Q' || (ask->type == 'P' && ask->name[0] == '\0');
	model->portal_open = false;
	if (model->pooled && ((drops && canceled) || is_first_bind(model, ask)))
		weaken(model); /* after a cancel, perhaps no server has heard of it */
	else if (drops)
		model->book.unnamed.used = false;
}

static void parsed(struct model *model, const struct ask *ask)
{
	book_set(&model->book, ask->name, &ask->statements[0], ask->empty);
	if (ask->name[0] != '\0')
		return;
	model->unnamed_epoch = ask->epoch;
	model->unnamed_stay = model->stay;
	const struct sql *sql = &ask->statements[0];
	model->unnamed_binds = 0;
	model->is_weak = model->pooled && !ask->empty &&
	                 (sql_padding(sql) > UNNAMED_KEPT_MAX || sql->verb == VERB_DEALLOCATE);
}

static void bound(struct model *model, const struct ask *ask)
{
	const struct book_entry *entry = book_find(&model->book, ask->name);
	model->portal = ask->statements[0];
	model->portal_open = true;
	model->portal_empty = entry->empty;
	model->portal_rows = 0;
	model->portal_done = false;
	model->is_vague = false;
	if (ask->name[0] != '\0' || !model->pooled)
		return;
	if (entry->sql.verb == VERB_DEALLOCATE)
		model->is_vague = model->unnamed_binds > 0 || model->unnamed_stay != model->stay;
	model->unnamed_binds++;
	if (ask->epoch == model->unnamed_epoch)
		model->is_weak = true;
}

void named_done(struct model *model, const struct ask *ask)
{
	bool of_unnamed = is_of_statement(ask) && ask->name[0] == '\0';
	switch (ask->type) {
	case 'P': parsed(model, ask); break;
	case 'B': bound(model, ask); break;
	case 'C':
		if (ask->of_portal)
			model->portal_open = false;
		else
			book_drop(&model->book, ask->name);
		break;
	default: break;
	}
	if (of_unnamed)
		model->unnamed_stay = model->stay;
}

void named_completed(struct model *model, const struct sql *sql)
{
	if (verb_ends_transaction(sql->verb))
		model->portal_open = false;
	if (sql->verb == VERB_DEALLOCATE)
		book_drop(&model->book, sql->target);
	else if (verb_forgets(sql->verb))
		book_drop_named(&model->book);
}

bool named_description_is(const struct ask *ask, const struct message *message)
{
	const struct sql *sql = ask->count > 0 ? &ask->statements[0] : NULL;
	struct cursor cursor = cursor_of(message);
	char column[TAG_MAX];
	if (message->type == 't') {
		uint16_t count = cursor_u16(&cursor);
		return !cursor.bad && count == (sql != NULL && sql_has_parameter(sql) ? 1 : 0);
	}
	if (message->type == 'n')
		return sql == NULL || !verb_has_rows(sql->verb);
	if (message->type != 'T' || sql == NULL || !verb_has_rows(sql->verb))
		return false;
	sql_column(sql, column);
	cursor_u16(&cursor);
	return strcmp(cursor_text(&cursor), column) == 0 && !cursor.bad;
}
