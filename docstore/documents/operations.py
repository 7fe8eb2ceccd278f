"""Deduplication: the identities of the updates that a slot's log contains (rule C1).

An update keeps its identity (entry node, boot, sequence) through every forwarding and retry, and
its row stores it. So any later owner of the slot finds the row of a retry. A client may add an
Idempotency-Key, which does the same between client and cluster for ten minutes.

With each operation the entry node sends the sequence of its oldest unanswered one. It never retries
older ones, so replicas forget them. Keys are forgotten when they expire.

Only an owner looks identities up. A replica therefore collects packed identities and unpacks many
at a time: by then most belong to operations that no entry node will retry.

After a start the identities of the rows on disk are unknown. An operation's row is a row of its
document, so an owner reads back a document's rows when a retry needs them (see
`write_path/dedup_rebuild.py`).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from docstore.documents.keys import KEY_LIFE_US, Keys, KeyUse
from docstore.model.document import Row
from docstore.model.identity import OperationIdentity, required_fields, unpack_identity

Origin = tuple[str, int]
"""(entry node, its boot count)."""

UNREAD_MAX = 64
"""Number of packed identities of a slot that wait before they are unpacked together."""


class Recalled(NamedTuple):
    """The extent of one document's rows that were read back, the newest first.

    oldest, oldest_us: version and time of the oldest row read. is_all: no older row exists.
    """

    rows: int
    oldest: int
    oldest_us: int
    is_all: bool


NOTHING_RECALLED = Recalled(0, 1 << 62, 1 << 62, is_all=False)


@dataclass(slots=True)
class Operations:
    """The operations in one slot's log, from row `since` on, and those of recalled documents.

    since: rows before it are from before the start and unknown; 1 or kept + 1 if all are known.
    since_us: no unknown row is of a later time.
    """

    since: int = 1
    since_us: int = 0
    _unread: list[tuple[int, str, bytes, int]] = field(default_factory=list)
    """Appended rows: n, link, packed identity, time."""
    _recalled: dict[str, Recalled] = field(default_factory=dict)
    _rows: dict[Origin, dict[int, int]] = field(default_factory=dict)
    _oldest: dict[Origin, int] = field(default_factory=dict)
    _keys: Keys = field(default_factory=Keys)

    def note(self, rows: Sequence[Row]) -> None:
        self._unread += [
            (row.n, row.link, row.operation, row.updated_us) for row in rows if row.operation
        ]
        if len(self._unread) >= UNREAD_MAX:
            self._read()

    def note_identity(self, identity: OperationIdentity, row: Row) -> None:
        """Remember the operation of an appended row, with its unpacked identity."""
        if self._unread:
            self._read()
        origin = (identity.entry, identity.boot)
        self._rows.setdefault(origin, {})[identity.seq] = row.n
        self.forget(origin, identity.oldest)
        if identity.key:
            self._keys.note(row.link, identity.key, row.n, identity.fingerprint, row.updated_us)

    def _read(self) -> None:
        """Unpack the waiting identities, except those that will not be asked for again."""
        unread, self._unread = self._unread, []
        identities = [required_fields(packed) for _, _, packed, _ in unread]
        reported: dict[Origin, int] = {}
        for entry, boot, _, oldest, _, _ in identities:
            if oldest > reported.get((entry, boot), 0):
                reported[entry, boot] = oldest
        for origin, oldest in reported.items():
            self.forget(origin, oldest)
        for (entry, boot, seq, _, key, mark), (n, link, _, updated_us) in zip(
            identities, unread, strict=True
        ):
            origin = (entry, boot)
            if seq >= self._oldest.get(origin, 0):
                self._rows.setdefault(origin, {})[seq] = n
            if key:
                self._keys.note(link, key, n, mark, updated_us)

    def recalled(self, link: str) -> Recalled:
        return self._recalled.get(link, NOTHING_RECALLED)

    def recall(self, link: str, now_us: int, rows: Sequence[Row]) -> None:
        """Remember the operations of a document's next older rows.

        rows: newest first; empty if there are no older rows.
        """
        self._read()
        before = self.recalled(link)
        for row in rows:
            if row.operation:
                self._note_older(unpack_identity(row.operation), row, now_us)
        if not rows:
            self._recalled[link] = before._replace(is_all=True)
            return
        last = rows[-1]
        count = before.rows + len(rows)
        self._recalled[link] = Recalled(count, last.version, last.updated_us, last.version == 0)

    def _note_older(self, identity: OperationIdentity, row: Row, now_us: int) -> None:
        """Remember an older row's operation if it may be retried; a later use of its key stays."""
        origin = (identity.entry, identity.boot)
        if identity.seq >= self._oldest.get(origin, 0):
            self._rows.setdefault(origin, {}).setdefault(identity.seq, row.n)
            self.forget(origin, identity.oldest)
        key, is_over = identity.key, row.updated_us + KEY_LIFE_US <= now_us
        if key and not is_over and self._keys.find(row.link, key, now_us) is None:
            self._keys.note(row.link, key, row.n, identity.fingerprint, row.updated_us)

    def find(self, origin: Origin, seq: int) -> int | None:
        """Return the n of the row that an operation made; None if unknown."""
        if self._unread:
            self._read()
        return self._rows.get(origin, {}).get(seq)

    def is_over(self, origin: Origin, seq: int) -> bool:  # Tests replace this.
        """Say whether an operation is a duplicate whose original has its final answer."""
        if self._unread:
            self._read()
        return seq < self._oldest.get(origin, 0)

    def forget(self, origin: Origin, oldest: int) -> None:
        """Forget the operations of an entry node before `oldest`."""
        if oldest <= self._oldest.get(origin, 0):
            return
        self._oldest[origin] = oldest
        known = self._rows.get(origin)
        while known and (first := next(iter(known))) < oldest:
            del known[first]

    def find_key(self, link: str, key: str, now_us: int) -> KeyUse | None:
        self._read()
        return self._keys.find(link, key, now_us)

    def keys_of(self, link: str) -> int:
        """Return how many keys of a link are remembered."""
        self._read()
        return self._keys.count(link)

    def has_room_for_key(self, link: str, now_us: int) -> bool:
        """Say whether one more key fits, after forgetting expired ones."""
        self._read()
        return self._keys.has_room(link, now_us)

    def forget_keys(self, now_us: int) -> None:
        self._read()
        self._keys.forget(now_us)

    def may_have_keys(self, kept: int, now_us: int) -> bool:  # Tests replace this.
        """Say whether a row above `kept` may have a key of the last ten minutes."""
        self.forget_keys(now_us)
        return len(self._keys) > 0 or (self.since > kept + 1 and not self.is_key_over(now_us))

    def is_key_over(self, now_us: int) -> bool:  # Tests replace this.
        """Say whether the keys of all rows from before the start have expired."""
        return self.since_us + KEY_LIFE_US <= now_us

    def cut(self, end: int) -> None:
        """Forget the operations of truncated rows, those above `end`."""
        self._read()
        self.since = min(self.since, end + 1)
        for known in self._rows.values():
            for seq in [seq for seq, n in known.items() if n > end]:
                del known[seq]
        self._keys.cut(end)


class Proposed:
    """The operations that this process has proposed: they may take effect under any later term.

    They are kept when the slot is read from the disk again or leaves this node (seed 850915).
    """

    def __init__(self) -> None:
        # A plain dict would scan its deleted entries to find the first that is left.
        self._of: dict[Origin, OrderedDict[int, None]] = {}
        self._oldest: dict[Origin, int] = {}

    def note(self, origin: Origin, seq: int, oldest: int) -> None:
        """Remember an operation until its entry node reports a later one as its oldest."""
        known = self._of.get(origin)
        if known is None:
            known = self._of[origin] = OrderedDict()
        known[seq] = None
        if oldest > self._oldest.get(origin, 0):
            self._oldest[origin] = oldest
        while known and (first := next(iter(known))) < oldest:
            del known[first]

    def is_over(self, origin: Origin, seq: int) -> bool:  # Tests replace this.
        """Say whether a duplicate's original has its final answer (seed 5082 of full disks)."""
        return seq < self._oldest.get(origin, 0)

    def has(self, origin: Origin, seq: int) -> bool:
        """Say whether this process has proposed any attempt of an operation."""
        return seq in self._of.get(origin, ())


class Closed:
    """The attempts that this process has refused or handed back: duplicates must not be applied.

    They are kept even if a copy replaces the log meanwhile (seed 20003345).
    """

    def __init__(self) -> None:
        self._of: dict[Origin, OrderedDict[int, int]] = {}
        """Seq -> the last attempt that was refused or handed back."""
        self._oldest: dict[Origin, int] = {}

    def note(self, origin: Origin, seq: int, attempt: int, oldest: int) -> None:
        """Remember that this attempt of an operation, and all earlier ones, must not be applied.

        oldest: the entry node has final answers for all its operations before this seq.
        """
        known = self._of.setdefault(origin, OrderedDict())
        known[seq] = max(attempt, known.get(seq, 0))
        if oldest > self._oldest.get(origin, 0):
            self._oldest[origin] = oldest
        while known and (first := next(iter(known))) < oldest:
            del known[first]

    def has(self, origin: Origin, seq: int, attempt: int) -> bool:  # Tests replace this.
        """Say whether this attempt was refused or handed back, or has its final answer."""
        if seq < self._oldest.get(origin, 0):
            return True
        known = self._of.get(origin)
        return known is not None and attempt <= known.get(seq, 0)
