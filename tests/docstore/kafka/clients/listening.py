"""Nodes that listen for Kafka clients, each at a port that stays its own while it is down."""

import contextlib
from collections.abc import Iterator

from docstore.client.local import LocalCluster, claim_ports


@contextlib.contextmanager
def listen(group: LocalCluster) -> Iterator[str]:
    """Give listeners to nodes that are not started yet; yield their bootstrap servers."""
    addresses = []
    with contextlib.ExitStack() as claims:
        for node in group.nodes:
            port = claims.enter_context(claim_ports()).getsockname()[1] - 1
            addresses.append(f"127.0.0.1:{port}")
            node.flags += ("--kafka-listen", addresses[-1])
        yield ",".join(addresses)
