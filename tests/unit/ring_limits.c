/*
 * The ring when the kernel has too little of something, or refuses it.
 *
 * Some calls of liburing are ours here and pass the system call on, or an error
 * instead.  What a sandbox does is done by a real seccomp filter in a child, as
 * the texts depend on what /proc says.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <errno.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/check.h"
#include "net/ring.h"
#include "net/sys.h"

enum { LONG_US = 10 * 1000 * 1000, SECOND_US = 1000 * 1000 };

/* The next enters return these instead of entering. */
static int refusals[4];
static uint32_t refusal_count;

int io_uring_enter2(unsigned fd, unsigned to_submit, unsigned min_complete, unsigned flags,
                    sigset_t *sig, size_t size)
{
	if (refusal_count > 0)
		return refusals[--refusal_count];
	long result = syscall(__NR_io_uring_enter, fd, to_submit, min_complete, flags, sig, size);
	return result < 0 ? -errno : (int)result;
}

/* Operation that the probe does not show; 0 (NOP) is not asked for. */
static uint8_t hidden_operation;

int io_uring_register_probe(struct io_uring *ring, struct io_uring_probe *probe, unsigned count)
{
	long result = syscall(__NR_io_uring_register, ring->ring_fd, IORING_REGISTER_PROBE, probe,
	                      count);
	probe->ops[hidden_operation].flags = 0;
	return result < 0 ? -errno : (int)result;
}

static int buf_ring_error;

int io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *reg, unsigned flags)
{
	(void)flags;
	if (buf_ring_error != 0)
		return buf_ring_error;
	long result = syscall(__NR_io_uring_register, ring->ring_fd, IORING_REGISTER_PBUF_RING, reg,
	                      1);
	return result < 0 ? -errno : (int)result;
}

static struct ring *ring_of(uint32_t entries, uint32_t completions)
{
	struct ring_options options = {.entries = entries, .completions = completions};
	struct ring_failure failure = {{0}};
	struct ring *ring = ring_open(&options, &failure);
	cr_assert_not_null(ring, "%s", failure.text);
	return ring;
}

static void socket_pair(int pair[2])
{
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void write_all(int fd, const void *bytes, size_t size)
{
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
}

static void assert_quiet(struct ring *ring)
{
	cr_assert_eq(ring_turn(ring, sys_clock_us() + 2000), 0);
}

static void fill_pattern(uint8_t *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)((i + seed) * 2654435761U >> 24);
}

static void reads_of_bells(struct ring *ring, uint32_t total, bool before)
{
	static uint64_t values[512];
	static bool seen[ARRAY_LEN(values)];
	memset(seen, 0, sizeof seen);
	int bell = sys_bell_open();
	if (before)
		ring_turn(ring, 0);
	for (uint32_t i = 0; i < total; i++) {
		sys_bell_ring(bell);
		ring_read(ring, i, bell, &values[i], sizeof values[i]);
	}
	uint32_t done = 0;
	while (done < total) {
		/* An unanswered read means that an entry was lost. */
		uint32_t count = ring_turn(ring, sys_clock_us() + SECOND_US);
		for (uint32_t i = 0; i < count; i++) {
			struct completion it = *ring_completion(ring, i);
			cr_assert_lt(it.user_data, total);
			cr_assert_not(seen[it.user_data]);
			seen[it.user_data] = true;
			cr_assert_eq(it.result, 8);
		}
		done += count;
		sys_bell_ring(bell); /* for those that shared a value */
	}
	assert_quiet(ring);
	sys_close(bell);
}

Test(ring_limits, more_than_the_queues_hold)
{
	static const uint32_t sizes[][2] = {{8, 16}, {8, 1024}, {256, 256}, {1, 2}};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct ring *ring = ring_of(sizes[i][0], sizes[i][1]);
		reads_of_bells(ring, 512, false);
		ring_close(ring);
	}
}

/* Two streams into a completion queue that holds next to nothing: receives end
 * without notice, and not a byte is lost. */
Test(ring_limits, completions_overflow)
{
	enum { STREAMS = 16, TOTAL = 8000, COUNT = 256, SIZE = 32 };
	static uint8_t sent[TOTAL];
	struct ring *ring = ring_of(4, 8);
	uint8_t *memory = ring_group_open(ring, RING_GROUP_CLIENT, COUNT, SIZE);
	int pairs[STREAMS][2];
	uint32_t arrived[STREAMS] = {0};
	fill_pattern(sent, sizeof sent, 4);
	for (uint32_t i = 0; i < STREAMS; i++) {
		socket_pair(pairs[i]);
		write_all(pairs[i][1], sent, TOTAL);
		ring_recv(ring, i, pairs[i][0], RING_GROUP_CLIENT, false);
	}
	uint32_t total = 0, ended = 0;
	while (total < STREAMS * TOTAL) {
		uint32_t count = ring_turn(ring, sys_clock_us() + LONG_US);
		cr_assert_gt(count, 0);
		for (uint32_t i = 0; i < count; i++) {
			struct completion it = *ring_completion(ring, i);
			uint32_t *at = &arrived[it.user_data];
			if (it.has_buffer) {
				cr_assert_gt(it.result, 0);
				cr_assert_leq(*at + (uint32_t)it.result, TOTAL);
				cr_assert_eq(memcmp(memory + it.buffer * SIZE, sent + *at,
				                    (size_t)it.result),
				             0);
				*at += (uint32_t)it.result;
				total += (uint32_t)it.result;
				ring_buffer_give(ring, RING_GROUP_CLIENT, it.buffer);
			}
			if (it.more)
				continue;
			ended++;
			ring_recv(ring, it.user_data, pairs[it.user_data][0], RING_GROUP_CLIENT,
			          false);
		}
	}
	cr_log_info("receives ended %u times", ended);
	for (uint32_t i = 0; i < STREAMS; i++) {
		sys_close(pairs[i][0]);
		sys_close(pairs[i][1]);
	}
	ring_close(ring);
}

/* A kernel that takes nothing for a while loses nothing. */
Test(ring_limits, submission_refused)
{
	static const int errors[] = {-EAGAIN, -EBUSY, -ENOMEM, -EINTR};
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		struct ring *ring = ring_of(16, 64);
		for (uint32_t times = 1; times <= ARRAY_LEN(refusals); times++) {
			for (uint32_t k = 0; k < times; k++)
				refusals[k] = errors[i];
			refusal_count = times;
			reads_of_bells(ring, times % 2 == 0 ? 10 : 40, times > 2);
		}
		ring_close(ring);
	}
}

/* ------------------------------------------------------------- what ring_open says */

static void filter_install(uint32_t call, uint32_t error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(2);
}

/* What ring_open says in a child that `prepare` has put into its place; "" if
 * it opens the ring, and a group of buffers. */
static void failure_in_child(void (*prepare)(const void *), const void *argument,
                             struct ring_failure *failure)
{
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	pid_t child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		struct ring_options options = {.entries = 256, .completions = 4096};
		struct ring_failure said = {{0}};
		prepare(argument);
		struct ring *ring = ring_open(&options, &said);
		if (ring != NULL && ring_group_open(ring, RING_GROUP_CLIENT, 512, 4096) != NULL)
			said.text[0] = '\0';
		_exit(write(ends[1], &said, sizeof said) == sizeof said ? 0 : 1);
	}
	cr_assert_eq(read(ends[0], failure, sizeof *failure), sizeof *failure);
	int status;
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(ends[0]);
	close(ends[1]);
}

struct refusal {
	uint32_t call, error;
	const char *cause, *remedy;
};

static void prepare_refusal(const void *argument)
{
	const struct refusal *refusal = argument;
	struct rlimit limit = {64 * 1024, 64 * 1024};
	setrlimit(RLIMIT_MEMLOCK, &limit);
	filter_install(refusal->call, refusal->error);
}

/* One line, not cut off, with cause and remedy. */
static void assert_text(const struct ring_failure *failure, const char *cause, const char *remedy)
{
	const char *text = failure->text;
	cr_assert_not_null(strstr(text, cause), "%s: not in: %s", cause, text);
	cr_assert_not_null(strstr(text, remedy), "%s: not in: %s", remedy, text);
	cr_assert_lt(strlen(text), sizeof failure->text - 1, "%s", text);
	cr_assert_null(strchr(text, '\n'));
}

Test(ring_limits, failure_texts)
{
	static const char profile[] = "profile that allows io_uring_setup, io_uring_enter and "
				      "io_uring_register";
	static const struct refusal cases[] = {
		{__NR_io_uring_setup, EPERM, "io_uring_setup: not permitted by a seccomp filter",
	         profile},
		{__NR_io_uring_setup, EPERM, "Seccomp: 2", "seccomp=unconfined"},
		{__NR_io_uring_setup, EACCES, "Docker", profile},
		{__NR_io_uring_register, EPERM, "io_uring_register: not permitted", profile},
		{__NR_io_uring_enter, EPERM, "io_uring_enter: not permitted", profile},
		{__NR_io_uring_setup, ENOSYS, "sandbox", "6.1 or newer with io_uring"},
		{__NR_io_uring_enter, ENOSYS, "io_uring_enter: no such system call", "sandbox"},
		{__NR_io_uring_setup, ENOMEM, "RLIMIT_MEMLOCK is 64 KiB", "LimitMEMLOCK=infinity"},
		{__NR_io_uring_setup, EINVAL, "Linux 6.1", "run on kernel 6.1 or newer"},
		{__NR_io_uring_setup, EMFILE, "descriptor", "LimitNOFILE"},
		{__NR_io_uring_setup, EIO, "Input/output error", "6.1 or newer"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ring_failure failure;
		failure_in_child(prepare_refusal, &cases[i], &failure);
		assert_text(&failure, cases[i].cause, cases[i].remedy);
	}
}

Test(ring_limits, missing_parts)
{
	struct ring_options options = {.entries = 16, .completions = 64};
	static const struct {
		uint8_t operation;
		int buf_ring_error;
		const char *cause;
	} cases[] = {
		{IORING_OP_RECV, 0, "IORING_OP_RECV is missing"},
		{IORING_OP_ASYNC_CANCEL, 0, "IORING_OP_ASYNC_CANCEL is missing"},
		{0, -EINVAL, "IORING_REGISTER_PBUF_RING is missing"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ring_failure failure = {{0}};
		hidden_operation = cases[i].operation;
		buf_ring_error = cases[i].buf_ring_error;
		cr_assert_null(ring_open(&options, &failure));
		assert_text(&failure, cases[i].cause, "run on kernel 6.1 or newer");
	}
	hidden_operation = 0;
	buf_ring_error = 0;
	ring_close(ring_of(16, 64));
}

static void prepare_nobody(const void *argument)
{
	const struct rlimit *limit = argument;
	if (setrlimit(RLIMIT_MEMLOCK, limit) != 0 || setgid(65534) != 0 || setuid(65534) != 0)
		_exit(2);
}

/* 64 KiB do for a small ring: that is better than none. */
Test(ring_limits, little_memory_to_lock)
{
	if (geteuid() != 0)
		cr_skip("needs root, to be nobody");
	static const rlim_t sizes[] = {64 * 1024, 8192 * 1024};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct rlimit limit = {sizes[i], sizes[i]};
		struct ring_failure failure;
		failure_in_child(prepare_nobody, &limit, &failure);
		cr_assert_str_eq(failure.text, "");
	}
}
