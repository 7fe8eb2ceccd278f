"""Voters on configurations: as many as allowed, even over zones, with the fewest changes."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.documents.membership.change import Change, Kind, advanced, begin
from docstore.documents.timing import ReplicaConfig
from docstore.ownership.configuration import (
    Configuration,
    Founder,
    MemberEntry,
    Stage,
    found,
    with_votes,
)
from docstore.ownership.voters import VOTERS_MAX, chosen, decisive_zones
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster

ZONED = st.dictionaries(
    st.sampled_from([f"n{number}" for number in range(10)]), st.sampled_from("abcd"), min_size=1
)


def evenness(voters: Collection[str], zones: Mapping[str, str]) -> int:
    """Return a number that is least where the voters are spread most evenly."""
    return sum(count**2 for count in Counter(zones[each] for each in voters).values())


@given(ZONED, st.sets(st.sampled_from([f"n{number}" for number in range(12)])), st.integers(1, 7))
def test_voters_are_spread_evenly_with_the_fewest_changes(
    zones: dict[str, str], voting: set[str], most: int
) -> None:
    voters = chosen(zones, voting, most=most)
    possible = [set(each) for each in combinations(zones, min(most, len(zones)))]
    best = min(evenness(each, zones) for each in possible)
    even = [each for each in possible if evenness(each, zones) == best]
    assert voters in even
    stayed = voting & zones.keys()
    assert len(voters ^ stayed) == min(len(each ^ stayed) for each in even)
    # The choice does not depend on the order of members, and is stable.
    assert chosen(dict(sorted(zones.items(), reverse=True)), voting, most=most) == voters
    assert chosen(zones, voters, most=most) == voters


@pytest.mark.parametrize(
    ("zones", "voting", "decisive"),
    [
        ("", "", []),
        ("aaa", "aaa", []),  # There is no other zone.
        ("abc", "abc", []),
        ("aab", "aab", ["a"]),
        ("aabb", "aabb", ["a", "b"]),  # The rest is a half, and no majority.
        ("aabbc", "aabbc", []),
        ("aaabbbc", "aaabbbc", []),
        ("aaaaaaabbcc", "aaaaaaa", ["a"]),
        ("ab", "a", ["a"]),
        ("  a", "  a", [" "]),
    ],
)
def test_a_zone_is_decisive_when_the_rest_is_no_majority(
    zones: str, voting: str, decisive: list[str]
) -> None:
    named = {f"n{number:02}": zone for number, zone in enumerate(zones)}
    assert decisive_zones(named, list(named)[: len(voting)]) == decisive


def entries(zones: str, votes: str = "") -> tuple[MemberEntry, ...]:
    """Return members in these zones; those with a `v` in `votes` vote."""
    flags = votes.ljust(len(zones), "-")
    return tuple(
        MemberEntry(f"n{n:02}", f"disk {n}", "host", 7000 + n, zone, votes=flags[n] == "v")
        for n, zone in enumerate(zones)
    )


def voters_of(members: Collection[MemberEntry]) -> str:
    return "".join("v" if each.votes else "-" for each in members)


def as_older_versions_chose(members: Collection[MemberEntry]) -> tuple[MemberEntry, ...]:
    """Return the members with the votes that a version without zones gives them."""
    order = sorted(members, key=lambda each: (each.lost, not each.votes, each.id))
    voters = [each.id for each in order if not each.observes][:VOTERS_MAX]
    return tuple(replace(each, votes=each.id in voters) for each in members)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12), st.text("v-", max_size=12))
def test_an_older_version_continues_a_change_as_begun(zones: list[str], votes: str) -> None:
    members = with_votes(entries("".join(zones), votes))
    assert as_older_versions_chose(members) == members


@given(st.lists(st.sampled_from("abc"), min_size=4, max_size=12))
def test_the_voters_after_a_change_were_chosen_when_it_began(zones: list[str]) -> None:
    """Use the voters of the joint stage, even those that an older version chose."""
    members = as_older_versions_chose(entries("".join(zones), "v" * len(zones)))
    coming = as_older_versions_chose(members[1:])
    joint = Configuration(
        3, "cluster", 1, 1, 3, members, Stage.JOINT, next_members=coming
    )  # fmt: skip
    assert advanced(joint).voting == joint.voting[1:]


def test_a_newcomer_takes_no_vote_from_another() -> None:
    now = Configuration(1, "cluster", 1, 1, 3, with_votes(entries("abcabcab")))
    assert voters_of(now.members) == "vvvvvvv-"
    newcomer = MemberEntry("a", "new", "host", 1, "c")  # Before all others by name.
    coming = begin(now, Change(Kind.JOIN, entry=newcomer)).next_members
    assert voters_of(coming) == "-vvvvvvv-"


def test_a_vote_goes_to_the_zone_that_lost_one() -> None:
    now = Configuration(1, "cluster", 1, 1, 3, with_votes(entries("abcabcabc")))
    assert voters_of(now.members) == "vvvvvvv--"
    coming = begin(now, Change(Kind.REMOVE, "n01")).next_members
    assert [each.id for each in coming if not each.votes] == ["n08"]


def test_founders_of_all_versions_agree_on_the_voters() -> None:
    founders = [Founder(each.id, each.host, each.port) for each in entries("aaaabbbcc")]
    stores = {each.id: (each.store_id, each.zone) for each in entries("aaaabbbcc")}
    first = found(founders[::-1], stores, slots=1, points_per_node=1, replication_factor=3)
    assert first is not None
    assert first.members == as_older_versions_chose(entries("aaaabbbcc"))


def test_the_register_spreads_the_votes_once_all_members_are_up() -> None:
    world = World(7)
    cluster = Cluster(
        world, 9, factor=3, slots=4, config=ReplicaConfig(), changes=True, zones="aaaabbbcc"
    )
    cluster.crash("n8")
    world.run(10.0)
    assert cluster.configuration.id == 1, (
        "a change that waits for a member would block an operator's change"
    )
    assert voters_of(cluster.configuration.members) == "vvvvvvv--"
    cluster.start("n8")
    world.run(20.0)
    assert (cluster.configuration.id, cluster.configuration.stage) == (4, Stage.STABLE)
    assert voters_of(cluster.configuration.members) == "vvv-vv-vv"
    world.run(30.0)
    assert cluster.configuration.id == 4
