"""What a reader of pages is asked for, and what it answers."""

from collections.abc import Sequence
from typing import NamedTuple

from docstore.query.statements import Cursor


class Form(NamedTuple):
    """How rows are written. compression: zstd, lz4 or "" (Arrow only)."""

    columns: Sequence[str]
    compression: str = ""


class Page(NamedTuple):
    """How many rows there are, behind what the next page goes on (None: that was all), and they."""

    rows: int
    following: Cursor | None
    payload: bytes | memoryview = b""
