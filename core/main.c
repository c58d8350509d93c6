/*
 * main.c - from the command line to a running process, and its end.
 *
 * The order of start is PgBouncer's (pgbouncer.md 1.2): what is wrong with the
 * configuration is said before the process goes to the background, what is
 * wrong with its sockets behind.  Everything that a RELOAD cannot change is
 * done here, once.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cancel/table.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config.h"
#include "core/control.h"
#include "core/crew.h"
#include "core/daemon.h"
#include "core/log.h"
#include "core/process.h"
#include "core/service.h"
#include "core/sockets.h"
#include "core/vars.h"
#include "core/version.h"
#include "net/sys.h"

enum {
	CANCEL_KEYS_SPARE = 1000, /* above max_client_conn at start: RELOAD may raise it */
	LEAVE_TRIES = 7,
	LEAVE_TRY_US = 200 * 1000,
};

struct options {
	bool daemon, quiet;
	int verbose;
	const char *user;
	const char *config;
};

static void usage(const char *program)
{
	printf("%s is a connection pooler for PostgreSQL, a drop-in replacement for PgBouncer.\n\n"
	       "Usage:\n  %s [OPTION]... CONFIG_FILE\n\n"
	       "Options:\n"
	       "  -d, --daemon         run in the background (needs pidfile)\n"
	       "  -q, --quiet          log nothing to stderr\n"
	       "  -R, --reboot         not there: use so_reuseport instead\n"
	       "  -u, --user=USERNAME  become this user of the system at start\n"
	       "  -v, --verbose        log more (may be repeated)\n"
	       "  -V, --version        print the version and exit\n"
	       "  -h, --help           print this and exit\n",
	       program, program);
}

static void version(void)
{
	puts(VERSION_TEXT);
	puts("event loop: io_uring");
	puts("adns: getaddrinfo");
	puts("tls: none");
	puts("systemd: yes");
}

/* There are no threads yet. */
/* NOLINTBEGIN(concurrency-mt-unsafe) */
_Noreturn static void exit_usage(const char *program)
{
	fprintf(stderr, "Try \"%s --help\" for more information.\n", program);
	exit(1);
}

static struct options options_read(int argc, char **argv)
{
	static const struct option known[] = {
		{"daemon", no_argument, NULL, 'd'},  {"quiet", no_argument, NULL, 'q'},
		{"reboot", no_argument, NULL, 'R'},  {"user", required_argument, NULL, 'u'},
		{"verbose", no_argument, NULL, 'v'}, {"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},    {NULL, 0, NULL, 0},
	};
	struct options options = {0};
	int letter;
	while ((letter = getopt_long(argc, argv, "dqRu:vVh", known, NULL)) != -1) {
		switch (letter) {
		case 'd': options.daemon = true; break;
		case 'q': options.quiet = true; break;
		case 'u': options.user = optarg; break;
		case 'v': options.verbose++; break;
		case 'R':
			fprintf(stderr,
			        "%s: online restart (-R) is not there in this version, use "
			        "so_reuseport instead\n",
			        argv[0]);
			exit(1);
		case 'V': version(); exit(0);
		case 'h': usage(argv[0]); exit(0);
		default: exit_usage(argv[0]);
		}
	}
	if (argc - optind != 1) {
		fprintf(stderr, "%s: no configuration file specified\n", argv[0]);
		exit_usage(argv[0]);
	}
	options.config = argv[optind];
	return options;
}
/* NOLINTEND(concurrency-mt-unsafe) */

static void report(void *context, bool is_error, const char *text)
{
	(void)context;
	log_line(is_error ? LOG_LEVEL_ERROR : LOG_LEVEL_WARNING, "%s", text);
}

static struct config *config_begin(const struct options *options)
{
	const struct config_report to_log = {.line = report};
	struct config *config = config_load(options->config, NULL, &to_log);
	if (config == NULL || !config_check_supported(config, &to_log)) {
		log_fatal("cannot load config file");
		return NULL;
	}
	if (options->daemon &&
	    (config->settings.pidfile == NULL || config->settings.pidfile[0] == '\0')) {
		log_fatal("daemon needs pidfile configured");
		return NULL;
	}
	return config;
}

/* Until the process is alone, unprivileged, and where it is going to stay. */
static bool settle(struct process *process, const struct options *options,
                   struct control_options *control)
{
	const struct config *config = process->config;
	const char *user = options->user != NULL ? options->user : config->settings.user;
	if (!daemon_become(user))
		return false;
	if (!control_log_open(process, control)) {
		log_fatal("could not open log file \"%s\": %s", config->settings.logfile,
		          text_of_error(errno));
		return false;
	}
	if (!daemon_check_alone(config))
		return false;
	if (options->daemon && !daemon_detach())
		return false;
	control->to_stderr = control->to_stderr && !options->daemon;
	control_log_open(process, control);
	daemon_raise_files(config);
	return true;
}

/* What all threads share. */
static bool process_init(struct process *process)
{
	const struct settings *settings = &process->config->settings;
	sys_random(&process->seed, sizeof process->seed);
	sys_random(process->secret, sizeof process->secret);
	sys_random(process->statement_secret, sizeof process->statement_secret);
	uint32_t keys = (uint32_t)MAX(settings->max_client_conn, 0) + CANCEL_KEYS_SPARE;
	size_t size = cancel_table_size(keys);
	void *pages = sys_shared_pages("ringbouncer-cancel", size);
	if (pages == NULL) {
		log_fatal("no memory for %zu bytes of cancel keys (max_client_conn = %d)", size,
		          settings->max_client_conn);
		return false;
	}
	uint64_t seed;
	sys_random(&seed, sizeof seed);
	process->cancels = cancel_table_init(pages, size, seed);
	int error = mailbox_open(&process->control);
	if (error < 0) {
		log_fatal("eventfd(): %s", text_of_error(-error));
		return false;
	}
	process->has_control = true;
	vars_names_init(settings->track_extra_parameters);
	return true;
}

static void say_up(const struct process *process)
{
	log_info("process up: %s, io_uring, %u worker%s, adns: getaddrinfo, tls: none",
	         VERSION_TEXT, process->worker_count, process->worker_count == 1 ? "" : "s");
	service_tell("READY=1");
}

static void files_remove(struct sockets *sockets, const char *pidfile)
{
	sockets_unlink(sockets);
	if (pidfile != NULL && pidfile[0] != '\0')
		unlink(pidfile);
}

/* Closes in order what is still open.  False: some worker did not leave in
 * time, and its threads still use what is shared. */
static bool wind_up(struct process *process, struct crew *crew)
{
	for (int tries = 0; tries < LEAVE_TRIES; tries++) {
		control_stop_workers(process);
		if (!crew_join(crew, LEAVE_TRY_US))
			continue;
		registry_fini(&process->registry);
		mailbox_close(&process->control);
		config_drop(process->config);
		return true;
	}
	return false;
}

static int run(struct process *process, const struct control_options *control)
{
	static struct sockets sockets;
	const struct settings *settings = &process->config->settings;
	char *pidfile = settings->pidfile != NULL ? strdup(settings->pidfile) : NULL;
	int signals = control_signals();
	if (signals < 0) {
		log_fatal("signalfd(): %s", text_of_error(-signals));
		return 1;
	}
	struct crew *crew = crew_new(process, settings);
	if (crew == NULL)
		return 1;
	registry_init(&process->registry, process->worker_count, process->seed);
	if (!sockets_open(&sockets, settings, process->worker_count))
		return 1;
	if (!crew_start(crew, &sockets) || !daemon_write_pidfile(pidfile)) {
		sockets_unlink(&sockets);
		return 1;
	}
	say_up(process);
	enum control_end end = control_run(process, control, signals);
	files_remove(&sockets, pidfile);
	free(pidfile);
	bool is_clean = end == CONTROL_LEAVE && wind_up(process, crew);
	sockets_close(&sockets);
	if (!is_clean)
		_exit(0); /* not exit(): threads are running */
	return 0;
}

int main(int argc, char **argv)
{
	static struct process process;
	struct options options = options_read(argc, argv);
	struct control_options control = {.to_stderr = !options.quiet, .verbose = options.verbose};
	const struct log_options log = {.to_stderr = control.to_stderr, .verbose = options.verbose};
	log_open(&log);
	process.config = config_begin(&options);
	int code = 1;
	if (process.config != NULL && settle(&process, &options, &control) &&
	    process_init(&process))
		code = run(&process, &control);
	if (code != 0)
		_exit(code); /* as it stands: some workers may run already */
	return code;
}
