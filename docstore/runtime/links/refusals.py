"""Which peers are refused, and why: said once, for they dial again every second."""

import structlog

PEERS_MAX = 1_000
"""Names come from outside."""

log = structlog.get_logger("docstore.runtime.links.peers")


class Refusals:
    """Peer -> why it was refused last."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, peer: str, why: str) -> None:
        """Log that a peer is refused, unless the same was said of it before."""
        if self._told.get(peer) == why:
            return
        if len(self._told) >= PEERS_MAX:
            self._told.clear()
        self._told[peer] = why
        log.info("peer refused", peer=peer, why=why)

    def admitted(self, peer: str) -> None:
        """A peer is let in: if it is refused again, that is news."""
        self._told.pop(peer, None)

    def is_refused(self, peer: str) -> bool:
        """Say whether a peer was refused when it was last met."""
        return peer in self._told
