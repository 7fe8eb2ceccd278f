"""The service of groups and of roles: a second line behind the coordinator's conditional updates.

Each update brings the whole next state. It names the version that it is based on and the term that
decided it, which keeps two writers apart. This service refuses changes that no term may decide.
"""

from dataclasses import replace

from docstore.model.service import Refusal, ServiceOptions, State
from docstore.services.group_document import PHASES, GroupState, group_of


class GroupService:
    """Groups below one path."""

    checks = True

    def __init__(self, path: str, kind: str) -> None:
        self.options = ServiceOptions(
            path=path, kind=kind, put_creates=False, methods=(), numbered=True
        )

    def check(self, state: State) -> None:
        group_of(state)

    def patch(self, state: State, change: State) -> State | None:
        """Take the next state, if it may follow; None if it says the same."""
        before = dict(state)
        version = before.pop("documentVersion")
        why = why_not(group_of(before), group_of(change), version)
        if why:
            raise Refusal(why, status=409)
        return None if change == before else change


def why_not(before: GroupState, after: GroupState, version: int) -> str:  # Tests replace this.
    """Return why one state of a group may not follow another, "" if it may.

    version: of the row that the later one will be; it is the token of what it grants.
    """
    if (before.phase, after.phase) not in PHASES:
        return f"a group that is {before.phase} does not become {after.phase}"
    is_new = replace(after, generation=0, tenure={}) != replace(before, generation=0, tenure={})
    if after.generation != before.generation + is_new:
        return "the generation grows by one when members, topics, settings or target change"
    if after.settings != before.settings and before.members:
        return "settings may change only while the group has no members"
    if after.parts != before.parts and "" in before.parts and before.members:
        return "the number of partitions may change only while the group has no members"
    if any(each not in after.members for each in after.target.values()):
        return "only a member should have a partition"
    for partition, tenure in after.tenure.items():
        if tenure != before.tenure.get(partition) and tenure.token != version:
            return "the token of a tenure is the version of the row that granted it"
    return ""
