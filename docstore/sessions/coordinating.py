"""The coordinator of groups and roles: live members, their partitions, and how these move.

G1 The coordinator is the owner of the group's document. A member is kept like a lease: renewed when
   its pulse arrives, answered after a read that confirms our term, removed by an update that names
   the term.
G2 A partition is confirmed to a member if its list has it, the decided document gives it the
   tenure, no update of unknown fate takes it away, and it is to stay (`CoordinatedGroup.share_of`).
G3 Exclusive: the tenure passes only when no member has it, its member gave it up, left, or its
   session is over (`reconciling.PASSES`).
G4 Not exclusive: the tenure passes at once, and the old member is confirmed until the new one knows
   that it is confirmed itself (`Heard.leads`).
G5 A member that does not give up a revoked partition within revokeMs is fenced: its pulses renew
   nothing, and it is removed when its session is over. Until then it keeps its other partitions,
   for which it has just had a proof.
G7 Each partition moves independently; changes that arrive during an update go into the next one.
G8 Under a new term all members have a whole session, and send their lists again.

Joining and leaving (G6): `joining.py`. Topics that grow: `partition_growth.py`. The other side of
the wire is `member.py`. Groups whose members are Kafka clients: `kafka_coordinating.py`.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from docstore.machines.updates import Updates
from docstore.model.document import Row
from docstore.model.settings import quoted
from docstore.services.group_document import GroupState, read_group
from docstore.sessions import group_messages as messages
from docstore.sessions.calling import Served
from docstore.sessions.confirming import Confirming
from docstore.sessions.coordinated_group import CoordinatedGroup, Heard, Index
from docstore.sessions.core import Core
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.joining import JoinsAndLeaves
from docstore.sessions.kafka_coordinating import KafkaCoordinating
from docstore.sessions.owned import Known
from docstore.sessions.partition_growth import Growing
from docstore.sessions.reconciling import GroupChanges, reconciled
from docstore.sessions.waiting import Waiting

JOINS_MAX = 64
"""Members that one update admits; each new member is scored against each free partition."""

Key = tuple[str, str]
"""(link of the group, member)."""


class Coordinating:
    """Coordinates the groups below one path whose documents this node owns."""

    def __init__(
        self,
        core: Core,
        updates: Updates,
        *,
        confirming: Confirming,
        waiting: Waiting,
        path: str,
        kafka: KafkaCoordinating | None = None,
    ) -> None:
        """kafka: coordinates the groups whose members are Kafka clients."""
        self._core = core
        self._updates = updates
        self._confirming = confirming
        self._waiting = waiting
        self.path = path
        self._governed: dict[str, CoordinatedGroup] = {}
        self._deadlines: Deadlines[Key] = Deadlines(core)
        self._growing = Growing(core)
        self._kafka = kafka
        joining = JoinsAndLeaves(self.confirm, self.reconcile)
        kind = path.rpartition("/")[2]
        self.calls: Mapping[str, Callable[[Served], None]] = {
            f"{kind}-pulse": self._pulsed,
            f"{kind}-wait": self._waits,
            f"{kind}-join": joining.asked,
            f"{kind}-leave": joining.leaves,
            f"{kind}-show": self._shows,
            f"{kind}-fence": self._forces,
            **({} if kafka is None else kafka.calls),
        }

    # Documents

    @property
    def governed(self) -> Collection[str]:
        """Return the links of the groups that this node coordinates."""
        return self._governed

    def read(self, row: Row) -> GroupState | None:
        """Return the state of a group's row, None if the row is not a group's."""
        return read_group(row.state)

    def entered(self, known: Known) -> None:
        """Begin to govern a group: every member has a whole session from this moment."""
        self._governed[known.link] = CoordinatedGroup(known, Index.of(known.found))

    def changed(self, known: Known) -> None:  # Tests replace this.
        """Continue from a newly decided version; answer the members that it admits or removes."""
        governed = self._governed[known.link]
        group = governed.group
        governed.index = Index.of(group)
        if self._kafka is not None:
            self._kafka.changed(known)
        if group.kafka is not None:
            self._refuse_all(governed)
            return
        for member in set(governed.heard) - set(group.members):
            del governed.heard[member]
            self._deadlines.drop((known.link, member))
        for member in group.members:
            if member not in governed.heard:
                governed.heard[member] = Heard(self._core.heard_s)
                self._deadlines.grant((known.link, member), group.settings.session_ms / 1000)
        JoinsAndLeaves.answer(governed)

    def _refuse_all(self, governed: CoordinatedGroup) -> None:
        """Drop what members of docstore's own protocol asked for: Kafka clients were first."""
        for served in (each for calls in governed.joining.values() for each in calls):
            refuse_beside_kafka(served)
        governed.joining.clear()
        governed.changes = GroupChanges()

    def left(self, known: Known) -> None:
        """Stop governing a group, and send its waiting calls to the next coordinator."""
        if self._kafka is not None:
            self._kafka.left(known)
        governed = self._governed.pop(known.link)
        for member in governed.heard:
            self._deadlines.drop((known.link, member))
        for waiting in (*governed.joining.values(), *governed.leaving.values()):
            for served in waiting:
                served.elsewhere()

    def tick(self) -> None:
        """Remove silent members, fence slow ones, and go on with updates."""
        core = self._core
        for (link, member), late_s in self._deadlines.overdue(core.config.endings_max):
            core.counters["members_expired"] += 1
            core.counters["member_expiry_lag_us"] += int(late_s * 1e6)
            self._governed[link].changes.gone.add(member)
        if self._kafka is not None:
            self._kafka.tick()
        for governed in list(self._governed.values()):
            if governed.group.kafka is not None:
                continue
            self._fence(governed)
            self._growing.look(governed)
            self.reconcile(governed)

    def _fence(self, governed: CoordinatedGroup) -> None:  # Tests replace this.
        """Fence members that did not give up a revoked partition in time (G5)."""
        if not governed.index.moving:
            return
        limit = self._core.heard_s - governed.group.settings.revoke_ms / 1000
        for heard in governed.heard.values():
            if heard.revoking and not heard.is_fenced and min(heard.revoking.values()) < limit:
                heard.is_fenced = True
                self._core.counters["members_fenced"] += 1

    # Pulses

    def _pulsed(self, served: Served) -> None:
        pulse = messages.Pulse(*served.argument)
        governed = self._governed.get(served.link)
        if governed is not None:
            # A renewal at arrival is always safe: it can only lengthen a session.
            self._hear(governed, pulse)
        self.confirm(served, lambda found: self._judge(served, found, pulse))

    def _hear(self, governed: CoordinatedGroup, pulse: messages.Pulse) -> bool:
        """Take a pulse and renew the session; return False if it is not newer, or is too late."""
        heard = governed.heard.get(pulse.member)
        if heard is None or heard.is_fenced or not heard.take(pulse):
            return False
        if not self._deadlines.renew((governed.known.link, pulse.member)):
            return False
        heard.at = self._core.heard_s
        return True

    def confirm(
        self,
        served: Served,
        then: Callable[[CoordinatedGroup], None],
        beside_kafka: Callable[[Served], None] | None = None,
    ) -> None:
        """Call `then` once a read begun after this moment confirms that we govern the group.

        beside_kafka: called instead if the members are Kafka clients, which refuses by default.
        """

        def read(known: Known | None) -> None:
            if known is None:
                served.refuse(404, "no-such-group", f"there is no group {served.link}")
            elif known.found.kafka is not None:
                (beside_kafka or refuse_beside_kafka)(served)
            else:
                then(self._governed[known.link])

        self._confirming.confirm(served.link, read, served.elsewhere)

    def _judge(self, served: Served, governed: CoordinatedGroup, pulse: messages.Pulse) -> None:
        """Answer a pulse by the document, which was confirmed after the pulse had arrived."""
        heard = governed.heard.get(pulse.member)
        if heard is None:
            answer(served, messages.Fenced("unknown"))
            return
        self._hear(governed, pulse)  # The group may have been unknown when the pulse arrived.
        is_ending = self._deadlines.is_ending((served.link, pulse.member))
        if heard.is_fenced:
            answer(served, messages.Fenced("fenced"))
        elif is_ending or governed.is_leaving(pulse.member) or heard.number != pulse.number:
            served.refuse(
                503,
                "undecided",
                ("it is not known yet whether the change of the member was stored: retry"),
            )
        elif heard.owned is None:
            answer(served, messages.Again())
        else:
            self._core.counters["pulses"] += 1
            answer(served, self._share(governed, pulse, heard))
            self.reconcile(governed)

    def _share(
        self, governed: CoordinatedGroup, pulse: messages.Pulse, heard: Heard
    ) -> messages.Reply:
        group, owned = governed.group, heard.owned
        assert owned is not None
        share = heard.told = governed.share_of(pulse.member)
        if pulse.generation == group.generation:
            heard.confirm({each: token for each, token in share.assigned.items() if each in owned})
        heard.revoking = {
            each: heard.revoking.get(each, self._core.heard_s)
            for each in share.revoked
            if each in owned or pulse.generation != group.generation
        }
        is_same = pulse.generation == group.generation and owned == share.assigned.keys()
        if is_same and not share.revoked:
            return messages.Confirmed(pulse.listing)
        return messages.Changed(
            group.generation, share.assigned, share.kept, share.revoked, share.lost
        )

    def _waits(self, served: Served) -> None:
        """Keep a member waiting until its share differs from the last one sent; wake no other."""
        wait, wait_ms = messages.Wait(*served.argument[:-1]), served.argument[-1]

        def is_other(known: Known | None) -> list[Any] | None:
            governed = None if known is None else self._governed.get(known.link)
            heard = None if governed is None else governed.heard.get(wait.member)
            if governed is None or heard is None:
                return messages.plain(messages.Woken())
            return (
                messages.plain(messages.Woken())
                if heard.told != governed.share_of(wait.member)
                else None
            )

        self._waiting.wait(
            served, wait_ms / 1000, is_other, lambda known: messages.plain(messages.Woken())
        )

    # Updates

    def reconcile(self, governed: CoordinatedGroup) -> None:
        """Write the next state of a group, if it differs and no update is under way."""
        if governed.draft is not None:
            return
        changes = self._gather(governed)
        if not changes:
            return
        known, group = governed.known, governed.group
        draft = reconciled(known.link, group, changes, known.tag[1] + 1)
        if draft == group:
            return
        governed.draft = draft
        self._core.counters["group_updates"] += 1
        self._updates.change(
            known.link,
            known.tag,
            draft.pack(),
            lambda row, is_done: self._decided(governed, is_done=is_done),
            only_epoch=known.epoch,
        )

    def _gather(self, governed: CoordinatedGroup) -> GroupChanges:
        changes = governed.changes
        if changes.gone:
            changes.gone &= governed.group.members.keys()
        changes.gone.update(governed.drained())
        return GroupChanges(
            joins=dict(islice(changes.joins.items(), JOINS_MAX)),
            gone=set(changes.gone),
            released=set(governed.released()),
            parts=changes.parts,
        )

    def _decided(self, governed: CoordinatedGroup, *, is_done: bool) -> None:
        """Continue after an update that is decided, or known to have had no effect."""
        draft, governed.draft = governed.draft, None
        assert draft is not None
        if self._governed.get(governed.known.link) is not governed:
            return  # The term is over.
        if is_done:
            for member in draft.members:
                governed.changes.joins.pop(member, None)
            if draft.parts == governed.changes.parts:
                governed.changes.parts = None
            JoinsAndLeaves.answer(governed)
            self.reconcile(governed)

    # Figures for operators

    def _shows(self, served: Served) -> None:
        """Answer with the live figures of the members, which only the coordinator knows."""

        def show(governed: CoordinatedGroup) -> None:
            served.reply({member: self._figures(each) for member, each in governed.heard.items()})

        self.confirm(served, show, self._kafka.shows if self._kafka else None)

    def _forces(self, served: Served) -> None:
        """Fence a member at an operator's request: its session runs out, then it is removed."""

        def fence(governed: CoordinatedGroup) -> None:
            heard = governed.heard.get(served.argument)
            if heard is None:
                served.refuse(
                    404, "unknown-member", f"{served.link} has no member {quoted(served.argument)}"
                )
                return
            heard.is_fenced = True
            served.reply({served.argument: self._figures(heard)})

        self.confirm(served, fence, self._kafka.fences if self._kafka else None)

    def _figures(self, heard: Heard) -> dict[str, Any]:
        now = self._core.heard_s
        return {
            "heardMs": int((now - heard.at) * 1000),
            "owned": None if heard.owned is None else sorted(heard.owned),
            "revoking": {each: int((now - at) * 1000) for each, at in heard.revoking.items()},
            "fenced": heard.is_fenced,
        }


def refuse_beside_kafka(served: Served) -> None:
    """Refuse a member of docstore's own protocol in a group of Kafka clients (rule KG6)."""
    served.refuse(
        409,
        "inconsistent-protocol",
        f"the members of {served.link} are Kafka clients: stop them first, or join another group",
    )


def answer(served: Served, reply: messages.Reply) -> None:
    """Answer a call of a member."""
    served.reply(messages.plain(reply))
