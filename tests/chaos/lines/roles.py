"""Exclusive roles whose holders are killed and stopped: line E3."""

import asyncio
import itertools
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from docstore.client import Client
from tests.chaos.lines.processes import Processes, crashes, several
from tests.chaos.lines.stage import Seen, Stage, line
from tests.chaos.mix import FACTORY

ROLES, MEMBERS, SESSION_S = 3, 3, 1.0
NEXT_S, ASLEEP_S = SESSION_S + 0.5, 3 * SESSION_S
KILLS, STOPS = 100, 10
GUARDED = f"{FACTORY}/role"
LATE_S, POLL_S = 30.0, 0.02


class Look(NamedTuple):
    """One look of one process, somewhere between two moments; a token or 0 for each role."""

    before: float
    after: float
    tokens: Sequence[int]


class Span(NamedTuple):
    """A time in which a process surely led, under one token."""

    since: float
    until: float
    token: int
    name: str


def boot_time() -> float:
    """Return the clock that the processes print."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def look_of(said: str) -> Look | None:
    """Return the look that a line reports; None for other lines."""
    words = said.split()
    if len(words) != 2 + ROLES or not words[2].isdecimal():
        return None
    return Look(float(words[0]), float(words[1]), [int(each) for each in words[2:]])


@dataclass(slots=True)
class Acting:
    """Processes that share the roles, and their faults."""

    stage: Stage
    store: Client
    processes: Processes
    killed: list[tuple[str, float]] = field(default_factory=list)
    """(name, moment)."""
    resumed: list[tuple[str, float]] = field(default_factory=list)

    def leader(self, role: int, but: str = "") -> str:
        """Return a process, not `but`, whose last look says that it leads a role; "" for none."""
        for name in self.processes.running:
            look = look_of(self.processes.last(name))
            if look is not None and look.tokens[role] and name != but:
                return name
        return ""

    def looked(self, name: str, since: float) -> bool:
        """Say whether the last line of a process is of a look after that moment."""
        look = look_of(self.processes.last(name))
        return look is not None and look.before >= since

    def is_settled(self) -> bool:
        """Say whether each process leads, and each role is led."""
        leaders = {self.leader(role) for role in range(ROLES)}
        return leaders == set(self.processes.running)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when it holds. Raises TimeoutError."""
        late = time.monotonic() + LATE_S
        while not condition():
            if time.monotonic() > late:
                last = {name: self.processes.last(name) for name in self.processes.running}
                raise TimeoutError(f"not {what}: {last}; ended: {self.processes.ended()}")
            await asyncio.sleep(POLL_S)

    async def victim(self, role: int) -> str:
        """Return the leader of a role, some time after all is settled."""
        while True:
            await self.until(self.is_settled, "settled")
            await asyncio.sleep(self.stage.arena.rng.uniform(0.1, 0.5))
            if self.is_settled():
                return self.leader(role)


async def _kill(acting: Acting, role: int) -> None:
    victim = await acting.victim(role)
    acting.killed.append((victim, boot_time()))
    acting.processes.end(victim)
    await acting.until(lambda: bool(acting.leader(role)), f"role {role} led after {victim}")
    acting.processes.begin()


async def _stop(acting: Acting, role: int) -> None:
    """Pause the leader for three sessions; resume it when its successor has written."""
    victim = await acting.victim(role)
    process, look = acting.processes.running[victim], look_of(acting.processes.last(victim))
    assert look is not None
    process.send_signal(signal.SIGSTOP)
    wakes = time.monotonic() + ASLEEP_S
    await acting.until(lambda: bool(acting.leader(role, but=victim)), f"role {role} led meanwhile")
    async with asyncio.timeout(LATE_S):
        while (await acting.store.get(f"{GUARDED}-{role}")).value["by"] <= look.tokens[role]:
            await asyncio.sleep(POLL_S)
    await asyncio.sleep(wakes - time.monotonic())
    at = boot_time()
    acting.resumed.append((victim, at))
    process.send_signal(signal.SIGCONT)
    await acting.until(lambda: acting.looked(victim, at), f"{victim} awake")


# Checks at the end


def spans(looks: Mapping[str, Sequence[Look]], role: int) -> list[Span]:
    """Return all tenures of a role as far as they were seen, in order of their beginnings.

    A process that led at two looks under one token has led in between: no other one gets it.
    """
    found: dict[tuple[str, int], Span] = {}
    for name, its in looks.items():
        for look in its:
            if token := look.tokens[role]:
                span = found.setdefault((name, token), Span(look.after, look.before, token, name))
                found[name, token] = span._replace(until=look.before)
    return sorted(found.values())


def overlaps(tenures: Sequence[Span]) -> Iterator[str]:
    """Yield tenures that overlap, or whose token is not greater than those before."""
    for before, after in itertools.pairwise(tenures):
        if after.since <= before.until or after.token <= before.token:
            yield f"{after} after {before}"


def _waits(acting: Acting, looks: Mapping[str, Sequence[Look]]) -> list[float]:
    """Return how long after each kill another process led the roles of the killed one."""
    waits = []
    for victim, at in acting.killed:
        last = looks[victim][-1]
        for role in (each for each in range(ROLES) if last.tokens[each]):
            later = (
                look.after - at for name, its in looks.items() if name != victim
                for look in its if look.before > at and look.tokens[role]
            )  # fmt: skip
            waits.append(min(later, default=LATE_S))
    return sorted(waits)


def believers(
    resumed: Sequence[tuple[str, float]], looks: Mapping[str, Sequence[Look]]
) -> Iterator[str]:
    """Yield the processes that believed to lead at the first look after a pause."""
    for name, at in resumed:
        first = next(look for look in looks[name] if look.before >= at)
        if any(first.tokens):
            yield f"{name} woke up at {at} and said {first}"


async def _written(acting: Acting) -> list[str]:
    """Return the writes to guarded documents of processes whose tenure was over."""
    wrong = []
    for role in range(ROLES):
        history = list(reversed(await acting.store.history(f"{GUARDED}-{role}")))
        wrong += [f"late: {each}" for each in history if each["late"]]
        wrong += [
            f"{after} after {before}" for before, after in itertools.pairwise(history)
            if after["by"] < before["by"]
        ]  # fmt: skip
    return wrong


async def _judged(acting: Acting) -> tuple[list[str], dict[str, list[Look]]]:
    said = acting.processes.said()
    looks: dict[str, list[Look]] = defaultdict(list)
    for name, lines in said.items():
        looks[name] = [look for each in lines if (look := look_of(each)) is not None]
    wrong = [*crashes(said), *believers(acting.resumed, looks), *await _written(acting)]
    for role in range(ROLES):
        wrong += overlaps(spans(looks, role))
    return wrong, looks


@line("E3", "exclusive roles whose holders are killed: others lead within the session (1 s) and"
            " 500 ms, one outlier allowed; one that slept for 3 s says no at its first look, its"
            " late write is refused and changes nothing; never do two lead at one moment",
            size=3)  # fmt: skip
async def holders_killed_and_stopped(stage: Stage) -> Seen:
    """Kill leaders, over and over, and pause some in between."""
    words = [str(SESSION_S), str(ROLES), GUARDED]
    kills, stops = stage.share_of(KILLS), stage.share_of(STOPS)
    async with Client([node.url for node in stage.arena.members]) as store:
        with several(stage, MEMBERS, "tests.chaos.role_member", words) as processes:
            acting = Acting(stage, store, processes)
            for number in range(kills):
                await _kill(acting, number % ROLES)
                if (number + 1) * stops // kills > number * stops // kills:
                    await _stop(acting, (number + 1) % ROLES)
            await acting.until(acting.is_settled, "settled")
        wrong, looks = await _judged(acting)
        said = itertools.chain.from_iterable(processes.said().values())
    late = [each for each in said if each.startswith("late")]
    refused, waits = late.count("late 409"), _waits(acting, looks)
    figures = (
        f"{kills} kills: others led after {waits[len(waits) // 2]:.2f} s, {waits[-1]:.2f} s at"
        f" most; {len(acting.resumed)} slept, {refused} of {len(late)} late writes refused;"
        f" {sum(map(len, looks.values())):,} looks"
    )
    was_late = sum(each > NEXT_S for each in waits) > 1
    return Seen(not wrong and not was_late and refused == len(late) == stops, figures, wrong)
