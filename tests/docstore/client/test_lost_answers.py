"""A connection that breaks after the request was sent: retries and errors of the client."""

import asyncio
import pickle
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from docstore.client import (
    Client,
    Conflict,
    Invalid,
    NotAllowed,
    NotFound,
    PreconditionFailed,
    RequestFailed,
    Unanswered,
    Unavailable,
    Undecided,
    Unreachable,
)
from docstore.client.errors import failed_with
from docstore.node.members.joining import JoinRequests
from docstore.node.members.lookup import OverHttp

ANSWER = b"HTTP/1.1 200 OK\r\nServer: docstore\r\nContent-Length: 2\r\n\r\n{}"
KEY = re.compile(rb"Idempotency-Key: (\w+)")


class Node:
    """Takes requests, and answers from the `good`-th one on."""

    def __init__(self, good: int, answer: bytes = ANSWER) -> None:
        self.good, self.answer, self.heads = good, answer, list[bytes]()

    @property
    def heard(self) -> int:
        return len(self.heads)

    @property
    def keys(self) -> list[bytes]:
        return KEY.findall(b"".join(self.heads))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        if self.heard >= self.good:
            writer.write(self.answer)
            await writer.drain()
        writer.close()


def problem(status: int, outcome: str = "not_applied") -> bytes:
    body = f'{{"outcome": "{outcome}"}}'.encode()
    return b"HTTP/1.1 %d No\r\nServer: docstore\r\nContent-Length: %d\r\n\r\n%b" % (
        status, len(body), body,
    )  # fmt: skip


@asynccontextmanager
async def serving(node: Node) -> AsyncIterator[str]:
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("method", ["PATCH", "POST", "PUT", "DELETE"])
async def test_an_update_whose_answer_is_lost_is_not_sent_again(method: str) -> None:
    """The HTTP library must not repeat it either, though it may repeat a PUT and a DELETE."""
    node = Node(good=2)
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unanswered, match="may have happened"):
            await client.json(method, "/notes/a", {"n": 1})
    assert node.heard == 1


async def test_an_update_is_repeated_under_the_same_key() -> None:
    deaf, well = Node(good=100), Node(good=2)
    async with (
        serving(deaf) as one,
        serving(well) as other,
        Client([one, other]) as client,
    ):
        await client.put("/notes/a", {"n": 1})
        await client.patch("/notes/a", {"n": 2})
    assert deaf.heard > 0
    assert len(well.keys) == well.heard == 3
    first, again, second = well.keys
    assert first == again != second
    assert set(deaf.keys) <= {first, second}


async def test_an_update_without_a_key_is_not_repeated() -> None:
    node = Node(good=2)
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unanswered):
            await client.put("/notes/a", {"n": 1}, key="")
    assert (node.heard, node.keys) == (1, [])


async def test_an_update_refused_for_too_many_keys_is_sent_without_a_key() -> None:
    said = b'{"outcome": "not_applied", "errorCode": "too-many-keys"}'
    head = b"HTTP/1.1 429 No\r\nServer: docstore\r\nContent-Length: %d\r\n\r\n" % len(said)
    node = Node(1, head + said)
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unavailable):
            await client.patch("/notes/a", {"n": 1})
        assert (node.heard, len(node.keys)) == (2, 1)
        with pytest.raises(Unavailable):
            await client.patch("/notes/a", {"n": 1}, key="own")
    assert (node.heard, len(node.keys)) == (3, 2)


async def test_an_update_in_doubt_stays_in_doubt() -> None:
    """A refused repetition does not prove that the first attempt was not applied."""
    node = Node(2, problem(404))
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unanswered, match="a retry was answered: 404"):
            await client.put("/notes/a", {"n": 1})


async def test_a_condition_that_fails_refuses_the_first_attempt_too() -> None:
    node = Node(2, problem(412))
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(PreconditionFailed):
            await client.put("/notes/a", {"n": 1}, if_match='"1"')


async def test_an_undecided_update_is_repeated_within_its_deadline() -> None:
    node = Node(1, problem(504, "unknown"))
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Undecided) as raised:
            await client.patch("/notes/a", {"n": 1}, timeout_s=0.5)
    assert isinstance(raised.value, Unanswered)
    assert raised.value.outcome == "unknown"
    assert 1 < node.heard < 8


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid), (413, Invalid), (422, Invalid), (401, NotAllowed), (403, NotAllowed),
        (404, NotFound), (410, NotFound), (409, Conflict), (412, PreconditionFailed),
        (428, PreconditionFailed), (429, Unavailable), (503, Unavailable), (418, RequestFailed),
    ],
)  # fmt: skip
def test_each_status_has_its_error_class(status: int, kind: type[RequestFailed]) -> None:
    refused = failed_with(status, {"outcome": "not_applied"})
    assert type(refused) is kind
    again = pickle.loads(pickle.dumps(refused))
    assert (type(again), again.status) == (kind, status)


async def test_a_read_whose_answer_is_lost_is_sent_to_the_next_node() -> None:
    deaf, well = Node(good=100), Node(good=1)
    async with serving(deaf) as one, serving(well) as other, Client([one, other]) as client:
        assert await client.json("GET", "/notes/a") == {}
    assert deaf.heard >= 1
    assert well.heard == 1


async def test_a_read_without_any_answer_is_unreachable() -> None:
    node = Node(good=100)
    async with serving(node) as url, Client([url]) as client:
        with pytest.raises(Unreachable):
            await client.json("GET", "/notes/a")
    assert node.heard > 1


async def test_a_joining_node_retries_when_a_member_dies() -> None:
    node = Node(good=2)
    taken_in = asyncio.Event()

    def has_group() -> bool:
        if node.heard >= 2:
            taken_in.set()
        return taken_in.is_set()

    async with serving(node) as url:
        joining = JoinRequests(dict, has_group, OverHttp())
        joining.start([url])
        async with asyncio.timeout(20):
            await taken_in.wait()
        await joining.stop()
    assert node.heard >= 2
