"""A journal round after round on a simulated disk: power cut, killed, or failing at any call.

The tables are modelled by two positions: how far they follow (`followed`), and how far that is
durable (`flushed`). A cut leaves them anywhere between the two. Then the journal must return the
entries that were acknowledged after that place, or one more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from docstore.errors import StoreError
from docstore.storage.journal import START, Position
from docstore.storage.ring import Entry, Ring
from tests.disk.disk import Disk, Failed
from tests.disk.files import DiskOfFiles
from tests.disk.power import Outcome

KEY = b"sixteen bytes ok"
FILE_BYTES = 32 << 10
FILES_MAX = 4

Makes = Callable[[DiskOfFiles], Ring]


def ring_on(files: DiskOfFiles) -> Ring:
    """Return a small ring, so that a script of some entries fills it more than once."""
    return Ring(files, KEY, file_bytes=FILE_BYTES, files_max=FILES_MAX)


@dataclass(slots=True)
class Tables:
    """Model of the tables: how far they follow, and how far durably."""

    positions: list[Position] = field(default_factory=lambda: [START])
    followed: int = 0
    flushed: int = 0
    alone: set[int] = field(default_factory=lambda: {0})
    """Numbers at which the tables need no journal."""

    def after_a_cut(self, rng: Random) -> int:
        """Return the number that the tables may be at."""
        return rng.randrange(self.flushed, self.followed + 1)


class Lap:
    """A node's journal on a disk, and its acknowledged entries."""

    def __init__(self, rng: Random, makes: Makes = ring_on) -> None:
        self.rng = rng
        self.makes = makes
        self.disk = Disk()
        self.tables = Tables()
        self.bodies: list[bytes] = [b""]
        """Written entries by number; the last one may not be acknowledged."""
        self.acknowledged = 0
        self.boot = 0
        self.look: Callable[[str], None] = lambda call: None
        self.start()

    def start(self) -> None:
        """Open the journal as a new process does, on a disk as it is."""
        self.ring = self.makes(DiskOfFiles(self.disk))
        for entry in self.behind(self.ring, self.tables.followed):
            self.tables.positions.append(entry.header.position)
        self.acknowledged = self.tables.followed = len(self.tables.positions) - 1
        self.bodies = self.bodies[: self.acknowledged + 1]
        self.flush()
        self.boot += 1
        self.disk.before = self.look
        self.make_files()
        self.commit(b"")  # From here on the journal must be there.
        self.follow(1 << 30)
        self.flush()

    def behind(self, ring: Ring, followed: int) -> list[Entry]:
        """Open a journal for tables at a number; check the entries that it returns."""
        alone = followed in self.tables.alone
        entries = ring.open(self.tables.positions[followed], may_be_missing=alone)
        found = [ring.body(entry) for entry in entries]
        wanted = self.bodies[followed + 1 : self.acknowledged + 1]
        last = self.bodies[followed + 1 :]
        if found not in (wanted, last):
            here = self.bodies[followed + 1 : followed + 1 + len(found)] == found
            raise Lost(followed + len(found)) if here else Odd(followed + len(found))
        return entries

    def make_files(self) -> None:
        """Create the files that the journal needs."""
        while (name := self.ring.wanted()) is not None:
            self.ring.make(name)
            self.ring.made(name)

    def turn(self) -> None:
        """Do a random step of a node."""
        chance = self.rng.random()
        if chance < 0.6:
            self.commit(self.rng.randbytes(self.rng.choice((0, 9, 700, 5000, 15000))))
        elif chance < 0.8:
            self.follow(self.rng.randrange(1, 4))
        elif chance < 0.9:
            self.flush()
        elif chance < 0.95:
            self.make_files()
        else:
            self.straight()

    def commit(self, body: bytes) -> None:
        """Write an entry, and acknowledge it; let the tables follow while there is no place."""
        while (entry := self.ring.next(self.boot, body)) is None:
            self.follow(1 << 30)
            self.flush()
            self.make_files()
        self.bodies.append(body)
        self.tables.positions.append(entry.header.position)
        self.ring.files.write(entry.file, entry.offset, entry.parts)
        self.acknowledged += 1

    def follow(self, most: int) -> None:
        """Let the tables follow."""
        self.tables.followed = min(self.tables.followed + most, self.acknowledged)

    def flush(self) -> None:
        """Make the tables durable."""
        self.tables.flushed = self.ring.flushed = self.tables.followed

    def straight(self) -> None:
        """Commit into the tables alone, once they have everything, durably."""
        self.follow(1 << 30)
        self.ring.end = self.ring.skip(self.boot)
        self.tables.positions.append(self.ring.end)
        self.bodies.append(b"not in the journal")
        self.acknowledged += 1
        self.tables.alone.add(self.acknowledged)
        self.follow(1)
        self.flush()

    def go_on_from(self, disk: Disk, followed: int) -> None:
        """Continue as the next process, on the disk after a cut of power or a kill."""
        self.disk = disk
        tables = self.tables
        tables.positions = tables.positions[: followed + 1]
        tables.followed = tables.flushed = followed
        tables.alone = {number for number in tables.alone if 0 < number <= followed}
        self.start()


class Lost(Exception):
    """An acknowledged entry is missing."""


class Odd(Exception):
    """A content was never written."""


def cut_laps_at_random(seed: int, images: int, makes: Makes = ring_on) -> Outcome:
    """Play one script, and cut the power about `images` times on the way; go on from some."""
    rng = Random(seed)
    outcome = Outcome()
    lap = Lap(rng, makes)

    def look(call: str) -> None:
        if call != "read" and rng.random() < 0.5:
            outcome.images += 1
            with _noting(outcome, seed):
                lap.behind(makes(DiskOfFiles(lap.disk.cut(rng))), lap.tables.after_a_cut(rng))

    lap.look = lap.disk.before = look
    while outcome.images < images and not outcome.lost + outcome.odd:
        with _noting(outcome, seed):
            _play_until_an_end(lap)
    return outcome


def _play_until_an_end(lap: Lap) -> None:
    """Play some turns; then the power goes, or the process is killed, at any call."""
    rng, look = lap.rng, lap.look
    left = rng.randrange(1, 200)

    def stop(call: str) -> None:
        nonlocal left
        look(call)
        left -= 1
        if left == 0:
            raise Failed(call)

    lap.disk.before = stop
    while left > 0:
        try:
            lap.turn()
        except OSError:
            break
    lap.disk.before = lambda call: None
    if rng.random() < 0.5:
        lap.go_on_from(lap.disk, lap.tables.followed)  # Its writes are not durable yet.
    else:
        lap.go_on_from(lap.disk.cut(rng), lap.tables.after_a_cut(rng))


class _noting:  # noqa: N801 - read as a verb
    """Note problems in an outcome."""

    def __init__(self, outcome: Outcome, seed: int) -> None:
        self._outcome, self._seed = outcome, seed

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Lost):
            self._outcome.lost.append(f"seed {self._seed}: only {error} are there")
        elif isinstance(error, Odd | StoreError):
            self._outcome.odd.append(f"seed {self._seed}: {type(error).__name__} {error}")
        return error is None or isinstance(error, Lost | Odd | StoreError)


def fail_at(seed: int, nth: int, *, full: bool) -> tuple[int, list[str]]:
    """Play a script whose `nth` call fails; return the calls made, and a restart's problems."""
    outcome = Outcome()
    lap = Lap(Random(seed))
    calls = 0

    def fail(call: str) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise Failed(call, full=full)

    lap.look = lap.disk.before = fail
    for _ in range(40):
        try:
            lap.turn()
        except OSError:
            break
    lap.disk.before = lambda call: None
    for image in (lap.disk.killed(), lap.disk.cut(lap.rng)):
        with _noting(outcome, seed):
            lap.behind(lap.makes(DiskOfFiles(image)), lap.tables.after_a_cut(lap.rng))
    return calls, outcome.lost + outcome.odd
