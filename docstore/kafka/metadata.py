"""Metadata and DescribeCluster: the brokers, the topics, and the leader of each partition.

A topic without a document is not created because a client asks for it. Answers have no epochs of
leaders: without them, clients do not compare logs with those of leaders, which docstore does
itself.
"""

from collections.abc import Sequence

from docstore.errors import DocstoreError
from docstore.http.authority import Authority
from docstore.http.backend import Backend
from docstore.kafka.brokers import NONE, Brokers, BrokerView
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode, code_of_error
from docstore.kafka.reading import TopicReader
from docstore.kafka.schemas import Fields
from docstore.ownership.by_lag import LED
from docstore.streams.replica_set import STREAMS, ReplicaSet, is_topic
from docstore.streams.topic import Topic

METADATA, DESCRIBE_CLUSTER = 3, 60
NOT_ASKED = -(1 << 31)
"""Kafka's value of permissions that a client did not ask for."""


class MetadataPages:
    """Answers requests about the group and its topics."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._brokers = brokers
        self._reader = TopicReader(backend)

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return Api(METADATA, 0, 9, self.metadata), Api(DESCRIBE_CLUSTER, 0, 0, self.cluster)

    async def metadata(self, call: Call) -> Fields:
        """Answer Metadata."""
        view = self._brokers.view()
        asked = call.request.topics
        wants_all = asked is None or (call.version == 0 and not asked)
        if wants_all:
            topics = await self._all(view, call.authority)
        else:
            topics = await self._named(view, call, [each.name for each in asked])
        return Fields(
            brokers=_brokers(view),
            cluster_id=view.cluster_id,
            controller_id=view.own.number,
            topics=topics,
            cluster_authorized_operations=NOT_ASKED,
        )

    async def cluster(self, call: Call) -> Fields:
        """Answer DescribeCluster."""
        view = self._brokers.view()
        brokers = [Fields(**vars(each), broker_id=each.node_id) for each in _brokers(view)]
        return Fields(
            error_code=ErrorCode.none, error_message=None, cluster_id=view.cluster_id,
            controller_id=view.own.number, brokers=brokers,
            cluster_authorized_operations=NOT_ASKED,
        )  # fmt: skip

    async def _all(self, view: BrokerView, authority: Authority) -> list[Fields]:
        topics = [each for each in await self._reader.all() if authority.may("GET", each.link)]
        partitions = await self._reader.partitions(topics)
        return [_topic(view, each, partitions[each.name]) for each in topics]

    async def _named(self, view: BrokerView, call: Call, names: Sequence[str]) -> list[Fields]:
        readable = [name for name in names if call.may("GET", f"{STREAMS}/{name}")]
        try:
            found = await self._reader.named(readable)
            topics = {name: topic for name, topic in found.items() if topic is not None}
            partitions = await self._reader.partitions(topics.values())
        except DocstoreError as error:
            return [_without(name, code_of_error(error)) for name in names]
        shown = []
        for name in names:
            if name in topics:
                shown.append(_topic(view, topics[name], partitions[name]))
            elif not is_topic(f"{STREAMS}/{name}"):  # A client does not ask for it again.
                shown.append(_without(name, ErrorCode.invalid_topic_exception))
            elif name in found:
                shown.append(_without(name, ErrorCode.unknown_topic_or_partition))
            else:
                shown.append(_without(name, ErrorCode.topic_authorization_failed))
        return shown


def _brokers(view: BrokerView) -> list[Fields]:
    return [
        Fields(node_id=each.number, host=each.host, port=each.port, rack=each.zone or None)
        for each in view.brokers.values()
    ]


def _without(name: str, code: ErrorCode) -> Fields:
    return Fields(error_code=code, name=name, partitions=())


def _topic(view: BrokerView, topic: Topic, found: Sequence[ReplicaSet | None]) -> Fields:
    partitions = [_partition(view, number, each) for number, each in enumerate(found)]
    return Fields(error_code=ErrorCode.none, name=topic.name, partitions=partitions)


def _partition(view: BrokerView, number: int, found: ReplicaSet | None) -> Fields:
    if found is None or found.resolution not in LED:
        replicas = view.numbers_of(found.replicas) if found else []
        return Fields(
            error_code=ErrorCode.leader_not_available, partition_index=number, leader_id=NONE,
            replica_nodes=replicas, isr_nodes=(), offline_replicas=(),
        )  # fmt: skip
    dead = [each for each in found.replicas if each not in view.alive]
    return Fields(
        error_code=ErrorCode.none,
        partition_index=number,
        leader_id=view.leader(found.leader).number,
        replica_nodes=view.numbers_of(found.replicas),
        isr_nodes=view.numbers_of([node for node, _ in found.lrs]),
        offline_replicas=view.numbers_of(dead),
    )
