"""Warnings on the page of a group about zones that hold too much."""

import pytest

from docstore.node.members.group import warnings_of
from docstore.ownership.configuration import Configuration, MemberEntry, with_votes

VOTES = "zone a holds {} voters: while those are lost, the members cannot be changed"
COPIES = "zone a holds {} copies of each document: while those are lost, none is written"


@pytest.mark.parametrize(
    ("zones", "copies", "warned"),
    [
        ("abc", None, []),
        ("aaaa", None, []),
        ("aab", None, [VOTES.format("2 of the 3")]),
        # Seven of them vote, two or three in each zone; most of the copies are in one.
        ("aaaaaabbcc", None, [COPIES.format("6 of the 10")]),
        ("aaaaaabbcc", 3, []),
        ("aaabbbccc", None, []),
    ],
)
def test_a_zone_whose_loss_stops_something_is_named(
    zones: str, copies: int | None, warned: list[str]
) -> None:
    members = tuple(
        MemberEntry(f"n{at}", "s", "h", 1, zone, votes=False) for at, zone in enumerate(zones)
    )
    configuration = Configuration(1, "c", 16, 4, copies, with_votes(members))
    assert warnings_of(configuration) == warned
