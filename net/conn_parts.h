/*
 * conn_parts.h - what conn.c and conn_send.c tell each other; nobody else's.
 *
 * None of these calls anybody back except conn_sent().  conn_fail() only turns
 * the state; conn_tend() then brings operations in line with it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_CONN_PARTS_H
#define NET_CONN_PARTS_H

#include "core/base/check.h"
#include "net/conn.h"

struct completion;

static inline bool conn_flies(const struct conn *conn, enum op_kind kind)
{
	return (conn->in_flight & 1U << kind) != 0;
}

static inline void conn_begin(struct conn *conn, enum op_kind kind)
{
	CHECK(!conn_flies(conn, kind));
	conn->in_flight = (uint8_t)(conn->in_flight | 1U << kind);
}

static inline void conn_end(struct conn *conn, enum op_kind kind)
{
	CHECK(conn_flies(conn, kind));
	conn->in_flight = (uint8_t)(conn->in_flight & ~(1U << kind));
}

/* Turns to CLOSING; the first error stays. */
void conn_fail(struct conn *conn, int error);

/* Starts and ends operations as the state wants it; idempotent. */
void conn_tend(struct conn *conn);

/* The completion of a send. */
void conn_sent(struct conn *conn, const struct completion *completion);

/* Nothing is left to be sent: our end of file. */
void conn_end_send(struct conn *conn);

/* Drops all that is queued; no send may be in flight. */
void conn_unqueue(struct conn *conn);

/* Takes the conn off the list of those who send or want to. */
void conn_unlist(struct conn *conn);

#endif
