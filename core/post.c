/*
 * post.c - see post.h.
 *
 * From malloc: posts cross threads, and they are off the path of a query.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/post.h"

#include <stdlib.h>

#include "core/base/check.h"
#include "core/process.h"
#include "core/worker.h"

struct post *post_new(enum post_kind kind, uint32_t from)
{
	struct post *post = calloc(1, sizeof *post);
	CHECK(post != NULL);
	post->kind = (uint16_t)kind;
	post->from = (uint16_t)from;
	return post;
}

void post_free(struct post *post)
{
	free(post);
}

void post_send(struct process *process, uint32_t to, struct post *post)
{
	CHECK(to < process->worker_count);
	mailbox_push(&process->workers[to]->mailbox, &post->mail);
}

void post_control(struct process *process, struct post *post)
{
	if (process->has_control)
		mailbox_push(&process->control, &post->mail);
	else
		post_free(post);
}
