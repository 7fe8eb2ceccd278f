"""Policy by store: the first candidate in a linearizable document's queue leads while it lives.

Based on the Leader and Followers pattern (Joshi, 2020), "Leader election using an external
linearizable store": a compare-and-set to win, a lease that expires when its holder is silent, and a
notice to the candidates that wait. The fence is the *token*: the version of the document's row that
granted the turn. Versions go on over a tombstone, so tokens grow over delete and create, which a
counter in the state would not.

In the pattern every candidate tries a compare-and-set when the key vanishes: a herd, in which the
nearest wins. Here the document is a queue, changed by these rules at its owner, one update at a
time: fifty candidates at once are fifty rows, in an order that all see, each with one holder.

A lease that ended takes its candidate out (`gone`). Only the machine of leases knows whether a
lease has ended, and whether the grace after it is over; these rules say what follows.

A request may arrive late: long after its sender gave up waiting for an answer and retried.
Requests of a candidate may be numbered. Then a number below its greatest seen number changes
nothing, nor does a campaign with that very number once the candidate is out again. The greatest
number is kept until the candidate's lease has ended: no request is late for longer than that.

Left out: priorities, and turns that are shared.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from docstore.model.service import Refusal

QUEUE_MAX = 1_000
"""Maximum number of waiting candidates. Each change writes the whole queue."""


PAST_MAX = 1_000
"""Former candidates remembered, at most; the oldest are evicted."""
NOT_HOLDER = "not-holder"


class Vacant(StrEnum):
    """Reason why there is no holder; empty while there is one, and before the first."""

    NO = ""
    RESIGNED = "resigned"
    EXPIRED = "expired"
    """The holder's lease ended.

    The holder may not know yet, so the next candidate may have to wait a grace.
    """


class Candidate(NamedTuple):
    """A holder or a waiting candidate.

    lease: link of the lease that it ends with. The same name under another lease is another
    candidate: a restarted process waits until its predecessor is gone. value: JSON value that the
    candidate publishes. number: of its newest request, 0 if it does not number them.
    """

    name: str
    lease: str
    value: Any = None
    number: int = 0

    def is_same(self, other: "Candidate") -> bool:
        """Say whether name and lease are the same; the values may differ."""
        return (self.name, self.lease) == (other.name, other.lease)


class Past(NamedTuple):
    """A former candidate that numbers its requests."""

    name: str
    lease: str
    number: int


class Turns(NamedTuple):
    """An election or a lock. token: of the newest grant, 0 before the first.

    grace_ms: time without a holder after a holder's lease has ended. past: oldest first.
    """

    holder: Candidate | None = None
    token: int = 0
    queue: tuple[Candidate, ...] = ()
    grace_ms: int = 0
    vacant: Vacant = Vacant.NO
    past: tuple[Past, ...] = ()

    @property
    def is_in_grace(self) -> bool:
        """Say whether the grace runs: only the machine that measures it may promote then."""
        return self.holder is None and self.vacant is Vacant.EXPIRED and self.grace_ms > 0

    def position(self, candidate: Candidate) -> int | None:
        """Return 0 for the holder, 1 for the next, and so on; None for other candidates."""
        for place, each in enumerate((self.holder, *self.queue)):
            if each is not None and each.is_same(candidate):
                return place
        return None

    def seen(self, candidate: Candidate) -> int:
        """Return the greatest number seen of a candidate, 0 for none."""
        for each in (self.holder, *self.queue):
            if each is not None and each.is_same(candidate):
                return each.number
        key = (candidate.name, candidate.lease)
        return next((number for *past, number in self.past if tuple(past) == key), 0)


def campaigned(turns: Turns, candidate: Candidate, version: int) -> Turns:
    """Return the queue with the candidate at its end; only its number changes if it is in already.

    version: of the row that the update makes, also in the functions below. They raise Refusal
    (409).
    """
    _check_number(turns, candidate)
    if turns.position(candidate) is not None:
        return _numbered(turns, candidate)
    if candidate.number and candidate.number == turns.seen(candidate):
        raise _late(candidate)
    if len(turns.queue) >= QUEUE_MAX:
        detail = f"{QUEUE_MAX} candidates wait already, the most of an election: retry later"
        raise Refusal(detail, status=409, code="queue-full")
    past = tuple(each for each in turns.past if each[:2] != candidate[:2])
    after = turns._replace(queue=(*turns.queue, candidate), past=past)
    return after if after.holder is not None or after.is_in_grace else promoted(after, version)


def resigned(turns: Turns, name: str, token: int, *, number: int = 0, version: int) -> Turns:
    """Return the queue after its holder resigned; the same row makes the next candidate holder."""
    holder = _check_holder(turns, name, token, number)
    past = _remembered(turns, holder, number)
    return promoted(turns._replace(holder=None, vacant=Vacant.RESIGNED, past=past), version)


def withdrawn(turns: Turns, candidate: Candidate, version: int) -> Turns:
    """Return the queue without a candidate, which may have become the holder meanwhile."""
    _check_number(turns, candidate)
    number = candidate.number
    match turns.position(candidate):
        case None:
            raise Refusal(
                f"{candidate.name} is neither the leader nor a waiting candidate",
                status=409,
                code=NOT_HOLDER,
            )
        case 0:
            return resigned(turns, candidate.name, turns.token, number=number, version=version)
    rest = tuple(each for each in turns.queue if not each.is_same(candidate))
    return turns._replace(queue=rest, past=_remembered(turns, candidate, number))


def transferred(
    turns: Turns, name: str, token: int, *, to: str, number: int = 0, version: int
) -> Turns:
    """Return the queue after the holder gave its turn to a waiting candidate, in one row."""
    holder = _check_holder(turns, name, token, number)
    chosen = next((each for each in turns.queue if each.name == to), None)
    if chosen is None:
        raise Refusal(
            f"`to` must be a waiting candidate; got {to!r}", status=409, code="not-queued"
        )
    return turns._replace(
        holder=chosen,
        token=version,
        queue=tuple(each for each in turns.queue if each is not chosen),
        vacant=Vacant.NO,
        past=_remembered(turns, holder, number),
    )


def proclaimed(turns: Turns, name: str, token: int, value: Any, *, number: int = 0) -> Turns:
    """Return the queue with another value of the holder."""
    holder = _check_holder(turns, name, token, number)
    if number and number == holder.number:
        return turns
    said = holder._replace(value=value, number=max(number, holder.number))
    return turns._replace(holder=said)


def gone(turns: Turns, lease: str, version: int) -> Turns:
    """Return the queue without an ended lease's candidates; the next may hold after the grace."""
    queue = tuple(each for each in turns.queue if each.lease != lease)
    past = tuple(each for each in turns.past if each.lease != lease)
    is_held = turns.holder is not None and turns.holder.lease == lease
    if not is_held and (len(queue), len(past)) == (len(turns.queue), len(turns.past)):
        return turns
    after = turns._replace(queue=queue, past=past)
    if not is_held:
        return after
    after = after._replace(holder=None, vacant=Vacant.EXPIRED)
    return after if after.is_in_grace else promoted(after, version)


def promoted(turns: Turns, version: int) -> Turns:  # Tests replace this.
    """Return the queue with its first candidate as holder, if there is no holder."""
    if turns.holder is not None or not turns.queue:
        return turns
    first, *rest = turns.queue
    return turns._replace(holder=first, token=version, queue=tuple(rest), vacant=Vacant.NO)


def _check_holder(turns: Turns, name: str, token: int, number: int) -> Candidate:
    holder = turns.holder
    if holder is None or holder.name != name:
        raise Refusal(f"{name} does not lead the election now", status=409, code=NOT_HOLDER)
    if turns.token != token:
        detail = f"`token` must be {turns.token}, the one under which {name} leads; got {token}"
        raise Refusal(detail, status=409, code="other-token")
    _check_number(turns, holder._replace(number=number))
    return holder


def _numbered(turns: Turns, candidate: Candidate) -> Turns:
    """Note the number of a candidate that is in, so that its earlier requests are late."""
    if candidate.number <= turns.seen(candidate):
        return turns
    held = turns.holder
    if held is not None and held.is_same(candidate):
        return turns._replace(holder=held._replace(number=candidate.number))
    queue = (
        each._replace(number=candidate.number) if each.is_same(candidate) else each
        for each in turns.queue
    )
    return turns._replace(queue=tuple(queue))


def _check_number(turns: Turns, candidate: Candidate) -> None:
    if 0 < candidate.number < turns.seen(candidate):
        raise _late(candidate)


def _late(candidate: Candidate) -> Refusal:
    detail = f"{candidate.name} has sent something newer than {candidate.number}, which comes late"
    return Refusal(detail, status=409, code="late")


def _remembered(turns: Turns, left: Candidate, number: int) -> tuple[Past, ...]:
    """Return the remembered candidates once `left` has left with this number."""
    number = max(number, turns.seen(left))
    if not number:
        return turns.past
    others = tuple(each for each in turns.past if each[:2] != left[:2])
    return (*others, Past(left.name, left.lease, number))[-PAST_MAX:]
