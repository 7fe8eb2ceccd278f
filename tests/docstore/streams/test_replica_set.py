"""A partition's document: its members, its form, and the changes of it that are refused."""

from dataclasses import replace
from typing import Any

import pytest

from docstore.documents.write_path.handle import New, Refused, handle
from docstore.model import json
from docstore.model.document import Row
from docstore.model.operation import Answer, Conditions, Operation
from docstore.model.service import Refusal
from docstore.ownership.by_lag import Resolution
from docstore.streams.replica_set import (
    PartitionService,
    ReplicaSet,
    link_of,
    partition_link,
    partition_name,
    replica_set_of,
)

ONLINE = ReplicaSet(
    incarnation="0190", replicas=("n1", "n2", "n3"), adding=("n3",), leaving=("n2",), epoch=7,
    leader="n1", lrs=(("n1", "c1"), ("n2", "c2")), elr=(), min_in_sync=2, max_lag_ms=500,
    max_lag_records=90, compression="zstd", unclean=3, resolution=Resolution.ONLINE,
)  # fmt: skip
ELECTION = replace(ONLINE, epoch=8, leader="", resolution=Resolution.ELECTION)
FOUND = replace(ELECTION, candidate="n2", resolution=Resolution.CANDIDATE_FOUND)
FRESH = ReplicaSet(incarnation="0190", replicas=("n1",))


@pytest.mark.parametrize("what", [ONLINE, ELECTION, FOUND, FRESH])
def test_a_packed_replica_set_is_read_back(what: ReplicaSet) -> None:
    assert replica_set_of(json.parse_object(what.pack())) == what


def test_the_document_has_the_names_of_the_house() -> None:
    assert json.load(ONLINE.pack()) == {
        "format": 1, "incarnation": "0190", "replicas": ["n1", "n2", "n3"], "preferred": "n1",
        "adding": ["n3"], "leaving": ["n2"], "epoch": 7, "leader": "n1", "candidate": "",
        "lrs": [["n1", "c1"], ["n2", "c2"]], "elr": [], "minInSync": 2,
        "maxLag": {"ms": 500, "records": 90}, "compression": "zstd", "unclean": 3,
        "resolution": "Online",
    }  # fmt: skip


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": 2}, "format"),
    ({"incarnation": ""}, "incarnation"),
    ({"incarnation": "a@b"}, "incarnation"),
    ({"replicas": []}, "preferred"),
    ({"replicas": ["n1", "n1"]}, "replicas"),
    ({"replicas": "n1"}, "replicas"),
    ({"replicas": [1]}, "replicas"),
    ({"preferred": "n2"}, "preferred"),
    ({"adding": ["n9"]}, "adding and leaving"),
    ({"leaving": ["n9"]}, "adding and leaving"),
    ({"epoch": -1}, "epoch"),
    ({"epoch": True}, "epoch"),
    ({"epoch": 1.5}, "epoch"),
    ({"leader": None}, "leader"),
    ({"leader": ""}, "only while the partition is led"),
    ({"leader": "n3"}, "only while the partition is led"),
    ({"resolution": "Election"}, "only while the partition is led"),
    ({"resolution": "CandidateFound", "leader": ""}, "only while one is found"),
    ({"resolution": "CandidateFound", "leader": "", "candidate": "n3"}, "while one is found"),
    ({"candidate": "n1"}, "only while one is found"),
    ({"resolution": "Gone"}, "must be one of Online"),
    ({"lrs": [["n1", "c1"], ["n9", "c2"]]}, "copies of the replicas"),
    ({"elr": [["n9", "c2"]]}, "copies of the replicas"),
    ({"lrs": [["n1", "c1"], ["n1", "c2"]]}, "one copy of a node"),
    ({"elr": [["n2", "c2"]]}, "one copy of a node"),
    ({"elr": [["n3", "c2"], ["n3", "c2"]]}, "one copy of a node"),
    ({"lrs": [["n1"]]}, "lrs"),
    ({"lrs": [["n1", ""]]}, "lrs"),
    ({"lrs": {"n1": "c1"}}, "lrs"),
    ({"minInSync": 0}, "minInSync"),
    ({"maxLag": {"ms": 1, "records": 0}}, "maxLag.ms"),
    ({"maxLag": {"ms": 500}}, "maxLag.records"),
    ({"maxLag": {"ms": 500, "records": 0, "bytes": 1}}, "maxLag.bytes"),
    ({"maxLag": 5}, "maxLag"),
    ({"compression": "lz4"}, "compression"),
    ({"unclean": 8}, "unclean"),
    ({"leo": 5}, "no member 'leo'"),
]


@pytest.mark.parametrize(("members", "why"), WRONG)
def test_a_state_that_is_not_a_partition_is_refused(members: dict[str, Any], why: str) -> None:
    wrong = json.load(ONLINE.pack()) | members
    with pytest.raises(Refusal, match=why) as refused:
        PartitionService().check(wrong)
    assert refused.value.status == 400


@pytest.mark.parametrize("name", ["format", "incarnation", "replicas", "lrs", "epoch", "unclean"])
def test_no_member_may_be_missing(name: str) -> None:
    wrong = json.load(ONLINE.pack())
    del wrong[name]
    with pytest.raises(Refusal, match=name):
        replica_set_of(wrong)


def test_a_partition_has_a_link_and_a_name_that_lead_to_each_other() -> None:
    for topic in ("flights", "a@b", "größe"):
        link = partition_link(topic, 12)
        assert link == f"/core/streams/{topic}/partitions/12"
        name = partition_name(link, "0190-7")
        assert name == f"{topic}/12@0190-7"
        assert link_of(name) == link


# As the owner of the document's slot applies it


def row(what: ReplicaSet) -> Row:
    link = partition_link("t", 0)
    return Row(0, 9, 1, "n1", link, 4, "PATCH", 1, False, b"", b"", b"", what.pack())


def patched(before: ReplicaSet, after: ReplicaSet, tag: tuple[int, int] = (1, 4)) -> bytes | Answer:
    head = row(before)
    operation = Operation(
        verb="PATCH",
        link=head.link,
        body=after.pack(),
        media="handler",
        conditions=Conditions(match=[tag]),
    )
    outcome = handle(head, operation, PartitionService(), floor=-1, now_us=lambda: 0)
    if isinstance(outcome, Refused):
        return outcome.answer
    assert isinstance(outcome, New)
    return outcome.state


def test_an_update_brings_the_whole_next_state() -> None:
    assert patched(ONLINE, ELECTION) == ELECTION.pack()
    assert patched(ELECTION, FOUND) == FOUND.pack()
    led = replace(FOUND, leader="n2", candidate="", resolution=Resolution.ONLINE)
    assert patched(FOUND, led) == led.pack()


def test_an_update_of_a_state_that_is_not_current_any_more_is_refused() -> None:
    answer = patched(ONLINE, ELECTION, (1, 3))
    assert isinstance(answer, Answer)
    assert answer.status == 412


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (ONLINE, replace(ELECTION, epoch=7), 409),
        (ONLINE, replace(ELECTION, epoch=9), 409),
        (FOUND, replace(FOUND, leader="n1", candidate="", resolution=Resolution.ONLINE), 409),
        (ONLINE, replace(ONLINE, leader="n3"), 400),
    ],
)
def test_an_update_that_may_not_follow_is_refused(
    before: ReplicaSet, after: ReplicaSet, status: int
) -> None:
    answer = patched(before, after)
    assert isinstance(answer, Answer)
    assert (answer.status, answer.code) == (status, "refused-by-service")


def test_an_update_that_changes_nothing_makes_no_version() -> None:
    state = json.load(ONLINE.pack())
    assert PartitionService().patch(state, json.load(ONLINE.pack())) is None
