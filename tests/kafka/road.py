"""The road between clients and the mock broker, on which each client can be cut off by its name.

The broker advertises this address; requests are passed on, one whole request after the other, and
each names its client. Two things happen to them:

* `cut(name)`: no bytes of this client pass any more, in either direction, and its connections stay
  open: what a lost network looks like from both ends. `kill(name)` closes them, old and new, as the
  kernel does for a process that died. `heal(name)` ends either; held bytes are lost. `hold(name)`
  only keeps the answers, as a paused process does, until `release(name)`.
* The assignments of the group's leader go last. The mock broker gives all members their partitions
  at the moment of the assignments, and answers INVALID_REQUEST to a member that asks afterwards; a
  real one answers both. So the assignments wait until all members that have joined have asked.
"""

import asyncio
import io
import struct
from collections import Counter
from dataclasses import replace
from typing import Any, Self

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

COMMIT, JOIN_GROUP, SYNC_GROUP = 8, 11, 14
LEADERS_WORD_WAITS_S = 0.5
"""Upper bound: a member that has joined may have gone since."""


class Road:
    """All connections of one test. Use it as a context, within the test's own loop."""

    def __init__(self, host: str, port: int, own_port: int = 0) -> None:
        """host, port: address of the broker. own_port: 0 for any free one."""
        self._host, self._port = host, port
        self._own_port = own_port
        self.is_muted = False
        """Whether all commits are answered as temporarily rejected."""
        self._commits: dict[tuple[asyncio.StreamWriter, bytes], int] = {}
        """(connection, number of a commit) -> the version of the request."""
        self._cut: set[str] = set()
        self._killed: set[str] = set()
        self._held: dict[str, asyncio.Event] = {}
        self.asked = Counter[tuple[str, int]]()
        """(client, key of the request) -> number of requests."""
        self._joining: set[str] = set()
        """Clients that have asked to join, and not yet for their partitions."""
        self._writers: dict[asyncio.StreamWriter, str] = {}
        self._carriers: set[asyncio.Task[None] | None] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def bootstrap(self) -> str:
        """Return the address for clients whose requests are to pass here."""
        return f"127.0.0.1:{self.port}"

    def cut(self, name: str) -> None:
        self._cut.add(name)

    def kill(self, name: str) -> None:
        self._killed.add(name)
        self._close(name)

    def heal(self, name: str) -> None:
        self._cut.discard(name)
        self._killed.discard(name)
        self._close(name)  # Requests were lost: the connection is useless.

    def hold(self, name: str) -> None:
        self._held[name] = asyncio.Event()

    def release(self, name: str) -> None:
        self._held.pop(name).set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self._own_port)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*[each for each in self._carriers if each is not None])

    def _close(self, name: str) -> None:
        for writer in [each for each, owner in self._writers.items() if owner == name]:
            writer.close()

    async def _carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        broker, forth = await asyncio.open_connection(self._host, self._port)
        self._carriers.add(asyncio.current_task())
        self._writers |= {back: "", forth: ""}
        try:
            async with asyncio.TaskGroup() as group:
                answers = group.create_task(self._pass_back(broker, back))
                await self._pass_on(client, forth, back)
                answers.cancel()
        except* ConnectionError:
            pass
        finally:
            for writer in (back, forth):
                writer.close()
                self._writers.pop(writer)
            self._carriers.discard(asyncio.current_task())

    async def _pass_on(
        self,
        client: asyncio.StreamReader,
        forth: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
    ) -> None:
        while frame := await _frame(client):
            name = _client_of(frame)
            self._writers[back] = self._writers[forth] = name
            if name in self._killed:
                return
            self.asked[name, _key_of(frame)] += 1
            if _key_of(frame) == COMMIT:
                self._commits[back, frame[8:12]] = int.from_bytes(frame[6:8])
            await self._order(name, frame)
            if name not in self._cut:
                forth.write(frame)
                await forth.drain()

    async def _order(self, name: str, frame: bytes) -> None:
        """Return once this request may be passed on."""
        key = _key_of(frame)
        if key == JOIN_GROUP:
            self._joining.add(name)
        elif key == SYNC_GROUP:
            self._joining.discard(name)
            latest = asyncio.get_running_loop().time() + LEADERS_WORD_WAITS_S
            while _is_leaders_word(frame) and self._joining - self._cut - self._killed:
                if asyncio.get_running_loop().time() > latest:
                    break
                await asyncio.sleep(0.005)

    async def _pass_back(self, broker: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        while frame := await _frame(broker):
            if held := self._held.get(self._writers[back]):
                await held.wait()
            if self._writers[back] not in self._cut:
                version = self._commits.pop((back, frame[4:8]), None)
                is_refused = version is not None and self.is_muted
                back.write(_refused(frame, version or 0) if is_refused else frame)
                await back.drain()
        back.close()


def _refused(frame: bytes, version: int) -> bytes:
    """Return the answer to a commit as that of a coordinator that cannot answer now."""
    entity: Any = load_response_schema(COMMIT, version)
    found, _ = entity_reader(entity)(frame, 8)
    code = ErrorCode.coordinator_load_in_progress
    topics = tuple(
        replace(
            topic, partitions=tuple(replace(each, error_code=code) for each in topic.partitions)
        )
        for topic in found.topics
    )
    out = io.BytesIO()
    entity_writer(entity)(out, replace(found, topics=topics))
    body = frame[4:8] + out.getvalue()
    return struct.pack(">i", len(body)) + body


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next request or answer with its length before it; nothing at the end."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head))
    except asyncio.IncompleteReadError:
        return b""


def _text_at(frame: bytes, at: int) -> tuple[str, int]:
    """Return a text after its length of two bytes, and where it ends; -1 is no text."""
    length = max(0, struct.unpack_from(">h", frame, at)[0])
    return frame[at + 2 : at + 2 + length].decode(), at + 2 + length


def _client_of(frame: bytes) -> str:
    return _text_at(frame, 12)[0]  # After length, key, version and the request's number.


def _key_of(frame: bytes) -> int:
    return int.from_bytes(frame[4:6])


def _is_leaders_word(frame: bytes) -> bool:
    """Say whether this SyncGroup (up to version 3) gives assignments, and not only asks."""
    version = int.from_bytes(frame[6:8])
    at = _text_at(frame, 12)[1]
    at = _text_at(frame, at)[1] + 4  # The group, the generation.
    at = _text_at(frame, at)[1]  # The member.
    if version == 3:
        at = _text_at(frame, at)[1]  # Its static name.
    return bool(int.from_bytes(frame[at : at + 4]))
