"""Links that are frozen: messages go through a third node that reaches the receiver (rule E4)."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import permutations

import pytest

from docstore.errors import Unavailable
from docstore.runtime.links import detours
from docstore.runtime.links.connections import Detour
from docstore.runtime.links.rpc import Rpc
from docstore.wire.link_messages import FIRST_PROTOCOL, PROTOCOL, ProtocolRange, Relayed
from docstore.wire.messages import HandOver
from docstore.wire.requests import ReadPage
from tests.chaos.proxy import Link, Proxy
from tests.compat.test_versions import Node, listening, until

NEW = ProtocolRange(FIRST_PROTOCOL, PROTOCOL)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detours, "GREETING_S", 0.02)
    monkeypatch.setattr(detours, "SILENT_S", 0.05)


@asynccontextmanager
async def group(*nodes: Node) -> AsyncIterator[Mapping[tuple[str, str], Link]]:
    """Connect nodes with each other, each by its own proxy; yield the directed links."""
    async with asyncio.TaskGroup() as tasks, asyncio.timeout(30.0):
        proxies: dict[tuple[str, str], Proxy] = {}
        ports, stop = {}, asyncio.Event()

        async def serve(node: Node, ready: asyncio.Event) -> None:
            async with listening(node) as port:
                ports[node.name] = port
                ready.set()
                await stop.wait()

        for node in nodes:
            ready = asyncio.Event()
            tasks.create_task(serve(node, ready))
            await ready.wait()
        try:
            for one, other in permutations(nodes, 2):
                proxy = Proxy(ports[other.name], random.Random(1))
                proxies[one.name, other.name] = proxy
                await proxy.start()
                one.links.connect(other.name, ("127.0.0.1", proxy.port))
            await until(lambda: all(len(node.linked) == len(nodes) - 1 for node in nodes))
            yield {pair: proxy.link for pair, proxy in proxies.items()}
        finally:
            stop.set()
            for proxy in proxies.values():
                await proxy.stop()


def word(number: int) -> HandOver:
    return HandOver(bytes([number]))


def say(node: Node, peer: str, number: int) -> None:
    node.links.send(peer, word(number))
    node.links.flush()


def is_on_a_detour(node: Node, peer: str) -> bool:
    return isinstance(node.links.ways.get(peer), Detour)


async def test_messages_of_a_frozen_link_arrive_through_another_node() -> None:
    a, b, c = Node("a", NEW), Node("b", NEW), Node("c", NEW)
    async with group(a, b, c) as links:
        links["a", "b"].frozen = True
        await until(lambda: is_on_a_detour(a, "b"))
        # As with a link lost and made: messages in flight are sent again.
        assert (a.lost, a.linked.count("b"), a.links.is_linked("b")) == (["b"], 2, True)
        for number in range(3):
            say(a, "b", number)
        say(b, "a", 9)
        await until(lambda: len(b.heard) == 3 and len(a.heard) == 1)
        # Once each, in order, and with the true sender.
        assert b.heard == [("a", word(number)) for number in range(3)]
        assert a.heard == [("b", word(9))]
        assert c.heard == []
        await until(lambda: "a" in b.lost)
        links["a", "b"].frozen = False
        await until(lambda: not is_on_a_detour(a, "b"))
        relayed = c.links.counters["relayed"]
        say(a, "b", 4)
        await until(lambda: b.heard[-1] == ("a", word(4)))
        assert c.links.counters["relayed"] == relayed


async def test_a_frame_is_relayed_once_at_most() -> None:
    a, b, c, d = Node("a", NEW), Node("b", NEW), Node("c", NEW), Node("d", NEW)
    async with group(a, b, c, d) as links:
        # Only d reaches b, and a reaches only c: no single node is between a and b.
        for pair in (("a", "b"), ("c", "b"), ("a", "d")):
            links[pair].frozen = True
        await until(lambda: is_on_a_detour(c, "b") and is_on_a_detour(a, "d"))
        await until(lambda: "b" not in a.links.outbound["c"].reaches)
        assert not is_on_a_detour(a, "b")
        # A relayed frame is never relayed again.
        a.links.outbound["c"].say(Relayed("", "b", b""))
        await until(lambda: c.links.counters["relays_dropped"] == 1)
        assert d.links.counters["relays_dropped"] == b.links.counters["relays_dropped"] == 0


async def test_a_relayed_frame_of_a_refused_source_is_dropped() -> None:
    a, b, c = Node("a", NEW), Node("b", NEW), Node("c", NEW)
    async with group(a, b, c) as links:
        links["a", "b"].frozen = True
        await until(lambda: is_on_a_detour(a, "b"))
        b.links.refusals.tell("a", "it is on another disk")
        say(a, "b", 1)
        await until(lambda: b.links.counters["relays_dropped"] == 1)
        # Frames of an unknown source are dropped, too.
        c.links.outbound["b"].say(Relayed("x", "b", b""))
        await until(lambda: b.links.counters["relays_dropped"] == 2)
        assert b.heard == []


async def test_a_node_that_has_ended_is_lost_at_once() -> None:
    a, b, c = Node("a", NEW), Node("b", NEW), Node("c", NEW)
    async with group(a, b, c):
        await until(lambda: "b" in a.links.outbound["c"].reaches)
        await b.links.stop()
        await until(lambda: "b" in a.lost and "b" not in a.links.outbound["c"].reaches)
        assert not a.links.is_linked("b")
        assert a.links.counters["detours"] == 0


async def test_a_call_ends_as_soon_as_the_link_of_its_answer_is_lost() -> None:
    a, b = Node("a", NEW), Node("b", NEW)
    rpc = Rpc("a", a.links)
    async with group(a, b):
        asking = asyncio.create_task(rpc.call("b", ReadPage("/core/management"), 60.0))
        await until(lambda: len(b.heard) == 1)
        rpc.link_lost("b")
        with pytest.raises(Unavailable, match="the connection to node b broke"):
            await asking
