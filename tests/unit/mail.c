/*
 * Mail in one thread: the order in which it comes out, and when the bell rings.
 * tests/race/mail.c has the threads.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/mail.h"

#include <criterion/criterion.h>
#include <unistd.h>

#include "core/base/check.h"

static uint64_t bell_rings(const struct mailbox *mailbox)
{
	uint64_t count = 0;
	return read(mailbox->bell, &count, sizeof count) == sizeof count ? count : 0;
}

Test(mail, oldest_first_and_one_ring)
{
	struct mailbox mailbox;
	struct mail mails[20];
	cr_assert_eq(mailbox_open(&mailbox), 0);
	cr_assert(mailbox_is_empty(&mailbox));
	cr_assert_null(mailbox_take(&mailbox));

	static const uint32_t counts[] = {1, 2, 3, ARRAY_LEN(mails), 1};
	for (uint32_t i = 0; i < ARRAY_LEN(counts); i++) {
		for (uint32_t k = 0; k < counts[i]; k++)
			mailbox_push(&mailbox, &mails[k]);
		cr_assert_not(mailbox_is_empty(&mailbox));
		cr_assert_eq(bell_rings(&mailbox), 1);
		struct mail *mail = mailbox_take(&mailbox);
		cr_assert(mailbox_is_empty(&mailbox));
		for (uint32_t k = 0; k < counts[i]; k++, mail = mail->next)
			cr_assert_eq(mail, &mails[k]);
		cr_assert_null(mail);
	}
	/* Taken before the bell was read: it rings once for each of two mails. */
	mailbox_push(&mailbox, &mails[0]);
	cr_assert_eq(mailbox_take(&mailbox), &mails[0]);
	mailbox_push(&mailbox, &mails[1]);
	cr_assert_eq(bell_rings(&mailbox), 2);
	cr_assert_eq(mailbox_take(&mailbox), &mails[1]);
	cr_assert_eq(bell_rings(&mailbox), 0);
	mailbox_close(&mailbox);
}
