"""A consumer group whose members and whose partitions' leaders are killed together: line E4."""

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import aiohttp

from docstore.client.local import LocalNode
from tests.chaos.lines.flights import (
    PARTITIONS,
    POLL_S,
    TOPIC,
    Flown,
    Mark,
    Produce,
    flying,
    judged,
)
from tests.chaos.lines.processes import Processes, crashes, several
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.lines.streams import in_turn, kill_leader

GROUP, MEMBERS = "readers", 3
SESSION_S, COMMIT_S, EVERY_S = 1.5, 0.5, 3.0
OFFSETS = f"/core/groups/{GROUP}/offsets"
LATE_S = 60.0


class Processed(NamedTuple):
    """A record that a member has processed."""

    at: float
    partition: int
    offset: int
    mark: Mark
    name: str


class Committed(NamedTuple):
    """A committed offset that a node has answered at that moment."""

    at: float
    offset: int
    token: int


@dataclass(slots=True)
class Watched:
    """Observations of the group."""

    committed: dict[int, list[Committed]] = field(default_factory=lambda: defaultdict(list))
    killed: list[tuple[str, float]] = field(default_factory=list)
    """(member, moment)."""
    wrong: list[str] = field(default_factory=list)

    def see(self, partition: int, seen: Committed) -> None:
        """Note a committed offset; none goes back."""
        its = self.committed[partition]
        if its and (seen.offset < its[-1].offset or seen.token < its[-1].token):
            self.wrong.append(f"{partition}: {seen} was committed after {its[-1]}")
        its.append(seen)

    def has_all(self, flown: Flown) -> bool:
        """Say whether all acknowledged records are committed."""
        ends = {each.partition: -1 for each in flown.places.values()}
        for each in flown.places.values():
            ends[each.partition] = max(ends[each.partition], each.offset)
        return all(
            bool(its := self.committed[partition]) and its[-1].offset > end
            for partition, end in ends.items()
        )


async def _watch(stage: Stage, watched: Watched) -> None:
    """Read the offsets back of one node after the other, one answer after the other."""
    timeout, turn = aiohttp.ClientTimeout(total=3.0), 0
    while True:
        turn += 1
        node = stage.arena.members[turn % len(stage.arena.members)]
        try:
            async with stage.session.get(node.url + OFFSETS, timeout=timeout) as answer:
                page = await answer.json(content_type=None)
                offsets = page["offsets"] if answer.status == 200 else []
        except (aiohttp.ClientError, TimeoutError):
            offsets = []
        now = time.monotonic()
        for each in offsets:
            watched.see(each["partition"], Committed(now, each["offset"], each["token"]))
        await asyncio.sleep(POLL_S)


# Checks at the end


def processed(said: Mapping[str, Sequence[str]]) -> Iterator[Processed]:
    """Yield the records that members have processed."""
    for name, lines in said.items():
        for each in lines:
            words = each.split()
            if len(words) == 5 and words[1].isdecimal():
                partition, offset, number, index = map(int, words[1:])
                yield Processed(float(words[0]), partition, offset, (number, index), name)


def missed(flown: Flown, lines: Sequence[Processed]) -> Iterator[str]:
    """Yield the acknowledged records that no member has processed at their place."""
    done = {(each.partition, each.offset, each.mark) for each in lines}
    for mark, place in flown.places.items():
        if (place.partition, place.offset, mark) not in done:
            yield f"{mark} at {place.partition}/{place.offset} was processed by no member"


def gone_back(watched: Watched, lines: Sequence[Processed]) -> Iterator[str]:
    """Yield the records that were processed after a commit beyond them had been read back.

    So a record that is processed twice was not committed before the second time, and the number of
    duplicates is at most that of the records since the last commit.
    """
    last: Counter[int] = Counter()
    read_back = [
        (each.at, partition, each.offset, "")
        for partition, its in watched.committed.items()
        for each in its
    ]
    events = [(each.at, each.partition, each.offset, each.name) for each in lines]
    for at, partition, offset, name in sorted(read_back + events):
        if not name:
            last[partition] = max(last[partition], offset)
        elif offset < last[partition]:
            yield f"{name}: {partition}/{offset} at {at}, and {last[partition]} was committed"


def _again(watched: Watched, lines: Sequence[Processed]) -> str:
    """Return how many records came again after which member, for the report."""
    last: dict[tuple[int, int], str] = {}
    again: Counter[str] = Counter()
    for each in sorted(lines):
        place = (each.partition, each.offset)
        again[last.get(place, "")] += place in last
        last[place] = each.name
    killed = dict(watched.killed)
    of_killed = [again[name] for name in killed]
    since_commit = [_since_commit(watched, lines, name) for name in killed]
    of_others = sum(n for name, n in again.items() if name not in killed)
    return (
        f"{len(lines):,} processed, {len(last):,} of them different ones; after a kill"
        f" {max(of_killed)} came again at most, of up to {max(since_commit)} since what had been"
        f" read back as committed; {of_others} of members that lived"
    )


def _since_commit(watched: Watched, lines: Sequence[Processed], name: str) -> int:
    """Return how many records a member had processed since a commit, when it was killed."""
    at = dict(watched.killed)[name]
    last = {
        partition: max((each.offset for each in its if each.at < at), default=0)
        for partition, its in watched.committed.items()
    }
    return sum(
        each.name == name and each.offset >= last.get(each.partition, 0) for each in lines
    )  # fmt: skip


async def _judged(watched: Watched, flown: Flown, processes: Processes) -> tuple[list[str], str]:
    said = processes.said()
    lines = list(processed(said))
    wrong = [*watched.wrong, *crashes(said), *missed(flown, lines), *gone_back(watched, lines)]
    return wrong, _again(watched, lines)


@line("E4", "three members of a group read flights while one of them and a partition's leader are"
            " killed for 3 minutes, every 3 s or once all replicas are in step again: every record"
            " is processed, again only what was not committed, offsets never go back",
            size=5)  # fmt: skip
async def members_killed(stage: Stage) -> Seen:
    """Kill members while members and producer are our own clients."""
    words = [GROUP, TOPIC, str(SESSION_S), str(COMMIT_S)]
    return await killed_together(stage, "tests.chaos.group_member", words, every_s=EVERY_S)


async def killed_together(
    stage: Stage, module: str, words: list[str], *, every_s: float, produce: Produce | None = None
) -> Seen:
    """Kill a member and a leader together, over and over; a new member replaces each killed one.

    The next kill waits for a node that is not back yet: a partition keeps a majority. module,
    words: how to start a member.
    """
    watched = Watched()
    async with contextlib.AsyncExitStack() as until_read:
        async with flying(stage, produce) as flown:
            members = several(stage, MEMBERS, module, words)
            processes = until_read.enter_context(members)

            async def strike(stage: Stage, victim: LocalNode, partition: int) -> None:
                member = stage.arena.rng.choice(sorted(processes.running))
                watched.killed.append((member, time.monotonic()))
                processes.end(member)
                processes.begin()
                await kill_leader(stage, victim, partition)

            watching = asyncio.create_task(_watch(stage, watched))
            until_read.callback(watching.cancel)
            begun = time.monotonic()
            await _until(lambda: len(watched.committed) == PARTITIONS, "all are read")
            losses = await in_turn(stage, flown, strike, every_s=every_s)
            lasted_s = time.monotonic() - begun
        await _until(lambda: watched.has_all(flown), "all is committed")
    wrong, said = await _judged(watched, flown, processes)
    wrong += await judged(stage, flown)
    figures = (
        f"{lasted_s:.0f} s, {len(watched.killed)} members killed, {len(losses)} leaders lost;"
        f" {len(flown.places):,} records acknowledged, {said};"
        f" {sum(map(len, watched.committed.values())):,} looks at offsets"
    )
    return Seen(not wrong, figures, wrong)


async def _until(condition: Callable[[], bool], what: str) -> None:
    late = time.monotonic() + LATE_S
    while not condition():
        if time.monotonic() > late:
            raise TimeoutError(f"not in {LATE_S:.0f} s: {what}")
        await asyncio.sleep(POLL_S)
