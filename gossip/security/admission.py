"""Admission: a member has the key and the label of the group, and is within our networks.

Inside the group every member is trusted: a member with the key can lie about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gossip.security.keyring import Keyring

SESSION_BYTES = 8
SEAL_BYTES = 33
"""Bytes that a seal adds to a packet (`seal.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The key, the label and the networks of a group."""

    keyring: Keyring | None = None
    """Keys that encrypt and authenticate all packets; without them any process can join and lie."""

    label: str = ""
    """Name of the group, authenticated with each packet, so that groups that share a key do not
    mix. Without a keyring it has no effect."""

    allow: Sequence[str] = ()
    """Networks such as "10.0.0.0/8" in which members may be; without any, all are allowed."""


class Opened(NamedTuple):
    """The content of a packet, its key, and the session and the counter that sealed it."""

    plain: bytes
    key_id: bytes
    session: bytes
    counter: int


class Refused(StrEnum):
    """Why a packet does not open."""

    PLAIN = "packets_plain"
    SHORT = "packets_short"
    UNKNOWN_KEY = "packets_of_unknown_key"
    FORGED = "packets_forged"
