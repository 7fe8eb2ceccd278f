"""Schemas of requests about many documents: queries, bulk requests, subscriptions, scans."""

from docstore.http.openapi.schemas.shapes import (
    ANY,
    BYTES,
    FLAG,
    INSTANT_US,
    LARGEST,
    PATH,
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
    shown,
    text,
    told,
    whole,
)
from docstore.query.scans_columns import COLUMNS

FILTER = text(least=1, most=16_384, form="condition")
CONDITION = text(most=16_384, form="condition")
_MEMBER = r"[A-Za-z_]\w*(/[A-Za-z_]\w*)*"
ORDER = text(rf"^{_MEMBER}( (asc|desc))?(, ?{_MEMBER}( (asc|desc))?){{0,3}}$")
SELECT = text(rf"^{_MEMBER}(,{_MEMBER}){{0,63}}$")
AS_OF = told(
    text(least=1, form="cut"),
    "`latest`, `barrier`, a time that is past, a snapshot's name, or the token of a cut",
)
SINCE = told(
    text(least=1, form="position"),
    "`next` of an answer, a cut, `earliest`, `latest`, a time that is past, a snapshot's name",
)
PAGE = whole(1, 10_000)
_AGGREGATES = told(text(form="aggregates"), "Such as `count(*) as films, avg(rating)`")
_RATE = {"type": "number", "minimum": 0, "maximum": 10**12}
_NUMBER = whole(0, LARGEST)
_CUT = told(
    many(many(_NUMBER, 2, 2), 65_536),
    "Pairs of a slot and its last row: each slot once",
)
_RANGES = told(
    many(many(_NUMBER, 3, 3), 65_536),
    "A slot, the row to begin after, and the last row: each slot once",
)
_LINES = "Members in place of a request's headers: `key` of `Idempotency-Key`."
_PACE = {
    "rowsPerSecond": _RATE, "job": text(most=256),
    "compression": one("", "zstd", "lz4"), "catchUpMs": {**_RATE, "maximum": 60_000},
}  # fmt: skip
_FACTORY = told(text("^(/[A-Za-z0-9_~@!$&'()*+,;=:-]+)+/$"), "The path of a factory and a `/`")
_BELOW = told(text("^/([A-Za-z0-9_~@!$&'()*+,;=:-]+/)*$"), "A path and a `/`")
_COLUMNS = {**many(one(*COLUMNS)), "uniqueItems": True}
_QUERY = only(
    "", "path", path=PATH, filter=FILTER, where=CONDITION, orderBy=ORDER, select=SELECT,
    expand=FLAG, limit=PAGE, top=PAGE, count=FLAG, explain=FLAG, asOf=AS_OF,
    deleted=FLAG, versions=one("latest", "all"),
)  # fmt: skip
_GROUPED = only(
    "", "path aggregates", path=PATH, filter=FILTER, where=CONDITION, aggregates=_AGGREGATES,
    groupBy=text(form="members"), asOf=AS_OF, deleted=FLAG, versions=one("latest", "all"),
    limit=PAGE,
)  # fmt: skip

DOCUMENTS: Schemas = {
    "BulkLine": shown(
        only(
            f"An operation on a document. {_LINES}", "link",
            op=one("POST", "PUT", "PATCH", "DELETE"), link=PATH,
            body=told({"type": ["object", "array"]}, "With PATCH an array is a JSON patch"),
            ifVersion=_NUMBER, mustExist=FLAG, recreate=FLAG,
            key=text(most=128),
            writer=only("The bulk job that sends the line", "job batch",
                        job=text(least=1, most=128), batch=_NUMBER, sequence=whole(-1, LARGEST)),
        ),
        {"op": "PUT", "link": "/films/4", "body": {"title": "Solaris", "year": 1972}},
    ),
    "BulkResult": shown(
        of("The result of a line; one that failed has `outcome`, `errorCode` and `detail`.",
           "link status", link=TEXT, status=WHOLE, version=WHOLE, repeated=FLAG,
           outcome=one("not_applied", "unknown"), errorCode=TEXT, detail=TEXT),
        {"link": "/films/4", "status": 201, "version": 0},
    ),
    "NewSubscription": shown(
        only(
            "", "callback", callback=text("^https?://", form="uri"), where=CONDITION, since=SINCE,
            before=told(FLAG, "With the body of each version before"),
            replayState=told(FLAG, "All documents first; not with `since`"),
            secret=told(text("^whsec_"), "`whsec_` and 24 to 64 bytes in base64"),
            documentExpirationTimeMicros=INSTANT_US,
        ),
        {"callback": "https://hooks.example.com/films", "where": "rating > 7"},
    ),
    "SubscriptionRequest": shown(
        either(asked("PauseRequest", why=text(most=200)),
               asked("ResumeRequest", why=text(most=200))),
        {"kind": "PauseRequest", "why": "the receiver is repaired"},
    ),
    "QueryRequest": shown(
        {
            "description": "A query, its groups, or the next page of one.",
            **either(_QUERY, _GROUPED,
                     only("", "cursor", cursor=text(least=1, form="cursor"))),
        },
        {"path": "/films", "filter": "rating gt 7", "select": "title,year", "limit": 2},
    ),
    "ChangesRequest": shown(
        only(prefix={"oneOf": [PATH, many(PATH, 64, 1)]}, since=SINCE, where=CONDITION,
             before=FLAG, limit=PAGE),
        {"prefix": ["/films", "/actors"], "since": "earliest", "where": "rating > 7",
         "before": True, "limit": 100},
    ),
    "Plan": shown(
        of(cut=TEXT, epochs=many(WHOLE), ends=many(WHOLE), arrow=FLAG, nodes=many(THING),
           slots=ANY),
        {"cut": "~AQID", "epochs": [4, 4], "ends": [120, 97], "arrow": False,
         "nodes": [{"id": "n1", "url": "http://10.0.0.1:8000", "zone": "", "status": "ALIVE"}]},
    ),
    "Layout": shown(
        of(nodes=many(THING), slots=ANY),
        {"nodes": [{"id": "n1", "url": "http://10.0.0.1:8000", "zone": "", "status": "ALIVE"}]},
    ),
    "High": shown(
        of(clusterId=TEXT, epochs=many(WHOLE), ends=many(WHOLE), kept=many(WHOLE),
           firstTimesMicros=many(WHOLE)),
        {"clusterId": "9f86d081884c7d65", "epochs": [4, 4], "ends": [120, 97], "kept": [0, 0],
         "firstTimesMicros": [1795000000000000, 1795000000000000]},
    ),
    "ScanRequest": shown(
        only(
            "", "prefix cut", prefix=_FACTORY, cut=_CUT, columns=_COLUMNS, filter=FILTER,
            where=CONDITION, versions=one("latest", "all"), deleted=FLAG, skip=_NUMBER,
            limit=whole(1, LARGEST), direct=FLAG, aggregates=_AGGREGATES,
            groupBy=text(form="members"), **_PACE,
        ),
        {"prefix": "/films/", "cut": [[17, 120]], "columns": ["documentSelfLink", "body"]},
    ),
    "StretchRequest": shown(
        only(
            "", "prefix ranges", prefix=_BELOW, ranges=_RANGES,
            columns=_COLUMNS, filter=FILTER, where=CONDITION, versions=one("latest", "all"),
            deleted=FLAG, skip=_NUMBER, limit=whole(1, LARGEST), nested=FLAG, direct=FLAG, **_PACE,
        ),
        {"prefix": "/films/", "ranges": [[17, 97, 120]]},
    ),
    "Row": shown(
        of("A row with the columns that were asked for; or, as the last line, the end of the "
           "answer: `complete`, `rows`, and the reason where rows are missing.",
           complete=FLAG, rows=WHOLE, status=WHOLE, errorCode=TEXT, detail=TEXT),
        {"documentSelfLink": "/films/4", "body": {"title": "Solaris"}},
    ),
    "ArrowStream": shown(
        told(BYTES, "An Arrow stream, and behind it the line with which NDJSON ends"), "ARROW1"
    ),
    "StoredRowsRequest": shown(
        only("", "ranges", ranges={**_RANGES, "minItems": 1}, of=one("log", "branches"),
             after=told({"type": ["array", "null"], "items": {}}, "`next` of the page before"),
             rows=whole(1, 8192), rowsPerSecond=_RATE, job=text(most=256)),
        {"ranges": [[17, 0, 120]], "of": "log"},
    ),
    "StoredRows": shown(
        of("For `docstore backup`; `block` is bytes.", rows=WHOLE, block=ANY,
           next={"type": ["array", "null"], "items": {}}),
        {"rows": 0, "next": None, "block": ""},
    ),
    "Staged": shown(of(part=TEXT, bytes=WHOLE), {"part": "0", "bytes": 812}),
    "StagedParts": shown(
        of(parts=many(THING)), {"parts": [{"job": "load", "part": "0", "bytes": 812}]}
    ),
    "Removed": shown(of(removed=FLAG), {"removed": True}),
    "Snapshot": shown(
        of("A cut whose history nodes keep.", "cut", cut=told(text(form="token"), "From "
           "`/core/spark/plan`"), documentExpirationTimeMicros=INSTANT_US),
        {"cut": "~AQID"},
    ),
    "Quota": shown(
        only(rowsPerSecond=_RATE, writesPerSecond=_RATE), {"rowsPerSecond": 10_000}
    ),
}  # fmt: skip
