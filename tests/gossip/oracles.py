"""Invariants of every world, checked after each step; each counts its checks.

The numbers are those of the list in docs/gossip.md.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from gossip import Member, State, wire
from gossip.messages import DatagramMessage, Dead, Suspect
from gossip.protocol.broadcast import CLAIMS_MAX, transmit_limit
from gossip.protocol.digest import member_hash
from gossip.protocol.events import Event, Received
from gossip.protocol.suspicion import Suspicion
from gossip.protocol.table import Table

if TYPE_CHECKING:
    from tests.gossip.node import Node

_RANK = {state: rank for rank, state in enumerate(State)}


class Oracles:
    """The invariants of one world, and how often each was tested."""

    def __init__(self) -> None:
        self.fired: Counter[str] = Counter()
        self.whole_every = 100
        """Steps between two looks at a whole table; in between only what changes is looked at."""
        self._steps = 0
        self._said: dict[tuple[str, bytes, int], tuple[Any, ...]] = {}
        self._created: dict[str, int] = {}
        self._due: dict[tuple[int, str, int], tuple[float, float]] = {}

    def watch(self, node: Node) -> None:
        """Look at every change of a node's table as it happens."""
        table = node.swim.membership.table
        put = table.put

        def watched(member: Member) -> None:
            self._changed(node, table.get(member.name), member)
            put(member)

        table.put = watched  # type: ignore[method-assign]

    def after_step(self, node: Node, now: float) -> None:
        """Look at one node after it has made a step."""
        membership = node.swim.membership
        self.fired["7 holds itself alive"] += 1
        assert membership.me.state in (State.ALIVE, State.LEFT)
        assert len(membership.queue) <= len(membership.table) + CLAIMS_MAX
        self.fired["8 queue"] += 1
        awareness = membership.awareness
        assert 0 <= awareness.score <= awareness.score_max
        self.fired["13 health"] += 1
        self._steps += 1
        if self._steps % self.whole_every == 0:
            self._whole(membership.table, membership.suspicions)
            # As many as there were when it was sent, which may be more than now.
            limit = transmit_limit(len(membership.table), membership.config)
            assert all(sends < limit for sends in membership.queue.sends.values())
            self.fired["8 sends"] += len(membership.queue)

    def accused(self, node: Node, event: Event) -> int:
        """Return the greatest incarnation at which a datagram accuses its receiver; -1 for none."""
        if not isinstance(event, Received) or node.swim.membership.is_leaving:
            return -1
        return max(
            (
                message.incarnation
                for message in event.messages
                if isinstance(message, Suspect | Dead) and message.name == node.name
            ),
            default=-1,
        )

    def refuted(self, node: Node, accused: int) -> None:
        """Look at the answer to an accusation: it is given in the same step."""
        if accused < 0:
            return
        assert node.swim.membership.me.incarnation > accused, "an accusation was not refuted"
        self.fired["6 refutation"] += 1

    def sent(self, messages: tuple[DatagramMessage, ...], size: int | None, most: int) -> None:
        """Look at one datagram. size: its bytes, if it was packed."""
        assert messages, "an empty datagram"
        if size is not None:
            assert size <= most
            self.fired["9 datagram size"] += 1

    def probed(self, node: Node, target: str, live_count: int) -> None:
        """Look at the gap between two probes of one member by one prober."""
        count = node.probes
        last = node.probed_at.get(target)
        node.probed_at[target] = count
        if node.stable_since is None or last is None or last < node.stable_since:
            return
        assert count - last <= 2 * (live_count - 1) - 1, "a member waited too long for its turn"
        self.fired["10 probe fairness"] += 1

    def _changed(self, node: Node, held: Member | None, member: Member) -> None:
        if held is None:
            self._one_meaning(member)
            return
        assert member.incarnation >= held.incarnation, "an incarnation fell"
        self.fired["2 incarnations"] += 1
        if member.incarnation == held.incarnation and member.uid == held.uid:
            assert _RANK[member.state] >= _RANK[held.state], "a statement was taken back"
            self.fired["4 precedence"] += 1
        if member.name == node.name:
            if member.state is State.ALIVE and member.incarnation > held.incarnation:
                self._created[member.name] = member.incarnation
                self.fired["5 own incarnations"] += 1
        elif held.uid == member.uid and member.name in self._created:
            assert member.incarnation <= self._created[member.name], "an incarnation from nowhere"
        self._one_meaning(member)

    def _one_meaning(self, member: Member) -> None:
        """One life at one incarnation has one address and one meta, everywhere."""
        key = (member.name, member.uid, member.incarnation)
        said = (member.address, member.meta)
        assert self._said.setdefault(key, said) == said
        self.fired["3 one meaning"] += 1

    def _whole(self, table: Table, suspicions: dict[str, Suspicion]) -> None:
        live = whole = 0
        for member in table:
            live += member.is_live
            whole ^= member_hash(member)
            assert (member.state is State.SUSPECT) == (member.name in suspicions)
        assert table.live_count == live
        assert table.digest.whole == whole
        self.fired["22 sums"] += 1
        for suspicion in suspicions.values():
            assert suspicion.confirmations <= suspicion.confirmations_max
            assert len(suspicion.reporters) == suspicion.confirmations + 1
            self.fired["12 confirmations"] += 1

    def died(self, node: Node, name: str, now: float, begun: Suspicion | None) -> None:
        """Look at how long a suspicion that ended in death has lasted."""
        if begun is None:
            return
        lasted_s = now - begun.started_at_s
        assert lasted_s >= min(begun.timeout_min_s, begun.deadline_s - begun.started_at_s) - 1e-6
        assert lasted_s <= begun.timeout_max_s + begun.extended_s + 0.5
        self.fired["11 suspicion time"] += 1


def changes_in_order(node: Node) -> int:
    """Check the order of the changes that the application of `node` got; return their number."""
    state: dict[str, State | None] = dict(node.acquainted)
    for _, change in node.changes:
        name = change.member.name
        assert change.previous is state.get(name), f"{node.name} got changes of {name} out of order"
        state[name] = change.member.state
    for member in node.swim.membership.table:
        if member.name != node.name and member.name in state:
            assert state[member.name] is member.state
    return len(node.changes)


def encoded(messages: tuple[DatagramMessage, ...]) -> bytes:
    """Return the datagram; check that it decodes to the same messages."""
    data = wire.encode_datagram(messages)
    decoded = wire.decode_datagram(data)
    assert decoded.dropped_count == 0
    assert decoded.messages == messages
    return data
