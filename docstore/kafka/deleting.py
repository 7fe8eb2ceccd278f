"""DeleteRecords: the log of each partition begins later; -1 deletes all that are committed."""

from collections.abc import Sequence
from functools import partial

from docstore.errors import DocstoreError
from docstore.http.backend import Backend
from docstore.kafka.brokers import Brokers
from docstore.kafka.changing import patience_s
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode, code_of, code_of_error
from docstore.kafka.reading import some_at_once
from docstore.kafka.schemas import Fields
from docstore.streams.effects import Problem
from docstore.streams.replica_set import partition_link

DELETE_RECORDS = 21
ALL = -1


class DeletePages:
    """Answers DeleteRecords."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._backend = backend
        self._brokers = brokers

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (Api(DELETE_RECORDS, 0, 2, self.delete),)

    async def delete(self, call: Call) -> Fields:
        """Answer DeleteRecords once the deletions are durable like committed records."""
        topics = []
        for topic in call.request.topics:
            asked = [
                partial(self._delete, call, topic.name, each.partition_index, each.offset)
                for each in topic.partitions
            ]
            topics.append(Fields(name=topic.name, partitions=await some_at_once(asked)))
        return Fields(topics=topics)

    async def _delete(self, call: Call, topic: str, index: int, before: int) -> Fields:
        link, code, start = partition_link(topic, index), ErrorCode.none, -1
        if not call.may("PATCH", link):
            code = ErrorCode.topic_authorization_failed
        elif index < 0:
            code = ErrorCode.unknown_topic_or_partition
        elif before < ALL:
            code = ErrorCode.offset_out_of_range
        elif self._brokers.elsewhere(link):
            code = ErrorCode.not_leader_or_follower
        else:
            code, start = await self._deleted(call, link, before)
        return Fields(partition_index=index, low_watermark=start, error_code=code)

    async def _deleted(self, call: Call, link: str, before: int) -> tuple[ErrorCode, int]:
        """Return the code, and where the log begins then."""
        streams = self._backend.inside().stream_backend
        try:
            outcome = await streams.delete_records(link, before, patience_s(call))
        except DocstoreError as error:
            return code_of_error(error), -1
        status = outcome.status if isinstance(outcome, Problem) else 200
        call.note_change("PATCH", link, status)
        if isinstance(outcome, Problem):
            return code_of(outcome), -1
        return ErrorCode.none, outcome.start
