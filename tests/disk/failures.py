"""A call of the disk fails, for every call of a script in turn: errors, and no room.

After an error the writer rejects everything, as the process would end; a restart finds all
acknowledged batches, or one more. After "no room" nothing of the batch is kept, and the next ones
are written as usual.
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
    """Return the error of a call that fails for good."""
    return Failed(call)


def no_room(call: str) -> Failed | None:
    """Return the error of a call without room, None for calls that need none."""
    return Failed(call, full=True) if call == "write" else None


@dataclass(slots=True)
class Played:
    """How far a script came, and the problems."""

    calls: int = 0
    failed: bool = False
    problems: list[str] = field(default_factory=list)

    def failing(self, nth: int, raises: Raises) -> Callable[[str], None]:
        """Return a hook that counts the calls of a disk, and fails the `nth`, if it can fail."""

        def fail(call: str) -> None:
            self.calls += 1
            error = raises(call) if self.calls == nth else None
            if error is not None:
                self.failed = True
                raise error

        return fail


def calls_of(seed: int, *, what: ModuleType = documents) -> int:
    """Return how many calls a script makes without a failure."""
    return play(seed, 1 << 60, error_of_disk, what=what).calls


def play(
    seed: int,
    nth: int,
    raises: Callable[[str], Exception | None],
    *,
    what: ModuleType = documents,
) -> Played:
    """Play a script of the kind `what`, in which the `nth` call fails."""
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
                played.problems.append("a part of a batch that found no room is there")
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
    """Check the file as the next process finds it, after a kill and after a cut of power."""
    for name, image in (("kill", disk.killed()), ("cut", disk.cut(Random(played.calls)))):
        vfs = Vfs(image)
        connection = Connection(vfs)
        found = what.content(connection)
        connection.close()
        vfs.unregister()
        if found not in stages:
            played.problems.append(f"after a {name}: not the acknowledged content")


def read_with_failure(
    seed: int, nth: int, *, what: ModuleType = documents
) -> tuple[int, list[str]]:
    """Read everything while the `nth` read fails; return the calls made and the problems."""
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
        pass  # The process ends, with an error.
    disk.before = lambda call: None
    connection.close()
    vfs.unregister()
    return calls, problems
