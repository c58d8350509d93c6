/*
 * list.h - doubly linked list with the links inside what it links.
 *
 * A list counts its members, so a list can be a state and SHOW can read the
 * count (see core/client.h).  A link that is in no list has next == NULL:
 * that is checked on both sides, an object cannot be in two lists.
 *
 *	list_each(struct client, client, link, &pool->waiting)
 *		...
 *
 * list_each_safe may remove the member it stands on.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_BASE_LIST_H
#define CORE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/check.h"

struct link {
	struct link *next, *previous;
};

struct list {
	struct link ends; /* next: first, previous: last */
	uint32_t count;
};

#define CONTAINER(type, member, pointer) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
	list->ends.next = list->ends.previous = &list->ends;
	list->count = 0;
}

static inline bool link_is_in(const struct link *link)
{
	return link->next != NULL;
}

static inline bool list_is_empty(const struct list *list)
{
	return list->count == 0;
}

static inline void list_insert(struct list *list, struct link *before, struct link *link)
{
	CHECK(link->next == NULL);
	link->next = before;
	link->previous = before->previous;
	before->previous->next = link;
	before->previous = link;
	list->count++;
}

static inline void list_append(struct list *list, struct link *link)
{
	list_insert(list, &list->ends, link);
}

static inline void list_prepend(struct list *list, struct link *link)
{
	list_insert(list, list->ends.next, link);
}

static inline void list_remove(struct list *list, struct link *link)
{
	CHECK(link->next != NULL && list->count > 0);
	link->previous->next = link->next;
	link->next->previous = link->previous;
	link->next = link->previous = NULL;
	list->count--;
}

/* NULL when empty. */
static inline struct link *list_first(const struct list *list)
{
	return list->count == 0 ? NULL : list->ends.next;
}

static inline struct link *list_last(const struct list *list)
{
	return list->count == 0 ? NULL : list->ends.previous;
}

/* Of a list that is known not to be empty. */
static inline struct link *list_front(const struct list *list)
{
	CHECK(list->count > 0);
	return list->ends.next;
}

#define LIST_FRONT(type, member, list) CONTAINER(type, member, list_front(list))

#define LIST_FIRST(type, member, list) \
	(list_is_empty(list) ? NULL : CONTAINER(type, member, (list)->ends.next))

#define list_each(type, name, member, list)                           \
	for (type *name = CONTAINER(type, member, (list)->ends.next); \
	     &name->member != &(list)->ends; name = CONTAINER(type, member, name->member.next))

#define list_each_safe(type, name, member, list)                             \
	for (type *name = CONTAINER(type, member, (list)->ends.next),        \
	          *name##_next = CONTAINER(type, member, name->member.next); \
	     &name->member != &(list)->ends;                                 \
	     name = name##_next, name##_next = CONTAINER(type, member, name##_next->member.next))

#endif
