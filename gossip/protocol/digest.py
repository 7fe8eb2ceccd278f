"""Comparing tables without sending them: one number for all, sixty-four for the parts.

A member's table is summed up as the exclusive or of a hash of each live member. It rides on
every ping and ack, so two members notice at once that they believe different things. Sixty-four
partial sums, by name, then say where: only those parts are exchanged.

Alive and suspect count alike, or every suspicion would look like a divergence. The dead and the
left are not in the sum: members forget them at different moments, and would differ for ever.

Source: hash trees for anti-entropy as in Dynamo (DeCandia et al., 2007, section 4.7), flattened
to one level; our tables are small.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from hashlib import blake2b

from gossip.config import Config
from gossip.member import Member

BUCKETS = 64
ALL_BUCKETS = 2**BUCKETS - 1
_SUM_BYTES = 4


def member_hash(member: Member) -> int:
    """Return 64 bits that stand for what we believe of a live member; 0 if it is gone."""
    if not member.is_live:
        return 0
    name = member.name.encode()
    said = b"%d %b%b%d %b" % (len(name), name, member.uid, member.incarnation, member.meta)
    return int.from_bytes(blake2b(said, digest_size=8).digest(), "big")


def bucket_of(name: str) -> int:
    """Return the part of the table that a name belongs to; the same on every member."""
    return zlib.crc32(name.encode()) % BUCKETS


class TableDigest:
    """The sums over one table, kept up to date change by change."""

    __slots__ = ("_buckets", "whole")

    def __init__(self) -> None:
        self.whole = 0
        """The sum over all live members."""
        self._buckets = [0] * BUCKETS

    def put(self, held: Member | None, member: Member) -> None:
        """Count `member` instead of `held`, which was counted under its name before."""
        change = member_hash(member)
        if held is not None:
            change ^= member_hash(held)
        self.whole ^= change
        self._buckets[bucket_of(member.name)] ^= change

    def packed(self) -> bytes:
        """Return the partial sums as they are sent: 64 times 4 bytes."""
        mask = 2 ** (8 * _SUM_BYTES) - 1
        return b"".join((each & mask).to_bytes(_SUM_BYTES, "big") for each in self._buckets)

    def differing(self, theirs: bytes) -> int:
        """Return the bitmap of the parts in which a peer's packed sums differ from ours."""
        ours = self.packed()
        return sum(
            1 << bucket
            for bucket in range(BUCKETS)
            if ours[4 * bucket : 4 * bucket + 4] != theirs[4 * bucket : 4 * bucket + 4]
        )


def within(members: Iterable[Member], buckets: int) -> tuple[Member, ...]:
    if buckets == ALL_BUCKETS:
        return tuple(members)
    return tuple(member for member in members if buckets >> bucket_of(member.name) & 1)


def dissemination_s(live_count: int, config: Config) -> float:
    """Return how long gossip takes to reach practically all of `live_count` members, in seconds.

    A round multiplies the members that know by up to fan-out + 1; four more rounds reach the last
    members. Source: SWIM (2002), section 4.1, for the growth with the logarithm.
    """
    rounds = math.log(max(2, live_count)) / math.log(config.gossip_fanout + 1) + 4
    return config.gossip_interval_s * rounds
