"""A lease: lives while its holder renews it; at its end attached documents are deleted or released.

Its document lies at `/core/leases/<id>`, at level 3. The time of its end is in the memory of the
document's owner (`docstore/sessions/leasing.py`). The document has only what all nodes must agree
on: its phase (alive, expiring, ended) and the attached links.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from docstore.errors import BadRequest
from docstore.model.fields import Fields
from docstore.model.paths import canonical_link
from docstore.model.service import Malformed, Refusal, ServiceOptions, State, understood
from docstore.model.settings import quoted

LEASES = "/core/leases"
TURNS = ("/core/elections", "/core/locks")
"""Paths of elections and locks, which the holders of many leases share."""
TTL_MS = (500, 3_600_000)
TTL_MS_DEFAULT = 10_000
ATTACHED_MAX = 1_000
HOLDER_BYTES_MAX = 1024
WHY_BYTES_MAX = 1024
INSTANT_MAX = (1 << 62) - 1
SHARED_BYTES_MAX = 512
"""Maximum size of a lease's document that is shared in memory: larger ones are rarely equal."""


class Behavior(StrEnum):
    """Fate of the attached documents when a lease ends."""

    DELETE = "delete"
    RELEASE = "release"
    """The documents stay, and no longer name a lease."""


class LeasePhase(StrEnum):
    """Phase of a lease."""

    ALIVE = "alive"
    EXPIRING = "expiring"
    """The lease cannot be renewed any more: its holder stops, and it ends when its time is over."""
    ENDED = "ended"


BEHAVIORS: Mapping[str, Behavior] = {str(each): each for each in Behavior}
PHASES: Mapping[str, LeasePhase] = {str(each): each for each in LeasePhase}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """State of the document. holder: for people. why: reason of the end. ended_us: since 1970.

    attached: links, in the order of their attachment.
    """

    ttl_ms: int
    behavior: Behavior = Behavior.DELETE
    holder: str = ""
    attached: tuple[str, ...] = ()
    phase: LeasePhase = LeasePhase.ALIVE
    why: str = ""
    ended_us: int = 0

    def state(self) -> State:
        return {
            "ttlMs": self.ttl_ms,
            "behavior": str(self.behavior),
            "holder": self.holder,
            "attached": list(self.attached),
            "state": str(self.phase),
            "why": self.why,
            "endedMicros": self.ended_us,
        }

    def differences(self, asked: "LeaseState") -> list[str]:
        """Return the settings that differ between this lease and one that a client requests."""
        ours, theirs = self.state(), asked.state()
        return [
            f"{name} is {ours[name]!r}, asked for was {theirs[name]!r}"
            for name in ("ttlMs", "behavior", "holder")
            if ours[name] != theirs[name]
        ]


def lease_link(name: str) -> str:
    """Return the link of a lease from its link or its id."""
    return name if "/" in name else f"{LEASES}/{name}"


def lost(lease: LeaseState) -> str:
    """Return the reason why an expiring or ended lease refuses requests."""
    if lease.phase is LeasePhase.ENDED:
        return "the lease has ended, and what was attached to it goes with it"
    return (
        "the lease is expiring: it is not kept alive any more and takes nothing new, and what is"
        f" attached stays until it ends, at most {lease.ttl_ms} ms from now or from the last change"
        " of its owner"
    )


def asked_lease(asked: State) -> LeaseState:
    """Return a new lease as a client requests it. Raises Refusal."""
    fields = Fields(asked)
    found = LeaseState(
        ttl_ms=_ttl_ms(fields),
        behavior=_behavior(fields),
        holder=_text(fields, "holder", HOLDER_BYTES_MAX),
    )
    fields.end()
    return found


def lease_of(state: State) -> LeaseState:
    """Return the lease in a document's state. Raises Refusal if it is not a lease."""
    fields = Fields(state)
    phase = PHASES.get(fields.text("state"))
    if phase is None:
        raise Malformed(f"`state` must be one of {', '.join(LeasePhase)}")
    attached = fields.texts("attached")
    if len(attached) > ATTACHED_MAX:
        raise Malformed(f"`attached` must have at most {ATTACHED_MAX} links; got {len(attached)}")
    found = LeaseState(
        ttl_ms=_ttl_ms(fields),
        behavior=_behavior(fields),
        holder=_text(fields, "holder", HOLDER_BYTES_MAX),
        attached=attached,
        phase=phase,
        why=_text(fields, "why", WHY_BYTES_MAX),
        ended_us=fields.whole("endedMicros", 0, INSTANT_MAX),
    )
    fields.end()
    return found


def read_lease(state: bytes) -> LeaseState | None:
    """Return the lease in a document's state, None if it is not a lease.

    Thousands of leases are in memory, and most have equal states: equal small ones are one object.
    """
    return _shared(state) if len(state) <= SHARED_BYTES_MAX else _read(state)


def _read(state: bytes) -> LeaseState | None:
    return understood(lease_of, state)


_shared = lru_cache(maxsize=256)(_read)


def _ttl_ms(fields: Fields) -> int:
    return fields.whole("ttlMs", *TTL_MS, default=TTL_MS_DEFAULT)


def _behavior(fields: Fields) -> Behavior:
    behavior = BEHAVIORS.get(fields.text("behavior", default=Behavior.DELETE))
    if behavior is None:
        raise Malformed(f"`behavior` must be one of {', '.join(Behavior)}")
    return behavior


def _text(fields: Fields, name: str, bytes_max: int) -> str:
    value = fields.text(name, default="")
    if len(value.encode(errors="surrogatepass")) > bytes_max:
        raise Malformed(f"`{name}` must have at most {bytes_max} bytes; got {quoted(value)}")
    return value


def _attach(lease: LeaseState, request: Fields) -> LeaseState:
    link = _link(request)
    if lease.phase is not LeasePhase.ALIVE:
        raise Refusal(lost(lease), status=410, code="lease-ended")
    if link in lease.attached:
        return lease
    if len(lease.attached) >= ATTACHED_MAX:
        detail = f"a lease has at most {ATTACHED_MAX} documents"
        raise Refusal(detail, status=409, code="too-many-attached")
    return replace(lease, attached=(*lease.attached, link))


def _detach(lease: LeaseState, request: Fields) -> LeaseState:
    link = _link(request)
    if link.rpartition("/")[0] in TURNS:
        # A candidate may be entering the queue, and must be found when the lease ends.
        detail = "an election or a lock stays attached for as long as the lease lives"
        raise Refusal(detail, status=409, code="stays-attached")
    return replace(lease, attached=tuple(each for each in lease.attached if each != link))


def _expire(lease: LeaseState, request: Fields) -> LeaseState:
    return replace(lease, phase=LeasePhase.EXPIRING) if lease.phase is LeasePhase.ALIVE else lease


def _end(lease: LeaseState, request: Fields) -> LeaseState:
    why, ended_us = request.text("why"), request.whole("endedMicros", 0, INSTANT_MAX)
    if lease.phase is LeasePhase.ENDED:
        return lease
    return replace(lease, phase=LeasePhase.ENDED, why=why, ended_us=ended_us)


def _link(request: Fields) -> str:
    try:
        link = canonical_link(request.text("link"))
    except BadRequest as error:
        raise Malformed(f"link: {error}") from None
    if link.startswith("/core/") and link.rpartition("/")[0] not in TURNS:
        raise Malformed(
            "`link` must not be of a document under /core, which cannot be "
            f"attached to a lease; got {quoted(link)}"
        )
    return link


CHANGES: Mapping[str, Callable[[LeaseState, Fields], LeaseState]] = {
    "AttachRequest": _attach,
    "DetachRequest": _detach,
    "ExpireRequest": _expire,
    "EndRequest": _end,
}
"""Kind of a PATCH -> function that returns the changed lease. An ended lease never changes
again."""


class LeaseService:
    """The service of leases' documents. Callers check requests of clients first."""

    options = ServiceOptions(path=LEASES, kind="docstore:Lease", put_creates=False, methods=())
    checks = True

    def check(self, state: State) -> None:
        lease_of(state)

    def patch(self, state: State, change: State) -> State | None:
        """Change a lease by the kind of the request; return None if nothing changes."""
        request = Fields(change)
        kind = request.text("kind")
        make = CHANGES.get(kind)
        if make is None:
            raise Malformed(f"`kind` must be one of {', '.join(CHANGES)}; got {quoted(kind)}")
        before = lease_of(state)
        after = make(before, request)
        request.end()
        return None if after == before else after.state()
