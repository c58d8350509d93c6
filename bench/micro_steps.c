/*
 * micro_steps.c - counts instructions, one by one.
 *
 * Virtual machines mostly have no hardware counters, so a child runs the row
 * and the parent has it stop after each instruction (ptrace).  That takes
 * microseconds for each, but it is exact.  The child stops itself when it is
 * done; what begins and ends it is the same for few rounds and for many, so
 * the difference of two runs is what the rounds cost.  A system call counts
 * as one instruction.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/micro.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS_FEW = 2, ROUNDS_MANY = 6, STEPS_MAX = 1000 * 1000 };

/* Whether the child has stopped, and by which signal. */
static bool child_stopped(pid_t child, int *signal_number)
{
	int status;
	pid_t waited;
	do
		waited = waitpid(child, &status, 0);
	while (waited < 0 && errno == EINTR);
	if (waited != child || !WIFSTOPPED(status))
		return false;
	*signal_number = WSTOPSIG(status);
	return true;
}

/* -1: not allowed here, or no end. */
static long steps_count(const struct micro_row *row, uint32_t rounds)
{
	fflush(stdout);
	pid_t child = fork();
	if (child < 0)
		return -1;
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(1);
		raise(SIGSTOP);
		row->run(rounds);
		raise(SIGSTOP);
		_exit(0);
	}
	long steps = -1;
	int stopped_by = 0;
	if (child_stopped(child, &stopped_by) && stopped_by == SIGSTOP) {
		do
			steps++;
		while (steps < STEPS_MAX && ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 &&
		       child_stopped(child, &stopped_by) && stopped_by == SIGTRAP);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return stopped_by == SIGSTOP && steps > 0 ? steps : -1;
}

double micro_steps(const struct micro_row *row)
{
	long few = steps_count(row, ROUNDS_FEW);
	long many = few < 0 ? -1 : steps_count(row, ROUNDS_MANY);
	if (many < 0)
		return -1;
	return (double)(many - few) / (ROUNDS_MANY - ROUNDS_FEW);
}
