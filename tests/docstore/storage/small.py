"""A store with a small journal, since a real one begins with 16 MiB of zeros."""

from pathlib import Path

from docstore.storage.sqlite import SqliteStore
from docstore.storage.starting import Sizes

SIZES = Sizes(file_bytes=64 << 10, files_max=4)


def small(path: str | Path) -> SqliteStore:
    """Return a store in the file `path`."""
    return SqliteStore(path, sizes=SIZES)
