"""The routes of topics, partitions, records and producers."""

from docstore.http.changes import EVENTS_TYPE
from docstore.http.consume import BATCHES_TYPE
from docstore.http.representation import MSGPACK_TYPE
from docstore.http.results import NDJSON_TYPE
from docstore.http.routes.documents import CHANGING, described_utilities
from docstore.http.routes.route import (
    ADMIN,
    INSIDE,
    READ,
    WRITE,
    About,
    Body,
    Op,
    Permissions,
    Route,
)
from docstore.http.streams import StreamPages

WAITS = ("Docstore-Timeout-Ms",)
WAYS = (
    Body("NewRecords"), Body("NewRecord", NDJSON_TYPE), Body("PackedRecord", MSGPACK_TYPE),
)  # fmt: skip
FORMS = (
    Body("Record", NDJSON_TYPE), Body("Records"), Body("Record", EVENTS_TYPE),
    Body("Batches", BATCHES_TYPE),
)  # fmt: skip
_PARTITIONS = "/core/streams/{topic}/partitions"

STREAMS: About = About(
    "streams", "Topics of records: appended in order, read from any place, never changed.",
    (
        # A client that appends records need not be able to delete the topic.
        Route("/core/streams", {
            "GET": Op("The topics", {200: "Page"}, handler=StreamPages.get_list,
                      query=("expand", "$limit", "after"), checks_query=False),
            "POST": Op("Make a topic", {201: "Topic", 202: "Topic"}, "NewTopic",
                       StreamPages.create, headers=("Prefer", "Idempotency-Key", *WAITS),
                       audited=True),
        }, StreamPages, Permissions(READ, ADMIN, posts=WRITE, makes=INSIDE)),
        Route("/core/streams/{topic}", {
            "GET": Op("A topic and its partitions", {200: "Topic"}, handler=StreamPages.topic,
                      headers=WAITS),
            "PATCH": Op("Change what it keeps, or have more partitions", {200: "Topic"},
                        "TopicChange", StreamPages.change_topic, headers=CHANGING),
            "DELETE": Op("Delete it with all its records", {200: "Document"},
                         handler=StreamPages.change_topic, headers=CHANGING),
        }, StreamPages),
        Route("/core/streams/{topic}/records", {
            "POST": Op("Append records, each to the partition of its key", {200: "Appended"}, WAYS,
                       StreamPages.produce, query=("acks",), negotiates=False,
                       headers=("Docstore-Producer", *WAITS), receives=False,
                       tells="A request with a `Docstore-Producer` is for the path of a partition: "
                       "here it is 400."),
        }, StreamPages),
        Route(_PARTITIONS, {
            "GET": Op("Its partitions, with what their leaders say", {200: "Partitions"},
                      handler=StreamPages.partitions, headers=WAITS),
        }, StreamPages),
        Route(f"{_PARTITIONS}/{{partition}}", {
            "GET": Op("A partition", {200: "Partition"}, handler=StreamPages.partition,
                      headers=WAITS),
            "PATCH": Op("Choose a leader, move its replicas, or delete records",
                        {200: "RecordsDeleted", 202: "Commanded"},
                        "PartitionRequest", StreamPages.partition, headers=WAITS),
        }, StreamPages),
        Route(f"{_PARTITIONS}/{{partition}}/records", {
            "GET": Op(
                "Read records", {200: FORMS}, handler=StreamPages.records,
                query=("from@records", "incarnation", "isolation", "maxBytes", "maxRecords",
                       "waitMs"),
                headers=("Prefer", "Docstore-Token", "Docstore-Consistency", "Last-Event-ID",
                         *WAITS),
                tells="As JSON, NDJSON, events or sealed batches, by `Accept`.", has_head=False,
                checks_query=False,
            ),
            "POST": Op("Append records to this partition", {200: "Appended"}, WAYS,
                       StreamPages.produce, query=("acks",), negotiates=False, receives=False,
                       headers=("Docstore-Producer", *WAITS)),
        }, StreamPages),
        Route(f"{_PARTITIONS}/{{partition}}/records/{{offset}}", {
            "GET": Op("One record, as a document", {200: "Document", 304: ""},
                      handler=StreamPages.record, query=("incarnation",),
                      headers=("If-None-Match", *WAITS)),
        }, StreamPages),
        *described_utilities(_PARTITIONS, f"{_PARTITIONS}/{{partition}}"),
        Route("/core/producers", {
            "POST": Op("The next epoch of a producer", {200: "Producer"}, "NewProducer",
                       StreamPages.next_epoch, headers=WAITS),
        }, StreamPages, Permissions(READ, WRITE, makes=INSIDE)),
    ),
)  # fmt: skip
