/*
 * load_report.c - what the load generator says: a line a second, a summary,
 * and the summary as JSON.
 *
 * All numbers are differences of two snapshots, so a warm-up leaves no trace
 * in them, apart from wrong, lost and double answers and the errors, which
 * count from the beginning to the end.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"

struct summary {
	double seconds, rate, queries, bytes;      /* the last three: per second */
	double mean, p50, p90, p99, p999, longest; /* us */
	double fairness, cpu_us;                   /* CPU per transaction */
	uint64_t counts[COUNTS];
	uint64_t wrong, lost, twice;
	struct error_count errors[ERROR_KINDS_MAX];
};

/* The CPU time of all threads of a process; those that ended do not count. */
static uint64_t cpu_ns(int pid)
{
	char path[320];
	uint64_t sum = 0, spent;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *folder = pid > 0 ? opendir(path) : NULL;
	if (folder == NULL)
		return 0;
	for (const struct dirent *task; (task = readdir(folder)) != NULL;) {
		snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, task->d_name);
		FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (file == NULL)
			continue;
		if (fscanf(file, "%" SCNu64, &spent) == 1)
			sum += spent;
		fclose(file);
	}
	closedir(folder);
	return sum;
}

void snapshot_take(struct snapshot *snapshot, const struct load *load)
{
	memset(snapshot, 0, sizeof *snapshot);
	snapshot->cpu_ns = cpu_ns(load->options.pid);
	snapshot->at = clock_now();
	for (uint32_t i = 0; i < load->options.threads; i++) {
		const struct thread *thread = &load->threads[i];
		for (uint32_t k = 0; k < COUNTS; k++)
			snapshot->counts[k] += counter_read(&thread->counts[k]);
		histogram_sum(&snapshot->latency, &thread->latency);
	}
}

static double us(uint64_t ns)
{
	return (double)ns / NS_PER_US;
}

void report_progress(const struct load *load, const struct snapshot *before,
                     const struct snapshot *now)
{
	static struct histogram latency;
	uint64_t counts[COUNTS];
	histogram_subtract(&latency, &now->latency, &before->latency);
	for (uint32_t k = 0; k < COUNTS; k++)
		counts[k] = now->counts[k] - before->counts[k];
	double seconds = (double)(now->at - before->at) / NS_PER_S;
	uint64_t began = counter_read(&load->run_began);
	printf("%7.1f s  %9.0f tx/s  p50 %8.1f us  p99 %8.1f us  errors %" PRIu64,
	       (double)(now->at - began) / NS_PER_S, (double)counts[COUNT_TRANSACTIONS] / seconds,
	       us(histogram_value(&latency, 0.5)), us(histogram_value(&latency, 0.99)),
	       counts[COUNT_ERRORS]);
	uint64_t bad = now->counts[COUNT_WRONG] + now->counts[COUNT_LOST] +
	               now->counts[COUNT_DOUBLE];
	if (bad > 0)
		printf("  WRONG, LOST OR DOUBLE: %" PRIu64, bad);
	printf("\n");
	fflush(stdout);
}

/* Jain's index: 1 if all clients got the same, 1 / n if one got all. */
static double fairness(const struct load *load)
{
	double sum = 0, squares = 0;
	for (uint32_t i = 0; i < load->options.threads; i++) {
		const struct thread *thread = &load->threads[i];
		for (uint32_t k = 0; k < thread->client_count; k++) {
			const struct client *client = &thread->clients[k];
			double done = (double)(client->done - client->done_before);
			sum += done;
			squares += done * done;
		}
	}
	return squares > 0 ? sum * sum / (squares * load->options.clients) : 0;
}

static void errors_sum(struct summary *summary, const struct thread *thread)
{
	for (uint32_t i = 0; i < ERROR_KINDS_MAX && thread->errors[i].count > 0; i++) {
		uint32_t k = 0;
		while (k < ERROR_KINDS_MAX - 1 && summary->errors[k].count > 0 &&
		       strcmp(summary->errors[k].state, thread->errors[i].state) != 0)
			k++;
		memcpy(summary->errors[k].state, thread->errors[i].state,
		       sizeof summary->errors[k].state);
		summary->errors[k].count += thread->errors[i].count;
	}
}

static void summary_make(struct summary *summary, const struct load *load,
                         const struct snapshot *first, const struct snapshot *last)
{
	static struct histogram latency;
	memset(summary, 0, sizeof *summary);
	histogram_subtract(&latency, &last->latency, &first->latency);
	for (uint32_t k = 0; k < COUNTS; k++)
		summary->counts[k] = last->counts[k] - first->counts[k];
	uint64_t transactions = summary->counts[COUNT_TRANSACTIONS];
	summary->seconds = (double)(last->at - first->at) / NS_PER_S;
	summary->rate = (double)transactions / summary->seconds;
	summary->queries = (double)summary->counts[COUNT_QUERIES] / summary->seconds;
	summary->bytes = (double)summary->counts[COUNT_BYTES] / summary->seconds;
	summary->mean = histogram_mean(&latency) / NS_PER_US;
	summary->p50 = us(histogram_value(&latency, 0.5));
	summary->p90 = us(histogram_value(&latency, 0.9));
	summary->p99 = us(histogram_value(&latency, 0.99));
	summary->p999 = us(histogram_value(&latency, 0.999));
	summary->longest = us(histogram_value(&latency, 1));
	summary->fairness = fairness(load);
	if (transactions > 0)
		summary->cpu_us = us(last->cpu_ns - first->cpu_ns) / (double)transactions;
	for (uint32_t i = 0; i < load->options.threads; i++) {
		const struct thread *thread = &load->threads[i];
		summary->wrong += thread->counts[COUNT_WRONG];
		summary->lost += thread->counts[COUNT_LOST];
		summary->twice += thread->counts[COUNT_DOUBLE];
		errors_sum(summary, thread);
	}
}

static void summary_print(const struct summary *s, const struct load *load)
{
	const uint64_t *counts = s->counts;
	printf("\n%s, %u clients, %u threads, %s loop, %.2f s\n", mode_name(load->options.mode),
	       load->options.clients, load->options.threads,
	       load->options.rate > 0 ? "open" : "closed", s->seconds);
	printf("transactions  %" PRIu64 "  %.0f/s  (queries %.0f/s, %.1f MB/s)\n",
	       counts[COUNT_TRANSACTIONS], s->rate, s->queries, s->bytes / 1e6);
	printf("latency us    mean %.1f  p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n",
	       s->mean, s->p50, s->p90, s->p99, s->p999, s->longest);
	printf("fairness      %.4f (Jain, over clients)\n", s->fairness);
	if (load->options.pid > 0)
		printf("CPU of %-6d %.2f us/transaction\n", load->options.pid, s->cpu_us);
	if (load->options.vanish > 0 || load->options.cancel > 0)
		printf("vanished      %" PRIu64 "   cancel requests %" PRIu64
		       ", answered by 57014 %" PRIu64 "\n",
		       counts[COUNT_VANISHED], counts[COUNT_CANCELS], counts[COUNT_CANCELLED]);
	printf("logins        %" PRIu64 "\nerrors       ", counts[COUNT_CONNECTS]);
	for (uint32_t i = 0; i < ERROR_KINDS_MAX && s->errors[i].count > 0; i++)
		printf(" %s %" PRIu64, s->errors[i].state, s->errors[i].count);
	printf("%s\nwrong %" PRIu64 "  lost %" PRIu64 "  double %" PRIu64 "\n",
	       s->errors[0].count == 0 ? " none" : "", s->wrong, s->lost, s->twice);
}

static void summary_write(const struct summary *s, const struct load *load)
{
	FILE *file = fopen(load->options.json, "w");
	if (file == NULL) {
		perror("load: cannot write the JSON file");
		return;
	}
	fprintf(file,
	        "{\"mode\": \"%s\", \"clients\": %u, \"threads\": %u, \"rate_wanted\": %.3f,\n"
	        " \"seconds\": %.4f, \"transactions\": %" PRIu64 ", \"rate\": %.2f,\n"
	        " \"queries_per_s\": %.2f, \"bytes_per_s\": %.0f,\n"
	        " \"latency_us\": {\"mean\": %.2f, \"p50\": %.2f, \"p90\": %.2f, \"p99\": %.2f,"
	        " \"p99_9\": %.2f, \"max\": %.2f},\n"
	        " \"fairness\": %.6f, \"cpu_us_per_transaction\": %.4f, \"logins\": %" PRIu64 ",\n",
	        mode_name(load->options.mode), load->options.clients, load->options.threads,
	        load->options.rate, s->seconds, s->counts[COUNT_TRANSACTIONS], s->rate, s->queries,
	        s->bytes, s->mean, s->p50, s->p90, s->p99, s->p999, s->longest, s->fairness,
	        s->cpu_us, s->counts[COUNT_CONNECTS]);
	fprintf(file,
	        " \"vanished\": %" PRIu64 ", \"cancels\": %" PRIu64 ", \"cancelled\": %" PRIu64
	        ",\n \"wrong\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"double\": %" PRIu64
	        ",\n \"errors\": {",
	        s->counts[COUNT_VANISHED], s->counts[COUNT_CANCELS], s->counts[COUNT_CANCELLED],
	        s->wrong, s->lost, s->twice);
	for (uint32_t i = 0; i < ERROR_KINDS_MAX && s->errors[i].count > 0; i++)
		fprintf(file, "%s\"%s\": %" PRIu64, i == 0 ? "" : ", ", s->errors[i].state,
		        s->errors[i].count);
	fprintf(file, "}}\n");
	fclose(file);
}

bool report_end(const struct load *load, const struct snapshot *first, const struct snapshot *last)
{
	static struct summary summary;
	summary_make(&summary, load, first, last);
	summary_print(&summary, load);
	if (load->options.json != NULL)
		summary_write(&summary, load);
	return summary.wrong + summary.lost + summary.twice == 0;
}
