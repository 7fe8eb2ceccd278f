"""Users' processes hold leases, locks, elections and roles of whole nodes, while both fail.

    python -m tests.whole.sessions [--seed S] [--seeds N] [--without RULE]

No two processes believe in the same thing at one instant of true time; no lease ends within one TTL
after its last request that was answered with OK was sent; tokens of guarded documents do not fall;
queues lose no candidate; documents attached to a lease end with it, and not before.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping
from contextvars import Context
from random import Random
from typing import Any
from unittest.mock import patch

from docstore.sessions import holder
from docstore.sessions.holder import Holder
from tests.sim.clocks import RATE_ERROR
from tests.sim.sessions_ablations import RULES
from tests.sim.taken_away import Ablation, changed
from tests.whole.faults import KINDS
from tests.whole.run import FAULTS_S, PORT, Outcome, Run, run
from tests.whole.sessions_faults import OF_PROCESSES, SessionNemesis
from tests.whole.tenants import COUNT, ROLES, Electing, Leading, Leasing, Locking, Process
from tests.whole.witness import Witness

TIGHT = (1.0 - RATE_ERROR) / (1.0 + RATE_ERROR) * 0.999
"""Share of the TTL for which a proof may hold by such clocks, at the most. A release takes 2/3."""
SETTLED_S = 10.0
"""By then, after healing, all that is wanted has a holder. A client waits for 5 s at most."""
ENDING_S = 8.0
"""Time for processes to end by themselves, and for leases of those that were killed to end."""
SWEPT_S = 70.0
"""At this time after the end of a lease no document names it any more."""

KINDS_OF_PROCESSES = (
    (Locking, Locking, Locking, Electing, Electing, Leasing),
    (Leading, Leading, Leading, Locking, Locking, Leasing, Leasing),
)
"""One of them in each run."""


class Sessions(Run):
    """A few processes of some kinds, on three or five nodes."""

    kinds: tuple[str, ...] = (*KINDS, "isolate", "power", *OF_PROCESSES, *OF_PROCESSES)
    """Kinds of faults."""
    lasting: tuple[float, ...] = (0.2, 0.5, 1.2, 2.0)
    """Durations of faults, in times to live."""
    every_s = 1.2
    """Greatest number of seconds between two faults."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.ttl_s = self.rng.choice((0.8, 1.5, 2.5))
        self.urls = [f"http://{host.address}:{PORT}" for host in self.hosts]
        for host in self.hosts:
            host.rate = self.rate()
        self.witness = Witness(self, self.ttl_s)
        self.won: dict[str, float] = {}
        """Exclusive thing -> when a holder last won it, or acted on it."""
        kinds = self.rng.choice(KINDS_OF_PROCESSES)
        self.processes: list[Process] = [
            kind(f"p{number}", f"10.0.1.{number}", self) for number, kind in enumerate(kinds, 1)
        ]

    def rate(self) -> float:
        """Return the rate of a clock: the extremes that rules must tolerate are drawn often."""
        return 1.0 + RATE_ERROR * self.rng.choice((-1.0, 1.0, 0.0, self.rng.uniform(-1.0, 1.0)))

    @property
    def operations(self) -> int:
        return sum(len(rows) for rows in self.witness.of.versions.values())

    @property
    def story(self) -> Any:
        return self.witness.of.versions

    def bury(self) -> None:
        """Drop the processes as well, and all references to them."""
        for process in self.processes:
            process.kill()
        del self.processes, self.witness, self.network, self.loop.network
        super().bury()

    # The course of a run

    async def main(self) -> None:
        with self.witness.listening(), patch.object(holder, "WINDOW", TIGHT):
            for host in self.hosts:
                self.start(host)
            await self._prepare()
            for process in self.processes:
                process.start()
            await self._suffer()
            if not self.outcome.problems:
                await asyncio.sleep(SETTLED_S)
                self._judge_settled()
                await self._end()
                await asyncio.sleep(SWEPT_S + ENDING_S)
                self.outcome.stuck += self.witness.of.unswept(SWEPT_S)
            self.outcome.counters.update(self.witness.of.checked)

    async def _suffer(self) -> None:
        nemesis = SessionNemesis(self)
        nemesis.kinds, nemesis.every_s = self.kinds, self.every_s
        meddling = asyncio.create_task(self._meddle(Random(self.rng.random())))
        striking = asyncio.create_task(nemesis.run())
        while self.loop.now < FAULTS_S and not self.outcome.problems:
            await asyncio.sleep(0.2)
        nemesis.over = True
        await asyncio.gather(striking, meddling)
        nemesis.heal()

    async def _prepare(self) -> None:
        """Declare factories, and roles with times as tight as these clocks allow."""
        session_ms = int(self.ttl_s * 1000)
        roles = {
            "name": ROLES, "partitions": COUNT, "sessionMs": session_ms,
            "windowMs": int(session_ms * TIGHT), "heartbeatMs": session_ms // 8,
            "revokeMs": session_ms,
        }  # fmt: skip
        await self._declared()
        for path, body in (
            ("/core/factories", {"path": "/a"}),
            ("/core/factories", {"path": "/t"}),
            ("/core/roles", roles),
        ):
            status, page = 0, None
            while status not in (200, 201, 409):
                status, page = await self._told(self.hosts[0], "POST", path, body)
                assert status in (0, 200, 201, 409, 503), page
                await asyncio.sleep(0.05)

    async def _meddle(self, rng: Random) -> None:
        """Write and delete guarded documents without a fence, as any client may."""
        while self.loop.now < FAULTS_S and not self.outcome.problems:
            verb, body = rng.choice((("PUT", {"by": "anybody"}), ("DELETE", None)))
            await self._told(rng.choice(self.hosts), verb, f"/t/{rng.randrange(2)}", body)
            await asyncio.sleep(rng.random())

    def write_late(self, link: str, fence: str, late_s: float) -> None:
        """Delay a write, which arrives even if its sender is gone."""
        # No life: it is on its way already.
        self.keep(self.loop.create_task(self._write(link, fence, late_s), context=Context()))

    async def _write(self, link: str, fence: str, late_s: float) -> None:
        await asyncio.sleep(late_s)
        headers = {"Docstore-Timeout-Ms": "2000", "Fence": fence}
        host = self.rng.choice(self.hosts)
        try:
            async with asyncio.timeout(3.0):
                status, _, page = await self._ask(host, "PUT", link, {"by": fence}, headers)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return
        if status == 409 and page["errorCode"] == "fenced":
            self.witness.of.count("fences refused")

    def _judge_settled(self) -> None:
        """Check that all that is wanted has a holder."""
        wanted = {each for process in self.processes for each in process.things()}
        had = {each for process in self.processes if process.up for each in process.beliefs()}
        for thing in sorted(wanted - had):
            if self.won.get(thing, 0.0) < self.loop.now - SETTLED_S:
                self.outcome.stuck.append(f"no process has {thing}")

    async def _end(self) -> None:
        """Ask half of all processes to end; kill the others, and those that do not end."""
        for process in self.processes:
            process.is_over = True
            if self.rng.random() < 0.5:
                process.kill()
        await asyncio.sleep(ENDING_S)
        for process in self.processes:
            process.kill()


# Removed rules, which must be noticed

_answered: Callable[..., Any] = Holder.answered


def _stamped_at_receipt(self: Holder, asked: Any, *, stamp: float, now: float, **more: Any) -> Any:
    return _answered(self, asked, stamp=now, now=now, **more)


class Late(Sessions):
    """Answers arrive late, and then none arrives any more."""

    kinds = ("late",)


class Deposed(Sessions):
    """Owners are cut off, and continue to believe that they own."""

    kinds = ("isolate", "isolate", "pause")
    lasting = (1.5, 2.0)
    every_s = 4.0


WITHOUT: Mapping[str, tuple[type[Sessions], Ablation]] = {
    "stamped-at-receipt": (Late, Ablation("H1", ((Holder, "answered", _stamped_at_receipt),))),
    "ended-under-any-reign": (Deposed, RULES["ended-under-any-reign"]),
    "answered-from-memory": (Deposed, RULES["answered-from-memory"]),
    "fences-not-carried": (Sessions, RULES["fences-not-carried"]),
}
"""Rule -> (kind of run without it, replacements)."""


def run_without(rule: str, seed: int) -> Outcome:
    """Run a seed without a rule."""
    kind, ablation = WITHOUT[rule]
    with changed(ablation):
        return run(seed, kind)


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.whole.sessions", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--without", choices=sorted(WITHOUT))
    arguments = parser.parse_args()
    bad = 0
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        rule = arguments.without
        outcome = run_without(rule, seed) if rule else run(seed, Sessions)
        found = [*outcome.problems, *outcome.stuck]
        bad += bool(found)
        print(f"seed {seed}: {found or outcome.operations}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
