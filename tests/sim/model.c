/* model.c - see model.h. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/model.h"

#include "tests/sim/check.h"
#include "tests/sim/model_parts.h"
#include "tests/sim/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"

void model_init(struct model *model, uint32_t session, bool tolerant, bool pooled)
{
	memset(model, 0, sizeof *model);
	model->session = session;
	model->tolerant = tolerant;
	model->pooled = pooled;
	model->tx = 'I';
}

static struct ask *model_head(struct model *model)
{
	return model->count == 0 ? NULL : &model->asks[model->head];
}

static void model_pop(struct model *model)
{
	model->head = (model->head + 1) % ASKS_MAX;
	model->count--;
}

void model_ask(struct model *model, const struct ask *ask)
{
	if (model->skipping && ask->type != 'S' && ask->type != 'Q') {
		named_skipped(model, ask);
		return;
	}
	model->skipping = false;
	SIM_CHECK(model->count < ASKS_MAX, "session %u asks too much at once", model->session);
	if (model->count == 0)
		model->epoch++;
	struct ask *added = &model->asks[(model->head + model->count++) % ASKS_MAX];
	*added = *ask;
	added->epoch = model->epoch;
}

void model_copyfail(struct model *model, uint64_t nonce)
{
	for (uint32_t i = 0; i < model->count; i++) {
		struct ask *ask = &model->asks[(model->head + i) % ASKS_MAX];
		if (ask->count > 0 && ask->statements[0].nonce == nonce)
			ask->copyfail = true;
	}
}

uint64_t model_at_hand(const struct model *model)
{
	const struct ask *ask = &model->asks[model->head];
	return model->count > 0 && ask->at < ask->count ? ask->statements[ask->at].nonce : 0;
}

bool model_awaits(const struct model *model, uint64_t nonce)
{
	for (uint32_t i = 0; i < model->count; i++) {
		const struct ask *ask = &model->asks[(model->head + i) % ASKS_MAX];
		if (!ask->failed && ask->at < ask->count && ask->statements[ask->at].nonce == nonce)
			return true;
	}
	return false;
}

/* The statement of the head that is answered now; NULL: none. */
static const struct sql *statement_at_hand(const struct ask *ask)
{
	return ask->at < ask->count ? &ask->statements[ask->at] : NULL;
}

_Noreturn static void unexpected(const struct model *model, const struct message *message)
{
	const struct ask *ask = model->count == 0 ? NULL : &model->asks[model->head];
	const struct sql *statement = ask == NULL ? NULL : statement_at_hand(ask);
	bool is_error = message->type == 'E' || message->type == 'N';
	sim_fail("I1: session %u got '%c' (%u bytes: %s %.100s) for '%c' \"%s\" %s %" PRIx64
	         " stage %u row %u, transaction %c",
	         model->session, message->type, message->size,
	         is_error ? message_field(message, 'C') : "",
	         is_error               ? message_field(message, 'M')
	         : message->type == 'C' ? (const char *)message->body
	         : message->type == 'Z' ? (const char[]){(char)message->body[0], 0}
	                                : "",
	         ask == NULL ? '-' : ask->type, ask == NULL ? "" : ask->name,
	         statement == NULL ? "-" : verb_name(statement->verb),
	         statement == NULL ? 0 : statement->nonce, ask == NULL ? 0U : ask->stage,
	         ask == NULL ? 0U : ask->rows, model->tx);
}

/* Whether an error with this code may answer the head. */
static bool error_is_due(struct model *model, const struct ask *ask, const char *code,
                         const char *words)
{
	uint64_t nonce = strtoull(words, NULL, 16);
	if (ask->type == 'Q' && ask->stage == 0 && ask->at == 0 && strcmp(code, "42601") == 0)
		for (uint32_t i = 0; i < ask->count; i++)
			if (ask->statements[i].verb == VERB_BAD)
				return nonce == ask->statements[i].nonce;
	if (named_error_is_due(model, ask, code, words))
		return true;
	const struct sql *statement = statement_at_hand(ask);
	if (statement == NULL || nonce != statement->nonce || named_due(model, ask) != NULL ||
	    strchr("QE", ask->type) == NULL)
		return false;
	if (strcmp(code, "P0001") == 0)
		return statement->verb == VERB_FAIL;
	if (strcmp(code, "22P04") == 0)
		return statement->verb == VERB_COPYIN && ask->stage == 1 && statement->b > 0;
	if (strcmp(code, "57014") == 0 && ask->copyfail)
		return statement->verb == VERB_COPYIN && ask->stage == 1;
	return false;
}

static enum reply error_reply(struct model *model, const struct message *message)
{
	const char *code = message_field(message, 'C');
	const char *text = message_field(message, 'M');
	struct ask *ask = model_head(model);
	trace("error", model->session, (uint64_t)strtoul(code, NULL, 36));
	check_counts.failed++;
	if (strcmp(message_field(message, 'S'), "FATAL") == 0) {
		if (!model->tolerant)
			unexpected(model, message);
		return REPLY_FATAL;
	}
	if (ask == NULL)
		unexpected(model, message);
	bool due = error_is_due(model, ask, code, text);
	bool canceled = strcmp(code, "57014") == 0 && check_cancel_was_asked(model->session);
	if (!due && !canceled)
		unexpected(model, message);
	named_failed(model, ask, canceled && !due);
	if (model->tx == 'T')
		model->tx = 'E';
	/* a cancel may have come before the server had read that Sync */
	model->sync_lost = ask->swallowed && (!due || canceled);
	if (ask->type == 'Q') {
		if (ask->failed)
			unexpected(model, message);
		ask->failed = true;
		return REPLY_ERROR;
	}
	if (ask->type == 'S') {
		if (!model->tolerant)
			unexpected(model, message);
		return REPLY_ERROR;
	}
	model_pop(model);
	for (; model->count > 0 && model_head(model)->type != 'S'; model_pop(model))
		named_skipped(model, model_head(model));
	model->skipping = model->count == 0;
	return REPLY_ERROR;
}

static enum reply ready_reply(struct model *model, const struct message *message)
{
	const struct ask *ask = model_head(model);
	bool due = ask != NULL && (ask->type == 'S' ||
	                           (ask->type == 'Q' && (ask->failed || ask->at == ask->count)));
	if (!due || (ask->type == 'Q' && ask->count == 0 && ask->stage == 0 && !ask->failed) ||
	    message->size != 1 || message->body[0] != (uint8_t)model->tx)
		unexpected(model, message);
	model_pop(model);
	if (model->tx == 'I') {
		model->portal_open = false;
		model->stay++;
	}
	return REPLY_READY;
}

static void complete_reply(struct model *model, struct ask *ask, const struct message *message)
{
	const struct sql *statement = statement_at_hand(ask);
	char tag[TAG_MAX];
	sql_tag(statement, tag);
	bool all = statement->verb == VERB_ROWS || statement->verb == VERB_COPYOUT
	                   ? ask->rows == statement->a
	                   : true;
	bool right = message->size == strlen(tag) + 1 &&
	             memcmp(tag, message->body, message->size) == 0;
	bool begun = (verb_has_rows(statement->verb) && ask->type == 'Q') ? ask->stage == 1 : true;
	if (statement->verb == VERB_COPYIN)
		begun = ask->stage == 1 && statement->b == 0;
	if (statement->verb == VERB_COPYOUT)
		begun = ask->stage == 2;
	if (statement->verb == VERB_SLEEP)
		all = ask->rows == 1;
	if (!right || !all || !begun || named_due(model, ask) != NULL ||
	    statement->verb == VERB_FAIL || statement->verb == VERB_BAD)
		unexpected(model, message);
	if (!verb_forgets(statement->verb))
		check_answered(statement->nonce);
	named_completed(model, statement);
	if (statement->verb == VERB_BEGIN)
		model->tx = 'T';
	else if (verb_ends_transaction(statement->verb))
		model->tx = 'I';
	if (ask->type == 'E') {
		model->portal_done = true;
		model_pop(model);
		return;
	}
	ask->at++;
	ask->stage = 0;
	ask->rows = 0;
}

static void row_reply(struct model *model, struct ask *ask, const struct message *message)
{
	const struct sql *statement = statement_at_hand(ask);
	const uint8_t *bytes = message->body;
	uint32_t size = message->size;
	uint32_t most = statement->verb == VERB_SLEEP ? 1 : statement->a;
	uint8_t stage = ask->type == 'Q' || statement->verb == VERB_COPYOUT ? 1 : 0;
	if (ask->stage != stage || ask->rows >= most || named_due(model, ask) != NULL)
		unexpected(model, message);
	if (message->type == 'D') {
		if (!verb_has_rows(statement->verb) || size < 6)
			unexpected(model, message);
		bytes += 6;
		size -= 6;
	} else if (statement->verb != VERB_COPYOUT) {
		unexpected(model, message);
	}
	if (!sql_row_is(statement, ask->rows, bytes, size)) {
		sim_fail("I1: session %u got another row than %" PRIx64 ":%u: %.*s", model->session,
		         statement->nonce, ask->rows, size < 60 ? (int)size : 60,
		         (const char *)bytes);
	}
	ask->rows++;
}

/* A Sync that was sent right behind the Execute of a COPY IN is read, and
 * ignored, before its data. */
static void swallow_sync(struct model *model, struct ask *ask)
{
	const struct ask *next = &model->asks[(model->head + 1) % ASKS_MAX];
	if (ask->type != 'E' || model->count != 2 || !next->early)
		return;
	model->count = 1;
	ask->swallowed = true;
}

/* Replies to a statement of Q or E, other than errors. */
static enum reply statement_reply(struct model *model, struct ask *ask,
                                  const struct message *message)
{
	const struct sql *statement = statement_at_hand(ask);
	if (statement == NULL || ask->failed) {
		if (message->type != 'I' || ask->count > 0 || ask->stage > 0 || ask->failed ||
		    named_due(model, ask) != NULL)
			unexpected(model, message);
		ask->stage = 1;
		if (ask->type == 'E')
			model_pop(model);
		return REPLY_MORE;
	}
	switch (message->type) {
	case 'T':
		if (ask->type != 'Q' || ask->stage != 0 || !verb_has_rows(statement->verb))
			unexpected(model, message);
		ask->stage = 1;
		return REPLY_MORE;
	case 'G':
	case 'H':
		if (ask->stage != 0 ||
		    statement->verb != (message->type == 'G' ? VERB_COPYIN : VERB_COPYOUT))
			unexpected(model, message);
		ask->stage = 1;
		if (message->type == 'H')
			return REPLY_MORE;
		swallow_sync(model, ask);
		return REPLY_COPY;
	case 'c':
		if (ask->stage != 1 || statement->verb != VERB_COPYOUT || ask->rows != statement->a)
			unexpected(model, message);
		ask->stage = 2;
		return REPLY_MORE;
	case 'D':
	case 'd': row_reply(model, ask, message); return REPLY_MORE;
	case 'C': complete_reply(model, ask, message); return REPLY_MORE;
	case 's':
		if (ask->type != 'E' || ask->rows_max == 0 ||
		    ask->rows != model->portal_rows + ask->rows_max)
			unexpected(model, message);
		model->portal_rows = ask->rows;
		model_pop(model);
		return REPLY_MORE;
	default: unexpected(model, message);
	}
}

static void describe_reply(struct model *model, struct ask *ask, const struct message *message)
{
	bool parameters = !ask->of_portal && ask->stage == 0;
	if (named_due(model, ask) != NULL || parameters != (message->type == 't') ||
	    !named_description_is(ask, message))
		unexpected(model, message);
	if (parameters) {
		ask->stage = 1;
		return;
	}
	named_done(model, ask);
	model_pop(model);
}

/* Replies without body: to P, B and C. */
static void simple_reply(struct model *model, const struct ask *ask, const struct message *message)
{
	uint8_t due = ask->type == 'P' ? '1' : ask->type == 'B' ? '2' : ask->type == 'C' ? '3' : 0;
	if (due == 0 || message->type != due || message->size != 0 || named_due(model, ask) != NULL)
		unexpected(model, message);
	named_done(model, ask);
	model_pop(model);
}

enum reply model_reply(struct model *model, const struct message *message)
{
	struct ask *ask = model_head(model);
	trace("reply", (uint64_t)model->session << 8 | message->type, message->size);
	if (ask != NULL)
		named_resolve(model, ask);
	switch (message->type) {
	case 'S':
	case 'N': return REPLY_MORE;
	case 'E': return error_reply(model, message);
	case 'Z': return ready_reply(model, message);
	default: break;
	}
	if (ask == NULL)
		unexpected(model, message);
	switch (ask->type) {
	case 'Q':
		model->book.unnamed.used = model->portal_open = false;
		return statement_reply(model, ask, message);
	case 'E': return statement_reply(model, ask, message);
	case 'D': describe_reply(model, ask, message); return REPLY_MORE;
	default: simple_reply(model, ask, message); return REPLY_MORE;
	}
}
