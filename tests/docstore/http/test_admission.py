"""Connections above the limit are refused with a problem, and those of slow clients closed."""

import asyncio
import gc
import json
import logging
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from docstore.http import admission
from docstore.http.admission import Admission
from docstore.model.limits import Limits
from tests.docstore.http.wires import LONG_S, PATIENT, SOON_S, Wire, asked, serving, until

LIVE = asked("GET", "/health/live")
FEW = 3
FEW_IN_ALL = Limits(connections_max=FEW, first_request_timeout_s=LONG_S)
FEW_OF_ONE = Limits(connections_per_address_max=FEW, first_request_timeout_s=LONG_S)


async def rest_of(wire: Wire) -> bytes:
    """Return all bytes of a connection until it is closed."""
    async with asyncio.timeout(SOON_S):
        return await wire.reader.read()


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (FEW_IN_ALL, "this node takes at most 3 connections"),
        (FEW_OF_ONE, "this node takes at most 3 connections from one address"),
    ],
)
async def test_a_connection_above_the_limit_is_503_and_the_others_continue(
    limits: Limits, why: str
) -> None:
    async with serving(limits) as served, AsyncExitStack() as stack:
        await until(lambda: not served.connections)  # The connection that declared the factory.
        first, *_ = [await stack.enter_async_context(served.wire()) for _ in range(FEW)]
        async with served.wire() as late:
            head, _, body = (await rest_of(late)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert {b"Retry-After: 1", b"Connection: close"} <= set(head.split(b"\r\n"))
        problem = json.loads(body)
        assert (problem["errorCode"], problem["detail"]) == ("too-many-connections", why)
        assert problem["outcome"] == "not_applied"
        assert (await first.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
        assert served.server.metrics.connections_refused == 1


async def test_a_closed_connection_makes_room() -> None:
    async with serving(FEW_OF_ONE) as served, AsyncExitStack() as stack:
        await until(lambda: not served.connections)
        async with served.wire() as leaving:
            await leaving.ask(LIVE)
            for _ in range(FEW - 1):
                await stack.enter_async_context(served.wire())
            await until(lambda: len(served.connections) == FEW)
        await until(lambda: len(served.connections) == FEW - 1)
        async with served.wire() as late:
            assert (await late.ask(LIVE)).startswith(b"HTTP/1.1 200 ")


async def test_refused_connections_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with capture_logs() as logs, caplog.at_level(logging.WARNING):
        async with serving(Limits(connections_max=1)) as served:
            await until(lambda: not served.connections)
            async with served.wire() as held:
                await held.ask(LIVE)
                for _ in range(FEW):
                    async with served.wire() as late:
                        assert (await rest_of(late)).startswith(b"HTTP/1.1 503 ")
            await until(lambda: not served.connections)
        gc.collect()  # A failed task is logged when it is collected.
    assert [line["event"] for line in logs] == ["connections are refused"]
    assert logs[0]["why"] == "this node takes at most 1 connections"
    assert not caplog.records


def test_refused_connections_are_logged_again_after_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(admission.time, "monotonic", lambda: now)
    full = Admission(Limits(connections_max=1))
    assert not full.enter("a")
    with capture_logs() as logs:
        for seconds in (0.0, 59.0, 61.0):
            now = 1_000.0 + seconds
            assert full.enter("b")
    assert len(logs) == 2


def test_an_address_without_connections_is_forgotten() -> None:
    room = Admission(Limits())
    for number in range(FEW):
        room.enter(f"10.0.0.{number}")
    for number in range(FEW):
        room.leave(f"10.0.0.{number}")
    assert not room._addresses


async def test_a_partial_head_after_an_answer_is_closed_like_silence() -> None:
    brief = Limits(keepalive_timeout_s=0.05, first_request_timeout_s=LONG_S)
    async with serving(brief) as served, served.wire() as wire:
        wire.writer.write(LIVE + LIVE[:20])
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
        assert await wire.is_closed()


async def test_partial_requests_do_not_block_other_clients() -> None:
    half = asked("PUT", "/t/slow", body=b"{}")[:-1]
    async with serving(PATIENT) as served, AsyncExitStack() as stack:
        for data in (LIVE[:20], half) * FEW:
            wire = await stack.enter_async_context(served.wire())
            wire.writer.write(data)
        async with served.wire() as wire:
            assert (await wire.ask(LIVE)).startswith(b"HTTP/1.1 200 ")
            assert (await wire.ask(asked("PUT", "/t/a", body=b"{}"))).startswith(b"HTTP/1.1 201 ")
