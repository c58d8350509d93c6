/*
 * model_parts.h - what the files of the model share.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_MODEL_PARTS_H
#define TESTS_SIM_MODEL_PARTS_H

#include "tests/sim/model.h"

/* What the head means, now that all before it has been done. */
void named_resolve(struct model *model, struct ask *ask);

/* The SQLSTATE that must answer it because of what is prepared and the transaction
 * status; NULL: none. */
const char *named_due(struct model *model, const struct ask *ask);
bool named_error_is_due(struct model *model, const struct ask *ask, const char *code,
                        const char *words);

/* It was answered by an error, skipped, answered by its last reply; its statement
 * is complete. */
void named_failed(struct model *model, const struct ask *ask, bool canceled);
void named_skipped(struct model *model, const struct ask *ask);
void named_done(struct model *model, const struct ask *ask);
void named_completed(struct model *model, const struct sql *sql);

/* ParameterDescription, RowDescription or NoData of what it describes. */
bool named_description_is(const struct ask *ask, const struct message *message);

#endif
