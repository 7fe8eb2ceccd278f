"""Lines B10 and B16 with real processes on this machine, ours and kinship's by the same script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean, median

from bench import machine
from bench.gossip.figure import Figure

SCRIPT = Path(__file__).parent / "member.py"
ROOT = Path(__file__).parent.parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "docstore-bench"
POLL_S = 0.01


def kinship_python() -> str | None:
    """Return the Python of an environment with kinship, made if need be; None without one."""
    place = CACHE / "kinship"
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=True)
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "kinship"],
        check=False,
        capture_output=True,
        text=True,
    )
    probe = subprocess.run([python, "-c", "import kinship"], check=False, capture_output=True)
    if probe.returncode:
        print(f"kinship is not available: {installed.stderr.strip()[-300:]}")
        return None
    return str(python)


@dataclass
class Process:
    """A running member and the lines that it has written."""

    name: str
    popen: subprocess.Popen[bytes]
    lines: list[dict[str, object]] = field(default_factory=list)
    rest: bytes = b""

    def read(self) -> list[dict[str, object]]:
        """Return all lines so far."""
        assert self.popen.stdout is not None
        while chunk := _read(self.popen.stdout.fileno()):
            *whole, self.rest = (self.rest + chunk).split(b"\n")
            self.lines += [json.loads(line) for line in whole]
        return self.lines

    def heard(self, what: str, name: str) -> float | None:
        """Return when it heard this last, None if it did not."""
        times = [line["t"] for line in self.read() if (line["what"], line["name"]) == (what, name)]
        return float(str(times[-1])) if times else None

    def cpu_s(self) -> float:
        """Return the processor time used so far."""
        return machine.cpu_s(self.popen.pid)

    def rss_mib(self) -> float:
        """Return the memory in use."""
        return machine.rss_mib(self.popen.pid)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return b""


class Group:
    """Members of one kind on loopback ports."""

    def __init__(self, which: str, python: str, preset: str, port: int) -> None:
        self._which, self._python, self._preset, self._port = which, python, preset, port
        self.members: dict[str, Process] = {}

    def start(self, number: int) -> Process:
        """Start the member of that number; it joins through the first."""
        name = f"n{number}"
        arguments = [self._which, name, str(self._port + number), str(self._port), self._preset]
        popen = subprocess.Popen(
            [self._python, str(SCRIPT), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert popen.stdout is not None
        os.set_blocking(popen.stdout.fileno(), False)
        process = self.members[name] = Process(name, popen)
        return process

    def wait_joined(self, timeout_s: float = 60.0) -> None:
        """Return when every member has heard of every other."""
        names = set(self.members)
        deadline = time.monotonic() + timeout_s
        for member in self.members.values():
            while True:
                here = set()
                for line in member.read():
                    (here.add if line["what"] == "joined" else here.discard)(str(line["name"]))
                if names - {member.name} <= here:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{member.name} does not see {names - here}")
                time.sleep(POLL_S)

    def kill(self, name: str) -> tuple[float, float]:
        """Kill -9 one; return how long until the first and the last of the others know."""
        victim = self.members.pop(name)
        begun_s = time.time()
        victim.popen.kill()
        victim.popen.wait()
        deadline = time.monotonic() + 60.0
        while True:
            heard = [member.heard("dead", name) for member in self.members.values()]
            times = [at_s for at_s in heard if at_s is not None and at_s >= begun_s]
            if len(times) == len(self.members):
                return min(times) - begun_s, max(times) - begun_s
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {len(times)} of {len(self.members)} know of {name}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End all that run, each by its own id."""
        for member in self.members.values():
            member.popen.send_signal(signal.SIGCONT)
            member.popen.kill()
            member.popen.wait()
        self.members.clear()


@contextmanager
def running(which: str, python: str, preset: str, count: int, port: int) -> Iterator[Group]:
    """Start a group, wait until all know each other, and end it."""
    group = Group(which, python, preset, port)
    try:
        for number in range(count):
            group.start(number)
        group.wait_joined()
        yield group
    finally:
        group.stop()


def killed(which: str, python: str, preset: str, count: int, rounds: int, port: int) -> list[float]:
    """Return after how long the last of the others knew of each kill."""
    rng, took = Random(1), []
    with running(which, python, preset, count, port) as group:
        for _ in range(rounds):
            number = rng.randrange(1, count)
            took.append(group.kill(f"n{number}")[1])
            group.start(number)
            group.wait_joined()
    return took


def false_deaths(which: str, python: str, count: int, seconds: float, port: int) -> int:
    """Return how many live members were called dead while a fifth of all stuttered."""
    rng = Random(2)
    with running(which, python, "lan", count, port) as group:
        sick = [group.members[f"n{number}"] for number in range(1, 1 + count // 5)]
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            for member in sick:
                member.popen.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0.5, 2.5))
            for member in sick:
                member.popen.send_signal(signal.SIGCONT)
            time.sleep(rng.uniform(0.1, 0.5))
        names = {
            str(line["name"])
            for member in group.members.values()
            for line in member.read()
            if line["what"] == "dead"
        }
        return len(names)


def _loopback_bytes() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            return int(rest.split()[8])
    raise LookupError("there is no loopback interface")


def idle_cost(which: str, python: str, count: int, seconds: float, port: int) -> tuple[float, ...]:
    """Return CPU in percent of a core, bytes a second and MiB, per idle member."""
    with running(which, python, "lan", count, port) as group:
        time.sleep(5.0)
        members = list(group.members.values())
        cpu_s, sent = sum(member.cpu_s() for member in members), _loopback_bytes()
        time.sleep(seconds)
        cpu_s = sum(member.cpu_s() for member in members) - cpu_s
        sent = _loopback_bytes() - sent
        memory = mean(member.rss_mib() for member in members)
        return 100 * cpu_s / seconds / count, sent / seconds / count, memory


def real(*, short: bool, with_kinship: bool) -> list[Figure]:
    """Run everything that needs processes."""
    rival = kinship_python() if with_kinship else None
    kinds = [("ours", sys.executable, 23000)]
    if rival is not None:
        kinds.append(("kinship", rival, 24000))
    kills, count = (5, 8) if short else (10, 20)
    results: dict[str, dict[str, float]] = {}
    for which, python, port in kinds:
        small = killed(which, python, "loopback", 3, 5 if short else 50, port)
        large = killed(which, python, "lan", count, 1 if short else kills, port + 100)
        row = {
            "small_p50": median(small),
            "small_last": sorted(small)[-2] if len(small) > 2 else max(small),
            "large_p50": median(large),
            "large_max": max(large),
        }
        if not short:
            row["false"] = false_deaths(which, python, count, 40, port + 200)
            names = ("cpu", "bytes", "mib")
            row |= dict(zip(names, idle_cost(which, python, count, 30, port + 300), strict=True))
        results[which] = row
    return _figures(results, count)


def _figures(results: dict[str, dict[str, float]], count: int) -> list[Figure]:
    mine, rival = results["ours"], results.get("kinship", {})
    rows = [
        ("small_p50", "3 processes, loopback preset: kill -9 known to all, p50", "s", None),
        ("small_last", "   the greatest but one", "s", 1.0),
        ("large_p50", f"{count} processes, lan preset: kill -9 known to all, p50", "s", 10.6),
        ("large_max", "   the greatest", "s", 13.0),
        ("false", f"{count} processes, a fifth stopped on and off: false deaths in 40 s", "", 0.0),
        ("cpu", f"CPU of an idle member among {count}", "% of a core", 0.3),
        ("bytes", "bytes a second on the wire, with headers", "B/s", None),
        ("mib", "memory of a process", "MiB", None),
    ]
    return [
        Figure(
            "B10 real" if key.startswith(("small_", "large_")) else "B16 real",
            what, round(mine[key], 3), unit, "" if most is None else f"<= {most}",
            None if most is None else mine[key] <= most,
            round(rival[key], 3) if key in rival else None,
        )
        for key, what, unit, most in rows
        if key in mine
    ]  # fmt: skip
