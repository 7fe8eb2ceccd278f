"""Calls of clients about sessions: the way to the owner of a document, and of the answer back.

The entry node sends a call to the owner that it knows. It tries another node when that owner is
lost, is silent, or answers that it is not the owner, and repeats the call after a while, since a
message may be lost. All calls may safely be repeated. At the deadline the answer is 503: nothing is
proven, and nothing was changed.
"""

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from docstore.sessions.core import Core
from docstore.sessions.events import Asked
from docstore.wire.sessions_messages import NOT_OWNER, Call, Reply


@dataclass(slots=True)
class Served:
    """A call at the owner, until it is answered.

    argument: plain values, in the shape that the kind of call defines.
    """

    sender: str
    id: int
    link: str
    kind: str
    argument: Any
    deadline: float
    answer: Callable[["Served", Reply], None]

    def reply(self, result: Any, *, status: int = 200) -> None:
        """Answer with plain values."""
        self.answer(self, Reply(self.id, status, "", "", result))

    def refuse(self, status: int, code: str, detail: str) -> None:
        """Answer with an error."""
        self.answer(self, Reply(self.id, status, code, detail, None))

    def elsewhere(self) -> None:
        """Refuse, so that the entry node asks the present owner of the document."""
        self.refuse(503, NOT_OWNER, "this node does not own the document: retry")


@dataclass(slots=True)
class Outstanding:
    """A call at the entry, until it is answered."""

    asked: Asked
    sent_to: str = ""
    resend_s: float = 0.0
    timer_at: float = 0.0
    """Time of the next attempt, or of giving up; other timers of this call are void."""


class Calls:
    """Handles the calls of this node's clients, and the calls to this node as owner."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ids = count(core.new_run())
        self._handlers: dict[str, Callable[[Served], None]] = {}
        self._outstanding: dict[int, Outstanding] = {}
        self._sent_to: dict[str, set[int]] = {}
        self._timers: list[tuple[float, int]] = []
        self._served: set[tuple[str, int]] = set()

    def add(self, handlers: Mapping[str, Callable[[Served], None]]) -> None:
        """Add handlers for more kinds of calls: kind -> handler."""
        self._handlers.update(handlers)

    # Calls at the owner

    def called(self, sender: str, call: Call) -> None:
        """Serve a call that an entry node has sent to the owner of a document."""
        key = (sender, call.id)
        if key in self._served:
            return  # The call was repeated while it is being answered.
        core = self._core
        deadline = core.now + call.remaining_ms / 1000
        served = Served(*key, call.link, call.kind, call.argument, deadline, self._answer)
        self._served.add(key)
        handler = self._handlers.get(call.kind)
        if handler is None:
            served.refuse(
                501,
                "not-implemented",
                f"this node does not support {call.kind}: retry when all nodes are upgraded",
            )
        elif not core.view.owns(call.link):
            served.elsewhere()
        else:
            core.counters[f"calls_{call.kind}"] += 1
            handler(served)

    def _answer(self, served: Served, reply: Reply) -> None:
        key = (served.sender, served.id)
        if key in self._served:  # Only the first answer is sent.
            self._served.discard(key)
            self._core.send(served.sender, reply)

    # Calls at the entry node

    def ask(self, asked: Asked) -> None:
        """Send a client's call to the owner."""
        number = next(self._ids)
        self._outstanding[number] = Outstanding(asked)
        self._try(number)

    def _try(self, number: int) -> None:
        core, outstanding = self._core, self._outstanding[number]
        self._unsend(number)
        asked = outstanding.asked
        owner = core.view.owner_of(asked.link)
        if owner and core.view.is_alive(owner):
            outstanding.sent_to = owner
            self._sent_to.setdefault(owner, set()).add(number)
            remaining_ms = max(1, int((asked.deadline - core.now) * 1000))
            call = Call(number, asked.link, asked.kind, remaining_ms, asked.argument, asked.trace)
            core.send(owner, call)
            least_s, most_s = core.config.resend_s
            outstanding.resend_s = min(max(outstanding.resend_s * 2, least_s), most_s)
            self._wake(number, outstanding.resend_s)
        else:
            self._wake(number, core.config.again_s)

    def _wake(self, number: int, after_s: float) -> None:
        outstanding = self._outstanding[number]
        at = min(self._core.now + after_s, outstanding.asked.deadline)
        outstanding.timer_at = at
        heapq.heappush(self._timers, (at, number))

    def replied(self, sender: str, reply: Reply) -> None:
        """Take the answer of the owner, or of a node that is not the owner."""
        outstanding = self._outstanding.get(reply.id)
        if outstanding is None or outstanding.sent_to != sender:
            return
        if reply.code == NOT_OWNER:
            self._retry_soon(reply.id)
        else:
            self._end(reply.id, reply)

    def link_lost(self, peer: str) -> None:
        """Retry the calls that were sent to that node at its successor."""
        for number in sorted(self._sent_to.get(peer, ())):
            self._retry_soon(number)
        self._served = {key for key in self._served if key[0] != peer}

    def tick(self) -> None:
        """Repeat the calls that are due, and answer those past their deadline."""
        core = self._core
        for peer in [each for each in self._sent_to if not core.view.is_alive(each)]:
            for number in sorted(self._sent_to[peer]):
                self._retry_soon(number)
        while self._timers and self._timers[0][0] <= core.now:
            at, number = heapq.heappop(self._timers)
            outstanding = self._outstanding.get(number)
            if outstanding is None or outstanding.timer_at != at:
                continue
            if outstanding.asked.deadline <= core.now:
                self._give_up(number)
            else:
                self._try(number)

    def _give_up(self, number: int) -> None:
        if self._core.view.lacks_quorum:
            code, detail = "no-quorum", "a majority of the members is not heard"
        else:
            code, detail = "no-owner", "the owner of the document did not answer in time"
        self._end(number, Reply(number, 503, code, detail, None))

    def _retry_soon(self, number: int) -> None:
        self._unsend(number)
        self._wake(number, self._core.config.again_s)

    def _end(self, number: int, reply: Reply) -> None:
        self._unsend(number)
        outstanding = self._outstanding.pop(number)
        self._core.give(outstanding.asked.request, reply)

    def _unsend(self, number: int) -> None:
        outstanding = self._outstanding[number]
        if outstanding.sent_to:
            held = self._sent_to[outstanding.sent_to]
            held.discard(number)
            if not held:
                del self._sent_to[outstanding.sent_to]
            outstanding.sent_to = ""
