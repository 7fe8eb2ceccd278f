"""The coordinator's rules G3 to G7: moves of partitions, and fenced members."""

from docstore.services.group_document import MemberDetails
from docstore.sessions.group_messages import (
    Changed,
    Confirmed,
    Fenced,
    Join,
    Joined,
    Leave,
    Left,
)
from tests.docstore.sessions.talk import LINK, Talk, moving, shared, staying

# G3: exclusive moves


def test_g3_the_tenure_passes_when_its_member_has_released_the_partition() -> None:
    talk = shared()
    goes, stays = moving(talk), staying(talk)
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert (list(reply.assigned), list(reply.revoked)) == ([stays], [goes])
    assert talk.holders() == {"0": "x", "1": "x"}
    talk.pulse("x", stays)
    assert talk.holders() == {stays: "x", goes: "y"}
    assert talk.group.tenure[goes].token == talk.nodes.documents[LINK].version
    assert talk.group.phase == "Stable"


def test_g3_absence_in_a_pulse_of_an_older_generation_is_no_release() -> None:
    talk = shared()
    talk.pulse("x", staying(talk), generation=1)
    assert talk.holders() == {"0": "x", "1": "x"}


def test_g3_absence_of_a_partition_just_granted_is_no_release() -> None:
    talk = Talk(2)
    talk.join("x")
    talk.pulse("x")
    assert talk.holders() == {"0": "x", "1": "x"}


def test_g3_a_late_pulse_that_a_new_coordinator_gets_first_is_no_release() -> None:
    talk = Talk(2)
    talk.join("x")
    straggler = talk.next_pulse("x")  # Sent before the member learnt of its grant.
    talk.pulse("x", "0", "1")
    talk.join("y")
    talk.nodes.govern("b")
    talk.reply(talk.ask(straggler))
    talk.nodes.run(0.1)
    assert talk.holders() == {"0": "x", "1": "x"}


def test_g3_a_late_pulse_from_before_a_grant_is_no_release_in_a_later_join() -> None:
    talk = Talk(2)
    talk.join("x")
    straggler = talk.next_pulse("x")
    assert talk.pulse("x", "0", "1") == Confirmed(2)
    talk.nodes.govern("b")
    talk.reply(talk.ask(straggler))
    talk.join("y")
    assert moving(talk)
    assert talk.holders() == {"0": "x", "1": "x"}


def test_g3_the_tenure_passes_when_its_member_leaves() -> None:
    talk = shared()
    assert talk.say(Leave("x")) == Left()
    assert talk.holders() == {"0": "y", "1": "y"}
    assert talk.say(Leave("x")) == Left(), "again is the same"


def test_g3_the_tenure_passes_when_the_session_of_its_member_is_over() -> None:
    talk = shared()
    for _ in range(5):
        talk.nodes.run(0.5)
        talk.pulse("y")
    assert talk.holders() == {"0": "x", "1": "x"}
    talk.nodes.run(0.7)
    assert talk.holders() == {"0": "y", "1": "y"}


def test_g7_partitions_that_do_not_move_are_always_confirmed() -> None:
    talk = shared()
    stays = staying(talk)
    for _ in range(4):
        reply = talk.pulse("x", "0", "1")
        assert isinstance(reply, Changed)
        assert list(reply.assigned) == [stays]


# G4: moves where two may lead


def test_g4_the_old_member_is_confirmed_until_the_new_one_is() -> None:
    talk = Talk(2, mode="nonExclusive", window_ms=9_000)
    talk.join("x")
    talk.pulse("x", "0", "1")
    talk.join("y")
    goes, stays = moving(talk), staying(talk)
    assert talk.holders() == {stays: "x", goes: "y"}, "it has passed at once"
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert (list(reply.kept), list(reply.lost)) == ([goes], [])
    talk.pulse("y")  # y learns of its grant, and does not lead yet.
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert list(reply.kept) == [goes]
    talk.pulse("y", goes, generation=1)  # A list of that generation is about another tenure.
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert list(reply.kept) == [goes]
    assert isinstance(talk.pulse("y", goes), Confirmed)
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert list(reply.kept) == [goes]  # y may not have got that reply yet.
    assert isinstance(talk.pulse("y", goes), Confirmed)  # Maybe sent before that reply came.
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert list(reply.kept) == [goes]
    assert isinstance(talk.pulse("y", goes, answered=True), Confirmed)
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert (list(reply.kept), list(reply.lost)) == ([], [goes])
    assert isinstance(talk.pulse("x", stays), Confirmed)


# G5: the barrier


def test_n09_a_slow_member_is_fenced_and_its_other_partitions_move_later() -> None:
    talk = Talk(4, revoke_ms=1_000)
    talk.join("x")
    every = ("0", "1", "2", "3")
    talk.pulse("x", *every)
    talk.join("y")
    talk.pulse("x", *every)
    talk.nodes.run(1.5)
    assert talk.pulse("x", *every) == Fenced("fenced")
    assert set(talk.holders().values()) == {"x"}, "it has just been confirmed for them"
    talk.pulse("y")
    talk.nodes.run(1.3)
    assert set(talk.holders().values()) == {"x"}
    talk.nodes.run(0.4)
    assert set(talk.holders().values()) == {"y"}


def test_a_fenced_member_rejoins_with_a_new_id_and_its_old_session_ends() -> None:
    talk = Talk(4, revoke_ms=1_000)
    talk.join("x")
    talk.pulse("x", "0", "1", "2", "3")
    talk.join("y")
    talk.pulse("x", "0", "1", "2", "3")
    talk.nodes.run(1.5)
    assert talk.pulse("x", "0", "1", "2", "3") == Fenced("fenced")
    assert isinstance(talk.say(Join("x2", MemberDetails(), "x")), Joined)
    assert set(talk.group.members) == {"y", "x2"}
    assert set(talk.holders().values()) == {"y", "x2"}


def test_revocation_times_restart_under_a_new_coordinator() -> None:
    talk = shared()
    talk.pulse("x", "0", "1")
    talk.nodes.run(2.0)
    talk.nodes.govern("b")
    for _ in range(4):
        talk.nodes.run(0.6)
        assert isinstance(talk.pulse("x", "0", "1"), Changed)


# G6: two processes under one instance


def test_g6_a_second_process_waits_for_the_first_and_gets_its_partitions() -> None:
    talk = Talk(4)
    talk.join("x", instance="one")
    talk.join("y", instance="two")
    talk.pulse("x", "0", "1", "2", "3")
    target = talk.group.target
    mine = {each for each in target if target[each] == "x"}
    talk.pulse("x", *mine)
    talk.join("x2", instance="one")
    assert talk.group.target == target, "the second process is assigned a partition"
    assert isinstance(talk.pulse("x", *mine), Confirmed)
    talk.say(Leave("x"))
    assert {each for each, member in talk.holders().items() if member == "x2"} == mine


def test_g6_a_second_process_of_a_non_exclusive_group_takes_over_at_once() -> None:
    talk = Talk(2, mode="nonExclusive", window_ms=9_000)
    talk.join("x", instance="one")
    talk.pulse("x", "0", "1")
    talk.join("x2", instance="one")
    assert set(talk.holders().values()) == {"x2"}
    assert talk.pulse("x", "0", "1") == Fenced("unknown")
