"""The requests of members of groups: find the coordinator, join, sync, heartbeat, leave."""

from collections.abc import Sequence

from docstore.http.backend import Backend
from docstore.kafka.assignments import partitions_in
from docstore.kafka.brokers import NONE, Brokers
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode
from docstore.kafka.group_calls import CODES, GroupCalls, instance_of, link_of
from docstore.kafka.reading import TopicReader
from docstore.kafka.schemas import Fields
from docstore.services.group_document import PARTITIONS_MAX
from docstore.sessions.kafka_messages import BeatAsked, JoinAsked, Leaving, SyncAsked

JOIN, HEARTBEAT, LEAVE, SYNC, FIND_COORDINATOR = 11, 12, 13, 14, 10
OF_GROUPS = 0
"""Type of a coordinator; the other ones are of transactions and of shares."""
CONSUMER = "consumer"
SPARE_S = 60.0
"""Seconds beyond its rebalance timeout for which a join waits: other members may have longer
ones."""
SYNC_S = 600.0
"""Seconds for which a sync waits for the leader of the group."""
JOINED = (ErrorCode.none, ErrorCode.member_id_required)
IDS_FIRST = 4
"""Version of JoinGroup from which a new member gets its id before it joins."""


class GroupMembers:
    """Answers the requests of members of groups."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._calls = GroupCalls(backend, brokers)
        self._reader = TopicReader(backend)

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (
            Api(FIND_COORDINATOR, 0, 4, self.find),
            Api(JOIN, 0, 9, self.join),
            Api(HEARTBEAT, 0, 4, self.heartbeat),
            Api(LEAVE, 0, 5, self.leave),
            Api(SYNC, 0, 5, self.sync),
        )

    async def find(self, call: Call) -> Fields:
        """Answer with the node that owns the document of each group."""
        asked = call.request
        names = asked.coordinator_keys if call.version >= 4 else [asked.key]
        found = [self._coordinator(call, name) for name in names]
        if call.version >= 4:
            return Fields(coordinators=found)
        return found[0]

    def _coordinator(self, call: Call, name: str) -> Fields:
        kind = getattr(call.request, "key_type", OF_GROUPS)
        link = link_of(name)
        code, why = ErrorCode.none, None
        if kind != OF_GROUPS:
            code = ErrorCode.transactional_id_authorization_failed  # Clients retry all other codes.
            why = "there are no transactions"
        elif not link:
            code, why = ErrorCode.invalid_group_id, "the name of a group must be one path segment"
        elif not call.may("GET", link):
            code = ErrorCode.group_authorization_failed
        broker = self._calls.coordinator(link) if code is ErrorCode.none else None
        if code is ErrorCode.none and broker is None:
            code = ErrorCode.coordinator_not_available
        return Fields(
            key=name,
            error_code=code,
            error_message=why,
            node_id=NONE if broker is None else broker.number,
            host="" if broker is None else broker.host,
            port=NONE if broker is None else broker.port,
        )

    async def join(self, call: Call) -> Fields:
        """Answer once the members of the next generation are known."""
        asked = call.request
        session_s = asked.session_timeout
        rebalance_s = getattr(asked, "rebalance_timeout", session_s)
        said = JoinAsked(
            asked.member_id,
            instance_of(asked),
            call.client_id,
            call.address,
            round(session_s * 1000),
            round(rebalance_s * 1000),
            asked.protocol_type,
            [(each.name, each.metadata) for each in asked.protocols],
            call.version >= IDS_FIRST,
        )
        waits_s = max(0.0, rebalance_s) + SPARE_S
        told = await self._calls.ask(call, asked.group_id, "join", said, waits_s)
        result = told.result
        if not asked.member_id and result:  # Members join again at each rebalance.
            status = 201 if told.error in JOINED else 409
            member = result.get("member", "")
            call.note_change("POST", f"{link_of(asked.group_id)}/members", status, member=member)
        return Fields(
            error_code=told.error,
            generation_id=result.get("generation", NONE),
            protocol_type=result.get("type"),
            protocol_name=result.get("protocol", "" if call.version < 7 else None),
            leader=result.get("leader", ""),
            skip_assignment=False,
            member_id=result.get("member", asked.member_id),
            members=[
                Fields(member_id=member, group_instance_id=instance or None, metadata=metadata)
                for member, instance, metadata in result.get("members", ())
            ],
        )

    async def sync(self, call: Call) -> Fields:
        """Answer with the member's assignment once the generation is decided."""
        asked = call.request
        kind = getattr(asked, "protocol_type", None) or ""
        assignments = {each.member_id: each.assignment for each in asked.assignments}
        is_shown = kind in ("", CONSUMER) and call.authority.may("PUT", link_of(asked.group_id))
        assigned, parts = await self._shown(assignments) if is_shown else ({}, {})
        said = SyncAsked(
            asked.member_id,
            instance_of(asked),
            asked.generation_id,
            kind,
            getattr(asked, "protocol_name", None) or "",
            assignments,
            assigned,
            parts,
        )
        told = await self._calls.ask(call, asked.group_id, "sync", said, SYNC_S)
        return Fields(
            error_code=told.error,
            protocol_type=told.result.get("type"),
            protocol_name=told.result.get("protocol"),
            assignment=told.result.get("assignment", b""),
        )

    async def _shown(self, assignments: dict[str, bytes]) -> tuple[dict[str, str], dict[str, int]]:
        """Return partition -> member and topic -> partitions, for the group's document."""
        owned = {member: partitions_in(each) for member, each in assignments.items()}
        names = {topic for each in owned.values() for topic, _ in each}
        topics = await self._reader.named(names) if 0 < len(names) <= PARTITIONS_MAX else {}
        parts = {name: topic.partitions for name, topic in topics.items() if topic is not None}
        assigned = {
            f"{topic}/{number}": member
            for member, each in owned.items()
            for topic, number in each
            if number < parts.get(topic, 0)
        }
        return assigned, parts

    async def heartbeat(self, call: Call) -> Fields:
        """Answer whether the member goes on, or must join the next generation."""
        asked = call.request
        said = BeatAsked(asked.member_id, instance_of(asked), asked.generation_id)
        told = await self._calls.ask(call, asked.group_id, "beat", said)
        return Fields(error_code=told.error)

    async def leave(self, call: Call) -> Fields:
        """Remove members of a group."""
        asked = call.request
        if call.version >= 3:
            leaving = [
                Leaving(each.member_id, each.group_instance_id or "") for each in asked.members
            ]
        else:
            leaving = [Leaving(asked.member_id, "")]
        said = [list(each) for each in leaving]
        told = await self._calls.ask(call, asked.group_id, "leave", said)
        code, codes = told.error, told.result.get("codes", ())
        for each, found in zip(leaving, codes, strict=False):
            path = f"{link_of(asked.group_id)}/members/{each.member or each.instance}"
            call.note_change("DELETE", path, 404 if found else 200)
        if call.version < 3:
            return Fields(error_code=CODES[codes[0]] if codes else code)
        members = [
            Fields(member_id=each.member, group_instance_id=each.instance or None,
                   error_code=CODES[found])
            for each, found in zip(leaving, codes, strict=False)
        ]  # fmt: skip
        return Fields(error_code=code, members=members)
