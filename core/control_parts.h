/*
 * control_parts.h - what the files of control share; for core/control*.c only.
 *
 *	control.c           the loop: signals, mail, clock
 *	control_task.c      a task, its questions to workers, its answer
 *	control_commands.c  what each console command does
 *	control_config.c    RELOAD and SET
 *
 * A task is one thing to do, mostly a console command.  It goes on in steps: a
 * step asks every worker something (task_ask, task_collect, task_publish) and
 * names the step that runs when all have answered.  Nothing blocks.
 *
 *	queued -> current -> (waits in the background) -> ended
 *
 * Tasks that change state begin one at a time, in the order they came.  One
 * that waits (PAUSE, WAIT_CLOSE) leaves its place as current to the next.
 * Those that only show start at once.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CONTROL_PARTS_H
#define CORE_CONTROL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/admin/admin.h"
#include "core/admin/collect.h"
#include "core/admin/result.h"
#include "core/admin/stats.h"
#include "core/base/list.h"
#include "core/control.h"
#include "core/post.h"

struct config;
struct control;
struct database;
struct show;

/* Who is answered; a task of a signal or of the clock has nobody. */
struct task_client {
	bool exists;
	uint32_t worker, slot, generation;
	enum admin_right right;
	uint32_t binary;
};

struct task {
	struct link link; /* in control->tasks or control->queue */
	struct control *control;
	struct task_client client;
	struct admin_request request;
	char *text; /* the command as it was sent */
	void (*step)(struct task *task);
	enum post_kind kind; /* of the question under way */
	uint32_t serial;     /* the same */
	uint32_t pending;    /* workers that have not answered it */
	uint64_t sum;        /* of their answers */
	struct rows rows;    /* that they have sent */
	const struct show *show;
	struct database *database; /* meant; NULL: all */
	uint32_t waits_for;        /* enum command_kind: until its sum is 0 */
	uint64_t again_us;         /* asks again then; 0: not */
	bool is_waiting;           /* in the background */
	void (*waited)(struct task *task);
	struct config *replaced; /* to be dropped when all have switched */
	bool is_dirty;           /* some pools connect elsewhere now */
};

struct control {
	struct process *process;
	const struct control_options *options;
	int signals;
	uint32_t next_serial;
	struct list tasks, queue;
	struct task *current; /* the one that changes state, in tasks */
	struct stats stats;
	uint64_t start_us;
	uint64_t stats_us; /* end of the period */
	uint64_t check_us; /* next look whether all have left; 0: not shutting down */
	bool is_checking;
	bool is_over;
	enum control_end end;
};

/* Never NULL: as with mail, what was asked for could not even be refused. */
struct task *task_new(struct control *control);
void task_begin(struct task *task);                                  /* at once */
void task_queue(struct task *task, void (*step)(struct task *task)); /* in its turn */
void task_end(struct task *task);
void task_free(struct task *task); /* out of every list */

/* Out of the way of the next; goes on when the sum of `waits_for` is 0. */
void task_wait(struct task *task, enum command_kind waits_for, void (*step)(struct task *task));

/* A waiting one ends with this error. */
void task_cancel(struct task *task, const char *error);

/* To all workers. */
void task_ask(struct task *task, enum command_kind command, uint64_t id,
              void (*step)(struct task *task));
void task_collect(struct task *task, uint32_t what, void (*step)(struct task *task));
void task_publish(struct task *task, struct config *config, void (*step)(struct task *task));

/* POST_DONE. */
void task_answered(struct control *control, struct post *post);
void task_due(struct task *task, uint64_t now_us);

/* The answer; the task ends with it. */
void task_reply(struct task *task, struct result *result);
void task_tag(struct task *task, const char *tag);
__attribute__((format(printf, 3, 4))) void task_error(struct task *task, const char *sqlstate,
                                                      const char *format, ...);

/* control_commands.c */
void command_received(struct control *control, struct post *post);
void command_pause_all(struct task *task);
void command_resume_all(struct task *task);
void control_shutdown(struct task *task, int mode); /* control.c */
void control_end_now(struct control *control);

/* control_config.c */
void config_reload(struct task *task);
void config_set(struct task *task);

#endif
