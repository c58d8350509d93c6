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
	track_ask(track, type, TRACK_OWN);
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
	"c:Q s:G c:c s:C s:G c:S c:c s:C s:ZI*",
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
	/* Behind S that a COPY may have swallowed: an answer tells whether it has. */
	"c:E c:S c:d c:S c:Q s:G s:E! s:ZI! s:T! s:D! s:C! s:ZI*!",
	"c:E c:S c:d c:S c:Q s:G s:E! s:ZI! s:ZI! s:T! s:D! s:C! s:ZI*!",
	"c:E c:S c:d c:S c:Q s:G s:E! s:ZI! s:N! s:S! s:E! s:ZI*!",
	"c:Q c:S c:d c:S c:Q s:G s:E! s:ZI! s:ZI! s:C! s:ZI*!",
	"c:E c:S c:d c:S c:P c:B c:E c:S s:G s:E! s:ZI! s:1! s:2! s:C! s:ZI*!",
	/* A wrong guess, for a client that never ends its COPY: the server is its
	 * own until it leaves. */
	"c:E c:S c:d c:Q c:S s:G s:E! s:ZI! c:Q! s:C! s:ZI!",
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

static const struct {
	const char *name, *rows;
} recordings[] = {
	{"simple", "Q TDCZi*"},
	{"multi statement", "Q TDCTDCCZi*"},
	{"empty", "Q IZi*"},
	{"simple error", "Q EZi*"},
	{"multi statement error", "Q TDCEZi*"},
	{"pipelined simple", "QQQQ TDCZiTDCZiEZiTDCZi*; Q TDCZi* Q TDCZi* Q EZi* Q TDCZi*"},
	{"K08", "QPDBES CZi1tT2DCZi*; Q CZi* P - D - B - E - S 1tT2DCZi*"},
	{"K09", "PBESPBESPBESPBESPBES 12DCZi12DCZi12DCZi12DCZi12DCZi*; P - B - E - S 12DCZi* P "
                "- B - E - S 12DCZi* P - B - E - S 12DCZi* P - B - E - S 12DCZi* P - B - E - S "
                "12DCZi*"},
	{"K09 prepared",
         "PS 1Zi* BESBESBESBESBESBES 2DCZi2DCZi2DCZi2DCZi2DCZi2DCZi*; "
         "PSBESBESBESBESBESBES 1Zi2DCZi2DCZi2DCZi2DCZi2DCZi2DCZi*; P - S 1Zi* B - E - S "
         "2DCZi* B - E - S 2DCZi* B - E - S 2DCZi* B - E - S 2DCZi* B - E - S 2DCZi* B -"
         " E - S 2DCZi*"},
	{"K10", "Q CZt Q CZt PS 1Zt BEQ E QS Ze Q EZe Q CZi*; QQPSBEQQSQQ CZtCZt1ZtEZeEZeCZi*; "
                "Q CZt Q CZt P - S 1Zt B E E - Q - Q - S Ze Q EZe Q CZi*"},
	{"K11", "PS 1Zi* BECPDS EZi*; PSBECPDS 1ZiEZi*; P - S 1Zi* B E E - C - P - D - S Zi*"},
	{"K12", "PBEPBEPBDS 12DC12DC12TZi*; P - B - E - P - B - E - P - B - D - S 12DC12DC12TZi*"},
	{"K13", "PBDE - S 12TDCZi*; PBDES 12TDCZi*; P - B - D - E - S 12TDCZi*"},
	{"K15", "PBDES 12nCZt PDS 1tnZt BES 2CZi*; PBDESPDSBES 12nCZt1tnZt2CZi*; P - B - D - E "
                "- S 12nCZt P - D - S 1tnZt B - E - S 2CZi*"},
	{"K16", "PBDES 12nCZi* Q TDCZi*; PBDESQ 12nCZiTDCZi*; P - B - D - E - S 12nCZi* Q TDCZi*"},
	{"K17", "PBEPBESQ 12C12EZiTDCZi*; P - B - E - P - B - E 12C12E S Zi* Q TDCZi*"},
	{"K18", "PBEH 12DDs EH DDs ES DCZi*; PBEHEHES 12DDsDDsDCZi*; P - B - E - H 12DDs E - H "
                "DDs E - S DCZi*"},
	{"K19", "PBES 12G dcS CZi*; PBESdcS 12GCZi*; P - B - E 12G S - d - c - S CZi*; PH 1 BH "
                "2 EH G S - d - c - S CZi*"},
	{"K20", "Q EZi* Q G f EZi* Q TDCZi*; QQfQ EZiGEZiTDCZi*"},
	{"error at parse", "PBDES EZi*; P E B - D - E - S Zi*"},
	{"error at parse, then batch",
         "PBDESPBDES EZi12TDCZi*; P E B - D - E - S Zi* P - B - D - E - S 12TDCZi*"},
	{"error at bind",
         "PBDESPBDES 1EZi12TDCZi*; P - B 1E D - E - S Zi* P - B - D - E - S 12TDCZi*"},
	{"error at describe",
         "PDBESPBDES 1EZi12TDCZi*; P - D 1E B - E - S Zi* P - B - D - E - S 12TDCZi*"},
	{"error at describe statement", "PDBES 1EZi*; P - D 1E B - E - S Zi*"},
	{"error at execute",
         "PBDESPBDES 12TEZi12TDCZi*; P - B - D - E 12TE S Zi* P - B - D - E - S 12TDCZi*"},
	{"error at execute of nothing", "ESQ EZiTDCZi*; E E S Zi* Q TDCZi*"},
	{"error at second execute",
         "PBEPBEPBECS 12DC12EZi*; P - B - E - P - B - E 12DC12E P - B - E - C - S Zi*"},
	{"error at close: none", "CCS 33Zi*; C - C - S 33Zi*"},
	{"error at bad close kind", "CPS EZi*; C E P - S Zi*"},
	{"error at sync, deferred",
         "PBDESPBDES 12nCEZi12TDCZi*; P - B - D - E - S 12nCEZi* P - B - D - E - S "
         "12TDCZi*"},
	{"error at commit in batch",
         "PBDEPBDES 12nC12TDCEZi*; P - B - D - E - P - B - D - E - S 12nC12TDCEZi*"},
	{"begin deferred commit",
         "QPBEPBEPBES CZt12C12EZi*; Q CZt P - B - E - P - B - E 12C12E P - B - E - S Zi*"},
	{"two syncs", "PBDESS 12TDCZiZi*; P - B - D - E - S 12TDCZi* S Zi*"},
	{"many syncs",
         "SSSSSSSSSSSS ZiZiZiZiZiZiZiZiZiZiZiZi*; S Zi* S Zi* S Zi* S Zi* S Zi* S Zi* S "
         "Zi* S Zi* S Zi* S Zi* S Zi* S Zi*"},
	{"sync first", "SPBDES Zi12TDCZi*; S Zi* P - B - D - E - S 12TDCZi*"},
	{"flush only", "H -*"},
	{"flush between", "PHBHDHEHS 12TDCZi*; P - H 1 B - H 2 D - H T E - H DC S Zi*"},
	{"query, flush", "QH TDCZi*; Q TDCZi* H -*"},
	{"flush, query", "HQ TDCZi*; H -* Q TDCZi*"},
	{"no sync yet", "PBDE -; P - B - D - E -"},
	{"no sync, flush", "PBDEH 12TDC; P - B - D - E - H 12TDC"},
	{"no sync, then query", "PBDEQ 12TDCTDCZi*; P - B - D - E - Q 12TDCTDCZi*"},
	{"no sync, query, sync", "PBDEQS 12TDCTDCZiZi*; P - B - D - E - Q 12TDCTDCZi* S Zi*"},
	{"error, no sync", "PBDE 12TE; P - B - D - E 12TE"},
	{"error, query, no sync", "PBDEQ 12TE; P - B - D - E 12TE Q -"},
	{"error, query, sync", "PBDEQS 12TEZi*; P - B - D - E 12TE Q - S Zi*"},
	{"error, query, sync, query",
         "PBDEQSQ 12TEZiTDCZi*; P - B - D - E 12TE Q - S Zi* Q TDCZi*"},
	{"error, wait, query, sync",
         "PBDE 12TE Q - S Zi*; PBDEQS 12TEZi*; P - B - D - E 12TE Q - S Zi*"},
	{"error, call, sync", "PBDEFS 12TEZi*; P - B - D - E 12TE F - S Zi*"},
	{"error, batch, flush, sync",
         "PBDEPBDEH 12TE S Zi*; PBDEPBDEHS 12TEZi*; P - B - D - E 12TE P - B - D - E - H"
         " - S Zi*"},
	{"error in query in batch",
         "PBDEQPBDES 12TDCTEZi12TDCZi*; P - B - D - E - Q 12TDCTEZi* P - B - D - E - S "
         "12TDCZi*"},
	{"error in query, then batch without sync",
         "QPBDE TEZi S 12TDCZi*; QPBDES TEZi12TDCZi*; Q TEZi* P - B - D - E - S 12TDCZi*"},
	{"error in transaction",
         "QPBDESPBDESQ CZt12TEZeEZeCZi*; Q CZt P - B - D - E 12TE S Ze P E B - D - E - S"
         " Ze Q CZi*"},
	{"begin, commit pipelined", "QQQ CZtTDCZtCZi*; Q CZt Q TDCZt Q CZi*"},
	{"begin in batch",
         "PBDESPBDESPBDES 12nCZt12TDCZt12nCZi*; P - B - D - E - S 12nCZt P - B - D - E -"
         " S 12TDCZt P - B - D - E - S 12nCZi*"},
	{"begin commit in one batch",
         "PBEPBEPBES 12C12DC12CZi*; P - B - E - P - B - E - P - B - E - S 12C12DC12CZi*"},
	{"suspended", "PBES 12DDsZi*; P - B - E - S 12DDsZi*"},
	{"suspended, query", "PBEQS 12DDsTDCZiZi*; P - B - E - Q 12DDsTDCZi* S Zi*"},
	{"suspended then done", "PBEES 12DDsDCZi*; P - B - E - E - S 12DDsDCZi*"},
	{"empty execute", "PBDES 12nIZi*; P - B - D - E - S 12nIZi*"},
	{"empty, no describe", "PBES 12IZi*; P - B - E - S 12IZi*"},
	{"describe both", "PDBDESCS 1tT2TDCZi3Zi*; P - D - B - D - E - S 1tT2TDCZi* C - S 3Zi*"},
	{"close", "PCCS 133Zi*; P - C - C - S 133Zi*"},
	{"prepare twice", "PPBESCS 1EZi3Zi*; P - P 1E B - E - S Zi* C - S 3Zi*"},
	{"call", "F VZi*"},
	{"call with args, query", "FQ VZiTDCZi*; F VZi* Q TDCZi*"},
	{"call fails", "F EZi*"},
	{"call fails, batch", "FPBDES EZi12TDCZi*; F EZi* P - B - D - E - S 12TDCZi*"},
	{"call in aborted", "QQFQ CZtTEZeEZeCZi*; Q CZt Q TEZe F EZe Q CZi*"},
	{"call in batch", "PBDEFS 12TDCVZiZi*; P - B - D - E - F 12TDCVZi* S Zi*"},
	{"notice", "Q NCZi*"},
	{"notice in batch", "PBES 12NCZi*; P - B - E 12N S CZi*"},
	{"parameter status", "QQ CSZiTDCZi*; Q CSZi* Q TDCZi*"},
	{"parameter status in batch", "PBES 12CSZi*; P - B - E - S 12CSZi*"},
	{"listen notify", "QQQ CZiCAZiTDCZi*"},
	{"listen notify in batch", "PBEPBESS 12C12CAZiZi*"},
	{"copy in, simple", "Q G ddc CZi*; Qddc GCZi*; Q G d - d - c CZi*"},
	{"copy in, simple, at once", "Qddc GCZi*; Q G d - d - c CZi*"},
	{"copy in, nothing", "Qc GCZi*; Q G c CZi*"},
	{"copy in, two in one", "Qdcdc GCGCZi*; Q G d - c CG d - c CZi*"},
	{"copy in, between selects", "QdcQ TDCGCTDCZiTDCZi*; Q TDCG d - c CTDCZi* Q TDCZi*"},
	{"copy in, two in one, first fails",
         "QdcdcQ GEZiTDCZi*; Q G d EZi* c -* d -* c -* Q TDCZi*"},
	{"copy in, two in one, second fails",
         "QdcdcQ GCGEZiTDCZi*; Q G d - c CG d EZi* c -* Q TDCZi*"},
	{"copy in, fail", "Qdf GEZi*; Q G d - f EZi*"},
	{"copy in, bad data", "Qdddc GEZi*; Q G d EZi* d -* d -* c -*"},
	{"copy in, bad data, then query", "QddcQ GEZiTDCZi*; Q G d EZi* d -* c -* Q TDCZi*"},
	{"copy in, bad data, late", "Q G d EZi* d -* c -* Q TDCZi*; QddcQ GEZiTDCZi*"},
	{"copy in, early sync, simple", "QS G dc CZi*; QSdc GCZi*; Q G S - d - c CZi*"},
	{"copy in, early sync, simple, at once", "QSdScS GCZiZi*; Q G S - d - S - c CZi* S Zi*"},
	{"copy in, early sync, simple, bad", "QSdc GEZi*!; Q G S - d EZi*! c -*"},
	{"copy in, early sync, simple, fail",
         "QS G fS EZiZi*!; QSfS GEZiZi*!; Q G S - f EZi*! S Zi*"},
	{"copy in, no table", "QdcQ EZiTDCZi*; Q EZi* d -* c -* Q TDCZi*"},
	{"copy in, trigger fails", "Qdc GEZi*; Q GEZi* d -* c -*"},
	{"copy in, trigger fails, early sync", "QSdc GEZiZi*!; Q GEZi* S Zi* d -* c -*"},
	{"copy in, row trigger fails at the end", "Qdc GEZi*; Q G d - c EZi*"},
	{"copy in, extended",
         "PBEddcS 12GCZi*; P - B - E 12G d - d - c - S CZi*; PH 1 BH 2 EH G d - d - c - "
         "S CZi*"},
	{"copy in, extended, waiting",
         "PBEH 12G d - cH C S Zi*; PBEHdcHS 12GCZi*; P - B - E 12G H - d - c - H C S "
         "Zi*; PH 1 BH 2 EH G H - d - c - H C S Zi*"},
	{"copy in, extended, early sync twice",
         "PBESSdScS 12GCZi*; P - B - E 12G S - S - d - S - c - S CZi*; PH 1 BH 2 EH G S "
         "- S - d - S - c - S CZi*"},
	{"copy in, extended, early sync, pipelined",
         "PBESdcSPBDES 12GCZi12TDCZi*; P - B - E 12G S - d - c - S CZi* P - B - D - E - "
         "S 12TDCZi*; PH 1 BH 2 EH G S - d - c - S CZi* PH 1 BH 2 DH T EH DC S Zi*"},
	{"copy in, extended, described",
         "PBDESdcS 12nGCZi*; P - B - D - E 12nG S - d - c - S CZi*; PH 1 BH 2 DH n EH G "
         "S - d - c - S CZi*"},
	{"copy in, extended, bad",
         "PBEdcS 12GEZi*; P - B - E 12G d E c - S Zi*; PH 1 BH 2 EH G d E c - S Zi*"},
	{"copy in, extended, bad, more",
         "PBEddcPBESQ 12GEZiTDCZi*; P - B - E 12G d E d - c - P - B - E - S Zi* Q "
         "TDCZi*; PH 1 BH 2 EH G d E d - c - PH - BH - EH - S Zi* Q TDCZi*"},
	{"copy in, extended, bad, early sync",
         "PBESdcS 12GEZi*!; P - B - E 12G S - d E! c - S Zi*; PH 1 BH 2 EH G S - d E! c "
         "- S Zi*"},
	{"copy in, extended, bad, early sync, waiting",
         "PBES 12G d E! c - S Zi*; PBESdcS 12GEZi*!; P - B - E 12G S - d E! c - S Zi*; "
         "PH 1 BH 2 EH G S - d E! c - S Zi*"},
	{"copy in, extended, bad before sync",
         "PBEdS 12GEZi*!; P - B - E 12G d E S Zi*; PH 1 BH 2 EH G d E S Zi*"},
	{"copy in, extended, bad before sync and batch",
         "PBEdSPBES 12GEZi12DCZi*!; P - B - E 12G d E S Zi* P - B - E - S 12DCZi*; PH 1 "
         "BH 2 EH G d E S Zi* PH 1 BH 2 EH DC S Zi*"},
	{"copy in, extended, fail",
         "PBEdfS 12GEZi*; P - B - E 12G d - f E S Zi*; PH 1 BH 2 EH G d - f E S Zi*"},
	{"copy in, extended, fail, early sync",
         "PBESfS 12GEZi*!; P - B - E 12G S - f E! S Zi*; PH 1 BH 2 EH G S - f E! S Zi*"},
	{"copy in, extended, fail, no sync",
         "PBEf 12GE S Zi*; PBEfS 12GEZi*; P - B - E 12G f E S Zi*; PH 1 BH 2 EH G f E S "
         "Zi*"},
	{"copy in, extended, at end fails",
         "PBEdcSPBES 12GEZi12DCZi*; P - B - E 12G d - c E S Zi* P - B - E - S 12DCZi*; "
         "PH 1 BH 2 EH G d - c E S Zi* PH 1 BH 2 EH DC S Zi*"},
	{"copy in, extended, at end fails, early",
         "PBESdcS 12GEZi*!; P - B - E 12G S - d - c E! S Zi*; PH 1 BH 2 EH G S - d - c "
         "E! S Zi*"},
	{"copy in, extended, trigger fails",
         "PBEdcSQ 12GEZiTDCZi*; P - B - E 12GE d - c - S Zi* Q TDCZi*; PH 1 BH 2 EH GE d"
         " - c - S Zi* Q TDCZi*"},
	{"copy in, extended, trigger fails, early",
         "PBESdcS 12GEZiZi*!; P - B - E 12GE S Zi* d -* c -* S Zi*; PH 1 BH 2 EH GE S "
         "Zi* d -* c -* S Zi*"},
	{"copy in, extended, no table", "PBESdcS 12EZiZi*; P - B - E 12E S Zi* d -* c -* S Zi*"},
	{"copy in, extended, no table, early", "PBEdcS 12EZi*; P - B - E 12E d - c - S Zi*"},
	{"copy in, extended, second of two",
         "PBEPBEdcPBES 12DC12GC12DCZi*; P - B - E - P - B - E 12DC12G d - c - P - B - E "
         "- S C12DCZi*; PH 1 BH 2 EH DC PH 1 BH 2 EH G d - c - PH C1 BH 2 EH DC S Zi*"},
	{"copy in, extended, two",
         "PBEdcPBEdcS 12GC12GCZi*; P - B - E 12G d - c - P - B - E C12G d - c - S CZi*; "
         "PH 1 BH 2 EH G d - c - PH C1 BH 2 EH G d - c - S CZi*"},
	{"copy in, extended, two, first bad",
         "PBEdcPBEdcS 12GEZi*; P - B - E 12G d E c - P - B - E - d - c - S Zi*; PH 1 BH "
         "2 EH G d E c - PH - BH - EH - d - c - S Zi*"},
	{"copy in, request inside",
         "PBESPBES 12GEEX; P - B - E 12G S - P EEX; PH 1 BH 2 EH G S - PH EEX"},
	{"copy in, query inside", "QQ GEEX; Q G Q EEX"},
	{"copy in, sync, query inside", "QSQ GEEX; Q G S - Q EEX"},
	{"copy in, call inside", "QF GEEX; Q G F EEX"},
	{"copy in, flush inside", "QHdHc GCZi*; Q G H - d - H - c CZi*"},
	{"copy in in transaction", "QQdcQ CZtGCZtCZi*; Q CZt Q G d - c CZt Q CZi*"},
	{"copy in in transaction, bad", "QQdcQ CZtGEZeCZi*; Q CZt Q G d EZe c - Q CZi*"},
	{"copy out, simple", "Q HdddcCZi*"},
	{"copy out, two", "QQ HdddcCHdddcCZiTDCZi*; Q HdddcCHdddcCZi* Q TDCZi*"},
	{"copy out, fails in the middle", "QQ HddEZiTDCZi*; Q HddEZi* Q TDCZi*"},
	{"copy out, extended", "PBESS 12HdddcCZiZi*; P - B - E - S 12HdddcCZi* S Zi*"},
	{"copy out, extended, fails", "PBEQS 12HddEZi*; P - B - E 12HddE Q - S Zi*"},
	{"copy out, stray done", "QcQdc HdddcCZiGCZi*; Q HdddcCZi* c -* Q G d - c CZi*"},
	{"copy out, stray done, extended",
         "PBEcPBEdcS 12HdddcC12GCZi*; P - B - E - c - P - B - E 12HdddcC12G d - c - S "
         "CZi*; PH 1 BH 2 EH HdddcC c - PH 1 BH 2 EH G d - c - S CZi*"},
	{"copy out and in", "Qdc HdddcCGCZi*; Q HdddcCG d - c CZi*"},
	{"stray copy data", "dcfQ TDCZi*; d -* c -* f -* Q TDCZi*"},
	{"stray done after query", "QdcQ TDCZiTDCZi*; Q TDCZi* d -* c -* Q TDCZi*"},
	{"stray done in batch", "PcBdEfS 12DCZi*; P - c - B - d - E - f - S 12DCZi*"},
	{"stray done in batch, error",
         "PcBdEfScQ EZiTDCZi*; P E c - B - d - E - f - S Zi* c -* Q TDCZi*"},
	{"query, batch without sync", "QPBDEH TDCZi12TDC; Q TDCZi* P - B - D - E - H 12TDC"},
	{"query, batch without sync, sync",
         "QPBDEH TDCZi12TDC S Zi*; QPBDEHS TDCZi12TDCZi*; Q TDCZi* P - B - D - E - H "
         "12TDC S Zi*"},
	{"query, failing batch without sync", "QP TDCZiE; Q TDCZi* P E"},
	{"sync, open batch, flush",
         "SPBEH Zi12C S Zi*; SPBEHS Zi12CZi*; S Zi* P - B - E - H 12C S Zi*"},
	{"failing copy, query after sync",
         "P - B - E 12G S - d E! Q - S Zi*; PH 1 BH 2 EH G S - d E! Q "
         "- S Zi*"},
	{"failing copy, syncs, query",
         "PBEdSSQ 12GEZiZiTDCZi*!; P - B - E 12G d E S Zi* S Zi* Q TDCZi*; PH 1 BH 2 EH "
         "G d E S Zi* S Zi* Q TDCZi*"},
	{"two failing copies",
         "PBEdcSPBEfSQ 12GEZi12GEZiTDCZi*; P - B - E 12G d E c - S Zi* P - B - E 12G f E"
         " S Zi* Q TDCZi*; PH 1 BH 2 EH G d E c - S Zi* PH 1 BH 2 EH G f E S Zi* Q "
         "TDCZi*"},
	{"copy in after error in batch",
         "PBEPBEdcSQdc 12EZiGCZi*; P - B - E 12E P - B - E - d - c - S Zi* Q G d - c "
         "CZi*; PH 1 BH 2 EH E PH - BH - EH - d - c - S Zi* Q G d - c CZi*"},
	{"copy in, prepared",
         "PS 1Zi* BES 2G dcS CZi* BEdcS 2GCZi*; PSBESdcSBEdcS 1Zi2GCZi2GCZi*; P - S 1Zi*"
         " B - E 2G S - d - c - S CZi* B - E 2G d - c - S CZi*; PH 1 S Zi* BH 2 EH G S -"
         " d - c - S CZi* BH 2 EH G d - c - S CZi*"},
	{"bad protocol", "PBESQ 1EZiTDCZi*; P - B 1E E - S Zi* Q TDCZi*"},
	{"walsender", "Q W c cCCZi*"},
	{"walsender twice", "Q TDCZi* Q W c cCCZi* Q W cQ cCCZiTDCZi*"},
	{"walsender error", "Q WEZi* Q TDCZi*"},
	{"walsender sync", "Q W S EX"},
	{"walsender at once", "QcQ WcCCZiTDCZi*"},
};

/* The requests of a burst, all of the client's or all of our own. */
static const char *play_requests(struct track *track, const char *p, bool own)
{
	for (; strchr("PBDECSQFHdcf", *p) != NULL && *p != '\0'; p++) {
		make_room(track);
		if (own)
			track_ask(track, (uint8_t)*p, TRACK_OWN);
		else
			cr_assert_neq(track_request(track, (uint8_t)*p), VERDICT_BAD);
	}
	return p;
}

static const char *play_replies(struct track *track, const char *p, bool own)
{
	bool silent = *p == '-';
	for (p += silent; strchr(" ;!*X", *p) == NULL; p++) {
		enum verdict verdict = track_reply(track, (uint8_t)p[0], (char)toupper(p[1]));
		cr_assert_eq(verdict, own && *p != 'A' ? VERDICT_DROP : VERDICT_FORWARD, "%s", p);
		if (*p == 'Z')
			p++;
		if (p[1] != '*' && !track->suspect)
			cr_assert_not(track_is_free(track), "%s", p);
	}
	if (*p == '*') {
		cr_assert(track_is_free(track), "%s", p);
		p++;
	} else if (silent) {
		cr_assert_not(track_is_free(track), "%s", p);
	}
	return p;
}

/* Returns the next row, or the end. */
static const char *play_recording(const char *row, bool own)
{
	struct track track;
	bool lost = false;
	const char *p = row;
	begin(&track);
	while (*p != ';' && *p != '\0') {
		p = play_requests(&track, p, own);
		cr_assert_eq(*p++, ' ', "%s", row);
		p = play_replies(&track, p, own);
		if (*p == 'X') /* the server gave up: the connection is closed */
			lost = track.suspect;
		lost = lost || *p == '!';
		cr_assert_eq(track.suspect, lost, "%s", row);
		p += strspn(p, "!X ");
	}
	free(track_fini(&track));
	return p + strspn(p, "; ");
}

/* Whether all of the row's requests may also be our own. */
static bool is_ownable(const char *row)
{
	bool asks = true;
	for (; *row != ';' && *row != '\0'; row++) {
		if (*row == ' ')
			asks = !asks;
		else if (asks && strchr("QSPBDEC", *row) == NULL)
			return false;
	}
	return true;
}

Test(track, recordings)
{
	for (size_t i = 0; i < ARRAY_LEN(recordings); i++)
		for (const char *row = recordings[i].rows; *row != '\0';) {
			if (is_ownable(row))
				play_recording(row, true);
			row = play_recording(row, false);
		}
}

Test(track, failed_and_status)
{
	struct track track;
	begin(&track);
	track_ask(&track, 'Q', TRACK_OWN);
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
