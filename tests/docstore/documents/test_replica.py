"""The machine, one event at a time: its messages, their order, and its waits."""

from random import Random
from typing import Any

import pytest

from docstore.documents.document_cache import DocumentCache
from docstore.documents.effects import Effect
from docstore.documents.events import Requested
from docstore.documents.replica import Replica
from docstore.documents.term import Phase
from docstore.machines.effects import Give, Persist, Read, Send
from docstore.machines.events import LinkMade, Persisted, QueriesAnswered, Received, Tick, TurnEnded
from docstore.model.document import Row, ballot_added, ballot_at, common_end
from docstore.model.operation import Operation
from docstore.ownership import quorum
from docstore.ownership.by_hash import Placement
from docstore.ownership.configuration import Configuration, MemberEntry, first_registered
from docstore.storage.store import Append, Recovered, Version
from docstore.wire.messages import (
    Accepted,
    Configured,
    Confirm,
    Confirmed,
    Gap,
    Heartbeat,
    Offer,
    Prepare,
    PreVote,
    PreVoted,
    Promised,
    Propose,
    Refused,
)
from tests.sim.process import Appending

ALL_SLOTS = b"\x01"


def founded(*order: str) -> Configuration:
    members = tuple(MemberEntry(each, each, "host", 1, votes=False) for each in order)
    return Configuration(1, "test", 1, 1, None, members)


def replica(
    name: str = "n1",
    order: tuple[str, ...] = ("n1", "n2", "n3"),
    elsewhere: tuple[str, ...] = (),
) -> Replica:
    """Return a fresh replica of one slot, with links to all others.

    order: who holds the slot, by preference. elsewhere: members that do not hold it.
    """
    service = Appending()
    machine = Replica(
        name,
        Recovered(name, 1, first_registered(founded(*order, *elsewhere)).pack()),
        service_for=lambda link, since: service,
        rng=Random(1),
        vote_rng=Random(2),
    )
    machine.core.placement = Placement(1, (order,), 1)
    machine.core.logs[0].place(machine.core.placement)
    for peer in (*order, *elsewhere):
        if peer != name:
            machine.step(LinkMade(peer), 0.0)
    return machine


def row(n: int, epoch: int = 1, owner: str = "n1", link: str = "/t/a") -> Row:
    return Row(0, n, epoch, owner, link, n - 1, "PUT", n, False, b"", b"", b"%d" % n, b"{}")


def offer(first: int, *rows: Row, epoch: int = 1, previous: tuple[int, str] = (0, "")) -> Propose:
    return Propose([Offer(0, epoch, 0, first, previous, 0, rows)])


def sends(effects: list[Effect]) -> list[tuple[str, object]]:
    return [
        (effect.to, effect.message)
        for effect in effects
        if isinstance(effect, Send) and not isinstance(effect.message, Heartbeat)
    ]


def tokens(effects: list[Effect]) -> list[int]:
    return [effect.token for effect in effects if isinstance(effect, Persist)]


def test_only_a_new_link_gets_a_heartbeat() -> None:
    greeted = replica().step(LinkMade("n2"), 0.1)
    assert [(each.to, type(each.message)) for each in greeted if isinstance(each, Send)] == [
        ("n2", Heartbeat)
    ]


def test_a_promise_is_sent_only_after_its_fsync() -> None:
    machine = replica("n2")
    assert sends(machine.step(Received("n1", Prepare(1, ALL_SLOTS)), 0.1)) == []
    ended = machine.step(TurnEnded(), 0.1)
    assert sends(ended) == []
    [token] = tokens(ended)
    [(to, promised)] = sends(machine.step(Persisted(token), 0.2))
    assert to == "n1"
    assert isinstance(promised, Promised)
    assert promised.epoch == 1


def test_an_offer_below_the_promise_is_refused_at_once() -> None:
    machine = replica("n2")
    machine.step(Received("n3", Prepare(5, ALL_SLOTS)), 0.1)
    answered = sends(machine.step(Received("n1", offer(1, row(1))), 0.2))
    assert answered == [("n1", Refused([(0, 1, (5, "n3"))]))]


def test_rows_are_acknowledged_after_their_batch_and_only_then() -> None:
    machine = replica("n2")
    machine.step(Received("n1", offer(1, row(1), row(2))), 0.1)
    ended = machine.step(TurnEnded(), 0.1)
    [persist] = [effect for effect in ended if isinstance(effect, Persist)]
    assert persist.writes[0] == Append([row(1), row(2)])
    assert sends(ended) == []
    assert sends(machine.step(Persisted(persist.token), 0.2)) == [("n1", Accepted([(0, 1, 2)]))]


def test_a_gap_is_answered_with_the_end_of_the_log() -> None:
    machine = replica("n2")
    machine.step(Received("n1", offer(3, row(3), previous=(1, "n1"))), 0.1)
    [token] = tokens(machine.step(TurnEnded(), 0.1))
    [(to, gap)] = sends(machine.step(Persisted(token), 0.2))
    assert (to, gap) == ("n1", Gap(0, 1, True, (0, ""), 0, 0, ()))


def opened(*elsewhere: str) -> Replica:
    """Return an owner whose term has opened in the regular way."""
    machine = replica(elsewhere=elsewhere)
    asked = machine.step(Received("n2", Heartbeat((), True, b"")), 0.1)
    asked += machine.step(Tick(1_000_000), 0.15)
    [prevote] = [message for _, message in sends(asked) if isinstance(message, PreVote)][:1]
    machine.step(Received("n2", PreVoted(prevote.round, b"\x00")), 0.2)
    [token] = tokens(machine.step(TurnEnded(), 0.2))
    machine.step(Persisted(token), 0.3)
    evidence = machine.acceptor.promise(1, [machine.core.logs[0]])
    machine.step(Received("n2", evidence), 0.4)
    [token] = tokens(machine.step(TurnEnded(), 0.4))
    machine.step(Persisted(token), 0.5)
    assert machine.core.logs[0].term is not None
    return machine


def opened_alone() -> Replica:
    """Return the owner in a group of one."""
    machine = replica(order=("n1",))
    log = machine.core.logs[0]
    for step in range(1, 100):
        if log.term is not None and log.term.phase is Phase.OPEN:
            return machine
        now = step * 0.05
        machine.step(Tick(1_000_000 + int(now * 1e6)), now)
        for token in tokens(machine.step(TurnEnded(), now)):
            machine.step(Persisted(token), now)
    raise AssertionError(log)


def ask_to_put(
    machine: Replica, request: int, link: str, body: bytes, now: float = 0.6
) -> list[Effect]:
    """Return the effects of a PUT of a document that is absent on the disk."""
    operation = Operation(verb="PUT", link=link, body=body, creates=True)
    effects = machine.step(Requested(request, operation, 9.0), now)
    found = [(effect.token, []) for effect in effects if isinstance(effect, Read)]
    return effects + machine.step(QueriesAnswered(found), now)


def put(machine: Replica, request: int, body: bytes = b'{"a":1}') -> list[Effect]:
    """Return the effects of a PUT up to its proposal, the document being absent on the disk."""
    ask_to_put(machine, request, "/t/a", body)
    return machine.step(TurnEnded(), 0.6)


def test_a_proposal_is_sent_with_the_own_write_and_answered_after_a_quorum() -> None:
    machine = opened()
    ended = put(machine, 7)
    proposed = [(to, message) for to, message in sends(ended) if isinstance(message, Propose)]
    assert [to for to, _ in proposed] == ["n2", "n3"]
    [token] = tokens(ended)
    stored = machine.step(Persisted(token), 0.7)
    assert not [effect for effect in stored if isinstance(effect, Give)]
    decided = machine.step(Received("n3", Accepted([(0, 1, 1)])), 0.8)
    [response] = [effect for effect in decided if isinstance(effect, Give)]
    assert (response.request, response.outcome.status, response.outcome.replicas) == (7, 201, 2)


def test_one_step_takes_the_results_of_many_reads() -> None:
    machine = opened()
    reads = []
    for request in range(3):
        operation = Operation(verb="PUT", link=f"/t/{request}", body=b"{}", creates=True)
        reads += machine.step(Requested(request, operation, 9.0), 0.6)
    found = [(read.token, []) for read in reads if isinstance(read, Read)]
    assert len(found) == 3
    machine.step(QueriesAnswered(found), 0.6)
    [persisted] = [each for each in machine.step(TurnEnded(), 0.6) if isinstance(each, Persist)]
    [rows] = [write.rows for write in persisted.writes if isinstance(write, Append)]
    assert [row.link for row in rows] == ["/t/0", "/t/1", "/t/2"]


def test_a_group_of_one_does_not_doubt_itself_after_a_pause() -> None:
    alone, among_three = opened_alone(), opened()
    late = 30.0
    for machine in (alone, among_three):
        assert machine.core.now < late - machine.core.config.leadership.quorum_lost_s
    operation = Operation(verb="PUT", link="/t/a", body=b"{}", creates=True)
    refused = among_three.step(Requested(1, operation, late + 5), late)
    assert [each.outcome.code for each in refused if isinstance(each, Give)] == ["no-quorum"]
    taken = alone.step(Requested(1, operation, late + 5), late)
    assert [type(each) for each in taken] == [Read]


def test_undecided_documents_are_not_scanned_for_each_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, looks = opened(), 0
    evict = DocumentCache._evict

    def counted(*given: Any) -> None:
        nonlocal looks
        looks += 1
        evict(*given)

    monkeypatch.setattr(DocumentCache, "_evict", counted)
    term = machine.core.logs[0].term
    assert term is not None
    for request in range(400):
        ask_to_put(machine, request, f"/t/{request}", b"{}" + b" " * 8000)
    # Nothing is decided, so no document is evicted: 3.4 MB stay, with a bound of 256 KiB.
    assert len(term.cache) == 400
    assert 1 <= looks <= 8
    # Once all is decided and stored, the cache evicts them.
    [token] = tokens(machine.step(TurnEnded(), 0.6))
    machine.step(Persisted(token), 0.7)
    machine.step(Received("n2", Accepted([(0, 1, 400)])), 0.7)
    for request in range(400, 800):
        ask_to_put(machine, request, f"/t/{request}", b"{}" + b" " * 8000, 0.7)
    assert "/t/0" not in term.cache
    assert len(term.cache) <= 430


def test_two_replicas_decide_without_the_own_disk() -> None:
    machine = opened()
    put(machine, 7)
    machine.step(Received("n2", Accepted([(0, 1, 1)])), 0.7)
    decided = machine.step(Received("n3", Accepted([(0, 1, 1)])), 0.8)
    assert [effect.request for effect in decided if isinstance(effect, Give)] == [7]


def test_a_read_waits_for_a_round_that_began_after_it() -> None:
    machine = opened()
    asked = machine.step(Requested(3, Operation(verb="GET", link="/t/a"), 9.0), 0.6)
    [read] = [effect for effect in asked if isinstance(effect, Read)]
    machine.step(QueriesAnswered([(read.token, [])]), 0.6)
    ended = machine.step(TurnEnded(), 0.6)
    [confirm, _] = [message for _, message in sends(ended) if isinstance(message, Confirm)]
    assert not [effect for effect in ended if isinstance(effect, Give)]
    answered = machine.step(Received("n2", Confirmed(confirm.round, ())), 0.7)
    [response] = [effect for effect in answered if isinstance(effect, Give)]
    assert response.outcome.status == 404


def test_a_read_asks_only_the_replicas_of_its_slot() -> None:
    machine = opened("n4", "n5", "n6")
    machine.step(Received("n2", Heartbeat((), True, b"")), 0.5)
    machine.step(Received("n4", Heartbeat((), True, b"")), 0.5)
    machine.step(Received("n5", Heartbeat((), True, b"")), 0.5)
    asked = machine.step(Requested(3, Operation(verb="GET", link="/t/a"), 9.0), 0.6)
    [read] = [effect for effect in asked if isinstance(effect, Read)]
    machine.step(QueriesAnswered([(read.token, [])]), 0.6)
    ended = sends(machine.step(TurnEnded(), 0.6))
    assert {to for to, message in ended if isinstance(message, Confirm)} == {"n2", "n3"}


def test_a_past_version_is_read_once_the_own_disk_has_the_decided_rows() -> None:
    machine = opened()
    [token] = tokens(put(machine, 7))
    machine.step(Received("n2", Accepted([(0, 1, 1)])), 0.7)
    machine.step(Received("n3", Accepted([(0, 1, 1)])), 0.7)
    asked = Operation(verb="GET", link="/t/a", select=("version", 0))
    machine.step(Requested(8, asked, 9.0), 0.7)
    ended = machine.step(TurnEnded(), 0.7)
    [confirm, _] = [message for _, message in sends(ended) if isinstance(message, Confirm)]
    confirmed = machine.step(Received("n2", Confirmed(confirm.round, ())), 0.8)
    assert [effect for effect in confirmed if isinstance(effect, Read | Give)] == []
    [read] = [effect for effect in machine.step(Persisted(token), 0.9) if isinstance(effect, Read)]
    assert read.query == Version(0, "/t/a", 0, 1)


def test_a_follower_of_an_older_configuration_gets_the_newer_and_is_not_counted() -> None:
    machine = opened()
    put(machine, 7)
    effects = machine.step(Received("n2", Accepted([(0, 1, 1)]), configuration=0), 0.7)
    assert [(to, type(message)) for to, message in sends(effects)] == [("n2", Configured)]
    effects += machine.step(Received("n3", Accepted([(0, 1, 1)]), configuration=2), 0.7)
    assert machine.core.logs[0].decided == 0
    assert not [effect for effect in effects if isinstance(effect, Give)]


def test_a_higher_promise_elsewhere_ends_the_term_and_leaves_the_fate_open() -> None:
    machine = opened()
    put(machine, 7)
    machine.step(Received("n2", Refused([(0, 1, (2, "n2"))])), 0.7)
    assert machine.core.logs[0].term is None
    machine.step(Tick(8_000_000), 0.75)
    late = machine.step(Tick(9_000_000), 9.0)
    [response] = [effect for effect in late if isinstance(effect, Give)]
    assert (response.outcome.status, response.outcome.unknown) == (504, True)


@pytest.mark.parametrize(
    ("ends", "decided"),
    [({}, -1), ({"a": 5}, -1), ({"a": 5, "b": 3}, 3), ({"a": 5, "b": 3, "c": 4}, 4)],
)
def test_decided_is_the_end_that_a_majority_has_reached(ends: dict[str, int], decided: int) -> None:
    assert quorum.decided_end(ends, [("a", "b", "c")]) == decided


def test_terms_give_the_ballot_of_a_row() -> None:
    ballots = ballot_added(ballot_added((), (1, "a"), 1), (3, "b"), 5)
    assert [ballot_at(ballots, n) for n in (0, 1, 4, 5, 9)] == [
        (0, ""), (1, "a"), (1, "a"), (3, "b"), (3, "b"),
    ]  # fmt: skip
    assert ballot_added(ballots, (4, "c"), 5) == (((1, "a"), 1), ((4, "c"), 5))


@pytest.mark.parametrize(
    ("mine", "my_end", "theirs", "their_end", "common"),
    [
        ((), 0, (), 0, 0),
        ((((1, "a"), 1),), 5, (), 0, 0),
        ((((1, "a"), 1),), 5, (((1, "a"), 1),), 3, 3),
        ((((1, "a"), 1), ((2, "b"), 4)), 9, (((1, "a"), 1), ((3, "c"), 6)), 8, 3),
        ((((1, "a"), 1), ((2, "b"), 4)), 4, (((1, "a"), 1), ((2, "b"), 4)), 9, 4),
        ((((2, "b"), 1),), 3, (((1, "a"), 1),), 3, 0),
    ],
)
def test_the_common_end_is_where_the_newest_shared_term_ends_first(
    mine: tuple[tuple[tuple[int, str], int], ...],
    my_end: int,
    theirs: tuple[tuple[tuple[int, str], int], ...],
    their_end: int,
    common: int,
) -> None:
    assert common_end(mine, my_end, theirs, their_end) == common
    assert common_end(theirs, their_end, mine, my_end) == common


def settled(machine: Replica, now: float) -> list[tuple[str, object]]:
    """End turns and complete their batches until there are none; return the messages sent."""
    said: list[tuple[str, object]] = []
    effects = machine.step(TurnEnded(), now)
    while True:
        said += sends(effects)
        durable = tokens(effects)
        if not durable:
            return said
        effects = [each for token in durable for each in machine.step(Persisted(token), now)]
        effects += machine.step(TurnEnded(), now)


def test_a_term_opens_when_a_quorum_has_reached_its_base() -> None:
    """Serve no reads while rows that only this node has may be decided or not."""
    machine = replica()
    machine.step(Received("n3", offer(1, row(1, owner="n3"), row(2, owner="n3"))), 0.05)
    settled(machine, 0.05)
    asked = machine.step(Received("n2", Heartbeat((), True, b"")), 5.0)  # n3 is not heard any more.
    asked += machine.step(Tick(5_000_000), 5.05)
    [prevote] = [message for _, message in sends(asked) if isinstance(message, PreVote)][:1]
    machine.step(Received("n2", PreVoted(prevote.round, b"\x00")), 5.1)
    [prepare, *_] = [m for _, m in settled(machine, 5.1) if isinstance(m, Prepare)]
    empty = replica("n2")
    [evidence] = empty.acceptor.promise(0, [empty.core.logs[0]]).evidence
    machine.step(Received("n2", Promised(prepare.epoch, [evidence], [0])), 5.2)
    settled(machine, 5.2)
    term = machine.core.logs[0].term
    assert term is not None
    assert (term.base, term.phase is Phase.OPEN) == (2, False)
    assert machine.core.logs[0].decided == 0
    machine.step(Received("n2", Accepted([(0, prepare.epoch, 1)])), 5.3)
    settled(machine, 5.3)
    assert term.phase is not Phase.OPEN
    machine.step(Received("n2", Accepted([(0, prepare.epoch, 2)])), 5.4)
    settled(machine, 5.4)
    assert term.phase is Phase.OPEN
    assert machine.core.logs[0].decided == 2
