"""How many copies of a document a client may wait for."""

from dataclasses import replace
from random import Random

import pytest

from docstore.documents.replica import Replica
from docstore.documents.view import ReplicaView
from docstore.ownership.configuration import (
    Configuration,
    MemberEntry,
    Stage,
    first_registered,
    with_votes,
)
from docstore.storage.store import SaveConfiguration
from tests.memory.ledger import Ledger
from tests.sim.process import Appending


def members(count: int, observers: int = 0) -> tuple[MemberEntry, ...]:
    every = count + observers
    return with_votes(
        [MemberEntry(f"n{n}", f"n{n}.0", "h", 1, observes=n > count) for n in range(1, every + 1)]
    )


def founded(factor: int | None, *of: MemberEntry) -> Configuration:
    return Configuration(1, "copies", 4, 8, factor, of)


def copies_under(configuration: Configuration) -> range:
    disk, service = Ledger(), Appending()
    disk.apply([SaveConfiguration(first_registered(configuration).pack())])
    replica = Replica(
        "n1", disk.recovered("n1.0", 1), service_for=lambda link, since: service,
        rng=Random(1), vote_rng=Random(2), now=1.0,
    )  # fmt: skip
    return ReplicaView(replica, lambda: 0.0).copies_of("/a/b")


@pytest.mark.parametrize(
    ("count", "observers", "factor", "quorum", "copies"),
    [(1, 0, None, 1, 1), (3, 0, None, 2, 3), (3, 2, None, 2, 3), (7, 0, None, 4, 7),
     (9, 0, None, 5, 9), (9, 0, 8, 5, 8), (9, 0, 3, 2, 3), (2, 0, 3, 2, 2)],
)  # fmt: skip
def test_copies_are_counted_in_the_replica_set_whichever_members_vote(
    count: int, observers: int, factor: int | None, quorum: int, copies: int
) -> None:
    configuration = founded(factor, *members(count, observers))
    assert copies_under(configuration) == range(quorum, copies + 1)


def test_during_a_change_copies_range_from_the_smaller_quorum_to_both_sets() -> None:
    changing = replace(founded(None, *members(3)), stage=Stage.JOINT, next_members=members(4))
    assert copies_under(changing) == range(2, 5)
