"""Whole nodes in virtual time: the HTTP face, the links, the driver and the SQL, under faults."""

import os
import subprocess
import sys

import pytest

from tests.whole.run import run

# Each of these once found a bug; what it was stands in the commit that pinned it.
PINNED = (10_024,)
MORE = [pytest.param(seed, marks=pytest.mark.thorough) for seed in range(5, 9)]


@pytest.mark.filterwarnings("ignore:coroutine")  # Of nodes that were ended in the middle.
@pytest.mark.parametrize("seed", [*range(1, 5), *MORE, *PINNED])
def test_a_seed_breaks_nothing(seed: int) -> None:
    outcome = run(seed)
    assert outcome.problems == []
    assert outcome.stuck == []
    assert outcome.operations > 100
    assert outcome.faults.total() > 5


def test_a_seed_replays_exactly_in_another_process() -> None:
    code = "from tests.whole.run import run; print(run(5).trace)"
    traces = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert traces != {""}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine")
def test_five_virtual_hours() -> None:
    hours, seed = 0.0, 10_000
    while hours < 5:
        outcome = run(seed)
        assert (outcome.problems, outcome.stuck) == ([], []), f"seed {seed}"
        hours += outcome.virtual_s / 3600
        seed += 1
