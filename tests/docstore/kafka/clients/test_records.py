"""Records of each client, as read by the others and over HTTP."""

import time

import pytest

from docstore.client.local import LocalCluster
from tests.docstore.kafka.clients.http import created, posted, read
from tests.docstore.kafka.clients.tools import CODECS, TOOLS, Message
from tests.docstore.watching import until

MESSAGES = [
    Message(b"a", b'{"n":1}'),
    Message(None, b"without a key"),
    Message(b"a", None),
    Message(b"\xff\xfe", b"\x00\xff"),
    Message(b"b", b'"text"', (("one", b"1"), ("two", b"2"))),
    Message(b"b", b"3", (("null", None),)),
]
"""Keys, values and headers as Kafka allows them."""
MIB = 1 << 20


def contents(messages: list[Message]) -> list[Message]:
    """Return messages without what the node or the client's clock has added."""
    return [each._replace(ms=0, offset=-1) for each in messages]


@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
def test_records_of_each_client_are_read_by_all(
    group: LocalCluster, bootstrap: str, client: str, is_idempotent: bool
) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    sent = MESSAGES if tool.sends_null_headers else MESSAGES[:-1]
    begun_ms = time.time_ns() // 1_000_000
    tool.produce(topic, sent, "none", is_idempotent=is_idempotent)
    found = read(group, topic)
    assert contents(found) == sent
    assert [each.offset for each in found] == list(range(len(sent)))
    assert all(begun_ms <= each.ms <= time.time_ns() // 1_000_000 for each in found)
    for name in ("confluent", "aiokafka", client):
        assert TOOLS[name](bootstrap).consume(topic) == found, name


def test_records_of_http_are_read_by_each_client(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic = created(group)
    posted(group, topic, [
        {"key": "a", "value": {"n": 1}, "headers": {"one": "1"}}, {"value": None},
        {"key": "a", "tombstone": True}, {"key": "é", "value": "text"},
    ])  # fmt: skip
    found = read(group, topic)
    assert contents(found) == [
        Message(b"a", b'{"n":1}', (("one", b"1"),)), Message(None, b"null"), Message(b"a", None),
        Message("é".encode(), b'"text"'),
    ]  # fmt: skip
    assert TOOLS[client](bootstrap).consume(topic) == found


def test_http_and_clients_share_a_topic(group: LocalCluster, bootstrap: str, client: str) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    for nth in range(3):
        posted(group, topic, [{"key": "h", "value": nth}])
        tool.produce(topic, [Message(b"k", b"%d" % nth)], "none", is_idempotent=True)
    found = tool.consume(topic)
    assert found == read(group, topic)
    assert [(each.key, each.value) for each in found] == [
        (key, b"%d" % nth) for nth in range(3) for key in (b"h", b"k")
    ]


def test_compressed_records_of_each_client_are_read_by_all(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic, tool, sent = created(group), TOOLS[client](bootstrap), list[Message]()
    for codec in CODECS:
        some = [Message(codec.encode(), b'{"n":%d}' % n) for n in range(100)]
        tool.produce(topic, some, codec, is_idempotent=False)
        sent += some
    found = read(group, topic)
    assert contents(found) == sent
    for name in ("confluent", "aiokafka", "kafka-python"):
        assert TOOLS[name](bootstrap).consume(topic) == found, name


def test_a_record_may_have_a_mebibyte(group: LocalCluster, bootstrap: str, client: str) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    # The size of a record that docstore accepts counts its key and its head.
    sent = [Message(b"k", bytes([65 + nth]) * (MIB - 100)) for nth in range(2)]
    tool.produce(topic, sent, "none", is_idempotent=False)
    assert contents(tool.consume(topic)) == sent
    assert contents(read(group, topic)) == sent


def test_a_read_starts_at_any_offset(group: LocalCluster, bootstrap: str, client: str) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    sent = [Message(None, b"%d" % nth) for nth in range(100)]
    TOOLS["confluent"](bootstrap).produce(topic, sent, "none", is_idempotent=True)
    for since in (0, 1, 57, 99, 100):
        found = tool.consume(topic, since)
        assert [each.offset for each in found] == list(range(since, 100))
        assert contents(found) == sent[since:]


def test_a_client_finds_the_offset_of_a_time(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic, tool = created(group), TOOLS[client](bootstrap)
    writer = tool if tool.sets_time else TOOLS["confluent"](bootstrap)
    now_ms = time.time_ns() // 1_000_000
    times = [now_ms - 5_000 + 1_000 * nth for nth in (0, 1, 3, 2, 4)]
    sent = [Message(None, b"%d" % ms, ms=ms) for ms in times]
    writer.produce(topic, sent, "none", is_idempotent=True)
    assert [each.ms for each in tool.consume(topic)] == times
    for ms, offset in ((1, 0), (times[1], 1), (times[1] + 1, 2), (times[3], 2), (times[4], 4)):
        assert tool.offset_at(topic, ms) == offset
    assert tool.offset_at(topic, times[4] + 1) == -1


def test_a_client_lists_the_partitions(group: LocalCluster, bootstrap: str, client: str) -> None:
    assert TOOLS[client](bootstrap).partitions(created(group, partitions=7)) == 7


def test_records_compressed_by_the_leader_are_read_by_each_client(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic = created(group, compression="zstd")
    posted(
        group, topic, [{"key": f"k{n}", "value": {"n": n, "same": "x" * 50}} for n in range(200)]
    )
    found = TOOLS[client](bootstrap).consume(topic, 57)
    assert [each.offset for each in found] == list(range(57, 200))
    assert found == read(group, topic, since=57)


def test_each_client_reads_a_compacted_topic_with_gaps(
    group: LocalCluster, bootstrap: str, client: str
) -> None:
    topic, tool = created(group, cleanup="compact"), TOOLS[client](bootstrap)
    for number in range(3):
        some = [Message(b"%d" % (n % 10), b"%d" % number) for n in range(100)]
        tool.produce(topic, some, "gzip", is_idempotent=number > 0)
    tool.produce(topic, [Message(b"0", None), Message(b"end", b"1")], "none", is_idempotent=True)
    until(lambda: len(read(group, topic)) < 302)
    found = tool.consume(topic)
    assert found == read(group, topic)
    assert {each.key: each.value for each in found} == {
        b"0": None, b"end": b"1", **{b"%d" % n: b"2" for n in range(1, 10)}
    }  # fmt: skip
    assert found[-1].offset == 301
    # aiokafka does not know the code of invalid records.
    with pytest.raises(Exception, match=r"(?i)(invalid|validate).?record|UnknownError"):
        tool.produce(topic, [Message(None, b"1")], "none", is_idempotent=False)
