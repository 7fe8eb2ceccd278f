"""Groups of Kafka clients at their coordinator, rule by rule."""

from dataclasses import replace

import pytest

from docstore.model import json
from docstore.model.operation import Answer, Operation
from docstore.model.service import Refusal
from docstore.services.group_document import MEMBERS_MAX, GroupState, MemberDetails, group_of
from docstore.services.groups import why_not
from docstore.sessions import kafka_joining
from docstore.sessions.group_messages import Join
from docstore.sessions.kafka_joining import METADATA_MAX
from tests.docstore.sessions.kafka_talk import LINK, RANGE, KafkaTalk


def test_members_join_and_get_the_assignment_once_it_is_decided() -> None:
    talk = KafkaTalk()
    one, other = talk.ask_join(), talk.ask_join()
    assert talk.is_waiting(one), "the first members of a group wait for more"
    talk.nodes.run(0.6)
    leader, follower = talk.answer(one), talk.answer(other)
    assert (leader["leader"], leader["generation"]) == (leader["member"], 1)
    assert [each[2] for each in leader["members"]] == [b"topics", b"topics"]
    assert (follower["members"], follower["protocol"]) == ([], "range")
    synced = talk.ask_sync(follower)
    assert talk.is_waiting(synced), "the leader has not assigned yet"
    talk.ask_sync(leader, {"t/0": leader["member"], "t/1": follower["member"]})
    assert talk.answer(synced)["assignment"] == follower["member"].encode()
    group = talk.group
    assert (group.generation, group.phase, group.kafka) == (
        1, "Stable", ("consumer", "range", 6_000, 20_000),
    )  # fmt: skip
    assert {each: held.member for each, held in group.tenure.items()} == {
        "t/0": leader["member"], "t/1": follower["member"],
    }  # fmt: skip


def test_an_assignment_waits_for_the_majority() -> None:
    talk = KafkaTalk()
    call = talk.ask_join()
    talk.nodes.run(0.6)
    joined = talk.answer(call)
    unknown = Answer(504, "undecided", unknown=True)
    talk.nodes.answers = lambda _, asked: unknown if asked.verb == "PATCH" else None
    synced = talk.ask_sync(joined, {"t/0": joined["member"]})
    talk.nodes.run(2.0)
    assert talk.is_waiting(synced)
    talk.nodes.answers = lambda _, asked: None
    talk.nodes.run(0.5)
    assert talk.code(synced) == ""


def test_a_new_member_gets_its_id_first() -> None:
    talk = KafkaTalk()
    answer = talk.answer(talk.ask_join(needs_id=True))
    assert answer["code"] == "member-id-required"
    assert answer["member"].startswith("rdkafka-")
    call = talk.ask_join(answer["member"], needs_id=True)
    talk.nodes.run(0.6)
    assert talk.answer(call)["member"] == answer["member"]
    assert talk.code(talk.ask_join("of-another-coordinator", needs_id=True)) == "unknown-member"


def test_an_unused_member_id_is_forgotten() -> None:
    talk = KafkaTalk()
    answer = talk.answer(talk.ask_join(needs_id=True))
    talk.nodes.run(6.2)
    assert talk.code(talk.ask_join(answer["member"], needs_id=True)) == "unknown-member"


def test_another_member_begins_a_new_generation_when_all_have_rejoined() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    third = talk.ask_join()
    assert talk.beat(follower["member"], 1) == "rebalance-in-progress"
    calls = [talk.ask_join(leader["member"])]
    assert talk.is_waiting(third)
    calls.append(talk.ask_join(follower["member"]))
    assert {talk.answer(each)["generation"] for each in [third, *calls]} == {2}
    assert talk.answer(calls[0])["leader"] == leader["member"], "the leader stays"


def test_a_silent_member_is_removed_and_the_others_continue() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    talk.keep(8.0, leader)
    assert talk.beat(leader["member"], 1) == "rebalance-in-progress"
    joined = talk.answer(talk.ask_join(leader["member"]))
    assert (joined["generation"], len(joined["members"])) == (2, 1)
    assert talk.beat(follower["member"], 1) == "unknown-member"


def test_the_join_phase_ends_at_the_rebalance_timeout_without_missing_members() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    call = talk.ask_join(leader["member"])
    talk.keep(18.0, follower)
    assert talk.is_waiting(call), "a member that heartbeats may still be busy"
    talk.keep(4.0, follower)
    assert [each[0] for each in talk.answer(call)["members"]] == [leader["member"]]
    assert talk.beat(follower["member"], 1) == "unknown-member"


def test_a_leader_that_does_not_assign_is_removed() -> None:
    talk = KafkaTalk()
    calls = [talk.ask_join(), talk.ask_join()]
    talk.nodes.run(0.6)
    leader, follower = (talk.answer(each) for each in calls)
    synced = talk.ask_sync(follower)
    talk.keep(22.0, leader, follower)
    assert talk.code(synced) == "rebalance-in-progress"
    assert talk.beat(leader["member"], 1) == "unknown-member"
    assert talk.answer(talk.ask_join(follower["member"]))["leader"] == follower["member"]


def test_leaving_members_are_removed_at_once_and_the_last_empties_the_group() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    assert talk.leave(follower["member"], "stranger") == ["", "unknown-member"]
    assert talk.beat(leader["member"], 1) == "rebalance-in-progress"
    assert talk.leave(leader["member"]) == [""]
    group = talk.group
    assert (group.phase, group.members, group.kafka) == ("Empty", {}, None)
    assert group.generation > 1
    assert talk.described()["phase"] == "Empty"


def test_the_protocol_is_known_to_all_members_and_preferred_by_most() -> None:
    talk = KafkaTalk()
    both, sticky = (("sticky", b"s"), ("range", b"r")), (("sticky", b"s"),)
    calls = [talk.ask_join(protocols=each) for each in (both, both, (*RANGE, *sticky))]
    assert talk.code(talk.ask_join(protocols=(("other", b""),))) == "inconsistent-protocol"
    assert talk.code(talk.ask_join(kind="connect")) == "inconsistent-protocol"
    talk.nodes.run(0.6)
    assert {talk.answer(each)["protocol"] for each in calls} == {"sticky"}


def test_a_repeated_join_or_sync_gets_the_same_answer() -> None:
    talk = KafkaTalk()
    calls = [talk.ask_join(), talk.ask_join()]
    talk.nodes.run(0.6)
    leader, follower = (talk.answer(each) for each in calls)
    assert talk.answer(talk.ask_join(leader["member"])) == leader
    talk.synced([leader, follower])
    assert talk.answer(talk.ask_join(follower["member"])) == follower
    assert talk.answer(talk.ask_sync(follower))["assignment"] == follower["member"].encode()
    assert talk.beat(leader["member"], 1) == "", "none of these begins a rebalance"


def test_a_leader_that_joins_again_has_the_partitions_assigned_anew() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    assert talk.is_waiting(talk.ask_join(leader["member"]))
    assert talk.beat(follower["member"], 1) == "rebalance-in-progress"


# Generations and commits


def test_kg3_requests_of_an_earlier_generation_are_refused() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    calls = [talk.ask_join(leader["member"]), talk.ask_join(follower["member"])]
    leader, follower = talk.synced([talk.answer(each) for each in calls])
    assert talk.beat(follower["member"], 1) == "illegal-generation"
    assert talk.commit(follower["member"], 1)["code"] == "illegal-generation"
    old = follower | {"generation": 1}
    assert talk.code(talk.ask_sync(old)) == "illegal-generation"
    assert talk.commit(follower["member"], 2) == {"code": "", "token": talk.version}


def test_kg4_each_generation_has_a_greater_token() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    first = talk.commit(leader["member"], 1)["token"]
    assert first == talk.group.tenure["t/0"].token
    calls = [talk.ask_join(leader["member"]), talk.ask_join(follower["member"])]
    talk.synced([talk.answer(each) for each in calls])
    assert talk.commit(leader["member"], 2)["token"] > first


def test_a_commit_is_accepted_during_joins_and_refused_during_an_assignment() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    call = talk.ask_join(leader["member"])
    assert talk.commit(follower["member"], 1)["code"] == ""
    talk.ask_join(follower["member"])
    assert talk.answer(call)["generation"] == 2
    assert talk.commit(follower["member"], 2)["code"] == "rebalance-in-progress"


def test_a_commit_without_membership_needs_an_empty_group() -> None:
    talk = KafkaTalk()
    assert talk.commit() == {"code": "", "token": 1}
    talk.settled()
    assert talk.commit()["code"] == "unknown-member"


def test_a_commit_adds_the_topic_to_the_group() -> None:
    talk = KafkaTalk()
    leader, _ = talk.settled()
    assert talk.commit(leader["member"], 1, u=3)["code"] == ""
    assert talk.group.parts == {"t": 2, "u": 3}
    assert (talk.group.generation, talk.group.phase) == (1, "Stable")
    assert talk.commit(leader["member"], 1, v=5_000)["code"] == "group-full"


def test_kg1_a_deposed_coordinator_accepts_nothing() -> None:
    talk = KafkaTalk()
    leader, _ = talk.settled()
    talk.nodes.govern("b", unnoticed_by="a")
    talk.nodes.cut("a", "b")
    call = talk.ask_beat(leader["member"], 1, at="a")
    talk.nodes.run(3.0)
    assert talk.is_waiting(call)
    assert talk.commit(leader["member"], 1, at="b")["code"] == ""


def test_kg2_a_deposed_coordinator_completes_no_generation() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    calls = [talk.ask_join(each["member"]) for each in (leader, follower)]
    joined = talk.answer(calls[0])
    updates: list[Operation] = []

    def hold(node: str, asked: Operation) -> Answer | None:
        if asked.verb != "PATCH" or node != "a":
            return None
        updates.append(asked)
        return Answer(504, "undecided", unknown=True)

    talk.nodes.answers = hold
    talk.ask_sync(joined, {"t/0": leader["member"]})
    talk.nodes.govern("b")
    assert talk.nodes.apply(updates[0]).code == "other-reign"
    assert talk.group.generation == 1


def test_kg5_a_new_coordinator_keeps_the_members_of_the_document() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    talk.nodes.crash("a")
    talk.nodes.govern("b")
    assert talk.beat(leader["member"], 1) == talk.beat(follower["member"], 1) == ""
    assert talk.commit(leader["member"], 1)["code"] == ""
    talk.keep(5.0, leader)
    assert talk.beat(follower["member"], 1) == "", "it has a whole session"
    # Only the former coordinator knew the assignments.
    assert talk.code(talk.ask_sync(follower)) == "rebalance-in-progress"
    calls = [talk.ask_join(each["member"]) for each in (leader, follower)]
    assert {talk.answer(each)["generation"] for each in calls} == {2}


def test_kg5_members_silent_to_the_new_coordinator_are_removed() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    talk.nodes.crash("a")
    talk.nodes.govern("b")
    talk.keep(8.0, leader)
    assert talk.beat(follower["member"], 1) == "unknown-member"
    joined = talk.answer(talk.ask_join(leader["member"]))
    assert [each[0] for each in joined["members"]] == [leader["member"]]


def test_kg5_a_listed_version_is_not_taken_for_the_newest_generation() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    old = talk.nodes.documents[LINK]
    calls = [talk.ask_join(each["member"]) for each in (leader, follower)]
    talk.synced([talk.answer(each) for each in calls])
    newest = talk.nodes.documents[LINK]
    talk.nodes.documents[LINK] = old
    talk.nodes.govern("b")
    talk.nodes.run(0.5)  # It lists its disk, which is behind.
    talk.nodes.documents[LINK] = newest
    assert talk.beat(leader["member"], 1) == "illegal-generation"
    assert talk.commit(leader["member"], 1)["code"] == "illegal-generation"
    assert talk.commit(leader["member"], 2)["code"] == ""


def test_waiting_joins_go_to_the_new_coordinator() -> None:
    talk = KafkaTalk()
    call = talk.ask_join(at="c")
    talk.nodes.govern("b")
    talk.nodes.run(2.0)
    assert talk.answer(call)["generation"] == 1


# Static members


def test_a_static_member_that_restarts_takes_its_place_without_a_rebalance() -> None:
    talk = KafkaTalk()
    calls = [talk.ask_join(instance=each) for each in ("one", "two")]
    talk.nodes.run(0.6)
    leader, follower = talk.synced([talk.answer(each) for each in calls])
    again = talk.answer(talk.ask_join(instance="two"))
    assert (again["generation"], again["members"]) == (1, [])
    assert again["member"] != follower["member"]
    assert talk.beat(leader["member"], 1) == "", "no rebalance"
    assert talk.beat(follower["member"], 1, instance="two") == "fenced-instance"
    assert talk.answer(talk.ask_sync(again))["assignment"] == follower["member"].encode()
    held = {each: tenure.member for each, tenure in talk.group.tenure.items()}
    assert held == {"t/0": leader["member"], "t/1": again["member"]}
    assert talk.commit(again["member"], 1)["token"] == talk.version


def test_a_restarted_static_leader_does_not_assign() -> None:
    talk = KafkaTalk()
    call = talk.ask_join(instance="one")
    talk.nodes.run(0.6)
    (leader,) = talk.synced([talk.answer(call)])
    again = talk.answer(talk.ask_join(instance="one"))
    assert again["leader"] == leader["member"] != again["member"]
    assert talk.leave("", instance="one") == [""]
    assert talk.group.members == {}


def test_a_static_member_with_other_topics_begins_a_rebalance() -> None:
    talk = KafkaTalk()
    call = talk.ask_join(instance="one")
    talk.nodes.run(0.6)
    talk.synced([talk.answer(call)])
    again = talk.answer(talk.ask_join(instance="one", protocols=(("range", b"others"),)))
    assert (again["generation"], again["leader"]) == (2, again["member"])


# Both protocols


def test_kg6_members_of_docstores_own_protocol_and_kafka_clients_do_not_mix() -> None:
    talk = KafkaTalk()
    talk.settled(1)
    join = list(Join("native", MemberDetails()))
    refused = talk.nodes.reply(talk.nodes.call(LINK, "groups-join", join))
    assert (refused.status, refused.code) == (409, "inconsistent-protocol")
    other = KafkaTalk()
    assert other.nodes.reply(other.nodes.call(LINK, "groups-join", join)).status == 200
    assert other.code(other.ask_join()) == "inconsistent-protocol"
    assert other.commit()["code"] == "unknown-member"


def test_kg6_the_service_refuses_a_mixture() -> None:
    talk = KafkaTalk()
    talk.settled(1)
    before = talk.group
    native = replace(before, kafka=None, generation=before.generation + 1)
    assert "either Kafka clients or" in why_not(before, native, 9)
    assert "only grows" in why_not(before, replace(before, generation=0), 9)
    tenure = {each: held._replace(token=7) for each, held in before.tenure.items()}
    assert "the version of the row" in why_not(before, replace(before, tenure=tenure), 9)
    assert "`kafka` is there" in why_not(GroupState(parts={}), replace(before, members={}), 9)


def test_native_members_in_the_document_end_a_generation_of_kafka_clients() -> None:
    talk = KafkaTalk()
    call = talk.ask_join()
    talk.nodes.call(LINK, "groups-join", list(Join("native", MemberDetails())))
    talk.nodes.run(0.6)
    joined = talk.answer(call)
    assert talk.code(talk.ask_sync(joined, {"t/0": joined["member"]})) == "rebalance-in-progress"
    assert talk.code(talk.ask_join(joined["member"])) == "inconsistent-protocol"


def test_an_operator_sees_and_removes_kafka_clients_as_other_members() -> None:
    talk = KafkaTalk()
    leader, follower = talk.settled()
    talk.keep(2.0, leader)
    shown = talk.nodes.reply(talk.nodes.call(LINK, "groups-show")).result
    assert shown[follower["member"]]["heardMs"] == 2_000
    assert shown[leader["member"]]["owned"] == ["t/0"]
    gone = talk.nodes.reply(talk.nodes.call(LINK, "groups-fence", follower["member"]))
    assert gone.result[follower["member"]]["fenced"]
    assert talk.beat(follower["member"], 1) == "unknown-member"
    assert talk.nodes.reply(talk.nodes.call(LINK, "groups-fence", "x")).code == "unknown-member"


# Bounds


def test_times_members_and_metadata_are_bounded() -> None:
    talk = KafkaTalk()
    assert talk.code(talk.ask_join(session_ms=100)) == "invalid-session-timeout"
    assert talk.code(talk.ask_join(session_ms=4_000_000)) == "invalid-session-timeout"
    huge = (("range", bytes(METADATA_MAX + 1)),)
    assert talk.code(talk.ask_join(protocols=huge)) == "group-full"
    assert talk.code(talk.ask_join(protocols=())) == "inconsistent-protocol"
    for _ in range(MEMBERS_MAX):
        talk.ask_join(needs_id=True)
    assert talk.code(talk.ask_join(needs_id=True)) == "group-full"


def test_the_metadata_of_all_groups_of_a_node_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_joining, "NODE_MAX", 40)
    talk = KafkaTalk()
    call = talk.ask_join(protocols=(("range", b"x" * 10),))
    assert talk.code(talk.ask_join(protocols=(("range", b"x" * 31),))) == "group-full"
    talk.nodes.run(0.6)
    joined = talk.answer(call)
    shares = {"t/0": joined["member"]}
    assert talk.code(talk.ask_sync(joined, shares)) == "", "10 bytes, and its name"
    talk.leave(joined["member"])
    assert talk.is_waiting(talk.ask_join(protocols=(("range", b"x" * 31),)))


def test_a_document_with_kafka_members_is_read_as_written() -> None:
    talk = KafkaTalk()
    talk.settled()
    state = json.load(talk.nodes.documents[LINK].state)
    assert group_of(state).state() == state
    with pytest.raises(Refusal, match="`kafka` must be"):
        group_of(state | {"kafka": ["consumer", 1]})
