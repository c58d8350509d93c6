# SPDX-License-Identifier: GPL-2.0-or-later
"""Sequences by chance: the pooler answers what PostgreSQL answers, whoever else shares its servers."""
import differ
from harness import Failed, test

# Whether the pooler has named statements of the protocol in transaction mode.
NAMED = False
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


@test(FEW + differ.config("transaction") + "\nworkers = 2", databases=SHARED, seconds=100, slow=True)
def two_workers(stage):
    """The same where few statements are kept at a server, and fewer threads serve it."""
    play(stage, 3, 1500)
