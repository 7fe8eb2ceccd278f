"""Who can be a member at all: who has the key, says the same label, and is within our networks.

Inside the group everybody is trusted: a member with the key can lie about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gossip.keyring import Keyring


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What an agent asks of others, and shows them."""

    keyring: Keyring | None = None
    """Encrypts and authenticates all that travels; without it anybody can join and lie."""

    label: str = ""
    """Name of the group, authenticated with each packet, so that groups that share a key do not
    mix. Without a keyring it has no effect."""

    allow: Sequence[str] = ()
    """Networks such as "10.0.0.0/8" in which members may be; without any, all are allowed."""
