"""Offsets of a consumer group: claims, first offsets and commits of its partitions."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from docstore.client.consumer import ReadOptions, ReadRecord, position_of
from docstore.client.errors import ClientError, RequestFailed, is_passing
from docstore.client.requests import Requests
from docstore.sessions.member import GroupMember

QUEUED_MAX = 1_000
"""Most records of a partition that are read ahead for the application."""
PAUSE_S = 0.1


@dataclass(slots=True, eq=False)
class PartitionReading:
    """Reading of one partition under one tenure."""

    topic: str
    partition: int
    place: int
    token: int
    records: asyncio.Queue[ReadRecord] = field(default_factory=lambda: asyncio.Queue(QUEUED_MAX))
    task: asyncio.Task[None] | None = None
    done: int = -1
    """Offset after the last processed record; -1 if none was processed."""
    committed: int = -1
    epoch: int = 0
    incarnation: str = ""
    """Incarnation of the topic, as returned by the claim."""
    is_ending: bool = False
    is_lapsed: bool = False
    """Whether its proof has lapsed: the tenure may be over."""

    def stop(self) -> None:
        """Stop reading; records that were read ahead stay in the queue."""
        self.is_ending = True
        if self.task is not None:
            self.task.cancel()


class GroupOffsets:
    """Claims and commits of one member."""

    def __init__(self, client: Requests, link: str, member: GroupMember, since: str) -> None:
        """link: that of the group. since: where to begin in a partition never read by the group."""
        self._client = client
        self._link = link
        self._member = member
        self._since = since

    async def claim(self, reading: PartitionReading) -> str:
        """Claim a partition, and return the position from which to read it."""
        link = f"{self._link}/offsets/{reading.topic}/{reading.partition}"
        body = {
            "kind": "ClaimRequest",
            "token": reading.token,
            "member": self._member.id,
            "generation": max(0, self._member.generation),
        }
        while True:
            try:
                page = await self._client.json("PATCH", quote(link), body)
            except ClientError as error:
                if not is_passing(error):
                    raise
                await asyncio.sleep(PAUSE_S)  # The claim may be repeated safely.
            else:
                reading.committed = reading.done = int(page["offset"])
                reading.incarnation = page.get("incarnation", "")
                if reading.done >= 0:
                    return str(reading.done)
                if self._since == "beginning" or await self._begun(reading):
                    return self._since if reading.done < 0 else str(reading.done)

    async def _begun(self, reading: PartitionReading) -> bool:
        """Commit the first offset of a partition; say whether it is committed.

        A member that ends before would leave none, and the next one would resolve "end" again and
        skip the records in between.
        """
        way = ReadOptions(self._since, incarnation=reading.incarnation)
        try:
            reading.done = await position_of(self._client, reading.topic, reading.partition, way)
            await self.commit([reading])
        except ClientError as error:
            if not is_recreated(error) and not is_passing(error):
                raise
        if reading.committed < 0:
            await asyncio.sleep(PAUSE_S)
        return reading.committed >= 0

    async def ends(self, is_over: Callable[[], bool]) -> dict[str, int]:
        """Return the end of each partition of the group, as soon as every leader answers.

        is_over: whether to return without, as for a topic that was deleted.
        """
        while not is_over():
            found = {name: end for name, (_, end) in (await self._progress()).items()}
            ends = {name: end for name, end in found.items() if end is not None}
            if len(ends) == len(found):
                return ends
            await asyncio.sleep(PAUSE_S)
        return {}

    async def commit_until(
        self, ends: Mapping[str, int], readings: Sequence[PartitionReading]
    ) -> bool:
        """Commit; say whether the group has committed all records before these ends."""
        try:
            await self.commit(readings)
            progress = await self._progress()
        except ClientError as error:
            if not is_passing(error):
                raise
            return False
        return all(progress[name][0] >= end for name, end in ends.items() if name in progress)

    async def _progress(self) -> dict[str, tuple[int, int | None]]:
        """Return partition -> (next offset to read, end), of the whole group.

        The end is None where the partition's leader does not answer.
        """
        page = await self._client.json("GET", f"{quote(self._link)}/offsets")
        return {
            f"{each['topic']}/{each['partition']}": (
                max(each["offset"], each["start"] or 0), each["end"]
            )
            for each in page["offsets"]
        }  # fmt: skip

    async def commit(self, readings: Sequence[PartitionReading]) -> None:
        """Commit the processed records of some partitions. Raises ClientError."""
        moved = [(each, each.done) for each in readings if each.done > each.committed]
        if not moved:
            return
        offsets: list[dict[str, Any]] = [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": done,
                "token": each.token,
                "recordEpoch": each.epoch,
                "incarnation": each.incarnation,
            }
            for each, done in moved
        ]
        body = {
            "member": self._member.id,
            "generation": max(0, self._member.generation),
            "offsets": offsets,
        }
        try:
            page = await self._client.json("POST", f"{quote(self._link)}/offsets", body)
        except RequestFailed as error:
            if error.status != 409:
                raise
            page = error.problem  # All of these partitions belong to other members by now.
        for (reading, done), result in zip(moved, page["offsets"], strict=True):
            if result["status"] == 200:
                reading.committed = max(reading.committed, done)
            elif result["status"] == 409 and result["code"] != "topic-recreated":
                reading.stop()


def is_recreated(error: ClientError) -> bool:
    """Say whether the topic was deleted and created again."""
    return isinstance(error, RequestFailed) and error.code == "topic-recreated"
