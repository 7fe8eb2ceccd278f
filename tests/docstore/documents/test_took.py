"""A message of rows is acknowledged whole, by its number, or log by log (rule SL8)."""

from docstore.documents.replica import Replica
from docstore.documents.timing import ReplicaConfig, SendingBounds
from docstore.documents.write_path.in_flight import REMEMBERED_S
from docstore.machines.events import Persisted, Received, TurnEnded
from docstore.wire.messages import Accepted, AcceptedAll, Gap, Offer, Propose, Refused
from tests.docstore.documents.test_replica import (
    ask_to_put,
    opened,
    replica,
    row,
    sends,
    settled,
    tokens,
)


def offering(count: int, bytes_each: int = 10) -> tuple[Replica, list[Propose]]:
    """Return an owner that has offered `count` documents, and its messages to n3.

    Each offer has one document. They are on its own disk: one follower more is a quorum.
    """
    machine = opened()
    machine.core.config = ReplicaConfig(sending=SendingBounds(page_rows=1))
    for number in range(count):
        body = b'{"a":"%s"}' % (b"x" * bytes_each)
        ask_to_put(machine, number, f"/t/{number}", body)
    ended = machine.step(TurnEnded(), 0.6)
    [token] = tokens(ended)
    machine.step(Persisted(token), 0.6)
    said = [message for to, message in sends(ended) if to == "n3"]
    return machine, [message for message in said if isinstance(message, Propose)]


def decided(machine: Replica, answer: AcceptedAll, now: float = 0.7) -> int:
    """Return the decided end of the slot after an answer of n3."""
    machine.step(Received("n3", answer), now)
    return machine.core.logs[0].decided


def two_offers(first: int) -> Propose:
    """Return a numbered message that offers row 1 and the row `first`."""
    other = Offer(0, 1, 0, first, (1, "n1"), 0, [row(first)])
    return Propose([Offer(0, 1, 0, 1, (0, ""), 0, [row(1)]), other], 5, 7)


def test_a_message_taken_whole_is_acknowledged_by_number_once_durable() -> None:
    machine = replica("n2")
    assert sends(machine.step(Received("n1", two_offers(2)), 0.1)) == []
    ended = machine.step(TurnEnded(), 0.1)
    assert sends(ended) == []
    [token] = tokens(ended)
    assert sends(machine.step(Persisted(token), 0.2)) == [("n1", AcceptedAll(5, 7))]


def test_a_message_taken_in_part_is_acknowledged_log_by_log() -> None:
    machine = replica("n2")
    machine.step(Received("n1", two_offers(3)), 0.1)
    gap = Gap(0, 1, True, (1, "n1"), 1, 0, (((1, "n1"), 1),))
    assert settled(machine, 0.1) == [("n1", Accepted([(0, 1, 1)])), ("n1", gap)]


def test_a_message_with_an_unknown_slot_is_acknowledged_without_it() -> None:
    machine = replica("n2")
    first, second = two_offers(2).offers
    machine.step(Received("n1", Propose([first, second._replace(slot=9)], 5, 7)), 0.1)
    assert settled(machine, 0.1) == [("n1", Accepted([(0, 1, 1)]))]


def test_a_numbered_message_below_the_promise_is_refused() -> None:
    machine = replica("n2")
    machine.step(Received("n3", Propose([Offer(0, 2, 0, 1, (0, ""), 0, ())])), 0.1)
    settled(machine, 0.1)
    refused = sends(machine.step(Received("n1", two_offers(2)), 0.2))
    assert refused == [("n1", Refused([(0, 1, (2, "n3")), (0, 1, (2, "n3"))]))]
    assert settled(machine, 0.2) == []


def test_the_owner_counts_a_numbered_acknowledgement_like_a_list() -> None:
    machine, [message] = offering(3)
    assert decided(machine, AcceptedAll(message.boot, message.number)) == 3
    follower = machine.core.logs[0].term.followers["n3"]  # type: ignore[union-attr]
    assert (follower.acked, follower.adopted) == (3, True)


def test_a_repeated_acknowledgement_counts_once() -> None:
    machine, [message] = offering(3)
    took = AcceptedAll(message.boot, message.number)
    assert [*machine.decider.offered.taken("n3", message.number)] != []
    assert decided(machine, took) == 0


def test_an_answer_to_an_earlier_start_counts_for_nothing() -> None:
    machine, [message] = offering(3)
    assert decided(machine, AcceptedAll(message.boot - 1, message.number)) == 0


def test_each_part_of_a_message_that_was_split_is_acknowledged_by_itself() -> None:
    machine, [first, second, third] = offering(25, 100_000)
    assert [len(each.offers) for each in (first, second, third)] == [10, 10, 5]
    assert decided(machine, AcceptedAll(first.boot, first.number)) == 10
    assert decided(machine, AcceptedAll(third.boot, third.number)) == 25


def test_offers_of_one_term_do_not_count_in_the_next() -> None:
    machine, [message] = offering(3)
    machine.step(Received("n2", Refused([(0, 1, (2, "n2"))])), 0.65)
    assert decided(machine, AcceptedAll(message.boot, message.number)) == 0


def test_messages_without_an_answer_for_long_are_forgotten() -> None:
    machine, [message] = offering(3)
    for ticks in (1, 2):
        machine.decider.offered.core.now = 0.6 + ticks * (REMEMBERED_S + 0.1)
        machine.decider.offered.tick()
    assert [*machine.decider.offered.taken("n3", message.number)] == []


def test_a_message_of_one_offer_has_no_number() -> None:
    _, [message] = offering(1)
    assert (message.boot, message.number) == (0, 0)
