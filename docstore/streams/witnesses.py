"""Witnesses: the other replicas, asked before a leader that seems dead is replaced (rule RF7).

If one of them hears the leader, only the controller's own connection is broken, and the leader is
kept. Safety does not depend on this: a leader that is replaced is fenced.
"""

from dataclasses import dataclass, field

from docstore.streams.core import Core
from docstore.wire.streams_messages import Witness, Witnessed


@dataclass(slots=True)
class WitnessRound:
    """One question to all witnesses about one node."""

    number: int
    asked_at: float
    asked: frozenset[str]
    denied: set[str] = field(default_factory=set)
    vetoed_until: float = 0.0


class Witnesses:
    """Asks witnesses about nodes, in one round at a time for each node."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rounds: dict[str, WitnessRound] = {}

    def is_gone(self, node: str, witnesses: frozenset[str]) -> bool:  # Tests replace this.
        """Say whether no witness hears a node. Starts a round; call again for its result."""
        core = self._core
        if core.view.is_alive(node):
            self._rounds.pop(node, None)
            return False
        found = self._rounds.get(node)
        if found is not None and core.now < found.vetoed_until:
            return False
        if found is None or found.vetoed_until:
            found = self._begin(node, witnesses)
        patience_s = core.config.elections.owner_timeout_s
        return found.denied >= found.asked or core.now - found.asked_at > patience_s

    def _begin(self, node: str, witnesses: frozenset[str]) -> WitnessRound:
        core = self._core
        asked = frozenset(
            each for each in witnesses if each not in (node, core.me) and core.view.is_alive(each)
        )
        found = self._rounds[node] = WitnessRound(core.next_token(), core.now, asked)
        core.counters["witness_rounds"] += 1
        for each in sorted(asked):
            core.send(each, Witness(found.number, node))
        return found

    def asked(self, sender: str, message: Witness) -> None:
        """Say whether this node hears another one."""
        heard = self._core.view.is_alive(message.node)
        self._core.send(sender, Witnessed(message.round, message.node, heard))

    def answered(self, sender: str, message: Witnessed) -> None:
        """Count the answer of a witness; one that hears the node vetoes its replacement."""
        found = self._rounds.get(message.node)
        if found is None or found.number != message.round:
            return
        if message.heard:
            self._core.counters["vetoes"] += 1
            found.vetoed_until = self._core.now + self._core.config.elections.veto_s
        else:
            found.denied.add(sender)
