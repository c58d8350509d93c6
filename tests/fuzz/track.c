/*
 * A track against a model of PostgreSQL that reads requests in order, fails
 * at random and answers late.  What must hold at every step: a track that is
 * free and trusts its count stands for a server that has nothing to say and
 * nothing under way; a server at rest makes the track free (nothing hangs);
 * the verdicts tell our own replies from the client's; and the count is lost
 * only where a COPY failed with a Sync behind it.  An odd first byte drives
 * both sides with any types at all instead: then only memory is judged.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/track.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"

enum { QUEUE_MAX = 4096 };

struct event {
	uint8_t type;
	char status;
	bool own;
	bool unasked;
};

struct queue {
	struct event events[QUEUE_MAX];
	uint32_t head, count;
};

struct model {
	const uint8_t *data;
	size_t left;
	struct track track;
	struct queue requests, replies;
	uint8_t copying;  /* 0, or the request that opened the COPY IN: E, Q */
	bool copying_own; /* whose request that was */
	bool skipping;    /* to Sync */
	bool open;        /* a batch is under way since the last Z */
	bool noise;       /* the idle server said something since the last Z */
	bool copy_failed; /* a COPY IN has failed: the count may be lost */
	bool dead;
	char status;
};

/* The fuzzer's next choice, below `limit`. */
static uint32_t choose(struct model *model, uint32_t limit)
{
	if (model->left == 0)
		return 0;
	model->left--;
	return *model->data++ % limit;
}

static void push(struct queue *queue, struct event event)
{
	CHECK(queue->count < QUEUE_MAX);
	uint32_t place = (queue->head + queue->count++) % QUEUE_MAX;
	queue->events[place] = event;
}

static struct event pull(struct queue *queue)
{
	CHECK(queue->count > 0);
	struct event event = queue->events[queue->head];
	queue->head = (queue->head + 1) % QUEUE_MAX;
	queue->count--;
	return event;
}

static void say(struct model *model, const char *types, bool own)
{
	for (; *types != '\0'; types++)
		push(&model->replies, (struct event){.type = (uint8_t)*types, .own = own});
}

static void say_ready(struct model *model, bool own)
{
	model->status = "IIITE"[choose(model, 5)];
	model->open = false;
	push(&model->replies, (struct event){'Z', model->status, own, false});
}

static bool fails(struct model *model)
{
	return choose(model, 6) == 5;
}

/* The statements of a Query, or those that are left after a COPY: 'C' when all
 * are done, 'E' one failed, 'G' waiting for the client. */
static uint8_t run(struct model *model, bool own)
{
	static const char *const ways[] = {"TDC", "C", "I", "TC", "NC", "CS", "HddcC", "HdcC"};
	for (uint32_t left = choose(model, 3) + 1; left > 0; left--) {
		if (fails(model)) {
			say(model, choose(model, 2) ? "E" : "HdE", own);
			return 'E';
		}
		if (choose(model, 4) == 3) {
			say(model, "G", own);
			return 'G';
		}
		say(model, ways[choose(model, ARRAY_LEN(ways))], own);
	}
	return 'C';
}

static void fail_copy(struct model *model)
{
	bool own = model->copying_own;
	uint8_t by = model->copying;
	say(model, "E", own);
	model->copy_failed = true;
	model->copying = 0;
	if (by == 'Q')
		say_ready(model, own);
	else
		model->skipping = true;
}

static void start_copy(struct model *model, uint8_t by, bool own)
{
	model->copying = by;
	model->copying_own = own;
	if (fails(model)) /* as a trigger does, before the first message is read */
		fail_copy(model);
}

/* The end of a Query's run. */
static void after_run(struct model *model, uint8_t outcome, bool own)
{
	if (outcome == 'G')
		start_copy(model, 'Q', own);
	else
		say_ready(model, own);
}

static void read_in_copy(struct model *model, uint8_t type)
{
	bool own = model->copying_own;
	if (type == 'H' || type == 'S')
		return;
	if (type != 'd' && type != 'c' && type != 'f') {
		model->dead = true;
		return;
	}
	if (type == 'f' || fails(model)) {
		fail_copy(model);
		return;
	}
	if (type == 'd')
		return;
	say(model, "C", own);
	uint8_t by = model->copying;
	model->copying = 0;
	if (by == 'Q')
		after_run(model, choose(model, 2) ? run(model, own) : 'C', own);
}

static void execute(struct model *model, bool own)
{
	static const char *const ways[] = {"C", "DDC", "I", "Ds", "s", "NC", "HdcC", "DAC"};
	if (choose(model, 4) == 3) {
		say(model, "G", own);
		start_copy(model, 'E', own);
		return;
	}
	say(model, ways[choose(model, ARRAY_LEN(ways))], own);
}

/* P B D E C. */
static void read_in_batch(struct model *model, uint8_t type, bool own)
{
	static const char *const describes[] = {"T", "n", "tT", "tn"};
	model->open = true;
	if (fails(model)) {
		say(model, type == 'E' && choose(model, 2) ? "DDE" : "E", own);
		model->skipping = true;
		return;
	}
	switch (type) {
	case 'P': say(model, "1", own); break;
	case 'B': say(model, "2", own); break;
	case 'C': say(model, "3", own); break;
	case 'D': say(model, describes[choose(model, 4)], own); break;
	default: execute(model, own); break;
	}
}

static void read_request(struct model *model)
{
	struct event request = pull(&model->requests);
	if (model->copying != 0) {
		read_in_copy(model, request.type);
		return;
	}
	if (request.type == 'S')
		model->skipping = false;
	if (model->skipping || strchr("dcfH", request.type) != NULL)
		return;
	switch (request.type) {
	case 'S':
		say(model, fails(model) ? "E" : "", request.own);
		say_ready(model, request.own);
		break;
	case 'F':
		say(model, fails(model) ? "E" : "V", request.own);
		say_ready(model, request.own);
		break;
	case 'Q': after_run(model, run(model, request.own), request.own); break;
	default: read_in_batch(model, request.type, request.own); break;
	}
}

static void make_room(struct track *track)
{
	if (track_full(track))
		free(track_grow(track, malloc(2 * (size_t)track->room), 2 * track->room));
}

static bool has_answers(const struct queue *replies)
{
	for (uint32_t i = 0; i < replies->count; i++)
		if (!replies->events[(replies->head + i) % QUEUE_MAX].unasked)
			return true;
	return false;
}

static bool is_at_rest(const struct model *model)
{
	return !has_answers(&model->replies) && model->copying == 0 && !model->skipping &&
	       !model->open && !model->noise && model->status == 'I';
}

static bool will_answer(const struct queue *requests)
{
	for (uint32_t i = 0; i < requests->count; i++)
		if (strchr("dcfH", requests->events[(requests->head + i) % QUEUE_MAX].type) == NULL)
			return true;
	return false;
}

static void judge(const struct model *model)
{
	const struct track *track = &model->track;
	CHECK(track->count <= track->room && track->room <= OWED_MAX);
	CHECK(!track->suspect || model->copy_failed);
	if (track->suspect)
		return;
	bool quiet = is_at_rest(model) && !will_answer(&model->requests);
	CHECK(track_is_free(track) == quiet);
	CHECK(!quiet || !track_owes(track));
}

static void send(struct model *model)
{
	static const char types[] = "PBDECSQFHdcfSEQSdcE";
	bool own = choose(model, 8) == 7;
	uint8_t type = (uint8_t)types[choose(model, own ? 7 : sizeof types - 1)];
	make_room(&model->track);
	if (own)
		track_ask(&model->track, type, TRACK_OWN);
	else if (track_request(&model->track, type) == VERDICT_DROP)
		return;
	push(&model->requests, (struct event){.type = type, .own = own});
}

static void deliver(struct model *model)
{
	struct event reply = pull(&model->replies);
	bool idle = !track_owes(&model->track);
	enum verdict verdict = track_reply(&model->track, reply.type, reply.status);
	if (reply.type == 'Z')
		model->noise = false;
	else if (reply.unasked && reply.type != 'A' && idle)
		model->noise = true;
	bool hidden = reply.own && reply.type != 'A';
	CHECK(model->track.suspect || reply.unasked ||
	      verdict == (hidden ? VERDICT_DROP : VERDICT_FORWARD));
}

static void interrupt(struct model *model)
{
	static const char types[] = "ANS";
	if (!is_at_rest(model) || model->requests.count > 0)
		return;
	uint8_t type = (uint8_t)types[choose(model, 3)];
	push(&model->replies, (struct event){.type = type, .unasked = true});
}

static void play(struct model *model)
{
	track_reply(&model->track, 'Z', 'I');
	model->status = 'I';
	while (model->left > 0 && !model->dead && !model->track.suspect) {
		switch (choose(model, 8)) {
		case 0: interrupt(model); break;
		case 1:
		case 2:
		case 3:
			if (model->requests.count > 0 && model->replies.count < QUEUE_MAX / 2)
				read_request(model);
			break;
		case 4:
		case 5:
			if (model->replies.count > 0)
				deliver(model);
			break;
		default:
			if (model->requests.count < 1024)
				send(model);
			break;
		}
		if (!model->dead)
			judge(model);
	}
}

/* Any types from both sides. */
static void play_wild(struct model *model)
{
	while (model->left > 0) {
		uint32_t side = choose(model, 4);
		uint8_t type = (uint8_t)choose(model, 256);
		char status = "ITEx"[choose(model, 4)];
		if (track_full(&model->track) && model->track.room == OWED_MAX)
			side = 1;
		else
			make_room(&model->track);
		if (side == 1)
			track_reply(&model->track, type, status);
		else if (side == 2)
			track_ask(&model->track, (uint8_t) "QSPBDEC"[type % 7], TRACK_OWN);
		else
			track_request(&model->track, type);
		CHECK(model->track.count <= model->track.room);
		CHECK(!track_is_free(&model->track) || !track_owes(&model->track));
	}
}

/* NOLINTBEGIN(readability-identifier-naming): the name is libFuzzer's */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model model;
	if (size == 0)
		return 0;
	memset(&model, 0, sizeof model);
	model.data = data + 1;
	model.left = size - 1;
	track_init(&model.track);
	if (data[0] % 2 == 1)
		play_wild(&model);
	else
		play(&model);
	free(track_fini(&model.track));
	return 0;
}
/* NOLINTEND(readability-identifier-naming) */
