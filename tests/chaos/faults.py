"""Faults of the group: each strikes, lasts, and is undone.

Faults that cost a disk (a wipe, an older copy, flipped bits) strike one node at a time, and only
when all other disks are whole: with a replication factor of three, two lost disks are too many.
"""

import asyncio
import contextlib
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from itertools import permutations
from pathlib import Path

from docstore.client.local import LocalNode
from tests.chaos import damage
from tests.chaos.arena import Arena, empty, put_back
from tests.chaos.points import POINTS
from tests.docstore.watching import disk_fault

Fault = Callable[["Nemesis"], Awaitable[str]]


class Nemesis:
    """Strikes an arena."""

    def __init__(self, arena: Arena, small_disk: LocalNode | None) -> None:
        self.arena = arena
        self.rng = arena.rng
        self._small_disk = small_disk
        self._points: list[str] = []
        self._taken: set[str] | None = None
        """Nodes that one of two faults has chosen: the other one leaves them alone."""

    @contextlib.contextmanager
    def two_at_a_time(self) -> Iterator[None]:
        """Let the faults of the body choose different nodes."""
        self._taken = set()
        try:
            yield
        finally:
            self._taken = None

    def kinds(self) -> dict[str, Fault]:
        """Return name -> fault, of all that are possible on this machine."""
        found: dict[str, Fault] = {
            name.removeprefix("do_"): getattr(type(self), name)
            for name in dir(self)
            if name.startswith("do_")
        }
        if self._small_disk is None:
            del found["disk_full"]
        if shutil.which("strace") is None:
            del found["slow_disk"], found["disk_error"]
        return found

    def _one(self) -> LocalNode:
        taken = self._taken or ()
        node = self.rng.choice(
            [each for each in self.arena.members if each.name not in taken] or self.arena.members
        )
        if self._taken is not None:
            self._taken.add(node.name)
        return node

    def _lasting(self) -> float:
        return self.rng.choice((0.3, 1.0, 2.5, 6.0)) * (0.7 + 0.6 * self.rng.random())

    # Processes

    async def do_kill(self) -> str:
        """Send SIGKILL, and start the node a moment later."""
        node = self._one()
        await self.arena.kill(node)
        await asyncio.sleep(self._lasting())
        self.arena.start_node(node)
        return node.name

    async def do_kill_at(self) -> str:
        """Send SIGKILL at one of the points of a commit, each in its turn."""
        node = self._one()
        if not self._points:
            self._points = self.rng.sample(POINTS, len(POINTS))
        point = self._points.pop()
        self.arena.switch(node, kill_at=point)
        for _ in range(300):  # It takes some thousand commits until a file is used again.
            if node.process is None or node.process.poll() is not None:
                break
            await asyncio.sleep(0.1)  # The pause between two checks.
        else:
            point = f"not at {point}"  # It was not reached.
        self.arena.switch(node, kill_at=None)
        await self.arena.kill(node)
        await asyncio.sleep(self._lasting() / 2)
        self.arena.start_node(node)
        return f"{node.name} {point}"

    async def do_kill_two(self) -> str:
        """Send SIGKILL to a minority of five."""
        nodes = self.rng.sample(self.arena.members, 2)
        for node in nodes:
            await self.arena.kill(node)
        await asyncio.sleep(self._lasting())
        for node in nodes:
            self.arena.start_node(node)
        return "+".join(node.name for node in nodes)

    async def do_kill_all(self) -> str:
        """Send SIGKILL to all nodes at once."""
        for node in self.arena.members:
            if node.process is not None:
                node.process.kill()
        for node in self.arena.members:
            await self.arena.kill(node)
        for node in self.arena.members:
            self.arena.start_node(node)
        return "all"

    async def do_stop(self) -> str:
        """Send SIGTERM: the node drains, ends by itself, and is started again."""
        node = self._one()
        if node.process is not None:
            node.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(node.process.wait, 20)
            node.process = None
        self.arena.start_node(node)
        return node.name

    async def do_pause(self) -> str:
        """Send SIGSTOP, and SIGCONT later."""
        node = self._one()
        await self.arena.pause(node, self._lasting())
        return node.name

    async def do_clock(self) -> str:
        """Move the wall clock of a node by up to an hour, either way."""
        node = self.rng.choice(self.arena.members)  # Also one that another fault strikes.
        self.arena.switch(node, clock_s=self.rng.uniform(-3600, 3600))
        await asyncio.sleep(self._lasting())
        self.arena.switch(node, clock_s=None)
        return node.name

    # Links

    async def _cut(self, pairs: list[tuple[LocalNode, LocalNode]], *, gossip: bool = True) -> None:
        self.arena.cut(pairs, gossip=gossip)
        await asyncio.sleep(self._lasting())
        self.arena.mend_links()

    async def do_cut(self) -> str:
        """Cut the links between two nodes."""
        one, other = self.rng.sample(self.arena.members, 2)
        await self._cut([(one, other), (other, one)])
        return f"{one.name}|{other.name}"

    async def do_one_way(self) -> str:
        """Cut the link from one node to another."""
        one, other = self.rng.sample(self.arena.members, 2)
        await self._cut([(one, other)])
        return f"{one.name}>{other.name}"

    async def do_isolate(self) -> str:
        """Cut one node off from all others."""
        node = self._one()
        await self._cut([p for p in permutations(self.arena.members, 2) if node in p])
        return node.name

    async def do_split(self) -> str:
        """Cut the group into a minority of two and a majority."""
        part = self.rng.sample(self.arena.members, 2)
        pairs = permutations(self.arena.members, 2)
        await self._cut([(one, other) for one, other in pairs if (one in part) != (other in part)])
        return "+".join(node.name for node in part)

    async def do_links_only(self) -> str:
        """Cut a node's links while membership finds it healthy."""
        node = self._one()
        pairs = [p for p in permutations(self.arena.members, 2) if node in p]
        await self._cut(pairs, gossip=False)
        return node.name

    async def do_flap(self) -> str:
        """Break a link five times a second."""
        one, other = self.rng.sample(self.arena.members, 2)
        for _ in range(self.rng.randint(5, 20)):
            self.arena.cut([(one, other), (other, one)], gossip=False)
            await asyncio.sleep(0.1)  # The time for which it is broken,
            self.arena.mend_links()
            await asyncio.sleep(0.1)  # and the time for which it holds.
        return f"{one.name}|{other.name}"

    async def _weather(self, **changes: float) -> str:
        """Disturb all links of a node for a while."""
        node = self._one()
        for pair in permutations(self.arena.members, 2):
            if node in pair:
                link = self.arena.link(*pair)
                for name, value in changes.items():
                    setattr(link, name, value)
        await asyncio.sleep(self._lasting())
        self.arena.mend_links()
        return node.name

    async def do_half_open(self) -> str:
        """Keep links open while no bytes pass."""
        return await self._weather(frozen=True)

    async def do_delay(self) -> str:
        """Delay links by 50 to 400 ms."""
        return await self._weather(delay_s=0.05, jitter_s=0.35)

    async def do_pieces(self) -> str:
        """Deliver frames in pieces cut at any byte."""
        return await self._weather(pieces=7)

    async def do_trickle(self) -> str:
        """Limit links to 20 kB a second."""
        return await self._weather(rate=20_000.0)

    async def do_reset(self) -> str:
        """Reset connections in the middle of frames."""
        return await self._weather(reset_p=0.05)

    async def do_garbage(self) -> str:
        """Deliver noise in place of frames."""
        return await self._weather(garbage_p=0.02)

    async def do_gossip_loss(self) -> str:
        """Lose a third of membership's packets, everywhere."""
        for node in self.arena.members:
            self.arena.switch(node, gossip_loss=0.33)
        await asyncio.sleep(self._lasting() + 2)
        self.arena.mend_links()
        return "all"

    # Disks

    async def do_slow_disk(self) -> str:
        """Delay every fsync of a node by 200 ms."""
        node = self._one()
        if node.process is not None:
            with contextlib.suppress(AssertionError), disk_fault(node, "delay_enter=200000"):
                await asyncio.sleep(self._lasting() + 1)
        return node.name

    async def do_disk_error(self) -> str:
        """Let an fsync fail: the process must end with 74, and restart from its disk."""
        node = self._one()
        if node.process is None:
            return node.name
        with contextlib.suppress(AssertionError), disk_fault(node, "error=EIO"):
            for _ in range(100):
                if node.process.poll() is not None:
                    break
                await asyncio.sleep(0.1)  # The pause between two checks.
        ended = node.process.poll()
        if ended not in (None, 74):
            raise AssertionError(f"{node.name} ended with {ended} when its disk failed")
        await self.arena.kill(node)
        self.arena.start_node(node)
        return node.name

    async def do_disk_full(self) -> str:
        """Fill the small disk of one node for a while."""
        node = self._small_disk
        assert node is not None
        ballast = node.data / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb") as out:
            while True:
                out.write(bytes(1 << 16))
                out.flush()
        await asyncio.sleep(self._lasting() + 1)
        ballast.unlink(missing_ok=True)
        return node.name

    async def do_flip(self) -> str:
        """Flip bits in a node's tables while it is down, or one in its journal."""
        node = await self._alone()
        await self.arena.kill(node)
        if self.rng.random() < 0.5:
            damage.flip_in_journal(node.data, self.rng)
        else:
            damage.flip(node.data / damage.TABLES, self.rng.randint(1, 20), self.rng)
        self.arena.start_node(node)
        await self.arena.recover()
        await self.arena.scrubbed(node)
        await self.arena.recover()
        return node.name

    async def do_wipe(self) -> str:
        """Replace a node's disk by a new one."""
        node = await self._alone()
        await self.arena.replace_disk(node)
        await self.arena.recover()
        return node.name

    async def _copied(self) -> tuple[LocalNode, Path]:
        """Return a node that is down, and an older copy of its disk."""
        node = await self._alone()
        await self.arena.kill(node)
        copy = self.arena.directory / "older-copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(node.data, copy)
        self.arena.start_node(node)
        await self.arena.recover()
        await asyncio.sleep(self._lasting())  # The copy lacks the writes of this time.
        await self.arena.kill(node)
        return node, copy

    async def do_older_copy(self) -> str:
        """Restore a node's disk from a copy that is a few seconds old."""
        node, copy = await self._copied()
        put_back(copy, node.data)
        self.arena.start_node(node)
        assert node.process is not None
        ended = await asyncio.to_thread(node.process.wait, 30)
        if ended != 74:
            raise AssertionError(f"{node.name} ended with {ended} on an older copy of its disk")
        node.process = None
        await self.arena.replace_disk(node)
        await self.arena.recover()
        return node.name

    async def do_older_part(self) -> str:
        """Restore a node's journal or tables from a copy: it ends with 74, or is whole."""
        node, copy = await self._copied()
        part = self.rng.choice((damage.TABLES, damage.JOURNAL))
        damage.put_back_part(copy, node.data, part)
        self.arena.start_node(node)
        await self.arena.recover()
        return f"{node.name} {part}"

    async def _alone(self) -> LocalNode:
        """Return a node whose disk may be lost now, since all other disks are whole."""
        await self.arena.recover()
        return self._one()

    # Members

    async def do_join_and_leave(self) -> str:
        """Let two nodes join and two leave; kill a node while both sets must agree."""
        await self.arena.recover()
        for spare in list(self.arena.spares):
            await self._join(spare)
        leaving = self.rng.sample(self.arena.members, len(self.arena.spares))
        for node in leaving:
            await self.arena.change({"kind": "RemoveMemberRequest", "id": node.name}, avoid=node)
            self.arena.members.remove(node)
            await self._kill_midway()
            await self.arena.recover()
            await self._retire(node)
        self.arena.spares = leaving
        return "+".join(node.name for node in leaving)

    async def do_replace(self) -> str:
        """Replace a dead node by a new one."""
        await self.arena.recover()
        old, new = self._one(), self.arena.spares[0]
        await self.arena.kill(old)
        return await self._put_in_place_of(old, new)

    async def exchange(self) -> str:
        """Replace a live node by a new one: even with a kill on the way, a majority runs."""
        await self.arena.recover()
        return await self._put_in_place_of(self._one(), self.arena.spares[0])

    async def _put_in_place_of(self, old: LocalNode, new: LocalNode) -> str:
        self.arena.members.remove(old)
        new.flags = ("--join", ",".join(n.url for n in self.arena.members), "--replaces", old.name)
        self.arena.members.append(new)
        self.arena.start_node(new)
        await self._kill_midway(new)
        await self.arena.recover()
        self.arena.spares[0] = old
        await self._retire(old)
        return f"{old.name}>{new.name}"

    async def _join(self, spare: LocalNode) -> None:
        spare.flags = ("--join", ",".join(node.url for node in self.arena.members))
        self.arena.members.append(spare)
        self.arena.start_node(spare)
        await self._kill_midway(spare)
        await self.arena.recover()

    async def _kill_midway(self, spared: LocalNode | None = None) -> None:
        await asyncio.sleep(self.rng.random() * 2)
        victim = self.rng.choice([node for node in self.arena.members if node is not spared])
        await self.arena.kill(victim)
        await asyncio.sleep(self.rng.random())
        self.arena.start_node(victim)

    async def _retire(self, node: LocalNode) -> None:
        """Stop a node that has left, and empty its disk."""
        await self.arena.kill(node)
        empty(node.data)
