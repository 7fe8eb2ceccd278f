"""The nodes of the group as brokers: their numbers, and the addresses of their Kafka listeners.

The number of a node is a hash of its id, so that all nodes name it alike without an agreement.
"""

import hashlib
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from docstore.http.backend import Backend
from docstore.model.address import parse_address

NUMBER_MAX = (1 << 31) - 1
RECENT_S = 0.5
"""Seconds for which a view is kept where requests would make one each."""
NONE = -1
"""Broker id that means no broker."""


class Broker(NamedTuple):
    """A live node with a Kafka listener."""

    number: int
    host: str
    port: int
    zone: str


class BrokerView(NamedTuple):
    """The group at one time.

    numbers: node id -> number of each member. alive: ids of the members that are heard. brokers:
    node id -> broker of those that have a listener. own: the broker of this node.
    """

    cluster_id: str
    numbers: Mapping[str, int]
    alive: frozenset[str]
    brokers: Mapping[str, Broker]
    own: Broker

    def leader(self, node: str) -> Broker:
        """Return the broker for a partition that a node leads.

        A node without a listener is represented by this one, which forwards requests.
        """
        return self.brokers.get(node, self.own)

    def numbers_of(self, nodes: "list[str] | tuple[str, ...]") -> list[int]:
        """Return the numbers of members."""
        return [self.numbers[each] for each in nodes if each in self.numbers]


class Brokers:
    """The brokers as one node knows them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._recent: BrokerView | None = None
        self._recent_until = 0.0

    def is_led_here(self, link: str) -> bool:
        """Say whether this node leads a partition, as far as it knows."""
        streams = self._backend.inside().stream_backend
        return streams.known_leader(link) == self._backend.node_id

    def elsewhere(self, link: str) -> str:
        """Return why a client must go to another broker for a partition; "" if it need not.

        A node without a listener is represented by the others, which forward requests.
        """
        leader = self._backend.inside().stream_backend.known_leader(link)
        if leader in ("", self._backend.node_id) or leader not in self._recently().brokers:
            return ""
        return f"node {leader} leads {link}"

    def _recently(self) -> BrokerView:
        now = time.monotonic()
        if self._recent is None or now >= self._recent_until:
            self._recent, self._recent_until = self.view(), now + RECENT_S
        return self._recent

    def view(self) -> BrokerView:
        """Return the present view. Raises Unavailable while the group is not known."""
        page = self._backend.inside().status.node_group()
        group = page["configuration"]
        numbers = numbers_of(tuple(each["id"] for each in group["members"]))
        members = {each["id"]: each for each in page["members"] if each["status"] == "ALIVE"}
        brokers = {
            node: Broker(numbers[node], *parse_address(member["kafka"]), member["zone"])
            for node, member in members.items()
            if node in numbers and member.get("kafka")
        }
        own = brokers.get(self._backend.node_id, Broker(NONE, "", 0, ""))
        return BrokerView(group["clusterId"], numbers, frozenset(members), brokers, own)


@lru_cache(maxsize=64)
def numbers_of(nodes: tuple[str, ...]) -> Mapping[str, int]:
    """Return node id -> number; of two ids with one hash, the later one gets the next number."""
    numbers: dict[str, int] = {}
    for node in sorted(nodes):
        digest = hashlib.blake2b(node.encode(), digest_size=4).digest()
        number = int.from_bytes(digest, "big") % NUMBER_MAX
        while number in numbers.values():
            number = (number + 1) % NUMBER_MAX
        numbers[node] = number
    return numbers
