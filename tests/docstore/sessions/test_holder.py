"""The holder's side of leases, on a clock of the test's own."""

import pytest

from docstore.sessions.holder import BATCH_MAX, Holder, KeepAlive, Lapsed, LeaseLost, Regained


def held(*leases: str, ttl_s: float = 10.0) -> Holder:
    """Return a holder of leases that it asked for at 0."""
    holder = Holder()
    for lease in leases:
        holder.hold(lease, ttl_s, stamp=0.0)
    return holder


def test_leases_are_kept_alive_together_every_fifth_of_their_ttl() -> None:
    holder = held("a", "b")
    assert holder.due(1.9) == []
    assert holder.next_at() == 2.0
    assert holder.due(2.0) == [KeepAlive(("a", "b"))]
    assert holder.due(2.1) == []
    assert holder.due(4.0) == [KeepAlive(("a", "b"))]


def test_leases_of_different_ttl_are_kept_alive_separately() -> None:
    holder = held("slow", ttl_s=60.0)
    holder.hold("quick", 5.0, stamp=0.0)
    assert holder.due(1.0) == [KeepAlive(("quick",))]
    assert holder.due(12.0) == [
        Lapsed("quick"),
        KeepAlive(("slow", "quick")),
    ]


def test_many_leases_go_in_batches() -> None:
    holder = held(*(f"l{number}" for number in range(2 * BATCH_MAX + 1)))
    batches = holder.due(2.0)
    assert [len(each.leases) for each in batches if isinstance(each, KeepAlive)] == [
        BATCH_MAX,
        BATCH_MAX,
        1,
    ]


def test_a_new_lease_counts_from_the_sending_of_its_request() -> None:
    holder = held("a")
    assert holder.holds("a", 6.6)
    assert not holder.holds("a", 6.7)
    assert holder.due(6.7)[0] == Lapsed("a")


def test_a_lapse_is_due_only_once_the_proof_is_over() -> None:
    holder = held("a")
    holder.due(6.0)
    over_at = holder.next_at()
    assert over_at < 7.0
    assert not holder.holds("a", over_at)
    assert holder.due(over_at) == [Lapsed("a")]


def test_a_proof_counts_from_the_sending_of_its_request() -> None:
    holder = held("a")
    [asked] = holder.due(2.0)
    assert isinstance(asked, KeepAlive)
    assert holder.answered(asked, stamp=2.0, now=30.0, alive={"a"}) == []
    assert holder.holds("a", 8.6)
    assert not holder.holds("a", 30.0)


def test_a_lease_that_lapsed_may_be_proven_again() -> None:
    holder = held("a")
    assert Lapsed("a") in holder.due(7.0)
    asked = KeepAlive(("a",))
    assert holder.answered(asked, stamp=7.0, now=7.1, alive={"a"}) == [Regained("a")]
    assert holder.holds("a", 13.0)
    assert Lapsed("a") in holder.due(14.0)


def test_an_ended_lease_is_lost_for_ever() -> None:
    holder = held("a", "b")
    asked = KeepAlive(("a", "b"))
    happened = holder.answered(asked, stamp=2.0, now=2.1, alive={"b"}, gone={"a"})
    assert happened == [LeaseLost("a", "ended")]
    assert holder.answered(asked, stamp=3.0, now=3.1, alive={"a", "b"}) == []
    assert not holder.holds("a", 3.1)
    assert list(holder.leases) == ["b"]


def test_an_unanswered_keep_alive_is_resent_sooner_and_once() -> None:
    holder = held("a", "b")
    [asked] = holder.due(2.0)
    assert isinstance(asked, KeepAlive)
    holder.answered(asked, stamp=2.0, now=2.1, alive={"a"})
    holder.answered(asked, stamp=2.0, now=2.1)
    assert holder.next_at() == 2.6
    assert holder.due(2.6) == [KeepAlive(("b", "a"))]
    assert holder.due(2.7) == []
    holder.answered(asked, stamp=2.6, now=3.9)
    assert holder.due(4.0) == [KeepAlive(("a", "b"))]
    assert holder.due(4.4) == [], "the keep-alive has just been sent"


def test_a_keep_alive_without_an_answer_proves_nothing() -> None:
    holder = held("a")
    holder.answered(KeepAlive(("a",)), stamp=6.0, now=6.5)
    assert not holder.holds("a", 7.0)


def test_a_released_lease_is_not_held_before_anything_is_sent() -> None:
    holder = held("a")
    [asked] = holder.due(2.0)
    assert isinstance(asked, KeepAlive)
    assert holder.release("a") == [LeaseLost("a", "released")]
    assert not holder.holds("a", 2.0)
    assert holder.answered(asked, stamp=2.0, now=2.1, alive={"a"}) == []
    assert not holder.holds("a", 2.1)
    assert holder.due(4.0) == []
    assert holder.due(7.0) == []
    assert holder.next_at() == float("inf")


def test_a_proof_object_ends_with_its_lease() -> None:
    holder = Holder()
    proof = holder.hold("a", 10.0, stamp=0.0)
    assert proof.is_valid(1.0)
    holder.drop_all()
    assert not proof.is_valid(1.0)


def test_a_window_that_outlasts_the_lease_is_refused() -> None:
    with pytest.raises(ValueError, match="must expire before its grant of 10 s"):
        Holder().hold("a", 10.0, stamp=0.0, window_s=9.99)
