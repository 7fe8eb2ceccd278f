"""How far the replicas of the slots that this node owns have come."""

from collections import Counter

from docstore.documents.core import Core
from docstore.documents.reign import Phase


class ReplicationView:
    """Rows that somebody lacks, as of the last acknowledgements."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def lag(self) -> Counter[str]:
        """Return replica -> rows that it has not acknowledged, over the slots that we own."""
        lag: Counter[str] = Counter()
        for log, reign in self._core.logs.reigns():
            if reign.phase is Phase.OPEN:
                for peer, follower in reign.followers.items():
                    lag[peer] += max(0, log.end - max(follower.acked, log.kept))
        return lag

    def lacking(self, slot: int) -> int:
        """Return how many rows of a slot its replicas have not acknowledged, those in step."""
        log = self._core.logs.get(slot)
        if log is None or log.reign is None:
            return 0
        followers = log.reign.followers.values()
        return sum(log.end - max(each.acked, log.kept) for each in followers if each.adopted)

    def behind(self, slot: int) -> list[str]:
        """Return the connected replicas that lack something decided; this node if not the owner."""
        log = self._core.logs.get(slot)
        reign = log.open_reign if log is not None else None
        if log is None or reign is None:
            return [self._core.me]
        peers = self._core.peers
        return [
            peer
            for peer, follower in reign.followers.items()
            if peers[peer].linked and not (follower.adopted and follower.acked >= log.decided)
        ]
