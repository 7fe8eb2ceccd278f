"""The local health score: a member that is ill itself is more patient with others.

A member that lacks processor or network takes all others for dead. So it counts the signs that it
is ill itself, and waits (score + 1) times as long.

| sign                                                   | score        |
|--------------------------------------------------------|--------------|
| a probe was answered                                   | - 1          |
| a probe failed, and no relay was asked                 | + 1          |
| a probe failed, and of e relays m sent not even a nack | + m          |
| a member suspects us, and we must refute               | + 1          |
| our own timers came late                               | + 1          |

Source: Lifeguard (Dadgar, Phillips and Currey, 2017), section IV-A, local health multiplier.
Stretches both the interval and the timeout of probes, as the paper has it.
"""

from __future__ import annotations


class Awareness:
    """The local health score: 0 is well, `score_max` is the worst."""

    __slots__ = ("score", "score_max")

    def __init__(self, score_max: int) -> None:
        assert score_max >= 0
        self.score = 0
        self.score_max = score_max

    def improve(self) -> None:
        self.score = max(0, self.score - 1)

    def worsen(self, signs: int = 1) -> None:
        """Count `signs` of our own ill health, 0 or more."""
        assert signs >= 0
        self.score = min(self.score_max, self.score + signs)

    def stretched_s(self, duration_s: float) -> float:  # Tests replace this.
        return duration_s * (self.score + 1)
