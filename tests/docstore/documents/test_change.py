"""Changes of a group, and the configurations that a change goes through."""

import pytest

from docstore.documents.core import start_of
from docstore.documents.membership.change import Change, ChangeRefused, Kind, advanced, begin
from docstore.documents.timing import ReplicaConfig
from docstore.ownership.configuration import (
    Configuration,
    MemberEntry,
    Registered,
    Stage,
    first_registered,
    is_node_id,
    unpack_configuration,
    unpack_registered,
    with_votes,
)
from docstore.ownership.quorum import decided_end, is_quorum
from docstore.ownership.voters import VOTERS_MAX
from docstore.storage.store import Recovered
from docstore.testing.simulation.world import World
from tests.sim.cluster import Cluster


def member(name: str, store: str = "", port: int = 0) -> MemberEntry:
    return MemberEntry(name, store or f"disk of {name}", "host", port or sum(name.encode()))


def group(*names: str, factor: int | None = None) -> Configuration:
    members = with_votes([member(name, port=7000 + n) for n, name in enumerate(names)])
    return Configuration(1, "cluster", 16, 8, factor, members)


def test_a_node_joins_in_three_steps() -> None:
    learning = begin(group("a", "b", "c", factor=3), Change(Kind.JOIN, entry=member("d")))
    assert (learning.id, learning.stage) == (2, Stage.LEARNING)
    placement = learning.placement()
    assert [each.id for each in learning.next_members] == ["a", "b", "c", "d"]
    held = placement.held_by("d")
    assert held
    for slot in held:
        assert "d" in placement.learners(slot)
        assert "d" not in placement.replicas(slot)
        assert placement.voting(slot) == (placement.table[slot],)
    joint = advanced(learning)
    assert (joint.id, joint.stage) == (3, Stage.JOINT)
    for slot in held:
        assert len(joint.placement().voting(slot)) == 2
        assert "d" in joint.placement().replicas(slot)
        assert joint.placement().learners(slot) == ()
    stable = advanced(joint)
    assert (stable.id, stable.stage, stable.next_members) == (4, Stage.STABLE, ())
    assert stable.placement().held_by("d") == held


def test_a_new_disk_under_the_old_name_counts_as_another() -> None:
    fresh = member("b", "a new disk", 7001)
    learning = begin(group("a", "b", "c"), Change(Kind.REPLACE, "b", fresh))
    assert learning.names == ("a", "b", "b!", "c")
    assert learning.member("b") == learning.next_members[1]
    assert all("b!" in learning.placement().replicas(slot) for slot in range(16))
    joint = advanced(learning)
    old, new = joint.placement().voting(0)
    assert sorted(old) == ["a", "b!", "c"]
    assert sorted(new) == ["a", "b", "c"]
    assert not is_quorum({"a", "b"}, [old, new])
    assert is_quorum({"a", "c"}, [old, new])
    assert advanced(joint).names == ("a", "b", "c")
    undone = begin(joint, Change(Kind.CANCEL))
    assert undone.names == ("a", "b", "c")
    assert undone.members == group("a", "b", "c").members


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        (Change(Kind.JOIN, entry=member("a", "other")), 409, "already-a-member"),
        (Change(Kind.JOIN, entry=member("d", "disk of a")), 409, "already-a-member"),
        (Change(Kind.JOIN, entry=member("d", port=7000)), 409, "address-taken"),
        (Change(Kind.JOIN), 400, "malformed"),
        (Change(Kind.REMOVE, "a"), 409, "too-few-members"),
        (Change(Kind.LEAVE, "x"), 404, "not-a-member"),
        (Change(Kind.REPLACE, "x", member("d")), 404, "not-a-member"),
        (Change(Kind.REPLACE, "a", member("a")), 409, "already-a-member"),
        (Change(Kind.CANCEL), 409, "no-change"),
    ],
)
def test_an_invalid_change_is_refused(change: Change, status: int, code: str) -> None:
    with pytest.raises(ChangeRefused) as refused:
        begin(group("a", "b", "c"), change)
    assert (refused.value.status, refused.value.code) == (status, code)


def test_one_change_at_a_time() -> None:
    learning = begin(group("a", "b", "c"), Change(Kind.JOIN, entry=member("d")))
    with pytest.raises(ChangeRefused, match="one change at a time"):
        begin(learning, Change(Kind.JOIN, entry=member("e")))
    assert begin(learning, Change(Kind.CANCEL)).stage is Stage.STABLE


def test_the_last_member_stays_even_with_force() -> None:
    pair = begin(group("a", "b", "c"), Change(Kind.REMOVE, "c", force=True))
    single = begin(advanced(advanced(pair)), Change(Kind.REMOVE, "b", force=True))
    alone = advanced(advanced(single))
    with pytest.raises(ChangeRefused):
        begin(alone, Change(Kind.REMOVE, "a", force=True))


def test_the_most_members_allowed_vote_and_earlier_voters_stay() -> None:
    many = with_votes([member(f"n{n:02}") for n in range(12)])
    assert sum(each.votes for each in many) == VOTERS_MAX
    fewer = with_votes([each for each in many if each.id != "n00"])
    assert sum(each.votes for each in fewer) == VOTERS_MAX
    before = {each.id for each in many if each.votes}
    assert before - {"n00"} < {each.id for each in fewer if each.votes}


def test_an_observer_holds_no_slot_and_counts_in_no_quorum() -> None:
    watcher = MemberEntry("w", "disk", "host", 9, observes=True)
    now = advanced(advanced(begin(group("a", "b", "c"), Change(Kind.JOIN, entry=watcher))))
    assert now.names == ("a", "b", "c", "w")
    assert now.sets == (("a", "b", "c"),)
    assert now.voting == (("a", "b", "c"),)
    assert now.placement().held_by("w") == []


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("n1", True), ("n_1", True), ("7", True), ("A.b-c_d", True), ("n" * 64, True),
        ("", False), ("n" * 65, False), ("_n", False), (".n", False), ("-n", False),
        ("n 1", False), ("n!", False), ("n/1", False), ("n\n", False), ("\u00fc", False),
    ],
)  # fmt: skip
def test_a_node_id_is_valid_everywhere(name: str, is_one: bool) -> None:
    assert is_node_id(name) is is_one


def test_a_packed_configuration_unpacks_to_itself() -> None:
    joint = advanced(begin(group("a", "b", "c"), Change(Kind.REPLACE, "b", member("b", "new"))))
    assert unpack_configuration(joint.pack()) == joint
    for stored in (first_registered(joint), Registered(group("a"), 7, "b", 6, joint)):
        assert unpack_registered(stored.pack()) == stored


def test_a_quorum_is_a_majority_of_each_set() -> None:
    sets = [("a", "b", "c"), ("c", "d", "e")]
    assert is_quorum({"a", "c", "d"}, sets)
    assert not is_quorum({"a", "b", "c"}, sets)
    assert decided_end({"a": 9, "b": 7, "c": 8, "d": 3}, sets) == 3
    assert decided_end({"a": 9, "b": 7}, sets) == -1


def test_starts_of_two_disks_of_a_node_differ() -> None:
    starts = {start_of(Recovered(disk, boot, None)) for disk in "xyz" for boot in range(1, 50)}
    assert len(starts) == 3 * 49


def test_a_member_silent_for_long_is_removed() -> None:
    world = World(5)
    config = ReplicaConfig(remove_after_s=4.0)
    cluster = Cluster(world, 5, factor=3, slots=4, config=config, changes=True)
    world.run(3.0)
    cluster.crash("n4")
    world.run(6.0)
    assert cluster.configuration.id == 1, "not yet: it may come back"
    world.run(20.0)
    assert [each.id for each in cluster.configuration.members] == ["n0", "n1", "n2", "n3"]
    assert cluster.configuration.stage is Stage.STABLE
    # Never below three: two more members that die are not removed.
    cluster.crash("n3")
    world.run(40.0)
    cluster.crash("n2")
    world.run(60.0)
    assert len(cluster.configuration.members) == 3
