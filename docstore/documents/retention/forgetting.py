"""Expiry of Idempotency-Keys, also in slots without writes.

Each tick visits one log, so that all 1,024 are visited within a minute, at no noticeable cost.
Every replica does it by itself, by the time that is certainly past (rule D6): it only forgets keys
that the owner would not look at any more.
"""

from docstore.documents.core import Core
from docstore.documents.operations import Operations


class Forgetter:
    def __init__(self, core: Core, weaker: Operations) -> None:
        """weaker: the operations of levels 1 and 2, which have no log."""
        self.core = core
        self._weaker = weaker
        self._round: list[int] = []

    def tick(self) -> None:
        now_us = self.core.past_us()
        if not self._round:
            self._weaker.forget_keys(now_us)
            self._round = list(self.core.logs)
        log = self.core.logs.get(self._round.pop()) if self._round else None
        if log is not None:
            log.operations.forget_keys(now_us)
