"""Torture of a group: python -m tests.chaos.torture --minutes M --seed S [--size N] [--only KINDS].

Chapter after chapter: clients work on documents of their own, faults strike, two of different kinds
at a time unless `--alone` is given, all is repaired, and both checkers compare the clients' answers
with the stored versions. Ends non-zero as soon as a promise was broken, with the seed; the report
lists the faults and the answers.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from docstore.client.local import LocalNode
from docstore.runtime.tls.authority import make_authority, make_certificate
from tests.chaos import report
from tests.chaos.arena import Arena, mount_small_disk, unmount
from tests.chaos.batches import (
    Batcher,
    Moment,
    declare_orders,
    documents_of,
    is_keyed,
    is_made,
    wrong_batches,
    wrong_moments,
)
from tests.chaos.faults import Nemesis
from tests.chaos.mix import FACTORY, Mixer, Op, Story, declare, judge
from tests.chaos.verdict import versions_of

T = TypeVar("T", bound=Mixer)

SPARES, CLIENTS, LINKS = 2, 10, 30
BATCHERS, KEYS = 4, 4
CHAPTER_S = 40.0
FAMILIES = (
    ("kill", "kill_at", "kill_two", "kill_all", "stop"),
    ("pause",),
    ("clock",),
    (
        "cut", "one_way", "isolate", "split", "links_only", "flap", "half_open", "delay", "pieces",
        "trickle", "reset", "garbage", "gossip_loss",
    ),
    ("slow_disk", "disk_error", "disk_full", "flip", "wipe", "older_copy", "older_part"),
    ("join_and_leave", "replace"),
)  # fmt: skip
"""Faults that are of one kind: two at a time are of two."""
BESIDE = (
    "kill", "pause", "clock", "cut", "one_way", "isolate", "half_open", "delay", "gossip_loss",
    "slow_disk", "disk_full",
)  # fmt: skip
"""Faults that may strike while another one lasts: they cost no disk, and pass by themselves."""


@dataclass(slots=True)
class Strike:
    """One fault, with its effect on the clients."""

    kind: str
    where: str
    begun_s: float
    ended_s: float


@dataclass(slots=True)
class Account:
    """Observations of a run."""

    seed: int
    began: float
    strikes: list[Strike] = field(default_factory=list)
    operations: int = 0
    batches: int = 0
    """Number of atomic batches that were answered."""
    moments: int = 0
    """Number of instants at which all documents of a key were read."""
    chapters: int = 0
    problems: list[str] = field(default_factory=list)
    story: Story = field(default_factory=Story)
    """Only its counts are kept over the chapters."""


class Torture:
    """One run."""

    def __init__(
        self, arena: Arena, nemesis: Nemesis, account: Account, kinds: list[str], *, alone: bool
    ) -> None:
        """alone: one fault at a time."""
        self._arena, self._nemesis, self._account = arena, nemesis, account
        self._kinds, self._alone = kinds, alone
        self._deck: list[str] = []
        self.enough = False
        """Whether to end after the present chapter."""

    async def run(self, session: aiohttp.ClientSession, minutes: float) -> None:
        """Play chapters until the time is over or a problem is found."""
        await declare(session, self._arena.members[0].url)
        await declare_orders(session, self._arena.members[0].url)
        until = self._account.began + minutes * 60
        while time.monotonic() < until and not self._account.problems and not self.enough:
            await self._chapter(session)
            account = self._account
            self._say(f"chapter {account.chapters}: {account.operations} operations,"
                      f" {account.batches} batches, {len(account.strikes)} faults")  # fmt: skip

    async def _chapter(self, session: aiohttp.ClientSession) -> None:
        account = self._account
        account.chapters += 1
        links = [f"{FACTORY}/c{account.chapters}-{number}" for number in range(LINKS)]
        keys = [f"c{account.chapters}-{number}" for number in range(KEYS)]
        keyed = [link for key in keys for link in documents_of(key)]
        seen = account.story
        story = Story(succeeded=seen.succeeded, failed=seen.failed, pauses=self._arena.pauses)
        batchers = self._clients(Batcher, BATCHERS, keyed, session, story)
        mixers = [*self._clients(Mixer, CLIENTS, links, session, story), *batchers]
        tasks = [asyncio.create_task(mixer.run()) for mixer in mixers]
        try:
            await self._strike_for(CHAPTER_S)
            await self._arena.recover()
            await asyncio.sleep(1.0)
        except (TimeoutError, AssertionError, subprocess.TimeoutExpired) as error:
            account.problems.append(f"{type(error).__name__}: {error}")
        finally:
            for mixer in mixers:
                mixer.stop = True
            await asyncio.gather(*tasks)
        account.operations += len(story.ops)
        account.batches += len({op.uid for op in story.ops if is_made(op)})
        account.problems += story.errors
        if not account.problems:
            moments = [moment for batcher in batchers for moment in batcher.moments]
            account.moments += len(moments)
            account.problems += await self._verify(session, links + keyed, story.ops, moments)

    def _clients(
        self, kind: type[T], count: int, links: list[str], session: aiohttp.ClientSession,
        story: Story,
    ) -> list[T]:  # fmt: skip
        """Return clients of a kind that share some documents."""
        name, rng = f"{self._account.chapters}.{kind.__name__[0]}", self._arena.rng
        return [
            kind(f"{name}{number}", self._arena.members, links, session, story,
                 random.Random(rng.random()), self._account.began)
            for number in range(count)
        ]  # fmt: skip

    async def _strike_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.sleep(0.3 + self._arena.rng.random())
            if not self._deck:
                self._deck = self._arena.rng.sample(self._kinds, len(self._kinds))
            await self._strike_twice(self._deck.pop())

    async def _strike_twice(self, kind: str) -> None:
        """Strike with a fault, and with one of another kind meanwhile."""
        strikes = [self._strike(kind, 0.0)]
        if not self._alone:
            rng, same = self._arena.rng, next(family for family in FAMILIES if kind in family)
            possible = self._nemesis.kinds()
            others = [each for each in BESIDE if each in possible and each not in same]
            strikes.append(self._strike(rng.choice(others), rng.random() * 0.5))
        with self._nemesis.two_at_a_time():
            ended = await asyncio.gather(*strikes, return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def _strike(self, kind: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        begun = time.monotonic() - self._account.began
        where = await self._nemesis.kinds()[kind](self._nemesis)
        ended = time.monotonic() - self._account.began
        self._account.strikes.append(Strike(kind, where, begun, ended))
        self._say(f"  {begun:7.1f} s {kind} {where}, {ended - begun:.1f} s")

    async def _verify(
        self, session: aiohttp.ClientSession, links: list[str], ops: list[Op],
        moments: list[Moment],
    ) -> list[str]:  # fmt: skip
        """Read every document of the chapter back, through changing nodes, and judge."""
        by_link: dict[str, list[Op]] = defaultdict(list)
        for op in ops:
            by_link[op.link].append(op)
        found: list[str] = []
        stored: dict[str, dict[int, dict[str, Any]]] = {}

        async def check(number: int, link: str) -> None:
            node: LocalNode = self._arena.members[number % len(self._arena.members)]
            stored[link] = await versions_of(session, node, link)
            wrong = judge(by_link[link], stored[link])
            if wrong:
                report.keep_evidence(self._account, link, by_link[link], stored[link])
            found.extend(f"{link}: {each}" for each in wrong)

        await asyncio.gather(*(check(number, link) for number, link in enumerate(links)))
        wrong = [*wrong_batches(ops, stored), *wrong_moments(moments, stored)]
        if wrong:
            for link in filter(is_keyed, links):
                report.keep_evidence(self._account, link, by_link[link], stored[link])
        return found + wrong

    def _say(self, line: str) -> None:
        print(line, flush=True)


def certificates(directory: Path, size: int) -> Path:
    """Make a CA, which this process trusts from now on, and a certificate for each node."""
    nodes = [f"n{number}" for number in range(1, size + SPARES + 1)]
    make_authority(directory, "torture", 1)
    for node in nodes:
        make_certificate(directory, [node], ["127.0.0.1"], 1)
    os.environ["SSL_CERT_FILE"] = str(directory / "ca.pem")
    return directory


async def torture(
    minutes: float,
    seed: int,
    only: list[str],
    *,
    size: int = 5,
    tls: bool = False,
    alone: bool = False,
) -> Account:
    """Run for this time; return the observations. alone: one fault at a time."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="docstore-torture-") as directory:
        certs = certificates(Path(directory) / "certs", size) if tls else None
        arena = Arena(Path(directory), size, SPARES, rng, certs=certs)
        small = arena.members[-1]
        mounted = mount_small_disk(small.data, "256m")
        nemesis = Nemesis(arena, small if mounted else None)
        kinds = [kind for kind in sorted(nemesis.kinds()) if not only or kind in only]
        timeout = aiohttp.ClientTimeout(total=15)
        connector = aiohttp.TCPConnector(limit=0, ssl=arena.cluster.ssl or True)
        account = Account(seed, time.monotonic())
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            try:
                await arena.start()
                run = Torture(arena, nemesis, account, kinds, alone=alone)
                interrupted = partial(setattr, run, "enough", True)
                asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted)
                await run.run(session, minutes)
            finally:
                if account.problems:
                    report.keep_logs(Path(directory), seed, arena.cluster.nodes)
                await arena.stop()
                if mounted:
                    unmount(small.data)
    return account


def main() -> int:
    """Parse the command line, run, report; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--size", type=int, default=5, help="of the group: 3, 5 (default) or more")
    parser.add_argument("--only", default="", help="kinds of faults, with commas between")
    parser.add_argument("--alone", action="store_true", help="one fault at a time, not two")
    parser.add_argument("--tls", action="store_true", help="on the ports of clients and of nodes")
    parser.add_argument("--report", help="write Markdown here, and a plot beside it")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    only = [kind for kind in options.only.split(",") if kind]
    account = asyncio.run(
        torture(
            options.minutes,
            options.seed,
            only,
            size=options.size,
            tls=options.tls,
            alone=options.alone,
        )
    )
    text = report.text_of(account)
    print(text)
    if options.report:
        report.write(Path(options.report), account, text)
    return 1 if account.problems else 0


if __name__ == "__main__":
    sys.exit(main())
