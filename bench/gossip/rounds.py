"""Lines B1, B3, B5: SWIM's own analysis, in rounds that all members make at once.

Source of the formulas: SWIM (Das, Gupta and Motivala, 2002), sections 3.1, 4.1 and 4.3.
"""

from __future__ import annotations

import math
from random import Random
from statistics import mean

from bench.gossip.figure import Figure, Plot, Series, within


def first_detection(rng: Random, size: int) -> int:
    """Return in which period a member first picks the failed one, all picking uniformly."""
    others = size - 1
    period = 1
    while not any(int(rng.random() * others) == 0 for _ in range(others)):
        period += 1
    return period


def first_turn(rng: Random, size: int) -> int:
    """Return the same when each member goes through a permutation from a random place."""
    others = size - 1
    best = 2 * size
    for _ in range(others):
        phase, place = int(rng.random() * others), int(rng.random() * others)
        ahead = place - phase
        wait = ahead + 1 if ahead >= 0 else others - phase + int(rng.random() * others) + 1
        best = min(best, wait)
    return best


def infected(rng: Random, size: int, periods: int, steps: int = 10) -> list[int]:
    """Return how many know after each part of a period, ping and ack both telling.

    Members act one after the other at random moments, since nothing synchronizes them.
    """
    knows = [False] * size
    knows[0] = True
    count, counts = 1, []
    for _ in range(periods * steps):
        for _ in range(size // steps):
            member = int(rng.random() * size)
            other = int(rng.random() * (size - 1))
            other += other >= member
            if knows[member] != knows[other]:
                knows[member] = knows[other] = True
                count += 1
        counts.append(count)
    return counts


def false_detections(rng: Random, loss: float, helpers: int, periods: int) -> float:
    """Return failed probes of a healthy member per period in which it is probed at all."""
    delivered = 1 - loss
    failed = probed = 0
    for _ in range(periods):
        pings = _poisson(rng)
        probed += pings > 0
        for _ in range(pings):
            if rng.random() < delivered**2:
                continue
            failed += all(rng.random() >= delivered**4 for _ in range(helpers))
    return failed / probed


def _poisson(rng: Random) -> int:
    """Return how often one member is picked in a period of a large group."""
    count, product = 0, rng.random()
    while product > math.exp(-1):
        count += 1
        product *= rng.random()
    return count


def b1(seed: int, *, short: bool) -> list[Figure]:
    """Periods from a failure to its first detection."""
    rng, found = Random(seed), []
    for size, trials in ((10, 10_000), (56, 10_000), (1000, 500 if short else 4000)):
        wanted = 1 / (1 - (1 - 1 / (size - 1)) ** (size - 1))
        uniform = mean(first_detection(rng, size) for _ in range(trials))
        turns = [first_turn(rng, size) for _ in range(trials)]
        tolerance = 0.03 if trials > 1000 else 0.08
        found += [
            Figure(
                "B1", f"first detection, {size} members, uniform picks", round(uniform, 3),
                "periods", f"{wanted:.3f} +- {tolerance}", abs(uniform - wanted) <= tolerance,
                published="SWIM: e/(e-1) = 1.582",
            ),
            Figure(
                "B1", f"first detection, {size} members, in turn", round(mean(turns), 3),
                "periods", f"<= {wanted:.3f} + 0.03, max <= {2 * size - 1}",
                mean(turns) <= wanted + tolerance and max(turns) <= 2 * size - 1,
            ),
        ]  # fmt: skip
    return found


def b3(seed: int, *, short: bool) -> tuple[list[Figure], Plot]:
    """How a rumour spreads, once it has got over its start, which is a matter of luck."""
    rng, found, series = Random(seed), [], []
    steps = 10
    for size, runs in ((100, 200), (1000, 10 if short else 100)):
        curves = [infected(rng, size, 10, steps) for _ in range(runs)]
        offsets = range(-steps, 2 * steps + 1, 2)
        measured, model = [], []
        for offset in offsets:
            t = offset / steps
            values = [curve[max(0, _half(curve, size) + offset)] / size for curve in curves]
            measured.append((t, mean(values)))
            model.append((t, 1 / (1 + math.exp(-(2 - 1 / size) * t))))
        worst = max(abs(a[1] - b[1]) for a, b in zip(measured, model, strict=True))
        series += [Series(f"{size} members", measured), Series(f"model, {size}", model)]
        found.append(
            Figure(
                "B3", f"a rumour among {size}: greatest distance from the model",
                round(100 * worst, 1), "% of members", "<= 5 %", worst <= 0.05,
                published="SWIM section 4.1: logistic, beta = 2 - 1/n",
            )
        )  # fmt: skip
    shifted = [Series(each.name, [(x + 1, y) for x, y in each.points]) for each in series]
    title = "How a rumour spreads (one period before half know, two after)"
    return found, Plot("gossip-infection", title, "periods", "part that knows", shifted)


def _half(curve: list[int], size: int) -> int:
    return next(index for index, count in enumerate(curve) if count >= size / 2)


PUBLISHED_B5 = {
    (0.01, 1): 1.24e-3, (0.05, 1): 2.86e-2, (0.10, 1): 1.03e-1,
    (0.05, 3): 9.84e-4, (0.10, 3): 1.22e-2, (0.20, 3): 1.17e-1, (0.30, 3): 3.54e-1,
}  # fmt: skip


def b5(seed: int, *, short: bool) -> list[Figure]:
    """False detections under loss."""
    rng, found = Random(seed), []
    for (loss, helpers), published in PUBLISHED_B5.items():
        periods = 200_000 if published > 1e-2 else (200_000 if short else 2_000_000)
        value = false_detections(rng, loss, helpers, periods)
        tolerance = 0.10 if published > 1e-2 or not short else 0.35
        found.append(
            Figure(
                "B5", f"false detection, loss {loss:.0%}, k = {helpers}", float(f"{value:.3g}"),
                "", f"{published:.3g} +- {tolerance:.0%}", within(value, published, tolerance),
                published="SWIM section 3.1",
            )
        )  # fmt: skip
    return found
