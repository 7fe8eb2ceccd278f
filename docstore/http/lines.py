"""A body as a stream of values: lines of JSON, or consecutive msgpack objects.

`feed` takes bytes as they arrive and returns the complete values. After bytes that cannot be
parsed, the error is the last value, and the stream is over.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import msgpack
from aiohttp import web

from docstore.errors import BadRequest, DocstoreError, TooLarge, TooSlow
from docstore.http.bodies import object_of_pairs
from docstore.http.encodings import Inflater
from docstore.model import json
from docstore.streams.records import why_not_msgpack

LINE_BYTES_MAX = 2 << 20
LINE_DEPTH_MAX = json.DEPTH_MAX + 1
"""A line is an object around a document, so it may be one level deeper."""
BATCH_LINES = 256
"""Lines submitted in one turn of the loop, which serves no other request for some ten milliseconds.
They reach the disk and the replicas together: smaller batches load a fifth slower."""
BROKEN_LINES_MAX = 10
"""Consecutive lines without an operation that end a request, since its body is something else. Any
byte is a msgpack value, so that a megabyte of another format would be a million lines."""


class BodyLines(Protocol):
    """A body that is split into values as it arrives."""

    is_over: bool

    def feed(self, chunk: bytes) -> Sequence[Any]:
        """Return the values that this chunk completes."""

    def end(self) -> Sequence[Any]:
        """Return the values that the end of the body completes."""


class JsonLines:
    """Lines of JSON as bytes; empty lines are left out."""

    def __init__(self) -> None:
        self.is_over = False
        self._rest = b""

    def feed(self, chunk: bytes) -> Sequence[Any]:
        """Return the lines that this chunk completes."""
        if self._rest:
            chunk = self._rest + chunk
        *lines, self._rest = chunk.split(b"\n")
        found: list[Any] = [line for line in lines if line and not line.isspace()]
        if len(self._rest) > LINE_BYTES_MAX:
            self.is_over = True
            found.append(TooLarge(f"each line must have at most {LINE_BYTES_MAX} bytes"))
        return found

    def end(self) -> Sequence[Any]:
        """Return the last line if no line feed ended it."""
        self.is_over = True
        return [self._rest] if self._rest.strip() else []


class MsgpackLines:
    """Consecutive msgpack objects, checked as strictly as JSON."""

    def __init__(self) -> None:
        self.is_over = False
        self._fed = self._complete = self._strange = 0
        self._unpacker = msgpack.Unpacker(
            max_buffer_size=2 * LINE_BYTES_MAX, strict_map_key=True, timestamp=0,
            max_ext_len=0, max_bin_len=0, max_str_len=LINE_BYTES_MAX,
            max_array_len=LINE_BYTES_MAX, max_map_len=LINE_BYTES_MAX,
            object_pairs_hook=object_of_pairs,
        )  # fmt: skip

    def feed(self, chunk: bytes) -> Sequence[Any]:
        """Return the objects that this chunk completes. Too many other values end the stream."""
        found: list[Any] = []
        try:
            self._unpacker.feed(chunk)
            self._fed += len(chunk)
            for value in self._unpacker:
                found.append(_checked(value))
                self._complete = self._unpacker.tell()
                self._strange = 0 if isinstance(value, dict) else self._strange + 1
                if self._strange >= BROKEN_LINES_MAX:
                    self.is_over = True
                    break
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
            self.is_over = True
            found.append(
                BadRequest(
                    f"the body must be a stream of msgpack objects: {why_not_msgpack(error)}"
                )
            )
        if not self.is_over and self._fed - self._complete > LINE_BYTES_MAX:
            # The unpacker limits its unread input, not the decoded objects.
            self.is_over = True
            found.append(TooLarge(f"each object must have at most {LINE_BYTES_MAX} bytes"))
        return found

    def end(self) -> Sequence[Any]:
        """Return an error if the last object is not complete."""
        self.is_over = True
        cut_off = self._complete < self._fed
        return [BadRequest("the last object of the body is incomplete")] if cut_off else []


class InflatedLines:
    """Compressed lines or objects."""

    def __init__(self, lines: BodyLines, inflate: Inflater) -> None:
        self.is_over = False
        self._lines = lines
        self._inflate = inflate

    def feed(self, chunk: bytes) -> Sequence[Any]:
        """Return the values that the next compressed bytes complete."""
        found: list[Any] = []
        try:
            for piece in self._inflate.feed(chunk):
                found += self._lines.feed(piece)
                if self._lines.is_over:
                    break
        except BadRequest as error:
            found.append(error)
            self._lines.is_over = True
        self.is_over = self._lines.is_over
        return found

    def end(self) -> Sequence[Any]:
        """Return the last values, and an error if the compressed stream was cut off."""
        self.is_over = True
        found = list(self._lines.end())
        try:
            self._inflate.end()
        except BadRequest as error:
            found.append(error)
        return found


class Source(Protocol):
    """A source of a bulk request's lines."""

    async def read(self) -> Sequence[Any]:
        """Return the next lines, none at the end."""


class RequestLines:
    """The lines of a request, in batches of a bounded size; later lines wait unsubmitted."""

    def __init__(self, request: web.BaseRequest, lines: BodyLines, timeout_s: float) -> None:
        self._request = request
        self._lines = lines
        self._timeout_s = timeout_s
        self._waiting: Sequence[Any] = ()
        self._has_begun = False

    async def read(self) -> Sequence[Any]:
        """Return the next lines, none at the end. An error of the body is the last line.

        Raises that error if it is the first line as well, so that it can be the request's status.
        """
        if not self._waiting:
            self._waiting = found = await self._more()
            if not self._has_begun and self._lines.is_over and len(found) == 1:
                _raise_error(found[0])
            self._has_begun = True
        batch, self._waiting = self._waiting[:BATCH_LINES], self._waiting[BATCH_LINES:]
        return batch

    async def _more(self) -> Sequence[Any]:
        lines = self._lines
        try:
            async with asyncio.timeout(self._timeout_s):
                while not lines.is_over:
                    chunk = await self._request.content.readany()
                    found = lines.feed(chunk) if chunk else lines.end()
                    if found:
                        return found
        except TimeoutError:
            lines.is_over = True
            return [TooSlow(f"the next lines must arrive within {self._timeout_s:g} s")]
        except web.RequestPayloadError:
            lines.is_over = True
            return [
                BadRequest("the body does not match its Content-Encoding, Content-Length or chunks")
            ]
        return ()


def _raise_error(value: Any) -> None:
    if isinstance(value, DocstoreError):
        raise value


def _checked(value: Any) -> Any:
    try:
        json.check(value, LINE_DEPTH_MAX)
    except BadRequest as error:
        return error
    return value
