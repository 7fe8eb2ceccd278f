"""How often the file of streams was opened, beside it: a file that is put back is older than this.

A replica that has lost promises and records must not vouch for what it had; and a file that is
older than the node remembers has lost some. Sixteen bytes: what it is, a CRC-32, the count.

The count in the file goes first. If power fails between the two the file is ahead, which is fine.
"""

import os
import struct
import zlib
from pathlib import Path

from docstore.errors import StoreDamaged

_MAGIC = b"LIFE"
_FORM = struct.Struct(">4sIQ")


def read(path: Path) -> int | None:
    """Return the count, None when there is none. Raises StoreDamaged, OSError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(content) == _FORM.size:
        magic, crc, boots = _FORM.unpack(content)
        if magic == _MAGIC and crc == zlib.crc32(content[8:]):
            return int(boots)
    raise StoreDamaged(
        f"{path} is damaged: it says how often the file beside it was opened. Without it that file"
        " is taken for an older one, and its partitions are filled anew from other replicas"
    )


def write(path: Path, boots: int) -> None:
    """Replace the count, durably: the old one or the new one is there. Raises OSError."""
    count = struct.pack(">Q", boots)
    fresh = path.with_name(f"{path.name}.new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, _FORM.pack(_MAGIC, zlib.crc32(count), boots))
        os.fsync(file)
    finally:
        os.close(file)
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
