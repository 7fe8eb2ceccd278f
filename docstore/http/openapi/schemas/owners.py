"""Schemas of leases, locks, elections, groups and roles."""

from docstore.http.openapi.schemas.shapes import (
    ANY,
    FLAG,
    MAYBE,
    NAME,
    TEXT,
    THING,
    WHOLE,
    Json,
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
from docstore.http.openapi.schemas.streams import TOPIC_NAME

_NUMBER = whole(0, 1 << 62)
_TOKEN = told(whole(1, 1 << 62), "The token under which the turn was won")
_CANDIDATE = text(r"^[!-~]([ -~]{0,198}[!-~])?$", 1, 200)
_TO = told(
    text(least=1, form="offset"),
    "`beginning`, `end`, `end-10`, an offset, a time with its zone, `@` and microseconds, `+10` and"
    " `-10` from the present offset, or `none`",
)
_LEASE = told(text(r"^(/core/leases/)?[A-Za-z0-9_~@!$&'()*+,;=:-]+$", 1, 512), "Its id or link")
_SESSION = {
    "mode": one("exclusive", "nonExclusive"), "sessionMs": whole(500, 3_600_000),
    "heartbeatMs": whole(1, 14_400_000), "windowMs": whole(1, 14_400_000),
    "revokeMs": whole(0, 14_400_000),
}  # fmt: skip
_TOPICS: Json = {**many(TOPIC_NAME, least=1), "uniqueItems": True}
_MEMBER = told(text("^[^/%]+$", 1, 200), "An id that no other process has, such as a UUID")
_VALUE = told(ANY, "At most 4,096 bytes as JSON")
_COUNTED = {"number": told(_NUMBER, "Grows from one request of a candidate to the next")}
_HEARTBEAT = {"kind": "HeartbeatRequest", "number": 7, "generation": 2, "listing": 1}
_OFFSET = {"topic": "flights", "partition": 0, "offset": 12, "token": 3}


def _turns(campaign: str, resign: str) -> Json:
    """Return the schema of the requests to an election or a lock."""
    held = {"candidate": _CANDIDATE, "token": _TOKEN, **_COUNTED}
    return either(
        asked(campaign, "candidate lease", candidate=_CANDIDATE, lease=_LEASE, value=_VALUE,
              **_COUNTED),
        asked(resign, "candidate token", **held),
        asked(resign, "candidate lease", candidate=_CANDIDATE, lease=_LEASE, **_COUNTED),
        asked("TransferRequest", "candidate token to", to=_CANDIDATE, **held),
        asked("ProclaimRequest", "candidate token value", value=_VALUE, **held),
    )  # fmt: skip


OWNERS: Schemas = {
    "NewLease": shown(
        only(ttlMs=whole(500, 3_600_000), behavior=one("delete", "release"),
             holder=text(most=1024), documentSelfLink=_LEASE),
        {"ttlMs": 10_000, "holder": "host-7", "documentSelfLink": "billing~7"},
    ),
    "KeepAlive": shown(
        only("", "leases", leases=many(_LEASE, 10_000, 1)), {"leases": ["billing~7"]}
    ),
    "KeptAlive": shown(
        of("`gone`: no longer renewed. `unknown`: no owner has answered.", alive=many(TEXT),
           gone=many(TEXT), unknown=many(TEXT)),
        {"alive": ["billing~7"], "gone": [], "unknown": []},
    ),
    "LeaseRequest": shown(
        either(
            asked("KeepAliveRequest"), asked("AttachRequest", "link", link=text("^/")),
            asked("DetachRequest", "link", link=text("^/")), asked("ExpireRequest"),
        ),
        {"kind": "KeepAliveRequest"},
    ),
    "LeaseAnswer": shown(of("`ttlMs`; or the document.", ttlMs=WHOLE), {"ttlMs": 10_000}),
    "NewTurns": shown(
        only("", "name", name=NAME, graceMs=whole(0, 3_600_000)), {"name": "billing"}
    ),
    "CampaignRequest": shown(
        _turns("CampaignRequest", "ResignRequest"),
        {"kind": "CampaignRequest", "candidate": "host-7", "lease": "billing~7",
         "value": {"url": "http://host-7:9000"}},
    ),
    "LockRequest": shown(
        _turns("AcquireRequest", "ReleaseRequest"),
        {"kind": "AcquireRequest", "candidate": "host-7", "lease": "billing~7"},
    ),
    "TurnAnswer": shown(
        of("`won` with the `token`, or the `position` in the queue; and the document.", won=FLAG,
           token=WHOLE, position=WHOLE, holder=ANY, queue=many(THING)),
        {"won": True, "token": 1},
    ),
    "NewGroup": shown(
        only("", "name topics", name=NAME, topics=_TOPICS, **_SESSION),
        {"name": "etl", "topics": ["flights"]},
    ),
    "NewRoles": shown(
        only("", "name partitions", name=NAME, partitions=whole(1, 4_096), **_SESSION),
        {"name": "pricing", "partitions": 12, "sessionMs": 6_000},
    ),
    "GroupSettings": shown(only(topics=_TOPICS, **_SESSION), {"sessionMs": 10_000}),
    "RoleSettings": shown(
        only(partitions=whole(1, 4_096), **_SESSION), {"sessionMs": 10_000}
    ),
    "GroupMembers": shown(of("What the coordinator knows of the members."), {"members": []}),
    "NewMember": shown(
        only("", "member", member=_MEMBER, instance=text(most=200), host=text(most=200),
             capacity=whole(1, 1_000), former=TEXT),
        {"member": "a9d5c1f0", "host": "host-7"},
    ),
    "Joined": shown(
        of(kind=TEXT, generation=WHOLE, settings=THING, parts=THING),
        {"kind": "Joined", "generation": 2, "settings": {"mode": "exclusive"}, "parts": {"": 12}},
    ),
    "MemberRequest": shown(
        either(
            asked("HeartbeatRequest", "number generation listing", number=_NUMBER,
                  generation=whole(-1, 1 << 62), listing=_NUMBER, answered=_NUMBER,
                  owned={**many(text(least=1), 4_096), "uniqueItems": True}),
            asked("WaitRequest", "generation listing", generation=whole(-1, 1 << 62),
                  listing=_NUMBER),
        ),
        _HEARTBEAT,
    ),
    "MemberAnswer": shown(
        of("`Confirmed`, `Changed`, `Again`, `Woken` or `Left`.", kind=TEXT, listing=WHOLE,
           generation=WHOLE, assigned=THING, kept=many(TEXT), revoked=many(TEXT),
           lost=many(TEXT)),
        {"kind": "Confirmed", "listing": 1},
    ),
    "Offsets": shown(
        only(
            "", "offsets", member=TEXT, generation=_NUMBER,
            offsets=many(only(
                "", "topic partition offset token", topic=TOPIC_NAME, partition=_NUMBER,
                offset=_NUMBER, token=_TOKEN, recordEpoch=_NUMBER, metadata=text(most=4_096),
                incarnation=TEXT,
            ), 4_096),
        ),
        {"member": "a9d5c1f0", "generation": 2, "offsets": [_OFFSET]},
    ),
    "OffsetResults": shown(
        of("A result for each, in order.",
           offsets=many(of(topic=TEXT, partition=WHOLE, status=WHOLE, code=TEXT, detail=TEXT,
                           outcome=TEXT))),
        {"offsets": [{"topic": "flights", "partition": 0, "status": 200}]},
    ),
    "OffsetList": shown(
        of(offsets=many(of(topic=TEXT, partition=WHOLE, offset=WHOLE, token=MAYBE,
                           incarnation=TEXT, metadata=TEXT, start=MAYBE, end=MAYBE,
                           lag=MAYBE))),
        {"offsets": [_OFFSET | {"start": 0, "end": 1250, "lag": 50}]},
    ),
    "OffsetsReset": shown(
        either(
            asked("ResetRequest", "to", to=_TO, dryRun=FLAG),
            asked("ResetRequest", "topic to", topic=TOPIC_NAME, partition=_NUMBER, to=_TO,
                  dryRun=FLAG),
        ),
        {"kind": "ResetRequest", "topic": "flights", "to": "beginning", "dryRun": True},
    ),
    "OffsetMoves": shown(
        of("The offset of each partition before, and after.",
           offsets=many(of(topic=TEXT, partition=WHOLE, before=WHOLE, offset=WHOLE, status=WHOLE,
                           code=TEXT, detail=TEXT, outcome=TEXT)), dryRun=FLAG),
        {"offsets": [{"topic": "flights", "partition": 0, "before": 1200, "offset": 0}],
         "dryRun": True},
    ),
    "OffsetRequest": shown(
        either(
            asked("ClaimRequest", "token", token=_TOKEN, generation=_NUMBER, member=TEXT),
            asked("ResetRequest", "offset", offset=whole(-1, 1 << 62)),
        ),
        {"kind": "ResetRequest", "offset": -1},
    ),
}  # fmt: skip
