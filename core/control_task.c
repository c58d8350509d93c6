/*
 * control_task.c - see control_parts.h.
 *
 * An answer carries the serial number of its question.  A task that has ended
 * with a question under way is not freed before all have answered, so every
 * answer finds its task.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/config.h"
#include "core/control_parts.h"
#include "core/process.h"
#include "net/sys.h"
#include "proto/sqlstate.h"

enum { AGAIN_US = 20 * 1000, ERROR_TEXT_MAX = 1024 };

struct task *task_new(struct control *control)
{
	struct task *task = calloc(1, sizeof *task);
	CHECK(task != NULL);
	task->control = control;
	return task;
}

void task_free(struct task *task)
{
	rows_fini(&task->rows);
	if (task->replaced != NULL)
		config_drop(task->replaced);
	free(task->text);
	free(task);
}

void task_begin(struct task *task)
{
	list_append(&task->control->tasks, &task->link);
}

static void queue_step(struct control *control)
{
	while (control->current == NULL && !list_is_empty(&control->queue)) {
		struct task *task = LIST_FIRST(struct task, link, &control->queue);
		list_remove(&control->queue, &task->link);
		control->current = task;
		task_begin(task);
		task->step(task);
	}
}

void task_queue(struct task *task, void (*step)(struct task *task))
{
	task->step = step;
	list_append(&task->control->queue, &task->link);
	queue_step(task->control);
}

void task_end(struct task *task)
{
	struct control *control = task->control;
	task->again_us = 0;
	task->is_waiting = false;
	if (task->pending > 0) {
		task->step = task_end;
		return;
	}
	list_remove(&control->tasks, &task->link);
	bool was_current = control->current == task;
	task_free(task);
	if (was_current) {
		control->current = NULL;
		queue_step(control);
	}
}

/* ---- Questions ---- */

static void task_send(struct task *task, const struct post *question,
                      void (*step)(struct task *task))
{
	struct process *process = task->control->process;
	CHECK(task->pending == 0);
	task->kind = (enum post_kind)question->kind;
	task->serial = ++task->control->next_serial;
	task->pending = process->worker_count;
	task->sum = 0;
	task->step = step;
	for (uint32_t i = 0; i < process->worker_count; i++) {
		struct post *post = post_new(task->kind, WORKERS_MAX);
		*post = *question;
		post->serial = task->serial;
		if (task->kind == POST_CONFIG)
			config_hold(post->config.config);
		post_send(process, i, post);
	}
}

void task_ask(struct task *task, enum command_kind command, uint64_t id,
              void (*step)(struct task *task))
{
	struct post question = {.kind = POST_COMMAND, .from = WORKERS_MAX};
	question.command.command = command;
	question.command.database = task->database;
	question.command.id = id;
	task_send(task, &question, step);
}

void task_collect(struct task *task, uint32_t what, void (*step)(struct task *task))
{
	struct post question = {.kind = POST_COLLECT, .from = WORKERS_MAX};
	question.collect.what = what;
	task_send(task, &question, step);
}

void task_publish(struct task *task, struct config *config, void (*step)(struct task *task))
{
	struct post question = {.kind = POST_CONFIG, .from = WORKERS_MAX};
	question.config.config = config;
	task_send(task, &question, step);
}

void task_answered(struct control *control, struct post *post)
{
	list_each (struct task, task, link, &control->tasks) {
		if (task->pending == 0 || task->serial != post->serial)
			continue;
		if (task->kind == POST_COLLECT)
			rows_merge(&task->rows, post->collect.rows);
		else if (task->kind == POST_COMMAND)
			task->sum += post->command.result;
		if (--task->pending == 0)
			task->step(task);
		return;
	}
	CHECK(false);
}

/* ---- Waiting ---- */

static void wait_step(struct task *task);

static void wait_answered(struct task *task)
{
	if (task->sum == 0) {
		void (*step)(struct task *) = task->waited;
		task->is_waiting = false;
		step(task);
		return;
	}
	task->again_us = sys_clock_us() + AGAIN_US;
	task->step = wait_step;
}

static void wait_step(struct task *task)
{
	task_ask(task, (enum command_kind)task->waits_for, 0, wait_answered);
}

void task_wait(struct task *task, enum command_kind waits_for, void (*step)(struct task *task))
{
	struct control *control = task->control;
	task->waits_for = waits_for;
	task->waited = step;
	task->is_waiting = true;
	wait_step(task);
	if (control->current == task) {
		control->current = NULL;
		queue_step(control);
	}
}

void task_due(struct task *task, uint64_t now_us)
{
	if (task->again_us == 0 || task->again_us > now_us)
		return;
	task->again_us = 0;
	task->step(task);
}

void task_cancel(struct task *task, const char *error)
{
	CHECK(task->is_waiting);
	task_error(task, SQLSTATE_PROTOCOL_VIOLATION, "%s", error);
}

/* ---- Answers ---- */

static void reply_send(struct task *task, char *bytes, uint32_t size)
{
	struct post *post = post_new(POST_REPLY, WORKERS_MAX);
	post->console.slot = task->client.slot;
	post->console.generation = task->client.generation;
	post->console.bytes = bytes;
	post->console.size = size;
	post_send(task->control->process, task->client.worker, post);
}

void task_reply(struct task *task, struct result *result)
{
	uint32_t size;
	char *bytes = result_take(result, &size);
	if (task->client.exists)
		reply_send(task, bytes, size);
	else
		free(bytes);
	task_end(task);
}

void task_tag(struct task *task, const char *tag)
{
	struct result result;
	result_init(&result, 0);
	result_tag(&result, tag);
	task_reply(task, &result);
}

void task_error(struct task *task, const char *sqlstate, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	struct result result;
	result_init(&result, 0);
	result_error(&result, sqlstate, text);
	task_reply(task, &result);
}
