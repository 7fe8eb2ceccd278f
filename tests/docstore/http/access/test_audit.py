"""The audit log: who changed what an administrator changes, and who was refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.runtime.audit import AUDIT, REFUSALS_A_SECOND
from tests.docstore.http.access.conftest import Asker

COMMAND = {"kind": "LogLevelRequest", "level": "info"}


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


async def test_a_change_is_written_with_its_user_and_what_was_asked(
    asker: Asker, file: Path
) -> None:
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


async def test_what_anybody_does_all_day_is_not_written(asker: Asker, file: Path) -> None:
    assert await status(asker, "writer", "PUT", "/tenant1/a", {"a": 1}) == 200
    assert await status(asker, "reader", "GET", "/tenant1/a") == 200
    assert lines(file) == []


async def test_a_refused_request_is_written(asker: Asker, file: Path) -> None:
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
