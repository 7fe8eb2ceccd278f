"""Requests to the coordinator of a group, one at a time. S is 3 s.

Pulses are made by hand, also such as no correct member sends.
"""

from typing import Any

from docstore.model import json
from docstore.services.group_document import ROLES, GroupState, MemberDetails, Settings, group_of
from docstore.sessions.group_messages import (
    Confirmed,
    Join,
    Joined,
    Pulse,
    Reply,
    Request,
    Wait,
    reply_of,
)
from tests.docstore.sessions.group import Group as Nodes

LINK = f"{ROLES}/pricing"


class Talk:
    """A few nodes that keep a group, and requests to them."""

    def __init__(self, partitions: int = 2, **settings: Any) -> None:
        self.nodes = Nodes()
        times = {"session_ms": 3_000, "window_ms": 1_500, "heartbeat_ms": 500, "revoke_ms": 3_000}
        group = GroupState(parts={"": partitions}, settings=Settings(**times | settings))
        self.nodes.put(LINK, group.state())
        self._numbers = 0

    def ask(self, request: Request, *, at: str = "", wait_ms: int = 0) -> int:
        kind = f"roles-{type(request).__name__.lower()}"
        argument = [*request, wait_ms] if isinstance(request, Wait) else list(request)
        return self.nodes.call(LINK, kind, argument, at=at)

    def reply(self, call: int) -> Reply:
        reply = self.nodes.replies[call]
        assert not reply.code, reply
        return reply_of(reply.result)

    def say(self, request: Request) -> Reply:
        """Ask, and return the immediate reply."""
        return self.reply(self.ask(request))

    def code(self, request: Request, *, at: str = "", seconds: float = 6.0) -> str:
        """Ask, and return the code of the final refusal."""
        call = self.ask(request, at=at)
        if call not in self.nodes.replies:
            self.nodes.run(seconds)
        return self.nodes.replies[call].code

    def join(self, member: str, **about: Any) -> None:
        assert isinstance(self.say(Join(member, MemberDetails(**about))), Joined)

    def pulse(
        self,
        member: str,
        *owned: str,
        generation: int = -1,
        at: str = "",
        answered: bool = False,
    ) -> Reply:
        """answered: the member has read the replies to all its earlier pulses."""
        pulse = self.next_pulse(member, *owned, generation=generation)
        if answered:
            pulse = pulse._replace(answered=pulse.number - 1)
        return self.reply(self.ask(pulse, at=at))

    def next_pulse(self, member: str, *owned: str, generation: int = -1) -> Pulse:
        """Return a pulse with a list of its own number; by default of the current generation."""
        self._numbers += 1
        known = self.group.generation if generation < 0 else generation
        return Pulse(member, self._numbers, known, self._numbers, owned)

    @property
    def group(self) -> GroupState:
        return group_of(json.load(self.nodes.documents[LINK].state))

    def holders(self) -> dict[str, str]:
        return {partition: held.member for partition, held in self.group.tenure.items()}


def shared() -> Talk:
    """Return a group of two partitions, one of which should pass from x to y."""
    talk = Talk(2)
    talk.join("x")
    assert talk.pulse("x", "0", "1") == Confirmed(1)
    talk.join("y")
    assert len(talk.group.target) == 2
    assert talk.holders() == {"0": "x", "1": "x"}
    return talk


def moving(talk: Talk) -> str:
    """Return the partition that is assigned to y."""
    return next(each for each, member in talk.group.target.items() if member == "y")


def staying(talk: Talk) -> str:
    return next(each for each, member in talk.group.target.items() if member == "x")
