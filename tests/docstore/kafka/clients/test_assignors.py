"""Members that keep partitions when the group changes: static ones, and cooperative ones."""

from collections.abc import Iterable

import confluent_kafka
import pytest

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.http import created
from tests.docstore.kafka.clients.member import BEAT_MS
from tests.docstore.watching import page_of, until

pytestmark = pytest.mark.thorough
PARTITIONS = 4
SESSION_MS = 20_000
"""A session longer than the test, so that a silent member stays in the group."""


class Member:
    """A member of the group "of-TOPIC", with its assigned and revoked partitions."""

    def __init__(self, bootstrap: str, topic: str, **settings: str) -> None:
        self.owned, self.revoked = set[int](), set[int]()
        self.fault: confluent_kafka.KafkaError | None = None
        self.consumer = confluent_kafka.Consumer({
            "bootstrap.servers": bootstrap, "group.id": f"of-{topic}", "log_level": 2,
            "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": BEAT_MS,
            **{name.replace("_", "."): value for name, value in settings.items()},
        })  # fmt: skip
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: object, places: Iterable[confluent_kafka.TopicPartition]) -> None:
        self.owned = self.owned | {each.partition for each in places}

    def _revoked(self, _: object, places: Iterable[confluent_kafka.TopicPartition]) -> None:
        taken = {each.partition for each in places}
        self.owned, self.revoked = self.owned - taken, self.revoked | taken

    def poll(self) -> None:
        found = self.consumer.poll(0.05)
        if found is not None:
            self.fault = found.error()


def shared(*members: Member) -> None:
    """Poll until all members have the same number of partitions."""

    def is_shared() -> bool:
        for each in members:
            each.poll()
        return {len(each.owned) for each in members} == {PARTITIONS // len(members)}

    until(is_shared, 30.0)


def test_a_static_member_restarts_without_a_rebalance_and_fences_the_one_before(
    group: LocalCluster, bootstrap: str
) -> None:
    topic = created(group, partitions=PARTITIONS)

    def generation() -> int:
        return int(page_of(f"{group.urls[0]}/core/groups/of-{topic}")["generation"])

    first, other = (Member(bootstrap, topic, group_instance_id=name) for name in ("one", "other"))
    shared(first, other)
    owned, before, other.revoked = first.owned, generation(), set()
    first.consumer.close()
    second = Member(bootstrap, topic, group_instance_id="one")
    shared(second, other)
    third = Member(bootstrap, topic, group_instance_id="one")
    shared(third, other)
    assert second.owned == third.owned == owned
    assert (generation(), other.revoked) == (before, set())

    def is_fenced() -> bool:
        second.poll()
        return second.fault is not None and "fenced" in second.fault.str()

    until(is_fenced)
    for each in (second, third, other):
        each.consumer.close()


def test_cooperative_members_keep_the_partitions_that_do_not_move(
    group: LocalCluster, bootstrap: str
) -> None:
    topic = created(group, partitions=PARTITIONS)
    assignor = {"partition_assignment_strategy": "cooperative-sticky"}
    first = Member(bootstrap, topic, **assignor)
    shared(first)
    second = Member(bootstrap, topic, **assignor)
    shared(first, second)
    assert first.revoked == second.owned
    first.consumer.close()
    shared(second)
    assert second.revoked == set()
    second.consumer.close()
