/*
 * command.h - what control has a worker do (POST_COMMAND, core/post.h).
 *
 * A command has taken its full effect on this worker when it is answered.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_COMMAND_H
#define CORE_COMMAND_H

#include <stdbool.h>

struct post;
struct worker;

/* Runs it and sends the post back to control as POST_DONE. */
void command_run(struct worker *worker, struct post *post);

/* After COMMAND_STOP: nothing is open here any more. */
bool command_is_stopped(const struct worker *worker);

#endif
