"""The offsets of consumer groups, as HTTP and Kafka clients of one node use them."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from docstore.errors import NotFound, Unavailable, Undecided
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import State
from docstore.runtime.streams_backend import StreamBackend
from docstore.services.group_document import GroupState, read_group
from docstore.services.offsets import INCARNATION, nothing_read, offset_link
from docstore.streams.effects import Problem, Records
from docstore.streams.replica_set import partition_link
from docstore.streams.requests import ReadRequest

AT_ONCE = 64
END_S = 1.0
"""Seconds for which a page or a commit waits until the partition's leader reports its end."""
_ABSENT = json.dump(nothing_read())


class Documents(Protocol):
    """The documents of a node's group."""

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        """Forward the operation to its owner and return the answer, by the deadline at the latest.

        Never raises for an error of the cluster: 503 and 504 are answers.
        """

    def submit_batch(
        self, operations: Sequence[Operation], timeout_s: float
    ) -> "asyncio.Future[list[Answer]]":
        """Forward operations that came together, none of them on a declaration; return all answers.

        Each operation is served and answered as if it were alone.
        """


class NoSuchGroup(NotFound):
    """There is no group, or no set of roles, with this name."""

    code = "no-such-group"


class Bounds(NamedTuple):
    """First record and high watermark of a partition, of an incarnation of its topic."""

    start: int
    end: int
    incarnation: str


async def group_at(documents: Documents, link: str, timeout_s: float) -> tuple[Row, GroupState]:
    """Return a group's document and its parsed state. Raises NoSuchGroup, Unavailable."""
    answer = await documents.submit(Operation(verb="GET", link=link), timeout_s)
    if answer.status == 404:
        raise NoSuchGroup(f"there is nothing at {link}")
    row = answer.row if answer.is_success else None
    group = None if row is None else read_group(row.state)
    if row is None or group is None:
        raise Unavailable(f"{link} cannot be read, retry: {answer.detail}")
    return row, group


class OffsetsBackend:
    """The offsets of groups: read, changed, and compared with the partitions."""

    def __init__(self, documents: Documents, streams: Callable[[], StreamBackend]) -> None:
        """streams: raises Unavailable while the node's group is not known."""
        self._documents = documents
        self._streams = streams

    async def change(
        self,
        link: str,
        offset: str,
        change: State,
        timeout_s: float,
        conditions: Conditions | None = None,
    ) -> Answer:
        """Change an offset; create its document if the group has the partition."""
        operation = Operation(
            verb="PATCH", link=offset, body=json.dump(change), media="handler",
            conditions=conditions or Conditions(),
        )  # fmt: skip
        answer = await self._documents.submit(operation, timeout_s)
        if answer.status != 404:
            return answer
        _, group = await group_at(self._documents, link, timeout_s)
        if offset not in [offset_link(link, each) for each in group.partitions]:
            return answer._replace(detail="the group has no such partition")
        absent = Conditions(none_match="*")
        made = Operation(verb="PUT", link=offset, body=_ABSENT, conditions=absent, creates=True)
        answer = await self._documents.submit(made, timeout_s)
        if not answer.is_success and answer.status != 412:
            return answer
        return await self._documents.submit(operation, timeout_s)

    async def rows(
        self, link: str, partitions: Sequence[str], timeout_s: float
    ) -> list[tuple[str, Row | None]]:
        """Return (partition, row of its offset) for partitions of a group.

        Raises Unavailable if an offset cannot be read, since that does not mean that there is none.
        """
        room = asyncio.Semaphore(AT_ONCE)

        async def read(partition: str) -> tuple[str, Row | None]:
            offset = offset_link(link, partition)
            async with room:
                found = await self._documents.submit(Operation(verb="GET", link=offset), timeout_s)
            if not found.is_success and found.status != 404:
                raise Unavailable(f"{offset} cannot be read, retry: {found.detail}")
            return partition, found.row if found.is_success else None

        return list(await asyncio.gather(*map(read, partitions)))

    async def progress(self, link: str, timeout_s: float) -> list[dict[str, Any]]:
        """Return the offset of each partition, its bounds, and its lag.

        Bounds and lag are None where the partition's leader does not answer.
        """
        _, group = await group_at(self._documents, link, timeout_s)
        room = asyncio.Semaphore(AT_ONCE)

        async def show(partition: str, row: Row | None) -> dict[str, Any]:
            topic, _, number = partition.rpartition("/")
            state = nothing_read() | ({} if row is None else json.load(row.state))
            async with room:
                found = await self.position(topic, int(number), min(END_S, timeout_s))
            named = {"topic": topic, "partition": int(number), **state}
            if isinstance(found, Problem):
                return named | {"start": None, "end": None, "lag": None}
            # A group that has read an earlier incarnation of the topic begins this one anew.
            is_read = state[INCARNATION] in ("", found.incarnation)
            begins = max(found.start, state["offset"]) if is_read else found.start
            lag = max(0, found.offset - begins)
            return named | {"start": found.start, "end": found.offset, "lag": lag}

        rows = await self.rows(link, group.partitions, timeout_s)
        return list(await asyncio.gather(*(show(*each) for each in rows)))

    async def position(
        self, topic: str, number: int, timeout_s: float, origin: tuple[str, int] = ("end", 0)
    ) -> Records | Problem:
        """Return the bounds of a partition: `start`, and the high watermark as `offset`.

        origin: another place, whose offset is then `offset`.
        """
        return await self._streams().fetch(
            partition_link(topic, number), ReadRequest(origin, bytes_max=1),
            wait_s=0, timeout_s=timeout_s,
        )  # fmt: skip

    async def bounds(self, topic: str, number: int, timeout_s: float) -> Bounds:
        """Return the bounds of a partition. Raises Unavailable."""
        found = insisted(await self.position(topic, number, timeout_s), f"{topic}/{number}")
        return Bounds(found.start, found.offset, found.incarnation)

    async def forget(self, link: str, group: GroupState, timeout_s: float) -> None:
        """Delete the offsets of a deleted group. Raises Undecided if one may be left.

        A new group of the same name would continue from an offset that is left.
        """
        try:
            found = await self.rows(link, group.partitions, timeout_s)
        except Unavailable as error:
            raise Undecided(f"the group is deleted, its offsets may remain: {error}") from None
        deletions = [Operation(verb="DELETE", link=row.link) for _, row in found if row is not None]
        for answer in await self._documents.submit_batch(deletions, timeout_s) if deletions else ():
            if answer.status >= 500:
                raise Undecided(f"the group is deleted, its offsets may remain: {answer.detail}")


def insisted(found: Records | Problem, partition: str) -> Records:
    if isinstance(found, Problem):
        raise Unavailable(f"the end of {partition} could not be read, retry: {found.detail}")
    return found
