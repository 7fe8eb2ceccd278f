"""Lines B2, B6 to B10, B14, B15: whole groups in virtual time, on the core that runs in production.

Sources: Lifeguard (Dadgar, Phillips and Currey, 2017), its tables; the README of kinship 0.4 for
its grid; SWIM (2002), Figure 2.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from statistics import mean, median

from bench.gossip.figure import Figure, Plot, Series
from gossip import Config, State
from gossip.security.seal import SEAL_BYTES
from tests.gossip.world import World

LAN = Config.lan()
LIFEGUARD_ALPHA5 = dataclasses.replace(LAN, suspicion_mult=5)
PLAIN = {"health_max": 0, "suspicion_max_mult": 1, "buddy_rule": False}
CONFIGURATIONS = {
    "SWIM": dataclasses.replace(LIFEGUARD_ALPHA5, **PLAIN),
    "LHA-Probe only": dataclasses.replace(LIFEGUARD_ALPHA5, **{**PLAIN, "health_max": 8}),
    "LHA-Suspicion only": dataclasses.replace(
        LIFEGUARD_ALPHA5, **{**PLAIN, "suspicion_max_mult": 6}
    ),
    "Buddy only": dataclasses.replace(LIFEGUARD_ALPHA5, **{**PLAIN, "buddy_rule": True}),
    "Lifeguard": LIFEGUARD_ALPHA5,
}
SWIM_LAN = dataclasses.replace(LAN, **PLAIN)


def quantile(values: Iterable[float], part: float) -> float:
    """Return the value that `part` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def group(seed: int, count: int, config: Config = LAN, *, codec: bool = False) -> World:
    """Return a group that knows each other and has run for a few seconds."""
    world = World(seed, config, codec=codec)
    world.oracles.whole_every = 5_000
    world.start_acquainted(count, seeds=("n0",))
    world.run(3)
    return world


def bytes_of(world: World) -> int:
    """Return all that was sent so far, over datagrams and streams."""
    return sum(node.bytes_sent + node.stream_bytes_sent for node in world.everyone)


def b2(seed: int, *, short: bool) -> list[Figure]:
    """Messages sent per member and period, when nothing fails."""
    found = []
    for size in (8, 28, 56):
        world = group(seed, size)
        before = world.datagrams
        world.run(40)
        load = (world.datagrams - before) / size / 40
        found.append(
            Figure(
                "B2", f"messages per member and period, {size} members", round(load, 3), "",
                "2.00 +- 0.05", abs(load - 2) <= 0.05, published="SWIM Fig. 2: about 2.0",
            )
        )  # fmt: skip
    return found


def anomalous(
    seed: int, config: Config, count: int, ill: int, block_s: float, gap_s: float
) -> World:
    """Two minutes in which `ill` members block for `block_s`, run for `gap_s`, and so on."""
    world = World(seed, config, codec=True)
    world.oracles.whole_every = 50_000
    world.start_acquainted(count, seeds=("n0",))
    names = [f"n{number}" for number in range(count - ill, count)]

    def block(name: str) -> None:
        world.block(name)
        world.at(world.now + block_s, lambda: unblock(name))

    def unblock(name: str) -> None:
        world.unblock(name)
        world.at(world.now + gap_s, lambda: block(name))

    for name in names:
        world.at(5.0, lambda name=name: block(name))
    world.run(125)
    return world


PUBLISHED_B6 = {
    "SWIM": 100.0,
    "LHA-Probe only": 67.72,
    "LHA-Suspicion only": 3.0,
    "Buddy only": 94.08,
    "Lifeguard": 1.53,
}
Cell = tuple[int, float, float]
"""Ill members, seconds that they block, seconds that they run in between."""
CELLS_SHORT: list[Cell] = [(4, 8.192, 0.256), (16, 8.192, 0.064)]
CELLS: list[Cell] = [(4, 8.192, 0.256), (16, 8.192, 0.064), (32, 16.384, 0.064)]


@dataclass(slots=True)
class Toll:
    """The costs of one configuration over all cells."""

    false: int = 0
    at_healthy: int = 0
    datagrams: int = 0
    sent: int = 0

    def add(self, world: World, sick: set[str]) -> None:
        """Count one run."""
        wrong = [member for _, member, about in world.changes_to(State.DEAD) if about not in sick]
        self.false += len(wrong)
        self.at_healthy += sum(member not in sick for member in wrong)
        self.datagrams += world.datagrams
        self.sent += bytes_of(world)


def tolls(seed: int, size: int, cells: list[Cell]) -> dict[str, Toll]:
    """Run every configuration over all cells."""
    found = {}
    for name, config in CONFIGURATIONS.items():
        found[name] = Toll()
        for number, (ill, block_s, gap_s) in enumerate(cells):
            world = anomalous(seed + number, config, size, ill, block_s, gap_s)
            found[name].add(world, {f"n{each}" for each in range(size - ill, size)})
    return found


def b6(seed: int, *, short: bool) -> tuple[list[Figure], Plot]:
    """Lifeguard's false positives and load, its three parts apart and together."""
    all_tolls = tolls(seed, 64 if short else 128, CELLS_SHORT if short else CELLS)
    swim, whole = all_tolls["SWIM"], all_tolls["Lifeguard"]
    found = []
    for name, toll in all_tolls.items():
        part = 100 * toll.false / max(1, swim.false)
        goal = ("<= 5 %", part <= 5) if toll is whole else ("", None)
        published = f"Lifeguard: {PUBLISHED_B6[name]} %, here {toll.false}"
        what = f"false positives, {name}"
        found.append(Figure("B6", what, round(part, 2), "% of SWIM's", *goal, published=published))
    healthy = 100 * whole.at_healthy / max(1, swim.at_healthy)
    load, volume = whole.datagrams / swim.datagrams, whole.sent / swim.sent
    found += [
        Figure("B6", "false positives at healthy members", round(healthy, 2), "% of SWIM's",
               "<= 5 %", healthy <= 5, published="Lifeguard: 1.89 %"),
        Figure("B6", "messages", round(load, 3), "x SWIM's", "<= 1.15", load <= 1.15,
               published="Lifeguard: 1.106"),
        Figure("B6", "bytes", round(volume, 3), "x SWIM's", "<= 1.10", volume <= 1.10,
               published="Lifeguard: 0.980"),
    ]  # fmt: skip
    points = [(float(index), float(toll.false)) for index, toll in enumerate(all_tolls.values())]
    return found, Plot(
        "gossip-lifeguard", "False positives: " + ", ".join(all_tolls), "configuration",
        "false positives", [Series("measured", points)],
    )  # fmt: skip


def crash_s(seed: int, count: int, config: Config, *, loss: float = 0.0) -> tuple[float, float]:
    """Return when the first and when the last of all learn of one crash."""
    world = group(seed, count, config)
    world.network.loss = loss
    begun_s = world.now
    name = f"n{count // 2}"
    world.unplug(name)
    world.run_until(lambda: world.all_see({name: State.DEAD}), within_s=90, every_s=0.25)
    times_s = [at_s for at_s, _, about in world.changes_to(State.DEAD) if about == name]
    return min(times_s) - begun_s, max(times_s) - begun_s


def b7(seed: int, *, short: bool) -> list[Figure]:
    """Return how much latency a shorter suspicion saves."""
    runs = 8 if short else 40
    latency = {
        alpha: median(
            crash_s(seed + run, 128, dataclasses.replace(LAN, suspicion_mult=alpha))[1]
            for run in range(runs)
        )
        for alpha in (2, 4, 5)
    }
    part = 100 * latency[2] / latency[5]
    middle = 100 * latency[4] / latency[5]
    return [
        Figure("B7", "latency, alpha = 2", round(part, 1), "% of alpha = 5", "50 to 65 %",
               50 <= part <= 65, published="Lifeguard: 56.8 %"),
        Figure("B7", "latency, alpha = 4", round(middle, 1), "% of alpha = 5", "",
               published="Lifeguard: 84.5 %"),
    ]  # fmt: skip


def starved(
    seed: int, count: int, ill: int, loss: float, config: Config
) -> tuple[int, list[float]]:
    """Return false deaths, and after how long each member learnt of the crash: kinship's cell.

    A false death counts once for each member and incarnation.
    """
    world = group(seed, count, config)
    world.network.loss = loss
    world.network.starved |= {f"n{number}" for number in range(count - ill, count)}
    world.run(57)
    world.unplug("n9")
    world.run(60)
    dead = [
        (at_s, change.member)
        for node in world.everyone
        for at_s, change in node.changes
        if change.member.state is State.DEAD
    ]
    false = {(member.name, member.incarnation) for _, member in dead if member.name != "n9"}
    return len(false), [at_s - 60.0 for at_s, member in dead if member.name == "n9"]


KINSHIP = {
    (50, 0, 0.05): (0.0, 8.6, 12.9),
    (50, 5, 0.05): (0.18, 8.84, 13.97),
    (200, 20, 0.05): (0.02, 11.34, 16.57),
}


def b9(seed: int, *, short: bool) -> list[Figure]:
    """Cells of kinship's grid: its quantiles are over every member's detection in every run."""
    found = []
    for (count, ill, loss), (deaths, p50, p99) in KINSHIP.items():
        if short and count > 50:
            continue
        runs = 5 if short else (30 if count == 50 else 3)
        cells = [starved(seed + run, count, ill, loss, LAN) for run in range(runs)]
        plain = starved(seed, count, ill, loss, SWIM_LAN)
        label = f"{count} members, {ill} starved, loss {loss:.0%}"
        false = mean(cell[0] for cell in cells)
        times = [each for cell in cells for each in cell[1]]
        middle, tail = quantile(times, 0.5), quantile(times, 0.99)
        found += [
            Figure("B9", f"false deaths a run, {label}", round(false, 3), "",
                   f"<= {max(deaths, 1 / runs):.2f}", false <= max(deaths, 1 / runs), deaths,
                   f"README; plain SWIM here {plain[0]}; {runs} runs"),
            Figure("B9", f"each member's detection p50, {label}", round(middle, 2), "s",
                   f"<= {p50 * 1.05:.2f}", middle <= p50 * 1.05, p50, "kinship's README"),
            Figure("B9", f"each member's detection p99, {label}", round(tail, 2), "s",
                   f"<= {p99 * 1.05:.2f}", tail <= p99 * 1.05, p99, "kinship's README"),
        ]  # fmt: skip
    return found


def b8(seed: int, *, short: bool) -> list[Figure]:
    """Members without processor: false positives among a hundred."""
    found = []
    for ill in (1, 4) if short else (1, 4, 16, 32):
        totals = []
        for config in (SWIM_LAN, LAN):
            world = group(seed, 100, config)
            world.network.starved |= {f"n{number}" for number in range(100 - ill, 100)}
            world.run(60)
            totals.append(len(world.changes_to(State.DEAD)))
        met = totals[1] <= max(2, totals[0] / 2)
        found.append(
            Figure("B8", f"false positives, {ill} of 100 starved", totals[1], "",
                   "at most half of SWIM's", met, published=f"plain SWIM here {totals[0]}")
        )  # fmt: skip
    return found


def b10(seed: int, *, short: bool) -> list[Figure]:
    """A crash among a hundred, 1 % loss, as kinship and memberlist measured it."""
    runs = 10 if short else 30
    times = [crash_s(seed + run, 100, LAN, loss=0.01) for run in range(runs)]
    first = [each[0] for each in times]
    last = quantile((each[1] for each in times), 0.5)
    return [
        Figure("B10", "simulated crash, 100 members, first p50", round(median(first), 2), "s",
               "<= 10.2", median(first) <= 10.2, 9.522, "kinship 9.52, memberlist 9.86"),
        Figure("B10", "   greatest but one", round(sorted(first)[-2], 2), "s", "<= 12.6",
               sorted(first)[-2] <= 12.6, 12.5, "kinship 12.50, memberlist 11.98"),
        Figure("B10", "   all know, p50", round(last, 2), "s", "<= 10.6", last <= 10.6, 9.587,
               "kinship 9.59, memberlist 10.02"),
    ]  # fmt: skip


def b14(seed: int, *, short: bool) -> tuple[list[Figure], Plot]:
    """How long a rumour takes to reach all."""
    found, points, model = [], [], []
    for count in (5, 20, 100, 300) if short else (5, 20, 100, 300, 1000):
        took = []
        for run in range(3):
            world = group(seed + run, count)
            begun_s = world.now
            world.leave("n1")
            world.run_until(
                lambda world=world: world.all_see({"n1": State.LEFT}), within_s=20, every_s=0.02
            )
            took.append(world.now - begun_s)
        rounds = median(took) / LAN.gossip_interval_s
        wanted = 3 * math.log(count)
        points.append((float(count), median(took)))
        model.append((float(count), wanted * LAN.gossip_interval_s))
        found.append(
            Figure("B14", f"a rumour reaches all of {count}", round(median(took), 2), "s",
                   f"<= 3 ln n = {wanted:.1f} gossip intervals", rounds <= wanted,
                   published=f"{rounds:.1f} intervals")
        )  # fmt: skip
    plot = Plot("gossip-dissemination", "A rumour reaches all", "members", "seconds",
                [Series("measured", points), Series("3 ln n intervals", model)])  # fmt: skip
    return found, plot


def b15(seed: int, *, short: bool) -> list[Figure]:
    """Bytes that a member sends per second, as they would be sealed; kinship's too are sealed.

    Kinship's figures are of its grid, with a crash within two minutes: so are ours with a crash.
    """
    found = []
    rival = {50: 245.0, 200: 490.0, 1000: 1640.0}
    budget = {50: 220.0, 200: 220.0, 1000: 300.0}
    for count in (50, 200) if short else (50, 200, 1000):
        world = group(seed, count, codec=True)
        idle = _rate(world, 60)
        world.unplug("n9")
        crash = (idle + _rate(world, 60)) / 2
        found += [
            Figure("B15", f"bytes a second, idle, {count} members", round(idle), "B/s",
                   f"<= {budget[count]:.0f}", idle <= budget[count]),
            Figure("B15", f"bytes a second over a crash, {count} members", round(crash), "B/s",
                   f"<= {rival[count]:.0f}", crash <= rival[count], rival[count],
                   "kinship's README"),
        ]  # fmt: skip
    churn = group(seed, 100, codec=True)
    rng = Random(seed)
    rates = []
    for turn in range(6):
        churn.leave(f"n{turn + 1}")
        churn.start(f"m{turn}", seeds=("n0",))
        rates.append(_rate(churn, 10 + rng.random() * 0.1))
    found.append(
        Figure("B15", "bytes a second, 1 % churn in 10 s, 100 members", round(mean(rates)), "B/s")
    )
    return found


def _rate(world: World, seconds: float) -> float:
    """Return the bytes that a member sends per second while the world runs, seals included."""
    before = bytes_of(world) + world.datagrams * SEAL_BYTES
    world.run(seconds)
    sent = bytes_of(world) + world.datagrams * SEAL_BYTES - before
    return sent / len(world.nodes) / seconds
