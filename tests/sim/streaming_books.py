"""What a simulation remembers of a partition beside the machines: all that ever was in any log."""

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
    """All that ever was of one partition, by name, so of one incarnation."""

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
    """Copy -> the greatest epoch that it has told to have promised."""
    ended: set[Copy] = field(default_factory=set)
    """Copies whose data were lost, or begun anew."""
    unclean: int = 0
    """Epoch of the newest unclean election."""
    reckoned: int = 0
    """The newest unclean election of which a leader has come: it is known what was lost."""
    lost: set[tuple[int, int]] = field(default_factory=set)
    """(offset, CRC) of what was committed, and may be lost by an unclean election."""
    lost_values: set[str] = field(default_factory=set)
    deleted: int = 0
    """Offset below which a client was told that the records are deleted."""
    shown: tuple[int, int] = (0, 0)
    """(epoch, high watermark) of the answer with the greatest one."""

    def lose(self, first: int, kept: int, held: Mapping[int, int]) -> int:
        """Forget what was committed and a leader has not, which was elected though it lacks it.

        kept: end of the history that both have from `first` on. held: offset -> CRC of the batch
        that the leader has there: it lacks some below `kept` if it was being filled from a log
        that was compacted. Returns the least offset of those that are lost.
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
        """A record was committed in a history that an unclean election has ended."""
        self.lost.add((offset, crc))
        self.lost_values.add(uid)

    def lost_to(self, epoch: int, held: Mapping[int, int]) -> int:
        """Return how many records of the leader before this epoch its new leader has not.

        held: offset -> CRC of the batch that the new leader has there. What is missing was not
        committed, so nothing is broken; but the fewer the better.
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
