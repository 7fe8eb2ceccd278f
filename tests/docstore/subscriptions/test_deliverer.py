"""Deliveries that a node begins and ends, in a group of one with an endless log."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from random import Random
from typing import cast

import pytest
from cryptography.fernet import Fernet, MultiFernet

from docstore.documents.clients import DISK_FULL
from docstore.documents.view import GroupView
from docstore.maintenance.webhooks import deliverer as module
from docstore.maintenance.webhooks.calling import Caller
from docstore.maintenance.webhooks.deliverer import Deliverer
from docstore.maintenance.webhooks.reading import ChangeReader
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Operation
from docstore.reads.scans.feed import Feed
from docstore.runtime.trace.lines import TraceFilter, is_about, line
from docstore.services.subscriptions import (
    Mark,
    SubscriptionPhase,
    SubscriptionState,
    read_subscription,
)
from docstore.storage.store import Store
from docstore.subscriptions import delivery
from docstore.subscriptions.delivery import FAILURES_MAX, KEPT_BYTES_MAX
from docstore.subscriptions.events import BatchReceived
from docstore.subscriptions.sealing import SecretSeal
from docstore.subscriptions.settings import callback_settings
from docstore.subscriptions.signing import secret_of
from docstore.subscriptions.targets import Targets
from tests.docstore.http.single import SingleNode
from tests.docstore.subscriptions.receiver import Receiver, receiving

LINK = "/core/subscriptions/1"


CALLS_AT_ONCE = 2


class Lines(bytes):
    """Lines that are counted as long as they are referenced."""

    held = most_held = 0

    def __init__(self, *_: object) -> None:
        Lines.held += len(self)
        Lines.most_held = max(Lines.most_held, Lines.held)

    def __del__(self) -> None:
        Lines.held -= len(self)


class Beside:
    """The other parts of a node: by default it owns all slots, and each path changes endlessly."""

    def __init__(self, node: SingleNode) -> None:
        self._node = node
        self.terms_opened = self.looked = 0
        self.is_owner = True
        self.end: int | None = None
        self.said = b""

    def owns(self, link: str) -> bool:
        return self.is_owner

    def owned(self) -> Sequence[int]:
        return (0,)

    def past_us(self) -> int:
        return 0

    async def below(self, prefix: str, slots: Sequence[int]) -> list[Row]:
        self.looked = self.terms_opened
        return [rows[-1] for link, rows in self._node.histories.items() if link.startswith(prefix)]

    async def news(self, seen: int, timeout_s: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.Event().wait()
        return False

    async def read(self, about: SubscriptionState, mark: Mark, rows: int) -> BatchReceived:
        n = int(mark.position)
        if n == self.end:
            return BatchReceived(b"", 0, mark)
        return BatchReceived(Lines(b'{"n": %d%b}\n' % (n, self.said)), 1, Mark(str(n + 1)))


class Alone:
    """A delivering node with the documents of its subscriptions."""

    def __init__(self) -> None:
        said = {"callback_hosts": "http://127.0.0.1", "callback_networks": "127.0.0.0/8"}
        targets = Targets(callback_settings({**said, "callback_key_file": "k"}))
        self.caller = Caller(targets, SecretSeal(MultiFernet([Fernet(Fernet.generate_key())])))
        self.node = SingleNode()
        self.beside = beside = Beside(self.node)
        self.is_full = False
        self.deliverer = Deliverer(
            self.node.node_id, cast("GroupView", beside), cast("Store", beside), self._carry,
            cast("Feed", beside), cast("ChangeReader", beside), self.caller,
            lambda user, path: True,
            retry_s=0.01, rng=Random(1),
        )  # fmt: skip

    def _carry(self, operation: Operation, timeout_s: float) -> "asyncio.Future[Answer]":
        if self.is_full and not operation.is_read:
            self.node.answers.append(DISK_FULL)
        return self.node.submit(operation, timeout_s)

    async def make(self, callback: str, link: str = LINK) -> None:
        sealed = self.caller.seal.seal(link, secret_of(bytes(32)))
        about = SubscriptionState(path="/a", callback=callback, sealed=sealed, mark=Mark("0"))
        made = Operation(verb="POST", link=link, body=json.dump(about.state()))
        self.deliverer.noticed(await self.submit(made))

    async def submit(self, operation: Operation) -> Row:
        answer = await self.node.submit(operation, 1.0)
        assert answer.row is not None, answer
        return answer.row

    async def change(self, kind: str) -> Row:
        body = json.dump({"kind": kind})
        return await self.submit(Operation(verb="PATCH", link=LINK, body=body, media="handler"))

    @property
    def about(self) -> SubscriptionState:
        return self.about_of(LINK)

    def about_of(self, link: str) -> SubscriptionState:
        about = read_subscription(self.node.histories[link][-1].state)
        assert about is not None
        return about

    @property
    def delivered(self) -> int:
        return int(self.deliverer.metrics()["docstore_subscriptions_active"])


@pytest.fixture
async def alone(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Alone]:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "CALLS_AT_ONCE", CALLS_AT_ONCE)
    alone = Alone()
    alone.deliverer.start()
    yield alone
    await alone.deliverer.stop()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def test_a_backlog_does_not_delay_a_draining_node(alone: Alone, receiver: Receiver) -> None:
    await alone.make(receiver.url)
    await receiver.until(lambda: len(receiver.calls) > 2)
    alone.deliverer.drain()
    begun = len(receiver.calls) + receiver.under_way
    await receiver.until(lambda: not alone.delivered)
    assert len(receiver.calls) <= begun + 1
    assert alone.about.delivered == len(receiver.calls), "a taken call is not in the document"
    assert alone.about.phase is SubscriptionPhase.ACTIVE


async def test_the_trace_shows_effects_of_each_subscription_but_no_change(
    alone: Alone, receiver: Receiver
) -> None:
    await alone.make(receiver.url)
    await alone.make(receiver.url, f"{LINK}-other")
    await receiver.until(lambda: len(receiver.calls) > 4)
    steps = list(alone.deliverer.recorder.steps())
    about = [step for step in steps if is_about(step, TraceFilter(link=LINK))]
    seen = [line(step) for step in about]
    assert seen[0] == f"from {LINK} Began path=/a => to {LINK} Read rows=100"
    assert f"from {LINK} BatchReceived rows=1 => to {LINK} Confirm" in seen
    assert f"from {LINK} Confirmed is_same=True may_read=True => to {LINK} Call bytes=9" in seen
    assert any(step.startswith(f"from {LINK} Called status=") for step in seen)
    assert 4 <= len(about) < len(steps)


async def test_a_subscription_resumed_while_its_run_ends_is_delivered(
    alone: Alone, receiver: Receiver
) -> None:
    reads: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await alone.make(receiver.url)
    await alone.change("PauseRequest")
    alone.node.waits.append(reads)  # The node's read of the pause ends later.
    await receiver.until(lambda: alone.delivered)
    await receiver.until(lambda: not alone.node.waits)
    alone.deliverer.noticed(await alone.change("ResumeRequest"))
    reads.set_result(None)
    await receiver.until(lambda: receiver.calls)


async def test_a_slot_that_comes_back_while_its_run_ends_is_delivered(
    alone: Alone, receiver: Receiver
) -> None:
    reads: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await alone.make(receiver.url)
    alone.node.node_id = "n2"  # The owner of the slot when the run here reads the document.
    alone.node.waits.append(reads)
    await receiver.until(lambda: alone.delivered and not alone.node.waits)
    alone.node.node_id = "n1"
    alone.beside.terms_opened += 1
    await receiver.until(lambda: alone.beside.looked == alone.beside.terms_opened)
    reads.set_result(None)
    await receiver.until(lambda: receiver.calls)


async def test_a_lost_slot_ends_the_run_of_its_subscription(
    alone: Alone, receiver: Receiver
) -> None:
    alone.beside.end = 3
    await alone.make(receiver.url)
    await receiver.until(lambda: len(receiver.calls) == 3)  # There are no further changes.
    alone.beside.is_owner = False
    await receiver.until(lambda: not alone.delivered)
    assert alone.about.delivered == 3, "a taken call is not in the document"


async def test_wh9_waiting_subscriptions_hold_no_large_lines(
    alone: Alone, receiver: Receiver
) -> None:
    """Bound the memory of subscriptions that wait for a call or a retry, whatever their number."""
    receiver.always = 500
    alone.beside.said = b', "x": "%b"' % (b"x" * KEPT_BYTES_MAX)
    links = [f"/core/subscriptions/{n}" for n in range(10)]
    Lines.most_held = 0
    for link in links:
        await alone.make(receiver.url, link)
    await receiver.until(
        lambda: all(alone.about_of(each).phase is SubscriptionPhase.PAUSED for each in links)
    )
    assert len(receiver.ids) == len(links) * FAILURES_MAX
    # The bodies of calls, and as much that connections release a moment after their answers.
    assert (
        Lines.most_held <= 2 * CALLS_AT_ONCE * (KEPT_BYTES_MAX + 100) < len(links) * KEPT_BYTES_MAX
    )


async def test_a_full_disk_causes_no_repeated_call(
    alone: Alone, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SAVE_S", 0.0)  # After each message.
    await alone.make(receiver.url)
    await receiver.until(lambda: alone.delivered)
    alone.is_full, alone.beside.end = True, 20
    await receiver.until(lambda: len(receiver.changes) >= 20)
    assert [each["n"] for each in receiver.changes] == list(range(20))
    alone.is_full = False
    await receiver.until(lambda: alone.about.delivered == 20)
    assert len(receiver.changes) == 20


async def test_a_pause_saves_the_taken_changes(alone: Alone, receiver: Receiver) -> None:
    alone.beside.end = 3
    await alone.make(receiver.url)
    await receiver.until(lambda: len(receiver.calls) == 3)
    alone.deliverer.noticed(await alone.change("PauseRequest"))
    await receiver.until(lambda: not alone.delivered)
    assert (alone.about.phase, alone.about.delivered) == (SubscriptionPhase.PAUSED, 3)
    alone.beside.end = 5
    alone.deliverer.noticed(await alone.change("ResumeRequest"))
    await receiver.until(lambda: len(receiver.calls) >= 5)
    assert [each["n"] for each in receiver.changes] == list(range(5))
