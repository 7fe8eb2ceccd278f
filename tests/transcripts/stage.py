"""Three whole nodes in virtual time, on a network and disks with constant delays."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Collection
from contextvars import Context
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from random import Random
from typing import Any

from docstore.model.slots import slot_of
from docstore.runtime.trace.lines import (
    NOTHING,
    TraceFilter,
    effects_of,
    facts_of,
    is_about,
    items_of,
    said,
)
from docstore.runtime.trace.recorder import Kept, Step
from tests.whole.run import PORT, Host, Run, run

SLOTS = 4
SETTLED_S = 1.0
"""After this long in virtual time every message of a part has arrived."""
ANSWERED_S = 0.05
"""After this long in virtual time the messages that follow an answer have arrived."""
GAP_S = 0.1
"""A transcript shows how much time passes between two steps from here on."""
NOISE = frozenset({"Tick", "TurnEnded", "Heartbeat", "Follow", "NeedsRead", "Persisted", "Kept"})
"""Kinds that are left out where they are all that a step has."""
Play = Callable[["Stage"], Awaitable[None]]


@dataclass(frozen=True)
class Scene:
    """A behaviour: the name of its file, and the function that plays it."""

    name: str
    play: Play
    size: int


SCENES: dict[str, Scene] = {}


def scene(name: str, *, size: int = 3) -> Callable[[Play], Play]:
    """Enter a behaviour. size: nodes of its group. The docstring heads the transcript."""

    def enter(play: Play) -> Play:
        assert play.__doc__, f"{name} does not say what it shows"
        SCENES[name] = Scene(name, play, size)
        return play

    return enter


class Steady(Random):
    """Chance for delays and losses: always the middle of what is possible."""

    def random(self) -> float:
        return 0.5


class Stage(Run):
    """The world of a scene."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        super().__init__(0, directory)
        self.scene, self.factor = scene, 3
        self.hosts = [Host(f"n{number}", self) for number in range(1, scene.size + 1)]
        self.founders = self.founders_of(self.hosts)
        self.rng = self.network.rng = Steady(0)
        self.lines = cleandoc(scene.play.__doc__ or "").splitlines()
        self._shown, self._last_s = 0, 0.0
        self._steps: list[tuple[str, str, Step]] = []

    async def main(self) -> None:
        for host in self.hosts:
            self.start(host)
        await self._declared()
        await self.sleep()
        await self.scene.play(self)

    # Steps of a scene

    def host(self, name: str) -> Host:
        """Return the machine of a node."""
        return next(host for host in self.hosts if host.name == name)

    async def sleep(self, seconds: float = SETTLED_S) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    async def link_of(self, owner: str) -> str:
        """Return the link of a document that does not exist, in a slot that this node owns."""
        for number in range(100):
            probe = f"/notes/probe-{number}"
            await self.quietly(owner, "PUT", probe, {})
            _, page = await self.quietly(owner, "GET", probe)
            if page["documentOwner"] == owner:
                slot = slot_of(probe, SLOTS)
                return next(
                    f"/notes/{n}" for n in range(100) if slot_of(f"/notes/{n}", SLOTS) == slot
                )
        raise AssertionError(f"{owner} owns no slot")

    async def quietly(self, at: str, verb: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request that the transcript does not show."""
        return await self._told(self.host(at), verb, path, body)

    async def ask(
        self, at: str, verb: str, path: str, body: Any = None, *,
        about: TraceFilter | None = None, machines: Collection[str] = ("documents",),
        members: Collection[str] = (), **headers: str,
    ) -> dict[str, str]:  # fmt: skip
        """Write down a request, the steps that it led to, and its answer.

        about: which steps, those of the path's slot by default. members: those of the answer that
        are written down. Returns the headers of the answer.
        """
        self.skip()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        words = [f"client to {at}: {verb} {path}"]
        words += [body.decode() if isinstance(body, bytes) else json.dumps(body)] if body else []
        self.lines += ["", " ".join([*words, *(f"({k}: {v})" for k, v in named.items())])]
        status, returned, page = await self._ask(self.host(at), verb, path, body, named)
        await self.sleep(ANSWERED_S)
        self.show(
            TraceFilter(slot_of(path, SLOTS), SLOTS, path) if about is None else about, machines
        )
        page = page if isinstance(page, dict) else {}
        words = [f"client: {status}", *([page["errorCode"]] if "errorCode" in page else [])]
        named = {name: page[name] for name in members if name in page}
        self.lines.append(" ".join([*words, *([json.dumps(named)] if named else [])]))
        return returned

    def say(self, text: str) -> None:
        """Write down what the scene does next."""
        self.skip()
        self.lines += ["", text]

    def kill(self, name: str) -> None:
        """End the process of a node as SIGKILL does."""
        self.say(f"{name} is killed")
        self.host(name).end()

    def begin(self, name: str) -> None:
        """Start a node that was killed, on its disk."""
        self.say(f"{name} starts again")
        self.start(self.host(name))

    async def join(self, name: str, about: TraceFilter) -> None:
        """Start a node that is to be taken into the group, and ask the group to take it in."""
        host = Host(name, self)
        host.store_id = f"{0:031}{name[1:]}"
        self.hosts.append(host)
        host.start((), self.factor, (f"http://{self.hosts[0].address}:{PORT}",))
        await self.sleep()
        member = {"id": name, "storeId": host.store_id, "address": f"http://{host.address}:{PORT}"}
        body = {"kind": "AddMemberRequest", "member": member}
        await self.ask("n1", "PATCH", "/core/node-groups/default", body, about=about)

    def cut(self, one: Collection[str], other: Collection[str], *, both: bool = True) -> None:
        """Hold everything that these nodes send to those. both: and those to these."""
        self.say(f"{', '.join(one)} {'and' if both else 'to'} {', '.join(other)}: cut")
        address = {host.name: host.address for host in self.hosts}
        pairs = {(address[a], address[b]) for a in one for b in other}
        self.network.cut(pairs | ({(b, a) for a, b in pairs} if both else set()))

    def mend(self) -> None:
        """Let all links be good again. Connections that hung break."""
        cuts = set(self.network.cuts)
        for pair in sorted(cuts):
            self.network.reset(set(pair))
        self.network.mend(cuts)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call this after a while, of virtual time, in the world of no node."""
        self.loop.call_later(seconds, call, context=Context())

    def slot(self, link: str) -> TraceFilter:
        """Return the filter of steps for a document's slot."""
        return TraceFilter(slot_of(link, SLOTS), SLOTS)

    # Steps of the recorders

    def _gather(self) -> list[tuple[str, str, Step]]:
        """Return (node, machine, step) of all steps since the last that was shown, in order."""
        found = []
        for host in self.hosts:
            if host.node is None or (running := host.node.gate.running) is None:
                continue
            for machine, recorder in running.trace.recorders.items():
                found += [(host.name, machine, step) for step in recorder.steps()]
        return sorted(found, key=lambda each: each[2].number)

    def skip(self) -> None:
        """Leave out what happened since the last step that was shown."""
        steps = self._gather()
        self._shown = max([self._shown, *(step.number for _, _, step in steps)])

    def show(
        self,
        about: TraceFilter = NOTHING,
        machines: Collection[str] = ("documents",),
        kinds: Collection[str] = (),
    ) -> None:
        """Write down the steps since the last that was shown, of these machines.

        kinds: only steps with one of these, and of their effects only these.
        """
        for node, machine, step in self._gather():
            if step.number <= self._shown or machine not in machines:
                continue
            if (about != NOTHING and not is_about(step, about)) or not _says_more(step, kinds):
                continue
            if step.at - self._last_s >= GAP_S:
                self.lines.append(f"    ({step.at - self._last_s:.1f} s)")
            self._last_s = step.at
            concerned = [each for each in step.effects if _concerns(each, about, kinds)]
            self.lines.append(f"  {node} {machine}: {_plain(said(step.event, 'from', about))}")
            for effect in effects_of(step._replace(effects=concerned), about):
                self.lines.append(f"       -> {_plain(effect)}")
        self.skip()


def _plain(text: str) -> str:
    """Leave out numbers by which a node finds its own requests again."""
    text = re.sub(r"@[0-9a-f]{8}-[-0-9a-f]+", "", text)  # The incarnation of a topic.
    text = re.sub(r"\b(?:token|request|boot|trace|round|number|id)=[^] ]+ ?", "", text)
    return text.removesuffix("[").rstrip()


def _says_more(step: Step, kinds: Collection[str]) -> bool:
    names = {brief[0].name for _, brief in (step.event, *step.effects)}
    return bool(names & set(kinds)) if kinds else not names <= NOISE


def _concerns(effect: Kept, about: TraceFilter, kinds: Collection[str]) -> bool:
    """Say whether an effect names a shown slot or partition, or none at all."""
    named = [facts_of(effect[1]), *items_of(effect[1])]
    of_its_sort = [each for each in named if each.keys() & {"slot", "link", "partition"}]
    if kinds and effect[1][0].name not in kinds:
        return False
    return about == NOTHING or not of_its_sort or any(map(about.is_met, of_its_sort))


def _folded(lines: list[str]) -> list[str]:
    """Write steps that are repeated word for word once."""
    folded: list[str] = []
    for length in (1, 3):
        folded, rest = [], lines
        while rest:
            block, count = rest[:length], 1
            while any(block) and rest[count * length : (count + 1) * length] == block:
                count += 1
            if count > 1:
                folded += [*block, f"    (the same {count - 1} more times)"]
                rest = rest[count * length :]
            else:
                folded.append(rest[0])
                rest = rest[1:]
        lines = folded
    return folded


def transcript(scene: Scene) -> str:
    """Return the text of a scene."""
    stages: list[Stage] = []

    def world(_: int, directory: Path) -> Stage:
        stages.append(Stage(scene, directory))
        return stages[0]

    outcome = run(0, world)
    assert not outcome.problems + outcome.stuck, (scene.name, outcome.problems, outcome.stuck)
    return "\n".join([*_folded(stages[0].lines), ""])
