"""A topic's document: what a client may set, what it may change, and the defaults."""

from typing import Any

import pytest

from docstore.model import json
from docstore.model.service import Refusal
from docstore.streams.topic import (
    Provision,
    Topic,
    TopicService,
    asked_topic,
    check_change,
    topic_link,
    topic_of,
)

WHOLE = Topic(
    name="flights", incarnation="0190", partitions=6, replication_factor=3, min_in_sync=1,
    retention_ms=0, retention_bytes=5, max_lag_ms=300, max_lag_records=7, batch_bytes_max=4096,
    compression="zstd", cleanup="compact,delete", unclean=True, resolution=Provision.PROVISIONED,
)  # fmt: skip
ASKED = {
    "name": "flights", "partitions": 6, "replicationFactor": 3, "minInSync": 1,
    "retention": {"ms": 0, "bytes": 5}, "maxLag": {"ms": 300, "records": 7},
    "batchBytesMax": 4096, "compression": "zstd", "cleanup": "compact,delete", "unclean": True,
}  # fmt: skip


def asked(members: int = 5, /, **fields: Any) -> Topic:
    return asked_topic({"name": "t"} | fields, incarnation="0190", members=members)


@pytest.mark.parametrize(("members", "replicas", "least"), [(1, 1, 1), (2, 2, 1), (7, 3, 2)])
def test_a_topic_with_only_a_name_gets_defaults_by_the_size_of_the_group(
    members: int, replicas: int, least: int
) -> None:
    assert asked(members) == Topic(
        name="t", incarnation="0190", replication_factor=replicas, min_in_sync=least
    )


def test_a_topic_may_have_more_replicas_than_members() -> None:
    assert asked(1, replicationFactor=5).min_in_sync == 4


def test_a_packed_topic_is_read_back() -> None:
    assert topic_of(json.parse_object(WHOLE.pack())) == WHOLE
    assert json.load(WHOLE.pack()) == {
        **ASKED, "format": 1, "incarnation": "0190", "resolution": "provisioned"
    }  # fmt: skip


def test_a_client_may_set_all_members_of_a_topic() -> None:
    found = asked_topic(ASKED, incarnation="0190", members=1)
    assert found.state() == WHOLE.state() | {"resolution": "pending"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": 5}, "name"),
        ({"partitions": 0}, "partitions"),
        ({"partitions": 10_001}, "partitions"),
        ({"partitions": "6"}, "partitions"),
        ({"replicationFactor": 0}, "replicationFactor"),
        ({"replicationFactor": 17}, "replicationFactor"),
        ({"replicationFactor": 2, "minInSync": 3}, "minInSync"),
        ({"minInSync": 0}, "minInSync"),
        ({"retention": {"ms": -1}}, "retention.ms"),
        ({"retention": {"days": 7}}, "retention.days"),
        ({"retention": 7}, "retention"),
        ({"maxLag": {"ms": 1}}, "maxLag.ms"),
        ({"maxLag": {"bytes": 1}}, "maxLag.bytes"),
        ({"batchBytesMax": (1 << 20) + 1}, "batchBytesMax"),
        ({"batchBytesMax": 100}, "batchBytesMax"),
        ({"compression": "lz4"}, "compression must be one of none, zstd; got"),
        ({"compression": True}, "compression must be one of none, zstd; got"),
        ({"unclean": "yes"}, "unclean"),
        ({"incarnation": "x"}, "no member 'incarnation'"),
        ({"resolution": "provisioned"}, "no member 'resolution'"),
        ({"segmentBytes": 5}, "no member 'segmentBytes'"),
    ],
)
def test_an_impossible_topic_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal, match=why) as refused:
        asked(**fields)
    assert refused.value.status == 400


@pytest.mark.parametrize("name", ["flights", "a.b-c_1", "größe", "a@b", "x" * 255, "ö" * 127])
def test_a_topic_may_have_the_name_of_a_document(name: str) -> None:
    assert topic_link(name) == f"/core/streams/{name}"
    assert asked(name=name).link == topic_link(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "/", "a/b", "%00", "\x00", "a\nb", ".", "..", "x" * 256, "x" * 300, "ö" * 128,
        "stats", "versions", "\ud800", "u\u0308", "a\\b", "a%2Fb",
    ],
)  # fmt: skip
def test_a_name_that_does_not_fit_a_path_is_refused(name: str) -> None:
    with pytest.raises(Refusal) as refused:
        topic_link(name)
    assert refused.value.status == 400
    with pytest.raises(Refusal):
        asked(name=name)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"format": 2}, "format"),
        ({"incarnation": ""}, "incarnation"),
        ({"incarnation": "a@b"}, "incarnation"),
        ({"resolution": "ready"}, "resolution. must be one of pending"),
        ({"leader": "n1"}, "no member 'leader'"),
    ],
)
def test_a_state_that_is_not_a_topic_is_refused(members: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal, match=why):
        TopicService().check(WHOLE.state() | members)


# Changes


@pytest.mark.parametrize("change", [
    {"partitions": 7}, {"retention": {"bytes": 9}}, {"minInSync": 2}, {"maxLag": None},
    {"unclean": False}, {},
])  # fmt: skip
def test_a_client_may_change_settings_that_move_no_records(change: dict[str, Any]) -> None:
    check_change(change)
    after = TopicService().patch(WHOLE.state(), change)
    assert (after is None) == (not change)
    assert after is None or topic_of(after) != WHOLE


@pytest.mark.parametrize(
    "name", ["name", "incarnation", "replicationFactor", "batchBytesMax", "resolution", "format"]
)
def test_a_client_may_not_change_the_rest(name: str) -> None:
    with pytest.raises(Refusal, match=f"`{name}` of a topic cannot be changed") as refused:
        check_change({name: None})
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"name": "t"}, 409),
        ({"incarnation": "0191"}, 409),
        ({"replicationFactor": 2}, 409),
        ({"batchBytesMax": 5000}, 409),
        ({"partitions": 5}, 409),
        ({"partitions": None}, 409),
        ({"minInSync": 4}, 400),
        ({"resolution": None}, 400),
    ],
)
def test_an_impossible_change_of_a_topic_is_refused(change: dict[str, Any], status: int) -> None:
    with pytest.raises(Refusal) as refused:
        TopicService().patch(WHOLE.state(), change)
    assert refused.value.status == status


def test_a_removed_setting_returns_to_its_default() -> None:
    after = TopicService().patch(WHOLE.state(), {"retention": {"ms": None}, "minInSync": None})
    assert after is not None
    assert after["retention"] == {"ms": 7 * 86_400_000, "bytes": 5}
    assert after["minInSync"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 9},
        {"minInSync": 2},
        {"maxLag": {"ms": 500}},
        {"maxLag": None},
        {"compression": "none"},
    ],
)
def test_a_change_that_concerns_partitions_is_pending_until_provisioned(
    change: dict[str, Any],
) -> None:
    after = TopicService().patch(WHOLE.state(), change)
    assert after is not None
    assert after["resolution"] == "pending"
    again = TopicService().patch(WHOLE.state(), change | {"resolution": "provisioned"})
    assert again is not None
    assert again["resolution"] == "provisioned"


def test_other_changes_leave_a_topic_provisioned() -> None:
    after = TopicService().patch(WHOLE.state(), {"unclean": False, "retention": {"ms": 5}})
    assert after is not None
    assert after["resolution"] == "provisioned"
