"""Topics and partitions as the handlers read them: the documents, at their owners."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from docstore.errors import Unavailable
from docstore.http.backend import Backend
from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.streams.replica_set import (
    STREAMS,
    ReplicaSet,
    is_topic,
    partition_link,
    read_replica_set,
)
from docstore.streams.topic import Topic, topic_of

TIMEOUT_S = 10.0
"""Seconds for a request that names no timeout, as over HTTP."""
PAGE = 1000
READS_AT_ONCE = 256
AT_ONCE = 16

T = TypeVar("T")


async def some_at_once(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Return the results of some coroutines, of which few run at the same time."""
    done: list[T] = []
    for begin in range(0, len(work), AT_ONCE):
        done += await asyncio.gather(*(each() for each in work[begin : begin + AT_ONCE]))
    return done


class TopicReader:
    """Reads documents of topics and partitions."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def all(self) -> list[Topic]:
        """Return all topics. Raises Unavailable, NoQuorum."""
        found: list[Topic] = []
        after = ""
        while True:
            listed = await self._backend.listing(
                STREAMS, after=after, limit=PAGE, expand=True, timeout_s=TIMEOUT_S
            )
            found += [
                topic_of(json.load(row.state))
                for link, _, row in listed.entries
                if row is not None and is_topic(link)
            ]
            after = listed.horizon
            if not after:
                return found

    async def named(self, names: Iterable[str]) -> dict[str, Topic | None]:
        """Return name -> topic, None if there is none. Raises Unavailable."""
        found: dict[str, Topic | None] = dict.fromkeys(names)
        links = {name: link for name in found if is_topic(link := f"{STREAMS}/{name}")}
        answers = await self._read(list(links.values()))
        for name, answer in zip(links, answers, strict=True):
            if answer.row is not None:
                found[name] = topic_of(json.load(answer.row.state))
        return found

    async def partitions(self, topics: Iterable[Topic]) -> dict[str, list[ReplicaSet | None]]:
        """Return name of a topic -> its partitions, None for those not provisioned.

        Raises Unavailable.
        """
        places = [(each.name, number) for each in topics for number in range(each.partitions)]
        answers = await self._read([partition_link(*place) for place in places])
        found: dict[str, list[ReplicaSet | None]] = {}
        for (name, _), answer in zip(places, answers, strict=True):
            state = read_replica_set(answer.row.state) if answer.row is not None else None
            found.setdefault(name, []).append(state)
        return found

    async def _read(self, links: Sequence[str]) -> list[Answer]:
        """Return the answers of the owners: success, or 404 without a row. Raises Unavailable."""
        answers: list[Answer] = []
        for begin in range(0, len(links), READS_AT_ONCE):
            operations = [
                Operation(verb="GET", link=link) for link in links[begin : begin + READS_AT_ONCE]
            ]
            answers += await self._backend.submit_batch(operations, TIMEOUT_S)
            await asyncio.sleep(0)
        for link, answer in zip(links, answers, strict=True):
            if answer.status == 404:
                continue
            if answer.row is None or not answer.is_success:
                raise Unavailable(f"{link} cannot be read: {answer.detail}")
        return [answer if answer.is_success else answer._replace(row=None) for answer in answers]
