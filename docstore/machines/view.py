"""The group as streams and sessions see it; `docstore/documents/view.py` implements it."""

from typing import Protocol


class MachineView(Protocol):
    """The group as this node believes it to be; no decision may count it as a vote."""

    @property
    def members(self) -> tuple[str, ...]:
        """Return the ids of all members, in their order."""

    @property
    def leavers(self) -> frozenset[str]:
        """Return the members that are leaving the group."""

    @property
    def zones(self) -> dict[str, str]:
        """Return member -> zone, "" for none."""

    @property
    def terms_opened(self) -> int:
        """Return a number that changes whenever this node begins to own slots."""

    @property
    def lacks_quorum(self) -> bool:
        """Say whether this node does not hear a majority of the members."""

    def is_alive(self, node: str) -> bool:
        """Say whether a node is heard. False for strangers; True for this one."""

    def is_linked(self, node: str) -> bool:
        """Say whether this node is connected to a node."""

    def may_own(self, node: str) -> bool:
        """Say whether a node is heard, and has not just yielded."""

    def owns(self, link: str) -> bool:
        """Say whether this node owns the slot of a document: then it is its controller."""

    def own_epoch(self, link: str) -> int:
        """Return the epoch under which this node owns the slot of a document, 0 if it does not."""

    def owner_of(self, link: str) -> str:
        """Return the owner of a document's slot as far as this node knows, "" for none."""

    def slot_of(self, link: str) -> int:
        """Return the slot of a document."""

    def wall_now_us(self) -> int:
        """Return the time for stamps, in microseconds since 1970."""

    def past_us(self) -> int:
        """Return a time that is past by the clocks of a majority (rule D6), in us since 1970."""
