"""Every operation once: the identities of the updates that a slot's log contains (rule C1).

An update carries the identity (entry node, boot, sequence) for its whole life, however often
it is forwarded or retried, and its row carries it too; so whoever owns the slot later finds the
row that a retry asks for. A client may add an Idempotency-Key, which does the same between
client and cluster for ten minutes.

Entry nodes say with each operation which of theirs is the oldest without an answer. What is
older will never be asked for again and is forgotten. Keys are forgotten when their time is over.

Nobody but an owner asks, so what a replica learns waits unread, and is read many at a time: by then
most of it is of operations that nobody will ask for again.

After a start nothing is known of the rows that are on the disk. An operation's row is a row of its
document, so a document's rows are read back when somebody asks about one (see
`write_path/dedup_rebuild.py`).
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from docstore.model.document import Row
from docstore.model.identity import Identity, unpack_identity

Origin = tuple[str, int]
"""(entry node, its boot count)."""

KEY_LIFE_US = 10 * 60 * 1_000_000
KEYS_PER_LINK_MAX = 256
UNREAD_MAX = 64
"""Rows of a slot whose operations wait to be read."""


class KeyUse(NamedTuple):
    """Where an Idempotency-Key was used."""

    n: int
    fingerprint: int
    used_us: int


class Recalled(NamedTuple):
    """What has been read of one document's rows from before the start, the newest first.

    oldest, oldest_us: version and time of the oldest of them. is_all: there are no more.
    """

    rows: int
    oldest: int
    oldest_us: int
    is_all: bool


NOTHING_RECALLED = Recalled(0, 1 << 62, 1 << 62, is_all=False)


@dataclass(slots=True)
class Operations:
    """The operations in one slot's log, from row `since` on, and those of recalled documents.

    since: after a start, rows before it have not been read; 1 or kept + 1 means all are known.
    """

    since: int = 1
    _unread: list[tuple[int, str, bytes, int]] = field(default_factory=list)
    """Of rows that have joined the log: n, link, packed identity, time."""
    _recalled: dict[str, Recalled] = field(default_factory=dict)
    _rows: dict[Origin, dict[int, int]] = field(default_factory=dict)
    _oldest: dict[Origin, int] = field(default_factory=dict)
    _keys: dict[str, dict[str, KeyUse]] = field(default_factory=dict)
    """Link -> key -> use; no link without a key."""
    _uses: deque[tuple[str, str, KeyUse]] = field(default_factory=deque)
    """All of them as they were noted, which is nearly by age: (link, key, use)."""

    def note(self, row: Row) -> None:
        """Remember the operation of a row that has joined the log."""
        if row.operation:
            self._unread.append((row.n, row.link, row.operation, row.updated_us))
            if len(self._unread) >= UNREAD_MAX:
                self._read()

    def note_identity(self, identity: Identity, row: Row) -> None:
        """Remember the operation of a row whose identity is at hand."""
        if self._unread:
            self._read()
        origin = (identity.entry, identity.boot)
        self._rows.setdefault(origin, {})[identity.seq] = row.n
        self.forget(origin, identity.oldest)
        if identity.key:
            self._note_key(identity, row.n, row.link, row.updated_us)

    def _read(self) -> None:
        """Remember what waits to be read, but for what will not be asked for again."""
        unread, self._unread = self._unread, []
        identities = [unpack_identity(packed) for _, _, packed, _ in unread]
        for entry, boot, _, oldest, *_ in reversed(identities):  # The newest says the most.
            self.forget((entry, boot), oldest)
        for identity, (n, link, _, updated_us) in zip(identities, unread, strict=True):
            origin = (identity.entry, identity.boot)
            if identity.seq >= self._oldest.get(origin, 0):
                self._rows.setdefault(origin, {})[identity.seq] = n
            if identity.key:
                self._note_key(identity, n, link, updated_us)

    def recalled(self, link: str) -> Recalled:
        """Return how much has been read back of a document."""
        return self._recalled.get(link, NOTHING_RECALLED)

    def recall(self, link: str, rows: Sequence[Row]) -> None:
        """Remember the operations of a document's next older rows, newest first; none: no more."""
        self._read()
        before = self.recalled(link)
        for row in rows:
            if row.operation:
                self._note_older(unpack_identity(row.operation), row)
        if not rows:
            self._recalled[link] = before._replace(is_all=True)
            return
        last = rows[-1]
        count = before.rows + len(rows)
        self._recalled[link] = Recalled(count, last.version, last.updated_us, last.version == 0)

    def _note_older(self, identity: Identity, row: Row) -> None:
        """Remember what may still be asked for; a key's later use stands."""
        origin = (identity.entry, identity.boot)
        if identity.seq >= self._oldest.get(origin, 0):
            self._rows.setdefault(origin, {}).setdefault(identity.seq, row.n)
            self.forget(origin, identity.oldest)
        if identity.key and identity.key not in self._keys.get(row.link, {}):
            self._note_key(identity, row.n, row.link, row.updated_us)

    def find(self, origin: Origin, seq: int) -> int | None:
        """Return the n of the row that this operation made, None if there is none known."""
        if self._unread:
            self._read()
        return self._rows.get(origin, {}).get(seq)

    def is_over(self, origin: Origin, seq: int) -> bool:  # Seam.
        """Say whether this is an echo of what was answered for good."""
        if self._unread:
            self._read()
        return seq < self._oldest.get(origin, 0)

    def forget(self, origin: Origin, oldest: int) -> None:
        """Forget what an entry node will not ask for again."""
        if oldest <= self._oldest.get(origin, 0):
            return
        self._oldest[origin] = oldest
        known = self._rows.get(origin)
        while known and (first := next(iter(known))) < oldest:
            del known[first]

    def find_key(self, link: str, key: str, now_us: int) -> KeyUse | None:
        """Return where a client's key was used on this link in the last ten minutes."""
        self._read()
        use = self._keys.get(link, {}).get(key)
        return None if use is None or _is_old(use, now_us) else use

    def has_room_for_key(self, link: str, now_us: int) -> bool:
        """Say whether one more key fits; drops those that are over."""
        self._read()
        uses = self._keys.get(link)
        if uses is None or len(uses) < KEYS_PER_LINK_MAX:
            return True
        for key in [key for key, use in uses.items() if _is_old(use, now_us)]:
            self._drop_key(link, key)
        return len(uses) < KEYS_PER_LINK_MAX

    def forget_keys(self, now_us: int) -> None:
        """Forget the keys whose ten minutes are over."""
        self._read()
        while self._uses and _is_old(self._uses[0][2], now_us):
            link, key, use = self._uses.popleft()
            if self._keys.get(link, {}).get(key) == use:  # It may be in use again.
                self._drop_key(link, key)

    def may_have_keys(self, kept: int, now_us: int) -> bool:  # Seam.
        """Say whether a row above `kept` may bear a key of the last ten minutes."""
        self.forget_keys(now_us)
        return bool(self._uses) or self.since > kept + 1

    def cut(self, end: int) -> None:
        """Forget the operations of rows above `end`: they have left the log."""
        self._read()
        self.since = min(self.since, end + 1)
        for known in self._rows.values():
            for seq in [seq for seq, n in known.items() if n > end]:
                del known[seq]
        cut = [(link, key) for link, key, use in self._uses if use.n > end]
        self._uses = deque(each for each in self._uses if each[2].n <= end)
        for link, key in cut:
            self._drop_key(link, key)

    def _note_key(self, identity: Identity, n: int, link: str, updated_us: int) -> None:
        use = KeyUse(n, identity.fingerprint, updated_us)
        self._keys.setdefault(link, {})[identity.key] = use
        self._uses.append((link, identity.key, use))

    def _drop_key(self, link: str, key: str) -> None:
        uses = self._keys.get(link, {})
        uses.pop(key, None)
        if not uses:
            self._keys.pop(link, None)


def _is_old(use: KeyUse, now_us: int) -> bool:
    return use.used_us + KEY_LIFE_US <= now_us


class Proposed:
    """What this process has proposed: it may take effect, whatever has become of the reign since.

    Also when the slot has been read from the disk again, or has left this node (seed 850915).
    """

    def __init__(self) -> None:
        # A plain dict would be searched from its beginning for the first that is left.
        self._of: dict[Origin, OrderedDict[int, None]] = {}
        self._oldest: dict[Origin, int] = {}

    def note(self, origin: Origin, seq: int, oldest: int) -> None:
        """Remember an operation, for as long as its entry node may ask for it."""
        known = self._of.get(origin)
        if known is None:
            known = self._of[origin] = OrderedDict()
        known[seq] = None
        if oldest > self._oldest.get(origin, 0):
            self._oldest[origin] = oldest
        while known and (first := next(iter(known))) < oldest:
            del known[first]

    def is_over(self, origin: Origin, seq: int) -> bool:  # Seam.
        """Say whether this is an echo of what was answered for good (seed 5082 of full disks)."""
        return seq < self._oldest.get(origin, 0)

    def has(self, origin: Origin, seq: int) -> bool:
        """Say whether this process has proposed the operation, in any attempt at it."""
        return seq in self._of.get(origin, ())


class Closed:
    """What this process has refused, or given back: no echo of it may be applied here later.

    Whatever becomes of the log, which may be emptied and filled anew meanwhile (seed 20003345).
    """

    def __init__(self) -> None:
        self._of: dict[Origin, OrderedDict[int, int]] = {}
        """seq -> the last attempt that was told as refused."""
        self._oldest: dict[Origin, int] = {}

    def note(self, origin: Origin, seq: int, attempt: int, oldest: int) -> None:
        """Remember that this attempt is being refused, and so all before it."""
        known = self._of.setdefault(origin, OrderedDict())
        known[seq] = max(attempt, known.get(seq, 0))
        if oldest > self._oldest.get(origin, 0):
            self._oldest[origin] = oldest
        while known and (first := next(iter(known))) < oldest:
            del known[first]

    def has(self, origin: Origin, seq: int, attempt: int) -> bool:  # Seam.
        """Say whether this is an echo: of what was refused, or of what will not be asked again."""
        if seq < self._oldest.get(origin, 0):
            return True
        known = self._of.get(origin)
        return known is not None and attempt <= known.get(seq, 0)
