"""Small files and names that are durable when a function returns."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Make a file, or the names in a directory, durable. Raises OSError."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def replace(file: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write or replace a file atomically and durably. Raises OSError."""
    new = file.with_name(f"{file.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(new, flags, mode), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
    sync(file.parent)
