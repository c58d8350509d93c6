/*
 * daemon.c - see daemon.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/config.h"
#include "core/log.h"
#include "core/service.h"
#include "core/sockets.h"
#include "net/addr.h"
#include "net/sys.h"

enum {
	PID_TEXT_MAX = 32,
	FILES_SPARE = 10,     /* PgBouncer's allowance besides sockets */
	FILES_PER_WORKER = 8, /* ring, bell, listeners */
};

static bool is_given(const char *text)
{
	return text != NULL && *text != '\0';
}

bool daemon_become(const char *user)
{
	if (is_given(user)) {
		errno = 0;
		/* there are no threads yet */
		const struct passwd *entry = getpwnam(user); /* NOLINT(concurrency-mt-unsafe) */
		if (entry == NULL) {
			log_fatal("could not find user '%s' to switch to: %s", user,
			          errno != 0 ? text_of_error(errno) : "there is none");
			return false;
		}
		bool is_other = entry->pw_uid != geteuid();
		if (is_other && (initgroups(user, entry->pw_gid) < 0 || setgid(entry->pw_gid) < 0 ||
		                 setuid(entry->pw_uid) < 0)) {
			log_fatal("could not switch to user '%s': %s", user, text_of_error(errno));
			return false;
		}
	}
	if (geteuid() == 0) {
		log_fatal("PgBouncer should not run as root");
		return false;
	}
	return true;
}

static bool socket_answers(const struct addr *addr)
{
	int fd = sys_socket(AF_UNIX);
	bool answers = fd >= 0 && connect(fd, &addr->any, addr->size) == 0;
	if (fd >= 0)
		sys_close(fd);
	return answers;
}

static bool check_socket(const struct settings *settings)
{
	struct addr addr;
	if (!is_given(settings->unix_socket_dir) || service_sockets() > 0 ||
	    !addr_unix(&addr, settings->unix_socket_dir, (uint16_t)settings->listen_port))
		return true;
	bool in_use = socket_answers(&addr);
	for (int tries = 0; in_use && tries < SOCKETS_TRIES; tries++) {
		usleep(SOCKETS_WAIT_US);
		in_use = socket_answers(&addr);
	}
	if (in_use)
		log_fatal("unix socket is in use, cannot continue");
	return !in_use;
}

static bool check_pidfile(const char *path)
{
	char text[PID_TEXT_MAX] = "";
	if (!is_given(path))
		return true;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return true;
	if (fd < 0) {
		log_fatal("could not open pidfile '%s': %s", path, text_of_error(errno));
		return false;
	}
	ssize_t size = read(fd, text, sizeof text - 1);
	int error = errno;
	close(fd);
	if (size < 0) {
		log_fatal("could not read pidfile '%s': %s", path, text_of_error(error));
		return false;
	}
	long pid = strtol(text, NULL, 10);
	if (pid <= 0 || pid > INT32_MAX || kill((pid_t)pid, 0) == 0 || errno != ESRCH) {
		log_fatal("pidfile '%s' exists, another instance running?", path);
		return false;
	}
	log_info("stale pidfile, removing");
	if (unlink(path) < 0 && errno != ENOENT) {
		log_fatal("could not remove stale pidfile: %s", text_of_error(errno));
		return false;
	}
	return true;
}

bool daemon_check_alone(const struct config *config)
{
	return check_socket(&config->settings) && check_pidfile(config->settings.pidfile);
}

/* In the parent: does not come back. */
static bool fork_off(void)
{
	pid_t pid = fork();
	if (pid > 0)
		_exit(0);
	if (pid < 0)
		log_fatal("fork(): %s", text_of_error(errno));
	return pid == 0;
}

bool daemon_detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0) {
		log_fatal("could not open /dev/null: %s", text_of_error(errno));
		return false;
	}
	/* Twice: what is no leader of its session never gets a terminal. */
	if (!fork_off())
		return false;
	if (setsid() < 0) {
		log_fatal("setsid(): %s", text_of_error(errno));
		return false;
	}
	if (!fork_off())
		return false;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
	return true;
}

/* Servers that the pools of the config may open, as PgBouncer counts them. */
static uint64_t servers_expected(const struct config *config)
{
	uint64_t count = 0;
	uint64_t usual = (uint64_t)MAX(config->settings.default_pool_size, 0);
	for (uint32_t i = 0; i < config->database_count; i++) {
		const struct database_entry *entry = &config->databases[i];
		uint64_t size = entry->pool_size >= 0 ? (uint64_t)entry->pool_size : usual;
		count += entry->user != NULL ? size : size * config->user_count;
	}
	return count;
}

void daemon_raise_files(const struct config *config)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		log_warning("could not get the limit on descriptors: %s", text_of_error(errno));
		return;
	}
	struct rlimit raised = {limit.rlim_max, limit.rlim_max};
	if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0)
		limit = raised;
	uint64_t clients = (uint64_t)MAX(config->settings.max_client_conn, 0);
	uint64_t expected = clients + FILES_SPARE + servers_expected(config);
	log_info("kernel file descriptor limit: %" PRIu64 " (hard: %" PRIu64
	         "); max_client_conn: %" PRIu64 ", max expected fd use: %" PRIu64,
	         (uint64_t)limit.rlim_cur, (uint64_t)limit.rlim_max, clients, expected);
	if (clients + FILES_SPARE + FILES_PER_WORKER > limit.rlim_cur)
		log_warning("max_client_conn = %" PRIu64 " does not fit into the limit of %" PRIu64
		            " descriptors: raise the limit (ulimit -Hn, LimitNOFILE=)",
		            clients, (uint64_t)limit.rlim_cur);
}

bool daemon_write_pidfile(const char *path)
{
	char text[PID_TEXT_MAX];
	if (!is_given(path))
		return true;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0) {
		log_fatal("could not open pidfile '%s': %s", path, text_of_error(errno));
		return false;
	}
	int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
	bool is_written = write(fd, text, (size_t)size) == size;
	int error = errno;
	close(fd);
	if (!is_written) {
		log_fatal("could not write pidfile '%s': %s", path, text_of_error(error));
		unlink(path);
	}
	return is_written;
}
