"""Compaction by key at a few machines: records removed, kept, and sent to replicas."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from docstore.machines.events import Received, Room
from docstore.model.streams_batch import (
    COUNTED,
    PURGED,
    SPARSE,
    BatchHeader,
    header_of,
    place_of,
    seal,
)
from docstore.streams.compaction import NewestOffsets, PassBounds, cut_out, joined, rewritten
from docstore.streams.effects import Records
from docstore.streams.events import CommandAsked
from docstore.streams.forms import records_of
from docstore.streams.producer_state import REMEMBERED
from docstore.streams.records import Record, pack, sparse
from docstore.streams.topic import Topic
from docstore.wire.streams_messages import Append
from tests.docstore.streams.group import LINK, NAME, Group

OFTEN = {"retention_s": 0.2, "step_interval_s": 0.0}
BOUNDS = PassBounds(start=0, purge_below=1 << 40, expired_us=0, now_us=5_000)


def compacted(names: str = "abc", *, cleanup: str = "compact", **more: Any) -> Group:
    """Return a group whose partition's topic is compacted."""
    group = Group(names, **(OFTEN | more))
    group.create(names, max_lag_ms=3_600_000)
    set_cleanup(group, cleanup)
    group.run(0.5)
    return group


def set_cleanup(group: Group, cleanup: str) -> None:
    topic = Topic(name="t", incarnation="i1", cleanup=cleanup)
    row = group.documents[LINK]._replace(state=topic.pack(), link=topic.link)
    group.documents[topic.link] = row


def fill(group: Group, pairs: Sequence[tuple[str, str]]) -> None:
    """Produce one batch for each (key, value)."""
    for key, value in pairs:
        group.produce(value, key=key.encode())


def elect_uncleanly(group: Group, name: str) -> None:
    """Start a node, and elect its replica though others that have more are away."""
    group.start(name)
    group.govern(name)
    group.run(1)
    group.feed(name, CommandAsked(900, LINK, ("elect", True)))
    group.run(3)
    assert group.document.leader == name


def view(group: Group, name: str) -> dict[bytes | None, bytes]:
    """Return key -> the last value in a node's log."""
    found: dict[bytes | None, bytes] = {}
    for _, key, value in group.records(name):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def test_only_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    group = compacted()
    fill(group, [(key, f"{key}{number}") for number in range(3) for key in "xyz"])
    fill(group, [("x", "x3")])
    group.run(2)
    for name in "abc":
        assert group.records(name) == [
            (6, b"x", b"x2"), (7, b"y", b"y2"), (8, b"z", b"z2"), (9, b"x", b"x3")
        ]  # fmt: skip
        assert len(group.raw_log(name)) == 2  # The last batch is never compacted.
    found = group.fetch(0)
    assert isinstance(found, Records)
    assert (found.offset, found.until, found.start) == (0, 10, 0)
    assert group.produced(group.produce("next", key=b"x")).base == 10


def test_nothing_at_or_above_the_high_watermark_is_removed() -> None:
    group = compacted()
    fill(group, [("x", "1"), ("x", "2")])
    group.hold_disk("b")
    group.hold_disk("c")
    fill(group, [("x", "3"), ("x", "4"), ("y", "5")])
    group.run(2)
    assert [offset for offset, _, _ in group.records("a")] == [1, 2, 3, 4]


def test_records_without_a_key_stay() -> None:
    group = compacted()
    for value in ("1", "2", "3"):
        group.produce(value)
    group.run(2)
    assert [offset for offset, _, _ in group.records("a")] == [0, 1, 2]


def test_a_topic_that_is_not_compacted_keeps_all() -> None:
    group = compacted(cleanup="delete")
    fill(group, [("x", "1")] * 4)
    group.run(2)
    assert len(group.records("a")) == 4
    set_cleanup(group, "compact,delete")
    group.run(2)
    assert [offset for offset, _, _ in group.records("a")] == [2, 3]


def test_a_tombstone_is_removed_some_time_after_the_records_of_its_key() -> None:
    group = compacted(tombstone_us=4_000_000, rest=1)
    fill(group, [("x", "1"), ("y", "1"), ("x", "2"), ("x", ""), ("y", "2"), ("z", "")])
    group.run(2)
    assert [offset for offset, _, _ in group.records("b")] == [3, 4, 5]
    group.run(1.5)
    assert [offset for offset, _, _ in group.records("b")] == [3, 4, 5]
    group.run(3)
    for name in "abc":
        assert [offset for offset, _, _ in group.records(name)] == [4, 5]
        assert header_of(group.raw_log(name)[0]).flags & PURGED


def test_a_tombstone_waits_anew_when_an_older_record_of_its_key_is_found() -> None:
    newest = NewestOffsets()
    first = batch(0, [Record(b"x", b"1")])
    header = header_of(first)
    last = seal(
        place_of(NAME), header._replace(base=1, first_us=1_000, flags=SPARSE),
        sparse([(0, Record(b"x", None))]),
    )  # fmt: skip
    bounds = BOUNDS._replace(expired_us=2_000)
    for raw in (first, last):
        newest.note(header_of(raw), raw)
    assert rewritten(header, first, newest, bounds, keeps_header=False).kept == []
    kept = rewritten(header_of(last), last, newest, bounds, keeps_header=False)
    assert (len(kept.kept), kept.compacted_us) == (1, bounds.now_us)
    again = rewritten(header_of(last), last, NewestOffsets(), bounds, keeps_header=False)
    assert (again.kept, bool(again.header.flags & PURGED)) == ([], True)


def test_a_tombstone_stays_while_a_replica_that_is_being_filled_lacks_it() -> None:
    group = compacted(tombstone_us=1_000_000, rest=1, tail_bytes=0, in_flight_bytes=1)
    group.hold_disk("c")
    fill(group, [("x", "1"), ("x", ""), ("y", "1"), ("y", "2"), ("z", "1")])
    group.run(0.2)
    group.leading().followers["c"].acked = 1
    purge_below = group.machines["a"].compaction._bounds(group.log("a")).purge_below
    assert purge_below <= 1


def test_the_newest_batches_of_a_producer_keep_their_header() -> None:
    group = compacted()
    for sequence in range(10):
        group.produce("1", key=b"x", producer=("p", 0, sequence))
    group.produce("2", key=b"x")
    group.run(2)
    assert group.records("b") == [(9, b"x", b"1"), (10, b"x", b"2")]
    headers = [header_of(raw) for raw in group.raw_log("b")]
    numbers = [each.sequence for each in headers if each.producer]
    assert numbers == list(range(10 - REMEMBERED, 10))
    group.crash("a")
    group.run(2)
    again = group.produce("1", at=group.document.leader, key=b"x", producer=("p", 0, 5))
    assert group.produced(again).base == 5


def test_an_empty_replica_is_filled_from_a_compacted_log() -> None:
    group = compacted(tail_bytes=0)
    group.crash("c")
    group.run(1)
    fill(group, [(key, f"{key}{number}") for number in range(9) for key in "xyz"])
    group.run(2)
    group.ledgers["c"] = type(group.ledgers["c"])()
    group.start("c")
    group.run(3)
    assert view(group, "c") == view(group, "a") == {b"x": b"x8", b"y": b"y8", b"z": b"z8"}
    assert "c" in dict(group.document.lrs)


def test_a_replica_that_ends_within_a_rewritten_batch_is_sent_the_rest_of_it() -> None:
    group = compacted(tail_bytes=0)
    fill(group, [("x", "0"), ("y", "0")])
    group.crash("c")
    group.run(1)
    fill(group, [(key, f"{key}{number}") for number in range(9) for key in "xyz"])
    group.run(2)
    assert header_of(group.raw_log("a")[0]).end > 2
    group.start("c")
    group.run(3)
    assert (group.alarms, group.machines["c"].core.counters["begun_anew"]) == ([], 0)
    assert view(group, "c") == view(group, "a")


def test_a_replica_with_records_whose_tombstones_are_gone_begins_anew() -> None:
    group = compacted(tombstone_us=500_000, rest=1, tail_bytes=0)
    fill(group, [("x", "old"), ("y", "1")])
    group.crash("c")
    group.crash("a")
    group.start("a")
    group.run(2)
    for key, value in (("x", ""), ("y", "2"), ("z", "1"), ("z", "2")):
        group.produce(value, key=key.encode(), at="b")
    group.run(4)
    leader = group.document.leader
    assert view(group, leader) == {b"y": b"2", b"z": b"2"}
    assert [offset for offset, _, _ in group.records(leader)] == [3, 4, 5]
    copy = group.ledgers["c"].recovered(1).partitions[NAME].record.copy
    group.start("c")
    group.run(3)
    assert view(group, "c") == view(group, leader)
    assert group.log("c").copy != copy
    assert "c" in dict(group.document.lrs)


def test_a_compacted_log_begins_anew_after_an_unclean_election_that_would_cut_it() -> None:
    group = compacted("ab", unlinked_s=0.1, offline_retry_s=0.2)
    fill(group, [("x", "0"), ("y", "0"), ("x", "1")])
    group.crash("b")
    group.run(1)
    fill(group, [("y", "1"), ("z", "1"), ("z", "2"), ("z", "3")])
    group.run(2)
    assert header_of(group.raw_log("a")[0]).end == 6
    group.crash("a")
    elect_uncleanly(group, "b")
    group.start("a")
    group.run(3)
    # Records that it removed because of later ones, now lost, are there again.
    assert group.log("a").end == group.log("b").end == 3
    assert view(group, "a") == view(group, "b") == {b"x": b"1", b"y": b"0"}


@pytest.mark.parametrize(("arrived", "knows_high"), [(5, True), (5, False), (2, False)])
def test_a_filled_log_begins_anew_if_a_newer_record_is_cut_or_never_came(
    arrived: int, knows_high: bool
) -> None:
    group = compacted(tail_bytes=0, page_bytes=1, joined_bytes=1, unlinked_s=0.1)
    group.crash("c")
    group.run(1)
    fill(group, [("x", "0"), ("y", "0"), ("z", "0")])
    group.crash("b")
    group.run(1)
    fill(group, [("x", "1"), ("z", "1")])
    group.run(2)
    group.start("c")
    group.run(2)
    assert view(group, "c") == {b"x": b"1", b"y": b"0", b"z": b"1"}
    assert header_of(group.raw_log("c")[0]).flags & SPARSE
    group.crash("c")
    group.crash("a")
    disk = group.ledgers["c"]
    disk._logs[NAME].keep(0, arrived)
    if not knows_high:
        disk._records[NAME] = replace(disk._records[NAME], high=0)
    elect_uncleanly(group, "b")
    group.start("c")
    group.run(3)
    assert view(group, "c") == view(group, "b") == {b"x": b"0", b"y": b"0", b"z": b"0"}


def test_a_follower_shows_no_record_before_the_newer_ones_of_its_key_have_arrived() -> None:
    group = compacted(joined_bytes=1, unlinked_s=0.1)
    group.cut("a", "c")
    group.run(0.5)
    fill(group, [("x", "0"), ("y", "0"), ("x", "1"), ("z", "0")])
    group.run(2)
    first, *rest = group.raw_log("a")
    assert header_of(first).flags & SPARSE
    for part, high in (([first], 0), (rest, 4)):
        end = group.log("c").end
        append = (NAME, group.document.epoch, 0, end, group.log("a").high, 0, 0, part)
        group.feed("c", Received("a", Append([append])))
        assert group.log("c").high == high


@pytest.mark.parametrize("keys_max", [1, 2, 3])
def test_few_keys_in_memory_take_more_passes(keys_max: int) -> None:
    group = compacted(keys_max=keys_max, step_bytes=1)
    fill(group, [(key, f"{key}{number}") for number in range(3) for key in "xyz"])
    fill(group, [("end", "1")])
    group.run(8)
    assert [offset for offset, _, _ in group.records("a")] == [6, 7, 8, 9]


def test_records_below_the_start_are_removed_and_the_batch_that_holds_it_stays() -> None:
    group = compacted(tail_bytes=0)
    group.produce("1", "2", "3", key=b"x")
    group.produce("4", key=b"y")
    group.produce("5", key=b"z")
    group.machines["a"].replicas.trim(group.log("a"), 2)
    group.run(2)
    assert group.records("a") == [(2, b"x", b"3"), (3, b"y", b"4"), (4, b"z", b"5")]
    assert group.values(2) == ["3", "4", "5"]


def test_a_replica_that_ends_within_the_first_batch_goes_on_there() -> None:
    group = compacted(tail_bytes=0)
    fill(group, [("x", "0"), ("y", "0")])
    group.crash("c")
    group.run(1)
    fill(group, [(key, f"{key}{number}") for number in range(3) for key in "xyz"])
    group.run(2)
    assert header_of(group.raw_log("a")[0]).base < 2 < header_of(group.raw_log("a")[0]).end
    group.machines["a"].replicas.trim(group.log("a"), 3)
    group.run(0.1)
    group.start("c")
    group.run(3)
    assert (group.alarms, group.machines["c"].core.counters["restarted_at_start"]) == ([], 0)
    assert (group.log("c").start, group.log("c").end) == (3, 11)
    assert view(group, "c") == view(group, "a")


def test_a_full_disk_is_not_compacted() -> None:
    group = compacted()
    group.feed("a", Room(has_room=False))
    group.machines["a"].core.has_room = False
    before = group.machines["a"].core.counters["compactions"]
    group.run(2)
    assert group.machines["a"].core.counters["compactions"] == before


# Batches


def batch(base: int, records: Sequence[Record], **header: Any) -> bytes:
    head = BatchHeader(base, len(records), 1, 7, 7, "", 0, 0, 0, 0)._replace(**header)
    return seal(place_of(NAME), head, b"".join(map(pack, records)))


def whole(raw: bytes, **more: Any) -> Any:
    return rewritten(
        header_of(raw), raw, NewestOffsets(), BOUNDS, **({"keeps_header": False} | more)
    )


def test_joined_batches_keep_the_time_of_each_record() -> None:
    one = whole(batch(0, [Record(b"x", b"1")], last_us=10))
    other = whole(batch(1, [Record(b"y", b"2", (), 3)], last_us=20))
    both = joined(one, other, 1 << 20)
    assert both is not None
    raw = both.sealed(place_of(NAME))
    header = header_of(raw)
    assert (header.base, header.records, header.last_us) == (0, 2, 20)
    assert [record.client_us for _, record in records_of(header, raw)] == [10, 3]


APART = {
    "two terms": ({}, {"epoch": 2}, False),
    "too large": ({}, {}, True),
    "purged": ({"flags": PURGED}, {}, False),
}


@pytest.mark.parametrize("why", APART)
def test_batches_that_differ_stay_apart(why: str) -> None:
    first, second, is_large = APART[why]
    one = whole(batch(0, [Record(b"x", b"1")], **first))
    other = whole(batch(1, [Record(b"y", b"2")], **second))
    assert joined(one, other, 1 if is_large else 1 << 20) is None


def test_a_batch_that_keeps_its_header_is_joined_to_no_other() -> None:
    plain = whole(batch(0, [Record(b"x", b"1")]))
    named = whole(batch(1, [Record(b"y", b"2")], producer="p"), keeps_header=True)
    assert joined(plain, named, 1 << 20) is None
    assert joined(named, plain, 1 << 20) is None


def test_a_part_of_a_batch_has_its_records_and_none_of_its_producer() -> None:
    raw = batch(5, [Record(b"x", b"1"), Record(b"y", b"2"), Record(b"z", b"3")], producer="p")
    part = cut_out(place_of(NAME), raw, header_of(raw), 6, 8)
    header = header_of(part)
    assert (header.base, header.end, header.producer) == (6, 8, "")
    assert [(offset, record.key) for offset, record in records_of(header, part)] == [
        (6, b"y"), (7, b"z")
    ]  # fmt: skip


def test_a_batch_that_this_version_cannot_read_stays_as_it_is() -> None:
    raw = batch(0, [Record(b"x", b"1")], flags=0b11100)
    newest = NewestOffsets()
    newest.note(header_of(raw), raw)
    assert len(newest) == 0
    assert not whole(raw).is_changed
    assert not header_of(raw).flags & COUNTED
