"""One state machine on a bench: steady randomness, round numbers, peers by letter."""

from __future__ import annotations

import random
from collections.abc import MutableSequence, Sequence
from typing import Any

from gossip import Address, Config, Member, State
from gossip.protocol.effects import Effect
from gossip.protocol.events import Received
from gossip.protocol.swim import Swim
from gossip.wire import Alive, DatagramMessage

CONFIG = Config.lan()
ME = Member("me", b"uid-me--", ("10.0.0.1", 1), 100)


class Steady(random.Random):
    """Always the middle, always the first: effects can be compared whole."""

    def random(self) -> float:
        return 0.5

    def shuffle(self, x: MutableSequence[Any]) -> None:
        pass

    def sample(self, population: Sequence[Any], k: int, *, counts: Any = None) -> list[Any]:
        return list(population[:k])


FIRST_SEQUENCE = int(0.5 * (2**32 - 1)) + 1
"""The number of the first ping of a machine with steady randomness."""


def address_of(name: str) -> Address:
    return ("10.0.1.1", ord(name[0]))


def peer(name: str, *, incarnation: int = 10, state: State = State.ALIVE) -> Member:
    return Member(name, name.encode().ljust(8, b"-"), address_of(name), incarnation, state)


def alive(name: str, incarnation: int = 10) -> Alive:
    member = peer(name, incarnation=incarnation)
    return Alive(member.name, member.uid, member.incarnation, member.address, member.meta)


def machine(*names: str, config: Config = CONFIG) -> Swim:
    """Return a machine that knows `names` as alive and has no rumour left to tell."""
    swim = Swim(ME, config, rng=Steady())
    for name in names:
        swim.step(Received(address_of(name), (alive(name),)), 0.0)
    swim.membership.queue.clear()
    swim._is_gossip_set = True  # Tests that look at gossip set its clock themselves.
    return swim


def hear(swim: Swim, sender: str, *messages: DatagramMessage, now: float = 1.0) -> list[Effect]:
    return swim.step(Received(address_of(sender), messages), now)


def state_of(swim: Swim, name: str) -> State | None:
    held = swim.membership.table.get(name)
    return held.state if held is not None else None
