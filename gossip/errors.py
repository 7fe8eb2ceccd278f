"""The errors of this package. All are refusals: nothing was sent and nothing was changed.

Faults of peers raise nothing: their messages are dropped and counted on arrival (`wire.py`,
`transport.py`).
"""

from __future__ import annotations


class GossipError(Exception):
    """Any refusal of this package. Nothing was changed."""


class ConfigError(GossipError):
    """A setting is unknown, out of bounds, or at odds with another. The message names it."""


class NameTooLong(GossipError):
    """The member name is empty or exceeds 128 bytes of UTF-8. Choose another; nothing started."""


class MetaTooLarge(GossipError):
    """The metadata exceeds 512 bytes, so its announcement might not fit one datagram.

    The metadata announced before, if any, stays in force.
    """


class BindFailed(GossipError):
    """UDP and TCP could not both be bound, or the address to advertise does not resolve.

    No socket is left open.
    """


class NotRunning(GossipError):
    """The agent has not been started, or was stopped. Nothing was done."""


class AlreadyStarted(GossipError):
    """The agent was started before. Each has a uid for one life: build a new one to start again."""


class JoinFailed(GossipError):
    """No seed has answered in time; the message says why, seed by seed.

    The agent goes on trying, so it may still join: check the addresses and the firewall.
    """


class NameConflict(GossipError):
    """A live process holds our name, and keeps it. Choose another, or end that process."""


class KeyringError(GossipError):
    """A key is of a wrong length, unknown, in use, or one too many. The keyring is unchanged."""


class RotationFailed(GossipError):
    """A step of a rotation was refused, or some members did not take it; the message names them.

    All members can still read each other: no member seals with a key that another member lacks.
    Repeat the step.
    """
