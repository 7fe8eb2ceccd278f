"""Roles and leases without an event loop of one's own."""

import time
from collections.abc import Callable

import pytest

from docstore.client import LocalCluster, RequestFailed
from docstore.client.threads import ThreadedLease, ThreadedRole


def until(condition: Callable[[], bool]) -> None:
    """Wait; looking costs nothing but a look at the clock."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


def test_a_role_is_led_while_this_thread_does_something_else(
    group: LocalCluster, name: str
) -> None:
    with ThreadedRole(group.urls, name, roles=4, session_s=1.0) as role:
        until(lambda: all(role.leads(each) for each in range(4)))
        assert role.fence(3) == f"roles/{name}/3:{role.token(3)}"
        assert role.leads_key("EURUSD")
        began = time.monotonic()
        while time.monotonic() - began < 1.2:
            assert role.leads(0), "its heartbeats do not need this thread"
        thread = role._thread
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="within `with`"):
        _ = ThreadedRole(group.urls, name).leads(0)


def test_a_lease_is_held_without_a_loop(group: LocalCluster) -> None:
    with ThreadedLease(group.urls, ttl_s=5.0) as lease:
        assert lease.held()
        assert lease.link.startswith("/core/leases/")
    assert not lease.held()


def test_what_cannot_begin_leaves_no_thread(group: LocalCluster) -> None:
    role = ThreadedRole(group.urls, "bad%2fname")
    with pytest.raises(RequestFailed):
        role.__enter__()
    assert not role._thread.is_alive()
