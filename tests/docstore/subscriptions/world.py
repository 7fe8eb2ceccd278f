"""Deliveries in virtual time: a log, a document, a receiver, and owners that change by a seed.

Two nodes may believe for a while that they own the document, with all that they can do then.
"""

from collections import Counter
from random import Random

from docstore.model.service import State
from docstore.services.subscriptions import (
    Mark,
    SubscriptionPhase,
    SubscriptionService,
    SubscriptionState,
    subscription_of,
)
from docstore.subscriptions.delivery import FAILURES_MAX, Delivery
from docstore.subscriptions.effects import Call, Confirm, Effect, Leave, Read, Save, Wait
from docstore.subscriptions.events import (
    BatchReceived,
    Began,
    Called,
    Confirmed,
    Event,
    HistoryGone,
    ReadFailed,
    Saved,
    Unchanged,
    Unsaved,
    Woken,
)

RETRY_S = 1.0


def subscription(**members: object) -> SubscriptionState:
    said = {"path": "/a", "callback": "https://r.example/", "sealed": "s", "mark": Mark("0")}
    return SubscriptionState(**(said | members))  # type: ignore[arg-type]


class Owner:
    """A node that believes it owns the document, with its present effect."""

    def __init__(self, world: "World", rng: Random) -> None:
        self.delivery = Delivery(RETRY_S, rng)
        self.version = world.version
        self.effect: Effect = self.delivery.step(Began(world.about), world.now)
        self.failed = 0
        """Failed calls in a row."""


class World:
    """One subscription to a log of numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 0.0
        self.log: list[int] = []
        self.kept = 0
        self.state: State = subscription().state()
        self.version = 0
        self.owner: Owner | None = None
        self.deposed: list[Owner] = []
        self.taken: list[list[int]] = []
        self.is_dead = False
        self.seen: Counter[str] = Counter()

    @property
    def about(self) -> SubscriptionState:
        return subscription_of(self.state)

    # The nodes of the group

    def turn(self) -> None:
        """Let one random thing happen, and owners proceed."""
        self.now += self.rng.expovariate(10)
        chance = self.rng.random()
        if chance < 0.3:
            self.log.append(len(self.log))
        elif chance < 0.31 and self.owner is not None:
            self.deposed.append(self.owner)
            self.owner = None
        elif chance < 0.32 and self.owner is not None:
            self.owner = None  # The owner dies.
        elif chance < 0.33:
            self.is_dead = not self.is_dead
        elif chance < 0.34 and self.about.phase is SubscriptionPhase.PAUSED:
            self.change({"kind": "ResumeRequest"})
        elif chance < 0.345 and self.about.phase is SubscriptionPhase.ACTIVE:
            self.change({"kind": "PauseRequest"})
        if self.owner is None and self.about.phase is SubscriptionPhase.ACTIVE:
            self.owner = Owner(self, self.rng)
        for owner in [self.owner, *self.deposed]:
            if owner is not None and self.rng.random() < 0.7:
                self.perform(owner)

    def change(self, change: State) -> None:
        after = SubscriptionService().patch(self.state, change)
        if after is not None:
            self.state, self.version = after, self.version + 1

    def perform(self, owner: Owner) -> None:
        """Perform a node's effect, and give it the event."""
        if isinstance(owner.effect, Leave):
            if owner is self.owner:
                self.owner = None
            else:
                self.deposed.remove(owner)
            return
        event = self._event(owner, owner.effect)
        if event is not None:
            self.seen[type(event).__name__] += 1
            owner.effect = owner.delivery.step(event, self.now)

    def _event(self, owner: Owner, effect: Effect) -> Event | None:
        match effect:
            case Read(mark, rows):
                return self._read(int(mark.position), rows)
            case Confirm():
                is_same = owner is self.owner and owner.version == self.version
                return Confirmed(is_same, may_read=True)
            case Call(lines, mark, _):
                return self._call(owner, lines)
            case Save(change, since):
                if owner.version != self.version:
                    if since == self.about.mark:
                        self.change(change)
                    return Unsaved()
                if self.rng.random() < 0.05:
                    return Unsaved()
                if self.rng.random() < 0.3:
                    return Unchanged()
                self.change(change)
                owner.version = self.version
                return Saved()
            case Wait(until, for_news):
                is_news = for_news and self.rng.random() < 0.5
                return Woken() if self.now >= until or is_news else None
        raise AssertionError(effect)

    def _read(self, after: int, rows: int) -> Event:
        if self.rng.random() < 0.05:
            return ReadFailed("nobody answers")
        if after < self.kept:
            return HistoryGone("gone", str(self.kept))
        found = self.log[after : after + rows]
        odd = [n for n in found if n % 2]  # Half of all rows are wanted.
        lines = b"".join(b"%d\n" % n for n in odd)
        return BatchReceived(lines, len(odd), Mark(str(after + len(found))))

    # The receiver

    def _call(self, owner: Owner, lines: bytes) -> Called:
        assert owner.failed < FAILURES_MAX
        if self.is_dead or self.rng.random() < 0.1:
            owner.failed += 1
            taken = self.rng.random() < 0.3  # Its answer is lost.
            if taken:
                self.taken.append([int(line) for line in lines.split()])
            return Called(0 if taken else 500, "lost")
        owner.failed = 0
        self.taken.append([int(line) for line in lines.split()])
        return Called(204)

    def check(self) -> None:
        """Check the invariants."""
        following = 1
        for batch in self.taken:
            assert batch == sorted(batch), "a call is out of order"
            for n in batch:
                assert n <= following, f"{n} came, and {following} did not"
                following = max(following, n + 2)
        assert int(self.about.mark.position) <= following, "the mark is ahead of the taken lines"
