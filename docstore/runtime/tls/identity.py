"""Which nodes a certificate is of: it names them as URIs among its alternative names.

    spiffe://cluster/films/node/n1

Before `/node/` stands the group: a CA may have several, and no node of one is let into another.
A certificate of one machine may name all nodes that run there (`--processes`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from docstore.ownership.configuration import is_node_id

SCHEME, NODE = "spiffe://", "/node/"


class NodeIdentity(NamedTuple):
    """A node of a group. group: such as spiffe://cluster/films."""

    group: str
    node: str

    def __str__(self) -> str:
        """Return it as certificates have it."""
        return f"{self.group}{NODE}{self.node}"


def identities(uris: Iterable[str]) -> frozenset[NodeIdentity]:
    """Return the nodes that are among some URIs."""
    parts = [uri.rpartition(NODE) for uri in uris]
    return frozenset(
        NodeIdentity(group, node)
        for group, separator, node in parts
        if separator and group.startswith(SCHEME) and is_node_id(node)
    )
