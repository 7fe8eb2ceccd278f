"""Line B4: SWIM's Figure 4. Seventeen members, a tenth of all packets lost, three protocols.

A failed probe is a verdict (basic, sent by one multicast), a verdict spread by infection, or a
suspicion that can be refuted for 3 ln(n + 1) periods. A verdict is for ever, so groups shrink.

Source: SWIM (2002), section 5.2. Periods of 2 s, k = 1, members join 4.6 s apart, 175 s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from statistics import median

from bench.gossip.figure import Figure, Plot, Series

MEMBERS, LOSS, PERIOD_S, END_S, APART_S = 17, 0.10, 2.0, 175.0, 4.6
VARIANTS = ("basic", "infection", "suspicion")


@dataclass(slots=True)
class _Member:
    """The knowledge of one member. rumours: name -> [verdict or accusation, sends left]."""

    known: set[int]
    suspects: dict[int, float] = field(default_factory=dict)
    rumours: dict[tuple[int, str, int], int] = field(default_factory=dict)
    incarnation: int = 0


class Group:
    """One run."""

    def __init__(self, seed: int, variant: str) -> None:
        self._rng = Random(f"{seed} {variant}")
        self._variant = variant
        self._members: dict[int, _Member] = {}
        self._heard: dict[tuple[int, int], int] = {}
        self._joined = -1

    def run(self) -> list[int]:
        """Return how many are in the group after each period."""
        sizes, now = [], 0.0
        while now < END_S:
            if now / APART_S < MEMBERS:
                self._join(int(now / APART_S))
            for name in list(self._members):
                if name in self._members:
                    self._period(name, now)
            sizes.append(len(self._members))
            now += PERIOD_S
        return sizes

    def _join(self, up_to: int) -> None:
        for name in range(self._joined + 1, up_to + 1):
            self._members[name] = _Member(set(self._members))
            for other in self._members:
                if other != name:
                    self._members[other].known.add(name)
            self._joined = name

    def _arrives(self, *names: int) -> bool:
        """Say whether a message along this road gets through: each receiver drops a tenth."""
        return all(name in self._members and self._rng.random() >= LOSS for name in names)

    def _period(self, name: int, now: float) -> None:
        me = self._members[name]
        for suspect, until_s in list(me.suspects.items()):
            if now >= until_s:
                del me.suspects[suspect]
                self._condemn(name, suspect)
        if not me.known or name not in self._members:
            return
        target = self._rng.choice(sorted(me.known))
        if self._arrives(target, name):
            self._exchange(name, target)
            return
        helpers = sorted(me.known - {target})
        helper = self._rng.choice(helpers) if helpers else None
        if helper is not None and self._arrives(helper, target, helper, name):
            return
        if self._variant == "suspicion" and target in self._members:
            self._accuse(name, target, now)
        else:
            self._condemn(name, target)

    def _accuse(self, name: int, target: int, now: float) -> None:
        me = self._members[name]
        incarnation = self._heard.get((name, target), 0)
        if target not in me.suspects:
            me.suspects[target] = now + 3 * math.log(len(me.known) + 2) * PERIOD_S
            me.rumours[target, "suspect", incarnation] = self._sends(me)

    def _condemn(self, name: int, target: int) -> None:
        me = self._members[name]
        me.known.discard(target)
        me.suspects.pop(target, None)
        if self._variant == "basic":
            for other in list(self._members):
                if other != name and self._rng.random() >= LOSS:
                    self._hear(other, (target, "dead", 0), 0.0)
        else:
            me.rumours[target, "dead", 0] = self._sends(me)

    def _sends(self, me: _Member) -> int:
        return 3 * math.ceil(math.log(len(me.known) + 2))

    def _exchange(self, one: int, other: int) -> None:
        if self._variant == "basic":
            return
        for sender, receiver in ((one, other), (other, one)):
            if sender not in self._members or receiver not in self._members:
                return
            rumours = self._members[sender].rumours
            for rumour in sorted(rumours, key=rumours.__getitem__, reverse=True)[:6]:
                rumours[rumour] -= 1
                if rumours[rumour] == 0:
                    del rumours[rumour]
                self._hear(receiver, rumour, 0.0)
                if receiver not in self._members:
                    return

    def _hear(self, name: int, rumour: tuple[int, str, int], now: float) -> None:
        about, kind, incarnation = rumour
        me = self._members[name]
        if about == name:
            if kind == "dead":
                del self._members[name]
            elif incarnation >= me.incarnation:
                me.incarnation = incarnation + 1
                me.rumours[name, "alive", me.incarnation] = self._sends(me)
            return
        if kind == "alive" and incarnation > self._heard.get((name, about), 0):
            self._heard[name, about] = incarnation
            me.suspects.pop(about, None)
            me.rumours[rumour] = self._sends(me)
        elif kind == "dead" and about in me.known:
            me.known.discard(about)
            me.suspects.pop(about, None)
            if self._variant != "basic":
                me.rumours[rumour] = self._sends(me)
        elif kind == "suspect" and about in me.known - me.suspects.keys():
            if incarnation < self._heard.get((name, about), 0):
                return
            me.suspects[about] = math.inf
            me.rumours[rumour] = self._sends(me)


def b4(seed: int, *, short: bool) -> tuple[list[Figure], Plot]:
    """The sizes of the groups over time, and at the end."""
    runs = 20 if short else 100
    ends: dict[str, list[int]] = {}
    series = []
    for variant in VARIANTS:
        curves = [Group(seed + run, variant).run() for run in range(runs)]
        ends[variant] = [curve[-1] for curve in curves]
        points = [
            (index * PERIOD_S, median(curve[index] for curve in curves))
            for index in range(len(curves[0]))
        ]
        series.append(Series(variant, points))
    middle = {variant: median(sizes) for variant, sizes in ends.items()}
    ordered = middle["basic"] <= middle["infection"] <= middle["suspicion"]
    many = sum(size >= 10 for size in ends["suspicion"]) / runs
    published = {"basic": 2, "infection": 4, "suspicion": 12}
    found = [
        Figure(
            "B4", f"left of 17 members, {variant}", middle[variant], "members",
            "basic <= infection <= suspicion", ordered,
            published=f"SWIM Fig. 4: {published[variant]}",
        )
        for variant in VARIANTS
    ]  # fmt: skip
    found.append(
        Figure("B4", "runs with 10 or more left, suspicion", many, "", ">= 0.8", many >= 0.8)
    )
    plot = Plot("gossip-survivors", "SWIM, Figure 4", "seconds", "members", series)
    return found, plot
