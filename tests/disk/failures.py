"""A call of the disk fails, for every call of a script in turn: errors, and no room.

After an error the writer refuses everything, as the process would end; what a restart finds is
what was acknowledged, or one batch more. After "no room" nothing of the batch is kept and the
next ones go in as if nothing had been.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import ModuleType

from docstore.errors import DiskFull, StoreBroken
from tests.disk import script as documents
from tests.disk.connection import Connection
from tests.disk.disk import Disk, Failed
from tests.disk.vfs import Vfs

Raises = Callable[[str], Exception | None]


def error_of_disk(call: str) -> Failed:
    """Return what happens when a call fails for good."""
    return Failed(call)


def no_room(call: str) -> Failed | None:
    """Return what happens when there is no room; only writes need any."""
    return Failed(call, full=True) if call == "write" else None


@dataclass(slots=True)
class Played:
    """How far a script came, and what was wrong."""

    calls: int = 0
    failed: bool = False
    problems: list[str] = field(default_factory=list)

    def failing(self, nth: int, raises: Raises) -> Callable[[str], None]:
        """Return what counts the calls of a disk, and fails the `nth`, if it can fail so."""

        def fail(call: str) -> None:
            self.calls += 1
            error = raises(call) if self.calls == nth else None
            if error is not None:
                self.failed = True
                raise error

        return fail


def calls_of(seed: int, *, what: ModuleType = documents) -> int:
    """Return how many calls a script makes when nothing fails."""
    return play(seed, 1 << 60, error_of_disk, what=what).calls


def play(
    seed: int,
    nth: int,
    raises: Callable[[str], Exception | None],
    *,
    what: ModuleType = documents,
) -> Played:
    """Play a script of `what` is stored, in which the `nth` call fails."""
    rng = Random(seed)
    script = what.batches(rng, 10)
    stages = what.expected(script)
    disk = Disk()
    vfs = Vfs(disk)
    connection = Connection(vfs)
    writer = what.prepared(connection)
    played = Played()

    disk.before = played.failing(nth, raises)
    acknowledged = 0
    for number, batch in enumerate(script, 1):
        try:
            writer.commit(batch)
            if number % 4 == 0:
                writer.copy_back("PASSIVE")
        except DiskFull:
            if what.content(connection) != stages[acknowledged]:
                played.problems.append("something of a batch that found no room is there")
            writer.commit(batch)
        except StoreBroken:
            break
        acknowledged = number
    disk.before = lambda call: None
    _judge(played, disk, stages[acknowledged : acknowledged + 2], what)
    connection.close()
    vfs.unregister()
    return played


def _judge(played: Played, disk: Disk, stages: list[int], what: ModuleType) -> None:
    """Look at the file as the next process does, after a kill and after a cut of power."""
    for name, image in (("kill", disk.killed()), ("cut", disk.cut(Random(played.calls)))):
        vfs = Vfs(image)
        connection = Connection(vfs)
        found = what.content(connection)
        connection.close()
        vfs.unregister()
        if found not in stages:
            played.problems.append(f"after a {name}: not what was acknowledged")


def read_with_failure(
    seed: int, nth: int, *, what: ModuleType = documents
) -> tuple[int, list[str]]:
    """Read everything while the `nth` read fails; return the calls made and what was wrong."""
    rng = Random(seed)
    disk = Disk()
    vfs = Vfs(disk)
    connection = Connection(vfs)
    writer = what.prepared(connection)
    for batch in what.batches(rng, 10):
        writer.commit(batch)
    right = list(what.answers(connection))
    connection.execute("PRAGMA cache_size = 0")
    connection.execute("PRAGMA shrink_memory")
    calls = 0

    def fail(call: str) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise error_of_disk(call)

    disk.before = fail
    problems: list[str] = []
    try:
        for (query, result), (_, truth) in zip(what.answers(connection), right, strict=True):
            if result is not None and result != truth:
                problems.append(f"a wrong answer to {query}")
    except StoreBroken:
        pass  # The process ends over it, and says so.
    disk.before = lambda call: None
    connection.close()
    vfs.unregister()
    return calls, problems
