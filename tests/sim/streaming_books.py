"""History of a partition, apart from the machines: all that ever was in any log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from docstore.streams.replica_set import Copy


@dataclass(slots=True)
class Committed:
    """One record of the committed map."""

    raised: int
    """Epoch of the leader that committed it first."""
    epoch: int
    crc: int
    uid: str
    key: bytes | None
    is_tombstone: bool


@dataclass(slots=True)
class Book:
    """History of one partition, by name, so of one incarnation."""

    contents: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(epoch, offset) -> (base, CRC) of its batch, wherever it is."""
    raw: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """(epoch, base) -> the batch."""
    made_at: dict[tuple[int, int], float] = field(default_factory=dict)
    """(epoch, base) -> when the batch was made."""
    committed: list[Committed] = field(default_factory=list)
    by_key: dict[bytes | None, list[int]] = field(default_factory=dict)
    """Key -> the offsets of its committed records."""
    uids: dict[tuple[int, int], str] = field(default_factory=dict)
    """(epoch, offset) -> the record there, as it was appended."""
    places: dict[str, int] = field(default_factory=dict)
    """Value -> its offset in the committed map."""
    seen: set[str] = field(default_factory=set)
    """Values that were in any log, ever."""
    sequences: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer -> (epoch, sequence that comes next), by its newest committed batch."""
    leaders: dict[int, str] = field(default_factory=dict)
    acknowledged: dict[int, str] = field(default_factory=dict)
    """Epoch -> the leader that replicas acknowledged to."""
    promised: dict[Copy, int] = field(default_factory=dict)
    """Copy -> the greatest epoch that its node has sent as promised."""
    ended: set[Copy] = field(default_factory=set)
    """Copies whose data were lost or replaced."""
    unclean: int = 0
    """Epoch of the newest unclean election."""
    reckoned: int = 0
    """Epoch of the newest unclean election whose leader has opened: its losses are known."""
    lost: set[tuple[int, int]] = field(default_factory=set)
    """(offset, CRC) of committed records that an unclean election may have lost."""
    lost_values: set[str] = field(default_factory=set)
    deleted: int = 0
    """Offset below which an answer has said that the records are deleted."""
    shown: tuple[int, int] = (0, 0)
    """(epoch, high watermark) of the answer with the greatest one."""

    def lose(self, first: int, kept: int, held: Mapping[int, int]) -> int:
        """Remove the committed records that the leader of an unclean election lacks.

        kept: end of the history that both have from `first` on. held: offset -> CRC of the batch
        that the leader has there: it lacks some below `kept` if it was being filled from a log
        that was compacted. Returns the least offset of the lost ones.
        """
        # A second unclean election may go back to a history whose first records are deleted.
        unknown = first - len(self.committed)
        self.committed += [Committed(0, 0, 0, "", None, False)] * unknown
        lost = [
            offset
            for offset, each in enumerate(self.committed[first:], first)
            if offset >= kept or held.get(offset) != each.crc
        ]
        for offset in lost:
            each = self.committed[offset]
            self.note_lost(offset, each.crc, each.uid)
            self.places.pop(each.uid, None)
            if offset in self.by_key[each.key]:
                self.by_key[each.key].remove(offset)
        del self.committed[max(first, kept) :]
        self.sequences.clear()
        self.reckoned = self.unclean
        return min(lost, default=len(self.committed))

    def is_lost(self, uid: str) -> bool:
        """Say whether an unclean election has lost a record, and it was not appended again."""
        return uid in self.lost_values and uid not in self.places

    def note_lost(self, offset: int, crc: int, uid: str) -> None:
        """Note a record that was committed in a history that an unclean election has ended."""
        self.lost.add((offset, crc))
        self.lost_values.add(uid)

    def lost_to(self, epoch: int, held: Mapping[int, int]) -> int:
        """Return how many records of the previous leader the leader of this epoch lacks.

        held: offset -> CRC of the batch that the new leader has there. The missing records were
        not committed, so no promise is broken; but the fewer the better.
        """
        last = max(held, default=-1)
        before = max((each for each in self.leaders if each < epoch), default=0)
        return sum(
            held[offset] != crc if offset in held else offset > last
            for (led, offset), (_, crc) in self.contents.items()
            if led == before
        )


class Books(dict[str, Book]):
    """Partition, by name -> its book."""

    def __missing__(self, name: str) -> Book:
        book = self[name] = Book()
        return book
