"""Transfer of the register's leadership from a draining node to a voter that is up to date.

The target asks for votes at once, without a pre-vote, so no voter has to wait for its timeout.

Source: leadership transfer (Ongaro's thesis, 3.10).
"""

from docstore.documents.core import Core
from docstore.documents.membership.replication import Replication
from docstore.documents.membership.stored import StoredRegister
from docstore.documents.peers import NEVER
from docstore.wire.messages import Succeed


class Transfer:
    """Transfers the leadership; on the node that receives Succeed, `election.py` acts."""

    def __init__(self, core: Core, stored: StoredRegister, replication: Replication) -> None:
        self.core = core
        self.outbox = core.outbox
        self.stored = stored
        self.replication = replication
        self.restarted()

    def restarted(self) -> None:
        self._told_at = NEVER

    def target(self) -> str | None:
        """Return a voter that is up to date and stays, to lead next; None if there is none."""
        if not self.stored.leads or not self.stored.is_decided:
            return None  # The present change is decided first.
        return next(filter(self.core.may_own, self.replication.up_to_date()), None)

    def tick(self) -> None:
        """Tell the target at each tick to stand for election, because the message may be lost."""
        target, now = self.target(), self.core.now
        again_s = self.core.config.leadership.heartbeat_interval_s
        if target is not None and now >= self._told_at + again_s:
            self._told_at = now
            self.outbox.send_any(target, Succeed(self.stored.voter.generation))
