"""Voters on configurations: as many members as allowed, spread over zones, with few changes.

Voters change only where that makes their zones more even, one for one, so that a member that joins
or leaves moves as few votes as possible. A zone with a majority of the votes could block every
change of the group when it is lost; even spreading prevents that from three zones on.

The node that begins a change computes the voters once, and they are part of the decision. No node
computes the *present* voters with this file (`configuration.py`), so a node of another version,
which would choose other voters, counts by the same voters.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from docstore.ownership.quorum import majority

VOTERS_MAX = 7
"""Maximum number of voters: three of them may be lost."""


def chosen(
    zones: Mapping[str, str], voting: Collection[str], *, most: int = VOTERS_MAX
) -> frozenset[str]:
    """Return the voters: `most` members or all, spread evenly over zones.

    No zone has two more voters than another zone with members left to choose. zones: member ->
    zone, of all members that may vote. voting: the present voters; a voter without an entry in
    `zones` has left. The choice differs as little as possible from `voting`.
    """
    voters = {each for each in voting if each in zones}
    while True:
        held = Counter(zones[each] for each in voters)

        def rank(each: str, held: Counter[str] = held) -> tuple[int, str, str]:
            return held[zones[each]], zones[each], each

        fullest = max(voters, key=rank, default="")
        spare = min(zones.keys() - voters, key=rank, default="")
        if len(voters) > most:
            voters.remove(fullest)
        elif not spare:
            return frozenset(voters)
        elif len(voters) < most:
            voters.add(spare)
        elif rank(fullest)[0] - rank(spare)[0] > 1:
            voters.symmetric_difference_update((fullest, spare))
        else:
            return frozenset(voters)


def decisive_zones(zones: Mapping[str, str], voting: Collection[str]) -> list[str]:
    """Return the zones whose loss leaves no majority of voters; none if there is only one zone.

    zones: member -> zone, of all members that may vote. voting: the voters.
    """
    if len(set(zones.values())) < 2:
        return []
    held = Counter(zones[each] for each in voting)
    needed = majority([*voting])
    return sorted(zone for zone, count in held.items() if len(voting) - count < needed)
