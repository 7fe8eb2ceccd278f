"""The clock of proofs, and proofs in a forked child."""

import os
import time

import pytest

from docstore.client.boot_clock import boot_clock, drop_in_child
from docstore.sessions.holder import Holder


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no such clock")
def test_proofs_use_a_clock_that_runs_during_suspend() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= boot_clock()() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_a_missing_clock_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    with pytest.warns(RuntimeWarning, match="no clock that goes on"):
        clock = boot_clock()
    assert clock is time.monotonic


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_holds_nothing() -> None:
    holder = Holder()
    proof = holder.hold("a", 3600.0, stamp=0.0)
    drop_in_child(holder)
    child = os.fork()
    if child == 0:
        os._exit(7 if not proof.is_valid(1.0) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert proof.is_valid(1.0)
