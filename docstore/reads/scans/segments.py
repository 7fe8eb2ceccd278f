"""Segments: a cache of the documents of cold slots, as columns.

Decided rows never change, so the documents of a factory in a slot as of row n never change and may
be cached. A segment is one record batch in a file of its own, with a checksum that a process
verifies when it opens the file. Segments are not durable: files are not synced, the node deletes
all of them at its start, and old ones to make room. A segment in use is never evicted: where not
all fit, some stay fast, instead of each evicting the next.

Source: the immutable sorted runs of log-structured merge trees (O'Neil et al., 1996), and the
columnar segments beside row stores that HTAP systems keep.
"""

import mmap
import os
import shutil
import struct
import time
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from docstore.model import json

MARK = b"docstore segment 1\n"
CHECKSUM = struct.Struct(">I")
MAPPED_MAX = 4096
"""Maximum files that one process maps at a time: they take addresses, not memory."""
FREE_SHARE, FREE_BYTES_MAX = 0.1, 4 << 30
"""Share of the disk that segments leave free, and the maximum of it in bytes."""
COUNT_EVERY = 64
"""Writes after which the directory's bytes are counted, since other processes write there too."""
IN_USE_S = 600.0
"""Seconds since the last opening during which a segment is not evicted."""
FULL_S = 30.0
"""Seconds without writes after a write found no room."""


class SegmentKey(NamedTuple):
    """Identity of a segment: a factory, a slot, and the row of its log."""

    slot: int
    prefix: str
    until: int


class Segments:
    """The segments of a node, as one of its processes uses them."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self.damages = 0
        """Number of damaged slots that the node found; a new one invalidates all earlier
        segments."""
        self._directory = directory
        self._bytes_max = bytes_max
        self._mapped: OrderedDict[tuple[int, str], tuple[bytes, pa.RecordBatch]] = OrderedDict()
        self._bytes, self._writes = 0, 0
        self._full_until = 0.0
        self._unkept: tuple[bytes, pa.RecordBatch] | None = None
        """The last segment that found no room on disk, kept in memory for the next pages."""

    def get(self, key: SegmentKey) -> pa.RecordBatch | None:
        """Return a segment; None if there is none, or its file is damaged."""
        place, head = (key.slot, key.prefix), self._head(key)
        if self._unkept is not None and self._unkept[0] == head:
            return self._unkept[1]
        mapped = self._mapped.get(place)
        if mapped is None or mapped[0] != head:
            batch = self._opened(key, head)
            if batch is None:
                return None
            mapped = self._mapped[place] = (head, batch)
            if len(self._mapped) > MAPPED_MAX:
                self._mapped.popitem(last=False)
        self._mapped.move_to_end(place)
        return mapped[1]

    def put(self, key: SegmentKey, batch: pa.RecordBatch) -> None:
        """Cache a segment in place of its predecessor, if there is room."""
        head = self._head(key)
        try:
            if time.monotonic() < self._full_until:
                raise OSError("the disk had no room for segments a moment ago")
            self._write(self._file(key), head, batch)
            self._unkept = None
        except OSError:
            self._unkept = (head, batch)

    def _write(self, file: Path, head: bytes, batch: pa.RecordBatch) -> None:
        """Write a file atomically. Raises OSError."""
        sink = pa.BufferOutputStream()
        sink.write(head)
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        written = sink.getvalue()
        self._make_room(written.size + CHECKSUM.size)
        partial = file.with_suffix(f".{os.getpid()}")
        try:
            with partial.open("wb") as out:
                out.write(written)
                out.write(CHECKSUM.pack(zlib.crc32(written)))
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)

    def _file(self, key: SegmentKey) -> Path:
        return self._directory / f"{key.slot}-{zlib.crc32(key.prefix.encode()):08x}.arrow"

    def _head(self, key: SegmentKey) -> bytes:
        """Return the head of a file, padded to a multiple of 64 to align the columns."""
        head = MARK + json.dump([self.damages, *key])
        return head + b" " * (-len(head) % 64)

    def _opened(self, key: SegmentKey, head: bytes) -> pa.RecordBatch | None:
        try:
            with self._file(key).open("rb") as file:
                mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            os.utime(self._file(key))  # Eviction takes the least recently used file first.
        except (OSError, ValueError):  # ValueError: the file is empty.
            return None
        body = mapped[: -CHECKSUM.size]
        if body[: len(head)] != head or mapped[len(body) :] != CHECKSUM.pack(zlib.crc32(body)):
            return None
        with pa.ipc.open_stream(pa.py_buffer(body[len(head) :])) as reader:
            return reader.read_next_batch()

    def _make_room(self, size: int) -> None:
        """Evict unused segments if there are too many. Raises OSError if there is no room."""
        if size > self._bytes_max:
            raise OSError("the segment is larger than the limit of all segments")
        self._directory.mkdir(exist_ok=True)
        if self._writes % COUNT_EVERY == 0 or self._bytes + size > self._bytes_max:
            self._bytes = self._tidied(self._bytes_max - size)
        disk = shutil.disk_usage(self._directory)
        left = min(FREE_SHARE * disk.total, FREE_BYTES_MAX)
        if self._bytes + size > self._bytes_max or disk.free - size < left:
            self._full_until = time.monotonic() + FULL_S
            raise OSError("the disk has no room for segments")
        self._writes += 1
        self._bytes += size

    def _tidied(self, bytes_left: int) -> int:
        """Evict unused segments down to `bytes_left`, oldest first; return the bytes left."""
        found = []
        for entry in os.scandir(self._directory):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # Another process has evicted it.
            found.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        unused = time.time() - IN_USE_S
        for used, size, path in sorted(found):
            if total <= bytes_left or used > unused:
                break
            Path(path).unlink(missing_ok=True)
            total -= size
        return total
