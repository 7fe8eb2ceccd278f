"""Offsets of a group over HTTP: the holder of a partition commits offsets with a token."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from docstore.errors import BadRequest, Conflict, DocstoreError, NotFound, Unavailable
from docstore.http import headers
from docstore.http.backend import Backend
from docstore.http.documents import DocumentPages
from docstore.http.group_members import asked_in, insist_on_group, link_of
from docstore.http.group_resets import Move, OutOfRange, Reset, reset_of
from docstore.http.reply import Reply
from docstore.http.representation import encode, page_reply
from docstore.model import json
from docstore.model.document import Row
from docstore.model.fields import Fields
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service, State
from docstore.model.settings import quoted
from docstore.runtime.offsets_backend import AT_ONCE, END_S, OffsetsBackend, group_at, insisted
from docstore.services.group_document import NUMBER_MAX, PARTITIONS_MAX, GroupState
from docstore.services.offsets import (
    INCARNATION,
    NOT_EMPTY,
    NOTHING,
    OffsetService,
    offset_link,
    out_of_range,
)
from docstore.streams.effects import Problem

LAG_S = 10.0
GROUPS_MAX = 100
"""Maximum groups whose lag a node reports as a metric."""


class GroupNotEmpty(Conflict):
    """The group has members, and the request needs a group without any."""

    code = NOT_EMPTY


class OtherToken(Conflict):
    """The token was not granted by this group for this partition."""

    code = "other-token"


class OffsetPages:
    """Answers everything under `.../offsets`."""

    def __init__(self, backend: Backend, documents: DocumentPages) -> None:
        self._backend = backend
        self._documents = documents
        self._offsets = OffsetsBackend(backend, lambda: backend.inside().stream_backend)
        self._service: Service = OffsetService()
        self._lags: asyncio.Future[Mapping[str, float]] | None = None
        self._lags_of: Sequence[str] = ()
        self._lags_until = 0.0

    async def show_all(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the offsets of all partitions of a group."""
        link, media = link_of(path), headers.accepted_media(request)
        await insist_on_group(self._backend, request, link)
        page = {"offsets": await self._offsets.progress(link, headers.timeout_s(request))}
        return page_reply(page, media, headers={"Cache-Control": "no-store"})

    async def reset(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Set the offsets of all partitions of a group, or of some; or only show the new ones.

        No offset is written before all new ones are known.
        """
        link, asked = link_of(path), reset_of(asked_in(request, body))
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        version, group = await self._idle(link, timeout_s)
        rows = [
            each
            for each in await self._offsets.rows(link, group.partitions, timeout_s)
            if asked.concerns(each[0])
        ]
        if not rows:
            raise NotFound(f"{link} has no such partition; its topics: {', '.join(group.parts)}")
        room = asyncio.Semaphore(AT_ONCE)

        async def move(partition: str, row: Row | None) -> Move:
            async with room:
                return await self._move(partition, row, asked, timeout_s)

        async def write(each: Move) -> dict[str, Any]:
            if asked.is_dry:
                return each.page()
            change = {
                "kind": "ResetRequest", "offset": each.after, INCARNATION: each.incarnation,
                "token": version,
            }  # fmt: skip
            async with room:
                target = offset_link(link, each.partition)
                answer = await self._offsets.change(link, target, change, timeout_s)
            return each.page() | _result(answer)

        moves = await asyncio.gather(*(move(*each) for each in rows))
        results = await asyncio.gather(*map(write, moves))
        return page_reply({"offsets": results, "dryRun": asked.is_dry}, media)

    async def _idle(self, link: str, timeout_s: float) -> tuple[int, GroupState]:
        """Return the version and state of a group that has no members. Raises GroupNotEmpty."""
        row, group = await group_at(self._backend, link, timeout_s)
        if group.members:
            raise GroupNotEmpty(
                f"offsets can be reset only while {link} has no members: stop its consumers"
            )
        return row.version, group

    async def _move(self, partition: str, row: Row | None, asked: Reset, timeout_s: float) -> Move:
        """Return the new offset of a partition. Raises OutOfRange, Unavailable."""
        topic, _, number = partition.rpartition("/")
        bounds = await self._offsets.bounds(topic, int(number), timeout_s)
        at_time = bounds.start
        if asked.origin[0] == "time":
            there = await self._offsets.position(topic, int(number), timeout_s, asked.origin)
            at_time = insisted(there, partition).offset
        before = NOTHING if row is None else int(json.load(row.state)["offset"])
        return Move(partition, before, asked.after(before, bounds, at_time), bounds.incarnation)

    async def metrics(self) -> Mapping[str, float]:
        """Return the lag of each group that this node coordinates, by topic, LAG_S old at most.

        A topic is left out while the end of one of its partitions cannot be read, since the lag of
        the others would look like less. It is read again after END_S.
        """
        try:
            links = list(self._backend.inside().session_backend.groups())[:GROUPS_MAX]
        except Unavailable:
            links = []
        now = asyncio.get_running_loop().time()
        if self._lags is None or now >= self._lags_until or links != self._lags_of:
            self._lags_of, self._lags_until = links, now + LAG_S
            self._lags = asyncio.ensure_future(self._read_lags(links))
        return await asyncio.shield(self._lags)

    async def _read_lags(self, links: Sequence[str]) -> Mapping[str, float]:
        found = await asyncio.gather(*map(self._lag_of, links))
        lags = {name: lag for each in found for name, lag in each.items()}
        if None in lags.values():
            self._lags_until = min(self._lags_until, asyncio.get_running_loop().time() + END_S)
        return {name: lag for name, lag in lags.items() if lag is not None}

    async def _lag_of(self, link: str) -> dict[str, int | None]:
        """Return sample -> lag; None for a topic whose lag is not known."""
        name = link.rpartition("/")[2].replace("\\", "\\\\").replace('"', '\\"')
        lags: dict[str, int | None] = {}
        try:
            for each in await self._offsets.progress(link, END_S):
                sample = f'docstore_group_lag_records{{group="{name}",topic="{each["topic"]}"}}'
                before, lag = lags.get(sample, 0), each["lag"]
                lags[sample] = None if before is None or lag is None else before + lag
        except DocstoreError:
            return {link: None}
        return lags

    async def show(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer GET of the offset of one partition."""
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        await insist_on_group(self._backend, request, link_of(path))
        answer = await self._backend.submit(Operation(verb="GET", link=path), timeout_s)
        return self._documents.reply(request, answer, self._service, media)

    async def commit(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Commit offsets for a member: 409 if none of several is accepted."""
        asked = asked_in(request, body)
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        results = await self._commit(link_of(path), asked, timeout_s)
        page = {"offsets": results}
        if results and all(each["status"] == 409 for each in results):
            return Reply(409, encode(page, media), _head(media))
        return page_reply(page, media)

    async def patch(self, request: web.BaseRequest, path: str, body: bytes) -> Reply:
        """Answer a claim of a partition, or a reset of an offset."""
        asked = asked_in(request, body)
        media, timeout_s = headers.accepted_media(request), headers.timeout_s(request)
        answer = await self._patch(link_of(path), path, asked, timeout_s)
        return self._documents.reply(request, answer, self._service, media)

    async def _commit(self, link: str, asked: State, timeout_s: float) -> list[dict[str, Any]]:
        """Commit each offset; return a result for each, in their order."""
        fields = Fields(asked)
        said = {
            "kind": "CommitRequest",
            "member": fields.text("member", default=""),
            "generation": fields.whole("generation", 0, 1 << 62, default=0),
        }
        offsets = fields.array("offsets")
        fields.end()
        if len(offsets) > PARTITIONS_MAX or not all(map(_is_named, offsets)):
            raise BadRequest(
                f"offsets must be an array of at most {PARTITIONS_MAX} objects,"
                " each with the name of a topic and the number of a partition"
            )
        room = asyncio.Semaphore(AT_ONCE)

        async def commit(each: dict[str, Any]) -> dict[str, Any]:
            topic, number = each["topic"], each["partition"]
            rest = {name: value for name, value in each.items() if name not in _NAMED}
            if _END in rest:
                raise BadRequest(f"an offset must not have the member {_END}: the node adds it")
            async with room:
                position = await self._offsets.position(topic, number, min(END_S, timeout_s))
                end = {} if isinstance(position, Problem) else {_END: position.offset}
                target = offset_link(link, f"{topic}/{number}")
                answer = await self._offsets.change(
                    link, target, {**said, **rest, **end}, timeout_s
                )
            named = {"topic": each.get("topic"), "partition": each.get("partition")}
            return named | _result(answer)

        return list(await asyncio.gather(*map(commit, offsets)))

    async def _patch(self, link: str, path: str, asked: State, timeout_s: float) -> Answer:
        """Claim a partition, or reset an offset; a reset needs a group without members."""
        if INCARNATION in asked:
            raise BadRequest(f"{INCARNATION} must be left out: the node adds it")
        topic, _, number = path.removeprefix(offset_link(link, "")).partition("/")
        match asked.get("kind"):
            case "ResetRequest":
                if "token" in asked:
                    raise BadRequest("a reset must not have the member token: the node adds it")
                version, group = await self._idle(link, timeout_s)
                if f"{topic}/{number}" not in group.partitions:
                    raise NotFound(f"{link} has no partition {topic}/{number}")
                named = await self._insist_on_range(topic, int(number), asked, timeout_s)
                asked = {**asked, "token": version}
            case "ClaimRequest":
                await self._check_granted(link, path, asked.get("token"), timeout_s)
                named = (
                    await self._backend.inside().stream_backend.topic(topic, timeout_s)
                ).incarnation
            case kind:
                raise BadRequest(f"kind must be ClaimRequest or ResetRequest; got {quoted(kind)}")
        return await self._offsets.change(link, path, {**asked, INCARNATION: named}, timeout_s)

    async def _insist_on_range(
        self, topic: str, number: int, asked: State, timeout_s: float
    ) -> str:
        """Check an offset against its partition. Raises OutOfRange, Unavailable.

        Returns the incarnation of the partition's topic.
        """
        found = await self._offsets.bounds(topic, number, timeout_s)
        offset = Fields(asked).whole("offset", NOTHING, NUMBER_MAX)
        if offset != NOTHING and not found.start <= offset <= found.end:
            raise OutOfRange(out_of_range(offset, found.start, found.end) + " (-1 for none)")
        return found.incarnation

    async def _check_granted(self, link: str, offset: str, token: object, timeout_s: float) -> None:
        """Raise OtherToken unless the token is that of the partition's present tenure.

        A greater one would lock out the holder. A smaller one may be of a group of this name that
        was deleted, whose member must not say where this group begins.
        """
        _, group = await group_at(self._backend, link, timeout_s)
        partition = offset.removeprefix(offset_link(link, ""))
        held = group.tenure.get(partition)
        if partition not in group.partitions or not isinstance(token, int):
            return  # The change will be refused.
        if held is None:
            raise OtherToken(f"no member has {partition}, so token {token} is of the past: join")
        if token != held.token:
            raise OtherToken(
                f"token of {partition} must be the last granted, {held.token}; got {token}"
            )


_NAMED = ("topic", "partition")
_END = "end"
"""Member that this node adds to a commit: the partition's high watermark, which no offset may
exceed."""


def _result(answer: Answer) -> dict[str, Any]:
    if answer.is_success:
        return {"status": 200}
    outcome = "unknown" if answer.unknown else "not_applied"
    return {
        "status": answer.status, "code": answer.code, "detail": answer.detail, "outcome": outcome,
    }  # fmt: skip


def _is_named(each: object) -> bool:
    if not isinstance(each, dict):
        return False
    topic, partition = each.get("topic"), each.get("partition")
    is_topic = isinstance(topic, str) and topic and "/" not in topic and "%" not in topic
    return bool(is_topic) and type(partition) is int and partition >= 0


def _head(media: str) -> bytes:
    return b"Content-Type: %b\r\n" % media.encode()
