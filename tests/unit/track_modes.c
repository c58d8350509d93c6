/*
 * Requests that are not simply the client's own: of ours, quiet, answered by the
 * relay; and the positions under which what hangs on them is noted.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <criterion/criterion.h>
#include <string.h>

#include "proto/track.h"

static void ask(struct track *track, const char *requests, enum track_mode mode)
{
	for (const char *p = requests; *p != '\0'; p++)
		track_ask(track, (uint8_t)*p, mode);
}

/* What the client sees of a server's replies: a letter each, '-' for a dropped one. */
static void replies_are(struct track *track, const char *replies, const char *seen)
{
	for (; *replies != '\0'; replies++, seen++) {
		char status = *replies == 'Z' ? 'I' : 0;
		enum verdict verdict = track_reply(track, (uint8_t)*replies, status);
		cr_assert_eq(verdict, *seen == '-' ? VERDICT_DROP : VERDICT_FORWARD, "%s", replies);
	}
}

static void login(struct track *track)
{
	track_init(track);
	cr_assert_eq(track_reply(track, 'Z', 'I'), VERDICT_FORWARD);
}

Test(track_modes, quiet_requests_show_their_errors_only)
{
	struct track track;
	login(&track);
	ask(&track, "CP", TRACK_QUIET);
	ask(&track, "B", TRACK_MAPPED);
	ask(&track, "ES", TRACK_PLAIN);
	replies_are(&track, "3", "-");
	cr_assert_eq(track_head_mode(&track), TRACK_QUIET);
	replies_are(&track, "N12DCZ", "N-2DCZ");
	cr_assert(track_is_free(&track));

	ask(&track, "P", TRACK_QUIET);
	ask(&track, "B", TRACK_MAPPED);
	ask(&track, "S", TRACK_PLAIN);
	replies_are(&track, "EZ", "EZ");
	cr_assert(track_is_free(&track));
}

Test(track_modes, local_requests_leave_in_their_turn)
{
	struct track track;
	login(&track);
	ask(&track, "P", TRACK_LOCAL);
	cr_assert_eq(track_take_local(&track), 'P');
	cr_assert_eq(track_take_local(&track), 0);
	cr_assert(track_is_free(&track), "nothing was sent");

	ask(&track, "B", TRACK_MAPPED);
	ask(&track, "C", TRACK_LOCAL);
	ask(&track, "S", TRACK_PLAIN);
	cr_assert_eq(track_take_local(&track), 0, "not its turn");
	replies_are(&track, "2", "2");
	cr_assert_eq(track_take_local(&track), 'C');
	replies_are(&track, "Z", "Z");

	ask(&track, "B", TRACK_MAPPED);
	ask(&track, "C", TRACK_LOCAL);
	ask(&track, "S", TRACK_PLAIN);
	replies_are(&track, "E", "E");
	cr_assert_eq(track_take_local(&track), 0, "skipped to Sync");
	replies_are(&track, "Z", "Z");
	cr_assert(track_is_free(&track));
}

Test(track_modes, positions_tell_what_failed)
{
	struct track track;
	login(&track);
	cr_assert_eq(track_position(&track), 0);
	ask(&track, "PBES", TRACK_PLAIN); /* 0 to 3 */
	cr_assert_eq(track.batch, 4);
	ask(&track, "PBS", TRACK_PLAIN); /* 4 to 6 */
	cr_assert_eq(track_position(&track), 7);
	cr_assert_eq(track.batch, 7);
	replies_are(&track, "1E", "1E");
	cr_assert_eq(track.cut_from, 1);
	cr_assert_eq(track.cut_to, 3);
	cr_assert_eq(track.base, 3, "the Sync is owed");
	replies_are(&track, "Z12Z", "Z12Z");
	cr_assert_eq(track.base, 7);

	ask(&track, "Q", TRACK_PLAIN); /* 7: fails, is not skipped */
	replies_are(&track, "E", "E");
	cr_assert_eq(track.cut_from, 7);
	cr_assert_eq(track.cut_to, 8);
	cr_assert_eq(track.base, 7);
	replies_are(&track, "Z", "Z");

	ask(&track, "PB", TRACK_PLAIN); /* 8, 9: and no Sync yet */
	replies_are(&track, "E", "E");
	cr_assert_eq(track.cut_to, 10);
	ask(&track, "PB", TRACK_PLAIN); /* nobody answers these */
	cr_assert_eq(track_position(&track), 10);
	ask(&track, "S", TRACK_PLAIN);
	cr_assert_eq(track.batch, 11);
	replies_are(&track, "Z", "Z");
	cr_assert(track_is_free(&track));
}

Test(track_modes, a_parse_is_answered_here_only_when_it_cannot_fail)
{
	struct track track;
	login(&track);
	cr_assert(track_may_answer(&track));
	ask(&track, "PB", TRACK_PLAIN);
	cr_assert(track_may_answer(&track), "an error before it skips it too");
	ask(&track, "S", TRACK_PLAIN);
	cr_assert_not(track_may_answer(&track), "a transaction may have failed by then");
	replies_are(&track, "12Z", "12Z");
	cr_assert(track_may_answer(&track));
	ask(&track, "Q", TRACK_PLAIN);
	cr_assert_not(track_may_answer(&track));
	cr_assert_eq(track_reply(&track, 'E', 0), VERDICT_FORWARD);
	cr_assert_eq(track_reply(&track, 'Z', 'E'), VERDICT_FORWARD);
	cr_assert_not(track_may_answer(&track), "failed");
}

/* A track in a state of its own for each seed; some of them no peer would bring about. */
static void track_of_seed(struct track *track, uint32_t seed)
{
	static const char requests[] = "QSPBDEC";
	login(track);
	seed = seed * 2654435761U + 12345;
	for (uint32_t count = seed % 5; count > 0; count--) {
		seed = seed * 1103515245 + 12345;
		if (seed >> 16 & 1) {
			track_ask(track, (uint8_t)requests[(seed >> 18) % 7],
			          (enum track_mode)((seed >> 22) % 5));
		} else {
			track_request(track, (uint8_t)requests[(seed >> 18) % 7]);
		}
		if ((seed >> 25) % 4 == 0)
			track_request(track, (uint8_t)("cfd"[(seed >> 27) % 3]));
	}
	if ((seed >> 13) % 3 == 0)
		track_reply(track, (uint8_t)("GHW"[(seed >> 9) % 3]), 0);
}

Test(track_modes, common_replies_do_what_track_reply_does)
{
	uint32_t common = 0;
	for (uint32_t seed = 0; seed < 1000; seed++) {
		for (uint32_t type = 0; type < 256; type++) {
			struct track one, other;
			track_of_seed(&one, seed);
			track_of_seed(&other, seed);
			struct track before = one;
			uint32_t working_on = track_working_on(&one);
			if (!track_reply_common(&one, (uint8_t)type, &working_on)) {
				cr_assert_eq(memcmp(&one, &before, sizeof one), 0, "untouched");
				continue;
			}
			common++;
			cr_assert_eq(working_on, track_working_on(&one));
			cr_assert_eq(track_reply(&other, (uint8_t)type, 0), VERDICT_FORWARD);
			other.owed = one.owed;
			cr_assert_eq(memcmp(&one, &other, sizeof one), 0, "%u: '%c'", seed,
			             (int)type);
		}
	}
	cr_assert_gt(common, 400);
}

Test(track_modes, common_readies_do_what_track_ready_does)
{
	uint32_t common = 0;
	for (uint32_t seed = 0; seed < 4000; seed++) {
		char status = "ITEx"[seed % 4];
		struct track one, other;
		track_of_seed(&one, seed / 4);
		track_of_seed(&other, seed / 4);
		struct track before = one;
		if (!track_ready_common(&one, status, track_working_on(&one))) {
			cr_assert_eq(memcmp(&one, &before, sizeof one), 0, "untouched");
			continue;
		}
		common++;
		cr_assert_eq(track_ready(&other, status), VERDICT_FORWARD);
		other.owed = one.owed;
		cr_assert_eq(memcmp(&one, &other, sizeof one), 0, "%u: '%c'", seed, status);
	}
	cr_assert_gt(common, 200, "%u", common);
}
