"""What a bulk request refuses because it is said of one document, or in another's terms."""

import json

import pytest

from tests.docstore.http.lines import NDJSON, Client
from tests.docstore.http.problem import problem_of


@pytest.mark.parametrize(
    ("name", "said", "instead"),
    [("Idempotency-Key", "k", "key"), ("If-Match", '"1.0"', "ifVersion and mustExist"),
     ("If-None-Match", "*", "POST"), ("Docstore-Quorum", "all", "quorum")],
)  # fmt: skip
async def test_headers_about_one_document_are_refused(
    client: Client, factory: str, name: str, said: str, instead: str
) -> None:
    line = json.dumps({"link": f"{factory}/a", "body": {}}).encode()
    async with client.post("/core/bulk", data=line, headers=NDJSON | {name: said}) as response:
        detail = (await problem_of(response, 400))["detail"]
    assert name in detail
    assert instead in detail.partition(":")[2]
    async with client.get(f"{factory}/a") as response:
        assert response.status == 404
