/*
 * mail.h - messages between threads: a lock-free stack per receiver.
 *
 * Any thread pushes by compare-and-swap (release); the owner takes the whole
 * stack at once (acquire) and gets it oldest first, so mails of one sender
 * arrive in the order sent.  The bell is rung iff the stack was empty: ordering
 * comes from the stack alone, the bell only wakes.  A mail is the first member
 * of the sender's message; who allocated and who frees it is their contract.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_MAIL_H
#define NET_MAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mail {
	struct mail *next;
};

struct mailbox {
	_Atomic(struct mail *) newest;
	int bell;
};

/* Opens the bell; 0 or -errno. */
int mailbox_open(struct mailbox *mailbox);
void mailbox_close(struct mailbox *mailbox);

void mailbox_push(struct mailbox *mailbox, struct mail *mail);

/* All mails so far, oldest first, linked by next; NULL if there are none. */
struct mail *mailbox_take(struct mailbox *mailbox);

static inline bool mailbox_is_empty(const struct mailbox *mailbox)
{
	return atomic_load_explicit(&mailbox->newest, memory_order_relaxed) == NULL;
}

#endif
