"""The service of groups and roles: a second check after the coordinator's conditional update.

Each update contains the whole next state. It names the version on which it is based and the term
that decided it, so that of two writers one fails. This service refuses changes that are wrong in
any term.
"""

from dataclasses import replace

from docstore.model.service import Refusal, ServiceOptions, State
from docstore.services.group_document import PHASES, GroupState, group_of


class GroupService:
    """The service of groups, or of roles."""

    checks = True

    def __init__(self, path: str, kind: str) -> None:
        self.options = ServiceOptions(
            path=path, kind=kind, put_creates=False, methods=(), numbered=True
        )

    def check(self, state: State) -> None:
        group_of(state)

    def patch(self, state: State, change: State) -> State | None:
        """Return the next state if it may follow; None if it is equal. Raises Refusal."""
        before = dict(state)
        version = before.pop("documentVersion")
        why = why_not(group_of(before), group_of(change), version)
        if why:
            raise Refusal(why, status=409)
        return None if change == before else change


def why_not(  # Tests replace this.
    before: GroupState, after: GroupState, version: int
) -> str:
    """Return why one state of a group may not follow another, "" if it may.

    version: of the row with the later state, which is also the token of its new grants.
    """
    if (before.phase, after.phase) not in PHASES:
        return f"a group that is {before.phase} does not become {after.phase}"
    if before.kafka or after.kafka:
        return _why_not_kafka(before, after, version)
    is_new = replace(after, generation=0, tenure={}) != replace(before, generation=0, tenure={})
    if after.generation != before.generation + is_new:
        return "the generation grows by one when members, topics, settings or target change"
    if after.settings != before.settings and before.members:
        return "settings may change only while the group has no members"
    if after.parts != before.parts and "" in before.parts and before.members:
        return "the number of partitions may change only while the group has no members"
    if any(each not in after.members for each in after.target.values()):
        return "only a member should have a partition"
    return _why_not_granted(before, after, version)


def _why_not_kafka(before: GroupState, after: GroupState, version: int) -> str:
    """Return why a state may not follow another, one of which has Kafka clients as members.

    A generation may be skipped: one that was sent to members, but never decided.
    """
    if before.members and after.members and bool(before.kafka) != bool(after.kafka):
        return "the members of a group are either Kafka clients or members of docstore's protocol"
    if bool(after.kafka) != bool(after.members):
        return "`kafka` is there while Kafka clients are members"
    if after.generation < before.generation:
        return "the generation of a group only grows"
    if after.settings != before.settings:
        return "settings may change only while the group has no members"
    return _why_not_granted(before, after, version)


def _why_not_granted(before: GroupState, after: GroupState, version: int) -> str:
    for partition, tenure in after.tenure.items():
        if tenure != before.tenure.get(partition) and tenure.token != version:
            return "the token of a tenure is the version of the row that granted it"
    return ""
