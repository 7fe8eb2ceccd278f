"""The feed of changes: page by page, or one typed change after the other.

    async for change in store.follow("/orders", since=saved or "earliest"):
        saved = work(change, change.position)

A position stays valid on every node. `follow` has the changes pushed, and when a node dies it
continues at another one; `changes` asks for page after page, which is faster for a backlog.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from docstore.client.errors import ClientError, Unreachable, failed_with, is_passing
from docstore.client.requests import EVENTS, JSON, PAUSE_S, Asked, Requests

CHANGES = "/core/changes"
PATIENCE_S = 60.0
"""Seconds for which a follower of changes retries while no node answers."""
SILENCE_S = 40.0
"""Seconds without a byte after which a pushed feed is broken; a node sends its position each 15."""


class Changes(NamedTuple):
    """Versions in the order of the feed, and the position of those that follow."""

    changes: list[dict[str, Any]]
    next: str


@dataclass(frozen=True, slots=True)
class Change:
    """A version of a document, as the feed shows it.

    action: POST, PUT, PATCH, DELETE or RESOLVE. time_us: of the update, in microseconds since 1970.
    body: the state, None where the document was deleted. position: `since` to continue with; a few
    changes before this one may then come again, and none is missed. line: all members of the feed.
    event: with a condition: "enter" if the document begins to fulfil it, "update" if it still does,
    "leave" if it no longer does or is deleted; "" without one. before: the body of the version
    before, if the caller asked for it.
    """

    link: str
    version: int
    action: str
    time_us: int
    body: dict[str, Any] | None
    position: str
    line: dict[str, Any]
    event: str = ""
    before: dict[str, Any] | None = None

    @property
    def deleted(self) -> bool:
        """Say whether this version is a deletion."""
        return self.body is None


class FeedRequests(Requests):
    """Follows the changes of a group's documents."""

    async def changes(
        self,
        path: str | Sequence[str] = "",
        *,
        since: str = "latest",
        where: str = "",
        before: bool = False,
        wait_s: int = 20,
    ) -> AsyncIterator[Changes]:
        """Yield the changes of paths and of all paths below them, without end and without a gap.

        where: condition; each change then has a member `event` (see `Change`). before: whether
        changes have a member `before`, the body of the version before. since: `next` of an earlier
        result, earliest, latest, a time with its zone, or a snapshot's name. wait_s: seconds that a
        node waits for changes before it answers with none. Raises ClientError: at once if the first
        request fails; later only after a minute without an answer (all nodes may be restarting), or
        if the feed can no longer be followed.
        """
        patience_s = 0.0
        while True:
            # "latest" is resolved by a request that does not wait, since a later "latest" would
            # skip changes.
            asked = _asked(path, since, where, before=before)
            content = await _stretch(self, asked, 0 if since == "latest" else wait_s, patience_s)
            *lines, ending = content.splitlines()
            since, patience_s = orjson.loads(ending)["next"], PATIENCE_S
            yield Changes([orjson.loads(line) for line in lines], since)

    async def follow(
        self,
        path: str | Sequence[str] = "",
        *,
        since: str = "latest",
        where: str = "",
        before: bool = False,
    ) -> AsyncGenerator[Change, None]:
        """Yield each change of paths and of all paths below them once, as it happens, without end.

        When the connection breaks, another node continues after the last change. since:
        `position` of an earlier change, or as of `changes`, whose errors this raises too. A caller
        that stops must close it (`contextlib.aclosing`).
        """
        loop = asyncio.get_running_loop()
        failures, until = 0, 0.0
        while True:
            try:
                # A caller that stops leaves no connection behind.
                asked = _asked(path, since, where, before=before)
                async with aclosing(_pushed(self, asked)) as pushed:
                    async for lines, position in pushed:
                        failures, until = 0, loop.time() + PATIENCE_S
                        for number, line in enumerate(lines, 1):
                            since = position if number == len(lines) else since
                            yield _change(line, since)
                        since = position
            except ClientError as error:
                failures += 1
                is_left = failures < len(self.urls) or loop.time() < until
                if not is_passing(error) or not is_left:
                    raise
            await asyncio.sleep(PAUSE_S)

    async def subscribe(
        self,
        path: str,
        callback: str,
        *,
        where: str = "",
        before: bool = False,
        since: str | None = None,
        replay: bool = False,
        secret: str = "",
    ) -> dict[str, Any]:
        """Have a receiver called with the changes of a path and below it; return the subscription.

        where, before: as for `changes`, and so is since; by default, the present. replay: whether
        to send the existing documents first. secret: key that signs deliveries; without it the node
        makes one, which is the member `secret` of the result. `delete(page["documentSelfLink"])`
        ends the subscription. Raises RequestFailed (400) if the nodes may not call the receiver, or
        if it fails the challenge; ValueError for an empty `since`.
        """
        if since == "":
            raise ValueError("`since` must be a position, or left out; got ''")
        asked = {"callback": callback, "where": where, "replayState": replay}
        said: dict[str, Any] = {"secret": secret} if secret else {}
        said |= {"before": True} if before else {}
        said |= {} if since is None else {"since": since}
        page: dict[str, Any] = await self.json(
            "POST", f"{quote(path)}/subscriptions", {**asked, **said}
        )
        return page


async def _stretch(client: Requests, asked: bytes, wait_s: int, patience_s: float) -> bytes:
    headers = JSON | ({"Prefer": f"wait={wait_s}"} if wait_s else {})
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    while True:
        try:
            _, _, content = await client.request(
                "POST", CHANGES, asked, headers, only_reads=True, wait_s=wait_s
            )
        except ClientError as error:
            if not is_passing(error) or loop.time() > until:
                raise
            await asyncio.sleep(PAUSE_S)
        else:
            return content


async def _pushed(
    client: Requests, asked: bytes
) -> AsyncGenerator[tuple[list[dict[str, Any]], str], None]:
    """Yield changes and the position after them, until the stream of one node ends."""
    headers = JSON | {"Accept": EVENTS}
    lines: list[dict[str, Any]] = []
    request = Asked("POST", CHANGES, asked, headers)
    async with aclosing(client.events(request, SILENCE_S)) as events:
        async for event in events:
            said = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            if said.get(b"event") == b"change":
                lines.append(orjson.loads(said[b"data"]))
            elif said.get(b"event") == b"problem":
                problem = orjson.loads(said[b"data"])
                raise failed_with(problem["status"], {"outcome": "not_applied"} | problem)
            elif b"id" in said:
                yield lines, said[b"id"].decode()
                lines = []
    raise Unreachable("the node ended its feed")


def _asked(path: str | Sequence[str], since: str, where: str, *, before: bool) -> bytes:
    paths = path if isinstance(path, str) else list(path)
    more = {"before": True} if before else {}
    return orjson.dumps({"prefix": paths, "since": since, "where": where, **more})


def _change(line: dict[str, Any], position: str) -> Change:
    return Change(
        line["documentSelfLink"],
        line["documentVersion"],
        line["documentUpdateAction"],
        line["documentUpdateTimeMicros"],
        None if line["deleted"] else line["body"],
        position,
        line,
        line.get("event", ""),
        line.get("before"),
    )
