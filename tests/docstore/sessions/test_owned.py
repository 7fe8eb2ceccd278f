"""A node keeps entries of documents only in slots that it owns."""

from docstore.services.leases import LEASES, LeaseState
from tests.docstore.sessions.group import Group

LINK = f"{LEASES}/x"


def users(group: Group) -> list[str]:
    """Return the nodes that have use for a row."""
    row = group.documents[LINK]
    return [name for name, machine in group.machines.items() if machine.has_use_for(row)]


def test_only_present_and_recent_owners_have_use_for_a_row() -> None:
    group = Group()
    group.put(LINK, LeaseState(ttl_ms=60_000).state())
    assert users(group) == ["a"]
    group.govern("b")
    assert users(group) == ["a", "b"]
    group.run(2.0)
    assert users(group) == ["b"]
