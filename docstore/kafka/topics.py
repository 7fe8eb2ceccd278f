"""CreateTopics, DeleteTopics and CreatePartitions: changes of the documents of topics."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from docstore.http.backend import Backend
from docstore.http.ids import new_id
from docstore.http.provisioned import provisioned
from docstore.kafka.changing import Refused, change, insist, patience_s, refused
from docstore.kafka.config_pages import settings_of
from docstore.kafka.configs import AT_CREATION, members_of
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode
from docstore.kafka.reading import TopicReader, some_at_once
from docstore.kafka.schemas import Fields
from docstore.model import json
from docstore.model.operation import ANY_TOMBSTONE
from docstore.model.service import Refusal
from docstore.streams.replica_set import STREAMS
from docstore.streams.requests import NoSuchTopic
from docstore.streams.topic import PARTITIONS_MAX, Topic, asked_topic, check_name

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
BY_ID_FROM = 6
"""Version of DeleteTopics from which a client may give the id of a topic and not its name."""
DEFAULT = -1
"""Value of a number that the client leaves to the node."""


class TopicPages:
    """Answers requests that create, delete or enlarge topics."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._reader = TopicReader(backend)

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (
            Api(CREATE_TOPICS, 2, 7, self.create),
            Api(DELETE_TOPICS, 1, 6, self.delete),
            Api(CREATE_PARTITIONS, 0, 3, self.enlarge),
        )

    async def create(self, call: Call) -> Fields:
        """Answer CreateTopics once the partitions exist, or the time is over."""
        return Fields(topics=await self._each(call, call.request.topics, self._create))

    async def delete(self, call: Call) -> Fields:
        """Answer DeleteTopics."""
        if call.version >= BY_ID_FROM:
            topics = call.request.topics
        else:
            topics = [Fields(name=name) for name in call.request.topic_names]
        return Fields(responses=await self._each(call, topics, self._delete))

    async def enlarge(self, call: Call) -> Fields:
        """Answer CreatePartitions once they exist, or the time is over."""
        return Fields(results=await self._each(call, call.request.topics, self._enlarge))

    async def _each(
        self, call: Call, asked: Sequence[Fields], work: Callable[[Call, Fields], Awaitable[Fields]]
    ) -> list[Fields]:
        """Return the result of each topic; a topic that is named twice is refused."""
        named = Counter(each.name for each in asked)

        async def result(each: Fields) -> Fields:
            try:
                if named[each.name] > 1:
                    raise Refused(ErrorCode.invalid_request, "a topic is named twice")
                return await work(call, each)
            except Exception as error:  # noqa: BLE001 - `refused` raises what is no refusal
                why = refused(error)
                return _result(each.name, code=why.code, detail=str(why))

        return await some_at_once([partial(result, each) for each in asked])

    async def _create(self, call: Call, asked: Fields) -> Fields:
        topic = self._wanted(asked)
        insist(call, "PUT", topic.link)
        if call.request.validate_only:
            if (await self._reader.named([topic.name]))[topic.name] is not None:
                raise Refused(ErrorCode.topic_already_exists, f"topic {topic.name} exists")
            return _result(topic.name, topic=topic)
        timeout_s = patience_s(call)
        answer = await change(
            self._backend, call, "POST", topic.link, timeout_s, body=topic.pack(),
            signature=json.signature(topic.state()), recreate_below=ANY_TOMBSTONE,
        )  # fmt: skip
        await self._until_provisioned(answer, timeout_s)
        return _result(topic.name, topic=topic)

    def _wanted(self, asked: Fields) -> Topic:
        """Return the topic that a client asks for. Raises Refused, ConfigRefused, Refusal."""
        members = self._backend.inside().stream_backend.members
        if asked.assignments:
            detail = "a node places the replicas itself: leave the assignments out"
            raise Refused(ErrorCode.invalid_replica_assignment, detail)
        _check_name(asked.name)
        state: dict[str, Any] = {"name": asked.name}
        if asked.num_partitions != DEFAULT:
            if not 0 < asked.num_partitions <= PARTITIONS_MAX:
                detail = f"partitions must be 1 to {PARTITIONS_MAX}; got {asked.num_partitions}"
                raise Refused(ErrorCode.invalid_partitions, detail)
            state["partitions"] = asked.num_partitions
        if asked.replication_factor != DEFAULT:
            if not 0 < asked.replication_factor <= members:
                detail = f"replicas must be 1 to {members}; got {asked.replication_factor}"
                raise Refused(ErrorCode.invalid_replication_factor, detail)
            state["replicationFactor"] = asked.replication_factor
        state |= members_of({each.name: each.value for each in asked.configs}, AT_CREATION)
        try:
            return asked_topic(state, incarnation=new_id(), members=members)
        except Refusal as error:
            raise Refused(ErrorCode.invalid_config, error.detail) from None

    async def _delete(self, call: Call, asked: Fields) -> Fields:
        if asked.name is None:
            raise Refused(ErrorCode.unknown_topic_id, "topics have no ids: give the topic's name")
        await change(self._backend, call, "DELETE", _link(asked.name), patience_s(call))
        return _result(asked.name)

    async def _enlarge(self, call: Call, asked: Fields) -> Fields:
        link, timeout_s = _link(asked.name), patience_s(call)
        insist(call, "PATCH", link)
        topic = (await self._reader.named([asked.name]))[asked.name]
        if topic is None:
            raise NoSuchTopic(f"there is no topic {asked.name}")
        if asked.assignments:
            detail = "a node places the replicas itself: leave the assignments out"
            raise Refused(ErrorCode.invalid_replica_assignment, detail)
        if not topic.partitions < asked.count <= PARTITIONS_MAX:
            detail = f"partitions must be {topic.partitions + 1} to {PARTITIONS_MAX}"
            raise Refused(ErrorCode.invalid_partitions, f"{detail}; got {asked.count}")
        if not call.request.validate_only:
            body = json.dump({"partitions": asked.count})
            answer = await change(
                self._backend, call, "PATCH", link, timeout_s, body=body, media="handler"
            )
            await self._until_provisioned(answer, timeout_s)
        return _result(asked.name)

    async def _until_provisioned(self, answer: Any, timeout_s: float) -> None:
        """Wait for the partitions. Raises Refused if they do not exist in time."""
        found = await provisioned(self._backend, answer, timeout_s)
        if found.status != 201:
            detail = "the topic is changed, and its partitions do not exist yet"
            raise Refused(ErrorCode.request_timed_out, detail)


def _check_name(name: str) -> None:
    try:
        check_name(name)
    except Refusal as error:
        raise Refused(ErrorCode.invalid_topic_exception, error.detail) from None


def _link(name: str) -> str:
    _check_name(name)
    return f"{STREAMS}/{name}"


def _result(
    name: str | None,
    *,
    code: ErrorCode = ErrorCode.none,
    detail: str = "",
    topic: Topic | None = None,
) -> Fields:
    return Fields(
        name=name, topic_id=None, error_code=code, error_message=detail or None,
        num_partitions=topic.partitions if topic else -1,
        replication_factor=topic.replication_factor if topic else -1,
        configs=settings_of(topic) if topic else (), topic_config_error_code=0,
    )  # fmt: skip
