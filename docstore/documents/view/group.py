"""The group as the replica of a running node knows it: the view of streams and sessions."""

from collections.abc import Callable

from docstore.documents.view.replica import ReplicaView
from docstore.ownership.configuration import Stage


class GroupView:
    """The view of a running node: what its document machine knows."""

    def __init__(self, replica: ReplicaView, clock: Callable[[], float]) -> None:
        """clock: by which both machines are stepped."""
        self._replica = replica
        self._members, self._owners = replica.members, replica.owners
        self._clock = clock

    @property
    def members(self) -> tuple[str, ...]:
        """Return the ids of the members that hold data, those that come and go included."""
        configuration = self._members.configuration
        every = (*configuration.members, *configuration.next_members)
        return tuple(sorted({each.id for each in every if not each.observes and not each.lost}))

    @property
    def leavers(self) -> frozenset[str]:
        """Return the members that are on their way out."""
        configuration = self._members.configuration
        if configuration.stage is Stage.STABLE:
            return frozenset()
        staying = {each.id for each in configuration.next_members}
        return frozenset(each.id for each in configuration.members if each.id not in staying)

    @property
    def zones(self) -> dict[str, str]:
        """Return member -> zone, "" for none."""
        configuration = self._members.configuration
        every = (*configuration.members, *configuration.next_members)
        return {each.id: each.zone for each in every}

    @property
    def reigns(self) -> int:
        """Return how many slots this node has begun to own, ever."""
        return self._replica.counters["opened"]

    @property
    def lacks_quorum(self) -> bool:
        """Say whether a majority of the members is not heard."""
        return self._members.lacks_quorum

    @property
    def is_draining(self) -> bool:
        """Say whether this node gives everything away, and takes no more."""
        return self._members.is_draining

    def is_alive(self, node: str) -> bool:
        """Say whether a node is heard. False for strangers; True for this one."""
        return self._members.is_alive(node)

    def is_linked(self, node: str) -> bool:
        """Say whether a connection to a node stands."""
        return self._members.is_connected(node)

    def may_own(self, node: str) -> bool:
        """Say whether a node is heard, and has not just yielded."""
        return self._members.may_own(node)

    def owns(self, link: str) -> bool:
        """Say whether this node owns the slot of a document: then it is its controller."""
        return self.reign_of(link) > 0

    def reign_of(self, link: str) -> int:
        """Return the epoch under which this node owns the slot of a document, 0 if it does not."""
        return self._owners.reign_of(self._replica.slot_of(link))

    def owner_of(self, link: str) -> str:
        """Return who owns the slot of a document as far as is known, "" if nobody does."""
        return self._owners.owner_of(self._replica.slot_of(link)) or ""

    def wall_now_us(self) -> int:
        """Return the time to stamp with, in microseconds since 1970."""
        return self._replica.wall_now_us(self._clock())

    def past_us(self) -> int:
        """Return an instant that is past for sure, in microseconds since 1970: to delete by."""
        return self._replica.past_us()

    def slot_of(self, link: str) -> int:
        """Return the slot of a document."""
        return self._replica.slot_of(link)

    def owned(self) -> list[int]:
        """Return the slots that this node owns."""
        return self._owners.owned()
