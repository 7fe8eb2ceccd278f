"""Who asks too often is told so, line by line as well, and others go on as if nothing was."""

import json

import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.errors import BadConfig
from tests.docstore.http.access.conftest import Asker, rules_text

WAYS = ({}, {"X-Request-Id": "a task"})


@pytest.fixture
def authenticator(monkeypatch: pytest.MonkeyPatch) -> Authenticator:
    monkeypatch.setattr("docstore.http.access.time.monotonic", lambda: 7.0)
    slow = rules_text().replace("[users.tenant]", "[users.tenant]\nrequests_per_second = 3")
    return Authenticator(rules_of(slow))


@pytest.mark.parametrize("way", WAYS)
async def test_one_too_many_is_429_and_others_are_served(asker: Asker, way: dict[str, str]) -> None:
    statuses = [(await asker.ask("tenant", "GET", "/tenant1/a", **way))[0] for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    _, content, headers = await asker.ask("tenant", "GET", "/tenant1/a", **way)
    assert headers["Retry-After"] == "1"
    problem = json.loads(content)
    assert (problem["errorCode"], problem["outcome"]) == ("too-many-requests", "not_applied")
    assert (await asker.ask("tenant-reader", "GET", "/tenant1/a", **way))[0] == 200
    assert (await asker.ask("", "GET", "/health/ready"))[0] == 200


async def test_each_line_is_a_request(asker: Asker) -> None:
    lines = [json.dumps({"op": "PUT", "link": f"/tenant1/{each}", "body": {}}) for each in "abcd"]
    _, content, _ = await asker.ask(
        "tenant", "POST", "/core/bulk", "\n".join(lines).encode(),
        Content_Type="application/x-ndjson",
    )  # fmt: skip
    statuses = [json.loads(line)["status"] for line in content.splitlines()]
    assert statuses == [200, 200, 429, 429]


@pytest.mark.parametrize("rate", ["-1", "true", '"3"', "inf", "nan"])
def test_a_rate_is_a_number(rate: str) -> None:
    with pytest.raises(BadConfig, match="requests_per_second"):
        rules_of(f"[users.ann]\ntokens = []\nroles = []\nrequests_per_second = {rate}")
