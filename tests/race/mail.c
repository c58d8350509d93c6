/*
 * Several senders, one receiver that sleeps on the bell.  Each sender's mails
 * must come complete and in order, and no sleep may outlast a mail: a bell that
 * was not rung shows as a sleep that times out with mail in the box.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/mail.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/list.h"
#include "net/sys.h"

enum { SENDERS = 4, IN_FLIGHT_MAX = 256, RUN_US = 2500 * 1000, SLEEP_MS_MAX = 5000 };

struct letter {
	struct mail mail;
	uint32_t sender;
	bool last;
	uint64_t number;
};

static struct mailbox mailbox;
static _Atomic uint32_t in_flight[SENDERS];
static uint64_t sleeps, takes;

static void *send_letters(void *argument)
{
	uint32_t sender = *(uint32_t *)argument;
	uint64_t end_us = sys_clock_us() + RUN_US;
	bool last = false;
	for (uint64_t number = 0; !last; number++) {
		/* Now full speed, now one at a time, so that the box runs empty often. */
		uint32_t limit = (number >> 10) % 2 == 0 ? IN_FLIGHT_MAX : 1;
		while (atomic_load_explicit(&in_flight[sender], memory_order_relaxed) >= limit)
			sched_yield();
		atomic_fetch_add_explicit(&in_flight[sender], 1, memory_order_relaxed);
		last = sys_clock_us() >= end_us;
		struct letter *letter = malloc(sizeof *letter);
		CHECK(letter != NULL);
		*letter = (struct letter){.sender = sender, .number = number, .last = last};
		mailbox_push(&mailbox, &letter->mail);
	}
	return NULL;
}

static bool sleep_on_bell(void)
{
	struct pollfd fd = {.fd = mailbox.bell, .events = POLLIN};
	int rung = poll(&fd, 1, SLEEP_MS_MAX);
	uint64_t count;
	sleeps++;
	if (rung == 1 && read(mailbox.bell, &count, sizeof count) == sizeof count)
		return true;
	printf("mail: slept %d ms, the box is %s\n", SLEEP_MS_MAX,
	       mailbox_is_empty(&mailbox) ? "empty" : "not empty");
	return false;
}

static bool receive_letters(uint64_t expected[SENDERS])
{
	uint32_t ended = 0;
	while (ended < SENDERS) {
		if (!sleep_on_bell())
			return false;
		struct mail *mail = mailbox_take(&mailbox);
		takes += mail != NULL;
		while (mail != NULL) {
			struct letter *letter = CONTAINER(struct letter, mail, mail);
			mail = mail->next;
			if (letter->number != expected[letter->sender]++) {
				printf("mail: sender %u out of order\n", letter->sender);
				return false;
			}
			ended += letter->last;
			atomic_fetch_sub_explicit(&in_flight[letter->sender], 1,
			                          memory_order_relaxed);
			free(letter);
		}
	}
	return mailbox_is_empty(&mailbox);
}

int main(void)
{
	pthread_t threads[SENDERS];
	uint32_t numbers[SENDERS];
	uint64_t expected[SENDERS] = {0};
	uint64_t total = 0;
	CHECK(mailbox_open(&mailbox) == 0);
	for (uint32_t i = 0; i < SENDERS; i++) {
		numbers[i] = i;
		CHECK(pthread_create(&threads[i], NULL, send_letters, &numbers[i]) == 0);
	}
	if (!receive_letters(expected))
		return 1;
	for (uint32_t i = 0; i < SENDERS; i++) {
		pthread_join(threads[i], NULL);
		total += expected[i];
	}
	mailbox_close(&mailbox);
	printf("mail: %d senders, %llu mails in order, %llu takes, %llu sleeps\n", SENDERS,
	       (unsigned long long)total, (unsigned long long)takes, (unsigned long long)sleeps);
	return 0;
}
