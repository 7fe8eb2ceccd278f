"""The coordinator's rules G1, G2 and G8: confirming, removing and waking members."""

from docstore.model.operation import Answer, Operation
from docstore.services.group_document import MemberDetails
from docstore.sessions.group_messages import (
    Again,
    Changed,
    Confirmed,
    Fenced,
    Join,
    Leave,
    Left,
    Pulse,
    Reply,
    Wait,
    Woken,
)
from tests.docstore.sessions.talk import LINK, Talk, moving, shared

# G1, G2: confirmations


def test_a_join_is_answered_once_decided_and_grants_free_partitions() -> None:
    talk = Talk(2)
    talk.join("x", host="h", instance="i")
    group = talk.group
    assert (group.generation, group.phase) == (1, "Stable")
    assert group.members["x"] == MemberDetails("i", "h", 1, 1)
    version = talk.nodes.documents[LINK].version
    assert [each.token for each in group.tenure.values()] == [version, version]


def test_a_repeated_join_changes_nothing() -> None:
    talk = Talk()
    talk.join("x")
    before = talk.nodes.documents[LINK].version
    talk.join("x")
    assert talk.nodes.documents[LINK].version == before


def test_a_partition_is_assigned_before_it_is_listed_and_confirmed_after() -> None:
    talk = Talk(2)
    talk.join("x")
    token = talk.group.tenure["0"].token
    assert talk.pulse("x") == Changed(1, {"0": token, "1": token})
    assert talk.pulse("x", "0", "1") == Confirmed(2)


def test_an_unknown_list_is_asked_for_again() -> None:
    talk = Talk()
    talk.join("x")
    assert talk.say(Pulse("x", 10, 1, 7)) == Again()
    assert talk.say(Pulse("x", 11, 1, 7, ("0", "1"))) == Confirmed(7)
    assert talk.say(Pulse("x", 12, 1, 7)) == Confirmed(7)
    assert talk.say(Pulse("x", 13, 1, 8)) == Again()


def test_a_pulse_of_no_member_is_fenced_as_unknown() -> None:
    assert Talk().pulse("x") == Fenced("unknown")


def test_an_overtaken_pulse_is_no_proof() -> None:
    talk = Talk()
    talk.join("x")
    old = talk.next_pulse("x", "0", "1")
    talk.pulse("x", "0")
    assert talk.code(old) == "undecided"


def test_i14_an_unknowingly_deposed_coordinator_confirms_no_member() -> None:
    talk = Talk()
    talk.join("x")
    talk.pulse("x", "0", "1")
    talk.nodes.govern("b", unnoticed_by="a")
    assert talk.code(talk.next_pulse("x", "0", "1"), at="a") == "no-owner"


def test_i14_a_deposed_coordinator_removes_no_member() -> None:
    talk = Talk()
    talk.join("x")
    talk.pulse("x", "0", "1")
    talk.nodes.govern("b", unnoticed_by="a")
    for _ in range(8):
        assert isinstance(talk.pulse("x", "0", "1", at="b"), Confirmed)
        talk.nodes.run(0.5)
    updates = [each for name, each in talk.nodes.asked if name == "a" and each.verb == "PATCH"]
    assert len(updates) > 1, "the deposed coordinator tried no removal"
    assert talk.holders() == {"0": "x", "1": "x"}


def test_g8_a_new_coordinator_grants_whole_sessions_and_asks_for_lists_again() -> None:
    talk = Talk()
    talk.join("x")
    assert talk.say(Pulse("x", 1, 1, 1, ("0", "1"))) == Confirmed(1)
    talk.nodes.run(2.8)
    talk.nodes.govern("b")
    talk.nodes.run(2.8)
    assert list(talk.group.members) == ["x"]
    assert talk.say(Pulse("x", 2, 1, 1)) == Again()
    talk.nodes.run(3.2)
    assert talk.group.phase == "Empty"


def test_a_silent_member_is_removed_after_its_session_and_not_before() -> None:
    talk = Talk()
    talk.join("x")
    talk.pulse("x", "0", "1")
    talk.nodes.run(2.9)
    assert talk.group.phase == "Stable"
    talk.nodes.run(0.2)
    assert talk.group.phase == "Empty"
    assert talk.pulse("x", "0", "1") == Fenced("unknown")


def test_i14_a_member_whose_removal_is_of_unknown_fate_is_not_confirmed() -> None:
    talk = Talk()
    talk.join("x")
    talk.pulse("x", "0", "1")
    unknown = Answer(504, "undecided", "it may have happened", unknown=True)
    talk.nodes.answers = lambda node, asked: unknown if asked.verb == "PATCH" else None
    talk.nodes.run(3.1)
    assert talk.code(talk.next_pulse("x", "0", "1")) == "undecided"
    talk.nodes.answers = lambda node, asked: None
    talk.nodes.run(0.2)
    assert talk.pulse("x", "0", "1") == Fenced("unknown")


def test_g2_a_partition_moved_by_an_update_of_unknown_fate_is_not_confirmed() -> None:
    talk = Talk(2)
    talk.join("x")
    talk.pulse("x", "0", "1")
    unknown = Answer(504, "undecided", "it may have happened", unknown=True)
    applied: list[Operation] = []

    def lose(node: str, asked: Operation) -> Answer | None:
        if asked.verb == "PATCH":
            applied.append(asked)
            return unknown
        return None

    talk.nodes.answers = lose
    talk.ask(Join("y", MemberDetails()))
    assert applied
    [gone] = {"0", "1"} - set(_confirmed(talk.pulse("x", "0", "1")))
    talk.nodes.answers = lambda node, asked: None
    talk.nodes.run(0.2)
    assert gone == moving(talk)


def _confirmed(reply: Reply) -> list[str]:
    assert isinstance(reply, Changed), reply
    return list(reply.assigned)


# Draining, waiting


def test_a_draining_member_leaves_when_others_have_its_partitions() -> None:
    talk = shared()
    left = talk.ask(Leave("x", drain=True))
    assert left not in talk.nodes.replies
    reply = talk.pulse("x", "0", "1")
    assert isinstance(reply, Changed)
    assert set(reply.revoked) == {"0", "1"}
    assert list(talk.group.members) == ["x", "y"]
    talk.pulse("x")
    talk.nodes.run(0.1)
    assert talk.reply(left) == Left()
    assert talk.holders() == {"0": "y", "1": "y"}


def test_the_last_member_may_drain_too() -> None:
    for mode, window_ms in (("exclusive", 1_500), ("nonExclusive", 9_000)):
        talk = Talk(2, mode=mode, window_ms=window_ms)
        talk.join("x")
        talk.pulse("x", "0", "1")
        left = talk.ask(Leave("x", drain=True))
        talk.pulse("x", "0", "1")
        talk.pulse("x")
        talk.nodes.run(0.1)
        assert talk.reply(left) == Left()
        assert talk.group.phase == "Empty"


def test_only_members_that_lose_partitions_are_woken() -> None:
    talk = Talk(3)
    for member in "xy":
        talk.join(member)
    talk.pulse("x", "0", "1", "2")
    kept = [each for each, member in talk.group.target.items() if member == "x"]
    talk.pulse("x", *kept)
    talk.pulse("y", *(set("012") - set(kept)))
    talk.pulse("y", *(each for each, member in talk.group.target.items() if member == "y"))
    waiting = {m: talk.ask(Wait(m, talk.group.generation, 1), wait_ms=60_000) for m in "xy"}
    assert not waiting.keys() & talk.nodes.replies.keys()
    talk.join("z")
    woken = [m for m in "xy" if waiting[m] in talk.nodes.replies]
    losers = {talk.holders()[p] for p, m in talk.group.target.items() if m == "z"}
    assert set(woken) == losers
    assert talk.reply(waiting[woken[0]]) == Woken()


def test_x4_a_change_before_a_wait_wakes_the_member_at_once() -> None:
    talk = shared()
    assert talk.say(Wait("x", 1, 1)) == Woken()
