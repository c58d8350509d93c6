/* Two notations.  A script gives each message of both sides with what holds
 * after it: `c:P` a client's request, `o:Q` one of our own, `s:1` a reply, `s:ZI`
 * a ReadyForQuery; then `*` free, `~` not free though nothing is owed, neither:
 * something is owed; `-` the verdict is DROP, `#` it is BAD; `!` suspect.
 * A recording is what PostgreSQL 15 did: bursts of requests and the replies to
 * each burst by turns, `-` for silence, `*` where the server was found idle, `!`
 * where the track has to give up counting. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/track.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/limits.h"

static void make_room(struct track *track)
{
	if (track_full(track))
		free(track_grow(track, malloc(2 * (size_t)track->room), 2 * track->room));
}

/* A track after the login. */
static void begin(struct track *track)
{
	track_init(track);
	cr_assert_not(track_is_free(track));
	cr_assert_eq(track_reply(track, 'Z', 'I'), VERDICT_FORWARD);
	cr_assert(track_is_free(track));
}

static enum verdict step(struct track *track, const char **at)
{
	const char *p = *at;
	char side = p[0];
	uint8_t type = (uint8_t)p[2];
	cr_assert(p[1] == ':');
	*at = p + 3 + (side == 's' && type == 'Z');
	make_room(track);
	if (side == 's')
		return track_reply(track, type, p[3]);
	if (side == 'c')
		return track_request(track, type);
	cr_assert_eq(side, 'o');
	track_skip_request(track, type);
	return VERDICT_FORWARD;
}

static void play_script(const char *script)
{
	struct track track;
	begin(&track);
	for (const char *p = script; *p != '\0'; p += strspn(p, " ")) {
		const char *here = p;
		enum verdict verdict = step(&track, &p);
		char marks[8] = "";
		size_t size = strcspn(p, " ");
		cr_assert(size < sizeof marks);
		memcpy(marks, p, size);
		p += size;
#define MARK(c) (strchr(marks, c) != NULL)
		cr_assert_eq(track_is_free(&track), MARK('*'), "free: %s", here);
		cr_assert_eq(track_owes(&track), !MARK('*') && !MARK('~'), "owes: %s", here);
		cr_assert_eq(track.suspect, MARK('!'), "suspect: %s", here);
		cr_assert_eq(verdict,
		             MARK('#')   ? VERDICT_BAD
		             : MARK('-') ? VERDICT_DROP
		                         : VERDICT_FORWARD,
		             "verdict: %s", here);
#undef MARK
	}
	free(track_fini(&track));
}

static const char *const scripts[] = {
	/* The plain ways. */
	"c:Q s:T s:D s:C s:ZI*",
	"c:Q s:C s:ZT~ c:Q s:E s:ZE~ c:Q s:C s:ZI*",
	"c:P c:B c:D c:E c:S s:1 s:2 s:T s:D s:C s:ZI*",
	"c:P c:D c:S s:1 s:t s:n s:ZI*",
	"c:F s:V s:ZI* c:F s:E s:ZI*",
	"c:Q s:I s:ZI* c:P c:B c:E c:S s:1 s:2 s:I s:ZI*",
	"c:C c:C c:S s:3 s:3 s:ZI*",
	"c:X-*",
	/* A Z is not the end while more was asked (K08, K09). */
	"c:Q c:P c:D c:B c:E c:S s:C s:ZI s:1 s:t s:T s:2 s:D s:C s:ZI*",
	"c:S c:S c:S s:ZI s:ZI s:ZI*",
	"c:Q c:Q s:C s:ZI c:Q s:C s:ZI s:C s:ZI*",
	"c:P c:B c:E c:Q s:1 s:2 s:C s:T s:D s:C s:ZI* c:S s:ZI*",
	/* All answered, but the server is in the middle of a batch (K12, K13, K18). */
	"c:P c:B c:E c:H s:1 s:2 s:D s:s~ c:E c:H s:D s:s~ c:E c:S s:D s:C s:ZI*",
	"c:P c:H s:1~ c:H~ c:S s:ZI*",
	"c:Q c:P c:B c:E s:C s:ZI s:1 s:2 s:C~ c:S s:ZI*",
	"c:Q c:P s:C s:ZI s:E~ c:S s:ZI*",
	/* Flush owes nothing and binds nobody. */
	"c:H* c:Q c:H s:C s:ZI* c:H*",
	/* Errors: the rest up to Sync leaves, here or when it comes (K10, K11, K17). */
	"c:P c:B c:E c:S s:E s:ZI*",
	"c:P c:B c:E c:S s:1 s:E s:ZI*",
	"c:P c:B c:E c:S s:1 s:2 s:E s:ZI*",
	"c:P c:B c:E c:S s:1 s:2 s:C s:E s:ZI*",
	"c:P s:E~ c:B~ c:Q~ c:F~ c:E~ c:H~ c:d~ c:c~ c:f~ c:S s:ZE~",
	"c:B c:E c:Q s:E~ c:Q~ c:S s:ZE~ c:Q s:C s:ZI*",
	"c:P c:S c:P c:B c:E c:S s:E s:ZI s:1 s:2 s:C s:ZI*",
	"c:P c:B c:E c:Q c:P c:S c:Q s:1 s:2 s:E s:ZI s:C s:ZI*",
	"c:P s:E~ c:P~ c:S c:Q s:ZI s:C s:ZI*",
	"c:B c:C c:P c:D c:S s:E s:ZI*",
	"c:Q s:E s:ZI* c:P s:1~ c:S s:ZI*",
	/* COPY from a client: S is swallowed up to its end (K19, K20). */
	"c:Q s:G c:d c:d c:c s:C s:ZI*",
	"c:Q s:G c:H c:d c:f s:E s:ZI*",
	"c:P c:B c:E c:S s:1 s:2 s:G c:d c:c c:S s:C s:ZI*",
	"c:P c:B c:E c:S c:S c:d c:S c:c c:S s:1 s:2 s:G s:C s:ZI*",
	"c:Q c:S s:G c:d c:c c:S s:C s:ZI s:ZI*",
	"c:Q c:d c:c c:d c:c s:G s:C s:G s:C s:ZI*",
	/* COPY that fails, before and after its end was sent. */
	"c:Q s:E s:ZI* c:d-* c:c-* c:f-*",
	"c:Q c:d c:c s:E s:ZI*",
	"c:Q s:G c:d s:E c:d c:c s:ZI*",
	"c:E c:d c:c c:S s:G s:E s:ZI*",
	"c:E s:G c:d s:E~ c:d~ c:c~ c:S s:ZI*",
	"c:E c:S s:G c:f c:S s:E! s:ZI*!",
	"c:E c:S s:G s:E~! c:d~! c:f~! c:S! s:ZI*!",
	"c:E c:S s:G s:E~! s:ZI*!",
	"c:E c:d c:S c:E c:S s:G s:E! s:ZI! s:C! s:ZI*!",
	"c:E c:d c:E c:S s:G s:E s:ZI*",
	"c:Q c:S s:G s:E! s:ZI*!",
	/* An end of COPY that nobody waits for. */
	"c:d-* c:c-* c:f-* c:Q c:c s:C s:ZI* c:c-*",
	"c:P c:c c:B c:E c:f c:S s:1 s:2 s:C s:ZI*",
	"c:Q c:c c:Q s:C s:ZI s:G c:c s:C s:ZI*",
	"c:P s:1~ c:d-~ c:c-~ c:S s:ZI*",
	/* COPY to a client, and both ways. */
	"c:Q s:H s:d s:d s:c s:C s:ZI*",
	"c:Q s:H s:d s:E s:ZI*",
	"c:E c:Q c:S s:H s:d s:E s:ZI*",
	"c:Q s:W s:d c:d c:c s:c s:C s:C s:ZI*",
	"c:Q s:W s:d s:c c:d s:T s:D c:c s:C s:C s:ZI*",
	/* What comes unasked. */
	"s:A* c:Q s:A s:C s:ZI* s:A*",
	"s:N~ c:Q s:C s:N s:S s:ZI*",
	"s:S~ c:Q s:C s:ZI*",
	"s:E~ c:Q s:C s:ZI*",
	"s:ZI*! c:Q! s:C! s:ZI*!",
	"s:1~! s:2~! s:3~! s:T~! s:n~! s:C~! s:ZI*!",
	"c:B s:1! s:2~!",
	"c:P s:D! s:1~!",
	"c:Q s:1! s:C! s:ZI*!",
	"c:Q s:d! s:c! s:n! s:V! s:t! s:ZI*!",
	"c:Q s:G s:C! s:ZI*!",
	"c:P c:B c:S c:Q s:ZI! s:C! s:ZI*!",
	"c:P c:B s:ZI*!",
	"s:G~! c:d~! c:c~! s:ZI*!",
	/* Not messages of a session. */
	"c:p#* c:1#* c:Z#* c:T#* s:R#~ s:K#~ s:v#~ s:Q#~ s:B#~ s:Zx#~ s:Z0#~",
	/* Our own requests: nobody sees the answers, an error shows in `failed`. */
	"o:Q c:Q s:N- s:C- s:S- s:ZI- s:T s:D s:C s:ZI*",
	"o:Q s:E- c:Q s:ZI- s:C s:ZI*",
	"o:Q s:A s:C- s:ZI-* c:Q s:C s:ZI*",
	"o:P o:B o:D o:E o:C o:S c:Q s:1- s:2- s:n- s:D- s:C- s:3- s:ZI- s:C s:ZI*",
	"o:P c:B c:E c:S s:1- s:2 s:D s:C s:ZI*",
	"o:P c:B c:E c:S s:E- s:ZI*",
	"c:P s:E~ o:C~ o:S s:ZI-*",
};

Test(track, scripts)
{
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
		play_script(scripts[i]);
}

Test(track, failed_and_status)
{
	struct track track;
	begin(&track);
	track_skip_request(&track, 'Q');
	cr_assert(track_is_skipping_own(&track));
	track_reply(&track, 'E', 0);
	cr_assert(track.failed);
	track_request(&track, 'Q');
	track_reply(&track, 'Z', 'T');
	cr_assert_not(track.failed);
	cr_assert_eq(track.status, 'T');
	cr_assert_not(track_is_skipping_own(&track));
	track_reply(&track, 'E', 0);
	cr_assert(track.failed);
	track_reply(&track, 'Z', 'E');
	cr_assert_eq(track.status, 'E');
	cr_assert_not(track_is_free(&track));
}

/* The ring wraps, grows while wrapped, and stops at OWED_MAX. */
Test(track, grows)
{
	static const char requests[] = "PBDECSQF";
	static const char replies[] = "12nC3ZZZ";
	struct track track;
	begin(&track);
	for (uint32_t turn = 0; turn < 5; turn++) {
		track_request(&track, 'S');
		track_reply(&track, 'Z', 'I');
	}
	uint32_t sent = 0;
	while (track.count < OWED_MAX) {
		make_room(&track);
		track_request(&track, (uint8_t)requests[sent % 8]);
		sent++;
	}
	cr_assert(track_full(&track));
	cr_assert_eq(track.room, OWED_MAX);
	for (uint32_t i = 0; i < sent; i++) {
		cr_assert_not(track_is_free(&track));
		track_reply(&track, (uint8_t)replies[i % 8], 'I');
		cr_assert_eq(track.count, sent - i - 1);
	}
	cr_assert(track_is_free(&track));
	cr_assert_not(track.suspect);
	free(track_fini(&track));
	cr_assert_null(track_fini(&track));
	cr_assert_eq(track.room, sizeof track.inline_owed);
	cr_assert(track_is_free(&track));
}
