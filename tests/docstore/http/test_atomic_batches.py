"""Atomic batches over HTTP: one deadline for all steps, and none sent after it."""

import asyncio
import itertools

import pytest

from docstore.http.large_bodies import LARGE_BYTES
from docstore.model.operation import Answer, Operation
from docstore.model.service import Service
from tests.docstore.http.lines import NDJSON, Client, ndjson
from tests.docstore.http.problem import problem_of
from tests.docstore.http.single import SingleNode

PATH = "/core/bulk?atomic=true"
TIMEOUT_S, LOOK_S = 10.0, 4.0


class Slow(SingleNode):
    """A node that finds factories slowly, and records submitted batches."""

    def __init__(self) -> None:
        super().__init__()
        self.late_s = 0.0
        """Seconds that the loop's clock is ahead."""
        self.submitted: list[tuple[Operation, float]] = []

    def service_at(self, path: str) -> Service | None:
        return None if path.endswith(":") else super().service_at(path)

    async def find_service(self, path: str, timeout_s: float) -> Service | None:
        self.late_s += min(LOOK_S, timeout_s)
        return self.registry.service_at(path)

    def submit(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        if operation.verb == "BATCH":
            self.submitted.append((operation, timeout_s))
            self.answers.append(Answer(200, rows=[]))
        return super().submit(operation, timeout_s)


@pytest.fixture
def node() -> Slow:
    """Return the node of the server."""
    return Slow()


@pytest.fixture
async def slow(node: Slow, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Return that node, whose delays advance the loop's clock."""
    loop = asyncio.get_running_loop()
    read = loop.time
    monkeypatch.setattr(loop, "time", lambda: read() + node.late_s)
    return node


_numbers = itertools.count()


async def declared(client: Client, count: int) -> list[str]:
    """Declare factories with partition keys; return a link in each, all with one key."""
    paths = [f"/t{next(_numbers)}:" for _ in range(count)]
    for path in paths:
        async with client.post("/core/factories", json={"path": path}) as response:
            assert response.status == 201
    return [f"{path}/k" for path in paths]


@pytest.mark.parametrize("text", ["", "x" * LARGE_BYTES])
async def test_all_steps_of_a_batch_share_one_deadline(
    client: Client, slow: Slow, text: str
) -> None:
    links = await declared(client, 2)
    headers = {**NDJSON, "Docstore-Timeout-Ms": str(int(TIMEOUT_S * 1000))}
    data = ndjson({"link": link, "body": {"text": text}} for link in links)
    async with client.post(PATH, data=data, headers=headers) as response:
        assert response.status == 200
    [(_, left_s)] = slow.submitted
    assert 0 < left_s <= TIMEOUT_S - 2 * LOOK_S


async def test_a_batch_past_its_deadline_is_not_submitted(client: Client, slow: Slow) -> None:
    links = await declared(client, 3)
    headers = {**NDJSON, "Docstore-Timeout-Ms": str(int(TIMEOUT_S * 1000))}
    data = ndjson({"link": link, "body": {}} for link in links)
    async with client.post(PATH, data=data, headers=headers) as response:
        problem = await problem_of(response, 503)
    assert problem["outcome"] == "not_applied"
    assert slow.submitted == []
