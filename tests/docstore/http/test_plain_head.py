"""A head that is read in one piece is the one that aiohttp reads; all others are left to it."""

import asyncio
from typing import Any

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docstore.http.fast_path import PLAIN, PLAIN_OF_RECORDS
from docstore.http.plain_head import HEAD_BYTES_MAX, bytes_of_head, plain_message
from docstore.model.limits import Limits

BODY = b'{"a":1}'
PUT = (
    b"PUT /t/a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 7\r\n\r\n" + BODY
)
LOOP = asyncio.new_event_loop()


def by_aiohttp(data: bytes) -> tuple[Any, ...]:
    """Return what aiohttp reads: the request, its headers, its body; () unless it is just one."""
    parser = HttpRequestParser(BaseProtocol(LOOP), LOOP, 1 << 16, max_line_size=8190)
    try:
        messages, upgraded, tail = parser.feed_data(data)
    except Exception:  # noqa: BLE001 - any refusal
        return ()
    if len(messages) != 1 or upgraded or tail or not messages[0][1].is_eof():
        return ()
    [(message, payload)] = messages
    kept = (message.should_close, message.chunked, message.upgrade, message.compression)
    assert kept == (False, False, False, None)
    return shape(message, payload.read_nowait())


def shape(message: Any, body: bytes) -> tuple[Any, ...]:
    headers = [(name.lower(), value) for name, value in message.headers.items()]
    return message.method, message.path, message.version, headers, body


def ours(data: bytes) -> tuple[Any, ...] | None:
    """Return the same as read in one piece; None if it is left to aiohttp, or is not plain."""
    found = plain_message(data, HEAD_BYTES_MAX)
    if found is None:
        return None
    names = [*found[0].headers]
    if len(names) < len(found[0].headers) or not (PLAIN | PLAIN_OF_RECORDS).issuperset(names):
        return None
    return shape(*found)


STARTS = (
    "PUT /t/a HTTP/1.1", "GET /t/a HTTP/1.1", "POST /%C3?a=b#c HTTP/1.1", "PUT  /t HTTP/1.1",
    "PUT /t HTTP/1.0", "PUT http://a/t HTTP/1.1", "GET //a/b HTTP/1.1", "put /t HTTP/1.1",
)  # fmt: skip
LINES = (
    "Host: a", "Host: a:1", "Host: a b", "Host: @", "Host: [::1", "host: a,b", "Accept: */*",
    "content-length: 7", "Content-Length: 7", "Content-Length: 07", "Content-Length: +7",
    "Content-Length: 7, 7", "Content-Length:7", "Content-Length : 7", "Content-Length: 7 ",
    "Content-Length:  7", "Content-Length: 6", "Transfer-Encoding: chunked", "Connection: close",
    'If-Match: "1.0"', "Fence: a:1", "User-Agent: x\ty", "User-Agent: \x80", "User-Agent:",
    "User_Agent: x", " folded", "X: 1",
)  # fmt: skip


def joined(start: str, lines: list[str], cut: int, body: bytes) -> bytes:
    """Return a request whose head lacks some bytes at its end."""
    head = "\r\n".join([start, *lines, "", ""]).encode("latin-1")
    return head[: len(head) - cut] + body


requests = st.builds(
    joined,
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(LINES), max_size=5).map(lambda lines: ["Host: a", *lines])
    | st.lists(st.sampled_from(LINES), max_size=4),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([b"", BODY, BODY + b"x", b"\r\n"]),
)


@settings(max_examples=400)
@given(requests)
@example(PUT)
@example(PUT + PUT)
@example(PUT.replace(b"7\r\n", b"7\r\nContent-Length: 7\r\n"))
def test_what_is_taken_is_what_aiohttp_reads(data: bytes) -> None:
    found = ours(data)
    if found is not None:
        assert found == by_aiohttp(data)


@given(st.integers(0, len(PUT)), st.binary(max_size=3))
def test_damage_does_not_part_them(at: int, other: bytes) -> None:
    data = PUT[:at] + other + PUT[at + len(other) :]
    found = ours(data)
    if found is not None:
        assert found == by_aiohttp(data)


def test_a_request_is_taken_only_whole_and_alone() -> None:
    assert ours(PUT) == by_aiohttp(PUT)
    for size in range(len(PUT)):
        assert ours(PUT[:size]) is None
    assert ours(PUT + b"G") is ours(b"\r\n" + PUT) is None


@pytest.mark.parametrize(
    "limits", [Limits(head_bytes_max=60), Limits(header_line_bytes_max=60), Limits(headers_max=2)]
)
def test_limits_are_judged_by_aiohttp(limits: Limits) -> None:
    assert plain_message(PUT, bytes_of_head(Limits())) is not None
    assert plain_message(PUT, bytes_of_head(limits)) is None
