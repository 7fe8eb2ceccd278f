"""The network between simulated members: losses, delays, duplicates and cuts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from gossip import Address


@dataclass(slots=True)
class Network:
    """The fate of messages. All settings may be changed at any time, by name of member."""

    rng: random.Random
    loss: float = 0.0
    """Part of the datagrams that is lost. Streams repair themselves."""
    loss_at: dict[str, float] = field(default_factory=dict)
    """The same for what arrives at one member."""
    duplicates: int = 0
    """Further copies of each datagram."""
    reordered: float = 0.0
    """Part of the datagrams that is overtaken by others: it takes ten times as long."""
    delay_s: tuple[float, float] = (0.001, 0.003)
    starved: set[str] = field(default_factory=set)
    """Members that read their packets late, while their timers are on time."""
    starved_delay_s: tuple[float, float] = (0.5, 2.5)
    deaf: set[str] = field(default_factory=set)
    """Nothing arrives there, although their messages get out."""
    mute: set[str] = field(default_factory=set)
    """Nothing that they send gets out."""
    without_udp: set[str] = field(default_factory=set)
    """Streams work there, datagrams do not, in either direction."""
    cuts: set[tuple[str, str]] = field(default_factory=set)
    """(from, to): one direction of one pair."""
    group_of: dict[str, int] = field(default_factory=dict)
    unplugged: set[Address] = field(default_factory=set)
    """Hosts that are gone, so that connections are not even refused."""

    def partition(self, *groups: list[str]) -> None:
        """Let only members of the same group hear each other."""
        self.group_of = {name: number for number, names in enumerate(groups) for name in names}

    def heal(self) -> None:
        """End the partition and all cuts."""
        self.group_of = {}
        for cut in (self.cuts, self.deaf, self.mute, self.without_udp):
            cut.clear()

    def is_open(self, sender: str, target: str) -> bool:
        """Say whether messages get from `sender` to `target`."""
        return (
            sender not in self.mute
            and target not in self.deaf
            and (sender, target) not in self.cuts
            and self.group_of.get(sender, -1) == self.group_of.get(target, -1)
        )

    def arrivals_s(self, sender: str, target: str) -> list[float]:
        """Return after how long each copy of a datagram arrives; none for one that is lost."""
        if not self.is_open(sender, target) or {sender, target} & self.without_udp:
            return []
        loss = self.loss_at.get(target, self.loss)
        return [
            self.datagram_delay_s(target)
            for _ in range(1 + self.duplicates)
            if not loss or self.rng.random() >= loss
        ]

    def datagram_delay_s(self, target: str) -> float:
        """Return how long a datagram takes to be read by `target`."""
        delay_s = self.one_way_s()
        if self.reordered and self.rng.random() < self.reordered:
            delay_s *= 10
        return delay_s + self.lateness_s(target)

    def one_way_s(self) -> float:
        """Return how long one way takes now."""
        least_s, most_s = self.delay_s
        return least_s + (most_s - least_s) * self.rng.random()

    def lateness_s(self, target: str) -> float:
        """Return how late a starved member reads what has arrived; 0 for others."""
        if target not in self.starved:
            return 0.0
        least_s, most_s = self.starved_delay_s
        return least_s + (most_s - least_s) * self.rng.random()
