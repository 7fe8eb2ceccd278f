"""Calls to the coordinator of a group: the way there, and Kafka's codes for its answers.

The coordinator is the owner of the group's document. Another node answers NOT_COORDINATOR, and the
client looks for it again. If the owner has no listener, any node forwards the call.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from docstore.errors import BadRequest, Unavailable
from docstore.http.authority import Authority
from docstore.http.backend import Backend
from docstore.http.visible_links import may_see_topics
from docstore.kafka.brokers import Broker, Brokers
from docstore.kafka.dispatch import Call
from docstore.kafka.errors import ErrorCode
from docstore.kafka.reading import TIMEOUT_S
from docstore.kafka.schemas import Fields
from docstore.model import json
from docstore.model.operation import ANY_TOMBSTONE, Operation
from docstore.model.paths import SUFFIXES, canonical_link
from docstore.services.group_document import GROUPS, GroupState
from docstore.sessions.kafka_messages import Code

CODES: Mapping[str, ErrorCode] = {
    "": ErrorCode.none,
    Code.MEMBER_ID_REQUIRED: ErrorCode.member_id_required,
    Code.UNKNOWN_MEMBER: ErrorCode.unknown_member_id,
    Code.ILLEGAL_GENERATION: ErrorCode.illegal_generation,
    Code.REBALANCING: ErrorCode.rebalance_in_progress,
    Code.FENCED_INSTANCE: ErrorCode.fenced_instance_id,
    Code.OTHER_PROTOCOL: ErrorCode.inconsistent_group_protocol,
    Code.SESSION_TIMEOUT: ErrorCode.invalid_session_timeout,
    Code.GROUP_FULL: ErrorCode.group_max_size_reached,
    "no-such-group": ErrorCode.unknown_member_id,
    "no-owner": ErrorCode.coordinator_load_in_progress,
}
"""Code of an answer -> Kafka's. Others are those of a coordinator that cannot answer now."""
NO_GROUP = "no-such-group"
MAKING = ("join", "commit")


class Told(NamedTuple):
    """The answer of a coordinator. code: docstore's, "" for success. error: Kafka's."""

    error: ErrorCode
    code: str = ""
    result: Mapping[str, Any] = {}


class GroupCalls:
    """Finds and calls the coordinators of groups."""

    def __init__(self, backend: Backend, brokers: Brokers) -> None:
        self.backend = backend
        self._brokers = brokers

    def fault_of(self, call: Call, name: str, method: str = "PUT") -> ErrorCode:
        """Return why a client may not change (PUT) or read (GET) a group here; none if it may."""
        link = link_of(name)
        if not link:
            return ErrorCode.invalid_group_id
        if not call.may(method, link):
            return ErrorCode.group_authorization_failed
        owner, view = self.backend.owner_of(link), self._brokers.view()
        if not owner:
            return ErrorCode.coordinator_not_available
        is_here = view.leader(owner) == view.own
        return ErrorCode.none if is_here else ErrorCode.not_coordinator

    def coordinator(self, link: str) -> Broker | None:
        """Return the broker of a group's coordinator; None if the group has none now."""
        owner = self.backend.owner_of(link)
        return self._brokers.view().leader(owner) if owner else None

    async def ask(
        self, call: Call, name: str, verb: str, said: Sequence[Any], timeout_s: float = TIMEOUT_S
    ) -> Told:
        """Ask the coordinator of a group for a client that may change it."""
        fault = self.fault_of(call, name)
        if fault is not ErrorCode.none:
            return Told(fault)
        return await self.tell(call, name, verb, said, timeout_s)

    async def tell(
        self, call: Call, name: str, verb: str, said: Any = None, timeout_s: float = TIMEOUT_S
    ) -> Told:
        """Ask the coordinator of a group.

        A missing group is created when a member joins it or commits offsets, as Kafka does.
        """
        told = await self._tell(name, verb, said, timeout_s)
        if told.code == NO_GROUP and verb in MAKING:
            await self._make(call, link_of(name))
            told = await self._tell(name, verb, said, timeout_s)
        return told

    async def _tell(self, name: str, verb: str, said: Any, timeout_s: float) -> Told:
        reply = await self.backend.inside().session_backend.call(
            link_of(name), f"kafka-{verb}", said, timeout_s
        )
        code = reply.code if reply.result is None else reply.result["code"]
        error = CODES.get(code, ErrorCode.coordinator_not_available)
        return Told(error, code, reply.result or {})

    async def _make(self, call: Call, link: str) -> None:
        """Create a group without topics. Raises Unavailable."""
        state = GroupState(parts={}).state()
        operation = Operation(
            verb="POST",
            link=link,
            body=json.dump(state),
            signature=json.signature(state),
            recreate_below=ANY_TOMBSTONE,
        )
        answer = await self.backend.submit(operation, TIMEOUT_S)
        call.note_change(operation.verb, link, answer.status)
        if not answer.is_success and answer.status != 409:
            raise Unavailable(f"{link} could not be created: {answer.detail}")


def link_of(name: str) -> str:
    """Return the link of a group, "" for a name that none can have."""
    if not name or "/" in name or "%" in name or name in SUFFIXES:
        return ""
    try:
        return canonical_link(f"{GROUPS}/{name}")
    except BadRequest:
        return ""


def may_see(authority: Authority, link: str, group: GroupState) -> bool:
    """Say whether a client may see a group and all of its topics."""
    return authority.may("GET", link) and may_see_topics(authority, group.parts)


def instance_of(asked: Fields) -> str:
    """Return the name of a static member in a request, "" for none."""
    return getattr(asked, "group_instance_id", None) or ""
