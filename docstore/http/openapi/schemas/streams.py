"""Schemas of topics, partitions, records and producers."""

from docstore.http.openapi.schemas.shapes import (
    ANY,
    BYTES,
    FLAG,
    MAYBE,
    MAYBE_TEXT,
    TEXT,
    THING,
    WHOLE,
    Schemas,
    asked,
    either,
    many,
    of,
    one,
    only,
    ref,
    shown,
    text,
    told,
    whole,
)
from docstore.http.openapi.schemas.shared import STORED, stored
from docstore.streams.replica_set import COMPRESSIONS
from docstore.streams.topic import CLEANUPS

TOPIC_NAME = text(r"^[A-Za-z0-9_~@!$&'()*+,;=:-][A-Za-z0-9._~@!$&'()*+,;=:-]*$", 1, 255)
NO_BOUND = 1 << 62
_RETENTION = told(only(ms=whole(0, NO_BOUND), bytes=whole(0, NO_BOUND)), "0 bytes: no bound")
_LAG = only(ms=whole(100, 86_400_000), records=whole(0, 1 << 40))
_COMPRESSION = told(one(*COMPRESSIONS), "How leaders compress batches")
_CLEANUP = told(one(*CLEANUPS), "How records are removed: by age, by key, or both")
_PARTITION = {
    "partition": WHOLE, "leader": TEXT, "epoch": WHOLE, "resolution": MAYBE_TEXT,
    "replicas": many(TEXT),
    "lrs": told(many(many(TEXT)), "The live replica set: nodes, and their copies"),
    "minInSync": WHOLE, "leo": MAYBE, "hw": MAYBE, "base": MAYBE, "followers": many(THING),
}  # fmt: skip
_FLIGHTS = {
    "name": "flights", "incarnation": "7f3a", "partitions": 6, "replicationFactor": 3,
    "minInSync": 2, "retention": {"ms": 604800000, "bytes": 0}, "resolution": "provisioned",
    **stored("/core/streams/flights", "docstore:Topic"),
}  # fmt: skip
_FIRST = {
    "partition": 0, "leader": "n1", "epoch": 3, "resolution": "provisioned",
    "replicas": ["n1", "n2", "n3"], "minInSync": 2, "leo": 12, "hw": 12, "base": 0,
    "followers": [],
}  # fmt: skip
_RECORD = {"key": "LH100", "value": {"delay": 12}}
_POSITION = {"next": 12, "hw": 12, "leo": 12, "base": 0, "epoch": 3, "incarnation": "7f3a"}
_KEPT = {"offset": 11, "epoch": 3, "timestampMicros": 1795000000000000, **_RECORD}
_APPENDED = {
    "partition": WHOLE, "base": WHOLE, "count": WHOLE, "epoch": WHOLE, "leo": WHOLE, "hw": MAYBE,
}  # fmt: skip

STREAMS: Schemas = {
    "NewTopic": shown(
        only(
            "", "name", name=TOPIC_NAME, partitions=whole(1, 10_000),
            replicationFactor=whole(1, 16),
            minInSync=told(whole(1, 16), "At most `replicationFactor`"), retention=_RETENTION,
            maxLag=_LAG, batchBytesMax=whole(1 << 10, 1 << 20), compression=_COMPRESSION,
            cleanup=_CLEANUP, unclean=FLAG,
        ),
        {"name": "flights", "partitions": 6},
    ),
    "TopicChange": shown(
        only(retention=_RETENTION, minInSync=told(whole(1, 16), "At most `replicationFactor`"),
             maxLag=_LAG, partitions=told(whole(1, 10_000), "Only more"),
             compression=_COMPRESSION, cleanup=_CLEANUP, unclean=FLAG),
        {"partitions": 12},
    ),
    "Topic": shown(
        of(name=TEXT, incarnation=TEXT, partitionCount=WHOLE, resolution=TEXT, **STORED), _FLIGHTS
    ),
    "Partition": shown(of(**_PARTITION), _FIRST),
    "Partitions": shown(
        of(documentSelfLink=TEXT, documentLinks=many(TEXT), partitions=many(ref("Partition"))),
        {"partitions": [_FIRST]},
    ),
    "PartitionRequest": shown(
        either(
            asked("ElectRequest", unclean=FLAG),
            asked("MoveLeaderRequest", "to", to=TEXT),
            asked("MoveRequest", "replicas", replicas=many(TEXT, least=1)),
            asked("DeleteRecordsRequest", "before",
                  before=told(whole(-1, 1 << 62), "An offset, or -1 for all committed records")),
        ),
        {"kind": "MoveLeaderRequest", "to": "n2"},
    ),
    "Commanded": shown(
        of(documentSelfLink=TEXT), {"documentSelfLink": "/core/streams/flights/partitions/0"}
    ),
    "RecordsDeleted": shown(
        of(documentSelfLink=TEXT, base=told(WHOLE, "Offset at which the partition begins now")),
        {"documentSelfLink": "/core/streams/flights/partitions/0", "base": 1200},
    ),
    "NewRecord": shown(
        only("A record. `key` chooses the partition, unless `partition` names it.",
             key=told(text(most=1 << 16) | {"type": ["string", "null"]}, "In bytes of UTF-8"),
             value=ANY, tombstone=told(FLAG | {"not": {"const": False}},
                            "True, in place of `value`: deletes the key"),
             headers={"type": "object", "additionalProperties": TEXT,
                                 "maxProperties": 64,
                                 "propertyNames": text(least=1, most=255)},
             partition=told(whole(0, 9_999), "That of the path, where it names one"))
        | {"if": {"required": ["tombstone"]}, "then": {"not": {"required": ["value"]}},
           "else": {"required": ["value"]}},  # Generators of clients skip an object with `oneOf`.
        _RECORD,
    ),
    "SeveralRecords": shown(
        only("", "records", records=many(ref("NewRecord"), least=1)), {"records": [_RECORD]}
    ),
    "NewRecords": shown(
        {"description": "One record, or several.",
         **either(ref("NewRecord"), ref("SeveralRecords"))},
        {"records": [_RECORD, {"key": "BA7", "value": {"delay": 0}}]},
    ),
    "PackedRecord": shown(
        told(many(ANY, 4, 4), "`[key, value, headers, time]` in msgpack; the value bytes or nil"),
        ["LH100", '{"delay": 12}', None, None],
    ),
    "Appended": shown(
        of("Of one partition; or `parts`, of several.", **_APPENDED, repeated=FLAG,
           parts=many(of(**_APPENDED, records=many(WHOLE), status=WHOLE, errorCode=TEXT,
                         outcome=TEXT))),
        {"partition": 0, "base": 11, "count": 1, "epoch": 3, "leo": 12, "hw": 12},
    ),
    "Record": shown(
        of("A record; or, as the last line of NDJSON, the position behind the records.",
           offset=WHOLE, epoch=WHOLE, key=ANY, value=ANY, headers=THING, timestampMicros=WHOLE,
           tombstone=FLAG, valueBase64=TEXT, keyBase64=TEXT, complete=FLAG, next=WHOLE, hw=MAYBE),
        _KEPT,
    ),
    "Records": shown(
        of(records=many(ref("Record")), next=WHOLE, hw=MAYBE, leo=WHOLE, base=WHOLE, epoch=WHOLE,
           incarnation=TEXT),
        {"records": [_KEPT], **_POSITION},
    ),
    "Batches": shown(
        told(BYTES, "Batches as they are stored, each after its length in 4 bytes"), "0000"
    ),
    "NewProducer": shown(
        only("", "id", id=text("^[A-Za-z0-9_][A-Za-z0-9._:@-]{0,127}$")), {"id": "loader"}
    ),
    "Producer": shown(of(id=TEXT, epoch=WHOLE), {"id": "loader", "epoch": 3}),
}  # fmt: skip
