"""Whole clusters with faults, in virtual time: all their steps can be kept and shown."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from docstore.documents.replica import Replica
from docstore.runtime.trace import of_documents, of_machines, of_streams
from docstore.runtime.trace.brief import Table
from docstore.runtime.trace.lines import line
from docstore.runtime.trace.recorder import Recorder
from docstore.sessions.machine import Sessions
from docstore.streams.partitions import Partitions
from tests.sim import sessions, streaming
from tests.sim.profiles import profile_of
from tests.sim.run import run
from tests.sim.sessions_shapes import shape_of as sessions_of
from tests.sim.streaming_shapes import shape_of as streams_of

RUNS: dict[type, tuple[Table, Callable[[], Any], str]] = {
    Replica: (of_documents.TABLE, lambda: run(2, profile_of(2, "both")), "Promised"),
    Partitions: (of_streams.TABLE, lambda: streaming.run(1, streams_of(1)), "Promoted"),
    Sessions: (of_machines.SESSIONS, lambda: sessions.run(1, sessions_of(1)), "Call"),
}


@pytest.mark.parametrize("kind", RUNS, ids=lambda kind: kind.__name__)
def test_all_steps_of_a_cluster_are_kept_and_shown(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    table, play, word = RUNS[kind]
    recorder = Recorder(table, steps_max=1 << 20, bytes_max=1 << 40, steps_a_tick=1 << 60)
    step = kind.step

    def recorded(machine: Any, event: Any, now: float) -> Sequence[Any]:
        effects: Sequence[Any] = step(machine, event, now)
        recorder.note(now, event, effects)
        return effects

    monkeypatch.setattr(kind, "step", recorded)
    play()
    said = Counter(word for each in recorder.steps() for word in line(each).split())
    assert said[word] > 0
    assert said["=>"] > 100
