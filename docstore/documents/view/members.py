"""The group as this node counts it, and the members as it hears them."""

from collections.abc import Sequence

from docstore.documents.core import Core
from docstore.documents.membership.register import Register
from docstore.ownership.by_hash import Placement
from docstore.ownership.configuration import Configuration
from docstore.ownership.quorum import is_quorum


class MembersView:
    """Who belongs to the group and is there. What is heard is a hint, never counted."""

    def __init__(self, core: Core, register: Register) -> None:
        self._core = core
        self._register = register

    # By the configuration

    @property
    def me(self) -> str:
        """Return the id of this node."""
        return self._core.me

    @property
    def configuration(self) -> Configuration:
        """Return the configuration in use."""
        return self._core.configuration

    @property
    def placement(self) -> Placement:
        """Return which nodes hold which slots."""
        return self._core.placement

    @property
    def slots(self) -> int:
        """Return how many slots the group has."""
        return self._core.placement.slots

    @property
    def peers(self) -> Sequence[str]:
        """Return the other members, those that come and go included."""
        return list(self._core.peers)

    @property
    def links(self) -> Sequence[str]:
        """Return the nodes that a connection stands to, members or not."""
        return sorted(self._core.peers.links)

    @property
    def leader(self) -> str | None:
        """Return who leads the register of configurations, None if nobody is known to."""
        return self._register.leader

    @property
    def slots_ready(self) -> int:
        """Return how many slots are ready for the next step of the change that is under way."""
        return self._register.readiness.progress

    # As they are heard

    @property
    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members is not heard (rule O6)."""
        return self._core.lacks_quorum()

    @property
    def is_whole(self) -> bool:
        """Say whether a majority of the members is alive, and everybody alive is connected."""
        alive = [self.me, *filter(self._core.is_alive, self._core.peers)]
        return all(map(self.is_linked, alive)) and is_quorum(alive, self.configuration.sets)

    @property
    def is_draining(self) -> bool:
        """Say whether this node gives everything away, and takes no more."""
        return self._core.is_draining

    def is_alive(self, node: str) -> bool:
        """Say whether a node is heard. False for strangers; True for this one."""
        return node == self.me or (node in self._core.peers and self._core.is_alive(node))

    def is_linked(self, node: str) -> bool:
        """Say whether a connection to a member stands; True for this one."""
        peer = self._core.peers.get(node)
        return node == self.me or (peer is not None and peer.linked)

    def is_connected(self, node: str) -> bool:
        """Say whether a connection to a node stands, a member or not."""
        return node in self._core.peers.links

    def may_own(self, node: str) -> bool:
        """Say whether a member is heard, and has not just yielded."""
        return (node == self.me or node in self._core.peers) and self._core.may_own(node)

    def silent_ms(self, node: str) -> int:
        """Return for how long a member has not been heard; 0 for this node and for strangers."""
        peer = self._core.peers.get(node)
        return max(0, int((self._core.now - peer.heard_at) * 1000)) if peer else 0
