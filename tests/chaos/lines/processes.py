"""Processes of users beside the nodes: each reports its work in a file, and is ended by its id."""

import contextlib
import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.lines.stage import Stage

TAIL = 4096
"""Size of the end of a file that surely has the whole last line."""


@dataclass(slots=True)
class Processes:
    """Started processes, by name."""

    folder: Path
    module: str
    words: Sequence[str]
    """Arguments of each after its name."""
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def begin(self) -> str:
        """Start one more; return its name."""
        name = f"h{next(self._numbers)}"
        with (self.folder / f"{name}.txt").open("wb") as said:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", self.module, name, *self.words],
                stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
        return name

    def end(self, name: str) -> None:
        """Kill one."""
        process = self.running.pop(name)
        process.kill()  # Also one that is stopped.
        process.wait()

    def ended(self) -> list[str]:
        """Return those that have ended by themselves."""
        return [name for name, each in self.running.items() if each.poll() is not None]

    def said(self) -> dict[str, list[str]]:
        """Return all whole lines of each, also of ended ones."""
        files = sorted(self.folder.glob("*.txt"))
        return {each.stem: each.read_text().split("\n")[:-1] for each in files}

    def last(self, name: str) -> str:
        """Return the last whole line of one."""
        with (self.folder / f"{name}.txt").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            return file.read().decode().rpartition("\n")[0].rpartition("\n")[2]


@contextlib.contextmanager
def several(stage: Stage, count: int, module: str, words: Sequence[str]) -> Iterator[Processes]:
    """Start some, with the nodes' URLs as their last arguments; end all that run at the end."""
    folder = stage.arena.directory / module.rpartition(".")[2]
    folder.mkdir()
    urls = [node.url for node in stage.arena.members]
    processes = Processes(folder, module, [*words, *urls])
    try:
        for _ in range(count):
            processes.begin()
        yield processes
    finally:
        for name in list(processes.running):
            processes.end(name)


def crashes(said: dict[str, list[str]]) -> list[str]:
    """Return the last line of each process that ended by an error."""
    return [
        f"{name}: {lines[-1]}" for name, lines in said.items()
        if any(each.startswith("Traceback") for each in lines)
    ]  # fmt: skip
