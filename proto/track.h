/*
 * track.h - what was asked of a server, what has been answered.
 *
 * A track is a typed queue of the replies that a server still owes, with the
 * transaction status and the COPY state: it answers the one question of a
 * pooler, "may this server change hands?".  It sees the type of each message
 * on its way, in stream order, and no payload.
 *
 * Requests are queued as P B D E C S Q F, and COPY's ends c f; Flush, CopyData
 * and Terminate owe nothing.  The head of the queue is what the server is
 * working on.  It leaves with the reply that ends it:
 *
 *	1 2 3   P B C          T n   D (a RowDescription with Q at the head ends nothing)
 *	C I s   E              Z     S Q F
 *
 * ErrorResponse with P B D E C at the head: the server skips to Sync, so all
 * up to the next S leaves too, and what comes from the client until then is
 * forwarded but owes nothing.  With Q, F or S at the head: Z follows.
 *
 * COPY IN (G), COPY BOTH (W): the server reads and ignores S while it copies
 * (H and d are not queued anyway), so the S between the head and the first c
 * or f leave when the copy ends.  When it ends by an error, whether such an S
 * was swallowed or will be answered depends on how far the server had read:
 * the track is `suspect` then, and its server is closed, not reused.  Where more
 * was asked right behind them, they stay, and those that have had no Z when that is
 * answered were swallowed.  A c or f at the head outside of COPY owes nothing (the
 * server ignores it).
 *
 * How a request was asked is its mode: as the client sent it; our own (SET,
 * reset, check), all of whose replies are dropped; quiet, ours ahead of what the
 * client sent, so that only its error is the client's; local, not sent at all
 * but answered by the relay when it comes to the head (track_take_local());
 * mapped, the client's with another statement name.
 *
 * Each request has a position: they count up over the life of the track, and
 * what was noted about a request (core/statements.h) is noted under it.
 *
 * A reply nobody asked for makes the track suspect.  An ErrorResponse, Notice
 * or ParameterStatus with an empty queue makes it not ready, until the next Z.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_TRACK_H
#define PROTO_TRACK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/check.h"

enum verdict {
	VERDICT_FORWARD, /* send on */
	VERDICT_HOLD,    /* wait for the message's end, then ask again */
	VERDICT_REPLACE, /* send other bytes instead */
	VERDICT_ANSWER,  /* reply ourselves */
	VERDICT_DROP,    /* nobody sees it */
	VERDICT_BAD,     /* not a message of this side: close */
};

enum track_mode { TRACK_PLAIN, TRACK_OWN, TRACK_QUIET, TRACK_LOCAL, TRACK_MAPPED };

enum track_copy { COPY_NONE, COPY_IN, COPY_OUT, COPY_BOTH };

struct track {
	uint8_t *owed; /* ring of one-byte entries, each at its position modulo `room` */
	uint32_t room; /* a power of two */
	uint32_t count;
	uint32_t base;       /* position of the head: requests that have left the queue */
	uint32_t batch;      /* position behind the last Sync asked for */
	uint32_t flushed;    /* position behind the last request that a Flush followed */
	uint32_t last_ready; /* of the last request that is answered by a Z */
	uint32_t doubtful;   /* S from the head on (or behind it) that a COPY may have swallowed */
	uint32_t cut_from, cut_to; /* positions that the last ErrorResponse made fail */
	char status;               /* of the last Z: 'I', 'T', 'E'; 0 before the first */
	bool ready;                /* the last thing that happened on the server is a Z */
	bool skipping;             /* the server discards all until a Sync that has not come yet */
	bool failed;               /* an ErrorResponse since the last Z */
	bool suspect;              /* lost count: close the server instead of reusing it */
	uint8_t copy;              /* enum track_copy */
	uint8_t inline_owed[16];
};

/* What is in an entry: the letter of the request in five bits, its mode in three. */
enum { TRACK_KIND_BITS = 0x1f, TRACK_MODE_SHIFT = 5, TRACK_COPY_END = 'K' };

/* The queue starts inside the track and takes memory from the caller when it
 * grows: track_full() says when, track_grow() gives twice the room (the old
 * memory, if it was the caller's, comes back by return). */
void track_init(struct track *track);
bool track_full(const struct track *track);
void *track_grow(struct track *track, void *memory, uint32_t room);

static inline uint32_t track_room(const struct track *track)
{
	return track->room - track->count;
}

/* Forgets everything owed and takes back the caller's memory (NULL if inline). */
void *track_fini(struct track *track);

/* The position of the request that is asked next. */
static inline uint32_t track_position(const struct track *track)
{
	return track->base + track->count;
}

/* A client's message goes to the server: FORWARD, DROP (late CopyData, CopyDone,
 * CopyFail outside of COPY), BAD (not a frontend message).  Terminate: DROP; the
 * caller acts on it.  Not to be called while track_full(). */
enum verdict track_request(struct track *track, uint8_t type);

/* The same for 'Q' and 'S','P','B','D','E','C' in a mode; also 'F', as the client's. */
static inline void track_ask(struct track *track, uint8_t type, enum track_mode mode)
{
	CHECK_SLOW(type != 0 && strchr("QSPBDECF", type) != NULL);
	if (type == 'S')
		track->skipping = false;
	if (mode != TRACK_LOCAL)
		track->ready = false;
	if (track->skipping)
		return; /* discarded by the server */
	CHECK(track->count < track->room);
	uint32_t entry = (type & TRACK_KIND_BITS) | (uint32_t)mode << TRACK_MODE_SHIFT;
	if (type == 'S' || type == 'Q' || type == 'F')
		track->last_ready = track_position(track);
	track->owed[track_position(track) & (track->room - 1)] = (uint8_t)entry;
	track->count++;
	if (type == 'S')
		track->batch = track_position(track);
}

/* The entry of the head. */
static inline uint8_t track_head(const struct track *track)
{
	return track->owed[track->base & (track->room - 1)];
}

/* How the head was asked; TRACK_PLAIN of an empty queue. */
static inline enum track_mode track_head_mode(const struct track *track)
{
	if (track->count == 0)
		return TRACK_PLAIN;
	return (enum track_mode)(track_head(track) >> TRACK_MODE_SHIFT);
}

/* Takes the head away, and the ends of COPYs that come to the front by it. */
static inline void track_pop(struct track *track)
{
	CHECK(track->count > 0);
	do {
		track->count--;
		track->base++;
	} while (track->count > 0 &&
	         (track_head(track) & TRACK_KIND_BITS) == (TRACK_COPY_END & TRACK_KIND_BITS));
}

/* Takes a local request off the head and returns its type; 0: there is none. */
uint8_t track_take_local(struct track *track);

/* Whether a Parse may be answered by the relay: when it comes to its turn the
 * transaction cannot be one that has failed. */
bool track_may_answer(const struct track *track);

/* A message of the server, once it is whole or, for types that may be large, at
 * its first piece: FORWARD, DROP (what is ours alone), BAD.  `status` is the
 * byte of a Z and ignored otherwise. */
enum verdict track_reply(struct track *track, uint8_t type, char status);

/* The same for a ReadyForQuery. */
enum verdict track_ready(struct track *track, char status);

/* What a reply is to what the server is working on, a bit per letter of a request:
 * a part of its answer, or the end.  Rows of zeros: track_reply() knows more. */
enum { TRACK_COPYING_OUT = 1 }; /* the bit of a COPY OUT, whose letter would be '@' */
struct track_row {
	uint32_t part, end;
};
extern const struct track_row track_rows[256];

/* What a ReadyForQuery ends: S, Q, F. */
#define TRACK_ENDS_READY                                                 \
	(1U << ('S' & TRACK_KIND_BITS) | 1U << ('Q' & TRACK_KIND_BITS) | \
	 1U << ('F' & TRACK_KIND_BITS))

/* What the server is working on, as a bit of such rows, where its client gets the
 * replies as they are; 0: nothing, or track_reply() has more to do. */
static inline uint32_t track_working_on(const struct track *track)
{
	enum track_mode mode = track_head_mode(track);
	if (track->count == 0 || track->suspect || (mode != TRACK_PLAIN && mode != TRACK_MAPPED))
		return 0;
	if (track->copy == COPY_NONE)
		return 1U << (track_head(track) & TRACK_KIND_BITS);
	return track->copy == COPY_OUT ? TRACK_COPYING_OUT : 0;
}

/* track_reply() for what servers say most: true is FORWARD; false: nothing was done.
 * *working_on is track_working_on() before and after. */
static inline bool track_reply_common(struct track *track, uint8_t type, uint32_t *working_on)
{
	const struct track_row *row = &track_rows[type];
	if (((row->part | row->end) & *working_on) == 0)
		return false;
	track->ready = false;
	if ((row->end & *working_on) != 0) {
		track_pop(track);
		*working_on = track_working_on(track);
	}
	return true;
}

/* The same for a ReadyForQuery that ends what a client has asked. */
static inline bool track_ready_common(struct track *track, char status, uint32_t working_on)
{
	if ((working_on & TRACK_ENDS_READY) == 0 ||
	    (status != 'I' && status != 'T' && status != 'E'))
		return false;
	track->status = status;
	track->ready = true;
	track->failed = false;
	track->skipping = false;
	track_pop(track);
	return true;
}

/* Whether nothing is owed, no COPY is open and the last Z said 'I'. */
bool track_is_free(const struct track *track);

/* Whether replies are owed (a c or f that nobody waits for does not count). */
static inline bool track_owes(const struct track *track)
{
	return track->count > 0;
}

/* Whether a COPY goes on that its client has not ended: the server answers nothing
 * until it has been told more. */
bool track_waits_for_data(const struct track *track);

/* Whether the server will answer all that is owed by what it has been sent: that
 * ends with a Sync, a Query, a FunctionCall or a Flush, and no COPY waits for data. */
bool track_will_end(const struct track *track);

/* Whether what is owed next is our own, so that its replies are dropped. */
static inline bool track_is_skipping_own(const struct track *track)
{
	return track_head_mode(track) == TRACK_OWN;
}

#endif
