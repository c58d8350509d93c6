/*
 * mail.c - see mail.h.
 *
 * Only the owner takes, and takes all: a push that finds the same newest mail
 * again after others came and went has linked to the right one all the same, so
 * the stack needs no counter against that.  Once pushed, a mail is the
 * receiver's; the sender does not look at it again.
 *
 * A bell rung stays rung until it is read.  The owner reads it before it takes,
 * so a push that found mail there, and did not ring, is seen by that take.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/mail.h"

#include "core/base/check.h"
#include "net/sys.h"

int mailbox_open(struct mailbox *mailbox)
{
	int bell = sys_bell_open();
	if (bell < 0)
		return bell;
	mailbox->bell = bell;
	atomic_init(&mailbox->newest, NULL);
	return 0;
}

void mailbox_close(struct mailbox *mailbox)
{
	CHECK(mailbox_is_empty(mailbox));
	sys_close(mailbox->bell);
	mailbox->bell = -1;
}

void mailbox_push(struct mailbox *mailbox, struct mail *mail)
{
	struct mail *newest = atomic_load_explicit(&mailbox->newest, memory_order_relaxed);
	do
		mail->next = newest;
	while (!atomic_compare_exchange_weak_explicit(&mailbox->newest, &newest, mail,
	                                              memory_order_release, memory_order_relaxed));
	if (newest == NULL)
		sys_bell_ring(mailbox->bell);
}

struct mail *mailbox_take(struct mailbox *mailbox)
{
	/* The usual turn finds nothing and must not write a line that others write. */
	if (mailbox_is_empty(mailbox))
		return NULL;
	struct mail *newest = atomic_exchange_explicit(&mailbox->newest, NULL,
	                                               memory_order_acquire);
	struct mail *oldest = NULL;
	while (newest != NULL) {
		struct mail *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}
