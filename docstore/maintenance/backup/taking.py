"""Takes a backup of a running group: its slots up to a cut, read from any replicas.

Rows up to a cut never change, so each page may come from another replica, and an interrupted backup
continues at the same cut. A named snapshot keeps the nodes from compacting rows that are not read
yet. After the backup, the snapshot keeps the rows after this cut for the next one.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgpack
import orjson

from docstore import __version__
from docstore.client import Client, ClientError, RequestFailed, Unreachable
from docstore.client.requests import JSON
from docstore.maintenance.backup import directory as places
from docstore.maintenance.backup.directory import PartReader, PartWriter
from docstore.maintenance.backup.manifest import BackupFile, Manifest, insist_on_chain
from docstore.maintenance.backup.verifying import PartCheck
from docstore.model import durable_files
from docstore.reads.blocks import BadBackup, unpack_block

ROWS, SNAPSHOTS = "/core/backup/rows", "/core/snapshots"
PARTS = 64
"""Number of files of a backup: an interrupted one reads at most IN_FLIGHT of them again."""
IN_FLIGHT = 4
ATTEMPTS = 8
PAUSE_S = 0.25
CUT_TIMEOUT_S, PAGE_TIMEOUT_S = 30.0, 60.0
HOLD_S_MIN = 86_400.0
"""Least seconds for which the snapshot of a running backup is kept."""
KINDS = ("log", "branches")
ELSEWHERE = (421, 425, 429)
"""Statuses of a node that cannot answer now or for these slots, so that another node is asked."""

Tell = Callable[[BackupFile], None]
"""Called for each file, also for files of an earlier run."""


class BackupFailed(Exception):
    """A backup cannot be taken or continued; it stays unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupRequest:
    """Options of a backup.

    as_of: "barrier", "latest", or a time. rows_per_second: greatest speed, 0 for no limit.
    hold_s: seconds for which the group keeps the history for the next backup; 0: none is planned.
    """

    as_of: str = "barrier"
    rows_per_second: float = 0.0
    hold_s: float = 8 * 86_400.0


async def take(client: Client, directory: Path, wanted: BackupRequest, tell: Tell) -> Manifest:
    """Add a backup to a directory; return its manifest.

    Raises BackupFailed, BadBackup, ClientError, OSError: then the backup stays unfinished, and the
    next call continues it.
    """
    places.make(directory)
    with places.locked(directory):
        chain = places.manifests_in(directory)
        if chain:
            insist_on_chain(chain)
        before = chain[-1] if chain else None
        plan = await _planned(client, directory, wanted, before)
        await _hold(client, plan, max(wanted.hold_s, HOLD_S_MIN))
        parts = await _Taking(client, directory, wanted, plan, before, tell).run()
        taken = plan.with_parts(parts)
        insist_on_chain([*chain, taken])
        places.finish(directory, taken)
        await _let_go(client, taken, before, wanted.hold_s)
        return taken


async def _planned(
    client: Client, directory: Path, wanted: BackupRequest, before: Manifest | None
) -> Manifest:
    number = before.number + 1 if before else 1
    unfinished = places.unfinished(directory, number)
    if (unfinished / places.PLAN).exists():
        plan = places.manifest_in(unfinished / places.PLAN)
        if (plan.previous, plan.as_of) != (before.id if before else "", wanted.as_of):
            raise BackupFailed(f"{unfinished} is of another backup, as of {plan.as_of}: remove it")
        return plan
    page = await _cut(client, wanted.as_of)
    ends, epochs = page["ends"], page["epochs"]
    if before is not None:
        if page["clusterId"] != before.group:
            found = page["clusterId"]
            raise BackupFailed(
                f"the nodes are of group {found}, but {directory} is of "
                f"{before.group}; use another directory"
            )
        if any(now < then for now, then in zip(ends, before.ends, strict=True)):
            raise BackupFailed(
                f"the directory {directory} has a backup after {wanted.as_of}; "
                "take one as of a later time"
            )
    plan = Manifest(
        id=secrets.token_hex(16), number=number, previous=before.id if before else "",
        group=page["clusterId"], slots=len(ends), cut=page["cut"], ends=tuple(ends),
        epoch=max(epochs), stored_protocol=await _stored_protocol(client), as_of=wanted.as_of,
        began_us=time.time_ns() // 1000, docstore=__version__,
    )  # fmt: skip
    places.make(unfinished)
    durable_files.replace(unfinished / places.PLAN, plan.pack())
    return plan


async def _cut(client: Client, as_of: str) -> dict[str, Any]:
    path = f"/core/spark/plan?asOf={quote(as_of, safe='')}"
    patience = {"Docstore-Timeout-Ms": f"{CUT_TIMEOUT_S * 1000:.0f}"}
    _, _, content = await client.request("GET", path, headers=patience, wait_s=CUT_TIMEOUT_S)
    page: dict[str, Any] = orjson.loads(content)
    return page


async def _stored_protocol(client: Client) -> int:
    """Return the greatest protocol whose additions the rows may contain (rule M7)."""
    page = await client.json("GET", "/core/node-groups/default")
    return int(page["configuration"]["storedProtocol"])


# The snapshot


def _snapshot_of(manifest: Manifest) -> str:
    return f"{SNAPSHOTS}/backup-{manifest.id}"


async def _hold(client: Client, plan: Manifest, seconds: float) -> None:
    """Have the group keep the history of this cut for `seconds` from now."""
    until = int((time.time() + seconds) * 1e6)
    page = {"cut": plan.cut, "documentExpirationTimeMicros": until}
    await client.json("PUT", _snapshot_of(plan), page)


async def _let_go(client: Client, taken: Manifest, before: Manifest | None, hold_s: float) -> None:
    """Keep the history from this cut on for the next backup, and no earlier history.

    The backup is finished by now, so an error is ignored: a snapshot that cannot be deleted
    expires. If the snapshot of this cut cannot be extended, the earlier one is left to expire too.
    """
    with suppress(ClientError):
        if hold_s:
            await _hold(client, taken, hold_s)
        else:
            await client.json("DELETE", _snapshot_of(taken))
        if before is not None:
            await client.json("DELETE", _snapshot_of(before))


# The rows


class _Taking:
    """Reads the slots of a plan, IN_FLIGHT files at a time."""

    def __init__(
        self,
        client: Client,
        directory: Path,
        wanted: BackupRequest,
        plan: Manifest,
        before: Manifest | None,
        tell: Tell,
    ) -> None:
        self._client = client
        self._path = places.unfinished(directory, plan.number)
        self._rate = wanted.rows_per_second
        self._plan = plan
        self._after: Sequence[int] = before.ends if before else ()
        self._tell = tell
        self._layout: Mapping[str, Any] = {}
        self._unreachable: set[str] = set()
        """URLs that refused a connection, and are not tried again for each file."""
        self._parts: list[BackupFile] = []

    async def run(self) -> list[BackupFile]:
        await self._look_around()
        size = -(-self._plan.slots // PARTS)
        firsts = iter(range(0, self._plan.slots, size))

        async def work() -> None:
            for first in firsts:
                part = await self._part(first, min(size, self._plan.slots - first))
                self._parts.append(part)
                self._tell(part)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(IN_FLIGHT):
                    group.create_task(work())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None  # The first error cancelled the other tasks.
        return self._parts

    async def _look_around(self) -> None:
        """Read the replicas of the slots. Raises BackupFailed if this is another group."""
        self._layout = await self._client.json("GET", "/core/spark/layout")
        found, group = self._layout["clusterId"], self._plan.group
        if found != group:
            raise BackupFailed(
                f"the nodes are of group {found}, but {self._path} is of "
                f"{group}; use another directory"
            )

    async def _part(self, first: int, slots: int) -> BackupFile:
        """Return the file of an earlier run, or write it, from any replica that answers."""
        file = self._path / places.part_name(first, first + slots - 1)
        if file.exists():
            with suppress(BadBackup):  # A damaged file is written anew.
                return self._found(file, first, slots)
        last: Exception
        for attempt in range(ATTEMPTS):
            try:
                return await self._written(file, first, slots, attempt)
            except RequestFailed as error:
                if error.status == 410:
                    raise BackupFailed(
                        f"{error.problem.get('detail')}: history that this backup needs was"
                        " compacted; begin anew in an empty directory"
                    ) from None
                if error.status < 500 and error.status not in ELSEWHERE:
                    raise
                last = error
            except (BadBackup, ClientError) as error:
                last = error
            await asyncio.sleep(PAUSE_S * attempt)
            await self._look_around()
        raise BackupFailed(f"slots {first} to {first + slots - 1} cannot be read: {last}")

    def _found(self, file: Path, first: int, slots: int) -> BackupFile:
        """Return the file of an earlier run. Raises BadBackup."""
        reader, check, rows = PartReader(file), self._check(first, slots), 0
        for packed in reader:
            block = unpack_block(packed)
            check.add(block)
            rows += block.rows
        check.end()
        return BackupFile(file.name, first, slots, rows, reader.length, reader.sha256)

    def _check(self, first: int, slots: int) -> PartCheck:
        return PartCheck(first, slots, self._plan.ends, self._after)

    async def _written(self, file: Path, first: int, slots: int, attempt: int) -> BackupFile:
        check, rows = self._check(first, slots), 0
        with PartWriter(file) as writer:
            for url, its in self._by_holder(range(first, first + slots), attempt).items():
                ranges = [
                    (slot, self._after[slot] if self._after else 0, self._plan.ends[slot])
                    for slot in its
                ]
                for kind in KINDS:
                    rows += await self._read(url, ranges, kind, writer, check)
            check.end()
            writer.finish()
        return BackupFile(file.name, first, slots, rows, writer.length, writer.sha256)

    async def _read(
        self,
        url: str,
        ranges: Sequence[tuple[int, int, int]],
        kind: str,
        writer: PartWriter,
        check: PartCheck,
    ) -> int:
        asked: dict[str, Any] = {"ranges": ranges, "of": kind, "job": f"backup-{self._plan.id}"}
        if self._rate:
            asked["rowsPerSecond"] = self._rate / min(IN_FLIGHT, len(self._layout["nodes"]))
        rows, after = 0, None
        while True:
            body = orjson.dumps({**asked, "after": after})
            page = await self._page(url, body)
            block = unpack_block(page["block"])
            check.add(block)
            if block.log or block.branches:
                writer.add(page["block"])
            rows, after = rows + block.rows, page["next"]
            if after is None:
                return rows

    async def _page(self, url: str, body: bytes) -> dict[str, Any]:
        try:
            _, _, content = await self._client.once(
                url, "POST", ROWS, body, JSON, timeout_s=PAGE_TIMEOUT_S
            )
        except Unreachable:
            self._unreachable.add(url)
            raise
        page: dict[str, Any] = msgpack.unpackb(content)
        return page

    def _by_holder(self, slots: Sequence[int], attempt: int) -> dict[str, list[int]]:
        """Return URL of a node -> slots to read there; each attempt chooses other nodes.

        The last attempts ask the nodes that the user named, in case the others are unreachable.
        """
        nodes, replicas = self._layout["nodes"], self._layout["replicas"]
        turn = slots[0] // len(slots) + attempt
        found: dict[str, list[int]] = {}
        for slot in slots:
            its = [nodes[number] for number in replicas[slot]]
            alive = [each["url"] for each in its if each["url"] and each["status"] == "ALIVE"]
            urls = [url for url in alive if url not in self._unreachable]
            if not urls or attempt >= ATTEMPTS // 2:
                urls = self._client.urls
            found.setdefault(urls[turn % len(urls)], []).append(slot)
        return found
