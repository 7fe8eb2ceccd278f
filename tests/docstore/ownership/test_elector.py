"""The vote for users' own processes: each rule by itself, on one elector with a test's clock."""

from random import Random

import pytest

from docstore.ownership.by_vote import Recency, Role, Times
from docstore.ownership.elector import Elector
from docstore.ownership.elector_messages import (
    Changed,
    Effect,
    Follow,
    Granted,
    Lead,
    Message,
    Received,
    RequestVote,
    SaveVote,
    Send,
    Tick,
    Transfer,
)

TIMES = Times(heartbeat_s=0.2, patience_s=1.0)
RHO = 0.02
WINDOW_S = 0.98 / 1.02
"""The validity of a heartbeat from its sending on, with that patience and rho."""


def elector(peers: str = "bc", *, stored: tuple[int, str] = (4, ""), now: float = 0.0) -> Elector:
    return Elector("a", list(peers), stored=stored, rng=Random(1), times=TIMES, now=now, rho=RHO)


def tell(one: Elector, sender: str, message: Message, *, now: float) -> list[Effect]:
    return one.step(Received(sender, message), now)


def answers(effects: list[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def vote_request(generation: int, **settings: int) -> RequestVote:
    default = {"last_generation": 0, "last_number": 0, "pre": False, "transfer": False}
    return RequestVote(generation, **(default | settings))  # type: ignore[arg-type]


def asked(one: Elector, sender: str, message: RequestVote, *, now: float) -> bool:
    [answer] = answers(tell(one, sender, message, now=now))
    assert isinstance(answer, Granted)
    return answer.is_granted


def leader(peers: str = "bc", *, now: float = 10.0) -> Elector:
    """Return a leader just elected for generation 5, without a proof yet."""
    one = elector(peers)
    one.step(Tick(), now)
    for pre in (True, False):
        for peer in peers:
            tell(one, peer, Granted(5, pre, is_granted=True), now=now)
    assert one.role is Role.LEADER
    return one


def follow(one: Elector, peer: str, sent_s: float, *, now: float, number: int = 0) -> list[Effect]:
    return tell(one, peer, Follow(5, sent_s, 0, number), now=now)


def test_l05_a_vote_is_given_once_in_a_generation() -> None:
    one = elector()
    assert asked(one, "b", vote_request(5), now=2.0)
    assert asked(one, "b", vote_request(5), now=2.1)
    assert not asked(one, "c", vote_request(5), now=2.2)
    assert asked(one, "c", vote_request(6), now=2.3)


def test_l06_a_vote_is_stored_before_it_is_sent_and_binds_after_a_restart() -> None:
    kept, answer = tell(elector(), "b", vote_request(5), now=2.0)
    assert kept == SaveVote(5, "b")
    assert answer == Send("b", Granted(5, False, is_granted=True))
    again = elector(stored=(5, "b"))
    assert not asked(again, "c", vote_request(5), now=2.0)
    assert asked(again, "b", vote_request(5), now=2.1)


def test_l06_a_candidate_stores_its_own_vote_before_it_asks_for_others() -> None:
    one = elector()
    assert one.step(Tick(), 10.0) == [Send(to, vote_request(5, pre=True)) for to in "bc"]
    effects = tell(one, "b", Granted(5, pre=True, is_granted=True), now=10.1)
    assert effects == [SaveVote(5, "a"), *[Send(to, vote_request(5)) for to in "bc"]]


@pytest.mark.parametrize("pre", [True, False])
def test_l07_a_candidate_that_is_behind_is_refused(pre: bool) -> None:
    one = elector()
    one.recency = Recency(2, 3)
    for generation, number, may in [(1, 9, False), (2, 2, False), (2, 3, True), (3, 0, True)]:
        message = vote_request(5, last_generation=generation, last_number=number, pre=pre)
        assert asked(one, "b", message, now=9.0) is may


@pytest.mark.parametrize("pre", [True, False])
def test_an_elector_that_hears_a_leader_grants_no_vote_for_one_patience(pre: bool) -> None:
    one = elector()
    tell(one, "b", Lead(4, 77.0, succeed=False), now=9.0)
    assert not asked(one, "c", vote_request(5, pre=pre), now=9.99)
    assert one.generation == 4, "a refused candidate left a trace"
    assert asked(one, "c", vote_request(5, pre=pre), now=10.01)


@pytest.mark.parametrize("pre", [True, False])
def test_an_elector_grants_no_vote_after_its_start_for_one_patience(pre: bool) -> None:
    one = elector(now=50.0)
    assert not asked(one, "c", vote_request(5, pre=pre), now=50.99)
    assert asked(one, "c", vote_request(5, pre=pre), now=51.01)


def test_a_leader_grants_no_vote() -> None:
    one = leader()
    assert not asked(one, "c", vote_request(6), now=10.1)
    assert (one.role, one.generation) == (Role.LEADER, 5)


def test_votes_alone_prove_nothing() -> None:
    one = leader()
    assert not one.leads(10.0)
    assert follow(one, "b", 10.0, now=10.1) == [Changed(5, "a")]
    assert one.leads(10.1)


def test_a_proof_counts_from_the_sending_and_allows_for_wrong_clocks() -> None:
    one = leader()
    one.step(Tick(), 10.2)
    follow(one, "b", 10.2, now=10.9)
    assert one.leads(10.2 + WINDOW_S - 0.001)
    assert not one.leads(10.2 + WINDOW_S + 0.001)
    assert TIMES.patience_s >= WINDOW_S * (1 + RHO) / (1 - RHO)


def test_a_late_answer_does_not_shorten_a_proof() -> None:
    one = leader()
    follow(one, "b", 10.4, now=10.5)
    follow(one, "b", 10.2, now=10.6)
    assert one.leads(10.4 + WINDOW_S - 0.001)


@pytest.mark.parametrize("sent_s", [12.0, 9.9, float("nan"), float("inf")])
def test_an_answer_to_a_heartbeat_never_sent_proves_nothing(sent_s: float) -> None:
    one = leader()
    follow(one, "b", sent_s, now=10.1)
    assert not one.leads(10.1)


def test_of_five_a_leader_needs_two_and_counts_from_the_earlier() -> None:
    one = leader("bcde")
    follow(one, "b", 10.4, now=10.5)
    assert not one.leads(10.5)
    follow(one, "c", 10.1, now=10.5)
    assert one.leads(10.1 + WINDOW_S - 0.001)
    assert not one.leads(10.1 + WINDOW_S + 0.001)


def test_l10_a_leader_that_is_not_answered_steps_down() -> None:
    one = leader()
    follow(one, "b", 10.2, now=10.2)
    assert one.step(Tick(), 10.2 + WINDOW_S + 0.001) == [Changed(5, None)]
    assert one.role is Role.FOLLOWER
    follow(one, "b", 11.0, now=11.2)
    assert not one.leads(11.2), "it led again in a generation that it had left"


def test_a_leader_that_hears_of_a_later_generation_steps_down_at_once() -> None:
    one = leader()
    follow(one, "b", 10.0, now=10.1)
    effects = tell(one, "c", Follow(7, 10.0, 0, 0), now=10.2)
    assert effects == [SaveVote(7, ""), Changed(7, None)]
    assert not one.leads(10.2)


def test_an_earlier_leader_gets_the_newer_generation() -> None:
    one = elector(stored=(6, "c"))
    assert answers(tell(one, "b", Lead(5, 3.5, succeed=False), now=9.0)) == [Follow(6, 3.5, 0, 0)]
    assert one.leader(9.0) is None


def test_a_candidate_that_was_away_learns_the_generation_from_a_refusal() -> None:
    one = elector()
    one.step(Tick(), 10.0)
    assert tell(one, "b", Granted(8, pre=True, is_granted=False), now=10.1) == [SaveVote(8, "")]


def test_requests_are_resent_every_heartbeat() -> None:
    one = elector()
    assert answers(one.step(Tick(), 10.0)) == [vote_request(5, pre=True)] * 2
    assert one.step(Tick(), 10.1) == []
    assert answers(one.step(Tick(), 10.2)) == [vote_request(5, pre=True)] * 2
    tell(one, "c", Granted(5, pre=True, is_granted=True), now=10.3)
    assert answers(one.step(Tick(), 10.5)) == [vote_request(5)] * 2
    assert (
        answers(tell(one, "c", Granted(5, pre=False, is_granted=True), now=10.6))
        == [Lead(5, 10.6, succeed=False)] * 2
    )


def test_l22_a_leader_resigns_before_it_asks_for_its_succession() -> None:
    one = leader()
    follow(one, "b", 10.0, now=10.1)
    effects = one.step(Transfer("b"), 10.1)
    assert effects == [Send("b", Lead(5, 10.1, succeed=True)), Changed(5, None)]
    follow(one, "b", 10.1, now=10.2)
    follow(one, "c", 10.1, now=10.2)
    assert not one.leads(10.2), "it led again"
    assert answers(one.step(Tick(), 10.4)) == [Lead(5, 10.4, succeed=True)]


def test_l22_the_successor_campaigns_at_once_and_gets_votes_of_bound_electors() -> None:
    one, other = elector(), elector()
    for each in (one, other):
        tell(each, "c", Lead(4, 8.9, succeed=False), now=9.0)
    effects = tell(one, "c", Lead(4, 9.0, succeed=True), now=9.1)
    assert effects[:2] == [SaveVote(5, "a"), Send("b", vote_request(5, transfer=True))]
    assert asked(other, "b", vote_request(5, transfer=True), now=9.1)


def test_l22_no_peer_that_is_behind_or_silent_succeeds() -> None:
    one = leader("bcde")
    one.recency = Recency(0, 3)
    for peer, number in [("b", 2), ("c", 3), ("d", 4)]:
        follow(one, peer, 10.0, now=10.1, number=number)
    assert one.step(Transfer("b"), 10.2) == []
    assert one.step(Transfer("e"), 10.2) == []
    assert one.leads(10.2)
    assert answers(one.step(Transfer(""), 10.2)) == [Lead(5, 10.2, succeed=True)]
    assert one.step(Transfer("d"), 10.3) == [], "a leader that has resigned transferred"


def test_a_request_to_succeed_that_is_late_is_void() -> None:
    one = elector(stored=(6, "c"))
    effects = tell(one, "b", Lead(5, 3.5, succeed=True), now=9.0)
    assert effects == [Send("b", Follow(6, 3.5, 0, 0))]


def test_messages_of_no_peer_are_ignored() -> None:
    one = elector()
    assert tell(one, "x", Lead(9, 1.0, succeed=False), now=9.0) == []
    assert tell(one, "x", vote_request(9), now=9.0) == []
    assert one.generation == 4


@pytest.mark.parametrize("peers", ["", "b", "bb", "ab", "bcdefgh"])
def test_a_group_that_cannot_vote_is_refused(peers: str) -> None:
    with pytest.raises(ValueError, match="3 to 7 different members"):
        elector(peers)


@pytest.mark.parametrize(("heartbeat_s", "patience_s"), [(0.5, 1.0), (0.0, 1.0), (2.0, 1.0)])
def test_times_that_cannot_work_are_refused(heartbeat_s: float, patience_s: float) -> None:
    times = Times(heartbeat_s, patience_s)
    with pytest.raises(ValueError, match="more than two heartbeats"):
        Elector("a", ["b", "c"], stored=(0, ""), rng=Random(1), times=times, now=0.0)
