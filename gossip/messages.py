"""The messages of members, with their limits. `wire.py` has their bytes.

| group    | messages                               | travel by                           |
|----------|----------------------------------------|-------------------------------------|
| probing  | Ping, Ack, PingReq, Nack               | datagram; Ping and Ack also stream  |
| rumours  | Alive, Suspect, Dead, Left, Claim       | datagram, behind a probe or without |
| tables   | Digest, DigestAnswer, Sync, SyncAnswer | stream                              |
| keys     | KeyChange, KeyChanged                  | sealed stream                       |

Source: SWIM (2002), sections 3.1 and 4.1, for probes and piggybacked rumours; Lifeguard (Dadgar,
Phillips and Currey, 2017) for the nack.
"""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass, field
from enum import IntEnum

from gossip.member import Address, Member

VERSION = 1
NAME_BYTES_MAX = 128
META_BYTES_MAX = 512
UID_BYTES = 8
INCARNATION_MAX = 2**62
SEQUENCE_MAX = 2**32 - 1
HASH_MAX = 2**64 - 1
DIGEST_BYTES = 256
NACK_AFTER_MS_MAX = 600_000
MEMBERS_PER_SYNC_MAX = 65_535
MESSAGES_PER_DATAGRAM_MAX = 1024
FRAME_HEADER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Ping:
    """Prober to target: are you there? Answered by an Ack with the same sequence number."""

    sequence: int
    target: str
    """The member that the prober expects at this address.

    A member of another name answers with a nack.
    """
    source: str
    state_hash: int | None = field(default=None, compare=False)
    """The sum over the sender's live members (`protocol/digest.py`), to notice differences."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Target to prober, or relay to prober on its behalf. No answer expected."""

    sequence: int
    source: str
    """The target's name, also when a relay forwards it."""
    state_hash: int | None = field(default=None, compare=False)
    """As in Ping; None when a relay forwards the ack."""


@dataclass(frozen=True, slots=True)
class PingReq:
    """Prober to relay, after its own ping went unanswered: ping the target from there.

    Answered by the target's Ack, or by a Nack if none came within `nack_after_ms`.
    """

    sequence: int
    target: str
    address: Address
    nack_after_ms: int
    source: str


class NackReason(IntEnum):
    """Why there is no ack."""

    TIMEOUT = 0
    """The target did not answer the relay in time either."""
    UNKNOWN = 1
    """The relay does not know the target as alive, or relays too many pings already."""
    LEFT = 2
    """The target has announced that it leaves."""
    WRONG_NODE = 3
    """The member at this address is not the target, but the sender of the nack."""


@dataclass(frozen=True, slots=True)
class Nack:
    """A relay works and is reached, but has no ack of the target.

    No answer expected. Sent by the relay to the prober in answer to PingReq, or by another member
    at the target's address.
    """

    sequence: int
    source: str
    reason: NackReason = NackReason.TIMEOUT


@dataclass(frozen=True, slots=True)
class Alive:
    """A rumour that only its subject begins: it is alive. Passed on by all, no answer expected."""

    name: str
    uid: bytes
    incarnation: int
    address: Address
    meta: bytes


@dataclass(frozen=True, slots=True)
class Suspect:
    """A rumour begun by `reporter`, whose probe failed. The subject answers with Alive."""

    name: str
    incarnation: int
    reporter: str


@dataclass(frozen=True, slots=True)
class Dead:
    """A rumour begun by the member whose suspicion ran out. The subject answers with Alive."""

    name: str
    incarnation: int
    reporter: str


@dataclass(frozen=True, slots=True)
class Left:
    """A rumour that only its subject begins: it leaves and must not be probed."""

    name: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Claim:
    """Passed on by all: a live process at `address` uses a name that another process holds."""

    name: str
    uid: bytes
    incarnation: int
    address: Address


@dataclass(frozen=True, slots=True)
class Digest:
    """Any member to any other: partial sums of the sender's table. Answered by a DigestAnswer."""

    source: str
    sums: bytes


@dataclass(frozen=True, slots=True)
class DigestAnswer:
    """The answer to Digest: the parts in which the tables differ. A Sync of them is expected."""

    source: str
    buckets: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Any member to any other: its table. Answered by a SyncAnswer after the merge."""

    source: str
    members: tuple[Member, ...]
    news: tuple[str, ...] = ()
    """Names about which the sender still spreads a rumour: a receiver that learns of them here
    passes it on. Without it, members that join at the same moment would not pass on the news of
    each other."""
    buckets: int = 2**64 - 1
    """Bitmap of the parts of the table that this message covers."""


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The answer to Sync: the same parts of the receiver's table, the sender's merged."""

    source: str
    members: tuple[Member, ...]
    news: tuple[str, ...] = ()
    """As in Sync."""


class KeyVerb(IntEnum):
    """The steps of a rotation, and LIST, which changes nothing."""

    INSTALL = 0
    USE = 1
    REMOVE = 2
    LIST = 3


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A request of the member that leads a rotation, sealed only. Answered by KeyChanged."""

    verb: KeyVerb
    key: bytes = field(repr=False)
    """The key to install, the identifier of the key to use or to remove, or nothing."""


@dataclass(frozen=True, slots=True)
class KeyChanged:
    """The answer to KeyChange."""

    failure: str
    """Why the step was not taken; "" if it was."""
    ids: tuple[str, ...]
    """Identifiers of the keys that the member holds now, the primary key first."""


Rumour = Alive | Suspect | Dead | Left
DatagramMessage = Ping | Ack | PingReq | Nack | Rumour | Claim
StreamMessage = Ping | Ack | Sync | SyncAnswer | Digest | DigestAnswer | KeyChange | KeyChanged
Message = DatagramMessage | StreamMessage


def is_name(name: str) -> bool:
    """Tell whether `name` can name a member: printable, and 1 to 128 bytes of UTF-8."""
    return name.isprintable() and 0 < len(name.encode()) <= NAME_BYTES_MAX


@functools.lru_cache(maxsize=4096)
def is_ip_literal(host: str) -> bool:
    """Tell whether `host` is an IPv4 or IPv6 address: a name would stall the sender in DNS."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
