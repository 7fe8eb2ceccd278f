"""Produce requests at the entry node: find the leader, forward the records, return the outcome.

As for operations (rule C3), a request that is rejected has had no effect. A request that may have
been appended is retried only if its producer numbers its batches (RN3); otherwise the client gets
504, as the outcome is unknown.
"""

from dataclasses import dataclass
from itertools import count

from docstore.machines.core import NEVER
from docstore.streams.core import Core
from docstore.streams.deadlines import Deadlines
from docstore.streams.directory import Directory
from docstore.streams.effects import Led, Problem
from docstore.streams.events import LeaderAsked, ProduceAsked
from docstore.wire.streams_messages import Produce, Produced

RETRY_S = 0.1
STATUSES = {
    "producer-fenced": 409,
    "sequence-gap": 409,
    "stale-sequence": 409,
    "unknown-producer": 409,
    "not-enough-replicas": 503,
    "partition-full": 503,
    "too-many-waiting": 503,
    "no-quorum": 503,
    "no-leader": 503,
    "undecided": 504,
}


@dataclass(slots=True)
class PendingProduce:
    """One request of a client, until it is answered."""

    event: ProduceAsked
    id: int
    sent_to: str = ""
    """Node that the records were sent to; "" if they are to be sent."""
    retry_at: float = NEVER
    may_be_appended: bool = False

    @property
    def deadline(self) -> float:
        """Return the time by which the client must have an answer."""
        return self.event.deadline


class ClientProduces:
    """Produce requests of this node's clients."""

    def __init__(self, core: Core, directory: Directory) -> None:
        self._core = core
        # A leader may still answer requests of this node's earlier process.
        self._ids = count(core.new_run())
        self._directory = directory
        self._asked: dict[int, PendingProduce] = {}
        self._sent_to: dict[str, set[int]] = {}
        self._deadlines = Deadlines()
        self._retrying: dict[int, PendingProduce] = {}

    def ask(self, event: ProduceAsked) -> None:
        """Forward the records of a client to the leader."""
        asked = PendingProduce(event, next(self._ids))
        self._asked[asked.id] = asked
        self._deadlines.add(event.deadline)
        self._route(asked)

    def _route(self, asked: PendingProduce) -> None:
        link = asked.event.link
        leader = self._directory.leader(link)
        if leader == self._core.me or (leader and self._core.view.is_alive(leader)):
            self._send(asked, leader)
        elif self._directory.find(link) is None:
            self._read(asked)
        else:
            self._retry_later(asked)

    def _send(self, asked: PendingProduce, leader: str) -> None:
        event, core = asked.event, self._core
        # A late answer to an earlier attempt must not settle this one.
        del self._asked[asked.id]
        asked.id = next(self._ids)
        self._asked[asked.id] = asked
        asked.sent_to = leader
        self._sent_to.setdefault(leader, set()).add(asked.id)
        remaining_ms = max(1, int((event.deadline - core.now) * 1000))
        core.send(
            leader,
            Produce(
                asked.id, self._directory.name(event.link), event.acks, remaining_ms,
                event.producer, event.flags, event.records, event.body, event.trace,
            ),
        )  # fmt: skip

    def _retry_later(self, asked: PendingProduce) -> None:
        """Retry after RETRY_S, when the leader is looked up again."""
        self._unsend(asked)
        asked.retry_at = self._core.now + RETRY_S
        self._retrying[asked.id] = asked

    def _read(self, asked: PendingProduce) -> None:
        self._unsend(asked)
        self._directory.refresh(asked.event.link, lambda problem: self._found(asked, problem))

    def _found(self, asked: PendingProduce, problem: Problem | None) -> None:
        if self._asked.get(asked.id) is not asked:
            return
        if problem is None:
            leader = self._directory.leader(asked.event.link)
            if leader and self._core.view.is_alive(leader):
                self._send(asked, leader)
            else:
                self._retry_later(asked)
        elif problem.status == 404 and not asked.may_be_appended:
            self._give(asked, problem)
        else:
            self._retry_later(asked)

    # Answers of leaders

    def produced(self, sender: str, message: Produced) -> None:
        """Take the answer of the leader, or of a node that does not lead."""
        asked = self._asked.get(message.id)
        if asked is None or asked.sent_to != sender:
            return
        if message.code in ("", "repeated"):
            self._end(asked)
            self._core.give(asked.event.request, message)
        elif message.code == "not-leader":
            if message.appended:
                self._lost(asked)
            else:
                self._retry_later(asked)
        elif message.code == "undecided":
            self._give(asked, self._unknown(message.detail))
        else:
            status = STATUSES[message.code]
            # After an attempt that may have been appended, a rejection does not settle the request.
            self._give(
                asked,
                Problem(
                    status if not asked.may_be_appended else 504,
                    message.code if not asked.may_be_appended else "undecided",
                    message.detail,
                    unknown=asked.may_be_appended,
                ),
            )

    def _lost(self, asked: PendingProduce) -> None:  # Tests replace this.
        """Retry a request that a former leader may have appended, or answer that it is unknown."""
        asked.may_be_appended = True
        if asked.event.producer:
            self._retry_later(asked)
        else:
            self._give(asked, self._unknown("the leader was replaced before it was committed"))

    def link_lost(self, peer: str) -> None:
        """Settle the requests sent to that node, which may have appended them."""
        for number in sorted(self._sent_to.pop(peer, ())):
            self._lost(self._asked[number])

    def _leave(self, silent: str) -> None:
        """Send requests with batch numbers to another leader; others wait for the silent node."""
        for number in sorted(self._sent_to[silent]):
            if self._asked[number].event.producer:
                self._lost(self._asked[number])

    def tick(self) -> None:
        """Answer the requests whose deadline has passed, and retry others."""
        core = self._core
        for asked in self._deadlines.overdue(self._asked.values(), core.now):
            if asked.sent_to or asked.may_be_appended:
                self._give(asked, self._unknown("no answer by the deadline"))
            else:
                detail = "no leader was found by the deadline; retry"
                self._give(asked, Problem(503, "no-leader", detail))
        for node in [each for each in self._sent_to if not core.view.is_alive(each)]:
            self._leave(node)
        for asked in [each for each in self._retrying.values() if each.retry_at <= core.now]:
            del self._retrying[asked.id]
            self._read(asked)

    def _unknown(self, detail: str) -> Problem:
        return Problem(504, "undecided", detail, unknown=True)

    def _give(self, asked: PendingProduce, problem: Problem) -> None:
        self._end(asked)
        self._core.give(asked.event.request, problem)

    def _end(self, asked: PendingProduce) -> None:
        self._unsend(asked)
        self._asked.pop(asked.id, None)
        self._retrying.pop(asked.id, None)

    def _unsend(self, asked: PendingProduce) -> None:
        if asked.sent_to:
            self._sent_to.get(asked.sent_to, set()).discard(asked.id)
            asked.sent_to = ""

    # Questions for the leader of a partition

    def who_leads(self, event: LeaderAsked) -> None:
        """Answer with the leader of a partition."""
        if event.refresh or self._directory.find(event.link) is None:
            self._directory.refresh(event.link, lambda problem: self._led(event, problem))
        else:
            self._led(event, None)

    def _led(self, event: LeaderAsked, problem: Problem | None) -> None:
        found = self._directory.find(event.link)
        if problem is not None or found is None:
            self._core.give(event.request, problem or Problem(503, "no-leader", "not known"))
            return
        led = Led(self._directory.leader(event.link), found.epoch, self._directory.name(event.link))
        self._core.give(event.request, led)
