"""A side road: Idempotency-Keys are forgotten when their time is over, also where nobody writes.

One log is looked at in a tick, so that all 1,024 are passed in less than a minute, and none of it
is felt. Every replica does it for itself, by what is past for sure (rule D6): it only ever forgets
what the owner would not look at any more.
"""

from docstore.documents.core import Core
from docstore.documents.operations import Operations


class Forgetter:
    """Goes round the logs."""

    def __init__(self, core: Core, weaker: Operations) -> None:
        """weaker: the operations of levels 1 and 2, which have no log."""
        self.core = core
        self._weaker = weaker
        self._round: list[int] = []

    def tick(self) -> None:
        """Look at the next one."""
        now_us = self.core.past_us()
        if not self._round:
            self._weaker.forget_keys(now_us)
            self._round = list(self.core.logs)
        log = self.core.logs.get(self._round.pop()) if self._round else None
        if log is not None:
            log.operations.forget_keys(now_us)
