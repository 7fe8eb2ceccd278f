"""Joins and leaves: each is answered once it is decided.

G6 A second process with the instance of a live member replaces that member at once in a group that
   is not exclusive. In an exclusive group it waits until the member has ended, and then gets
   exactly the member's partitions.

A member that was fenced has dropped all its partitions. It joins under a new id and names its
former id, whose session is ended at once.
"""

from collections.abc import Callable

from docstore.model.service import Refusal
from docstore.services.group_document import MEMBERS_MAX, MemberDetails, checked_member
from docstore.sessions.calling import Served
from docstore.sessions.coordinated_group import CoordinatedGroup
from docstore.sessions.group_messages import Join, Joined, Leave, Left, plain

Then = Callable[[CoordinatedGroup], None]


class JoinsAndLeaves:
    """Admits and removes members at the coordinator."""

    def __init__(self, confirm: Callable[[Served, Then], None], reconcile: Then) -> None:
        """confirm: calls a function once we are known to coordinate. reconcile: writes changes."""
        self._confirm = confirm
        self._reconcile = reconcile

    def asked(self, served: Served) -> None:
        """Admit a member; a join with the same id is a repetition."""
        member, about, former = served.argument
        join = Join(member, MemberDetails(*about), former)
        try:
            checked_member(join.about)
            if not join.member or not join.about.capacity:
                raise Refusal(
                    "a joining member must have an id, and a capacity of 1 or more", status=400
                )
        except Refusal as refusal:
            served.refuse(refusal.status, "bad-request", refusal.detail)
            return
        self._confirm(served, lambda governed: self._join(served, governed, join))

    def _join(self, served: Served, governed: CoordinatedGroup, join: Join) -> None:
        group = governed.group
        if join.member not in group.members:
            if len(group.members) + len(governed.changes.joins) >= MEMBERS_MAX:
                served.refuse(
                    409,
                    "group-full",
                    (f"the group already has {MEMBERS_MAX} members, the most that are allowed"),
                )
                return
            governed.changes.joins[join.member] = join.about
            if join.former in group.members:
                governed.changes.gone.add(join.former)
        governed.joining.setdefault(join.member, []).append(served)
        self.answer(governed)
        self._reconcile(governed)

    def leaves(self, served: Served) -> None:
        """Remove a member at once, or, if it drains, once other members have its partitions."""
        leave = Leave(*served.argument)
        self._confirm(served, lambda governed: self._leave(served, governed, leave))

    def _leave(self, served: Served, governed: CoordinatedGroup, leave: Leave) -> None:
        changes = governed.changes
        about = governed.group.members.get(leave.member)
        if about is None:
            changes.joins.pop(leave.member, None)
            for joining in governed.joining.pop(leave.member, ()):
                joining.refuse(
                    409, "has-left", "the member left the group while it was joining: join again"
                )
        elif leave.drain:
            changes.joins[leave.member] = about._replace(capacity=0)
        else:
            changes.gone.add(leave.member)
        if about is None and governed.draft is not None and leave.member in governed.draft.members:
            changes.gone.add(leave.member)
        governed.leaving.setdefault(leave.member, []).append(served)
        self.answer(governed)
        self._reconcile(governed)

    @staticmethod
    def answer(governed: CoordinatedGroup) -> None:
        """Answer the calls whose join or leave is decided."""
        group = governed.group
        joined = plain(Joined(group.generation, group.settings.state(), group.parts))
        for member in [each for each in governed.joining if each in group.members]:
            for served in governed.joining.pop(member):
                served.reply(joined)
        draft = () if governed.draft is None else governed.draft.members
        gone = [
            each for each in governed.leaving if each not in group.members and each not in draft
        ]
        for member in gone:
            for served in governed.leaving.pop(member):
                served.reply(plain(Left()))
