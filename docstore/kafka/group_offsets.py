"""OffsetCommit and OffsetFetch: the documents below `/core/groups/<name>/offsets`.

A commit gets a token from the coordinator, which checks member and generation, and a fetch by a
group of Kafka clients claims its offsets with the newest token. So a commit of an earlier
generation is contained in the offset that was read, or is refused (`docs/rules.md`, KG4).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from docstore.errors import DocstoreError, Unavailable
from docstore.http.backend import Backend
from docstore.kafka.brokers import NONE, Brokers
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode
from docstore.kafka.group_calls import GroupCalls, instance_of, link_of, may_see
from docstore.kafka.reading import TIMEOUT_S, TopicReader
from docstore.kafka.schemas import Fields
from docstore.model import json
from docstore.model.document import tag_of
from docstore.model.operation import Answer, Conditions
from docstore.model.service import LINEARIZABLE, State
from docstore.runtime.offsets_backend import AT_ONCE, NoSuchGroup, OffsetsBackend, group_at
from docstore.services.group_document import PARTITIONS_MAX
from docstore.services.offsets import INCARNATION, METADATA_MAX, NOTHING, offset_link
from docstore.sessions.kafka_messages import CommitAsked
from docstore.streams.replica_set import STREAMS
from docstore.streams.topic import Topic

COMMIT, FETCH = 8, 9
ROUNDS = 3
"""Attempts to commit, each with a newer token, since the group may change meanwhile."""
GROUPS_FROM = 8
"""Version of OffsetFetch from which a request names several groups."""

Place = tuple[str, int]
"""(topic, partition)."""


class Commit(NamedTuple):
    """An offset to commit."""

    place: Place
    topic: Topic
    state: State

    @property
    def partition(self) -> str:
        """Return the partition as documents name it."""
        return f"{self.place[0]}/{self.place[1]}"


class GroupOffsets:
    """Answers requests about the offsets of groups."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._backend = backend
        self._calls = GroupCalls(backend, brokers)
        self._reader = TopicReader(backend)
        self._offsets = OffsetsBackend(backend, lambda: backend.inside().stream_backend)

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return Api(COMMIT, 2, 9, self.commit), Api(FETCH, 1, 8, self.fetch)

    # Commits

    async def commit(self, call: Call) -> Fields:
        """Commit offsets for a member of the newest generation, or for a group without members."""
        asked = call.request
        codes: dict[Place, ErrorCode] = {}
        code = self._calls.fault_of(call, asked.group_id)
        if sum(len(each.partitions) for each in asked.topics) > PARTITIONS_MAX:
            code = ErrorCode.invalid_request
        if code is ErrorCode.none:
            commits = await self._checked(call, codes)
            codes |= await self._commit(call, commits)
        topics = [
            Fields(
                name=topic.name,
                partitions=[
                    Fields(
                        partition_index=each.partition_index,
                        error_code=codes.get((topic.name, each.partition_index), code),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
        return Fields(topics=topics)

    async def _checked(self, call: Call, codes: dict[Place, ErrorCode]) -> list[Commit]:
        """Return what can be committed; put the codes of the others into `codes`."""
        asked, commits = call.request, []
        topics = await self._reader.named({each.name for each in asked.topics})
        for named in asked.topics:
            topic = topics[named.name]
            for each in named.partitions:
                place = (named.name, each.partition_index)
                fault = _fault_of(call, topic, place, each)
                if fault is not ErrorCode.none or topic is None:
                    codes[place] = fault
                    continue
                said = {
                    "kind": "CommitRequest",
                    "generation": max(0, asked.generation_id_or_member_epoch),
                    "member": asked.member_id,
                    "offset": max(NOTHING, each.committed_offset),
                    "recordEpoch": max(0, getattr(each, "committed_leader_epoch", 0)),
                    "metadata": each.committed_metadata or "",
                }
                commits.append(Commit(place, topic, said))
        return commits

    async def _commit(self, call: Call, commits: list[Commit]) -> dict[Place, ErrorCode]:
        """Commit under the newest token; ask for a newer one if the group has changed since."""
        asked, codes = call.request, dict[Place, ErrorCode]()
        for _ in range(ROUNDS):
            if not commits:
                break
            said = CommitAsked(
                asked.member_id,
                instance_of(asked),
                asked.generation_id_or_member_epoch,
                {each.topic.name: each.topic.partitions for each in commits},
            )
            told = await self._calls.tell(call, asked.group_id, "commit", said)
            if told.code:
                return codes | {each.place: told.error for each in commits}
            answers = await self._write(link_of(asked.group_id), commits, told.result["token"])
            codes |= {each.place: code_of(answer) for each, answer in answers}
            commits = [each for each, answer in answers if answer.code == "fenced"]
        return codes

    async def _write(
        self, link: str, commits: Iterable[Commit], token: int
    ) -> list[tuple[Commit, Answer]]:
        room = asyncio.Semaphore(AT_ONCE)

        async def write(each: Commit) -> tuple[Commit, Answer]:
            async with room:
                return each, await self._write_one(link, each, token)

        return list(await asyncio.gather(*map(write, commits)))

    async def _write_one(self, link: str, commit: Commit, token: int) -> Answer:
        """Commit an offset, after a claim if this is the first commit under the token.

        Kafka lets a member commit a smaller offset than before, the same one with other metadata,
        and one below 0, which is none. Under one token, docstore lets offsets only grow, so that a
        delayed repetition changes nothing. So these are set on the condition that the offset did
        not change since the attempt.
        """
        offset, said = offset_link(link, commit.partition), commit.state | {"token": token}
        claim = claim_of(said, commit.topic.incarnation)
        attempt = claim if said["offset"] == NOTHING else said
        answer = await self._offsets.change(link, offset, attempt, TIMEOUT_S)
        if answer.code == "not-claimed":
            answer = await self._offsets.change(link, offset, claim, TIMEOUT_S)
            if answer.is_success:
                answer = await self._offsets.change(link, offset, said, TIMEOUT_S)
        if not answer.is_success or answer.row is None:
            return answer
        state = json.load(answer.row.state)
        wanted = {name: said[name] for name in ("offset", "metadata")}
        if state | wanted == state:
            return answer
        back = {"kind": "ResetRequest", **wanted, INCARNATION: state[INCARNATION]}
        unchanged = Conditions(match=[list(tag_of(answer.row, LINEARIZABLE))])
        return await self._offsets.change(link, offset, back, TIMEOUT_S, unchanged)

    # Fetches

    async def fetch(self, call: Call) -> Fields:
        """Answer with the committed offsets of one group, or of several."""
        asked = call.request
        if call.version >= GROUPS_FROM:
            groups = [
                await self._fetched(call, each.group_id, each.topics) for each in asked.groups
            ]
            return Fields(groups=groups)
        return await self._fetched(call, asked.group_id, asked.topics)

    async def _fetched(self, call: Call, name: str, topics: Sequence[Fields] | None) -> Fields:
        """Return the offsets of partitions of a group. topics: None for all that it has read."""
        code = self._calls.fault_of(call, name, "GET")
        places = None
        if topics is not None:
            places = [(topic.name, each) for topic in topics for each in topic.partition_indexes]
        found: Mapping[Place, State] = {}
        if code is ErrorCode.none:
            try:
                found = await self._read(call, link_of(name), places)
            except DocstoreError:
                code = ErrorCode.coordinator_load_in_progress
        by_topic: dict[str, list[Fields]] = {}
        for place in found if places is None else places:
            entry = _entry(place, found.get(place), code, call)
            by_topic.setdefault(place[0], []).append(entry)
        shown = [Fields(name=topic, partitions=each) for topic, each in by_topic.items()]
        return Fields(group_id=name, error_code=code, topics=shown)

    async def _read(
        self, call: Call, link: str, places: Sequence[Place] | None
    ) -> dict[Place, State]:
        """Return the offset of each partition that has one; claim it if the members are Kafka's.

        Raises Unavailable.
        """
        try:
            row, group = await group_at(self._backend, link, TIMEOUT_S)
        except NoSuchGroup:
            return {}
        if places is None and not may_see(call.authority, link, group):
            return {}
        listed = group.partitions if places is None else [f"{topic}/{n}" for topic, n in places]
        known = [_place(each) for each in listed if each in set(group.partitions)]
        topics = await self._reader.named({topic for topic, _ in known})
        if group.kafka is not None:
            states = await self._claim(link, known, topics, row.version)
        else:
            names = [f"{topic}/{number}" for topic, number in known]
            rows = await self._offsets.rows(link, names, TIMEOUT_S)
            states = {_place(each): json.load(row.state) for each, row in rows if row is not None}
        return {
            place: _of_incarnation(state, topics[place[0]])
            for place, state in states.items()
            if state["offset"] != NOTHING
        }

    async def _claim(
        self, link: str, places: Sequence[Place], topics: Mapping[str, Topic | None], token: int
    ) -> dict[Place, State]:
        """Claim offsets, so that no commit of an earlier generation comes after the read.

        Raises Unavailable.
        """
        room = asyncio.Semaphore(AT_ONCE)

        async def claim(place: Place, topic: Topic) -> tuple[Place, State]:
            said = claim_of({"token": token}, topic.incarnation)
            target = offset_link(link, f"{place[0]}/{place[1]}")
            async with room:
                answer = await self._offsets.change(link, target, said, TIMEOUT_S)
            if not answer.is_success or answer.row is None:
                raise Unavailable(f"{target} could not be claimed, retry: {answer.detail}")
            return place, json.load(answer.row.state)

        there = [(each, topics[each[0]]) for each in places]
        claims = [claim(place, topic) for place, topic in there if topic is not None]
        return dict(await asyncio.gather(*claims))


def _place(partition: str) -> Place:
    topic, _, number = partition.rpartition("/")
    return topic, int(number)


def _of_incarnation(state: State, topic: Topic | None) -> State:
    """Return an offset of a topic; a topic that was created again is read from 0 (GO3)."""
    if topic is None or state[INCARNATION] in ("", topic.incarnation):
        return state
    return state | {"offset": min(0, state["offset"]), "metadata": ""}


def claim_of(said: State, incarnation: str) -> State:
    """Return the claim of an offset by the sender of a commit."""
    kept: State = {name: said[name] for name in ("token", "generation", "member") if name in said}
    return {"kind": "ClaimRequest", **kept, INCARNATION: incarnation}


def code_of(answer: Answer) -> ErrorCode:
    """Return Kafka's code of a commit; an unknown outcome is one that the client repeats."""
    if answer.is_success:
        return ErrorCode.none
    if answer.code == "fenced":
        return ErrorCode.illegal_generation
    if answer.unknown or answer.status >= 500 or answer.status in (412, 429):
        return ErrorCode.coordinator_not_available
    if answer.status == 404:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.invalid_request


def _fault_of(call: Call, topic: Topic | None, place: Place, asked: Fields) -> ErrorCode:
    """Return why an offset cannot be committed; none if it can."""
    if not call.may("GET", f"{STREAMS}/{place[0]}"):
        return ErrorCode.topic_authorization_failed
    if topic is None or not 0 <= place[1] < topic.partitions:
        return ErrorCode.unknown_topic_or_partition
    is_long = len(asked.committed_metadata or "") > METADATA_MAX
    return ErrorCode.offset_metadata_too_large if is_long else ErrorCode.none


def _entry(place: Place, state: State | None, code: ErrorCode, call: Call) -> Fields:
    """Return the entry of a partition in an answer."""
    topic, number = place
    if not call.may("GET", f"{STREAMS}/{topic}"):
        code, state = ErrorCode.topic_authorization_failed, None
    return Fields(
        partition_index=number,
        committed_offset=NOTHING if state is None else state["offset"],
        committed_leader_epoch=NONE,
        metadata="" if state is None else state["metadata"],
        error_code=code,
    )
