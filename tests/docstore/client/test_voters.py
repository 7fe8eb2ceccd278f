"""The vote among three real processes: killed, stopped, started again."""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docstore.client.test_voting import members
from tests.source import ROOT


class Look(NamedTuple):
    """The state that a process printed."""

    leads: bool
    generation: int
    was_paused: bool


class Trio:
    """Three processes and the states that they printed."""

    def __init__(self, directory: Path) -> None:
        self.ports = [f"{name}={port}" for name, (_, port) in members().items()]
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.looks: dict[str, list[Look]] = {}
        self._selector = selectors.DefaultSelector()
        for name in "abc":
            self.start(name)

    def start(self, name: str) -> None:
        voter = Path(__file__).with_name("voter.py")
        self.processes[name] = process = subprocess.Popen(
            [sys.executable, str(voter), name, str(self.directory / name), *self.ports],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.looks[name] = []
        self._selector.register(process.stdout, selectors.EVENT_READ, name)  # type: ignore[arg-type]

    def kill(self, name: str) -> None:
        self._selector.unregister(self.processes[name].stdout)  # type: ignore[arg-type]
        self.processes[name].kill()
        self.processes[name].communicate()
        self.looks[name] = []

    def signal(self, name: str, what: signal.Signals) -> None:
        self.processes[name].send_signal(what)

    def read(self, within_s: float = 0.1) -> None:
        for key, _ in self._selector.select(within_s):
            for line in os.read(key.fd, 1 << 16).decode().splitlines():
                leads, generation, was_paused = line.split()
                look = Look(leads == "1", int(generation), was_paused == "1")
                self.looks[key.data].append(look)

    def leader(self, *, but: str = "") -> str:
        """Wait until a process other than `but` leads; return its name."""
        deadline = time.monotonic() + 30.0
        while True:
            self.read()
            for name, looks in self.looks.items():
                if name != but and looks and looks[-1].leads:
                    return name
            assert time.monotonic() < deadline, f"no process leads: {self.looks}"

    def generation(self, name: str) -> int:
        return self.looks[name][-1].generation


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    group = Trio(tmp_path_factory.mktemp("votes"))
    try:
        yield group
    finally:
        for name in group.processes:
            group.kill(name)
        group._selector.close()


def test_l01_another_process_leads_after_the_leader_is_killed(trio: Trio) -> None:
    old = trio.leader()
    generation = trio.generation(old)
    trio.kill(old)
    new = trio.leader()
    assert trio.generation(new) > generation
    # Scenario L06: it restarts with its stored generation, and follows.
    trio.start(old)
    while not trio.looks[old]:
        trio.read()
    assert trio.looks[old][0].generation >= generation
    assert not trio.looks[old][0].leads


def test_l13_a_paused_leader_does_not_lead_at_its_first_check(trio: Trio) -> None:
    old = trio.leader()
    generation = trio.generation(old)
    trio.signal(old, signal.SIGSTOP)
    try:
        new = trio.leader(but=old)
        assert trio.generation(new) > generation
        said = len(trio.looks[old])
    finally:
        trio.signal(old, signal.SIGCONT)
    while len(trio.looks[old]) == said:
        trio.read()
    first = trio.looks[old][said]
    assert first.was_paused
    assert not first.leads
