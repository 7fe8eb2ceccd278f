"""Bulk jobs: each document once per batch, however often and in any order it is repeated."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from docstore.documents.replica import Replica
from docstore.model.operation import Answer, Operation
from docstore.runtime.driver import Driver
from tests.docstore.alone import LINK, SmallDisk, alone

Node = tuple[Driver, Replica]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    driver, replica = await alone(SmallDisk())
    yield driver, replica
    await driver.stop()


async def put(
    node: Node, name: str, writer: tuple[str, int, int] | tuple[()] = (), verb: str = "PUT"
) -> Answer:
    body = b'{"name": "%b"}' % name.encode()
    operation = Operation(
        verb=verb, link=LINK, body=body, creates=True, media="merge", writer=writer
    )
    return await node[0].submit(operation, 5.0)


async def now(node: Node) -> tuple[int, bytes]:
    row = (await node[0].submit(Operation(verb="GET", link=LINK), 5.0)).row
    assert row is not None
    return row.version, row.state


def forget(node: Node) -> None:
    """Let the owner read the document anew, as another owner would."""
    for log in node[1].core.logs.values():
        if log.term is not None:
            log.term.cache.clear()


@pytest.mark.parametrize("anew", [False, True])
async def test_a_repetition_changes_nothing_even_after_others_wrote(
    node: Node, *, anew: bool
) -> None:
    assert (await put(node, "ours", ("job", 3, -1))).status == 201
    assert (await put(node, "theirs")).status == 200
    if anew:
        forget(node)
    assert (await put(node, "ours", ("job", 3, -1))).status == 200
    assert await now(node) == (1, b'{"name": "theirs"}')


@pytest.mark.parametrize("anew", [False, True])
async def test_a_late_task_of_an_earlier_batch_is_refused(node: Node, *, anew: bool) -> None:
    await put(node, "seven", ("job", 7, -1))
    await put(node, "eight", ("job", 8, -1))
    if anew:
        forget(node)
    late = await put(node, "seven", ("job", 7, -1))
    assert (late.status, late.code) == (409, "stale-batch")
    assert await now(node) == (1, b'{"name": "eight"}')


async def test_jobs_do_not_know_of_each_other(node: Node) -> None:
    await put(node, "a", ("one", 8, -1))
    assert (await put(node, "b", ("two", 1, -1))).status == 200
    assert await now(node) == (1, b'{"name": "b"}')


async def test_two_rows_with_one_link_need_a_sequence(node: Node) -> None:
    await put(node, "a", ("job", 1, -1))
    second = await put(node, "b", ("job", 1, -1))
    assert (second.status, second.code) == (409, "duplicate-key")


async def test_rows_with_one_link_that_come_together_are_all_answered(node: Node) -> None:
    await put(node, "before")
    forget(node)
    # None of them waits for another: all arrive while the document's jobs are looked for.
    answers = await asyncio.gather(*(put(node, str(n), ("job", 1, n)) for n in range(4)))
    assert [answer.status for answer in answers] == [200] * 4
    assert await now(node) == (4, b'{"name": "3"}')


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_the_greatest_sequence_wins_in_any_order(node: Node, order: tuple[int, ...]) -> None:
    for sequence in order:
        assert (await put(node, f"s{sequence}", ("job", 1, sequence))).is_success
    assert (await now(node))[1] == b'{"name": "s3"}'


async def test_a_patch_is_applied_once(node: Node) -> None:
    await put(node, "a")
    for _ in range(3):
        assert (await put(node, "b", ("job", 1, -1), "PATCH")).status == 200
    assert (await now(node))[0] == 1


async def test_a_later_batch_with_an_older_sequence_is_done_already(node: Node) -> None:
    await put(node, "new", ("job", 1, 20))
    assert (await put(node, "old", ("job", 2, 10))).status == 200
    assert await now(node) == (0, b'{"name": "new"}')
