"""One connection of a Kafka client: frames in, answers out, in order and bounded.

    data -> frames -> one task, which serves them one after another -> answers, in their order

A frame is refused by the length that it claims, before its bytes are there. The task serves a
request only while the client reads its answers and few earlier requests are unanswered. Meanwhile
the socket is not read, so the bytes that a client can make a node hold are bounded.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import structlog

from docstore.errors import DocstoreError
from docstore.http.slow_readers import Mark
from docstore.http.unacknowledged import acknowledged
from docstore.kafka.decoding import Malformed
from docstore.kafka.dispatch import HEAD_BYTES, Dispatch, Unfinished
from docstore.kafka.encoding import Pieces
from docstore.kafka.produce import PRODUCE
from docstore.kafka.sasl import Login
from docstore.model.limits import Limits

FRAME_BYTES_MAX = 32 << 20
"""Maximum bytes of a request: some clients send the batches of all partitions of a node in one."""
STRANGERS_BYTES_MAX = 1 << 16
"""Maximum bytes of a request before the login."""
UNANSWERED_MAX = 64
WAITING_BYTES_MAX = 8 << 20
"""Maximum bytes of requests that wait or are served, and of answers that wait for earlier ones."""
HELD_BYTES_MAX = 256 << 20
"""Maximum bytes that all connections of a node hold; a large request above that is refused."""
IDLE_S = 600.0
"""Seconds without a request after which a connection is closed, as by Kafka's default."""
LENGTH_BYTES = 4
PRODUCE_KEY = PRODUCE.to_bytes(2, "big")

log = structlog.get_logger("docstore.kafka")


@dataclass(slots=True)
class _Answer:
    """The place of an answer among those of its connection. pieces: None until it is made."""

    request_bytes: int
    pieces: Pieces | None = None
    unfinished: Unfinished | None = None


@dataclass(slots=True)
class Held:
    """Bytes that all connections of a node hold: of requests, and of answers not written."""

    size: int = 0


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(
        self,
        dispatch: Dispatch,
        limits: Limits,
        held: Held,
        opened: "Callable[[Connection], Login | None]",
        closed: "Callable[[Connection, str], None]",
    ) -> None:
        """opened: returns the login of an accepted connection, None if it is refused.

        closed: called with the reason if the client broke the protocol, else with "".
        """
        self._dispatch = dispatch
        self._limits = limits
        self._held = held
        self._own_held = 0
        self._opened = opened
        self._closed = closed
        self._wire: asyncio.Transport | None = None
        self._login: Login | None = None
        self.address = ""
        self._buffer = bytearray()
        self._frames: deque[bytes] = deque()
        self._more = asyncio.Event()
        self._waiting_bytes = 0
        self._answers: deque[_Answer] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._is_choked = self._is_paused = self._leaves = self._is_cancellable = False
        self._why = ""
        self._received = self._written = self._served = 0
        self._since = time.monotonic()
        """Time of the last whole request, or of the first byte of an unfinished one."""

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read, if the connection is accepted."""
        self._wire = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self._login = self._opened(self)
        if self._login is None:
            self._wire.abort()

    @property
    def is_encrypted(self) -> bool:
        """Return whether the connection has TLS."""
        return self._wire is not None and self._wire.get_extra_info("ssl_object") is not None

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the request in progress, unless it appends records: acks=0 needs no answer."""
        self._wire = None
        self._answers.clear()
        self._is_choked = False
        if self._serving is None:
            self._buffer.clear()
        elif self._is_cancellable:
            self._serving.cancel()
        self._make_room()
        self._account()
        self._closed(self, self._why)

    def pause_writing(self) -> None:
        """Serve no further request until the client has read its answers."""
        self._is_choked = True

    def resume_writing(self) -> None:
        """Serve the next requests: the client has read enough."""
        self._is_choked = False
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Add bytes of the client, and queue the requests that are complete."""
        if self._wire is None or self._wire.is_closing() or self._login is None:
            return
        if not self._buffer:
            self._since = time.monotonic()
        self._received += len(data)
        self._buffer += data
        self._split()
        self._account()
        if self._held.size > HELD_BYTES_MAX and self._own_held > STRANGERS_BYTES_MAX:
            self._refuse(f"all requests together have more than {HELD_BYTES_MAX} bytes")

    def _account(self) -> None:
        """Count the bytes that this connection holds among those of all."""
        own = len(self._buffer) + self._waiting_bytes + self._answers_bytes()
        self._held.size += own - self._own_held
        self._own_held = own

    def _split(self) -> None:
        most = FRAME_BYTES_MAX if self._login and self._login.is_done else STRANGERS_BYTES_MAX
        while len(self._buffer) >= LENGTH_BYTES:
            size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big", signed=True)
            if not HEAD_BYTES <= size <= most:
                self._refuse(f"a request claims {size} bytes, and at most {most} are accepted")
                return
            end = LENGTH_BYTES + size
            if len(self._buffer) < end or len(self._frames) >= UNANSWERED_MAX:
                break
            self._frames.append(bytes(memoryview(self._buffer)[LENGTH_BYTES:end]))
            self._more.set()
            del self._buffer[:end]
            self._waiting_bytes += size
            self._since = time.monotonic()
        if self._frames and self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Pause reading while many requests wait."""
        if self._wire is None or self._wire.is_closing():
            return
        is_full = self._waiting_bytes >= WAITING_BYTES_MAX or len(self._frames) >= UNANSWERED_MAX
        if is_full and not self._is_paused:
            self._is_paused = True
            self._wire.pause_reading()
        elif self._is_paused and not is_full:
            self._is_paused = False
            self._wire.resume_reading()

    # Requests and answers

    async def _serve(self) -> None:
        """Serve the waiting requests, one after another."""
        try:
            while self._frames:
                while self._has_no_room():
                    self._room = asyncio.get_running_loop().create_future()
                    await self._room
                await self._serve_next()
        except Malformed as error:
            self._refuse(str(error))
        except DocstoreError as error:  # For example while the group is not known.
            log.info("a Kafka client is disconnected", why=str(error))
            self._refuse("")
        except Exception as error:  # noqa: BLE001 - a fault of one request ends its connection
            self._failed(error)
        finally:
            self._serving, self._is_cancellable = None, False
            if self._wire is None and self._frames:  # Cancelled: records may wait.
                self._serving = asyncio.create_task(self._serve())
            elif self._wire is None:
                self._buffer.clear()
                self._account()
        self._close_if_over()

    async def _serve_next(self) -> None:
        assert self._login is not None
        frame = self._frames.popleft()
        self._split()
        if not self._frames:
            self._more.clear()
        self._is_cancellable = not frame.startswith(PRODUCE_KEY)
        try:
            if self._wire is None and self._is_cancellable:
                return
            result = await self._dispatch.serve(frame, self.address, self._login, self._more)
        finally:
            self._waiting_bytes = max(0, self._waiting_bytes - len(frame))
            self._read_or_pause()
        self._is_cancellable = False
        self._served += 1
        self._since = time.monotonic()
        if result is None or self._wire is None:
            self._account()
            return
        answer = _Answer(len(frame))
        if isinstance(result, Unfinished):
            answer.unfinished = result
            result.outcome.add_done_callback(self._flush)
        else:
            answer.pieces = result
            answer.request_bytes = sum(map(len, result))
        self._answers.append(answer)
        self._flush()

    def _answers_bytes(self) -> int:
        return sum(each.request_bytes for each in self._answers)

    def _has_no_room(self) -> bool:
        return (
            self._is_choked
            or len(self._answers) >= UNANSWERED_MAX
            or self._answers_bytes() >= WAITING_BYTES_MAX
        )

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done() and not self._has_no_room():
            self._room.set_result(None)

    def _flush(self, _: "asyncio.Future[object] | None" = None) -> None:
        """Write the answers that are made, up to the first that is not."""
        while self._answers and self._wire is not None:
            answer = self._answers[0]
            if answer.unfinished is not None and answer.unfinished.outcome.done():
                self._finish(answer, answer.unfinished)
            if answer.pieces is None:
                break
            self._answers.popleft()
            whole = b"".join(answer.pieces)
            self._written += len(whole)
            self._wire.write(whole)
        self._account()
        self._make_room()
        self._close_if_over()

    def _finish(self, answer: _Answer, unfinished: Unfinished) -> None:
        """Make an answer from its outcome; close if the node stops before there is one."""
        try:
            answer.pieces = unfinished.write(unfinished.outcome.result())
        except asyncio.CancelledError:
            self._refuse("")
        except Exception as error:  # noqa: BLE001 - as in `_serve`
            self._failed(error)

    # The end

    def _failed(self, error: Exception) -> None:
        log.error("a request of a Kafka client failed", address=self.address, exc_info=error)
        self._refuse("")

    def _refuse(self, why: str) -> None:
        """Close the connection without its unfinished answers. why: the client's fault, or ""."""
        self._why, self._waiting_bytes = why, 0
        self._frames.clear()
        self._answers.clear()
        if self._wire is not None:
            self._wire.close()

    def leave(self) -> None:
        """Close once the received requests are answered."""
        self._leaves = True
        self._close_if_over()

    def _close_if_over(self) -> None:
        has_failed = self._login is not None and self._login.has_failed
        is_idle = self._serving is None and not self._frames and not self._answers
        if self._wire is not None and is_idle and (self._leaves or has_failed):
            self._wire.close()

    def abort(self) -> None:
        """Close at once, even with unread answers."""
        if self._wire is not None:
            self._wire.abort()

    def mark(self) -> Mark | None:
        """Return the client's progress in sending and reading; None if it has read all answers."""
        if self._wire is None:
            return None
        unread, acked = self._wire.get_write_buffer_size(), None
        if self.is_encrypted:
            acked = acknowledged(self._wire.get_extra_info("socket"))
        if not unread and acked is None:
            return None
        return self._received, self._written - unread, acked or 0

    def overstays(self, now: float) -> bool:
        """Say whether a client is silent for longer than it may be."""
        if self._serving is not None or self._answers or self._login is None:
            return False
        silent_s = now - self._since
        if self._buffer:
            return silent_s > self._limits.body_timeout_s
        is_stranger = not self._served or not self._login.is_done
        return silent_s > (self._limits.first_request_timeout_s if is_stranger else IDLE_S)
