/*
 * key.c - see key.h.
 *
 * The top bit of byte 0 is clear because clients read the first four bytes as
 * the number of a process, which is never negative.  What is left is secret: 63
 * bits of a short key, 45 of them with a peer id.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cancel/key.h"

#include <string.h>

#include "core/base/check.h"

enum { HOPS_BYTE = 7, HOPS_MASK = 3 };

void cancel_key_make(struct cancel_key *key, const uint8_t *random, bool long_key, uint16_t peer_id)
{
	*key = (struct cancel_key){
		.size = long_key ? sizeof key->bytes : CANCEL_KEY_SHORT,
	};
	memcpy(key->bytes, random, key->size);
	key->bytes[0] &= 0x7f;
	if (peer_id == 0)
		return;
	key->bytes[1] = (uint8_t)peer_id;
	key->bytes[2] = (uint8_t)(peer_id >> 8);
	cancel_key_set_hops(key->bytes, CANCEL_KEY_HOPS);
}

bool cancel_key_equal(const struct cancel_key *key, struct span bytes)
{
	/* The size is no secret: the protocol's version tells it. */
	return key->size > 0 && bytes.size == key->size &&
	       bytes_equal_secret(key->bytes, bytes.data, key->size);
}

uint16_t cancel_key_peer(struct span bytes)
{
	if (bytes.size < CANCEL_KEY_SHORT)
		return 0;
	return (uint16_t)(bytes.data[1] | (uint32_t)bytes.data[2] << 8);
}

uint8_t cancel_key_hops(struct span bytes)
{
	return bytes.size < CANCEL_KEY_SHORT ? 0 : bytes.data[HOPS_BYTE] & HOPS_MASK;
}

void cancel_key_set_hops(uint8_t *bytes, uint8_t hops)
{
	CHECK(hops <= CANCEL_KEY_HOPS);
	bytes[HOPS_BYTE] = (uint8_t)((bytes[HOPS_BYTE] & ~HOPS_MASK) | hops);
}
