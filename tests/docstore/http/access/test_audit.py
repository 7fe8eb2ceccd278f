"""The audit log: administrative changes and refused requests, with their users."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from docstore.http.methods import READS
from docstore.http.routes.documents import FACTORIES_OF_THE_STORE, UTILITIES
from docstore.http.routes.table import ROUTES
from docstore.runtime.audit import AUDIT, REFUSALS_A_SECOND
from tests.docstore.http.access.conftest import Asker

COMMAND = {"kind": "LogLevelRequest", "level": "info"}
CHANGES = ("DELETE", "PATCH", "POST", "PUT")
KINDS = {
    "PATCH /core/elections/x": "TransferRequest",
    "PATCH /core/locks/x": "TransferRequest",
    "PATCH /core/leases/x": "ExpireRequest",
    "PATCH /core/groups/x/offsets": "ResetRequest",
    "PATCH /core/groups/x/offsets/x/0": "ResetRequest",
}
"""Operation that the audit log has for one kind of request only -> that kind."""
ALL_DAY = {
    *(f"{method} /core/{factory}/x" for method in ("PUT", "PATCH", "DELETE")
      for factory in ("snapshots", "spark/jobs", "spark/dead", "examples")),
    *(f"POST /core/{factory}" for factory in (
        "snapshots", "spark/jobs", "spark/dead", "examples", "query-tasks", "bulk", "changes",
        "producers", "leases", "leases/keep-alive", "elections", "locks", "spark/scan",
        "spark/changes", "backup/rows", "streams/x/records", "streams/x/partitions/0/records",
        "groups/x/offsets", "spark/staging/x/x",
    )),
    "PUT /core/spark/staging/x/x", "DELETE /core/spark/staging/x/x", "DELETE /core/leases/x",
    "DELETE /core/elections/x", "DELETE /core/locks/x", "PATCH /core/groups/x/members/x",
    "PATCH /core/roles/x/members/x", "DELETE /tenant1/a/conflicts",
}  # fmt: skip
"""Operations that change no settings and nothing of other clients."""


def operations() -> set[str]:
    """Return each operation that changes something, with names in place of placeholders."""
    found = {f"{method} {route.path}" for route in ROUTES for method in route.ops}
    for factory in FACTORIES_OF_THE_STORE:
        found |= {f"{method} {factory.path}/x" for method in CHANGES}
        found.add(f"POST {factory.path}")
        found.discard(f"POST {factory.path}/x")
    for name, utility in UTILITIES.items():
        found |= {f"{method} /tenant1/{name}" for method in utility.of_factory}
        found |= {f"{method} /tenant1/a/{name}" for method in utility.of_document}
    named = {re.sub(r"{\w+}", "x", each.replace("{partition}", "0")) for each in found}
    return {each for each in named if each.partition(" ")[0] not in READS}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    AUDIT.use(str(tmp_path / "audit.log"), "n1")
    yield tmp_path / "audit.log"
    AUDIT.use("", "")


async def status(
    asker: Asker, user: str, method: str, path: str, body: Any = None, **headers: str
) -> int:
    """Send a request as a user; return the status of its answer."""
    sent = None if body is None else json.dumps(body).encode()
    return (await asker.ask(user, method, path, sent, **headers))[0]


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


async def test_a_change_is_logged_with_its_user_and_request(asker: Asker, file: Path) -> None:
    said = {"X_Request_Id": "r-7"}
    assert await status(asker, "operator", "PATCH", "/core/management", COMMAND, **said) == 200
    secret = {"path": "/made", "schema": {"title": "confidential"}}
    assert await status(asker, "operator", "POST", "/core/factories", secret) == 201
    changed, made = lines(file)
    assert {name: changed[name] for name in changed if name != "timestamp"} == {
        "event": "change", "logger": "docstore.audit", "node": "n1", "outcome": "done",
        "user": "operator", "address": "127.0.0.1", "method": "PATCH", "path": "/core/management",
        "status": 200, "request_id": "r-7", "asked": COMMAND,
    }  # fmt: skip
    assert (made["path"], made["asked"]) == ("/core/factories", {"path": "/made"})
    assert "confidential" not in json.dumps(lines(file))


async def test_reads_and_writes_of_documents_are_not_logged(asker: Asker, file: Path) -> None:
    assert await status(asker, "writer", "PUT", "/tenant1/a", {"a": 1}) == 200
    assert await status(asker, "reader", "GET", "/tenant1/a") == 200
    assert lines(file) == []


async def test_a_refused_request_is_logged(asker: Asker, file: Path) -> None:
    assert await status(asker, "stranger", "GET", "/tenant1/a") == 401
    assert await status(asker, "tenant", "PATCH", "/core/management", COMMAND) == 403
    assert await status(asker, "tenant", "PUT", "/tenant2/a", {}) == 403
    assert await status(asker, "tenant", "GET", "/tenant2/a") == 404
    found = [(each["event"], each.get("user", ""), each["status"]) for each in lines(file)]
    assert found == [
        ("request refused", "", 401),
        ("request refused", "tenant", 403),
        ("request refused", "tenant", 403),
        ("request refused", "tenant", 404),
    ]
    assert "stranger" not in json.dumps(lines(file))


async def test_a_flood_of_refusals_is_bounded_and_counted(asker: Asker, file: Path) -> None:
    many = 4 * REFUSALS_A_SECOND
    for _ in range(many):
        await status(asker, "stranger", "GET", "/tenant1/a")
    written = lines(file)
    assert len(written) + sum(each.get("left_out", 0) for each in written) <= many
    assert len(written) < many


async def test_each_administrative_operation_is_logged(asker: Asker, file: Path) -> None:
    """Each request has a header that the node refuses, or the kind that the log has."""
    assert ALL_DAY | KINDS.keys() <= operations()
    for operation in sorted(operations()):
        method, path = operation.split()
        kind, before = KINDS.get(operation), len(lines(file))
        refused = {} if kind else {"Docstore_Internal_Hop": "1"}
        found = await status(
            asker, "operator", method, path, {"kind": kind} if kind else {}, **refused
        )
        written = lines(file)[before:]
        assert found >= 400, operation
        assert len(written) == (operation not in ALL_DAY), (operation, written)
        for line in written:
            assert (line["event"], line["method"], line["path"]) == ("change", method, path)


async def test_some_operations_are_logged_for_one_kind_only(asker: Asker, file: Path) -> None:
    for operation in KINDS:
        method, path = operation.split()
        await status(asker, "operator", method, path, {"kind": "ClaimRequest"})
        await status(asker, "operator", method, path, {"kind": ["ResetRequest"]})
    assert lines(file) == []


@pytest.mark.parametrize("media", ["application/msgpack", "application/merge-patch+json"])
async def test_the_kind_is_found_in_each_form_of_a_body(
    asker: Asker, file: Path, media: str
) -> None:
    asked = {"kind": "ResetRequest", "offset": 7}
    body = msgpack.packb(asked) if media.endswith("msgpack") else json.dumps(asked).encode()
    await asker.ask("operator", "PATCH", "/core/groups/x/offsets/x/0", body, Content_Type=media)
    [line] = lines(file)
    assert line["asked"] == asked


async def test_a_quota_is_set_alone_and_logged_and_refused_in_bulk(
    asker: Asker, file: Path
) -> None:
    line = b'{"op": "PUT", "link": "/core/spark/quotas/x", "body": {"rowsPerSecond": 1}}\n'
    _, said, _ = await asker.ask("operator", "POST", "/core/bulk", line)
    assert (json.loads(said)["status"], lines(file)) == (400, [])
    alone = {"rowsPerSecond": 1}
    assert await status(asker, "operator", "PUT", "/core/spark/quotas/x", alone) == 201
    assert lines(file)[0]["asked"] == alone
