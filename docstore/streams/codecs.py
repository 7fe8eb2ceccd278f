"""Compression of the bodies of batches, by the codecs of Kafka and their numbers.

A body is decompressed into memory of a limited size, so a few bytes cannot claim more than that.
"""

import mmap
from collections.abc import Callable

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
PLAIN_BYTES_MAX = 16 << 20
"""Bytes of a body that are decompressed at most. A leader seals bodies of a few MiB."""
LEVEL = 1

_XERIAL = b"\x82SNAPPY\x00"
"""Beginning of the blocks that Java writes: a head of 16 bytes, then blocks after their length."""
_XERIAL_SIZE = 16
_LENGTH_SIZE = 4


class TooLarge(ValueError):
    """A body has more bytes than are decompressed."""


def compressed(body: bytes) -> bytes:
    """Return a body compressed with zstd."""
    return bytes(cramjam.zstd.compress(body, LEVEL))


def decompressed(codec: int, body: bytes) -> bytes:
    """Return the plain body. Raises ValueError."""
    if codec == NONE:
        return body
    if codec not in _INTO:
        raise ValueError(f"the codec of a batch must be 0 to {ZSTD}; got {codec}")
    room = mmap.mmap(-1, PLAIN_BYTES_MAX)  # The system adds a page when it is first written.
    try:
        return room[: _INTO[codec](body, room)]
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error) or "output buffer" in str(error):
            detail = f"a batch must have at most {PLAIN_BYTES_MAX} bytes when it is decompressed"
            raise TooLarge(detail) from None
        raise ValueError(f"a batch cannot be decompressed: {error}") from None
    finally:
        room.close()


def _snappy_into(body: bytes, room: mmap.mmap) -> int:
    if not body.startswith(_XERIAL):
        return cramjam.snappy.decompress_raw_into(body, room)
    at, size = _XERIAL_SIZE, 0
    with memoryview(room) as view:
        while at < len(body):
            begin = at + _LENGTH_SIZE
            at = begin + int.from_bytes(body[at:begin], "big")
            if begin > len(body) or at > len(body):
                raise ValueError("a batch cannot be decompressed: it ends inside a block")
            with view[size:] as rest:
                size += cramjam.snappy.decompress_raw_into(body[begin:at], rest)
    return size


_INTO: dict[int, Callable[[bytes, mmap.mmap], int]] = {
    GZIP: cramjam.gzip.decompress_into,
    SNAPPY: _snappy_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
