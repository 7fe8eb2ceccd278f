"""Requests about the list of a lease, and a short-lived cache of the answers.

`docstore/http/campaigns.py` uses the cache, and says why that is safe.
"""

from collections.abc import Callable

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.services.leases import LeasePhase, read_lease

REMEMBERED_S = 5.0
REMEMBERED_MAX = 10_000
LATE_S_MAX = 60.0
"""Seconds after a lease was seen alive in which a candidate may enter a queue under it."""


def attach_request(lease: str, link: str) -> Operation:
    """Return the request that attaches a document to a lease; repeating it changes nothing."""
    body = json.dump({"kind": "AttachRequest", "link": link})
    return Operation(verb="PATCH", link=lease, body=body, media="handler")


def has_ended(found: Answer) -> bool:
    """Say whether a refusal means that the lease has ended, rather than that it expires."""
    lease = None if found.row is None or found.row.deleted else read_lease(found.row.state)
    return found.status == 404 or (lease is not None and lease.phase is LeasePhase.ENDED)


class Attached:
    """A cache: which leases were alive and had which links on their lists a few seconds ago."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        remembered_s: float = REMEMBERED_S,
        late_s_max: float = LATE_S_MAX,
    ) -> None:
        self._clock = clock
        self._remembered_s = remembered_s
        self._late_s_max = late_s_max
        self._since: dict[tuple[str, str], float] = {}
        """(lease, link) -> time of the request whose answer confirmed the link, oldest first."""

    def __len__(self) -> int:
        return len(self._since)

    def note(self, lease: str, link: str, since: float) -> None:
        """Remember that a lease was alive and had a link on its list after time `since`."""
        self._since.pop((lease, link), None)
        self._since[lease, link] = since
        oldest = next(iter(self._since))
        if len(self._since) > REMEMBERED_MAX or self._age_s(oldest) > self._remembered_s:
            # One eviction for each addition keeps the cache as small as its recent entries.
            del self._since[oldest]

    def forget(self, lease: str, link: str) -> None:
        self._since.pop((lease, link), None)

    def allows(self, lease: str, link: str, timeout_s: float) -> bool:
        """Say whether a campaign with this time limit need not wait for the answer of its lease."""
        age_s = self._age_s((lease, link))
        return age_s <= self._remembered_s and age_s + timeout_s <= self._late_s_max

    def _age_s(self, key: tuple[str, str]) -> float:
        return self._clock() - self._since.get(key, float("-inf"))
