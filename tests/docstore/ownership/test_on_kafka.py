"""Conclusions of a consumer group's member from its commits."""

from dataclasses import replace

import pytest

from docstore.ownership.by_induction import Acquired, Event, Fenced, Mode, Revoked
from docstore.ownership.on_kafka import Attempt, Membership, windows_on_kafka

PARTITIONS = 4
EXCLUSIVE = windows_on_kafka(Mode.EXCLUSIVE)
"""S = 6 s, T = 3 s, G a little more."""
OVERLAPPING = windows_on_kafka(Mode.NON_EXCLUSIVE)


def joined(mode: Mode = Mode.EXCLUSIVE, token: int = 10) -> Membership:
    """Return a member with partition 1, a token, and no proof yet."""
    member = Membership(PARTITIONS, EXCLUSIVE if mode is Mode.EXCLUSIVE else OVERLAPPING)
    rejoin(member, token)
    return member


def rejoin(member: Membership, token: int, partition: int = 1) -> None:
    member.assigned([partition])
    member.titled(partition, token, member.era)


def prove(member: Membership, stamp: float) -> list[Event]:
    return member.accepted(member.attempt(stamp), stamp + 0.01)


def test_an_exclusive_holder_waits_for_the_grace_from_its_first_proof_on() -> None:
    member = joined()
    assert prove(member, 0.0) == prove(member, 1.0) == prove(member, 2.0) == []
    assert not member.induced.leads_partition(1, EXCLUSIVE.grace_s - 0.001)
    assert member.induced.lapsed(EXCLUSIVE.grace_s) == [Acquired(1, 10)]
    assert member.induced.leads_partition(1, EXCLUSIVE.grace_s)


def test_one_proof_alone_never_outlives_the_grace() -> None:
    member = joined()
    prove(member, 0.0)
    assert not any(member.induced.leads_partition(1, at / 10) for at in range(100))


def test_a_commit_that_was_begun_in_another_era_proves_nothing() -> None:
    member = joined(Mode.NON_EXCLUSIVE)
    late = member.attempt(0.0)
    member.revoked()
    rejoin(member, token=11)
    assert member.accepted(late, 0.1) == []
    assert not member.induced.leads_partition(1, 0.1)
    assert prove(member, 0.2) == [Acquired(1, 11)]


def test_a_refusal_of_another_era_leaves_this_one_alone() -> None:
    member = joined(Mode.NON_EXCLUSIVE)
    late = member.attempt(0.0)
    member.revoked()
    rejoin(member, token=11)
    assert member.refused(late) == []
    assert prove(member, 0.2) == [Acquired(1, 11)]


def test_a_token_is_used_only_by_a_commit_that_was_sent_after_it_was_known() -> None:
    member = Membership(PARTITIONS, OVERLAPPING)
    member.assigned([1])
    early = member.attempt(0.0)
    member.titled(1, 10, member.era)
    assert member.accepted(early, 0.1) == []
    assert member.induced.token(1) is None
    assert prove(member, 0.2) == [Acquired(1, 10)]


def test_the_first_answered_record_of_a_tenure_is_its_token() -> None:
    member = joined(Mode.NON_EXCLUSIVE, token=10)
    assert prove(member, 0.0) == [Acquired(1, 10)]
    member.titled(1, 9, member.era)
    prove(member, 0.1)
    assert member.induced.token(1) == 10


@pytest.mark.parametrize("partition", [0, 2])
def test_a_record_of_another_partition_or_era_is_no_token(partition: int) -> None:
    member = joined(Mode.NON_EXCLUSIVE)
    member.titled(partition, 12, member.era)
    member.assigned([partition])
    member.titled(partition, 13, member.era - 1)
    assert member.untitled == {partition}
    assert member.attempt(0.0) == Attempt(member.era, 0.0, {})


def test_a_rebalance_revokes_exclusive_roles_before_their_release() -> None:
    member = joined()
    for stamp in (0.0, 1.0, 2.0, 3.0):
        prove(member, stamp)
    member.induced.lapsed(3.1)
    [revoked] = member.revoked()
    assert isinstance(revoked, Revoked)
    assert (revoked.partition, revoked.token) == (1, 10)
    assert not member.induced.leads_partition(1, 3.1)
    assert revoked.protected(3.1)
    member.released()
    assert not revoked.protected(3.1)


def test_a_role_never_acquired_is_not_revoked() -> None:
    member = joined()
    prove(member, 0.0)
    assert member.revoked() == []


def test_a_rebalance_leaves_non_exclusive_roles_until_their_proofs_are_over() -> None:
    member = joined(Mode.NON_EXCLUSIVE)
    prove(member, 0.0)
    assert member.revoked() == []
    rejoin(member, token=3, partition=0)
    assert member.induced.leads_partition(1, OVERLAPPING.window_s)
    assert member.induced.lapsed(OVERLAPPING.window_s + 0.001) == [Fenced(1, 10, "silent")]


def test_a_role_kept_over_a_rebalance_is_acquired_with_a_greater_token() -> None:
    member = joined(Mode.NON_EXCLUSIVE)
    prove(member, 0.0)
    member.revoked()
    rejoin(member, token=11)
    assert prove(member, 1.0) == [Acquired(1, 11)]


def test_a_removed_member_drops_exclusive_roles_and_keeps_others_while_proved() -> None:
    for mode, events in ((Mode.EXCLUSIVE, [Fenced(1, 10, "fenced")]), (Mode.NON_EXCLUSIVE, [])):
        member = joined(mode)
        for stamp in (0.0, 1.0, 2.0, 3.0):
            prove(member, stamp)
        member.induced.lapsed(3.1)
        assert member.refused(member.attempt(3.1)) == events
        assert member.induced.leads_partition(1, 3.1) == (mode is Mode.NON_EXCLUSIVE)
        assert prove(member, 3.2) == []


def test_a_member_that_leaves_or_fails_leads_nothing() -> None:
    for end, kind in ((Membership.leaving, Revoked), (Membership.failed, Fenced)):
        member = joined(Mode.NON_EXCLUSIVE)
        under_way = member.attempt(0.0)
        prove(member, 0.0)
        assert [type(event) for event in end(member)] == [kind]
        assert member.accepted(under_way, 0.1) == []
        assert not member.induced.leads_partition(1, 0.1)


def test_a_grace_is_required_with_any_session() -> None:
    windows = windows_on_kafka(Mode.EXCLUSIVE, session_s=30.0, window_s=1.0, rate_error=0.02)
    assert windows.grace_s == pytest.approx(1.0 * 1.02 / 0.98)
    with pytest.raises(ValueError, match="grace of this ledger"):
        replace(windows, grace_s=0.0)
    with pytest.raises(ValueError, match="must expire before"):
        windows_on_kafka(Mode.EXCLUSIVE, session_s=6.0, window_s=6.0)
    with pytest.raises(ValueError, match="no process leads"):
        windows_on_kafka(Mode.NON_EXCLUSIVE, session_s=6.0, window_s=6.0)
