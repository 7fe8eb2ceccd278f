"""The coordinator of groups whose members are Kafka clients: joins, generations, and commits.

KG1 The coordinator is the owner of the group's document. It answers a member only after a read
    that was begun after the request confirms the term.
KG2 A generation is one update of the document, which names the term and the version. The members
    get their assignments once it is decided. Generations only grow.
KG3 A request that names an earlier generation, or an id that is not a member's, is refused.
KG4 A commit carries the version of the group's row as its token, and a fetch of offsets claims them
    with it. So a commit of an earlier generation that is late is contained in the offset that was
    read, or is refused (GO1, GO2).
KG5 Under a new term, the members in the document have a whole session. A member that needs metadata
    or an assignment that only the former coordinator had makes all members rejoin.
KG6 The members of a group are either Kafka clients or members of docstore's own protocol.

Joins and the phases: `kafka_joining.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from docstore.machines.updates import Updates
from docstore.model.settings import quoted
from docstore.sessions.calling import Served
from docstore.sessions.confirming import Confirming
from docstore.sessions.core import Core
from docstore.sessions.deadlines import Deadlines
from docstore.sessions.kafka_group import (
    COMPLETING,
    EMPTY,
    PREPARING,
    STABLE,
    Change,
    KafkaGroup,
    extended,
)
from docstore.sessions.kafka_joining import Joins, Key, answer
from docstore.sessions.kafka_messages import BeatAsked, Code, CommitAsked, Leaving, SyncAsked
from docstore.sessions.owned import Known


class KafkaCoordinating:
    """Coordinates the groups of Kafka clients whose documents this node owns."""

    def __init__(self, core: Core, updates: Updates, *, confirming: Confirming) -> None:
        self._core = core
        self._updates = updates
        self._confirming = confirming
        self._groups: dict[str, KafkaGroup] = {}
        self._deadlines: Deadlines[Key] = Deadlines(core)
        self._joins = Joins(core, self._deadlines, self._change)
        self.calls: Mapping[str, Callable[[Served], None]] = {
            "kafka-join": self._joining,
            "kafka-sync": self._syncs,
            "kafka-beat": self._beats,
            "kafka-leave": self._leaves,
            "kafka-commit": self._commits,
            "kafka-describe": self._describes,
        }

    # Documents

    def changed(self, known: Known) -> None:
        """Begin to govern a group whose members are Kafka clients.

        A version from a listing may never have been decided. It serves only to find silent members,
        and the group begins anew with the decided version.
        """
        group = self._groups.get(known.link)
        if group is not None and known.is_sure and not group.is_sure:
            self.left(known)
            group = None
        if group is None and known.found.kafka is not None:
            self._govern(known)

    def left(self, known: Known) -> None:
        """Stop governing a group, and send its waiting calls to the next coordinator."""
        group = self._groups.pop(known.link, None)
        if group is None:
            return
        for key in [*group.members, *group.pending]:
            self._deadlines.drop((known.link, key))
        self._joins.left(known.link)
        for each in group.members.values():
            for served in (each.joining, each.syncing):
                if served is not None:
                    served.elsewhere()

    def _govern(self, known: Known) -> KafkaGroup:
        group = self._groups[known.link] = KafkaGroup.of(known)
        for name, each in group.members.items():
            self._deadlines.grant((known.link, name), each.session_s)
        return group

    def tick(self) -> None:
        """Remove silent members, and end the phases whose time is over."""
        core = self._core
        for (link, name), late_s in self._deadlines.overdue(core.config.endings_max):
            core.counters["members_expired"] += 1
            core.counters["member_expiry_lag_us"] += int(late_s * 1e6)
            self._joins.expired(self._groups[link], name)
        self._joins.tick()

    def confirm(self, served: Served, then: Callable[[KafkaGroup], None]) -> None:
        """Call `then` once a read begun after this moment confirms our term (rule KG1)."""

        def read(known: Known | None) -> None:
            if known is None:
                served.refuse(404, "no-such-group", f"there is no group {served.link}")
            else:
                then(self._groups.get(known.link) or self._govern(known))

        self._confirming.confirm(served.link, read, served.elsewhere)

    # Changes of the document

    def _change(self, group: KafkaGroup, change: Change) -> None:
        """Apply a change after those before it; each is based on the decided state (rule KG2)."""
        group.changes.append(change)
        self._write(group)

    def _write(self, group: KafkaGroup) -> None:
        while group.changes and not group.is_writing:
            change, known = group.changes[0], group.known
            draft = change.make(group.document)
            if draft is None or draft == group.document:
                group.changes.popleft().then(draft is not None)
                continue
            group.is_writing = True
            self._core.counters["group_updates"] += 1
            self._updates.change(
                known.link,
                known.tag,
                draft.pack(),
                lambda row, is_done: self._written(group, is_done=is_done),
                only_epoch=known.epoch,
            )

    def _written(self, group: KafkaGroup, *, is_done: bool) -> None:
        """Continue after an update that is decided, or known to have had no effect."""
        group.is_writing = False
        if self._groups.get(group.known.link) is group:
            group.changes.popleft().then(is_done)
            self._write(group)

    # Calls

    def _joining(self, served: Served) -> None:
        self.confirm(served, lambda group: self._joins.asked(served, group))

    def _syncs(self, served: Served) -> None:
        sync = SyncAsked(*served.argument)
        self.confirm(served, lambda group: self._joins.sync(served, group, sync))

    def _beats(self, served: Served) -> None:
        beat = BeatAsked(*served.argument)
        group = self._groups.get(served.link)
        if group is not None and not group.fault_of(*beat):
            # A renewal at arrival is always safe: it can only lengthen a session.
            self._deadlines.renew((served.link, beat.member))
        self.confirm(served, lambda found: self._judge(served, found, beat))

    def _judge(self, served: Served, group: KafkaGroup, beat: BeatAsked) -> None:
        """Answer a heartbeat."""
        fault = group.fault_of(*beat)
        if not fault:
            self._deadlines.renew((served.link, beat.member))
            self._core.counters["pulses"] += 1
        answer(served, fault or (Code.REBALANCING if group.phase is PREPARING else ""))

    def _leaves(self, served: Served) -> None:
        """Remove members; each has a code of its own in the answer."""
        leaving = [Leaving(*each) for each in served.argument]

        def leave(group: KafkaGroup) -> None:
            codes = [self._joins.leave(group, each) for each in leaving]
            self._change(group, Change(lambda _: None, lambda _: answer(served, "", codes=codes)))

        self.confirm(served, leave)

    def _commits(self, served: Served) -> None:
        """Answer with the token of a commit, once the document has its topics (rule KG4)."""
        commit = CommitAsked(*served.argument)

        def judge(group: KafkaGroup) -> None:
            fault = group.fault_of(*commit[:3])
            if commit.generation < 0 and group.phase is EMPTY and not group.document.members:
                fault = ""
            elif not fault and group.phase is COMPLETING:
                fault = Code.REBALANCING
            if fault:
                answer(served, fault)
                return
            self._deadlines.renew((served.link, commit.member))
            extend = Change(
                lambda document: extended(document, commit.parts), lambda _: grant(group)
            )
            self._change(group, extend)

        def grant(group: KafkaGroup) -> None:
            parts = group.document.parts
            if all(parts.get(topic, 0) >= count for topic, count in commit.parts.items()):
                answer(served, "", token=max(1, group.known.tag[1]))
            else:
                answer(served, Code.GROUP_FULL)

        self.confirm(served, judge)

    # Figures

    def _describes(self, served: Served) -> None:
        """Answer with the phase, and the members with their metadata and assignments."""

        def describe(group: KafkaGroup) -> None:
            chosen = group.protocol if group.phase in (STABLE, COMPLETING) else ""
            members = [
                [each.id, each.instance, each.client, each.host, each.protocols.get(chosen, b""),
                 each.assignment]
                for each in group.members.values()
            ]  # fmt: skip
            answer(
                served, "", phase=str(group.phase), type=group.type if members else "",
                protocol=chosen, members=members,
            )  # fmt: skip

        self.confirm(served, describe)

    def shows(self, served: Served) -> None:
        """Answer with the live figures of the members, as `coordinating.py` does."""

        def show(group: KafkaGroup) -> None:
            served.reply({name: self._figures(group, name) for name in group.members})

        self.confirm(served, show)

    def fences(self, served: Served) -> None:
        """Remove a member at an operator's request; it may join again."""

        def fence(group: KafkaGroup) -> None:
            if served.argument not in group.members:
                served.refuse(
                    404, "unknown-member", f"{served.link} has no member {quoted(served.argument)}"
                )
                return
            figures = self._figures(group, served.argument)
            self._joins.leave(group, Leaving(served.argument, ""))
            told = {served.argument: figures | {"fenced": True}}
            self._change(group, Change(lambda _: None, lambda _: served.reply(told)))

        self.confirm(served, fence)

    def _figures(self, group: KafkaGroup, name: str) -> dict[str, Any]:
        left_s = self._deadlines.left_s((group.known.link, name)) or 0.0
        held = group.document.tenure.items()
        return {
            "heardMs": int((group.members[name].session_s - left_s) * 1000),
            "owned": sorted(each for each, tenure in held if tenure.member == name),
            "revoking": {},
            "fenced": False,
        }
