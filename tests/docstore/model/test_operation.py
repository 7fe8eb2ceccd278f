"""An operation as plain values: a node reads what others, also earlier ones, pack."""

from typing import Any

import msgpack
import pytest

from docstore.model.operation import (
    ANY_TOMBSTONE,
    CONFLICTS,
    CURRENT,
    Conditions,
    Operation,
    operation_from_wire,
)

RECREATE = 6
"""Where the packed form says which tombstones a POST may go on from."""

READS = [CURRENT, CONFLICTS, ("version", 3), ("at", 1_000_000), ("history", None, 11)]
WRITES: list[dict[str, Any]] = [
    {},
    {"recreate_below": 5},
    {"recreate_below": ANY_TOMBSTONE},
    {"conditions": Conditions(none_match="*"), "creates": True, "level": 2},
    {"media": "merge", "fence": ("locks/a", 7), "only_epoch": 4, "trace": "00-1-2-01"},
]


def there_and_back(operation: Operation) -> Operation:
    """Return an operation as a peer unpacks it."""
    return operation_from_wire(msgpack.unpackb(msgpack.packb(operation.packed()), use_list=False))


@pytest.mark.parametrize("select", READS)
def test_a_read_arrives_as_it_was_sent(select: Any) -> None:
    operation = Operation(verb="GET", link="/a/b", select=select)
    assert there_and_back(operation) == operation


@pytest.mark.parametrize("members", WRITES)
def test_a_write_arrives_as_it_was_sent(members: dict[str, Any]) -> None:
    operation = Operation(verb="POST", link="/a/b", body=b"{}", **members)
    assert there_and_back(operation) == operation
