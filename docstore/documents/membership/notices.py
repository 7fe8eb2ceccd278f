"""Notices: members send the decided configuration to nodes that are behind.

A member sends it to a node that counts by an older configuration when it hears from that node, and
to every peer when a new one comes into use. A node accepts a decided configuration from any member.
"""

from docstore.documents.core import Core
from docstore.documents.membership.stored import StoredRegister
from docstore.documents.membership.stored_protocol import may_tell
from docstore.documents.peers import NEVER
from docstore.ownership.configuration import unpack_configuration
from docstore.wire.messages import Configured


class CommitNotices:
    def __init__(self, core: Core, stored: StoredRegister) -> None:
        self.core = core
        self.outbox = core.outbox
        self.stored = stored
        self.restarted()

    def restarted(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}
        """Node -> (time, id) of the last notice."""

    def tell(self, peer: str) -> None:
        """Send a node the configuration, unless it was sent a moment ago."""
        now, number = self.core.now, self.core.configuration.id
        told_at, told = self._told.get(peer, (NEVER, 0))
        if told == number and now - told_at < self.core.config.sending.resend_interval_s:
            return
        if not may_tell(self.core, peer, self.core.configuration):
            return
        self._told[peer] = (now, number)
        self.outbox.send_any(peer, Configured(self.core.configuration.pack()))

    def told(self, message: Configured) -> None:
        self.stored.learn(unpack_configuration(message.packed))
