/*
 * vars.c - what is known of vars that were found equal holds until they change.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/vars.h"

#include <criterion/criterion.h>
#include <string.h>

Test(vars, equal_means_the_same_values)
{
	static const char *const values[] = {"UTF8", "LATIN1", "SQL_ASCII"};
	struct words words;
	struct vars vars[3] = {0};
	uint32_t random = 1;
	uint32_t equal = 0;
	vars_names_init(NULL);
	cr_assert(words_init(&words, 1));
	for (uint32_t i = 0; i < 20000; i++) {
		random = random * 1103515245 + 12345;
		struct vars *one = &vars[(random >> 8) % 3], *other = &vars[(random >> 10) % 3];
		uint32_t index = (random >> 12) % 2;
		switch ((random >> 16) % 8) {
		case 0: vars_set(&words, one, index, values[(random >> 20) % 3]); break;
		case 1: vars_copy(&words, one, other); break;
		case 2: vars_fill(one, other); break;
		case 3: vars_canonical(&words, one, NULL, other); break;
		case 4: vars_clear(&words, one); break;
		default: break;
		}
		one = &vars[(random >> 24) % 3];
		other = &vars[(random >> 26) % 3];
		bool same = memcmp(one->values, other->values, sizeof one->values) == 0;
		cr_assert_eq(vars_equal(&words, one, other), same, "%u", i);
		equal += same && one != other;
	}
	cr_assert_gt(equal, 1000);
	for (uint32_t i = 0; i < 3; i++)
		vars_clear(&words, &vars[i]);
	words_fini(&words);
}
