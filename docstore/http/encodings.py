"""Compressed bodies, decompressed piece by piece, so that no small body can fill the memory.

This module replaces aiohttp's decompression: an unknown or broken encoding gets an answer about the
body, where aiohttp would fail the connection.
"""

import zlib
from collections.abc import Iterator

from docstore.errors import BadRequest

PIECE_BYTES_MAX = 1 << 18
GZIP_WBITS, ZLIB_WBITS, RAW_WBITS = 31, 15, -15


class Inflater:
    """Decompresses one body: gzip (any number of members), or deflate (zlib's frame or none)."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._stream: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed content of the next bytes. Raises BadRequest."""
        while data:
            stream = self._stream or self._started(data)
            try:
                piece = stream.decompress(data, PIECE_BYTES_MAX)
            except zlib.error:
                raise BadRequest(
                    f"the body must be {self._encoding}, as its Content-Encoding says"
                ) from None
            data = stream.unconsumed_tail
            if stream.eof:
                data = stream.unused_data
                self._stream = None
                if data and self._encoding != "gzip":
                    raise BadRequest(
                        f"the body has more bytes after the end of its {self._encoding}"
                    )
            if piece:
                yield piece

    def end(self) -> None:
        """Raise BadRequest if the stream was cut off."""
        if self._stream is not None:
            raise BadRequest(
                f"the body ends before its {self._encoding} is complete: send it again"
            )

    def _started(self, data: bytes) -> "zlib._Decompress":
        if self._encoding == "gzip":
            wbits = GZIP_WBITS
        else:
            wbits = ZLIB_WBITS if data[0] & 0x0F == 8 else RAW_WBITS
        self._stream = zlib.decompressobj(wbits)
        return self._stream


def inflater(encoding: str | None) -> Inflater | None:
    """Return the decompressor for a Content-Encoding, None if the body is not encoded."""
    name = (encoding or "identity").strip().lower()
    return None if name == "identity" else Inflater(name)
