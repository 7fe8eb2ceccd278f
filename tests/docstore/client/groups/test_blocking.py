"""Roles, leases and groups of the blocking client, whose heartbeats run in its own thread."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from docstore.client import LocalCluster, RequestFailed
from docstore.client.blocking import Client
from docstore.client.portal import THREAD


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == THREAD]


def test_a_role_is_led_while_this_thread_is_busy(group: LocalCluster, name: str) -> None:
    with Client(group.urls) as store, store.role(name, roles=4, session_s=1.0) as role:
        until(lambda: all(role.leads(each) for each in range(4)))
        assert role.fence(3) == f"roles/{name}/3:{role.token(3)}"
        assert role.leads_key("EURUSD")
        began = time.monotonic()
        while time.monotonic() - began < 1.2:
            assert role.leads(0), "heartbeats do not need this thread"
        assert threads()
    assert not threads()
    with pytest.raises(RuntimeError, match="within `with`"):
        store.get("/notes/a")


def test_a_lease_is_held_and_shared_without_a_loop(group: LocalCluster) -> None:
    with Client(group.urls) as store:
        store.declare("/leased")
        with store.lease(ttl_s=5.0) as lease, store.lock("shared", lease=lease) as lock:
            assert lease.held()
            assert lock.lease.link == lease.link
            written = store.put("/leased/a", {"n": 1}, lease=lease, fence=lock.fence())
            assert written["documentLeaseLink"] == lease.link
        assert not lease.held()
        until(lambda: not [*store.ls("/leased")])


def test_a_failed_start_leaves_no_thread(group: LocalCluster) -> None:
    with (
        pytest.raises(RequestFailed),
        Client(group.urls) as store,
        store.role("bad%2fname"),
    ):
        pass
    assert not threads()


def test_records_are_produced_and_read_by_a_group_that_commits_the_last(
    group: LocalCluster, name: str
) -> None:
    with Client(group.urls) as store:
        store.json("POST", "/core/streams", {"name": name, "partitions": 1})
        with store.producer(name) as producer:
            sent = [producer.send("key", number) for number in range(3)]
        assert [each.result(0).offset for each in sent] == [0, 1, 2]
        assert [each.value for each in store.consume(name, follow=False)] == [0, 1, 2]
        for expected in ([0, 1], [2]):
            with store.group(name, [name], session_s=1.0) as members:
                reading = iter(members)
                assert [next(reading).value for _ in expected] == expected


def test_a_call_of_another_thread_ends_with_the_client(group: LocalCluster, name: str) -> None:
    caught: list[BaseException] = []
    with Client(group.urls) as store:
        store.declare(f"/{name}")

        def wait() -> None:
            try:
                next(store.follow(f"/{name}"))
            except CancelledError as error:
                caught.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: len(store._portal._callers) == 2)
    waiting.join(10)
    assert len(caught) == 1


def test_a_callback_that_would_wait_for_itself_is_an_error(group: LocalCluster, name: str) -> None:
    errors: list[str] = []

    def acquired(_: object) -> None:
        try:
            store.get("/notes/a")
        except RuntimeError as error:
            errors.append(str(error))

    with (
        Client(group.urls) as store,
        store.role(name, session_s=1.0, on_acquired=acquired) as role,
    ):
        until(lambda: role.leads(0) and errors != [])
    assert "a callback must not wait" in errors[0]
