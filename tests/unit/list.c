/* Lists against a plain array of the same members, and each misuse that a
 * list must stop at. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/base/list.h"

#include <criterion/criterion.h>
#include <signal.h>

struct member {
	char name;
	struct link link;
};

static void names_check(const struct list *list, const char *expected)
{
	char names[16] = "";
	uint32_t count = 0;
	list_each (struct member, member, link, list)
		names[count++] = member->name;
	cr_assert_str_eq(names, expected);
	cr_assert_eq(list->count, count);
	cr_assert_eq(list_is_empty(list), count == 0);
	char back[16] = "";
	uint32_t at = count;
	for (struct link *link = list->ends.previous; link != &list->ends; link = link->previous)
		back[--at] = CONTAINER(struct member, link, link)->name;
	cr_assert_str_eq(back, expected);
}

Test(list, keeps_order_and_count)
{
	struct member m[] = {{'a', {0}}, {'b', {0}}, {'c', {0}}, {'d', {0}}};
	struct list list;
	list_init(&list);
	names_check(&list, "");
	cr_assert(list_first(&list) == NULL && list_last(&list) == NULL);
	cr_assert(LIST_FIRST(struct member, link, &list) == NULL);

	list_append(&list, &m[1].link);
	list_append(&list, &m[2].link);
	list_prepend(&list, &m[0].link);
	names_check(&list, "abc");
	list_insert(&list, &m[2].link, &m[3].link);
	names_check(&list, "abdc");
	cr_assert(list_first(&list) == &m[0].link && list_last(&list) == &m[2].link);
	cr_assert(LIST_FIRST(struct member, link, &list) == &m[0]);

	list_remove(&list, &m[3].link);
	cr_assert(!link_is_in(&m[3].link) && link_is_in(&m[0].link));
	names_check(&list, "abc");
	list_remove(&list, &m[0].link);
	list_append(&list, &m[0].link);
	names_check(&list, "bca");
	list_remove(&list, &m[0].link);
	names_check(&list, "bc");
	list_remove(&list, &m[1].link);
	list_remove(&list, &m[2].link);
	names_check(&list, "");
}

Test(list, members_may_leave_while_walking)
{
	/* Each bit of `leaves` takes one member out on the way. */
	for (uint32_t leaves = 0; leaves < 16; leaves++) {
		struct member m[] = {{'a', {0}}, {'b', {0}}, {'c', {0}}, {'d', {0}}};
		struct list list;
		struct list other;
		char stays[8] = "";
		char visited[8] = "";
		uint32_t stay = 0;
		uint32_t visit = 0;
		list_init(&list);
		list_init(&other);
		for (uint32_t i = 0; i < 4; i++) {
			list_append(&list, &m[i].link);
			if ((leaves >> i & 1) == 0)
				stays[stay++] = m[i].name;
		}
		list_each_safe (struct member, member, link, &list) {
			visited[visit++] = member->name;
			if ((leaves >> (member - m) & 1) == 0)
				continue;
			list_remove(&list, &member->link);
			list_append(&other, &member->link);
		}
		cr_assert_str_eq(visited, "abcd");
		names_check(&list, stays);
		cr_assert_eq(other.count, 4 - stay);
	}
}

Test(list, no_member_twice, .signal = SIGABRT)
{
	struct list list;
	struct list other;
	struct link link = {0};
	list_init(&list);
	list_init(&other);
	list_append(&list, &link);
	list_append(&other, &link);
}

Test(list, no_removal_of_strangers, .signal = SIGABRT)
{
	struct list list;
	struct link link = {0};
	list_init(&list);
	list_remove(&list, &link);
}
