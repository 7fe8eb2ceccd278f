"""Requests to an election whose answers are lost: repeated until their outcome is known."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from docstore.client import BadAddress, Client, Election, RequestFailed
from docstore.client.boot_clock import boot_clock

LOST = 0
"""Instead of a status: the connection is closed without an answer."""


class Asked(NamedTuple):
    """A request at the node, and whether its candidate believed to lead at that moment."""

    kind: str
    number: int
    candidate: str
    token: int | None
    led: bool


class Scripted:
    """A node with scripted answers to requests to an election."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.leads: Callable[[], bool] = lambda: False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.asked.append(
            Asked(body["kind"], body["number"], body["candidate"], body.get("token"),
                  self.leads())
        )  # fmt: skip
        status, page = self.answers.pop(0)
        if status != LOST:
            raw = json.dumps(page).encode()
            writer.write(b"HTTP/1.1 %d X\r\nServer: docstore\r\n" % status)
            writer.write(b"Content-Type: application/json\r\n")
            writer.write(b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(raw), raw))
            await writer.drain()
        writer.close()


@asynccontextmanager
async def candidate(node: Scripted) -> AsyncIterator[Election]:
    """Yield a candidate whose lease is granted and proven, without requests of its own."""
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client([url]) as client:
        lease = client.lease(ttl_s=600.0)
        lease.keep(boot_clock()())
        election = client.election("e", candidate="a", lease=lease)
        node.leads = election.leads
        yield election


WON = (200, {"won": True, "token": 5})
DONE = (200, {})
UNKNOWN = (504, {"outcome": "unknown", "errorCode": "undecided"})
BUSY = (503, {"outcome": "not_applied"})


@pytest.mark.parametrize("lost", [(LOST, {}), UNKNOWN])
async def test_a_campaign_without_an_answer_is_repeated_with_its_number(lost: Any) -> None:
    node = Scripted(lost, lost, WON)
    async with candidate(node) as election:
        assert await election.campaign() == 5
        assert election.leads()
    assert len(node.asked) == 3
    assert len({each.number for each in node.asked}) == 1


async def test_a_leader_stops_leading_before_it_resigns() -> None:
    node = Scripted(WON, (LOST, {}), DONE)
    async with candidate(node) as election:
        await election.campaign()
        await election.resign()
    _, first, again = node.asked
    assert (first.kind, first.token) == ("ResignRequest", 5)
    assert first.number == again.number
    assert not first.led


async def test_a_leader_stops_leading_before_a_transfer_and_resumes_only_if_refused() -> None:
    refused = (409, {"errorCode": "not-queued", "outcome": "not_applied"})
    node = Scripted(WON, UNKNOWN, refused, DONE)
    async with candidate(node) as election:
        await election.campaign()
        with pytest.raises(RequestFailed):
            await election.transfer("b")
        assert election.leads()
        await election.transfer("b")
        assert not election.leads()
    assert [each.led for each in node.asked[1:]] == [False] * 3


async def test_an_applied_transfer_with_a_lost_answer_succeeds() -> None:
    out = (409, {"errorCode": "not-holder", "outcome": "not_applied"})
    node = Scripted(WON, (LOST, {}), out)
    async with candidate(node) as election:
        await election.campaign()
        await election.transfer("b")
        assert not election.leads()


async def test_names_become_valid_scopes_of_fences() -> None:
    node = Scripted(WON, WON)
    async with candidate(node) as election:
        for name, scope in (
            ("a b", "elections/a%20b"),
            ("ü" * 100, f"elections/{'[0-9a-f]' * 64}"),
        ):
            other = election_like(election, name)
            await other.campaign()
            assert re.fullmatch(f"{scope}:5", other.fence())
        with pytest.raises(BadAddress):
            election_like(election, "a/b")


def election_like(election: Election, name: str) -> Election:
    """Return another candidacy of the same client, under the same lease."""
    return election._client.election(name, candidate="a", lease=election.lease)


async def cancelled_in_doubt(node: Scripted, election: Election) -> None:
    """Start a campaign, and cancel it once the second answer is lost."""
    campaign = asyncio.create_task(election.campaign())
    async with asyncio.timeout(10):
        while len(node.asked) < 2:
            await asyncio.sleep(0.01)
    campaign.cancel()
    await asyncio.gather(campaign, return_exceptions=True)


async def test_a_campaign_in_doubt_is_repeated_with_its_number() -> None:
    node = Scripted((202, {"won": False}), (LOST, {}), WON)
    async with candidate(node) as election:
        await cancelled_in_doubt(node, election)
        assert await election.campaign() == 5
    assert len({each.number for each in node.asked}) == 1


async def test_a_campaign_in_doubt_is_settled_before_another_request() -> None:
    """The campaign might be applied late, and make its candidate a holder without its knowledge."""
    node = Scripted((202, {"won": False}), (LOST, {}), WON, DONE)
    async with candidate(node) as election:
        await cancelled_in_doubt(node, election)
        await election.resign()
        assert not election.leads()
    assert [each.kind for each in node.asked] == [*["CampaignRequest"] * 3, "ResignRequest"]
    assert len({each.number for each in node.asked[:3]}) == 1
    assert node.asked[3].token == 5


async def test_a_campaign_after_a_refusal_has_a_new_number() -> None:
    node = Scripted((409, {"errorCode": "queue-full", "outcome": "not_applied"}), WON)
    async with candidate(node) as election:
        with pytest.raises(RequestFailed):
            await election.campaign()
        await election.resign()  # It holds nothing, so no request is sent.
        assert await election.campaign() == 5
    assert node.asked[0].number < node.asked[1].number
