"""The rate of a bulk job: the lower of its request and its quota, or of the default quota."""

import json
from typing import Any

import pytest

from docstore.http.quotas import READS, WRITES, Quotas
from docstore.model.operation import Operation
from tests.docstore.http.single import SingleNode


async def put(node: SingleNode, name: str, quota: Any) -> None:
    body = json.dumps(quota).encode()
    answer = await node.submit(
        Operation(verb="PUT", link=f"/core/spark/quotas/{name}", body=body, creates=True), 1.0
    )
    assert answer.is_success


async def test_without_quotas_a_job_has_its_requested_rate() -> None:
    quotas = Quotas(SingleNode())
    assert await quotas.rate("a", READS) == 0.0
    assert await quotas.rate("a", READS, 70.0) == 70.0


async def test_the_lower_of_request_and_quota_applies() -> None:
    node = SingleNode()
    await put(node, "a", {READS: 50, WRITES: 20})
    quotas = Quotas(node)
    assert await quotas.rate("a", READS, 70.0) == 50.0
    assert await quotas.rate("a", READS, 30.0) == 30.0
    assert await quotas.rate("a", WRITES) == 20.0
    assert await quotas.rate("b", READS) == 0.0


async def test_a_quota_of_a_job_replaces_the_default() -> None:
    node = SingleNode()
    await put(node, "default", {READS: 50})
    await put(node, "a", {READS: 500})
    quotas = Quotas(node)
    assert await quotas.rate("a", READS) == 500.0
    assert await quotas.rate("b", READS) == 50.0
    assert await quotas.rate("", READS) == 50.0


@pytest.mark.parametrize("wrong", ["fast", True, -1, None, [5]])
async def test_an_invalid_rate_is_refused_and_ignored(wrong: Any) -> None:
    node = SingleNode()
    await put(node, "default", {READS: 50})
    body = json.dumps({READS: wrong}).encode()
    asked = Operation(verb="PUT", link="/core/spark/quotas/default", body=body, creates=True)
    assert (await node.submit(asked, 1.0)).status == 422
    [row] = node.histories["/core/spark/quotas/default"]
    node.histories[row.link] = [row._replace(state=body)]  # As if an owner had not validated it.
    assert await Quotas(node).rate("a", READS) == 0.0


async def test_a_misspelt_quota_is_refused() -> None:
    node = SingleNode()
    body = json.dumps({"rowsASecond": 5}).encode()
    asked = Operation(verb="PUT", link="/core/spark/quotas/default", body=body, creates=True)
    answer = await node.submit(asked, 1.0)
    assert answer.status == 422
    assert "rowsASecond" in answer.detail


async def test_a_quota_is_cached() -> None:
    node = SingleNode()
    await put(node, "default", {READS: 50})
    quotas = Quotas(node)
    assert await quotas.rate("a", READS) == 50.0
    node.fails = True  # The quota is not read again yet.
    assert await quotas.rate("a", READS) == 50.0
