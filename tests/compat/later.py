"""A made-up next version, run as `python tests/compat/later.py serve ...`.

It speaks protocol 2: heartbeats have a field more, and each frame has a message of a new kind.
Its documents have format 2: rows of slots have a column more.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from docstore.wire import messages


class Heartbeat(NamedTuple):
    """A heartbeat of protocol 2."""

    claims: Any
    fit: bool
    faulty: bytes
    ready: tuple[int, bytes] = (0, b"")
    wall_us: int = 0
    arrived: int = 0
    has_room: bool = True
    later: str = "later"


messages.Heartbeat = Heartbeat  # type: ignore[assignment,misc]

from docstore.wire import link_messages  # noqa: E402 - it finds the later heartbeat

link_messages.PROTOCOL = 2

from docstore.storage import migrations  # noqa: E402
from docstore.wire import frames  # noqa: E402


class Later(NamedTuple):
    """A kind of message that protocol 1 does not know."""

    text: str


frames._TAGS[Later] = len(frames._TAGS)
frames._READ.append((Later, 1))
pack, unpack = frames.pack_frame, frames.unpack_frame


def with_later(configuration: int, said: Iterable[Any]) -> bytes:
    """Pack a frame with a message of the new kind behind the others."""
    return pack(configuration, [*said, Later("later")])


def without_later(body: bytes | bytearray | memoryview) -> tuple[int, list[Any]]:
    """Unpack a frame; the machines know nothing of the new kind."""
    configuration, said = unpack(body)
    return configuration, [each for each in said if not isinstance(each, Later)]


def with_a_column(connection: sqlite3.Connection) -> None:
    """Bring documents from format 1 to format 2."""
    connection.execute("ALTER TABLE slots ADD COLUMN later INTEGER NOT NULL DEFAULT 0")


frames.pack_frame, frames.unpack_frame = with_later, without_later
migrations.DOCUMENTS = migrations.DOCUMENTS._replace(format=2, steps={1: with_a_column})

if __name__ == "__main__":
    from docstore.__main__ import main

    main()
