"""A group's document: it is read as written, and only allowed states follow each other."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.model.service import Refusal
from docstore.ownership.by_induction import Mode
from docstore.services.group_document import (
    PHASES,
    ROLES,
    GroupPhase,
    GroupState,
    MemberDetails,
    Settings,
    Tenure,
    group_of,
    new_group,
    read_group,
)
from docstore.services.groups import GroupService, why_not
from docstore.sessions.reconciling import GroupChanges, reconciled

LINK = f"{ROLES}/pricing"
OVERLAPPING = Settings(mode=Mode.NON_EXCLUSIVE, window_ms=18_000)


def grown(group: GroupState, *members: str, token: int = 1) -> GroupState:
    """Return the group after some members have joined."""
    return reconciled(
        LINK, group, GroupChanges(joins=dict.fromkeys(members, MemberDetails())), token
    )


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "release", "drain"]), st.integers(0, 5)),
    max_size=25,
)


@given(st.integers(1, 9), STEPS, st.sampled_from([Settings(), OVERLAPPING]))
def test_i17_every_history_is_read_as_written_and_allowed_by_the_service(
    partitions: int, steps: list[tuple[str, int]], settings: Settings
) -> None:
    group, version = GroupState(parts={"": partitions}, settings=settings), 0
    tokens: dict[str, int] = {}
    for kind, number in steps:
        name = f"m{number}"
        changes = GroupChanges()
        if kind == "join" or (kind == "drain" and name in group.members):
            changes.joins[name] = MemberDetails("", "h", int(kind == "join"))
        elif kind == "leave":
            changes.gone.add(name)
        else:
            changes.released = {(p, t.member) for p, t in group.tenure.items() if t.member == name}
        after = reconciled(LINK, group, changes, version + 1)
        if after == group:
            continue
        version += 1
        service = GroupService(ROLES, "docstore:Roles")
        service.patch(group.state() | {"documentVersion": version}, after.state())
        assert read_group(after.pack()) == after
        assert after.generation in (group.generation, group.generation + 1)
        for partition, tenure in after.tenure.items():
            assert tenure.member in after.members
            if tenure != group.tenure.get(partition):
                assert tenure.token == version > tokens.get(partition, 0), "tokens grow"
                tokens[partition] = tenure.token
        group = after


def test_all_transitions_of_the_table_happen() -> None:
    empty = GroupState(parts={"": 2})
    one = grown(empty, "x")
    two = grown(one, "y", token=2)
    three = grown(two, "z", token=3)
    [(partition, _)] = [
        (each, member) for each, member in two.target.items() if member != two.tenure[each].member
    ]
    moved = reconciled(LINK, two, GroupChanges(released={(partition, "x")}), 3)
    gone = reconciled(LINK, moved, GroupChanges(gone={"x", "y"}), 4)
    all_gone = reconciled(LINK, two, GroupChanges(gone={"x", "y"}), 4)
    bigger = replace(one, parts={"t": 1, "u": 1})
    pairs = [(empty, replace(empty, generation=1, settings=OVERLAPPING)), (empty, one), (one, two)]
    pairs += [(two, three), (two, moved), (moved, gone), (two, all_gone)]
    pairs += [(one, reconciled(LINK, one, GroupChanges(joins={"x": MemberDetails("", "", 2)}), 2))]
    assert {(before.phase, after.phase) for before, after in pairs} == set(PHASES)
    assert [why_not(before, after, after_version(after)) for before, after in pairs] == [""] * 8
    assert bigger.partitions == ["t/0", "u/0"]


def after_version(group: GroupState) -> int:
    return max((each.token for each in group.tenure.values()), default=9)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda one: replace(one, generation=9), "generation grows by one"),
        (lambda one: replace(one, generation=2, settings=OVERLAPPING), "settings may change only"),
        (
            lambda one: replace(one, generation=2, parts={"": 3}),
            "number of partitions may change only",
        ),
        (lambda one: replace(one, tenure={"0": Tenure("x", 7)}), "token of a tenure"),
        (
            lambda one: replace(one, tenure={"0": Tenure("x", 1), "1": Tenure("x", 5)}),
            "token of a tenure is the version of the row",
        ),
    ],
)
def test_i17_invalid_changes_of_a_group_are_refused(
    change: Callable[[GroupState], GroupState], why: str
) -> None:
    one = grown(GroupState(parts={"": 2}), "x")
    assert why in why_not(one, change(one), 2)


def test_an_update_of_a_group_without_a_change_makes_no_version() -> None:
    service, one = GroupService(ROLES, "docstore:Roles"), grown(GroupState(parts={"": 2}), "x")
    assert service.patch(one.state() | {"documentVersion": 2}, one.state()) is None


def test_a_new_group_gets_default_times() -> None:
    group = new_group({"sessionMs": 8_000}, parts={"": 4})
    assert group.settings == Settings(
        session_ms=8_000, heartbeat_ms=1_000, window_ms=4_000, revoke_ms=8_000
    )
    overlapping = new_group({"mode": "nonExclusive"}, parts={"t": 4})
    assert overlapping.settings.window_ms == 18_000


@pytest.mark.parametrize(
    ("asked", "parts", "status"),
    [
        ({"mode": "some"}, {"": 1}, 400),
        ({"sessionMs": 100}, {"": 1}, 400),
        ({"sessionMs": "6"}, {"": 1}, 400),
        ({"windowMs": 6_000}, {"": 1}, 422),
        ({"heartbeatMs": 6_000}, {"": 1}, 422),
        ({"mode": "nonExclusive", "windowMs": 6_500}, {"": 1}, 422),
        ({"other": 1}, {"": 1}, 400),
        ({}, {"": 0}, 400),
        ({}, {"": 5_000}, 422),
        ({}, {}, 400),
        ({}, {"t": 1.5}, 400),
    ],
)
def test_impossible_times_and_sizes_are_refused(
    asked: dict[str, Any], parts: dict[str, Any], status: int
) -> None:
    with pytest.raises(Refusal) as refusal:
        new_group(asked, parts=parts)
    assert refusal.value.status == status


@pytest.mark.parametrize(
    "change",
    [
        {"state": "Empty"},
        {"format": 2},
        {"target": [0]},
        {"target": [0, 7]},
        {"target": "x"},
        {"tenure": [[0], [0, 1]]},
        {"tenure": [[], 3]},
        {"members": [["x", "", "", 1]]},
        {"members": [["x", "", "", -1, 1]]},
        {"members": [["x", "", "", 1, 1], ["x", "", "", 1, 1]]},
        {"more": 1},
    ],
)
def test_an_invalid_group_document_is_refused(change: dict[str, Any]) -> None:
    state = grown(GroupState(parts={"": 2}), "x").state()
    with pytest.raises(Refusal) as refusal:
        group_of(state | change)
    assert refusal.value.status == 400


def test_a_phase_follows_from_members_target_and_tenure() -> None:
    assert GroupState(parts={"": 1}).phase is GroupPhase.EMPTY
    one = grown(GroupState(parts={"": 2}), "x")
    assert one.phase is GroupPhase.STABLE
    assert grown(one, "y").phase is GroupPhase.RECONCILING
