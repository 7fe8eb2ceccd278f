"""A user that sends requests too often gets 429, by lines as well; other users do not."""

import json

import pytest

from docstore.access.authenticator import Authenticator
from docstore.access.rules import rules_of
from docstore.errors import BadConfig
from docstore.model.operation import Answer
from tests.docstore.http.access.conftest import Asker, rules_text
from tests.docstore.http.single import SingleNode

LINES = "application/x-ndjson"
WAYS = ({}, {"X-Request-Id": "a task"})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time that the buckets read, which a test may change."""
    now = [7.0]
    monkeypatch.setattr("docstore.http.access.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def authenticator(clock: list[float]) -> Authenticator:
    slow = rules_text().replace("[users.tenant]", "[users.tenant]\nrequests_per_second = 3")
    return Authenticator(rules_of(slow))


@pytest.mark.parametrize("way", WAYS)
async def test_a_request_above_the_rate_is_429_and_other_users_are_served(
    asker: Asker, way: dict[str, str]
) -> None:
    statuses = [(await asker.ask("tenant", "GET", "/tenant1/a", **way))[0] for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    _, content, headers = await asker.ask("tenant", "GET", "/tenant1/a", **way)
    assert headers["Retry-After"] == "1"
    problem = json.loads(content)
    assert (problem["errorCode"], problem["outcome"]) == ("too-many-requests", "not_applied")
    assert (await asker.ask("tenant-reader", "GET", "/tenant1/a", **way))[0] == 200
    assert (await asker.ask("", "GET", "/health/ready"))[0] == 200


async def test_each_line_counts_as_a_request(asker: Asker) -> None:
    lines = [json.dumps({"op": "PUT", "link": f"/tenant1/{each}", "body": {}}) for each in "abcd"]
    _, content, _ = await asker.ask(
        "tenant", "POST", "/core/bulk", "\n".join(lines).encode(),
        Content_Type=LINES,
    )  # fmt: skip
    statuses = [json.loads(line)["status"] for line in content.splitlines()]
    assert statuses == [200, 200, 429, 429]


async def test_an_atomic_batch_is_admitted_whole_and_its_lines_count(
    asker: Asker, node: SingleNode, clock: list[float]
) -> None:
    declared = b'{"path": "/tenant1/orders:"}'
    assert (await asker.ask("operator", "POST", "/core/factories", declared))[0] == 201
    node.answers = [Answer(200, rows=[])]  # The answer to the only batch that is admitted.
    lines = [{"link": f"/tenant1/orders:/k~{n}", "body": {}} for n in range(9)]
    body = "\n".join(map(json.dumps, lines)).encode()

    async def status() -> int:
        path = "/core/bulk?atomic=true"
        return (await asker.ask("tenant", "POST", path, body, Content_Type=LINES))[0]

    assert [await status(), await status()] == [200, 429]
    clock[0] += 2.3  # The batch cost ten requests, three and a third seconds' worth.
    assert (await asker.ask("tenant", "GET", "/tenant1/a"))[0] == 429
    clock[0] += 0.4
    assert (await asker.ask("tenant", "GET", "/tenant1/a"))[0] == 200


@pytest.mark.parametrize("rate", ["-1", "true", '"3"', "inf", "nan"])
def test_a_rate_is_a_number(rate: str) -> None:
    with pytest.raises(BadConfig, match="requests_per_second"):
        rules_of(f"[users.ann]\ntokens = []\nroles = []\nrequests_per_second = {rate}")
