"""Clients that send atomic batches; and whether all of each was ever seen, or none.

The documents of a key are written by batches alone. Each line of a batch is an operation of the
story too, so answers about a document are judged as for any other one (`mix.judge`).
"""

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from docstore.client.local import LocalNode
from docstore.model.paths import partition_key
from tests.chaos.mix import DEADLINE_S, LEVEL_3, Mixer, Op

ORDERS = "/chaos-orders:"
KINDS = {"batch": 5, "read": 2, "moment": 2, "recent": 1, "again": 2}
BASED = 0.2
"""Share of the lines about known documents that say on which version they are based."""
ABSENT = -1
"""The version of an absent document."""

Stored = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""Link -> version -> document."""


@dataclass(slots=True)
class Moment:
    """The versions of all documents of a key, as they were read one by one for one instant."""

    at_us: int
    versions: dict[str, int]


def documents_of(key: str) -> list[str]:
    """Return the documents of a key."""
    return [f"{ORDERS}/{key}", f"{ORDERS}/{key}~1", f"{ORDERS}/{key}~2"]


def is_keyed(link: str) -> bool:
    """Say whether a document is written by batches."""
    return link.startswith(ORDERS)


def is_made(op: Op) -> bool:
    """Say whether this is of a batch that was answered as applied."""
    return is_keyed(op.link) and op.kind != "read" and op.status == 200


async def declare_orders(session: aiohttp.ClientSession, url: str) -> None:
    """Declare their factory. All members must run, and support keys."""
    body = {"path": ORDERS, "options": LEVEL_3, "putCreates": True}
    async with session.post(f"{url}/core/factories", json=body) as answer:
        assert answer.status == 201, await answer.text()


class Batcher(Mixer):
    """One batch after the other, and reads of the results. Its links are those of some keys."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.moments: list[Moment] = []

    async def _one(self) -> None:
        kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
        node, link = self._rng.choice(self._nodes), self._rng.choice(self._links)
        links = [each for each in self._links if partition_key(each) == partition_key(link)]
        match kind:
            case "batch":
                some = self._rng.sample(links, self._rng.randint(2, len(links)))
                ops = self._begun("put", some, node)
                await self._seen(ops, self._send(ops, node))
            case "read":
                ops = self._begun("read", [link], node)
                await self._seen(ops, self._ask(ops[0], node))
            case "moment":
                [op] = self._begun("read", [link], node)
                await self._seen([op], self._ask(op, node))
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await self._look_back(op, links, node)
            case "recent":  # Updates under way may still get such a time.
                at_us = int((time.time() - self._rng.choice((0.001, 0.1, 1.0))) * 1e6)
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await self._look_at(at_us, links, node)
            case "again" if self.moments:
                seen = self._rng.choice(self.moments)
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    await self._look_at(seen.at_us, list(seen.versions), node)

    async def _send(self, ops: Sequence[Op], node: LocalNode) -> None:
        lines = []
        for op in ops:
            line: dict[str, Any] = {"link": op.link, "body": {"uid": op.uid}}
            if op.link in self._tags and self._rng.random() < BASED:
                op.kind, op.expected = "cas", self._tags[op.link][1]
                line["ifVersion"] = op.expected
            lines.append(json.dumps(line))
        headers = {
            "Docstore-Timeout-Ms": str(int(DEADLINE_S * 1000)),
            "Content-Type": "application/x-ndjson",
        }
        url = f"{node.url}/core/bulk?atomic=true"
        async with self._session.post(url, data="\n".join(lines), headers=headers) as answer:
            text = await answer.text()
            if answer.status == 500:
                self._story.errors.append(f"500 for the batch {ops[0].uid}: {text[:200]}")
            results = map(json.loads, text.splitlines()) if answer.status == 200 else ()
            for op, result in zip(ops, results, strict=False):
                op.version = result["version"]
                self._tags[op.link] = ("", result["version"])
            for op in ops:
                op.status = answer.status

    async def _look_back(self, op: Op, links: Sequence[str], node: LocalNode) -> None:
        """Read a document, and all documents of its key as of the time of that version.

        In their slot no new version can get this time, or an earlier one.
        """
        if op.status != 200:
            return
        version = f"{op.link}?documentVersion={op.version}"
        async with self._session.get(node.url + version) as answer:
            if answer.status != 200:
                return
            at_us = (await answer.json())["documentUpdateTimeMicros"]
        await self._look_at(at_us, links, node)

    async def _look_at(self, at_us: int, links: Sequence[str], node: LocalNode) -> None:
        """Read all documents of a key as of an instant, unless a read is rejected."""
        moment = Moment(at_us, {})
        for link in links:
            async with self._session.get(f"{node.url}{link}?at={at_us}") as answer:
                if answer.status not in (200, 404):
                    return
                page = await answer.json()
                there = answer.status == 200
                moment.versions[link] = page["documentVersion"] if there else ABSENT
        self.moments.append(moment)


def wrong_batches(ops: Sequence[Op], stored: Stored) -> Iterator[str]:
    """Yield the batches that were applied in part, or at several times."""
    times = {
        (link, document["uid"]): document["documentUpdateTimeMicros"]
        for link in filter(is_keyed, stored)
        for document in stored[link].values()
    }
    batches: dict[str, list[Op]] = defaultdict(list)
    for op in ops:
        if is_keyed(op.link) and op.kind != "read":
            batches[op.uid].append(op)
    for uid, lines in batches.items():
        made = [times.get((op.link, uid)) for op in lines]
        if len(set(made)) > 1:
            yield f"batch {uid}, answered {lines[0].status}, was applied in part: {made}"


def wrong_moments(moments: Sequence[Moment], stored: Stored) -> Iterator[str]:
    """Yield the moments that show other versions than the stored ones."""
    for moment in moments:
        for link, shown in moment.versions.items():
            of_then = [
                version
                for version, document in stored[link].items()
                if document["documentUpdateTimeMicros"] <= moment.at_us
            ]
            there = max(of_then, default=ABSENT)
            if shown != there:
                yield f"{link} was shown as of version {shown} at {moment.at_us}, not {there}"
