"""What a replica has promised to owners that read by lease: nobody else gets the slot for a while.

It is kept in memory only; so who has just started promises nothing to anybody for as long as what
it may have promised before holds (rule R2).
"""


class Leases:
    """slot -> whose reads must not be made stale, and until when."""

    def __init__(self, length_s: float, started_at: float) -> None:
        self._length_s = length_s
        self._unknown_until = started_at + length_s
        self._granted: dict[int, tuple[int, str, float]] = {}

    def grant(self, slot: int, epoch: int, owner: str, now: float) -> None:
        """Let nobody but this owner have the slot from now on, for the length of a lease."""
        self._granted[slot] = (epoch, owner, now + self._length_s)

    def release(self, slot: int, epoch: int, owner: str) -> None:
        """Forget what was promised to a reign that needs it no more."""
        if self._granted.get(slot, (0, ""))[:2] == (epoch, owner):
            del self._granted[slot]

    def keeps_from(self, slot: int, candidate: str, now: float) -> bool:  # Seam.
        """Say whether the slot must not be promised to a candidate yet."""
        if now < self._unknown_until:
            return True
        _, owner, until = self._granted.get(slot, (0, "", now))
        return now < until and owner != candidate
