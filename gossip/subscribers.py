"""The receivers of the protocol's reports: readers, callbacks, joins, the snapshot. A shell.

It calls code of the application, and no failure of that code reaches the protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import assert_never

from gossip import news
from gossip.joining import Joining
from gossip.member import Address, Change
from gossip.protocol.effects import (
    Notify,
    ReportConflict,
    ReportSeed,
    ReportUnreachable,
)
from gossip.snapshot import Snapshot
from gossip.subscription import Subscription

_log = logging.getLogger("gossip")

Report = Notify | ReportSeed | ReportUnreachable | ReportConflict


class Subscribers:
    """Passes reports of the protocol on to their receivers."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._snapshot = snapshot
        self._callbacks: list[Callable[[Change], None]] = []
        self._subscriptions: list[Subscription] = []
        self._joinings: list[Joining] = []

    def known_addresses(self) -> Sequence[Address]:
        return self._snapshot.load() if self._snapshot is not None else ()

    def add_callback(self, callback: Callable[[Change], None]) -> None:
        self._callbacks.append(callback)

    def subscribe(self) -> Subscription:
        subscription = Subscription()
        self._subscriptions.append(subscription)
        return subscription

    def begin(self, joining: Joining) -> None:
        """Report the answers of seeds to a join, until its wait is over."""
        self._joinings = [each for each in self._joinings if not each.is_over]
        self._joinings.append(joining)

    def tell(self, said: news.News) -> None:
        for subscription in self._subscriptions:
            subscription.put(said)

    def hear(self, report: Report) -> None:
        match report:
            case Notify(change):
                self._changed(change)
            case ReportSeed(address, failure):
                for joining in self._joinings:
                    joining.answered(address, failure)
            case ReportUnreachable(name):
                _log.warning("a member answers over TCP only", extra={"member": name})
                self.tell(news.UdpUnreachable(name))
            case ReportConflict(name, held, claimed):
                addresses = [str(held), str(claimed)]
                _log.warning(
                    "two live processes claim one name",
                    extra={"member": name, "addresses": addresses},
                )
                self.tell(news.Conflict(name, held, claimed))
                for joining in self._joinings:
                    joining.conflict(name, claimed)
            case _:
                assert_never(report)

    async def close(self, *, has_left: bool) -> None:
        """End the readers; write the snapshot, or remove it if we have left."""
        for subscription in self._subscriptions:
            subscription.close()
        if self._snapshot is not None:
            await self._snapshot.close(has_left=has_left)

    def _changed(self, change: Change) -> None:
        said = news.news_of(change)
        if said is not None:
            self.tell(said)
        if self._snapshot is not None:
            self._snapshot.note(change.member)
        for callback in list(self._callbacks):
            try:
                callback(change)
            except Exception:  # noqa: BLE001 - the callback is the application's.
                _log.exception("a subscriber failed", extra={"change": str(change)})
