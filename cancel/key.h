/*
 * key.h - keys given to clients and read from cancel requests.
 *
 * 3.0: 8 bytes ("pid" and secret), the top bit of byte 0 clear.  3.2: 32 bytes
 * behind the same first 4 ("pid" is not part of what is compared apart; a key
 * here is all bytes of BackendKeyData).  With a peer id the first 8 bytes are
 * PgBouncer's layout: bytes 1 and 2 the id, little-endian, and the two lowest
 * bits of byte 7 the hop count, 3 in a fresh key.  Processes lower it when they
 * forward a key: whoever gets his own back sets it to CANCEL_KEY_HOPS again
 * before he looks it up or compares it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CANCEL_KEY_H
#define CANCEL_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"
#include "core/base/limits.h"

enum { CANCEL_KEY_HOPS = 3 };

struct cancel_key {
	uint8_t size; /* CANCEL_KEY_SHORT, or 4 + CANCEL_KEY_LONG */
	uint8_t bytes[4 + CANCEL_KEY_LONG];
};

/* From `random` of sizeof key.bytes bytes.  peer_id 0: none. */
void cancel_key_make(struct cancel_key *key, const uint8_t *random, bool long_key,
                     uint16_t peer_id);

/* Constant time. */
bool cancel_key_equal(const struct cancel_key *key, struct span bytes);

/* The peer id and hop count of a key in PgBouncer's layout; 0 if `bytes` is
 * shorter than that. */
uint16_t cancel_key_peer(struct span bytes);
uint8_t cancel_key_hops(struct span bytes);

/* In at least CANCEL_KEY_SHORT bytes of a key; hops <= CANCEL_KEY_HOPS. */
void cancel_key_set_hops(uint8_t *bytes, uint8_t hops);

#endif
