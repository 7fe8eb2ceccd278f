"""Voters on configurations: as many members as allowed, spread over zones, with few changes.

Voters change only where that makes their zones more even, one for one, so that a member that
comes or goes moves as few votes as there can be. A zone that holds a majority of them could stop
every change of the group by its loss; evenly spread, none does where there are three zones or more.

It is computed once, by the node that begins a change, and is a part of what is decided then:
nobody ever asks this file who votes *now* (`configuration.py`), so that a node of another version,
which would choose others, counts as all do.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from docstore.ownership.quorum import majority

VOTERS_MAX = 7
"""Members that vote on configurations: five may be lost of eleven hundred, no more ask for it."""


def chosen(
    zones: Mapping[str, str], voting: Collection[str], *, most: int = VOTERS_MAX
) -> frozenset[str]:
    """Return the voters: `most` members or all, no zone two ahead of one that could give more.

    zones: member -> zone, of all members that may vote. voting: the present voters; one that is not
    in `zones` has left. Of all even choices it is one that differs least from `voting`.
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
    """Return the zones without which the voters are no majority; none where there is only one.

    zones: member -> zone, of all members that may vote. voting: the voters.
    """
    if len(set(zones.values())) < 2:
        return []
    held = Counter(zones[each] for each in voting)
    needed = majority([*voting])
    return sorted(zone for zone, count in held.items() if len(voting) - count < needed)
