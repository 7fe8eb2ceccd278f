"""Roles under all faults at once, by seed: never two leaders, and in the end one of each.

Clocks are off by 2 %, and T is as long as that allows. Requests and replies are late by up to three
sessions and overtake each other; processes are paused, are cut off, crash, leave; owners change,
also unnoticed by the former one; applied and other updates are answered with "unknown".
"""

import os
from random import Random

import pytest

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.services.group_document import group_of
from docstore.sessions.group_messages import Pulse, Reply, Request
from tests.docstore.sessions.members import World

SEEDS = int(os.environ.get("DOCSTORE_ROLE_SEEDS", "12"))
SESSION_S, ROUNDS = 3.0, 60
UNKNOWN = Answer(504, "undecided", "it may have happened", unknown=True)


class Chaos:
    """One world, and its faults."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        mode = "nonExclusive" if seed % 4 == 3 else "exclusive"
        rates = "".join(rng.choice("+-0") for _ in range(3))
        windows = {} if mode == "nonExclusive" else {"window_ms": 2_850}
        self.world = World(4, mode=mode, rates=rates, revoke_ms=2_000, **windows)  # type: ignore[arg-type]
        self.world.delays = self.delay
        self.world.sends = self.send
        self.world.entry = lambda: rng.choice(list(self.world.nodes.machines))
        self.world.nodes.answers = self.answer
        self.names = 0
        self.is_calm = False
        self.happened: set[str] = set()

    def delay(self, name: str, asked: Request, reply: Reply | None) -> float:
        """Let a reply be late: a fifth of them, and some of those very late."""
        return self._late_s(isinstance(asked, Pulse))

    def send(self, name: str, asked: Request) -> float:
        return self._late_s(isinstance(asked, Pulse))

    def _late_s(self, is_pulse: bool) -> float:
        if self.is_calm or self.rng.random() < 0.8:
            return 0.0
        return self.rng.uniform(0.0, 9.0 if is_pulse and self.rng.random() < 0.2 else 1.0)

    def answer(self, node: str, operation: Operation) -> Answer | None:
        if self.is_calm or operation.verb != "PATCH" or self.rng.random() < 0.8:
            return None
        is_applied = self.rng.random() < 0.5
        if is_applied:
            self.world.nodes.apply(operation)
        self.happened.add(f"unknown, {is_applied}")
        return UNKNOWN

    def start(self) -> None:
        self.names += 1
        name = f"p{self.names}_"
        process = self.world.start(name, rate=self.rng.choice("+-0"))
        process.revoke_s = self.rng.choice((0.0, 0.0, 0.5, 3.0))

    def strike(self) -> None:
        """Cause one fault."""
        world, rng = self.world, self.rng
        kind = rng.choice(("deaf", "pause", "crash", "leave", "govern", "secretly", "rest"))
        name = rng.choice(list(world.processes))
        process = world.processes[name]
        match kind:
            case "deaf":
                process.is_deaf = not process.is_deaf
            case "pause" if process.is_paused:
                world.resume(name)
            case "pause":
                world.pause(name)
            case "crash":
                world.crash(name)
            case "leave" if not process.is_paused:
                world.leave(name, drain=rng.random() < 0.5)
            case "govern":
                world.nodes.govern(rng.choice("abc"))
            case "secretly":
                world.nodes.govern(rng.choice("abc"), unnoticed_by=rng.choice("abc"))
            case _:
                pass
        self.happened.add(kind)
        while len(world.processes) < 3:
            self.start()

    def run(self) -> None:
        for _ in range(3):
            self.start()
        for _ in range(ROUNDS):
            self.world.run(self.rng.choice((0.1, 0.3, 0.5, 1.0, 3.0)))
            self.strike()
        self.calm()

    def calm(self) -> None:
        """Heal everything, and check that all partitions are led."""
        world = self.world
        self.is_calm = True
        for name in "abc":
            world.nodes.notice_owner(name)
        for name, process in list(world.processes.items()):
            process.is_deaf, process.revoke_s = False, 0.0
            if process.is_paused:
                world.resume(name)
        self.start()
        world.run(9.0 + 4 * SESSION_S)
        for partition in range(world.partitions):
            assert len(world.believers(str(partition))) == 1, partition
        assert world.group.phase == "Stable"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_i14_there_are_never_two_leaders_and_finally_one(seed: int) -> None:
    chaos = Chaos(seed)
    chaos.run()
    tokens: dict[str, int] = {}
    for _, row in chaos.world.nodes.decided:
        for partition, tenure in group_of(json.load(row.state)).tenure.items():
            known = tokens.get(partition, -1)
            assert tenure.token == known or known < tenure.token == row.version
            tokens[partition] = tenure.token
    machines = chaos.world.nodes.machines.values()
    refused = sum(node.core.counters["updates_refused"] for node in machines)
    assert refused == 0, "the coordinator wanted what its service does not let pass"
    assert max(tokens.values()) > 1, "something has moved"
