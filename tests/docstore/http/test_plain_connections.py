"""A connection with plain requests: served in order, one at a time, and closed as any other."""

import asyncio
import gc
from typing import Any

import pytest

from docstore.model.limits import Limits
from tests.docstore.http.wires import (
    GET,
    LONG_S,
    PUT,
    SOON_S,
    UNUSUAL,
    Serving,
    asked,
    serving,
    until,
)

CONNECTIONS, CONNECTIONS_SLOW = 200, 2_000

PLAIN_NAMES = (b"Accept", b"Accept-Encoding", b"If-None-Match", b"User-Agent", b"Connection")


async def test_a_burst_is_answered_in_order(served: Serving, plain: list[str]) -> None:
    links = [f"/t/{number}" for number in range(150)]
    burst = [asked("PUT", link, body=b'{"n":"%b"}' % link.encode()) for link in links]
    burst += [asked("GET", link, UNUSUAL if at % 3 else b"") for at, link in enumerate(links)]
    async with served.wire() as wire:
        wire.writer.write(b"".join(burst))
        for link in links + links:
            answer = await wire.answer()
            assert answer.startswith(b"HTTP/1.1 20")
            assert answer.count(b'"n":"%b"' % link.encode()) == 1


async def test_requests_wait_while_another_is_served(served: Serving, plain: list[str]) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(asked("PUT", "/t/slow", body=b"{}") + GET[:20])
        await until(lambda: not served.node.waits)
        wire.writer.write(GET[20:] + GET + PUT)
        (connection,) = [each for each in served.connections if each._kept is not None]
        await until(lambda: len(connection._messages) == 3)
        held.set_result(None)
        assert b'"documentSelfLink":"/t/slow"' in await wire.answer()
        for _ in range(3):
            assert b'"documentSelfLink":"/t/a"' in await wire.answer()
    assert plain == ["PUT /t/a", "PUT /t/slow"]


async def test_a_stopping_server_waits_for_a_plain_request() -> None:
    async with serving() as served, served.wire() as wire:
        await wire.ask(PUT)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(GET)
        await until(lambda: not served.node.waits)
        stopping = asyncio.create_task(served.server.stop(LONG_S))
        await asyncio.sleep(0.01)
        assert not stopping.done()
        held.set_result(None)
        assert (await wire.answer()).startswith(b"HTTP/1.1 200 ")
        assert await wire.is_closed()
        await asyncio.wait_for(stopping, SOON_S)


async def test_a_stopping_server_waits_no_longer_than_its_limit() -> None:
    async with serving() as served, served.wire() as wire:
        await wire.ask(PUT)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(GET)
        await until(lambda: not served.node.waits)
        await asyncio.wait_for(served.server.stop(0.05), SOON_S)
        held.set_result(None)  # The client has disconnected.
        assert await wire.is_closed()


async def test_a_node_that_stops_without_an_answer_closes_the_connection(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(served.node, "submit", lambda operation, timeout_s: never)
        wire.writer.write(GET)
        await until(lambda: any(each._kept is not None for each in served.connections))
        never.cancel()
        assert await wire.is_closed()


async def test_a_request_of_a_disconnected_client_is_counted_and_released(served: Serving) -> None:
    held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    served.node.waits.append(held)
    async with served.wire() as wire:
        wire.writer.write(PUT)
        await until(lambda: not served.node.waits)
    (connection,) = served.connections
    task = connection._task_handler
    await until(lambda: not served.connections)
    assert served.server.metrics._requests["PUT", 201] == 0
    held.set_result(None)
    await until(lambda: served.server.metrics._requests["PUT", 201] == 1)
    await until(task.done)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /t/a\r\nHost: localhost\r\n\r\n",
        b"GET /t/a\r\n\r\n",
        GET.replace(b"1.1", b"2.0"),
        asked("GET", "/t/a", *[b"Accept: %b\r\n" % (b"a" * 8000)], *[b"If-Match: x\r\n"] * 99),
        asked("GET", "/t/a", *[b"%b: %b\r\n" % (each, b"a" * 8000) for each in PLAIN_NAMES]),
    ],
    ids=["no version", "no version and no Host", "2.0", "too many", "40 KB of headers"],
)  # fmt: skip
async def test_malformed_http_on_a_plain_connection_is_refused(
    served: Serving, request_: bytes
) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        assert (await wire.ask(request_)).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
        assert await wire.is_closed()


@pytest.mark.parametrize("line", [b"Connection: Upgrade\r\nUpgrade: h2c\r\n"])
async def test_an_upgrade_is_answered_and_the_connection_closed(
    served: Serving, line: bytes
) -> None:
    async with served.wire() as wire:
        wire.writer.write(asked("GET", "/t/a", line) + GET)
        assert b"\r\nConnection: close\r\n" in await wire.answer()
        assert await wire.is_closed()


async def test_a_request_after_a_websocket_upgrade_is_parsed_as_http(served: Serving) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    line = b"GET /t/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n"
    behind = line + b"\r\n0\r\n\r\n"
    async with served.wire() as wire:
        wire.writer.write(asked("GET", "/t/a", upgrade) + behind)
        assert (await wire.answer()).startswith(b"HTTP/1.1 404 ")
        assert (await wire.answer()).startswith(b"HTTP/1.1 400 ")
        assert await wire.is_closed()


async def test_silence_during_a_request_does_not_close_the_connection() -> None:
    brief = Limits(keepalive_timeout_s=0.05, first_request_timeout_s=LONG_S)
    async with serving(brief) as served, served.wire() as wire:
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        served.node.waits.append(held)
        wire.writer.write(PUT)
        (connection,) = served.connections
        await until(lambda: connection._kept is not None and connection._keepalive_handle is None)
        held.set_result(None)
        assert (await wire.answer()).startswith(b"HTTP/1.1 201 ")
        assert await wire.is_closed()  # Silence after the answer closes it.


async def test_a_server_that_sends_clients_away_answers_connection_close(served: Serving) -> None:
    async with served.wire() as wire:
        await wire.ask(PUT)
        served.server.send_away()
        assert b"\r\nConnection: close\r\n" in await wire.ask(GET)
        assert await wire.is_closed()


@pytest.mark.parametrize("line", [b"Connection: close\r\n", b""])
async def test_a_connection_is_closed_at_its_clients_request(served: Serving, line: bytes) -> None:
    request = asked("GET", "/t/a", line)
    async with served.wire() as wire:
        answer = await wire.ask(request if line else request.replace(b"1.1", b"1.0"))
        assert b"\r\nConnection: close\r\n" in answer
        assert await wire.is_closed()


async def test_requests_of_a_client_that_does_not_read_wait(served: Serving) -> None:
    big = b'{"a":"' + b"x" * 60_000 + b'"}'
    asking, served_so_far = 400, served.server.metrics._requests
    async with served.wire() as wire:
        await wire.ask(asked("PUT", "/t/big", body=big))
        (connection,) = served.connections
        sent = 0
        async with asyncio.timeout(SOON_S):
            while not connection._messages:
                assert sent < asking
                if served_so_far["GET", 200] == sent:  # One at a time, so that each is plain.
                    sent += 1
                    wire.writer.write(asked("GET", "/t/big"))
                await asyncio.sleep(0.001)
        assert connection.writing_paused
        for _ in range(sent):
            assert len(await wire.answer()) > len(big)
        assert (await wire.ask(PUT)).startswith(b"HTTP/1.1 201 ")


async def many(served: Serving, connections: int) -> None:
    async def one(number: int) -> None:
        link = f"/t/{number}"
        async with served.wire() as wire:
            for _ in range(3):
                await wire.ask(asked("PUT", link, body=b'{"n":%d}' % number))
                answer = await wire.ask(asked("GET", link))
                assert b'"n":%d,' % number in answer

    await asyncio.gather(*[one(number) for number in range(connections)])
    await until(lambda: not served.connections)


async def test_many_connections_are_served(served: Serving) -> None:
    await many(served, CONNECTIONS)


@pytest.mark.slow
async def test_very_many_connections_are_served() -> None:
    wide = Limits(connections_per_address_max=CONNECTIONS_SLOW)
    async with serving(wide) as served:
        await many(served, CONNECTIONS_SLOW)


async def test_a_request_whose_connection_is_lost_before_its_task_runs_raises_nothing(
    served: Serving,
) -> None:
    raised: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: raised.append(about))
    async with served.wire() as wire:
        await wire.ask(PUT)
        (connection,) = served.connections
        task = connection._task_handler
        assert task is not None
        connection.data_received(asked("GET", "/t/a", UNUSUAL))
        connection.connection_lost(ConnectionResetError())
        await until(task.done)
        assert task.cancelled()
        del task
    gc.collect()
    assert raised == []
