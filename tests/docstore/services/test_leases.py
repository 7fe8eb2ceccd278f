"""The document of a lease: its members, and the order of its phases."""

from typing import Any

import pytest

from docstore.model import json
from docstore.model.service import Refusal
from docstore.services.leases import (
    ATTACHED_MAX,
    Behavior,
    LeasePhase,
    LeaseService,
    LeaseState,
    asked_lease,
    lease_of,
    read_lease,
)

SERVICE = LeaseService()
END = {"kind": "EndRequest", "why": "expired", "endedMicros": 7}
PHASES = {
    "alive": LeaseState(ttl_ms=1000),
    "expiring": LeaseState(ttl_ms=1000, phase=LeasePhase.EXPIRING),
    "ended": LeaseState(ttl_ms=1000, phase=LeasePhase.ENDED, why="revoked", ended_us=1),
}
TABLE = [
    ("alive", "ExpireRequest", "expiring"),
    ("alive", "EndRequest", "ended"),
    ("alive", "AttachRequest", "alive"),
    ("expiring", "ExpireRequest", None),
    ("expiring", "EndRequest", "ended"),
    ("expiring", "AttachRequest", 410),
    ("ended", "ExpireRequest", None),
    ("ended", "EndRequest", None),
    ("ended", "AttachRequest", 410),
    ("ended", "DetachRequest", None),
]


@pytest.mark.parametrize(("before", "kind", "after"), TABLE)
def test_a_request_moves_a_lease_to_its_next_phase(
    before: str, kind: str, after: str | int | None
) -> None:
    change: dict[str, Any] = END | {"kind": kind} if kind == "EndRequest" else {"kind": kind}
    if kind in ("AttachRequest", "DetachRequest"):
        change["link"] = "/notes/a"
    state = PHASES[before].state()
    if isinstance(after, int):
        with pytest.raises(Refusal) as refusal:
            SERVICE.patch(state, change)
        assert (refusal.value.status, refusal.value.code) == (after, "lease-ended")
        said = {"expiring": "is expiring", "ended": "has ended"}[before]
        assert said in str(refusal.value), "one that is expiring still has its locks and documents"
        return
    found = SERVICE.patch(state, change)
    assert (None if found is None else found["state"]) == after


def test_attaching_twice_adds_a_link_once_and_detaching_removes_it() -> None:
    attach = {"kind": "AttachRequest", "link": "/notes/a"}
    state = SERVICE.patch(LeaseState(ttl_ms=1000).state(), attach)
    assert state is not None
    assert state["attached"] == ["/notes/a"]
    assert SERVICE.patch(state, attach) is None
    after = SERVICE.patch(state, attach | {"kind": "DetachRequest"})
    assert after is not None
    assert after["attached"] == []


@pytest.mark.parametrize("link", ["/core/locks/a", "/core/elections/a"])
def test_a_link_of_a_lock_stays_attached(
    link: str,
) -> None:
    state = SERVICE.patch(LeaseState(ttl_ms=1000).state(), {"kind": "AttachRequest", "link": link})
    assert state is not None
    with pytest.raises(Refusal) as refusal:
        SERVICE.patch(state, {"kind": "DetachRequest", "link": link})
    assert (refusal.value.status, refusal.value.code) == (409, "stays-attached")


def test_no_more_is_attached_than_can_be_swept() -> None:
    links = tuple(f"/notes/{number}" for number in range(ATTACHED_MAX))
    full = LeaseState(ttl_ms=1000, attached=links).state()
    with pytest.raises(Refusal) as refusal:
        SERVICE.patch(full, {"kind": "AttachRequest", "link": "/notes/more"})
    assert (refusal.value.status, refusal.value.code) == (409, "too-many-attached")
    assert SERVICE.patch(full, {"kind": "AttachRequest", "link": links[0]}) is None


def test_places_in_queues_are_attached_and_other_documents_of_nodes_are_not() -> None:
    lease = LeaseState(ttl_ms=1000).state()
    for link in ("/core/locks/a", "/core/elections/a"):
        assert SERVICE.patch(lease, {"kind": "AttachRequest", "link": link}) is not None
    for link in ("/core/leases/a", "/core/streams/t", "/core/locks/a/b"):
        with pytest.raises(Refusal):
            SERVICE.patch(lease, {"kind": "AttachRequest", "link": link})


def test_a_lease_document_is_read_back() -> None:
    lease = LeaseState(
        ttl_ms=1000, behavior=Behavior.RELEASE, holder="h", attached=("/a/b",),
        phase=LeasePhase.ENDED, why="expired", ended_us=9,
    )  # fmt: skip
    assert lease_of(lease.state()) == lease == read_lease(json.dump(lease.state()))
    assert read_lease(b'{"ttlMs":1000}') is None
    assert read_lease(b"[]") is None
    assert asked_lease({}) == LeaseState(ttl_ms=10_000)
