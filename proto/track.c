/*
 * track.c - see track.h.
 *
 * An entry is the letter of its request in five bits and its mode in three; both
 * ends of a COPY are queued as COPY_END.  What a message does follows from
 * the head alone, and that is exact, because each request has one last reply
 * and PostgreSQL answers in order.
 *
 * The head is never a COPY_END: what ends a COPY stands behind the request
 * that opened it, and one that has come to the front belongs to no COPY, the
 * server ignores it and so do we.  An empty queue thus means nothing owed.
 *
 * No reply is ever held back because the count is off: if the server says
 * what nobody asked for, the bytes go on and the track becomes suspect.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/track.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"

enum { KIND_BITS = TRACK_KIND_BITS, KIND_LETTER = 0x40, COPY_END = TRACK_COPY_END };

#define KIND(letter) (1U << ((letter)&KIND_BITS))
const struct track_row track_rows[256] = {
	['1'] = {.end = KIND('P')},
	['2'] = {.end = KIND('B')},
	['3'] = {.end = KIND('C')},
	['C'] = {.part = KIND('Q'), .end = KIND('E')},
	['D'] = {.part = KIND('Q') | KIND('E')},
	['T'] = {.part = KIND('Q') | KIND('E'), .end = KIND('D')},
	['d'] = {.part = TRACK_COPYING_OUT},
	['n'] = {.end = KIND('D')},
	['s'] = {.end = KIND('E')},
	['t'] = {.part = KIND('D')},
};
#undef KIND

void track_init(struct track *track)
{
	*track = (struct track){.room = sizeof track->inline_owed, .last_ready = UINT32_MAX};
	track->owed = track->inline_owed;
}

bool track_full(const struct track *track)
{
	return track->count == track->room;
}

static uint8_t *entry_at(const struct track *track, uint32_t place)
{
	return &track->owed[(track->base + place) & (track->room - 1)];
}

/* The request at a place of the queue, the head being 0; 0 behind the end. */
static uint8_t kind_at(const struct track *track, uint32_t place)
{
	if (place >= track->count)
		return 0;
	return (uint8_t)((*entry_at(track, place) & KIND_BITS) | KIND_LETTER);
}

static void drop(struct track *track, uint32_t count)
{
	CHECK(count <= track->count);
	track->count -= count;
	track->base += count;
}

static void *memory_of(struct track *track)
{
	return track->owed == track->inline_owed ? NULL : track->owed;
}

void *track_grow(struct track *track, void *memory, uint32_t room)
{
	CHECK(room == 2 * track->room && room <= OWED_MAX);
	uint8_t *owed = (uint8_t *)memory;
	void *old = memory_of(track);
	for (uint32_t i = 0; i < track->count; i++)
		owed[(track->base + i) & (room - 1)] = *entry_at(track, i);
	track->owed = owed;
	track->room = room;
	return old;
}

void *track_fini(struct track *track)
{
	void *old = memory_of(track);
	track->owed = track->inline_owed;
	track->room = sizeof track->inline_owed;
	track->count = 0;
	return old;
}

static enum verdict request_of_copy(struct track *track, uint8_t type)
{
	bool working = track->count > 0;
	if (!working && !track->skipping && track->copy == COPY_NONE)
		return VERDICT_DROP;
	if (working && type != 'd' && !track->skipping) {
		CHECK(!track_full(track));
		*entry_at(track, track->count++) = COPY_END & KIND_BITS;
	}
	track->ready = false;
	return VERDICT_FORWARD;
}

enum verdict track_request(struct track *track, uint8_t type)
{
	switch (type) {
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
	case 'S':
	case 'Q':
	case 'F': track_ask(track, type, TRACK_PLAIN); return VERDICT_FORWARD;
	case 'd':
	case 'c':
	case 'f': return request_of_copy(track, type);
	case 'H':
		track->flushed = track_position(track);
		/* Leaves `ready` alone: an idle server does nothing about it, and must
		 * not be bound to a client for it. */
		return VERDICT_FORWARD;
	case 'X': return VERDICT_DROP;
	default: return VERDICT_BAD;
	}
}

uint8_t track_take_local(struct track *track)
{
	if (track_head_mode(track) != TRACK_LOCAL)
		return 0;
	uint8_t kind = kind_at(track, 0);
	track_pop(track);
	return kind;
}

bool track_may_answer(const struct track *track)
{
	bool ready_due = (int32_t)(track->last_ready - track->base) >= 0;
	return (track->status == 'I' || track->status == 'T') && !ready_due && !track->skipping;
}

static bool is_copying_in(const struct track *track)
{
	return track->copy == COPY_IN || track->copy == COPY_BOTH;
}

/* How many S stand right behind the head: what a COPY IN may have swallowed. */
static uint32_t syncs_behind_head(const struct track *track)
{
	uint32_t count = 0;
	while (kind_at(track, count + 1) == 'S')
		count++;
	return count;
}

static void drop_behind_head(struct track *track, uint32_t count)
{
	*entry_at(track, count) = *entry_at(track, 0);
	drop(track, count);
}

/* The server read up to the client's CopyDone, so it has swallowed each S in
 * front of that. */
static void copy_in_done(struct track *track)
{
	uint32_t syncs = syncs_behind_head(track);
	if (kind_at(track, syncs + 1) == COPY_END)
		drop_behind_head(track, syncs + 1);
	else
		track->suspect = true;
	track->copy = COPY_NONE;
}

/* The server may have stopped anywhere.  A client that sent Sync together with
 * Execute sends another one after the COPY (libpq, tokio-postgres), and nearly
 * always the server had read the first: so the guess is that all were
 * swallowed.  Where a request follows with no end of the COPY between, its answer
 * will tell. */
static void copy_in_failed(struct track *track)
{
	uint32_t syncs = syncs_behind_head(track);
	uint8_t next = kind_at(track, syncs + 1);
	if (syncs > 0)
		track->suspect = true;
	if (next == 0 || next == COPY_END)
		drop_behind_head(track, syncs + (next == COPY_END));
	else
		track->doubtful = syncs;
}

/* Not a Z: what it answers stands behind each S that may have been swallowed. */
static void doubts_end(struct track *track)
{
	drop(track, track->doubtful);
	track->doubtful = 0;
}

static void on_error(struct track *track)
{
	bool copying_in = is_copying_in(track);
	track->failed = true;
	track->copy = COPY_NONE;
	track->cut_from = track->cut_to = track->base;
	if (track->count == 0)
		return;
	if (copying_in)
		copy_in_failed(track);

	uint8_t head = kind_at(track, 0);
	if (head == 'Q' || head == 'F' || head == 'S') {
		track->cut_to = track->base + 1;
		return;
	}
	while (track->count > 0 && kind_at(track, 0) != 'S')
		drop(track, 1);
	track->cut_to = track->base;
	track->skipping = track->count == 0;
}

enum verdict track_ready(struct track *track, char status)
{
	enum verdict verdict = track_is_skipping_own(track) ? VERDICT_DROP : VERDICT_FORWARD;
	bool ends_login = track->status == 0;
	track->ready = false;
	if (status != 'I' && status != 'T' && status != 'E')
		return VERDICT_BAD;
	track->status = status;
	track->ready = true;
	track->failed = false;
	track->skipping = false;
	track->copy = COPY_NONE;

	uint8_t head = kind_at(track, 0);
	if (head == 'S' || head == 'Q' || head == 'F') {
		track->doubtful -= head == 'S' && track->doubtful > 0;
		track_pop(track);
		return verdict;
	}
	track->suspect = track->suspect || head != 0 || !ends_login;
	while (track->count > 0 && kind_at(track, 0) != 'S')
		drop(track, 1);
	if (track->count > 0)
		track_pop(track);
	return verdict;
}

/* A reply that ends `request`, which is to be at the head. */
static void on_end(struct track *track, uint8_t request)
{
	if (kind_at(track, 0) == request)
		track_pop(track);
	else
		track->suspect = true;
}

/* A reply in the middle of what one of two requests brings. */
static void on_part(struct track *track, uint8_t request, uint8_t other)
{
	uint8_t head = kind_at(track, 0);
	if (head != request && head != other)
		track->suspect = true;
}

/* CommandComplete, EmptyQueryResponse, PortalSuspended: end an Execute, but
 * only a statement of a Query. */
static void on_complete(struct track *track, uint8_t type)
{
	if (type == 'C' && is_copying_in(track))
		copy_in_done(track);
	if (kind_at(track, 0) != 'Q')
		on_end(track, 'E');
}

static void on_copy_start(struct track *track, enum track_copy copy)
{
	on_part(track, 'E', 'Q');
	track->copy = (uint8_t)copy;
}

/* In COPY BOTH the client's direction may still be open: CommandComplete ends it. */
static void on_copy_done(struct track *track)
{
	if (track->copy == COPY_OUT)
		track->copy = COPY_NONE;
	else if (track->copy != COPY_BOTH)
		track->suspect = true;
}

enum verdict track_reply(struct track *track, uint8_t type, char status)
{
	if (UNLIKELY(track->doubtful > 0) && kind_at(track, 0) == 'S' &&
	    strchr("ANSZ", type) == NULL)
		doubts_end(track);
	enum track_mode mode = track_head_mode(track);
	bool is_ours = mode == TRACK_OWN || (mode == TRACK_QUIET && (type == '1' || type == '3'));
	enum verdict verdict = is_ours ? VERDICT_DROP : VERDICT_FORWARD;
	if (type == 'A')
		return VERDICT_FORWARD;

	/* Also what was asked before the last Z came: the server has gone on since. */
	track->ready = false;
	switch (type) {
	case '1': on_end(track, 'P'); break;
	case '2': on_end(track, 'B'); break;
	case '3': on_end(track, 'C'); break;
	case 'n': on_end(track, 'D'); break;
	case 't': on_part(track, 'D', 'D'); break;
	case 'D': on_part(track, 'E', 'Q'); break;
	case 'V': on_part(track, 'F', 'F'); break;
	case 'G': on_copy_start(track, COPY_IN); break;
	case 'H': on_copy_start(track, COPY_OUT); break;
	case 'W': on_copy_start(track, COPY_BOTH); break;
	case 'c': on_copy_done(track); break;
	case 'E': on_error(track); break;
	case 'T':
		if (kind_at(track, 0) == 'D')
			track_pop(track);
		else
			on_part(track, 'E', 'Q');
		break;
	case 'C':
	case 'I':
	case 's': on_complete(track, type); break;
	case 'd':
		if (track->copy != COPY_OUT && track->copy != COPY_BOTH)
			track->suspect = true;
		break;
	case 'Z': return track_ready(track, status);
	case 'N':
	case 'S': break;
	default: return VERDICT_BAD;
	}
	return verdict;
}

bool track_is_free(const struct track *track)
{
	return track->count == 0 && track->ready && track->status == 'I' && !track->skipping &&
	       track->copy == COPY_NONE;
}

bool track_waits_for_data(const struct track *track)
{
	/* anything but a Sync ends it, if only by an error */
	return is_copying_in(track) && kind_at(track, syncs_behind_head(track) + 1) == 0;
}

bool track_will_end(const struct track *track)
{
	uint32_t last = track->count;
	while (last > 0 && kind_at(track, last - 1) == COPY_END)
		last--;
	uint8_t kind = last > 0 ? kind_at(track, last - 1) : 0;
	bool ends = kind == 'S' || kind == 'Q' || kind == 'F' ||
	            (kind != 0 && track->flushed == track_position(track));
	return ends && !track_waits_for_data(track);
}
