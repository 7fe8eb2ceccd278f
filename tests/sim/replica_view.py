"""View of the group for other machines, from the replica of documents beside them."""

from docstore.documents.owners import owner_of
from docstore.documents.replica import Replica
from docstore.documents.term import Phase


class ReplicaView:
    """A node's view of its group (`docstore/machines/view.py`)."""

    def __init__(self, replica: Replica) -> None:
        self._core = replica.core

    @property
    def members(self) -> tuple[str, ...]:
        return self._core.configuration.names

    @property
    def leavers(self) -> frozenset[str]:
        configuration = self._core.configuration
        if not configuration.next_members:
            return frozenset()
        return frozenset(self.members) - {each.name for each in configuration.next_members}

    @property
    def zones(self) -> dict[str, str]:
        return {each.name: each.zone for each in self._core.configuration.members}

    @property
    def terms_opened(self) -> int:
        return self._core.counters["opened"]

    @property
    def lacks_quorum(self) -> bool:
        return self._core.lacks_quorum()

    @property
    def is_draining(self) -> bool:
        return self._core.is_draining

    def is_alive(self, node: str) -> bool:
        return node == self._core.me or (node in self._core.peers and self._core.is_alive(node))

    def is_linked(self, node: str) -> bool:
        return node in self._core.peers and self._core.peers[node].linked

    def may_own(self, node: str) -> bool:
        known = node == self._core.me or node in self._core.peers
        return known and self._core.may_own(node)

    def owns(self, link: str) -> bool:
        return self.own_epoch(link) > 0

    def own_epoch(self, link: str) -> int:
        log = self._core.logs.get(self._core.slot_of(link))
        if log is None or log.term is None or log.term.phase is not Phase.OPEN:
            return 0
        return log.term.ballot[0]

    def owner_of(self, link: str) -> str:
        return owner_of(self._core, self._core.slot_of(link)) or ""

    def slot_of(self, link: str) -> int:
        return self._core.slot_of(link)

    def wall_now_us(self) -> int:
        return self._core.wall_now_us()

    def past_us(self) -> int:
        return self._core.past_us()
