"""Requests of Kafka clients about groups to their coordinator.

Each travels as the argument of a call, as a plain list. The answer is an object with the member
`code`: "" for success, else a value of `Code`. `docstore/kafka/` translates both.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Code(StrEnum):
    """A reason for which the coordinator refuses a request."""

    MEMBER_ID_REQUIRED = "member-id-required"
    UNKNOWN_MEMBER = "unknown-member"
    ILLEGAL_GENERATION = "illegal-generation"
    REBALANCING = "rebalance-in-progress"
    FENCED_INSTANCE = "fenced-instance"
    OTHER_PROTOCOL = "inconsistent-protocol"
    SESSION_TIMEOUT = "invalid-session-timeout"
    GROUP_FULL = "group-full"


class JoinAsked(NamedTuple):
    """Request to take part in the next generation; answered when its members are known.

    member: "" for a new one. instance: a name that survives restarts, or "". protocols: [name,
    metadata] in the order of preference. needs_id: whether a new member gets its id first.
    """

    member: str
    instance: str
    client: str
    host: str
    session_ms: int
    rebalance_ms: int
    type: str
    protocols: Sequence[tuple[str, bytes]]
    needs_id: bool = True


class SyncAsked(NamedTuple):
    """Request for the member's assignment; answered when the generation is decided.

    The leader sends the assignments. assigned: partition -> member, parts: topic -> partitions, as
    far as the entry node can read them.
    """

    member: str
    instance: str
    generation: int
    type: str
    name: str
    assignments: Mapping[str, bytes]
    assigned: Mapping[str, str]
    parts: Mapping[str, int]


class BeatAsked(NamedTuple):
    """Sign of life of a member."""

    member: str
    instance: str
    generation: int


class CommitAsked(NamedTuple):
    """Question whether a member may commit; answered with the token of the commit.

    generation: below 0 without a membership. parts: topic -> partitions, of the committed offsets.
    """

    member: str
    instance: str
    generation: int
    parts: Mapping[str, int]


class Leaving(NamedTuple):
    """A member of a request to leave, which is a list of them. member: "" if named by instance."""

    member: str
    instance: str
