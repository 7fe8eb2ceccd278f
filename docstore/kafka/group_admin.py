"""The requests of operators about groups: list, describe, delete.

The members of a group of docstore's own protocol are shown as members of the protocol `docstore`.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from docstore.errors import DocstoreError, Unavailable
from docstore.http.backend import Backend
from docstore.kafka.assignments import assignment_of
from docstore.kafka.brokers import Brokers
from docstore.kafka.dispatch import Api, Call
from docstore.kafka.errors import ErrorCode
from docstore.kafka.group_calls import NO_GROUP, GroupCalls, link_of, may_see
from docstore.kafka.metadata import NOT_ASKED
from docstore.kafka.reading import TIMEOUT_S
from docstore.kafka.schemas import Fields
from docstore.model.document import tag_of
from docstore.model.operation import Conditions, Operation
from docstore.model.service import LINEARIZABLE
from docstore.runtime.offsets_backend import AT_ONCE, NoSuchGroup, OffsetsBackend, group_at
from docstore.services.group_document import GroupState

DESCRIBE, LIST, DELETE = 15, 16, 42
DEAD = "Dead"
OWN_PROTOCOL = "docstore"
DELETE_TRIES = 3
"""Attempts to delete a group whose document changes, as when its last member has just left."""


class GroupAdmin:
    """Answers the requests of operators about groups."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self._backend = backend
        self._calls = GroupCalls(backend, brokers)
        self._offsets = OffsetsBackend(backend, lambda: backend.inside().stream_backend)

    def apis(self) -> Sequence[Api]:
        """Return the API keys that these handlers serve, with their versions."""
        return (
            Api(DESCRIBE, 0, 5, self.describe),
            Api(LIST, 0, 4, self.list),
            Api(DELETE, 0, 2, self.delete),
        )

    async def list(self, call: Call) -> Fields:
        """Answer with the groups that this node coordinates, as clients ask every node."""
        wanted = set(getattr(call.request, "states_filter", ()))
        links = list(self._backend.inside().session_backend.groups())
        room = asyncio.Semaphore(AT_ONCE)

        async def read(link: str) -> Fields:
            async with room:
                return await self._described(call, link.rpartition("/")[2])

        found = await asyncio.gather(*map(read, links))
        groups = [
            Fields(
                group_id=each.group_id, protocol_type=each.protocol_type,
                group_state=each.group_state,
            )
            for each in found
            if each.error_code is ErrorCode.none and each.group_state != DEAD
            if not wanted or each.group_state in wanted
        ]  # fmt: skip
        return Fields(error_code=ErrorCode.none, groups=groups)

    async def describe(self, call: Call) -> Fields:
        """Answer with the phase and the members of groups."""
        groups = []
        for name in call.request.groups:
            code = self._calls.fault_of(call, name, "GET")
            found = _described(name, code, DEAD, "", "", ())
            groups.append(await self._described(call, name) if code is ErrorCode.none else found)
        return Fields(groups=groups)

    async def _described(self, call: Call, name: str) -> Fields:
        link = link_of(name)
        try:
            _, group = await group_at(self._backend, link, TIMEOUT_S)
        except NoSuchGroup:
            return _described(name, ErrorCode.none, DEAD, "", "", ())
        except Unavailable:
            return _described(name, ErrorCode.coordinator_not_available, DEAD, "", "", ())
        if not may_see(call.authority, link, group):
            return _described(name, ErrorCode.group_authorization_failed, DEAD, "", "", ())
        if group.members and group.kafka is None:
            listed = [
                (each, about.instance, "", about.host, b"", None)
                for each, about in group.members.items()
            ]
            members = _members(group, listed)
            return _described(name, ErrorCode.none, str(group.phase), OWN_PROTOCOL, "", members)
        told = await self._calls.tell(call, name, "describe")
        if told.code:
            code = ErrorCode.none if told.code == NO_GROUP else told.error
            return _described(name, code, DEAD, "", "", ())
        said = told.result
        return _described(
            name, ErrorCode.none, said["phase"], said["type"], said["protocol"],
            _members(group, said["members"]),
        )  # fmt: skip

    async def delete(self, call: Call) -> Fields:
        """Delete groups without members, and their offsets."""
        results = [
            Fields(group_id=name, error_code=await self._delete(call, name))
            for name in call.request.groups_names
        ]
        return Fields(results=results)

    async def _delete(self, call: Call, name: str) -> ErrorCode:
        code = self._calls.fault_of(call, name)
        if code is not ErrorCode.none:
            return code
        for _ in range(DELETE_TRIES):
            found = await self._delete_unchanged(call, name)
            if found is not None:
                return found
        return ErrorCode.coordinator_not_available

    async def _delete_unchanged(self, call: Call, name: str) -> ErrorCode | None:
        """Delete a group without members; None if it changed meanwhile, so try again."""
        link = link_of(name)
        told = await self._calls.tell(call, name, "describe")
        if told.code:
            return ErrorCode.group_id_not_found if told.code == NO_GROUP else told.error
        try:
            row, group = await group_at(self._backend, link, TIMEOUT_S)
            if group.members or told.result["members"]:
                return ErrorCode.non_empty_group
            unchanged = Conditions(match=[list(tag_of(row, LINEARIZABLE))])
            deletion = Operation(verb="DELETE", link=link, conditions=unchanged)
            answer = await self._backend.submit(deletion, TIMEOUT_S)
            call.note_change("DELETE", link, answer.status)
            if answer.is_success:
                await self._offsets.forget(link, group, TIMEOUT_S)
        except NoSuchGroup:
            return ErrorCode.group_id_not_found
        except DocstoreError:
            return ErrorCode.coordinator_not_available
        if answer.status == 412:
            return None
        return ErrorCode.none if answer.is_success else ErrorCode.coordinator_not_available


def _members(group: GroupState, listed: Sequence[Any]) -> list[Fields]:
    """Return members as Kafka shows them.

    An assignment that only a former coordinator had is made of the group's document.
    """
    held: dict[str, list[str]] = {}
    for partition, tenure in group.tenure.items():
        held.setdefault(tenure.member, []).append(partition)
    return [
        Fields(
            member_id=member,
            group_instance_id=instance or None,
            client_id=client,
            client_host=host,
            member_metadata=metadata,
            member_assignment=(
                assignment_of(held.get(member, ())) if assignment is None else assignment
            ),
        )
        for member, instance, client, host, metadata, assignment in listed
    ]


def _described(
    name: str, code: ErrorCode, state: str, kind: str, protocol: str, members: Sequence[Fields]
) -> Fields:
    return Fields(
        error_code=code,
        group_id=name,
        group_state=state,
        protocol_type=kind,
        protocol_data=protocol,
        members=members,
        authorized_operations=NOT_ASKED,
    )
