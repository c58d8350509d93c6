/*
 * control_config.c - RELOAD and SET: from one snapshot to the next.
 *
 * The new snapshot is whole before anything changes.  Limits move first, then
 * each worker switches between two of its turns; the answer comes when all
 * have, so that whoever reads it meets the new one everywhere.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/config.h"
#include "core/control_parts.h"
#include "core/log.h"
#include "core/process.h"
#include "core/service.h"
#include "proto/sqlstate.h"

static bool texts_equal(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether servers opened by the one would not be opened by the other. */
static bool connects_alike(const struct database_entry *a, const struct database_entry *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	return texts_equal(a->dbname, b->dbname) && texts_equal(a->host, b->host) &&
	       a->port == b->port && texts_equal(a->user, b->user) &&
	       texts_equal(a->connect_query, b->connect_query) &&
	       texts_equal(a->auth_dbname, b->auth_dbname) &&
	       texts_equal(a->auth_query, b->auth_query) &&
	       a->load_balance_hosts == b->load_balance_hosts;
}

static bool keeps_names(const struct config *config, const struct pool_record *pool)
{
	const struct user_entry *user = config_find_user(config, pool->user->name);
	const struct database_entry *entry = config_entry_for(config, pool->database->name);
	int mode = config->settings.pool_mode;
	if (entry != NULL && entry->pool_mode != POOL_MODE_UNSET)
		mode = entry->pool_mode;
	if (user != NULL && user->pool_mode != POOL_MODE_UNSET)
		mode = user->pool_mode;
	return mode != POOL_SESSION && config->settings.max_prepared_statements > 0;
}

/* True: some pools connect elsewhere from now on, or look after the names of statements:
 * servers that took names as they came would have those of everybody for everybody. */
static bool pools_reconnect(struct registry *registry, const struct config *old,
                            const struct config *new)
{
	uint32_t count;
	struct pool_record **pools = registry_pools(registry, &count);
	bool any = false;
	for (uint32_t i = 0; i < count; i++) {
		const char *name = pools[i]->database->name;
		if (connects_alike(config_entry_for(old, name), config_entry_for(new, name)) &&
		    keeps_names(old, pools[i]) >= keeps_names(new, pools[i]))
			continue;
		registry_reconnect(registry, pools[i]);
		any = true;
	}
	free((void *)pools);
	return any;
}

static void tell_dropped(const struct config *old, const struct config *new)
{
	for (uint32_t i = 0; i < old->database_count; i++) {
		const char *name = old->databases[i].name;
		if (config_find_database(new, name) == NULL)
			log_warning("dropping database '%s' as it does not exist anymore or "
			            "inactive auto-database",
			            name);
	}
}

static void config_done(struct task *task)
{
	char tag[ADMIN_ARGUMENT_MAX + ADMIN_VALUE_MAX + 16];
	bool is_set = task->request.command != NULL && task->request.command->verb == VERB_SET;
	if (is_set)
		snprintf(tag, sizeof tag, "SET %s=%s", task->request.argument, task->request.value);
	else
		service_tell("READY=1");
	task_tag(task, is_set ? tag : "RELOAD");
}

static void config_switched(struct task *task)
{
	struct process *process = task->control->process;
	if (task->replaced != NULL) {
		/* again, for what workers have opened before they had the new one */
		if (pools_reconnect(&process->registry, task->replaced, process->config))
			task->is_dirty = true;
		config_drop(task->replaced);
	}
	task->replaced = NULL;
	if (task->is_dirty)
		task_ask(task, COMMAND_RECONNECT, 0, config_done);
	else
		config_done(task);
}

static void config_put(struct task *task, struct config *config)
{
	struct control *control = task->control;
	struct process *process = control->process;
	registry_configure(&process->registry, config);
	task->is_dirty = pools_reconnect(&process->registry, process->config, config);
	task->replaced = process->config;
	process->config = config;
	if (!control_log_open(process, control->options))
		log_error("could not open log file \"%s\": going on with the old one",
		          config->settings.logfile);
	task_publish(task, config, config_switched);
}

static void report(void *context, bool is_error, const char *text)
{
	(void)context;
	log_line(is_error ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING, "%s", text);
}

void config_reload(struct task *task)
{
	const struct config *old = task->control->process->config;
	const struct config_report to_log = {.line = report};
	const char *path = old->settings.conffile != NULL ? old->settings.conffile : old->path;
	service_tell_reloading();
	struct config *config = config_load(path, old, &to_log);
	if (config != NULL && !config_check_supported(config, &to_log)) {
		config_drop(config);
		config = NULL;
	}
	if (config == NULL) {
		log_warning("config file loading failed");
		service_tell("READY=1");
		task_error(task, SQLSTATE_CONFIG_FILE_ERROR,
		           "RELOAD failed, see logs for additional details");
		return;
	}
	tell_dropped(old, config);
	config_put(task, config);
}

void config_set(struct task *task)
{
	const char *reason;
	struct config *config = config_with(task->control->process->config, task->request.argument,
	                                    task->request.value, &reason);
	if (config == NULL) {
		log_error("%s", reason);
		task_error(task, SQLSTATE_PROTOCOL_VIOLATION, "SET failed");
		return;
	}
	config_put(task, config);
}
