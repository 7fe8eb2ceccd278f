"""A count of the opens of the streams file, in a file of its own.

If the streams file is replaced by an older copy, the count in that copy is smaller than this one.
The copy lacks promises and records, so the replica must not vouch for them.

Sixteen bytes: magic, a CRC-32, the count. The node first writes the count in the streams file. If
power fails between the two writes, that count is ahead, which does no harm.
"""

import struct
import zlib
from pathlib import Path

from docstore.errors import StoreDamaged
from docstore.model import durable_files

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
        f"{path} is damaged: it counts the starts of the file next to it. Remove it, and the node"
        " takes that file for an older one and refills its partitions from other replicas"
    )


def write(path: Path, boots: int) -> None:
    """Replace the count atomically and durably. Raises OSError."""
    count = struct.pack(">Q", boots)
    durable_files.replace(path, _FORM.pack(_MAGIC, zlib.crc32(count), boots), mode=0o600)
