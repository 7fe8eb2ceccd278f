"""Wrong options and columns of a topic are named in one line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from pyspark.sql.types import StructType

from docstore.pipeline.errors import line_of
from docstore.pipeline.offsets import (
    Offsets,
    ending,
    insist_on_order,
    instant_us,
    latest,
    starting,
)
from docstore.pipeline.options import Options
from docstore.pipeline.planning import fair
from docstore.pipeline.producing import TaskAttempt, check_columns
from docstore.pipeline.source import ChangesSource, DocstoreSource, RecordsSource
from docstore.pipeline.subscribing import from_json, to_json, topics_of
from docstore.pipeline.topics import NoLeader, Partition, TopicState, whole_topic

URL = "http://127.0.0.1:1"
TOPIC = TopicState(
    "flights", "018f", 1 << 20, (Partition(5, 90, 100, "n1"), Partition(0, 40, 40, "n2"))
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": ""}, "give the nodes"),
        ({"path": ""}, "the name of a topic must be such as"),
        ({"path": "/flights"}, "got '/flights'"),
        ({"startingOfsets": "latest"}, "did you mean 'startingOffsets'?"),
        ({"startingOffsets": "first"}, "earliest, latest or offsets by partition"),
        ({"startingOffsets": '{"0": -3}'}, "earliest, latest or offsets by partition"),
        ({"startingOffsets": '{"a": 1}'}, "earliest, latest or offsets by partition"),
        ({"startingOffsets": '{"0": "1"}'}, "earliest, latest or offsets by partition"),
        ({"startingOffsets": "[1]"}, "earliest, latest or offsets by partition"),
        ({"endingOffsets": '{"0": -2}'}, "earliest, latest or offsets by partition"),
        ({"endingOffsets": "earliest"}, "endingOffsets must be latest or offsets"),
        ({"startingTimestamp": "yesterday"}, "must be a time with its zone"),
        ({"startingTimestamp": "2026-11-20T19:00:00"}, "must be a time with its zone"),
        ({"startingTimestamp": "0", "startingOffsets": "latest"}, "not both"),
        ({"endingTimestamp": "0", "endingOffsets": "latest"}, "not both"),
        ({"endingTimestamp": "noon"}, "endingTimestamp must be a time with its zone"),
        ({"subscribe": "flights"}, "give one of path and subscribe, not both"),
        ({"path": "", "subscribePattern": "("}, "subscribePattern must be a regular expression"),
        (
            {"path": "", "subscribe": "a", "startingOffsets": '{"0": 1}'},
            "offsets by topic and partition",
        ),
        ({"path": "", "subscribe": "a", "startingOffsets": '{"b": {"0": 1}}'}, "not subscribed to"),
        (
            {"path": "", "subscribePattern": "a.*", "endingOffsets": '{"ab": {"x": 1}}'},
            "endingOffsets must be earliest, latest or offsets by partition",
        ),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger must be a whole number"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be a whole number from 1"),
        ({"columns": "offset,body"}, "records have no column 'body'"),
        ({"columns": "offset,offset"}, "is named twice"),
        ({"valueAs": "json"}, "valueAs must be one of string, binary"),
    ],
)
def test_a_broken_option_is_one_line(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=r".") as seen:
        RecordsSource({"url": URL, "path": "flights"} | given)
    assert said in line_of(seen.value)
    assert len(str(seen.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("key string", "a record needs a column 'value'"),
        ("value string, origin string", "a record has no column 'origin'"),
        ("value struct<n: int>", "column 'value' is struct<n:int>, not string or binary"),
        ("value string, key int", "column 'key' is int, not string or binary"),
        ("value string, partition string", "column 'partition' is string, not int"),
        ("value string, headers string", "not map<string, string or binary>"),
        ("value string, headers map<string, int>", "not map<string, string or binary>"),
    ],
)
def test_a_column_that_no_record_has_is_refused(spark: Any, columns: str, said: str) -> None:
    schema = StructType.fromDDL(columns)
    assert isinstance(schema, StructType)
    with pytest.raises(ValueError, match=r".") as seen:
        check_columns(schema)
    assert said in str(seen.value)


def options(**given: str) -> Options:
    return Options({name.lower(): value for name, value in given.items()})


def test_offsets_are_words_or_numbers_and_default_to_all_records() -> None:
    assert starting(options(), TOPIC, "earliest").next == (5, 0)
    assert starting(options(), TOPIC, "latest").next == (90, 40)
    assert starting(options(startingOffsets="earliest"), TOPIC, "latest").next == (5, 0)
    assert starting(options(startingOffsets='{"0": 7}'), TOPIC, "latest").next == (7, 0)
    assert starting(options(startingOffsets='{"0": -1, "1": -2}'), TOPIC, "").next == (90, 0)
    assert ending(options(), TOPIC).next == (90, 40)
    assert ending(options(endingOffsets='{"1": 12, "of": "018f"}'), TOPIC).next == (90, 12)
    assert ending(options(endingOffsets='{"0": 95}'), TOPIC).next == (95, 40)


@pytest.mark.parametrize(
    ("given", "us"),
    [
        ("2026-11-20T19:00:00.123457+01:00", 1795197600123457),
        ("1795197600123", 1795197600123000),
        ("1969-12-31T00:00:00Z", 0),
    ],
)
def test_a_time_is_exact_to_the_microsecond(given: str, us: int) -> None:
    for name in ("startingTimestamp", "endingTimestamp"):
        assert instant_us(options(**{name: given}), name) == us


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"2": 0}', "has 2 partitions, 0 to 1; got partition 2"),
        ('{"1": 41}', "must be at most 40, its end; got 41"),
    ],
)
def test_impossible_offsets_are_refused(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        starting(options(startingOffsets=given), TOPIC, "latest")


@pytest.mark.parametrize(
    "given",
    [{"startingOffsets": '{"0": 60}', "endingOffsets": '{"0": 50}'}, {"endingOffsets": '{"0": 3}'}],
)
def test_an_end_before_the_beginning_is_an_error_and_not_an_empty_table(
    given: dict[str, str],
) -> None:
    def ends(**more: str) -> None:
        said = options(**given, **more)
        after, until = starting(said, TOPIC, "earliest"), ending(said, TOPIC)
        insist_on_order(said, TOPIC, after, until)

    with pytest.raises(ValueError, match="partition 0 of flights would end at"):
        ends()
    if "startingOffsets" not in given:
        ends(failOnDataLoss="false")  # Records were lost, which this option permits.


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_offsets_of_an_earlier_topic_of_that_name_are_refused(name: str) -> None:
    given = options(**{name: '{"0": 20, "1": 7, "of": "017a"}'})
    with pytest.raises(ValueError, match="of a topic flights that was deleted"):
        starting(given, TOPIC, "earliest") if name == "startingOffsets" else ending(given, TOPIC)


def test_an_option_that_a_stream_would_ignore_is_refused() -> None:
    records = RecordsSource({"url": URL, "path": "flights", "endingOffsets": "latest"})
    feed = ChangesSource({"url": URL, "path": "/films", "end": "latest"})
    for source in (records, feed):
        with pytest.raises(ValueError, match=r"would be ignored, because a stream has no end"):
            source.streamReader(StructType([]))
    for writer in (
        RecordsSource({"url": URL, "path": "flights", "batchId": "1"}),
        DocstoreSource({"url": URL, "path": "/films", "batchId": "1"}),
    ):
        with pytest.raises(ValueError, match="a stream numbers its batches itself"):
            writer.streamWriter(StructType([]), overwrite=False)


def test_offsets_come_back_from_a_checkpoint_and_know_partitions_that_came_later() -> None:
    here = Offsets("018f", tuple(range(12)))
    assert Offsets.from_json(here.to_json()) == here
    assert (here.at(11), here.at(12)) == (11, 0)


def test_offsets_of_several_topics_have_their_names() -> None:
    some = options(url=URL, subscribe="flights, delays", startingOffsets='{"delays": {"0": 4}}')
    topics = topics_of(some)
    assert [each.topic for each in topics.values()] == list(topics) == ["flights", "delays"]
    assert topics["flights"].text("startingOffsets") == ""
    assert starting(topics["delays"], TOPIC, "latest").next == (4, 0)
    here = {"flights": Offsets("018f", (1, 2)), "of": Offsets("017a", (3,))}
    assert from_json(some, to_json(some, here)) == here
    one = options(url=URL, path="flights")
    assert to_json(one, {"flights": here["flights"]}) == here["flights"].to_json()
    with pytest.raises(ValueError, match="the checkpoint is of a query on other topics"):
        from_json(some, here["flights"].to_json())
    with pytest.raises(ValueError, match="the checkpoint is of a query on other topics"):
        from_json(one, to_json(some, here))


def test_a_bound_is_shared_by_lag_and_none_is_all() -> None:
    assert fair([0, 5, 10], None) == fair([0, 5, 10], 20) == [0, 5, 10]
    assert fair([0, 5, 10], 6) == [0, 2, 4]
    assert fair([1, 1, 1], 2) == [1, 1, 0]


def test_a_producer_is_named_by_its_job_and_its_epoch_by_the_batch() -> None:
    assert (TaskAttempt("a job; x=1", 4, 2).producer, TaskAttempt("j", 4, 2).epoch) == (
        "spark-a%20job%3B%20x%3D1-2", 5
    )  # fmt: skip
    assert len(TaskAttempt("j" * 500, 0, 1).producer) < 100


@contextmanager
def node_that_shows(**partition: object) -> Iterator[str]:
    """Run a node whose topics have one partition, with these figures."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = {"incarnation": "018f", "batchBytesMax": 1, "partitions": [partition]}
            body = json.dumps(page).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return "docstore"

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("leader", "known", "said"),
    [
        ("n1", 7, "does not know yet what is committed"),
        ("n1", None, "does not answer"),
        ("", None, "partition 0 of flights: it has no leader"),
    ],
)
def test_a_plan_without_a_known_end_fails_with_the_reason(
    leader: str, known: int | None, said: str
) -> None:
    with (
        node_that_shows(leader=leader, hw=None, base=known, leo=known) as url,
        pytest.raises(NoLeader, match=said),
    ):
        whole_topic(options(url=url, path="flights", retries="0"))


def test_a_leader_without_a_known_committed_end_ends_at_its_base_or_later() -> None:
    topic = TopicState(
        "flights", "018f", 1 << 20, (Partition(5, -1, 9, "n1"), Partition(-1, -1, -1, ""))
    )
    assert latest(topic).next == (5, 0)
