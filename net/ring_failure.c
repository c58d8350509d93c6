/*
 * ring_failure.c - see ring_failure.h.
 *
 * An errno of io_uring_setup(2) has several causes that an operator cures in
 * different places, so the ones that /proc tells apart are looked up.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/ring_failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "net/ring.h"

enum { LINE_MAX_SIZE = 128 };

__attribute__((format(printf, 2, 3))) static void failure_say(struct ring_failure *failure,
                                                              const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(failure->text, sizeof failure->text, format, arguments);
	va_end(arguments);
}

/* The first line of the file that begins with `prefix`, without it and without
 * the end of line; "" if there is none. */
static void file_line(const char *path, const char *prefix, char text[LINE_MAX_SIZE])
{
	text[0] = '\0';
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return;
	char line[LINE_MAX_SIZE];
	size_t skip = strlen(prefix);
	while (fgets(line, sizeof line, file) != NULL) {
		if (strncmp(line, prefix, skip) != 0)
			continue;
		char *value = line + skip + strspn(line + skip, " \t");
		value[strcspn(value, "\n")] = '\0';
		memcpy(text, value, strlen(value) + 1);
		break;
	}
	fclose(file);
}

/* A text of its own for each cause; what cannot be told apart is listed. */
static void explain_refused(struct ring_failure *failure, const char *call)
{
	char disabled[LINE_MAX_SIZE];
	char seccomp[LINE_MAX_SIZE];
	file_line("/proc/sys/kernel/io_uring_disabled", "", disabled);
	file_line("/proc/self/status", "Seccomp:", seccomp);
	if (disabled[0] != '\0' && strcmp(disabled, "0") != 0)
		failure_say(
			failure,
			"%s: not permitted: /proc/sys/kernel/io_uring_disabled is %s (1: only root "
			"and the group in kernel.io_uring_group may use io_uring, 2: nobody may); "
			"set it to 0 with \"sysctl -w kernel.io_uring_disabled=0\" and in "
			"/etc/sysctl.d, or at 1 put the user into that group (Seccomp: %s)",
			call, disabled, seccomp);
	else
		failure_say(
			failure,
			"%s: not permitted%s (Seccomp: %s in /proc/self/status; the default "
			"profiles of Docker and containerd forbid io_uring); run with a seccomp "
			"profile that allows io_uring_setup, io_uring_enter and "
			"io_uring_register, or \"--security-opt seccomp=unconfined\"",
			call,
			strcmp(seccomp, "0") == 0
				? " by a security module or a filter outside of this process"
				: " by a seccomp filter",
			seccomp);
}

static void explain_memory(struct ring_failure *failure, const char *call)
{
	struct rlimit limit = {0};
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		failure_say(failure,
		            "%s: the kernel is out of memory; free some, or raise the memory limit "
		            "of the service or container",
		            call);
	else
		failure_say(
			failure,
			"%s: out of memory that may be locked: RLIMIT_MEMLOCK is %llu KiB, shared "
			"by all processes of this user, and every worker needs up to 100 KiB; set "
			"LimitMEMLOCK=infinity in the systemd unit, or raise \"ulimit -l\"",
			call, (unsigned long long)limit.rlim_cur / 1024);
}

static void explain_version(struct ring_failure *failure, const char *what)
{
	struct utsname name = {0};
	uname(&name);
	failure_say(failure,
	            "%s: kernel %s lacks what is needed of io_uring, which came with Linux 6.1; "
	            "run on kernel 6.1 or newer",
	            what, name.release);
}

void ring_failure_explain(struct ring_failure *failure, const char *call, int error)
{
	switch (-error) {
	case EPERM:
	case EACCES: explain_refused(failure, call); break;
	case ENOMEM: explain_memory(failure, call); break;
	case EINVAL: explain_version(failure, call); break;
	case ENOSYS:
		failure_say(
			failure,
			"%s: no such system call: the kernel is built without io_uring "
			"(CONFIG_IO_URING), or a sandbox such as gVisor hides it; run on a kernel "
			"6.1 or newer with io_uring, outside of the sandbox",
			call);
		break;
	case EMFILE:
	case ENFILE:
		failure_say(failure,
		            "%s: no file descriptor left; set LimitNOFILE in the systemd unit, or "
		            "raise \"ulimit -n\"",
		            call);
		break;
	default:
		failure_say(failure, "%s: %s; io_uring of kernel 6.1 or newer is needed", call,
		            strerrordesc_np(-error));
	}
}

void ring_failure_missing(struct ring_failure *failure, const char *part)
{
	char what[LINE_MAX_SIZE];
	snprintf(what, sizeof what, "io_uring: IORING_%s%s is missing",
	         strncmp(part, "REGISTER_", 9) == 0 ? "" : "OP_", part);
	explain_version(failure, what);
}
