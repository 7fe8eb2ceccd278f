"""One simulated process, its steps and its changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gossip import Address, Change, State
from gossip.messages import StreamMessage
from gossip.protocol.effects import ReportConflict, ReportSeed, ReportUnreachable
from gossip.protocol.events import Timer
from gossip.protocol.swim import Swim


@dataclass(slots=True)
class Node:
    """One simulated process."""

    name: str
    address: Address
    swim: Swim
    number: int
    timers: dict[Timer, float] = field(default_factory=dict)
    changes: list[tuple[float, Change]] = field(default_factory=list)
    reports: list[tuple[float, ReportConflict | ReportUnreachable | ReportSeed]] = field(
        default_factory=list
    )
    replies: dict[int, StreamMessage] = field(default_factory=dict)
    bytes_sent: int = 0
    stream_bytes_sent: int = 0
    datagrams_sent: int = 0
    acquainted: dict[str, State] = field(default_factory=dict)
    """Members that it knew when it started."""
    is_running: bool = True
    is_departed: bool = False
    paused_since_s: float | None = None
    is_blocked: bool = False
    """Its messages wait, in and out, while its timers are on time: Lifeguard's anomaly."""
    missed: list[Callable[[], None]] = field(default_factory=list)
    probes: int = 0
    probed_at: dict[str, int] = field(default_factory=dict)
    is_in_order: bool = True
    """No member was probed out of turn."""
    stable_since: int | None = None
    """The number of the probe since which this node has seen no member come or go."""

    @property
    def conflicts(self) -> list[ReportConflict]:
        return [report for _, report in self.reports if isinstance(report, ReportConflict)]
