"""Leases over HTTP: their answers and refusals."""

from typing import Any

import pytest

from docstore.client import LocalCluster
from tests.docstore.http.leases.asking import (
    LEASES,
    Session,
    ask,
    granted,
    kept_alive,
    revoked,
    until,
)
from tests.docstore.http.problem import problem_of


async def test_a_lease_is_granted_kept_alive_through_any_node_and_revoked(
    node: Session, other: Session
) -> None:
    lease = await granted(node, holder="a test")
    assert await kept_alive(node, lease) == (200, {"ttlMs": 30_000})
    assert await kept_alive(other, lease) == (200, {"ttlMs": 30_000})
    status, page = await ask(other, "GET", lease)
    assert (status, page["state"], page["holder"]) == (200, "alive", "a test")
    assert 29_000 < page["remainingMs"] <= 30_000
    assert page["documentVersion"] == 0  # A keep-alive writes no version.
    await revoked(node, lease)
    assert await kept_alive(node, lease) == (410, "lease-ended")
    assert await kept_alive(other, lease) == (410, "lease-ended")
    status, page = await ask(node, "GET", lease)
    assert (page["state"], page["why"], page["remainingMs"]) == ("ended", "revoked", None)


async def test_a_lease_without_keep_alives_ends_and_deletes_its_documents(node: Session) -> None:
    lease = await granted(node, 500)
    assert (await ask(node, "PUT", "/core/examples/x", {"name": "x"}))[0] == 404
    assert (await ask(node, "POST", "/core/factories", {"path": "/notes"}))[0] in (201, 409)
    await ask(node, "PUT", "/notes/a", {"a": 1}, Docstore_Lease=lease)
    status, page = await ask(node, "GET", "/notes/a")
    assert (status, page["a"], page["documentLeaseLink"]) == (200, 1, lease)

    async def has_gone() -> bool:
        return (await ask(node, "GET", "/notes/a"))[0] == 404

    await until(has_gone)
    assert await kept_alive(node, lease) == (410, "lease-ended")
    assert (await ask(node, "GET", lease))[1]["attached"] == ["/notes/a"]


WRITES: list[tuple[str, str, Any, str]] = [
    ("PUT", "/notes/put", {"documentLeaseLink": ""}, ""),
    ("PUT", "/notes/header", {}, "header"),
    ("PUT", "/notes/by-id", {}, "id"),
    ("POST", "/notes", {"documentSelfLink": "posted", "documentLeaseLink": ""}, ""),
    ("POST", "/notes", {"documentSelfLink": "posted-2"}, "header"),
    ("PATCH", "/notes/patched", {"documentLeaseLink": ""}, ""),
    ("PATCH", "/notes/patched", {"b": 2}, "header"),
]


@pytest.mark.parametrize(("method", "path", "body", "how"), WRITES)
async def test_each_form_of_a_write_attaches_its_document(
    node: Session, method: str, path: str, body: dict[str, Any], how: str
) -> None:
    await ask(node, "POST", "/core/factories", {"path": "/notes"})
    if method == "PATCH":
        await ask(node, "PUT", path, {"a": 1})
    lease = await granted(node)
    named = lease if how == "header" else lease.rpartition("/")[2]
    headers = {"Docstore_Lease": named} if how else {}
    asked = {name: value or lease for name, value in body.items()}
    media = {"Content_Type": "application/merge-patch+json"} if method == "PATCH" else {}
    status, page = await ask(node, method, path, asked, **headers, **media)
    assert status in (200, 201), page
    assert page["documentLeaseLink"] == lease
    assert (await ask(node, "GET", lease))[1]["attached"] == [page["documentSelfLink"]]
    link = page["documentSelfLink"]
    assert (await ask(node, "GET", link))[1]["documentLeaseLink"] == lease


async def test_a_releasing_lease_keeps_the_document_without_its_link(
    node: Session,
) -> None:
    await ask(node, "POST", "/core/factories", {"path": "/notes"})
    lease = await granted(node, behavior="release")
    await ask(node, "PUT", "/notes/kept", {"a": 1}, Docstore_Lease=lease)
    await revoked(node, lease)

    async def is_released() -> bool:
        status, page = await ask(node, "GET", "/notes/kept")
        assert (status, page["a"]) == (200, 1)
        return "documentLeaseLink" not in page

    await until(is_released)


async def test_a_write_under_an_unknown_or_ended_lease_is_refused(
    node: Session,
) -> None:
    await ask(node, "POST", "/core/factories", {"path": "/notes"})
    ended = await granted(node)
    await revoked(node, ended)
    none = f"{LEASES}/nobody"
    for lease, refusal in ((none, (404, "no-such-lease")), (ended, (410, "lease-ended"))):
        assert await ask(node, "PUT", "/notes/never", {"documentLeaseLink": lease}) == refusal
        assert await ask(node, "PUT", "/notes/never", {}, Docstore_Lease=lease) == refusal
    assert (await ask(node, "GET", "/notes/never"))[0] == 404


async def test_a_lease_is_refused_where_a_write_cannot_attach(node: Session) -> None:
    await ask(node, "POST", "/core/factories", {"path": "/notes"})
    lease = await granted(node)
    await ask(node, "PUT", "/notes/plain", {"a": 1})
    patch = [{"op": "add", "path": "/documentLeaseLink", "value": lease}]
    media = "application/json-patch+json"
    malformed = (400, "malformed")
    assert await ask(node, "PATCH", "/notes/plain", patch, Content_Type=media) == malformed
    whole = [{"op": "replace", "path": "", "value": {"documentLeaseLink": lease}}]
    assert await ask(node, "PATCH", "/notes/plain", whole, Content_Type=media) == malformed
    assert await ask(node, "PUT", "/notes/plain", {}, Docstore_Lease="/notes/plain") == malformed
    assert await ask(node, "DELETE", "/notes/plain", Docstore_Lease=lease) == malformed
    both = {"documentLeaseLink": f"{LEASES}/another"}
    assert await ask(node, "PUT", "/notes/plain", both, Docstore_Lease=lease) == malformed
    twice = [("Docstore-Lease", lease), ("Docstore-Lease", f"{LEASES}/another")]
    async with node.put("/notes/plain", json={}, headers=twice) as response:
        assert (
            "Docstore-Lease must be sent at most once"
            in (await response.json(content_type=None))["detail"]
        )
        assert response.status == 400
    lines = [
        {"link": "/notes/bulk", "op": "PUT", "body": {"documentLeaseLink": lease}},
        {"link": "/notes/plain", "op": "PATCH", "body": patch},
        {"link": "/notes/plain", "op": "PATCH", "body": {"documentLeaseLink": lease}},
    ]
    for line in lines:
        headers = {"Content-Type": "application/x-ndjson"}
        async with node.post("/core/bulk", json=line, headers=headers) as response:
            assert (await response.json(content_type=None))["status"] == 400
    headers |= {"Docstore-Lease": lease}
    async with node.post("/core/bulk", json=lines[0], headers=headers) as response:
        assert response.status == 400
    _, page = await ask(node, "GET", "/notes/plain")
    assert page["documentVersion"] == 0
    assert (await ask(node, "GET", lease))[1]["attached"] == []


BAD: list[dict[str, Any]] = [
    {"ttlMs": 499},
    {"ttlMs": 3_600_001},
    {"ttlMs": "10000"},
    {"ttlMs": 10_000.5},
    {"ttlMs": True},
    {"ttlMs": 1_000, "behavior": "explode"},
    {"ttlMs": 1_000, "holder": "x" * 2000},
    {"ttlMs": 1_000, "more": 1},
    {"ttlMs": 1_000, "attached": []},
    {"ttlMs": 1_000, "documentSelfLink": "keep-alive"},
    {"ttlMs": 1_000, "documentSelfLink": "/notes/a"},
]


@pytest.mark.parametrize("asked", BAD, ids=str)
async def test_an_invalid_lease_is_refused(node: Session, asked: dict[str, Any]) -> None:
    status, code = await ask(node, "POST", LEASES, asked)
    assert (status, code) in [(400, "malformed"), (400, "refused-by-service")]


async def test_a_request_to_an_unknown_lease_is_404(node: Session) -> None:
    none, unknown = f"{LEASES}/nobody", (404, "no-such-lease")
    assert await kept_alive(node, none) == unknown
    assert await ask(node, "GET", none) == unknown
    assert await ask(node, "DELETE", none) == unknown
    for kind in ("AttachRequest", "DetachRequest"):
        assert await ask(node, "PATCH", none, {"kind": kind, "link": "/notes/a"}) == unknown


async def test_an_ended_lease_attaches_nothing_and_its_id_is_not_reused(node: Session) -> None:
    lease = await granted(node, documentSelfLink="once")
    await revoked(node, lease)
    attach = {"kind": "AttachRequest", "link": "/notes/a"}
    assert await ask(node, "PATCH", lease, attach) == (410, "lease-ended")
    again = {"ttlMs": 30_000, "documentSelfLink": "once"}
    assert await ask(node, "POST", LEASES, again) == (409, "lease-ended")
    await revoked(node, lease)  # A second revocation gets the same answer.


async def test_a_repeated_grant_returns_its_lease_only_with_the_same_members(node: Session) -> None:
    asked = {"ttlMs": 30_000, "holder": "h", "documentSelfLink": "twice"}
    assert (await ask(node, "POST", LEASES, asked))[0] == 201
    assert (await ask(node, "POST", LEASES, asked))[0] == 200
    other = (409, "already-exists")
    assert await ask(node, "POST", LEASES, asked | {"holder": "i"}) == other
    assert await ask(node, "POST", LEASES, asked | {"ttlMs": 20_000}) == other


MALFORMED: list[dict[str, Any]] = [
    {"kind": "EndRequest", "why": "mine", "endedMicros": 1},
    {"kind": "NoRequest"},
    {},
    {"kind": "AttachRequest"},
    {"kind": "AttachRequest", "link": "/core/leases/x"},
    {"kind": "AttachRequest", "link": "notes"},
    {"kind": "AttachRequest", "link": "/notes/a", "more": 1},
    {"kind": "KeepAliveRequest", "ttlMs": 60_000},
]


@pytest.mark.parametrize("change", MALFORMED, ids=str)
async def test_an_invalid_request_to_a_lease_is_refused(
    node: Session, change: dict[str, Any]
) -> None:
    lease = await granted(node)
    assert (await ask(node, "PATCH", lease, change))[0] == 400
    assert (await ask(node, "PUT", lease, {"ttlMs": 30_000}))[0] == 405
    assert (await ask(node, "GET", lease))[1]["documentVersion"] == 0


async def test_many_leases_are_kept_alive_in_one_request(node: Session, other: Session) -> None:
    ids = [(await granted(node)).rpartition("/")[2] for _ in range(30)]
    await revoked(node, f"{LEASES}/{ids[0]}")
    asked = {"leases": [*ids, "nobody", ids[3]]}
    status, page = await ask(other, "POST", f"{LEASES}/keep-alive", asked)
    assert status == 200
    assert sorted(page["alive"]) == sorted(ids[1:])
    assert sorted(page["gone"]) == sorted(["nobody", ids[0]])
    assert page["unknown"] == []
    by_link = {"leases": [f"{LEASES}/{ids[1]}", ids[1]]}
    assert (await ask(other, "POST", f"{LEASES}/keep-alive", by_link))[1]["alive"] == [ids[1]]
    bad: list[Any] = [
        {}, {"leases": []}, {"leases": "x"}, {"leases": [1]}, {"leases": ["a/b"]},
        {"leases": ["x"] * 10_001}, {"leases": ["x"], "more": 1},
    ]  # fmt: skip
    for each in bad:
        assert (await ask(node, "POST", f"{LEASES}/keep-alive", each))[0] == 400
    assert (await ask(node, "GET", f"{LEASES}/keep-alive"))[0] == 405


async def test_a_node_counts_its_leases_and_their_ends(group: LocalCluster, node: Session) -> None:
    lease = await granted(node, 500)
    assert (await kept_alive(node, lease))[0] == 200

    async def figures() -> dict[str, float]:
        async with node.get(f"{group.owner_of(lease).url}/metrics") as response:
            lines = (await response.text()).splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("docstore_sessions_")]
        return {name.removeprefix("docstore_sessions_"): float(value) for name, value in pairs}

    before = await figures()
    assert before["leases"] >= 1
    assert before["keepalives_total"] >= 1
    assert before["confirms_total"] >= 1

    async def is_counted() -> bool:
        return (await figures()).get("expired_total", 0) > before.get("expired_total", 0)

    await until(is_counted)
    assert (await figures())["expiry_lag_seconds_total"] > 0


async def test_leases_are_listed(node: Session) -> None:
    lease = await granted(node)
    status, page = await ask(node, "GET", LEASES)
    assert status == 200
    assert lease in page["documentLinks"]


async def test_a_waiting_read_of_a_lease_returns_when_it_changes(
    node: Session, other: Session
) -> None:
    lease = await granted(node, 500)
    async with node.get(lease) as response:
        tag = response.headers["ETag"]
    held = {"If_None_Match": tag, "Prefer": "wait=10"}
    status, page = await ask(other, "GET", lease, **held)
    assert (status, page["state"]) == (200, "ended")  # The lease had no keep-alives.
    async with node.get(lease) as response:
        tag = response.headers["ETag"]
    assert (await ask(node, "GET", lease, If_None_Match=tag, Prefer="wait=1"))[0] == 304
    assert (await ask(node, "GET", lease, If_None_Match=tag, Prefer="wait=0"))[0] == 400


async def test_a_client_that_does_not_hold_a_lease_may_expire_it(node: Session) -> None:
    lease = await granted(node, 1_000)
    status, page = await ask(node, "PATCH", lease, {"kind": "ExpireRequest"})
    assert (status, page["state"]) == (200, "expiring")
    assert await kept_alive(node, lease) == (410, "lease-ended")
    status, page = await ask(node, "GET", lease)
    assert page["remainingMs"] > 0

    async def has_ended() -> bool:
        return bool((await ask(node, "GET", lease))[1]["state"] == "ended")

    await until(has_ended)


async def test_an_expiring_lease_is_not_reported_as_ended(node: Session) -> None:
    expiring, ended = await granted(node, documentSelfLink="slow"), await granted(node)
    assert (await ask(node, "PATCH", expiring, {"kind": "ExpireRequest"}))[0] == 200
    await revoked(node, ended)
    keep, attach = {"kind": "KeepAliveRequest"}, {"kind": "AttachRequest", "link": "/notes/a"}
    for lease, said in ((expiring, "is expiring"), (ended, "has ended")):
        for change in (keep, attach):
            async with node.patch(lease, json=change) as response:
                assert said in (await problem_of(response, 410))["detail"]
        candidate = {"kind": "AcquireRequest", "candidate": "c", "lease": lease}
        async with node.patch("/core/locks/expiring", json=candidate) as response:
            assert said in (await problem_of(response, 410))["detail"]
    again = {"ttlMs": 30_000, "documentSelfLink": "slow"}
    async with node.post(LEASES, json=again) as response:
        assert "is expiring" in (await problem_of(response, 409))["detail"]
    assert (await ask(node, "GET", expiring))[1]["state"] == "expiring"
