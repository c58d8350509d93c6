/*
 * op.c - owners come and go, and no user_data of a former one finds the next.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/op.h"

#include <criterion/criterion.h>

static void ignore(struct op_owner *owner, enum op_kind kind, const struct completion *completion)
{
	(void)owner;
	(void)kind;
	(void)completion;
}

Test(op, finds_the_owner_or_nobody)
{
	enum { OWNERS = 1000 };
	static struct op_owner owners[OWNERS];
	static uint64_t before[OWNERS];
	struct op_table table = {0};
	enum op_kind kind;

	cr_assert_null(op_find(&table, 0, &kind));
	cr_assert_null(op_find(&table, UINT64_MAX, &kind));
	for (int i = 0; i < OWNERS; i++) {
		owners[i].on_completion = ignore;
		cr_assert(op_register(&table, &owners[i]));
		before[i] = op_user_data(&owners[i], OP_SEND);
		cr_assert_neq(before[i], 0);
	}
	cr_assert_eq(table.used, OWNERS);
	for (int i = 0; i < OWNERS; i++) {
		for (int k = 0; k < OP_KIND_COUNT; k++) {
			uint64_t user_data = op_user_data(&owners[i], (enum op_kind)k);
			cr_assert_eq(op_find(&table, user_data, &kind), &owners[i]);
			cr_assert_eq(kind, (enum op_kind)k);
		}
	}

	/* A slot is used again, under another generation. */
	for (int i = 0; i < OWNERS; i += 2) {
		op_unregister(&table, &owners[i]);
		cr_assert_null(op_find(&table, before[i], &kind));
	}
	for (int i = 0; i < OWNERS; i += 2)
		cr_assert(op_register(&table, &owners[i]));
	cr_assert_leq(table.room, 1024);
	for (int i = 0; i < OWNERS; i++) {
		const struct op_owner *found = op_find(&table, before[i], &kind);
		cr_assert_eq(found, i % 2 == 0 ? NULL : &owners[i]);
		cr_assert_eq(op_find(&table, op_user_data(&owners[i], OP_RECV), &kind), &owners[i]);
	}

	/* What is no user_data of ours. */
	cr_assert_null(op_find(&table, 0, &kind));
	cr_assert_null(op_find(&table, UINT64_MAX, &kind));
	cr_assert_null(op_find(&table, before[1] + (UINT64_C(1) << 8), &kind));
	cr_assert_null(op_find(&table, (before[1] & ~UINT64_C(0xff)) | OP_KIND_COUNT, &kind));
	for (int i = 0; i < OWNERS; i++)
		op_unregister(&table, &owners[i]);
	op_table_fini(&table);
}

Test(op, a_slot_used_often)
{
	enum { TIMES = 10000 };
	static uint64_t former[TIMES];
	static struct op_owner owner = {.on_completion = ignore};
	struct op_table table = {0};
	enum op_kind kind;
	for (int i = 0; i < TIMES; i++) {
		cr_assert(op_register(&table, &owner));
		former[i] = op_user_data(&owner, OP_POLL);
		op_unregister(&table, &owner);
	}
	cr_assert(op_register(&table, &owner));
	for (int i = 0; i < TIMES; i++)
		cr_assert_null(op_find(&table, former[i], &kind));
	op_unregister(&table, &owner);
	op_table_fini(&table);
}
