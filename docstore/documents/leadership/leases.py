"""Read leases that a replica has granted: it promises the slot to no other node until they expire.

They are in memory only. A replica that has just started makes no promise for the length of a lease,
because it may have granted leases before the restart (rule R2).
"""


class Leases:
    """The leases of all slots: owner and expiry of each."""

    def __init__(self, length_s: float, started_at: float) -> None:
        self._length_s = length_s
        self._unknown_until = started_at + length_s
        self._granted: dict[int, tuple[int, str, float]] = {}

    def grant(self, slot: int, epoch: int, owner: str, now: float) -> None:
        """Grant an owner the slot for the length of a lease from now on."""
        self._granted[slot] = (epoch, owner, now + self._length_s)

    def release(self, slot: int, epoch: int, owner: str) -> None:
        if self._granted.get(slot, (0, ""))[:2] == (epoch, owner):
            del self._granted[slot]

    def keeps_from(self, slot: int, candidate: str, now: float) -> bool:  # Tests replace this.
        if now < self._unknown_until:
            return True
        _, owner, until = self._granted.get(slot, (0, "", now))
        return now < until and owner != candidate
