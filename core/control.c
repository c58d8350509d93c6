/*
 * control.c - see control.h: the loop.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/control.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/config.h"
#include "core/control_parts.h"
#include "core/log.h"
#include "core/process.h"
#include "core/service.h"
#include "core/worker.h"
#include "net/sys.h"

enum { SECOND_US = 1000 * 1000, CHECK_US = 333 * 1000, STATS_LINE_MAX = 512 };

int control_signals(void)
{
	static const int ours[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		sigaddset(&set, ours[i]);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sigaddset(&set, SIGPIPE);
	if (fd < 0 || pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
		return fd < 0 ? -errno : -EINVAL;
	return fd;
}

bool control_log_open(const struct process *process, const struct control_options *options)
{
	const struct settings *settings = &process->config->settings;
	const struct log_options log = {
		.to_stderr = options->to_stderr,
		.logfile = settings->logfile,
		.syslog = settings->syslog,
		.syslog_facility = settings->syslog_facility,
		.syslog_ident = settings->syslog_ident,
		.verbose = config_is_set(process->config, "verbose") ? settings->verbose
	                                                             : options->verbose,
	};
	return log_open(&log);
}

/* ---- The way out ---- */

void control_end_now(struct control *control)
{
	control->is_over = true;
	control->end = CONTROL_NOW;
}

static void shutdown_told(struct task *task)
{
	if (task->client.exists)
		task_tag(task, "SHUTDOWN");
	else
		task_end(task);
}

/* Who waits in a console for the end of a PAUSE sees it come true, or leaves. */
void control_shutdown(struct task *task, int mode)
{
	struct control *control = task->control;
	struct process *process = control->process;
	atomic_store(&process->shutdown, mode);
	if (mode == SHUTDOWN_WAIT_SERVERS)
		atomic_store(&process->paused, true);
	control->check_us = sys_clock_us() + CHECK_US;
	task_ask(task, COMMAND_SHUTDOWN, 0, shutdown_told);
}

static void leave(struct control *control, const char *line)
{
	log_info("%s", line);
	control->is_over = true;
	control->end = CONTROL_LEAVE;
}

static void check_answered(struct task *task)
{
	struct control *control = task->control;
	uint32_t servers = 0;
	for (uint32_t i = 0; i < task->rows.workers.count; i++)
		servers += ROW(&task->rows, worker_row, workers, i)->server_sockets;
	control->is_checking = false;
	control->check_us = sys_clock_us() + CHECK_US;
	if (servers == 0 && !task->rows.failed)
		leave(control, "server connections dropped, exiting");
	task_end(task);
}

static void shutdown_check(struct control *control, uint64_t now_us)
{
	struct process *process = control->process;
	int mode = atomic_load(&process->shutdown);
	control->check_us = now_us + CHECK_US;
	if (mode == SHUTDOWN_WAIT_CLIENTS && atomic_load(&process->clients) == 0)
		leave(control, "client connections dropped, exiting");
	if (mode != SHUTDOWN_WAIT_SERVERS || control->is_checking)
		return;
	control->is_checking = true;
	struct task *task = task_new(control);
	task_begin(task);
	task_collect(task, COLLECT_WORKER, check_answered);
}

/* ---- Signals ---- */

static void shut_down_servers(struct task *task)
{
	control_shutdown(task, SHUTDOWN_WAIT_SERVERS);
}

static void shut_down_clients(struct task *task)
{
	control_shutdown(task, SHUTDOWN_WAIT_CLIENTS);
}

static void signal_shutdown(struct control *control, const char *name, enum shutdown_mode mode)
{
	if (atomic_load(&control->process->shutdown) != SHUTDOWN_NONE) {
		log_info("got %s while shutting down, fast exit", name);
		control_end_now(control);
		return;
	}
	service_tell("STOPPING=1");
	log_info("got %s, shutting down, waiting for all %s", name,
	         mode == SHUTDOWN_WAIT_CLIENTS ? "clients disconnect"
	                                       : "servers connections to be released");
	/* At once, so that a second signal finds it: the workers hear of it next. */
	atomic_store(&control->process->shutdown, mode);
	task_queue(task_new(control),
	           mode == SHUTDOWN_WAIT_CLIENTS ? shut_down_clients : shut_down_servers);
}

static void signal_pause(struct control *control)
{
	if (atomic_load(&control->process->paused)) {
		log_info("got SIGUSR1, but already paused/suspended");
		return;
	}
	log_info("got SIGUSR1, pausing all activity");
	task_queue(task_new(control), command_pause_all);
}

static void signal_resume(struct control *control)
{
	if (atomic_load(&control->process->shutdown) != SHUTDOWN_NONE) {
		log_info("got SIGUSR2 while shutting down, ignoring");
	} else if (!atomic_load(&control->process->paused)) {
		log_info("got SIGUSR2, but not paused/suspended");
	} else {
		log_info("got SIGUSR2, continuing from PAUSE");
		task_queue(task_new(control), command_resume_all);
	}
}

static void signal_handle(struct control *control, uint32_t number)
{
	switch (number) {
	case SIGHUP:
		log_info("got SIGHUP, re-reading config");
		task_queue(task_new(control), config_reload);
		break;
	case SIGTERM: signal_shutdown(control, "SIGTERM", SHUTDOWN_WAIT_CLIENTS); break;
	case SIGINT: signal_shutdown(control, "SIGINT", SHUTDOWN_WAIT_SERVERS); break;
	case SIGQUIT:
		log_info("got SIGQUIT, fast exit");
		control_end_now(control);
		break;
	case SIGUSR1: signal_pause(control); break;
	case SIGUSR2: signal_resume(control); break;
	default: break;
	}
}

static void signals_read(struct control *control)
{
	struct signalfd_siginfo info;
	while (!control->is_over &&
	       read(control->signals, &info, sizeof info) == (ssize_t)sizeof info)
		signal_handle(control, info.ssi_signo);
}

/* ---- Statistics ---- */

static void stats_answered(struct task *task)
{
	struct control *control = task->control;
	char line[STATS_LINE_MAX], status[STATS_LINE_MAX + 8];
	stats_turn(&control->stats, &task->rows, sys_clock_us());
	stats_line(&control->stats, line, sizeof line);
	if (control->process->config->settings.log_stats)
		log_info("%s", line);
	snprintf(status, sizeof status, "STATUS=%s", line);
	service_tell(status);
	task_end(task);
}

static void stats_due(struct control *control, uint64_t now_us)
{
	if (now_us < control->stats_us)
		return;
	const struct settings *settings = &control->process->config->settings;
	control->stats_us = now_us + (uint64_t)settings->stats_period * SECOND_US;
	struct task *task = task_new(control);
	task_begin(task);
	task_collect(task, COLLECT_POOLS, stats_answered);
}

/* ---- The loop ---- */

static void mail_handle(struct control *control)
{
	struct mail *mail = mailbox_take(&control->process->control);
	while (mail != NULL) {
		struct post *post = CONTAINER(struct post, mail, mail);
		mail = mail->next;
		if (post->kind == POST_CONSOLE)
			command_received(control, post);
		else if (post->kind == POST_DONE)
			task_answered(control, post);
		else
			CHECK(false);
		post_free(post);
	}
}

static int wait_ms(const struct control *control, uint64_t now_us)
{
	uint64_t due_us = control->stats_us;
	if (control->check_us != 0)
		due_us = MIN(due_us, control->check_us);
	list_each (struct task, task, link, &control->tasks)
		if (task->again_us != 0)
			due_us = MIN(due_us, task->again_us);
	if (due_us <= now_us)
		return 0;
	return (int)MIN((due_us - now_us) / 1000 + 1, (uint64_t)60 * 1000);
}

static void control_turn(struct control *control)
{
	struct pollfd waits[] = {
		{.fd = control->signals, .events = POLLIN},
		{.fd = control->process->control.bell, .events = POLLIN},
	};
	uint64_t rung;
	if (poll(waits, ARRAY_LEN(waits), wait_ms(control, sys_clock_us())) < 0)
		return; /* interrupted */
	if (waits[1].revents != 0 && read(waits[1].fd, &rung, sizeof rung) < 0)
		CHECK(errno == EAGAIN || errno == EINTR);
	mail_handle(control);
	signals_read(control);
	uint64_t now_us = sys_clock_us();
	list_each_safe (struct task, task, link, &control->tasks)
		task_due(task, now_us);
	stats_due(control, now_us);
	if (control->check_us != 0 && now_us >= control->check_us)
		shutdown_check(control, now_us);
}

static void list_drop(struct list *tasks)
{
	while (!list_is_empty(tasks)) {
		struct task *task = LIST_FIRST(struct task, link, tasks);
		list_remove(tasks, &task->link);
		task_free(task);
	}
}

enum control_end control_run(struct process *process, const struct control_options *options,
                             int signals)
{
	uint64_t now_us = sys_clock_us();
	struct control control = {
		.process = process,
		.options = options,
		.signals = signals,
		.start_us = now_us,
		.stats_us = now_us + (uint64_t)process->config->settings.stats_period * SECOND_US,
	};
	list_init(&control.tasks);
	list_init(&control.queue);
	stats_init(&control.stats, now_us);
	while (!control.is_over)
		control_turn(&control);
	list_drop(&control.tasks);
	list_drop(&control.queue);
	stats_fini(&control.stats);
	return control.end;
}

void control_stop_workers(struct process *process)
{
	for (uint32_t i = 0; i < process->worker_count; i++) {
		struct post *post = post_new(POST_COMMAND, WORKERS_MAX);
		post->command.command = COMMAND_STOP;
		post_send(process, i, post);
	}
}

static void post_drop(struct post *post)
{
	if (post->kind == POST_CLIENT)
		sys_close(post->client.fd);
	else if (post->kind == POST_CONSOLE || post->kind == POST_REPLY)
		free(post->console.bytes);
	post_free(post);
}

static void mailbox_drain(struct mailbox *mailbox)
{
	struct mail *mail = mailbox_take(mailbox);
	while (mail != NULL) {
		struct post *post = CONTAINER(struct post, mail, mail);
		mail = mail->next;
		post_drop(post);
	}
}

void control_drain(struct process *process)
{
	mailbox_drain(&process->control);
	for (uint32_t i = 0; i < process->worker_count; i++)
		mailbox_drain(&process->workers[i]->mailbox);
}
