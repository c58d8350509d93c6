/*
 * Keys: sizes, the bit that keeps a process number positive, the peer layout of
 * PgBouncer, and that every single bit counts in a comparison.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>

#include "cancel/key.h"
#include "core/base/check.h"

Test(cancel_key, layout)
{
	static const struct {
		uint8_t fill;
		bool long_key;
		uint16_t peer_id;
		uint8_t size, first[8];
	} rows[] = {
		{0xff, false, 0, 8, {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{0xff, true, 0, 36, {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{0x00, false, 1, 8, {0, 0x01, 0, 0, 0, 0, 0, 3}},
		{0x00, false, 0x1234, 8, {0, 0x34, 0x12, 0, 0, 0, 0, 3}},
		{0xf0, true, 0x3fff, 36, {0x70, 0xff, 0x3f, 0xf0, 0xf0, 0xf0, 0xf0, 0xf3}},
		{0xfe, false, 0xffff, 8, {0x7e, 0xff, 0xff, 0xfe, 0xfe, 0xfe, 0xfe, 0xff}},
	};
	for (uint32_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cancel_key key;
		uint8_t random[sizeof key.bytes];
		memset(random, rows[i].fill, sizeof random);
		cancel_key_make(&key, random, rows[i].long_key, rows[i].peer_id);
		cr_assert_eq(key.size, rows[i].size);
		cr_assert_arr_eq(key.bytes, rows[i].first, 8);
		for (uint32_t k = 8; k < sizeof key.bytes; k++)
			cr_assert_eq(key.bytes[k], k < key.size ? rows[i].fill : 0);

		struct span bytes = span_of(key.bytes, key.size);
		if (rows[i].peer_id == 0)
			continue;
		cr_assert_eq(cancel_key_peer(bytes), rows[i].peer_id);
		cr_assert_eq(cancel_key_hops(bytes), CANCEL_KEY_HOPS);
		for (uint8_t hops = 0; hops <= CANCEL_KEY_HOPS; hops++) {
			uint8_t copy[sizeof key.bytes];
			memcpy(copy, key.bytes, sizeof copy);
			cancel_key_set_hops(copy, hops);
			cr_assert_eq(cancel_key_hops(span_of(copy, key.size)), hops);
			cr_assert_eq(cancel_key_peer(span_of(copy, key.size)), rows[i].peer_id);
			cr_assert_eq(cancel_key_equal(&key, span_of(copy, key.size)),
			             hops == CANCEL_KEY_HOPS);
			cancel_key_set_hops(copy, CANCEL_KEY_HOPS);
			cr_assert_arr_eq(copy, key.bytes, sizeof copy);
		}
	}
	/* What is too short for the layout names nobody. */
	static const uint8_t short_bytes[7] = {1, 2, 3, 4, 5, 6, 7};
	for (uint32_t size = 0; size <= sizeof short_bytes; size++) {
		cr_assert_eq(cancel_key_peer(span_of(short_bytes, size)), 0);
		cr_assert_eq(cancel_key_hops(span_of(short_bytes, size)), 0);
	}
}

Test(cancel_key, every_bit_counts)
{
	for (int long_key = 0; long_key <= 1; long_key++) {
		struct cancel_key key;
		uint8_t random[sizeof key.bytes], copy[CANCEL_KEY_MAX] = {0};
		for (uint32_t i = 0; i < sizeof random; i++)
			random[i] = (uint8_t)(i * 37 + 11);
		cancel_key_make(&key, random, long_key, 0);
		memcpy(copy, key.bytes, sizeof key.bytes);
		for (uint32_t size = 0; size <= sizeof copy; size++)
			cr_assert_eq(cancel_key_equal(&key, span_of(copy, size)), size == key.size);
		for (uint32_t bit = 0; bit < key.size * 8U; bit++) {
			copy[bit / 8] ^= (uint8_t)(1U << bit % 8);
			cr_assert_not(cancel_key_equal(&key, span_of(copy, key.size)));
			copy[bit / 8] ^= (uint8_t)(1U << bit % 8);
		}
	}
	/* No key yet: equal to nothing. */
	struct cancel_key none = {0};
	cr_assert_not(cancel_key_equal(&none, span_of("", 0)));
}
