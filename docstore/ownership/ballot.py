"""The fence: a promise to reject every smaller ballot.

An owner picked by any policy acts under a ballot (epoch, owner). A replica that has promised a
ballot rejects everything below it for ever, and a new owner collects promises from a majority
before it serves. So a wrong choice by a policy costs time, never data.

Source: ballots as in Paxos (Lamport, 1998); the epoch is the view-number of Viewstamped Replication
Revisited (Liskov and Cowling, 2012).
"""

from docstore.model.document import Ballot


def is_fenced(promised: Ballot, ballot: Ballot) -> bool:  # Tests replace this.
    """Say whether a replica that promised `promised` must refuse `ballot` (rules P1 and P2)."""
    return ballot < promised


def next_ballot(epoch_seen: int, owner: str) -> Ballot:
    """Return a ballot that `owner` has never used, above every epoch it has seen (rule B2)."""
    return (epoch_seen + 1, owner)
