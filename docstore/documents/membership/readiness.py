"""The slots that are ready for the next step of a change of members.

Each owner reports its own slots in its heartbeats; the leader of the register counts them. From
learning to joint the newcomers must hold the decided rows. From joint to stable a term must have
been opened under majorities of both sets.
"""

from collections.abc import Callable

from docstore.documents.core import Core
from docstore.documents.log import SlotLog
from docstore.documents.term import Phase
from docstore.model.slots import from_bitmap, to_bitmap
from docstore.ownership import quorum
from docstore.ownership.configuration import Stage
from docstore.wire.messages import Heartbeat


class Readiness:
    """Counts the slots that are ready for the next step of a change."""

    def __init__(self, core: Core, blocks: Callable[[int], bool]) -> None:
        """blocks: whether this node still needs a member that leaves a slot."""
        self.core = core
        self._blocks = blocks
        self._said: dict[str, frozenset[int]] = {}

    def forget(self) -> None:
        self._said = {}

    @property
    def progress(self) -> int:
        """Return how many slots are ready for the next step; only the leader knows."""
        return len(set(self._here()).union(*self._said.values()))

    def is_complete(self) -> bool:  # Tests replace this.
        """Say whether the owner of every slot has reported it as ready."""
        # Check an upper bound first: every tick asks, and a look at each slot takes milliseconds.
        at_most = len(self.core.logs.terms()) + sum(map(len, self._said.values()))
        if at_most < self.core.placement.slots:
            return False
        return self.progress == self.core.placement.slots

    def bitmap(self) -> tuple[int, bytes]:
        """Return (configuration, bitmap of ready slots) for heartbeats."""
        number = self.core.configuration.id
        if self.core.configuration.stage is Stage.STABLE:
            return (number, b"")
        return (number, to_bitmap(self._here(), self.core.placement.slots))

    def heard(self, sender: str, message: Heartbeat) -> None:
        number, bitmap = message.ready
        if number == self.core.configuration.id:
            self._said[sender] = frozenset(from_bitmap(bitmap))

    def _here(self) -> list[int]:
        stage = self.core.configuration.stage
        if stage is Stage.STABLE:
            return []
        found = []
        for log, term in self.core.logs.terms():
            # A term that is open while the stage is joint was opened by majorities of both.
            if term.phase is Phase.OPEN and (stage is Stage.JOINT or self._is_filled(log)):
                found.append(log.slot)
        return found

    def _is_filled(self, log: SlotLog) -> bool:
        """Say whether all newcomers of the slot, and a majority of its next replicas, hold it.

        After the next step a newcomer counts even without the rows, so one more lost disk could
        lose decided rows.
        """
        if self._blocks(log.slot):
            return False
        if not all(self._holds_all(log, newcomer) for newcomer in log.learners):
            return False
        coming = self.core.placement.next_replicas(log.slot)
        held = [each for each in coming if each == self.core.me or self._holds_all(log, each)]
        return quorum.is_quorum(held, (coming,))

    def _holds_all(self, log: SlotLog, member: str) -> bool:
        follower = log.term.followers.get(member) if log.term else None
        if follower is None or not follower.adopted:
            return False
        return log.decided - follower.acked <= self.core.config.sending.page_rows
