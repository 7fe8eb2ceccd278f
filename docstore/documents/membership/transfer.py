"""The lead of the register is given away: by a node that drains, to a voter that holds all of it.

The heir stands at once, without a pre-vote, so nobody has to grow impatient first.

Source: transfer of leadership (Ongaro's thesis, 3.10).
"""

from docstore.documents.core import Core
from docstore.documents.membership.replication import Replication
from docstore.documents.membership.stored import StoredRegister
from docstore.documents.peers import NEVER
from docstore.wire.messages import Succeed


class Transfer:
    """The leader's side; who receives Succeed is a candidate of `election.py`."""

    def __init__(self, core: Core, stored: StoredRegister, replication: Replication) -> None:
        self.core = core
        self.outbox = core.outbox
        self.stored = stored
        self.replication = replication
        self.restarted()

    def restarted(self) -> None:
        """Forget whom we have told."""
        self._told_at = NEVER

    def heir(self) -> str | None:
        """Return a voter that holds all that we do, and stays: who leads next if we leave."""
        if not self.stored.leads or not self.stored.is_decided:
            return None  # What is under way is finished first.
        return next(filter(self.core.may_own, self.replication.up_to_date()), None)

    def tick(self) -> None:
        """Have the heir stand now; the message may be lost, so it is repeated."""
        heir, now = self.heir(), self.core.now
        again_s = self.core.config.leadership.heartbeat_interval_s
        if heir is not None and now >= self._told_at + again_s:
            self._told_at = now
            self.outbox.send_any(heir, Succeed(self.stored.voter.generation))
