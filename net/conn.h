/*
 * conn.h - one byte stream to a peer, driven by a loop.
 *
 * A conn is embedded in what it serves (a client, a server) and stays put
 * while open.  It reports to its owner through events and nothing else; they
 * come from the loop's turn, never from inside a conn_*() call.
 *
 *	CLOSED --conn_connect--> OPENING --on_open--> OPEN <--conn_accept-- CLOSED
 *	   ^                        |                  |  \--conn_detach--> DETACHING
 *	   |                        |     conn_finish  |                       |
 *	   +---on_closed--- CLOSING <---LINGERING<-----+        on_detached, conn_release
 *
 * CLOSING lasts until the kernel has handed back every operation it holds on
 * our memory.  on_closed then comes exactly once, and only after it may the
 * conn be reused.  There is no way to skip the wait.  What goes wrong, now or
 * later, arrives as on_closed with -errno: failure has one place, not two.
 *
 * on_bytes lends a buf for the call; who wants to keep it holds it.  conn_send
 * holds what it queues.  Sends leave in one gathered operation at the end of
 * the turn, one in flight at a time.  Above CONN_QUEUE_HIGH bytes of buffer
 * memory conn_is_full() is true; the owner pauses the conn that feeds this
 * one until on_room.  While paused, some bytes may still arrive (what the
 * kernel had under way), and on_hangup tells that the peer has left.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef NET_CONN_H
#define NET_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "net/addr.h"
#include "net/op.h"

struct buf;
struct conn;
struct loop;
struct gather;

enum conn_state {
	CONN_CLOSED,
	CONN_OPENING, /* connecting */
	CONN_OPEN,
	CONN_DETACHING, /* waits for its operations, to move or to change */
	CONN_LINGERING, /* last bytes going out, then end of file both ways */
	CONN_CLOSING,   /* waits for its operations, to be closed */
};

struct conn_events {
	void (*on_open)(struct conn *conn);
	void (*on_bytes)(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to);
	void (*on_eof)(struct conn *conn);    /* the peer will send no more; we still may */
	void (*on_room)(struct conn *conn);   /* was full, is not any more */
	void (*on_hangup)(struct conn *conn); /* while not received: the peer has closed its side */
	void (*on_detached)(struct conn *conn);
	void (*on_closed)(struct conn *conn, int error); /* 0 or -errno */
};

/* What a conn has queued: bytes [from, to) of a buf that it holds. */
struct conn_piece {
	struct conn_piece *next;
	struct buf *buf; /* NULL: the piece is free */
	uint32_t from, to;
};

struct conn {
	struct op_owner owner;
	const struct conn_events *events;
	struct loop *loop;
	int fd;
	int error;         /* for on_closed */
	uint8_t state;     /* enum conn_state */
	uint8_t in_flight; /* a bit per enum op_kind */
	uint8_t group;     /* RING_GROUP_* it receives into */
	bool paused;
	bool unheard;    /* paused, and its receive must end */
	bool ended;      /* end of file was seen */
	bool full;       /* above high water, on_room is due */
	bool canceling;  /* the receive is being ended */
	bool unpolling;  /* the poll of the paused is being ended */
	bool copying;    /* the send is being ended, to copy out */
	bool armed;      /* has received before, or has something to receive */
	bool hung_up;    /* on_hangup was told */
	bool detached;   /* on_detached was told */
	bool shut;       /* our end of file was sent */
	bool hasty;      /* the send in flight does not wait: the turn ends it */
	bool patient;    /* the last one found no room: the next waits for it */
	uint32_t queued; /* bytes not yet sent */
	uint32_t held;   /* memory of the bufs they lie in */
	struct piece_link {
		struct conn_piece *first, *last;
	} queue;
	struct conn_piece piece; /* most queues are no longer than one */
	struct gather *gather;   /* of the send in flight, NULL for a plain send */
	uint32_t sending;        /* bytes in flight, the first of the queue */
	uint32_t borrowed;       /* pieces queued that lie in receive buffers */
	uint32_t sent_ms;        /* when the send in flight was started */
	uint32_t linger_until_ms;
	struct link send_link;    /* in loop->to_send; or stalled, with a send in flight */
	struct link starved_link; /* in loop->starved */
	struct link wait_link;    /* in loop->lingering or settled */
};

/* Starts a conn on a connected socket (accepted, or moved here); receives are
 * armed with the next turn, and wait first unless the peer `has_spoken`.  False
 * without memory: the fd stays the caller's. */
bool conn_accept(struct conn *conn, struct loop *loop, int fd, uint8_t group,
                 const struct conn_events *events, bool has_spoken);

/* Starts a conn towards `addr`, which must stay until on_open or on_closed.
 * -errno if there is no socket to be had: then nothing was started. */
int conn_connect(struct conn *conn, struct loop *loop, const struct addr *addr, uint8_t group,
                 const struct conn_events *events);

/* Queues bytes [from, to) of buf; holds it until they are sent.  Ignored
 * unless OPEN.  Never fails: without memory the conn closes with -ENOMEM. */
void conn_send(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to);

/* The same by copy into a block, for bytes of our own making; small ones share
 * a block. */
void conn_send_copy(struct conn *conn, const void *bytes, uint32_t size);

static inline bool conn_is_full(const struct conn *conn)
{
	return conn->full;
}

/* Everything queued has been taken by the kernel. */
static inline bool conn_is_flushed(const struct conn *conn)
{
	return conn->queue.first == NULL;
}

/* Stops and restarts on_bytes.  Idempotent. */
void conn_pause(struct conn *conn);
void conn_resume(struct conn *conn);

/* The same as conn_pause() for a peer that is not expected to say anything: its receive
 * ends only when it does.  What was received until then comes still, and on_eof does. */
void conn_pause_quietly(struct conn *conn);

/* Ends all operations, then on_detached: nothing of it is in the kernel's
 * hands, and nothing may be queued.  Bytes may come until then.  After it the
 * owner calls conn_release() and starts a conn elsewhere with the fd, or
 * conn_reattach() to go on here. */
void conn_detach(struct conn *conn);
int conn_release(struct conn *conn); /* the fd; the conn is CLOSED, no on_closed */
void conn_reattach(struct conn *conn);

/* Sends what is queued, then end of file, reads off what the peer still says
 * (so that our last words are not lost to a reset) until its end of file or
 * CONN_LINGER_MS, then closes.  Idempotent. */
void conn_finish(struct conn *conn);

/* Closes at once; what is queued is lost.  Idempotent, also after conn_finish. */
void conn_close(struct conn *conn);

/* For the loop. */
void conn_flush(struct conn *conn);         /* sends what is queued */
void conn_sent_all(struct conn *conn);      /* its hasty send is done */
void conn_sent_less(struct conn *conn);     /* its hasty send has a completion */
void conn_starved_retry(struct conn *conn); /* buffers have come back */
void conn_linger_expire(struct conn *conn);
void conn_copy_out(struct conn *conn);        /* frees receive buffers it queues */
void conn_settled(struct conn *conn);         /* ends it or tells that it may move */
struct conn *conn_of(struct op_owner *owner); /* NULL: not a conn */
bool conn_waits(const struct conn *conn);     /* open, and its receive is armed */
void conn_receive_again(struct conn *conn);   /* ends the receive and arms it anew */

#endif
