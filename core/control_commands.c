/*
 * control_commands.c - what each console command does (pgbouncer.md 8.3).
 *
 * Flags that all workers read change first, here; a command to the workers
 * makes them act on it; the answer comes when all have.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/admin/show.h"
#include "core/base/check.h"
#include "core/config.h"
#include "core/control_parts.h"
#include "core/log.h"
#include "core/process.h"
#include "net/sys.h"
#include "proto/sqlstate.h"

static const char console_name[] = "pgbouncer";
static const char already_paused[] = "already suspended/paused";

#define task_refuse(task, ...) task_error(task, SQLSTATE_PROTOCOL_VIOLATION, __VA_ARGS__)

static void task_refuse_invalid(struct task *task)
{
	task_refuse(task, "invalid command '%.512s', use SHOW HELP;", task->text);
}

/* ---- Databases ---- */

/* The database named; makes it known if `*` may (`by_star`).  NULL: refused. */
static struct database *named_database(struct task *task, const char *doing, bool by_star)
{
	struct process *process = task->control->process;
	const char *name = task->request.argument;
	if (strcmp(name, console_name) == 0) {
		task_refuse(task, "cannot %s admin db: %s", doing, name);
		return NULL;
	}
	struct database *database = registry_find_database(&process->registry, name);
	if (database == NULL && (by_star || config_find_database(process->config, name) != NULL)) {
		bool made_auto;
		database = registry_database(&process->registry, process->config, name, &made_auto);
		if (made_auto)
			log_info("registered new auto-database: %s", name);
	}
	if (database == NULL || atomic_load(&database->removed)) {
		task_refuse(task, "no such database: %s", name);
		return NULL;
	}
	return database;
}

static bool waits_for_servers(const struct admin_request *request)
{
	return strcasecmp(request->argument, "WAIT_FOR_SERVERS") == 0;
}

static void log_issued(const struct task *task)
{
	const struct admin_request *request = &task->request;
	const char *word = request->command->word;
	if (request->command->verb == VERB_SHUTDOWN && request->has_argument)
		log_info("%s WAIT_FOR_%s command issued", word,
		         waits_for_servers(request) ? "SERVERS" : "CLIENTS");
	else if (request->has_argument && request->command->verb != VERB_SET)
		log_info("%s '%s' command issued", word, request->argument);
	else
		log_info("%s command issued", word);
}

static void answer_word(struct task *task)
{
	task_tag(task, task->request.command != NULL ? task->request.command->word : "");
}

/* ---- PAUSE and RESUME ---- */

static void pause_begun(struct task *task)
{
	task_wait(task, COMMAND_BUSY, answer_word);
}

void command_pause_all(struct task *task)
{
	struct process *process = task->control->process;
	if (atomic_load(&process->paused)) {
		task_refuse(task, "%s", already_paused);
		return;
	}
	atomic_store(&process->paused, true);
	task_ask(task, COMMAND_PAUSE, 0, pause_begun);
}

static void run_pause(struct task *task)
{
	struct process *process = task->control->process;
	if (!task->request.has_argument) {
		command_pause_all(task);
		return;
	}
	struct database *database = named_database(task, "pause", true);
	if (database == NULL)
		return;
	if (atomic_load(&process->paused)) {
		task_refuse(task, "%s", already_paused);
		return;
	}
	atomic_store(&database->paused, true);
	task->database = database;
	task_ask(task, COMMAND_PAUSE, 0, pause_begun);
}

/* A PAUSE that still waits will not come true any more. */
static void cancel_pauses(struct control *control, const struct database *database)
{
	list_each_safe (struct task, task, link, &control->tasks)
		if (task->is_waiting && task->waits_for == COMMAND_BUSY &&
		    task->database == database)
			task_cancel(task, "pause was cancelled");
}

void command_resume_all(struct task *task)
{
	struct control *control = task->control;
	struct process *process = control->process;
	if (atomic_load(&process->shutdown) != SHUTDOWN_NONE) {
		task_refuse(task, "pooler is shutting down");
		return;
	}
	if (!atomic_load(&process->paused)) {
		task_refuse(task, "pooler is not paused/suspended");
		return;
	}
	atomic_store(&process->paused, false);
	cancel_pauses(control, NULL);
	task_ask(task, COMMAND_RESUME, 0, answer_word);
}

static void run_resume(struct task *task)
{
	if (!task->request.has_argument) {
		command_resume_all(task);
		return;
	}
	struct database *database = named_database(task, "resume", false);
	if (database == NULL)
		return;
	if (!atomic_exchange(&database->paused, false)) {
		task_refuse(task, "database %s is not paused", database->name);
		return;
	}
	cancel_pauses(task->control, database);
	task->database = database;
	task_ask(task, COMMAND_RESUME, 0, answer_word);
}

static void run_suspend(struct task *task)
{
	task_error(task, SQLSTATE_FEATURE_NOT_SUPPORTED, "SUSPEND is not supported");
}

/* ---- Databases on and off ---- */

static void set_disabled(struct task *task, const char *doing, bool is_disabled)
{
	if (!task->request.has_argument) {
		task_refuse(task, "a database is required");
		return;
	}
	struct database *database = named_database(task, doing, is_disabled);
	if (database == NULL)
		return;
	atomic_store(&database->disabled, is_disabled);
	answer_word(task);
}

static void run_disable(struct task *task)
{
	set_disabled(task, "disable", true);
}

static void run_enable(struct task *task)
{
	set_disabled(task, "enable", false);
}

/* ---- Connections ---- */

static void run_kill(struct task *task)
{
	struct process *process = task->control->process;
	if (task->request.has_argument) {
		struct database *database = named_database(task, "kill", true);
		if (database == NULL)
			return; /* and the task is gone */
		task->database = database;
	}
	if (atomic_load(&process->paused)) {
		task_refuse(task, "%s", already_paused);
		return;
	}
	uint32_t count;
	struct pool_record **pools = registry_pools(&process->registry, &count);
	for (uint32_t i = 0; i < count; i++)
		if (task->database == NULL)
			atomic_store(&pools[i]->database->paused, true);
	free((void *)pools);
	if (task->database != NULL)
		atomic_store(&task->database->paused, true);
	task_ask(task, COMMAND_KILL, 0, answer_word);
}

static void kill_client_done(struct task *task)
{
	if (task->sum == 0)
		task_refuse(task, "client not found");
	else
		answer_word(task);
}

static void run_kill_client(struct task *task)
{
	const char *id = task->request.argument;
	if (!isdigit((unsigned char)id[0])) {
		task_refuse(task, "invalid client pointer supplied");
		return;
	}
	task_ask(task, COMMAND_KILL_CLIENT, strtoull(id, NULL, 10), kill_client_done);
}

static void run_reconnect(struct task *task)
{
	struct registry *registry = &task->control->process->registry;
	if (task->request.has_argument) {
		struct database *database = named_database(task, "reconnect", true);
		if (database == NULL)
			return; /* and the task is gone */
		task->database = database;
	}
	uint32_t count;
	struct pool_record **pools = registry_pools(registry, &count);
	for (uint32_t i = 0; i < count; i++)
		if (task->database == NULL || pools[i]->database == task->database)
			registry_reconnect(registry, pools[i]);
	free((void *)pools);
	task_ask(task, COMMAND_RECONNECT, 0, answer_word);
}

static void run_wait_close(struct task *task)
{
	if (task->request.has_argument) {
		struct database *database = named_database(task, "wait in", true);
		if (database == NULL)
			return; /* and the task is gone */
		task->database = database;
	}
	task_wait(task, COMMAND_OLD, answer_word);
}

static void run_shutdown(struct task *task)
{
	if (!task->request.has_argument)
		control_end_now(task->control); /* without a reply: the connection closes */
	else if (waits_for_servers(&task->request))
		control_shutdown(task, SHUTDOWN_WAIT_SERVERS);
	else
		control_shutdown(task, SHUTDOWN_WAIT_CLIENTS);
}

/* ---- SHOW ---- */

static void show_collected(struct task *task)
{
	struct control *control = task->control;
	const struct show_input input = {
		.process = control->process,
		.config = control->process->config,
		.rows = &task->rows,
		.stats = &control->stats,
		.now_us = sys_clock_us(),
		.wall_us = sys_wall_us(),
		.start_us = control->start_us,
	};
	if (task->rows.failed) {
		task_error(task, "53200", "out of memory");
		return;
	}
	struct result result;
	result_init(&result, task->client.binary);
	show_write(&result, task->show, &input);
	task_reply(task, &result);
}

static void run_show(struct task *task)
{
	const char *value;
	const char *fake = admin_fake_setting(task->request.argument, &value);
	if (fake != NULL) {
		struct result result;
		result_init(&result, task->client.binary);
		show_fake(&result, fake, value);
		task_reply(task, &result);
		return;
	}
	task->show = show_find(task->request.argument);
	if (task->show == NULL)
		task_refuse_invalid(task);
	else if (task->client.right < task->show->right)
		task_refuse(task, "admin access needed");
	else if (task->show->collect == 0)
		show_collected(task);
	else
		task_collect(task, task->show->collect, show_collected);
}

/* ---- From text to task ---- */

static void (*const runs[VERB_COUNT])(struct task *task) = {
	[VERB_SHOW] = run_show,           [VERB_SET] = config_set,
	[VERB_RELOAD] = config_reload,    [VERB_PAUSE] = run_pause,
	[VERB_RESUME] = run_resume,       [VERB_SUSPEND] = run_suspend,
	[VERB_DISABLE] = run_disable,     [VERB_ENABLE] = run_enable,
	[VERB_KILL] = run_kill,           [VERB_KILL_CLIENT] = run_kill_client,
	[VERB_RECONNECT] = run_reconnect, [VERB_WAIT_CLOSE] = run_wait_close,
	[VERB_SHUTDOWN] = run_shutdown,
};

static void set_ignored(struct task *task)
{
	struct result result;
	result_init(&result, 0);
	result_notice(&result, "SET ignored", NULL);
	result_tag(&result, "SET");
	task_reply(task, &result);
}

static bool argument_is_right(const struct admin_request *request)
{
	if (request->command->verb != VERB_SHUTDOWN || !request->has_argument)
		return true;
	return waits_for_servers(request) || strcasecmp(request->argument, "WAIT_FOR_CLIENTS") == 0;
}

static void command_begin(struct task *task)
{
	log_issued(task);
	runs[task->request.command->verb](task);
}

/* Of what follows nothing waits: the task must be in its list for an answer. */
static void command_dispatch(struct task *task)
{
	const char *value;
	enum admin_status status = admin_parse(task->text, &task->request);
	const struct admin_command *command = task->request.command;
	task_begin(task);
	if (status == ADMIN_TOO_LONG) {
		task_refuse(task, "bad arguments");
	} else if (status == ADMIN_INVALID || !argument_is_right(&task->request)) {
		task_refuse_invalid(task);
	} else if (command->verb == VERB_SET &&
	           admin_fake_setting(task->request.argument, &value) != NULL) {
		set_ignored(task);
	} else if (task->client.right < command->right) {
		task_refuse(task, "admin access needed");
	} else if (command->verb == VERB_SHOW) {
		run_show(task);
	} else {
		list_remove(&task->control->tasks, &task->link);
		task_queue(task, command_begin);
	}
}

void command_received(struct control *control, struct post *post)
{
	struct task *task = task_new(control);
	task->client = (struct task_client){
		.exists = true,
		.worker = post->from,
		.slot = post->console.slot,
		.generation = post->console.generation,
		.right = post->console.is_admin   ? RIGHT_ADMIN
	                 : post->console.is_stats ? RIGHT_STATS
	                                          : RIGHT_ANYBODY,
		.binary = post->console.binary,
	};
	task->text = post->console.bytes;
	post->console.bytes = NULL;
	command_dispatch(task);
}
