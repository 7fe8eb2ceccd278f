"""What is asked of topics, partitions, records and producers."""

from docstore.http.openapi.of_documents import CHANGING, utilities
from docstore.http.openapi.operation import About, Op

WAITS = ("Docstore-Timeout-Ms",)
WAYS = ("application/json", "application/x-ndjson", "application/msgpack")
_PARTITIONS = "/core/streams/{topic}/partitions"

STREAMS = About(
    "streams", "Topics of records: appended in order, read from any place, never changed.",
    {
        "/core/streams": {
            "GET": Op("The topics", {200: "Page"}, query=("expand", "$limit", "after")),
            "POST": Op("Make a topic", {201: "Topic", 202: "Topic"}, "NewTopic",
                       headers=("Prefer", "Idempotency-Key", *WAITS)),
        },
        "/core/streams/{topic}": {
            "GET": Op("A topic and its partitions", {200: "Topic"}, headers=WAITS),
            "PATCH": Op("Change what it keeps, or have more partitions", {200: "Document"},
                        "TopicChange", headers=CHANGING),
            "DELETE": Op("Delete it with all its records", {200: "Document"}, headers=CHANGING),
        },
        "/core/streams/{topic}/records": {
            "POST": Op("Append records, each to the partition of its key", {200: "Appended"}, WAYS,
                       query=("acks",), headers=("Docstore-Producer", *WAITS),
                       tells="A request with a `Docstore-Producer` is for the path of a partition: "
                       "here it is 400."),
        },
        "/core/streams/{topic}/partitions": {
            "GET": Op("Its partitions, with what their leaders say", {200: "Partitions"},
                      headers=WAITS),
        },
        "/core/streams/{topic}/partitions/{partition}": {
            "GET": Op("A partition", {200: "Partition"}, headers=WAITS),
            "PATCH": Op("Choose a leader, or move its replicas", {202: "Object"},
                        "PartitionRequest", headers=WAITS),
        },
        "/core/streams/{topic}/partitions/{partition}/records": {
            "GET": Op(
                "Read records", {200: "Records"},
                query=("from@records", "incarnation", "isolation", "maxBytes", "maxRecords",
                       "waitMs"),
                headers=("Prefer", "Docstore-Token", "Docstore-Consistency", "Last-Event-ID",
                         *WAITS),
                tells="As JSON, NDJSON, events or sealed batches, by `Accept`.", has_head=False,
            ),
            "POST": Op("Append records to this partition", {200: "Appended"}, WAYS,
                       query=("acks",), headers=("Docstore-Producer", *WAITS)),
        },
        "/core/streams/{topic}/partitions/{partition}/records/{offset}": {
            "GET": Op("One record, as a document", {200: "Document", 304: ""},
                      query=("incarnation",), headers=("If-None-Match", *WAITS)),
        },
        **utilities(_PARTITIONS, f"{_PARTITIONS}/{{partition}}"),
        "/core/producers": {
            "POST": Op("The next epoch of a producer", {200: "Producer"}, "NewProducer",
                       headers=WAITS),
        },
    },
)  # fmt: skip
