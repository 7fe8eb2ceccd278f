"""Real sockets on loopback: joining, dying, leaving, coming back. All waits poll a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time

import pytest
import uvloop

from gossip import Agent, Change, Config, State, wire
from gossip.errors import AlreadyStarted, BindFailed, MetaTooLarge, NameTooLong, NotRunning
from gossip.news import Failed, Joined, News, Stalled
from tests.gossip.frames import encode_frame
from tests.gossip.live import ANYWHERE, LOOPBACK, Launch, launching, sees, until


async def test_01_two_agents_that_join_see_each_other_with_one_change(launch: Launch) -> None:
    a = await launch("a")
    changes: list[Change] = []
    a.subscribe(changes.append)
    b = await launch("b", a)
    await until(lambda: sees(a, "b") is sees(b, "a") is State.ALIVE)
    (change,) = changes
    assert change.previous is None
    assert change.member == b.members()[1]
    assert change.member.meta == b"b"
    assert change.member.address == b.address
    assert change.member.changed_at_s <= time.monotonic()


async def test_a_seed_that_comes_up_later_is_found(launch: Launch) -> None:
    reserved = await launch("reserved")
    address = reserved.address
    await reserved.stop()
    b = await launch("b")
    b.add_seed(("localhost", address[1]))
    a = await launch("a", bind=address)
    await until(lambda: sees(a, "b") is sees(b, "a") is State.ALIVE)


async def test_a_stopped_member_is_dead_and_lives_again_after_a_restart(launch: Launch) -> None:
    a = await launch("a")
    b, c = await launch("b", a), await launch("c", a)
    await until(lambda: len(b.members()) == len(c.members()) == 3)
    address = c.address
    await c.stop()
    await until(lambda: sees(a, "c") is sees(b, "c") is State.DEAD)
    restarted = await launch("c", b, bind=address)
    await until(lambda: sees(a, "c") is sees(b, "c") is State.ALIVE)
    assert sees(restarted, "a") is State.ALIVE


async def test_a_requested_probe_finds_a_dead_member_and_spares_a_live_one(
    launch: Launch,
) -> None:
    a = await launch("a")
    b, c = await launch("b", a), await launch("c", a)
    await until(lambda: len(a.members()) == len(b.members()) == len(c.members()) == 3)
    await c.stop()
    a.probe("b")
    a.probe("c")
    a.probe("nobody")
    await until(lambda: sees(a, "c") is State.DEAD)
    assert sees(a, "b") is State.ALIVE


async def test_a_leaver_has_left_and_did_not_die(launch: Launch) -> None:
    a = await launch("a")
    b, c = await launch("b", a), await launch("c", a)
    seen: list[Change] = []
    a.subscribe(seen.append)
    await until(lambda: len(a.members()) == len(b.members()) == len(c.members()) == 3)
    await c.leave()
    await c.stop()
    await until(lambda: sees(a, "c") is sees(b, "c") is State.LEFT)
    assert not [change for change in seen if change.member.state is State.DEAD]


async def test_garbage_is_counted_and_changes_nothing(launch: Launch) -> None:
    a = await launch("a")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for data in (b"", b"garbage", bytes(9000)):
            stranger.sendto(data, a.address)
    for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(4), b"\x00\x00\x00\x03abc"):
        reader, writer = await asyncio.open_connection(*a.address)
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    await until(lambda: a.counters["messages_malformed"] == 3)
    await until(lambda: a.counters["frames_malformed"] == 1)
    await until(lambda: a.counters["streams_broken"] == 2)
    assert len(a.members()) == 1


async def test_silent_clients_do_not_keep_their_slots(launch: Launch) -> None:
    config = Config.parse(
        {"preset": "loopback", "streams_per_host_max": 2, "stream_header_timeout_s": 0.2}
    )
    a = await launch("a", config=config)
    silent = [await asyncio.open_connection(*a.address) for _ in range(3)]
    await until(lambda: a.counters["streams_refused"] == 1)
    await until(lambda: a.counters["streams_broken"] == 2)
    b = await launch("b", a)
    await until(lambda: sees(b, "a") is State.ALIVE)
    for _, writer in silent:
        writer.close()


async def test_a_ping_over_tcp_is_acked(launch: Launch) -> None:
    a = await launch("a")
    reader, writer = await asyncio.open_connection(*a.address)
    writer.write(encode_frame(wire.Ping(7, "a", "tester")))
    assert await reader.read() == encode_frame(wire.Ack(7, "a"))
    writer.close()


async def test_a_blocked_loop_blames_itself(launch: Launch) -> None:
    a = await launch("a")
    b, c = await launch("b", a), await launch("c", a)
    await until(lambda: len(a.members()) == len(b.members()) == len(c.members()) == 3)
    changes: list[Change] = []
    a.subscribe(changes.append)
    # All three share this loop, so each is blocked.
    end_s = time.monotonic() + 0.7
    while time.monotonic() < end_s:
        pass
    await until(lambda: a.counters["stalls"] >= 1)
    await until(lambda: sees(a, "b") is sees(a, "c") is State.ALIVE)
    assert not [change for change in changes if change.member.state is State.DEAD]


async def test_42_a_member_with_a_loop_blocked_for_three_seconds_causes_no_deaths(
    launch: Launch,
) -> None:
    lan = Config.lan()
    a = await launch("a", config=lan)
    others = [await launch(name, a, config=lan) for name in "bcd"]
    readers = [agent.events() for agent in (a, *others)]
    ready, done = threading.Event(), threading.Event()
    heard_news: list[News] = []

    async def blocked() -> None:
        async with launching() as start:
            e = await start("e", a, config=lan)
            mine = e.events()
            await until(lambda: len(e.members()) == 5)
            ready.set()
            end_s = time.monotonic() + 3.0
            done.wait(end_s - time.monotonic())  # Blocks this loop, and no other.
            await until(lambda: e.counters["stalls"] >= 1)
            await until(lambda: all(member.state is State.ALIVE for member in e.members()))
        heard_news.extend([news async for news in mine])

    thread = threading.Thread(target=asyncio.run, args=(blocked(),))
    thread.start()
    try:
        await until(ready.is_set)
        await until(lambda: not thread.is_alive(), within_s=20.0)
    finally:
        done.set()
        thread.join()
    assert any(isinstance(news, Stalled) for news in heard_news)
    for agent, reader in zip((a, *others), readers, strict=True):
        await agent.stop()
        heard_news += [news async for news in reader]
    assert any(isinstance(news, Joined) and news.member.name == "e" for news in heard_news)
    assert not any(isinstance(news, Failed) for news in heard_news)


async def test_a_failing_subscriber_does_not_affect_others(
    launch: Launch, caplog: pytest.LogCaptureFixture
) -> None:
    a = await launch("a")
    heard: list[str] = []

    def fail(change: Change) -> None:
        raise RuntimeError("of the application")

    a.subscribe(fail)
    a.subscribe(lambda change: heard.append(change.member.name))
    with caplog.at_level(logging.CRITICAL, logger="gossip"):
        await launch("b", a)
        await until(lambda: heard == ["b"])


async def test_a_wildcard_advertises_an_address_that_others_can_use(launch: Launch) -> None:
    a = await launch("a")
    b = await launch("b", a, bind=("0.0.0.0", 0))
    assert b.address[0] == "127.0.0.1"
    await until(lambda: sees(a, "b") is sees(b, "a") is State.ALIVE)
    c = await launch("c", bind=("0.0.0.0", 0))
    assert c.address[0] != "0.0.0.0"


async def test_a_name_that_is_advertised_is_resolved_at_the_start(launch: Launch) -> None:
    a = await launch("a")
    where = a.address
    b = await launch("b", a, bind=("0.0.0.0", 0), advertise=("localhost", 1))
    assert b.address == ("127.0.0.1", 1)
    c = await launch("c", a, bind=("0.0.0.0", 0), advertise=("127.0.0.2", 2))
    assert c.address == ("127.0.0.2", 2)
    await a.stop()
    with pytest.raises(BindFailed, match=r"no\.\.name"):
        await launch("a", bind=where, advertise=("no..name", 3))
    await launch("a", bind=where)  # Nothing was left open.


async def test_an_agent_refuses_impossible_arguments(launch: Launch) -> None:
    a = await launch("a")
    with pytest.raises(BindFailed):
        await launch("b", bind=a.address)
    with pytest.raises(AlreadyStarted):
        await a.start()
    with pytest.raises(NameTooLong):
        Agent("n" * 129, ANYWHERE, config=LOOPBACK)
    with pytest.raises(MetaTooLarge):
        Agent("n", ANYWHERE, config=LOOPBACK, meta=bytes(513))
    with pytest.raises(NotRunning):
        Agent("n", ANYWHERE, config=LOOPBACK).members()


async def test_nothing_is_left_after_stop() -> None:
    gc.collect()  # Garbage of earlier tests goes now, and not during the count.
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a number of entries is wanted.
    tasks = len(asyncio.all_tasks())
    async with launching() as launch:
        a = await launch("a")
        b = await launch("b", a)
        await until(lambda: len(a.members()) == len(b.members()) == 2)
        b.add_seed(("127.0.0.1", 9))
        await b.stop()
        await b.stop()
    await until(lambda: len(os.listdir("/proc/self/fd")) == files)  # noqa: PTH208 - as above.
    assert len(asyncio.all_tasks()) == tasks


@pytest.mark.parametrize("turns", range(6))
async def test_a_stream_that_comes_up_during_the_stop_is_closed(launch: Launch, turns: int) -> None:
    a = await launch("a")
    with socket.create_connection(a.address, timeout=10.0) as stranger:
        for _ in range(turns):  # Accepted, made a transport, given a task: stopped at each step.
            await asyncio.sleep(0)
        await a.stop()
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


def test_it_runs_under_uvloop_as_well() -> None:
    async def story() -> None:
        async with launching() as launch:
            a = await launch("a")
            b, c = await launch("b", a), await launch("c", a)
            await until(lambda: len(a.members()) == len(b.members()) == len(c.members()) == 3)
            await c.stop()
            await until(lambda: sees(a, "c") is sees(b, "c") is State.DEAD)
            await b.leave()
            await until(lambda: sees(a, "b") is State.LEFT)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


async def test_a_killed_process_is_dead_and_a_terminated_one_has_left(launch: Launch) -> None:
    a = await launch("a")
    b = await launch("b", a)

    async def spawn(name: str) -> asyncio.subprocess.Process:
        host, port = a.address
        arguments = ["--bind", "127.0.0.1:0", "--join", f"{host}:{port}", "--name", name]
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gossip", *arguments, "--preset", "loopback"),
            stdout=asyncio.subprocess.PIPE,
        )

    killed, ended = await spawn("killed"), await spawn("ended")
    try:
        for name in ("killed", "ended"):
            await until(lambda name=name: sees(a, name) is sees(b, name) is State.ALIVE)  # type: ignore[misc]
        killed.send_signal(signal.SIGKILL)
        ended.send_signal(signal.SIGTERM)
        await until(lambda: sees(a, "killed") is sees(b, "killed") is State.DEAD)
        await until(lambda: sees(a, "ended") is sees(b, "ended") is State.LEFT)
        printed, _ = await ended.communicate()
        assert await killed.wait() == -signal.SIGKILL
        assert await ended.wait() == 0
        assert b" a 127.0.0.1:" in printed
    finally:
        for process in (killed, ended):
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_43_a_wall_clock_that_jumps_a_day_is_no_event(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = await launch("a")
    b = await launch("b", a)
    await until(lambda: sees(a, "b") is sees(b, "a") is State.ALIVE)
    readers = [a.events(), b.events()]
    real, day_ns = time.time_ns, 86_400_000_000_000
    for jump in (day_ns, -day_ns):
        monkeypatch.setattr(time, "time_ns", lambda jump=jump: real() + jump)
        monkeypatch.setattr(time, "time", lambda jump=jump: real() / 1e9 + jump / 1e9)
        probes = a.counters["probes"]
        await until(lambda probes=probes: a.counters["probes"] >= probes + 5)
    for agent in (a, b):
        await agent.stop()
    heard_news = [news for reader in readers async for news in reader]
    assert [news for news in heard_news if not isinstance(news, Stalled)] == []


async def test_44_a_seed_by_name_is_resolved_anew_each_time(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    first = await launch("a")
    where = {"seeds.test": ("127.0.0.1", 9)}
    real = loop.getaddrinfo

    async def resolve(host: str, port: int, **more: object) -> object:
        return await real(*where.get(host, (host, port)), **more)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    second = await launch("b", seeds=[("seeds.test", 7946)])
    reader = second.events()
    assert sees(second, "a") is None
    where["seeds.test"] = first.address
    await until(lambda: sees(second, "a") is State.ALIVE)
    assert isinstance(await anext(reader), Joined)


async def test_51_an_agent_that_is_stopped_while_it_joins_leaves_nothing(launch: Launch) -> None:
    black_hole = socket.socket()
    black_hole.bind(("127.0.0.1", 0))
    black_hole.listen(1)  # Accepts by the kernel's hand, and never answers.
    agent = await launch("a")
    joining = asyncio.create_task(agent.join([black_hole.getsockname()], timeout_s=30.0))
    await until(lambda: agent.counters["streams_opened"] >= 1)
    joining.cancel()
    async with asyncio.timeout(10.0):
        await asyncio.gather(joining, return_exceptions=True)
        await agent.stop()
    black_hole.close()
    assert joining.cancelled()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
