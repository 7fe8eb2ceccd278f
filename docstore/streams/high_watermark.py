"""High watermark: the offset up to which all copies that count are durable (rules RC1, RC2)."""

from docstore.ownership.by_lag import high_watermark
from docstore.streams.catchup import FollowerCatchUp
from docstore.streams.core import Core
from docstore.streams.disk import Disk
from docstore.streams.fetching import Fetching
from docstore.streams.leading import Leading
from docstore.streams.purgatory import Purgatory


class HighWatermarks:
    """Raises the high watermarks of this node's partitions, which completes waiting requests."""

    def __init__(
        self,
        core: Core,
        disk: Disk,
        catchup: FollowerCatchUp,
        purgatory: Purgatory,
        fetching: Fetching,
    ) -> None:
        self._core = core
        self._disk = disk
        self._catchup = catchup
        self._purgatory = purgatory
        self._fetching = fetching

    def advance(self, leading: Leading) -> None:  # Tests replace this.
        """Raise the high watermark as far as the commit rule allows (RC1, RC2)."""
        log = leading.log
        if len(leading.recorded) >= leading.least and leading.recorded:
            acks = {
                (follower.node, follower.copy): follower.acked
                for follower in leading.followers.values()
                if follower.has_joined and follower.is_full
            }
            acks[self._core.me, log.copy] = log.durable
            high = high_watermark(acks, leading.required)
            if high is not None:
                self.raise_to(leading, min(high, log.end))
        self._purgatory.complete(leading)

    def raise_to(self, leading: Leading, high: int) -> None:
        """Raise the high watermark to an offset known to be committed; never lower it."""
        log = leading.log
        if high > log.high:
            log.high = high
            self._disk.raised[log.name] = log
            self._catchup.remind(leading)
            self._purgatory.complete(leading)
            self._fetching.raised(leading)
