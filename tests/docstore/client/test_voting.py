"""The vote over real datagrams and files, in one process."""

import asyncio
import hmac
import itertools
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.client import StateUnusable
from docstore.client.voting import Voting
from docstore.client.voting_datagrams import BYTES_MAX, NAME_BYTES_MAX, opened, sealed
from docstore.ownership.by_vote import Times
from docstore.ownership.elector_messages import (
    Changed,
    Follow,
    Granted,
    Lead,
    Message,
    Received,
    RequestVote,
)

TIMES = Times(heartbeat_s=0.03, patience_s=0.2)
MESSAGES: list[Message] = [
    RequestVote(1 << 61, 1 << 61, 1 << 61, pre=True, transfer=False),
    Granted(5, pre=False, is_granted=True),
    Lead(5, 1e9, succeed=True),
    Follow(5, 0.25, 1, 2),
]


def members(names: str = "abc") -> dict[str, tuple[str, int]]:
    """Return an address for each member, with ports that were free a moment ago."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in names]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = {name: each.getsockname() for name, each in zip(names, sockets, strict=True)}
    for each in sockets:
        each.close()
    return found


@asynccontextmanager
async def votings(directory: Path, **settings: bytes) -> AsyncIterator[dict[str, Voting]]:
    """Run three members. settings: the secret of a member, by its name."""
    addresses = {name: ("localhost", port) for name, (_, port) in members().items()}
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(
                Voting(
                    name,
                    addresses,
                    state=directory / name,
                    bind=("127.0.0.1", addresses[name][1]),
                    times=TIMES,
                    secret=settings.get(name, b"x"),
                )
            )
            for name in addresses
        }


async def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20.0
    while not is_so():
        assert time.monotonic() < deadline, "it took too long"
        await asyncio.sleep(0.01)


def leaders(group: dict[str, Voting]) -> list[Voting]:
    return [each for each in group.values() if each.leads()]


async def test_l01_l22_three_members_elect_a_leader_that_hands_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with votings(tmp_path) as group:
        await until(lambda: leaders(group))
        [old] = leaders(group)
        name = next(name for name, each in group.items() if each is old)
        await until(lambda: {each.leader for each in group.values()} == {name})
        assert {each.generation for each in group.values()} == {old.generation}
        # Scenario L23: the wall clock has no effect.
        hours = itertools.cycle((3600.0, -3600.0))
        wall = time.time
        monkeypatch.setattr(time, "time", lambda: wall() + next(hours))
        # Scenario L22: the other leads by the next generation.
        to = next(each for each in group if each != name)
        assert not await group[to].transfer(name), "only a leader can hand over"
        generation = old.generation
        while not await old.transfer(to):  # A pause of the machine can cost it the lead.
            await until(old.leads)
            generation = old.generation
        assert not old.leads()
        await until(group[to].leads)
        assert group[to].generation == generation + 1


async def test_a_member_that_leaves_stops_leading_and_watchers_see_it(tmp_path: Path) -> None:
    async with votings(tmp_path) as group:
        await until(lambda: leaders(group))
        [old] = leaders(group)
        watcher, other = (each for each in group.values() if each is not old)
        seen: list[Changed] = []
        watching = asyncio.create_task(listen(watcher, seen))
        left = old.generation
        await old.__aexit__(None, None, None)
        assert not old.leads()
        assert old.leader is None
        await until(lambda: watcher.leads() or other.leads())
        assert max(watcher.generation, other.generation) > left
        await until(lambda: seen[-1].leader and seen[-1].generation > left)
    await asyncio.wait_for(watching, 5.0)  # The iteration ends with its voting.
    generations = [change.generation for change in seen]
    assert generations == sorted(generations)


async def listen(voting: Voting, seen: list[Changed]) -> None:
    async for change in voting:
        seen.append(change)  # noqa: PERF401 - the test reads the list meanwhile


async def test_a_member_with_another_secret_is_ignored(tmp_path: Path) -> None:
    async with votings(tmp_path, c=b"other") as group:
        await until(lambda: leaders(group))
        await until(lambda: group["c"].ignored_count > 0)
        assert not group["c"].leads()
        assert group["c"].leader is None


async def test_noise_is_counted_and_ignored(tmp_path: Path) -> None:
    async with votings(tmp_path) as group:
        await until(lambda: leaders(group))
        address = group["a"]._members["a"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
            stranger = sealed(MESSAGES[2], sender="z", to="a", secret=b"x")
            for content in (b"", b"\x00", b"rubbish" * 9, b"y" * 60_000, stranger):
                noise.sendto(content, address)
            await until(lambda: group["a"].ignored_count >= 5)
        await until(lambda: leaders(group))


async def test_l25_a_member_that_cannot_store_its_vote_stops_voting(tmp_path: Path) -> None:
    addresses = members()
    disk = tmp_path / "disk"
    disk.mkdir()
    voting = Voting("a", addresses, state=disk / "a", times=TIMES)
    async with voting, Voting("b", addresses, state=tmp_path / "b", times=TIMES) as other:
        (disk / "a").unlink()
        disk.rmdir()
        with pytest.raises(StateUnusable, match="cannot be written"):
            await listen(voting, [])
        assert not voting.leads()
        assert not await voting.transfer()
        assert not other.leads()


async def test_a_damaged_file_or_one_of_another_member_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"member": "b", "generation": 3, "votedFor": ""}')
    with pytest.raises(StateUnusable, match="the file of b"):
        await Voting("a", members(), state=tmp_path / "a").__aenter__()
    for content in ("", "{", "[]", '{"member": "a", "generation": -1, "votedFor": ""}'):
        (tmp_path / "a").write_text(content)
        with pytest.raises(StateUnusable, match="is damaged"):
            await Voting("a", members(), state=tmp_path / "a").__aenter__()
    with pytest.raises(StateUnusable, match="cannot be written"):
        await Voting("a", members(), state=tmp_path / "none" / "a").__aenter__()


async def test_l06_the_stored_generation_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"member": "a", "generation": 3, "votedFor": "b"}')
    async with Voting("a", members(), state=tmp_path / "a") as voting:
        assert voting.generation == 3


@pytest.mark.parametrize(
    ("me", "names", "reason"),
    [("z", "abc", "must be one of"), ("a", "ab", "3 to 7"), ("a" * 65, ["a" * 65, "b", "c"], "64")],
)
def test_invalid_members_are_refused(me: str, names: list[str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Voting(me, dict.fromkeys(names, ("127.0.0.1", 1)), state="nowhere")


@pytest.mark.parametrize("message", MESSAGES)
def test_a_datagram_is_opened_by_its_receiver_with_the_secret_only(message: Message) -> None:
    to, sender = "t" * NAME_BYTES_MAX, "s" * NAME_BYTES_MAX
    datagram = sealed(message, sender=sender, to=to, secret=b"x")
    assert len(datagram) <= BYTES_MAX
    assert opened(datagram, to=to, secret=b"x") == Received(sender, message)
    assert opened(datagram, to=to, secret=b"y") is None
    assert opened(datagram, to="another", secret=b"x") is None
    for at in range(len(datagram)):
        damaged = datagram[:at] + bytes([datagram[at] ^ 4]) + datagram[at + 1 :]
        assert opened(damaged, to=to, secret=b"x") is None
        assert opened(datagram[:at], to=to, secret=b"x") is None


@pytest.mark.parametrize(
    "message",
    [
        Granted(-1, pre=True, is_granted=True),
        Granted(1 << 62, pre=True, is_granted=True),
        Granted(True, pre=True, is_granted=True),
        Lead(1, 5, succeed=True),
        Follow(1, "1", 2, 3),  # type: ignore[arg-type]
    ],
)
def test_fields_of_another_type_are_refused_despite_a_valid_seal(message: Message) -> None:
    assert opened(sealed(message, sender="b", to="a", secret=b""), to="a", secret=b"") is None


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.binary(max_size=200) | JSON_LIKE.map(msgpack.packb))
def test_any_sealed_content_is_a_message_or_ignored(content: bytes) -> None:
    datagram = content + hmac.digest(b"", content, "sha256")
    found = opened(datagram, to="a", secret=b"")
    assert found is None or isinstance(found.message, RequestVote | Granted | Lead | Follow)


@given(st.sampled_from(range(5)), st.lists(JSON_LIKE, max_size=6))
def test_invalid_fields_are_refused(kind: int, fields: list[object]) -> None:
    content = msgpack.packb([1, "b", "a", kind, *fields])
    found = opened(content + hmac.digest(b"", content, "sha256"), to="a", secret=b"")
    assert found is None or isinstance(found.message, RequestVote | Granted | Lead | Follow)
