# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequences by chance: the pooler answers what PostgreSQL answers, whoever else shares its servers."""
import differ
from harness import Failed, check, test

# Whether the pooler has named statements of the protocol in transaction mode.
NAMED = True
FEW = "max_prepared_statements = 3\n"
SHARED = differ.databases("transaction", 4)


def play(stage, seed, count, free=False, named=NAMED):
    theatre = differ.Theatre(stage.cluster, stage.pooler, free, named)
    run = differ.Run(theatre, seed, count)
    for found in run.go():
        raise Failed(differ.report(theatre, found, 30))
    theatre.close()
    stage.note(f"{run.played} sequences, 0 differences")


@test(differ.config("session"), databases=differ.databases("session", 4), seconds=100, slow=True)
def session(stage):
    """Where a server belongs to a client for as long as it stays, nothing differs."""
    play(stage, 1, 1000, free=True, named=True)


@test(differ.config("transaction"), databases=SHARED, seconds=100, slow=True)
def transaction(stage):
    """Three clients share one or two servers, with the same names for other things."""
    play(stage, 2, 3500)


@test(FEW + differ.config("transaction") + "\nworkers = 2\nservers_per_worker = 0", databases=SHARED, seconds=100, slow=True)
def two_workers(stage):
    """The same where few statements are kept at a server, and fewer threads serve it."""
    play(stage, 3, 1500)


@test("max_prepared_statements = 0\n" + differ.config("transaction"), databases=SHARED, leaks=False,
      seconds=100, slow=True)
def notices(stage):
    """Where names go to shared servers as they are, clients meet: this is seen, and soon told."""
    theatre = differ.Theatre(stage.cluster, stage.pooler, False, True)
    found = differ.Run(theatre, 4, 500).go()
    check(found, "no difference found")
    reduced = differ.Reducer(theatre, *found[0], 20).reduce()
    check(reduced, "a difference that does not come again")
    messages = sum(len(s) for s in reduced[0].session)
    check(messages <= 6, reduced[0].describe(reduced[1]))
    theatre.close()
